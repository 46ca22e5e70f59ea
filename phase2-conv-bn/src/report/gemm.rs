//! The GEMM ladder, step by step, for both layouts of B.

use bench::ladder::{Contest, Cost, Expected, LoadedStep, columns, load_steps};
use bench::parts::{Part, Report};
use bench::table::{Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;
use common::reference;

use super::{IDEA, step_table};
use crate::gemm::{Epilogue, Gemm, LADDER, Layout};

/// `cargo run -p phase2-conv-bn -- gemm`.
pub const PART: Part = Part {
    name: "gemm",
    about: "the ladder of matrix products: what each step asks of the hardware, and what it takes",
    tables: &["gemm-steps", "gemm"],
    by_default: true,
    run,
};

/// M = N = K on the simulator: 2 × 2 of the largest tiles.
const SIMULATED: usize = 256;
/// M = N = K on a GPU: enough for every SM to be busy for long.
const MEASURED: usize = 4096;

/// The steps, and their table.
fn run(device: &Device) -> Result<Report> {
    let (table, wrong) = ladder(device)?;
    Ok(Report { tables: vec![steps(), table], wrong })
}

/// New idea of each step.
fn steps() -> Table {
    let mut table = TableBuilder::of("the GEMM ladder", [columns::STEP, IDEA]);
    for step in LADDER {
        table.row().set(columns::STEP, step.title()).set(IDEA, step.idea).complete();
    }
    table.finish()
}

/// Every step on one product.
fn ladder(device: &Device) -> Result<(Table, Vec<String>)> {
    let size = if device.is_sim() { SIMULATED } else { MEASURED };
    let title = format!("GEMM: C = A·B, {size} × {size} × {size}, on {}", device.short_name());
    let mut table = step_table(title, device);
    let (stream, bench) = (device.stream(), Bench { queue: Queue::Warm, ..Bench::default() });
    let problem = GemmProblem::seeded(device, [size; 3], Layout::RowMajor)?;
    let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &|_| () };
    let mut c = problem.output(device)?;
    for LoadedStep { title, step } in load_steps(LADDER, device)? {
        let run = contest.run(&title, &step, &mut c, |gemm, c| problem.launch(&stream, gemm, c))?;
        table.allow(problem.expected.tolerance().absolute);
        table.row(&[(columns::STEP, &title)], problem.cost(), &run);
    }
    Ok(table.finish())
}

/// One product, for every step.
#[derive(Debug)]
pub struct GemmProblem {
    /// M, N, K.
    pub size: [usize; 3],
    /// Layout of B in memory.
    pub layout: Layout,
    /// \[M, K\], on the device.
    pub a: Tensor,
    /// \[K, N\], or \[N, K\] if it is transposed; on the device.
    pub b: Tensor,
    /// Expected C.
    pub expected: Expected,
}

impl GemmProblem {
    /// A product of random matrices.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn seeded(device: &Device, size @ [m, n, k]: [usize; 3], layout: Layout) -> Result<GemmProblem> {
        let (a, b) = (Tensor::random(&[m, k], 1), Tensor::random(&layout.shape(n, k), 2));
        let product = reference::Gemm::new(a.as_slice()?, b.as_slice()?, m, n, k);
        let expected = Expected::gemm(&reference::Gemm { transposed: layout == Layout::Transposed, ..product }, 3)?;
        Ok(GemmProblem { size, layout, a: a.to_device(device)?, b: b.to_device(device)?, expected })
    }

    /// Two operations per multiply-add, and each matrix once.
    pub fn cost(&self) -> Cost {
        cost(self.size)
    }

    /// Memory for C.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn output(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_on(device, &self.size[..2])
    }

    /// Queues C = A·B.
    ///
    /// # Errors
    /// Same as [`Gemm::launch`].
    pub fn launch(&self, stream: &Stream, gemm: &Gemm, c: &mut Tensor) -> Result<()> {
        gemm.launch(stream, &self.a, &self.b, self.layout, &Epilogue::default(), c)
    }
}

/// Cost of a product of M, N, K.
pub fn cost([m, n, k]: [usize; 3]) -> Cost {
    Cost {
        flops: 2.0 * m as f64 * n as f64 * k as f64,
        bytes: 4.0 * (m * k + k * n + m * n) as f64,
        values: (m * n) as f64,
    }
}
