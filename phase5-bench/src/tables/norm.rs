//! `norm`: every step of BatchNorm, ReLU and the statistics of channels on a tensor that no cache holds, beside cuDNN and PyTorch.
//!
//! They compute next to nothing: what they take is what moving their bytes takes. So the measure is the device's own copy.

use std::iter::repeat_with;
use std::time::Duration;

use common::device::SimOptions;
use common::ladder;
use common::peer::Cudnn;
use common::prelude::*;
use common::progress::Progress;
use common::table::{Cell, Column, Table};
use common::timing::{Bench, Queue};
use phase2_conv_bn::norm::ladders::{Operation, Problem, Rung, norm, shape};

use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::board::{Entry, NO_CLOCK, cell, if_supported};
use crate::torch::{self, Mode, PeerRequest};

/// One row.
struct Row {
    operation: Operation,
    by: String,
    entry: Entry,
    /// The same step on a simulator that counts.
    counted: Option<Rung>,
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "norm",
    shows: "each step of BatchNorm, ReLU, statistics: ms, GB/s, % of a copy",
    so_far: "",
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let shape = shape(device);
    let bench = Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() };
    let progress = Progress::new(16, "norm");
    let step = |what: &str| {
        progress.set_message(format!("norm: {what}"));
        progress.inc(1);
    };
    step("PyTorch");
    let pytorch = torch::measure(
        device,
        &bench,
        &[
            PeerRequest::batch_norm(shape, Mode::Eager),
            PeerRequest::relu(shape, Mode::Eager),
            PeerRequest::statistics(shape, Mode::Eager),
        ],
    );
    step("f64 reference");
    let problem = Problem::seeded(shape)?;
    step("cuDNN");
    let cudnn = Row {
        operation: Operation::BatchNorm,
        by: "cuDNN".to_owned(),
        entry: Entry::Checked(by_cudnn(device, &bench, &problem)?),
        counted: None,
    };
    let rungs = problem.run(device, &bench, |operation, title| step(&format!("{}, {title}", operation.name())))?;
    let counted = counted(device, &bench, &problem)?;

    let mut rows: Vec<Row> = rungs
        .into_iter()
        .zip(counted.into_iter().map(Some).chain(repeat_with(|| None)))
        .map(|(rung, counted)| Row {
            operation: rung.operation,
            by: rung.step,
            entry: Entry::Checked(rung.outcome),
            counted,
        })
        .collect();
    let of_pytorch = [Operation::BatchNorm, Operation::ReluInPlace, Operation::Statistics];
    let peers = of_pytorch.into_iter().zip(pytorch.timings).map(|(operation, timing)| Row {
        operation,
        by: "PyTorch eager".to_owned(),
        entry: Entry::Elsewhere(timing),
        counted: None,
    });
    rows.extend([cudnn].into_iter().chain(peers));
    // Each peer behind the steps of its operation.
    rows.sort_by_key(|row| row.operation as usize);
    tabulate(context, shape, &rows, pytorch.version)
}

fn by_cudnn(device: &Device, bench: &Bench, problem: &Problem) -> crate::Result<ladder::Outcome> {
    let stream = device.stream();
    let cudnn = match if_supported(Cudnn::open(&stream))? {
        Ok(cudnn) => cudnn,
        Err(reason) => return Ok(ladder::Outcome::Unsupported(reason)),
    };
    let (x, parameters) = (problem.input().to_device(device)?, problem.parameters(device)?);
    let mut y = Tensor::empty_on(device, x.shape())?;
    let launch = |y: &mut Tensor| cudnn.batch_norm(&x, &norm(&parameters), y);
    Ok(ladder::run(&stream, bench, &mut y, problem.normalised(), launch)?)
}

/// The steps once more, on a simulator that profiles; none beside a GPU, which does not count.
fn counted(device: &Device, bench: &Bench, problem: &Problem) -> crate::Result<Vec<Rung>> {
    if device.is_cuda() {
        return Ok(Vec::new());
    }
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    Ok(problem.run(&device, bench, |_, _| ())?)
}

fn tabulate(
    context: &Context,
    shape: [usize; 4],
    rows: &[Row],
    pytorch: Option<String>,
) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let values: usize = shape.iter().product();
    let limits = context.limits()?;
    let mut columns = vec![
        Column::text("operation"),
        Column::text("step"),
        Column::number("ms", 4),
        Column::number("GB/s", 0),
        Column::number("% of copy", 1),
        Column::number("max |Δ|", 3),
        Column::text("check"),
    ];
    if device.is_sim() {
        columns.splice(5..5, [Column::number("MB asked", 2), Column::number("sectors a request", 1)]);
    }
    let [n, c, h, w] = shape;
    let title = format!("norm: BatchNorm, ReLU, statistics of {n}×{c}×{h}×{w} in f32 on {}", device.short_name());
    let mut table = Table::new(title, columns);
    let mut wrong = Vec::new();
    for Row { operation, by, entry, counted } in rows {
        let ms = entry.ms();
        let rate = ms.clone().map(|ms| operation.bytes(values) as f64 / (ms * 1e-3));
        let of_copy = rate.clone().and_then(|rate| match limits {
            Some(limits) => Ok(100.0 * rate / limits.bandwidth),
            None => Err(NO_CLOCK.to_owned()),
        });
        let mut cells: Vec<Cell> = vec![operation.name().into(), by.as_str().into()];
        cells.extend([cell(ms.clone()), cell(rate.map(|rate| rate / 1e9)), cell(of_copy)]);
        if device.is_sim() {
            let reason = ms.err().unwrap_or_default();
            let of = |count: fn(&Rung) -> Option<f64>| Cell::or_absent(counted.as_ref().and_then(count), &reason);
            cells.extend([of(|rung| Some(rung.bytes_asked()? / 1e6)), of(Rung::sectors_a_request)]);
        }
        cells.extend(entry.check(&format!("{}, {by}", operation.name()), &mut wrong));
        table.row(cells);
    }
    match &limits {
        Some(limits) => {
            table.note(
                "Medians by events of the device alone, launches queued ahead, inputs as warm as a run leaves them. GB/s: each \
                 value read once and, but for statistics, written once.",
            );
            table.note(limits.note());
        }
        None => {
            table.note(
                "MB asked: what lanes loaded and stored, 10⁶ bytes. sectors a request: of 32 bytes, for each load of a warp: 4 \
                 for neighbours of 4 bytes, 16 for vectors of 16.",
            );
        }
    }
    table.note("· in place: BatchNorm into its own input. ReLU is in place throughout.");
    table.note(
        "|Δ|: to the f64 reference, for every value; of mean and variance the larger. f32 rounding may cost what `check` \
         derives. Scale and shift, where a step folds them, are made once a layer and not timed.",
    );
    if let Some(version) = pytorch {
        table.note(format!("PyTorch {version}, in a process of its own; its statistics are var_mean."));
    }
    Ok(FinishedTable { table, wrong })
}
