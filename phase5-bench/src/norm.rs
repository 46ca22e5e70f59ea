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
use common::ptx_sim::{Counters, Profile};
use common::table::{Cell, Column, Table};
use common::timing::{Bench, Queue};
use phase2_conv_bn::norm::ladders::{Operation, Problem, norm};

use crate::board::{Entry, NO_CLOCK, cell, if_supported};
use crate::tables::{Context, Outcome};
use crate::torch::{self, Mode, Work};

/// ResNet18's first BatchNorm over so many images that they are 2²⁶ values but for a thousandth.
const MEASURED: [usize; 4] = [334, 64, 56, 56];
const SIMULATED: [usize; 4] = [2, 64, 28, 28];

/// One row.
struct Row {
    operation: Operation,
    by: String,
    entry: Entry,
    /// What the simulator counted.
    profiles: Vec<Profile>,
}

/// Makes the table.
///
/// # Errors
/// What the device reports.
pub fn run(context: &Context) -> crate::Result<Outcome> {
    let device = &context.device;
    let shape = if device.is_cuda() { MEASURED } else { SIMULATED };
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
        &[Work::batch_norm(shape, Mode::Eager), Work::relu(shape, Mode::Eager), Work::statistics(shape, Mode::Eager)],
    );
    step("f64 reference");
    let problem = Problem::seeded(shape)?;
    step("cuDNN");
    let cudnn = Row {
        operation: Operation::BatchNorm,
        by: "cuDNN".to_owned(),
        entry: Entry::Checked(by_cudnn(device, &bench, &problem)?),
        profiles: Vec::new(),
    };
    let rungs = problem.run(device, &bench, |operation, title| step(&format!("{}, {title}", operation.name())))?;
    let counted = counted(device, &bench, &problem)?;

    let mut rows: Vec<Row> = rungs
        .into_iter()
        .zip(counted.into_iter().chain(repeat_with(Vec::new)))
        .map(|(rung, profiles)| Row {
            operation: rung.operation,
            by: rung.step,
            entry: Entry::Checked(rung.outcome),
            profiles,
        })
        .collect();
    let of_pytorch = [Operation::BatchNorm, Operation::ReluInPlace, Operation::Statistics];
    let peers = of_pytorch.into_iter().zip(pytorch.timings).map(|(operation, timing)| Row {
        operation,
        by: "PyTorch eager".to_owned(),
        entry: Entry::Elsewhere(timing),
        profiles: Vec::new(),
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

/// What each step's launches asked of memory, by a simulator that profiles; nothing of a GPU, which does not.
fn counted(device: &Device, bench: &Bench, problem: &Problem) -> crate::Result<Vec<Vec<Profile>>> {
    if device.is_cuda() {
        return Ok(Vec::new());
    }
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    Ok(problem.run(&device, bench, |_, _| ())?.into_iter().map(|rung| rung.profiles).collect())
}

fn tabulate(context: &Context, shape: [usize; 4], rows: &[Row], pytorch: Option<String>) -> crate::Result<Outcome> {
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
    for Row { operation, by, entry, profiles } in rows {
        let ms = entry.ms();
        let rate = ms.clone().map(|ms| operation.bytes(values) as f64 / (ms * 1e-3));
        let of_copy = rate.clone().and_then(|rate| match limits {
            Some(limits) => Ok(100.0 * rate / limits.bandwidth),
            None => Err(NO_CLOCK.to_owned()),
        });
        let mut cells: Vec<Cell> = vec![operation.name().into(), by.as_str().into()];
        cells.extend([cell(ms.clone()), cell(rate.map(|rate| rate / 1e9)), cell(of_copy)]);
        if device.is_sim() {
            cells.extend(asked(profiles, &ms.err().unwrap_or_default()));
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
    Ok(Outcome { table, wrong })
}

/// The two columns of counts.
fn asked(profiles: &[Profile], reason: &str) -> [Cell; 2] {
    if profiles.is_empty() {
        return [Cell::absent(reason), Cell::absent(reason)];
    }
    let mut sum = Counters::default();
    profiles.iter().for_each(|profile| sum += profile.counters);
    let sectors = sum.global_load_sectors as f64 / sum.global_load_requests.max(1) as f64;
    [((sum.global_load_bytes + sum.global_store_bytes) as f64 / 1e6).into(), sectors.into()]
}
