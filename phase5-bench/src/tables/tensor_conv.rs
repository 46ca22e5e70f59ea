//! `tensor-conv`: convolutions on tensor cores in f16, channels last, over ResNet18's layers.

use bench::ladder::{
    Contest, Cost, ELSEWHERE, LadderTable, LoadedStep, StepResult, StepRun, columns, if_supported, load_steps,
};
use bench::table::ColumnSpec;
use common::prelude::*;
use common::progress::Progress;
use phase2_conv_bn::conv::shapes::{NOTATION, RESNET18, Shape, shape};
use phase4_fusion::conv::problem::{ConvProblem, Finish};
use phase4_fusion::conv::{LADDER, Tuned};
use phase4_fusion::gemm::{Activation, Precision};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::peers;
use crate::torch::{Mode, PeerRequest};

/// The convolution of a row.
pub(crate) const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "convolution");
const COLUMNS: &[ColumnSpec] = &[
    PROBLEM,
    columns::STEP,
    columns::MS,
    columns::TFLOPS.on_gpu(),
    columns::OF_PEER,
    columns::LANES_PER_PRODUCT.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Reference of the times: cuDNN's fastest engine for the layer, as found by PyTorch.
const LIBRARY: &str = "PyTorch (cuDNN)";
/// The compiler's fastest of all that it tries; cuDNN's engines are among them.
const AUTOTUNED: &str = peers::PYTORCH_AUTOTUNED;
/// The choice, with BatchNorm and SiLU in its epilogue.
const FUSED: &str = "tuned, fused";
/// PyTorch with the same.
const COMPILED: &str = "PyTorch tuned, fused";
const FUSED_GRAPH: &str = "PyTorch graph, fused";

/// PyTorch's, with the names of their rows, whether BatchNorm and SiLU follow, and the mode. Compiled ones come last: if one
/// takes too long, the others are there.
const PEERS: [(&str, bool, Mode); 4] = [
    (LIBRARY, false, Mode::Eager),
    (FUSED_GRAPH, true, Mode::Graph),
    (COMPILED, true, Mode::Autotuned),
    (AUTOTUNED, false, Mode::Autotuned),
];

/// Images, on a GPU.
const BATCHES: [usize; 3] = [1, 32, 256];
/// Images of the layers that are also compared with PyTorch's fusion, which takes long to compile.
const FUSED_BATCH: usize = 32;
/// On the simulator: one of each kind, small.
const SIMULATED: [Shape; 4] =
    [shape(64, 64, 3, 1, 8), shape(64, 72, 1, 2, 9), shape(256, 64, 3, 1, 4), shape(3, 64, 7, 2, 24)];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "tensor-conv",
    shows: "convolutions on tensor cores × ResNet18's layers: ms, % of cuDNN",
    uses: &[Need::Gpu, Need::Hopper, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// ResNet18's convolutions, each with several numbers of images.
fn shapes(device: &Device) -> Vec<Shape> {
    if device.is_sim() {
        return SIMULATED.to_vec();
    }
    RESNET18.into_iter().flat_map(|shape| BATCHES.map(|batch| shape.images(batch))).collect()
}

/// Two operations per multiply-add; input, weight and output once each, two bytes per value.
fn cost(shape: Shape) -> Cost {
    let cost = shape.cost();
    Cost { bytes: cost.bytes / 2.0, ..cost }
}

/// Cost of the convolution of a row, if it is a name of one.
pub(crate) fn roofline_cost(name: &str) -> Option<Cost> {
    Shape::from_name(name).map(cost)
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let (shapes, stream, bench) = (shapes(device), device.stream(), peers::bench());
    let steps = load_steps(LADDER, device)?;
    let tuned = if_supported(Tuned::load(device))?;
    let progress = Progress::new((shapes.len() * (steps.len() + 3)) as u64, "tensor-conv");
    progress.set_message("tensor-conv: PyTorch");
    let asked: Vec<(&str, Shape, PeerRequest)> = PEERS
        .iter()
        .flat_map(|&(by, silu, mode)| {
            let shapes = shapes.iter().filter(move |shape| !silu || shape.batch == FUSED_BATCH);
            shapes.map(move |&shape| {
                let request = PeerRequest::half_conv2d(shape.input(), shape.weight(), shape.params(), silu, mode);
                (by, shape, request)
            })
        })
        .collect();
    let requests: Vec<PeerRequest> = asked.iter().map(|(.., request)| request.clone()).collect();
    let pytorch = context.pytorch.measure(device, &bench, &requests);

    let title = format!("tensor-conv: convolutions in f16, channels last, on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peer("cuDNN");
    table.note(NOTATION);
    table.note(
        "Inputs, weights and outputs are f16, sums f32. |Δ|: to the f64 product of the same rounded values, over all outputs or \
         those of 256 pixels.",
    );
    table.note("fused: with BatchNorm, as a scale and a shift per channel, and SiLU.");
    if device.is_cuda() {
        table.note(peers::MEDIANS);
    }
    let finishes = [Finish::default(), Finish { scale_shift: true, activation: Activation::Silu, ..Finish::default() }];
    // Of cuDNN's time and that of our choice.
    let mut ratios: Vec<(usize, f64)> = Vec::new();
    for &shape in &shapes {
        let name = shape.name();
        let announce = |step: &str| {
            progress.set_message(format!("tensor-conv: {step} at {name}"));
            progress.inc(1);
        };
        let [plain, fused] = finishes.map(|finish| {
            ConvProblem::seeded(device, shape.input(), shape.weight(), shape.params(), Precision::F16, finish)
        });
        let (plain, fused) = (plain?, fused?);
        let contest = |problem| Contest { stream: &stream, bench: &bench, expected: problem, announce: &announce };
        let mut y = plain.output(device)?;
        let mut runs: Vec<(&str, StepRun)> = Vec::new();
        for LoadedStep { title, step } in &steps {
            let run = contest(&plain.expected).run(title, step, &mut y, |conv, y| {
                conv.launch(&stream, &plain.x, &plain.w, plain.params, &plain.epilogue(), y)
            })?;
            runs.push((title, run));
        }
        for (title, problem) in [(peers::TUNED, &plain), (FUSED, &fused)] {
            let run = contest(&problem.expected).run(title, &tuned, &mut y, |tuned, y| {
                tuned.launch(&stream, &problem.x, &problem.w, problem.params, &problem.epilogue(), y)
            })?;
            runs.push((title, run));
        }
        let elsewhere = |by: &str| {
            let at = asked.iter().position(|(peer, of, _)| *peer == by && of.name() == name)?;
            Some(StepRun::from(StepResult::Elsewhere(pytorch.timings[at].clone())))
        };
        let library = elsewhere(LIBRARY).unwrap_or_else(|| StepResult::Elsewhere(Err(ELSEWHERE.to_owned())).into());
        let chosen = runs.iter().find(|(title, _)| *title == peers::TUNED).map(|(_, run)| run.result.ms());
        if let (Ok(theirs), Some(Ok(ours))) = (library.result.ms(), chosen) {
            ratios.push((shape.batch, theirs / ours));
        }
        runs.extend([AUTOTUNED, COMPILED, FUSED_GRAPH].into_iter().filter_map(|by| Some((by, elsewhere(by)?))));
        table.problem((PROBLEM, &name), cost(shape), (LIBRARY, library), runs);
    }
    for batch in BATCHES {
        let of_batch: Vec<f64> = ratios.iter().filter(|(of, _)| *of == batch).map(|(_, ratio)| ratio.ln()).collect();
        if of_batch.len() == RESNET18.len() {
            let mean = (of_batch.iter().sum::<f64>() / of_batch.len() as f64).exp();
            table.note(format!(
                "tuned, geometric mean over ResNet18's {} layers, ×{batch}: {:.1} % of cuDNN.",
                RESNET18.len(),
                mean * 100.0
            ));
        }
    }
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}: cuDNN with its own tuning, eager; tuned, also fused, by torch.compile with max-autotune; fused by graph \
             as separate operations; these replayed as CUDA graphs."
        ));
    }
    Ok(table.into())
}
