//! `norm`: every step of BatchNorm, ReLU and the statistics of channels on a tensor that no cache holds, compared with cuDNN and
//! PyTorch.
//!
//! They compute almost nothing: their time is that of moving their bytes. So the measure is the device's own copy.

use bench::ladder::{Contest, LadderTable, Peak, StepResult, StepRun, columns, if_supported};
use bench::peer::Cudnn;
use bench::table::ColumnSpec;
use bench::timing::Bench;
use common::device::SimOptions;
use common::prelude::*;
use common::progress::Progress;
use phase2_conv_bn::norm::ladders::{Operation, Problem, Rung, norm, shape};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::peers::{self, PYTORCH_AUTOTUNED, PYTORCH_EAGER};
use crate::torch::{Mode, PeerRequest};

pub(crate) const OPERATION: ColumnSpec = ColumnSpec::text("operation", "operation");
const COLUMNS: &[ColumnSpec] = &[
    OPERATION,
    columns::STEP,
    columns::MS,
    columns::GBPS,
    columns::OF_COPY,
    columns::MB_ASKED.on_simulator(),
    columns::SECTORS_PER_REQUEST.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "norm",
    shows: "each step of BatchNorm, ReLU, statistics: ms, GB/s, % of a copy",
    uses: &[Need::Gpu, Need::Cudnn, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let shape = shape(device);
    let bench = peers::bench();
    let progress = Progress::new(16, "norm");
    let step = |what: &str| {
        progress.set_message(format!("norm: {what}"));
        progress.inc(1);
    };
    step("PyTorch");
    const MODES: [(&str, Mode); 2] = [(PYTORCH_EAGER, Mode::Eager), (PYTORCH_AUTOTUNED, Mode::Autotuned)];
    let requests = MODES.map(|(_, mode)| {
        [PeerRequest::batch_norm(shape, mode), PeerRequest::relu(shape, mode), PeerRequest::statistics(shape, mode)]
    });
    let pytorch = context.pytorch.measure(device, &bench, requests.as_flattened());
    step("f64 reference");
    let problem = Problem::seeded(shape)?;
    let by_cudnn = by_cudnn(device, &bench, &problem, &step)?;
    let mut rungs = problem.run(device, &bench, |operation, title| step(&format!("{}, {title}", operation.name())))?;
    for (rung, profiled) in rungs.iter_mut().zip(profiled(device, &bench, &problem)?) {
        rung.run.profiles = profiled.run.profiles;
    }

    rungs.push(Rung { operation: Operation::BatchNorm, step: "cuDNN".to_owned(), run: by_cudnn });
    let of_pytorch = [Operation::BatchNorm, Operation::ReluInPlace, Operation::Statistics];
    let rows = MODES.into_iter().flat_map(|(name, _)| of_pytorch.map(|operation| (name, operation)));
    rungs.extend(rows.zip(pytorch.timings).map(|((name, operation), timing)| Rung {
        operation,
        step: name.to_owned(),
        run: StepResult::Elsewhere(timing).into(),
    }));
    // Each peer after the steps of its operation.
    rungs.sort_by_key(|rung| rung.operation as usize);

    let (limits, [n, c, h, w]) = (context.limits()?, shape);
    let title = format!("norm: BatchNorm, ReLU, statistics of {n}×{c}×{h}×{w} in f32 on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peak(limits.map(Peak::from));
    for Rung { operation, step, run } in &rungs {
        let cost = operation.cost(shape.iter().product());
        table.row(&[(OPERATION, operation.name()), (columns::STEP, step)], cost, run);
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
                "MB asked: what lanes loaded and stored, 10⁶ bytes. sectors per request: of 32 bytes, for each load of a warp: 4 \
                 for neighbours of 4 bytes, 16 for vectors of 16.",
            );
        }
    }
    table.note("· in place: BatchNorm into its own input. ReLU is in place throughout.");
    table.note(
        "|Δ|: to the f64 reference, for every value; of mean and variance the larger. f32 rounding may cost what `check` \
         derives. Scale and shift, where a step folds them, are made once a layer and not timed.",
    );
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}, in a process of its own; its statistics are var_mean. Tuned: torch.compile with max-autotune, as a CUDA graph."
        ));
    }
    Ok(table.into())
}

fn by_cudnn(device: &Device, bench: &Bench, problem: &Problem, announce: &dyn Fn(&str)) -> crate::Result<StepRun> {
    let stream = device.stream();
    let cudnn = if_supported(Cudnn::open(&stream))?;
    let (x, parameters) = (problem.input().to_device(device)?, problem.parameters(device)?);
    let mut y = Tensor::empty_on(device, x.shape())?;
    let contest = Contest { stream: &stream, bench, expected: problem.normalised(), announce };
    Ok(contest.run("cuDNN", &cudnn, &mut y, |cudnn, y| cudnn.batch_norm(&x, &norm(&parameters), y))?)
}

/// The steps once more, on a simulator that profiles; none on a GPU, which does not count.
fn profiled(device: &Device, bench: &Bench, problem: &Problem) -> crate::Result<Vec<Rung>> {
    if device.is_cuda() {
        return Ok(Vec::new());
    }
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    Ok(problem.run(&device, bench, |_, _| ())?)
}
