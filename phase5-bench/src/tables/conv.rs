//! `conv`: every step of the convolution's ladder, cuDNN and PyTorch, over the shapes of ResNet18 and of the video U-Net.

use std::cell::RefCell;

use bench::ladder::{Contest, Cost, LadderTable, LoadedStep, Patience, StepResult, if_supported, load_steps};
use bench::peer::Cudnn;
use bench::table::ColumnSpec;
use common::prelude::*;
use common::progress::Progress;
use phase2_conv_bn::conv::shapes::{NOTATION, Shape, shape};
use phase2_conv_bn::conv::{LADDER, Tuned};
use phase2_conv_bn::report::conv::ConvProblem;

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::peers::{self, PYTORCH_AUTOTUNED, PYTORCH_EAGER};
use crate::torch::{Mode, PeerRequest};

/// The convolution of a row.
pub(crate) const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "convolution");
/// PyTorch's, with the names of their rows, and whether images and filters are channels last.
const PEERS: [(&str, Mode, bool); 3] = [
    (PYTORCH_EAGER, Mode::Eager, false),
    ("PyTorch NHWC", Mode::Eager, true),
    // Last: what takes longer than a peer may leaves the others as they are.
    (PYTORCH_AUTOTUNED, Mode::Autotuned, false),
];

const COLUMNS: &[ColumnSpec] = &peers::ladder_columns(PROBLEM);

/// On the simulator: one of each kind, small.
const SIMULATED: [Shape; 4] =
    [shape(3, 16, 7, 2, 33), shape(16, 24, 3, 1, 14), shape(16, 32, 3, 2, 14), shape(16, 32, 1, 2, 14)];

/// Cost of the measured convolution of this name.
pub(crate) fn roofline_cost(name: &str) -> Option<Cost> {
    Shape::from_name(name).map(Shape::cost)
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "conv",
    shows: "each step of the convolution × shapes: ms, TFLOP/s, % of cuDNN",
    uses: &[Need::Gpu, Need::Cudnn, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let shapes = if device.is_cuda() { Shape::all().collect() } else { SIMULATED.to_vec() };
    let (stream, bench) = (device.stream(), peers::bench());
    let cudnn = if_supported(Cudnn::open(&stream))?;
    let (steps, tuned) = (load_steps(LADDER, device)?, Ok(Tuned::load(device)?));
    let progress = Progress::new((shapes.len() * (steps.len() + 3)) as u64, "conv");
    progress.set_message("conv: PyTorch");
    let request = |shape: &Shape, mode, channels_last| {
        PeerRequest::conv2d(shape.input(), shape.weight(), shape.params(), mode).with_channels_last(channels_last)
    };
    // All shapes by one peer, then by the next.
    let requests: Vec<PeerRequest> = PEERS
        .iter()
        .flat_map(|&(_, mode, channels_last)| shapes.iter().map(move |shape| request(shape, mode, channels_last)))
        .collect();
    let pytorch = context.pytorch.measure(device, &bench, &requests);

    let title = format!("conv: convolutions in f32, NCHW on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peer("cuDNN");
    table = peers::noted(table, context.limits()?);
    table.note(NOTATION);
    let mut fastest = Vec::new();
    let mut patience = Patience::default();
    for (at, &shape) in shapes.iter().enumerate() {
        let (name, params) = (shape.name(), shape.params());
        let problem = ConvProblem::seeded(device, shape)?;
        let ConvProblem { x, w, expected, .. } = &problem;
        let announce = |step: &str| {
            progress.set_message(format!("conv: {step} at {name}"));
            progress.inc(1);
        };
        let contest = Contest { stream: &stream, bench: &bench, expected, announce: &announce };
        let mut y = problem.output(device)?;
        let plan = match &cudnn {
            Ok(cudnn) => if_supported(cudnn.conv2d(x, w, params, &mut y))?,
            Err(reason) => Err(reason.clone()),
        };
        if let Ok(plan) = &plan {
            fastest.push(format!("{name}: {}", plan.implementation()));
        }
        let plan = plan.map(RefCell::new);
        let by_library =
            |y: &mut Tensor| contest.run("cuDNN", &plan, y, |plan, y| plan.borrow_mut().launch(x, w, None, y));
        let before = by_library(&mut y)?;
        let mut runs = Vec::new();
        for LoadedStep { title, step } in &steps {
            let run = || contest.run(title, step, &mut y, |conv, y| problem.launch(&stream, conv, y));
            runs.push((title.as_str(), patience.run(title, shape.cost().flops, run)?));
        }
        let chosen =
            contest.run(peers::TUNED, &tuned, &mut y, |tuned, y| tuned.launch(&stream, x, w, None, params, y))?;
        runs.push((peers::TUNED, chosen));
        let elsewhere = pytorch.timings.iter().skip(at).step_by(shapes.len()).cloned();
        runs.extend(PEERS.iter().zip(elsewhere).map(|((by, ..), timing)| (*by, StepResult::Elsewhere(timing).into())));
        let library = before.or_faster(by_library(&mut y)?);
        table.problem((PROBLEM, &name), shape.cost(), ("cuDNN", library), runs);
    }
    if !fastest.is_empty() {
        let fastest = fastest.join("; ");
        table.note(format!(
            "cuDNN: the fastest of its engines and algorithms in f32 without tensor cores, each timed here. {fastest}."
        ));
    }
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}, cuDNN's own tuning, without TF32; NHWC: channels last; tuned: torch.compile with max-autotune, as a CUDA graph."
        ));
    }
    Ok(table.into())
}
