//! The GEMM ladder, step by step, for both layouts of B.

use common::ladder::{self, Expected, Outcome};
use common::prelude::*;
use common::reference;
use common::table::{Column, Table};
use common::timing::{Bench, Queue};

use super::{Part, Report, Rungs};
use crate::gemm::{Epilogue, LADDER, Layout};

/// `cargo run -p phase2-conv-bn -- gemm`.
pub const PART: Part = Part {
    name: "gemm",
    about: "the ladder of matrix products: what each step asks of the hardware, and what it takes",
    tables: &["gemm-steps", "gemm", "gemm-transposed"],
    by_default: true,
    run,
};

/// M = N = K on the simulator: 2 × 2 of the largest tiles.
const SIMULATED: usize = 256;
/// M = N = K on a GPU: enough for every multiprocessor to be busy for long.
const MEASURED: usize = 4096;

/// The steps, and their table for each layout of B.
fn run(device: &Device) -> Result<Report> {
    let mut report = Report { tables: vec![steps()], wrong: Vec::new() };
    for layout in Layout::ALL {
        let (table, wrong) = ladder(device, layout)?;
        report.tables.push(table);
        report.wrong.extend(wrong);
    }
    Ok(report)
}

/// What is new in each step.
fn steps() -> Table {
    let mut table = Table::new("the GEMM ladder", [Column::text("step"), Column::text("idea")]);
    for step in LADDER {
        table.row([step.title().into(), step.idea().into()]);
    }
    table
}

/// Every step on one product.
fn ladder(device: &Device, layout: Layout) -> Result<(Table, Vec<String>)> {
    let size = if device.is_sim() { SIMULATED } else { MEASURED };
    let form = match layout {
        Layout::RowMajor => "A·B",
        Layout::Transposed => "A·Bᵀ",
    };
    let title = format!("GEMM: C = {form}, {size} × {size} × {size}, on {}", device.short_name());
    let mut rungs = Rungs::new(title, device);

    let stream = device.stream();
    let (a, b) = (Tensor::random(&[size, size], 1), Tensor::random(&layout.shape(size, size), 2));
    let product = reference::Gemm::new(a.as_slice()?, b.as_slice()?, size, size, size);
    let expected = Expected::gemm(&reference::Gemm { transposed: layout == Layout::Transposed, ..product }, 3)?;
    let (a, b) = (a.to_device(device)?, b.to_device(device)?);
    let mut c = Tensor::empty_on(device, &[size, size])?;
    let bench = Bench { queue: Queue::Warm, ..Bench::default() };
    for step in LADDER {
        let outcome = match step.load(device) {
            Ok(gemm) => ladder::run(&stream, &bench, &mut c, &expected, |c| {
                gemm.launch(&stream, &a, &b, layout, &Epilogue::default(), c)
            })?,
            Err(error) if error.is_unsupported() => Outcome::Unsupported(error.to_string()),
            Err(error) => return Err(error),
        };
        rungs.row(step.title(), 2.0 * (size as f64).powi(3), expected.tolerance().absolute, &outcome);
    }
    Ok(rungs.finish())
}
