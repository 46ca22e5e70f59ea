//! `conv`: every step of the convolution's ladder, cuDNN and PyTorch, over the shapes of ResNet18 and of the video U-Net.

use std::time::Duration;

use common::ladder::{self, Expected};
use common::peer::Cudnn;
use common::prelude::*;
use common::progress::Progress;
use common::timing::{Bench, Queue};
use phase2_conv_bn::conv::shapes::{NOTATION, Shape, shape};
use phase2_conv_bn::conv::{LADDER, Tuned};

use crate::limits::RooflineCost;
use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::board::{Board, Entry, Patience, Problem, faster, if_supported};
use crate::torch::{self, Mode, PeerRequest};

/// On the simulator: one of each kind, small.
const SIMULATED: [Shape; 4] =
    [shape(3, 16, 7, 2, 33), shape(16, 24, 3, 1, 14), shape(16, 32, 3, 2, 14), shape(16, 32, 1, 2, 14)];

/// What the measured convolution of this name costs.
pub(crate) fn roofline_cost(name: &str) -> Option<RooflineCost> {
    Shape::from_name(name).map(|shape| RooflineCost { flops: shape.flops(), bytes: shape.bytes() })
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "conv",
    shows: "each step of the convolution × shapes: ms, TFLOP/s, % of cuDNN",
    so_far: "",
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let shapes = if device.is_cuda() { Shape::all().collect() } else { SIMULATED.to_vec() };
    let bench = Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() };
    let stream = device.stream();
    let cudnn = if_supported(Cudnn::open(&stream))?;
    let steps = LADDER
        .iter()
        .map(|step| Ok((step.title(), if_supported(step.load(device))?)))
        .collect::<common::Result<Vec<_>>>()?;
    let chooser = Tuned::load(device)?;
    let progress = Progress::new((shapes.len() * (LADDER.len() + 3)) as u64, "conv");
    progress.set_message("conv: PyTorch");
    let work: Vec<PeerRequest> = shapes
        .iter()
        .map(|shape| PeerRequest::conv2d(shape.input(), shape.weight(), shape.params(), Mode::Eager))
        .collect();
    let pytorch = torch::measure(device, &bench, &work);

    let mut board = Board::new(context, "conv: convolutions in f32, NCHW", "convolution", "cuDNN")?;
    board.note(NOTATION);
    let mut chosen = Vec::new();
    let mut patience = Patience::default();
    for (&shape, pytorch) in shapes.iter().zip(pytorch.timings) {
        let (name, params) = (shape.name(), shape.params());
        let (x, w) = (Tensor::random(&shape.input(), 1), Tensor::random(&shape.weight(), 2));
        let expected = Expected::conv2d(&x, &w, None, params, 3)?;
        let (x, w) = (x.to_device(device)?, w.to_device(device)?);
        let mut y = Tensor::empty_on(device, &shape.output())?;
        let check = |step: &str, y: &mut Tensor, launch: &mut dyn FnMut(&mut Tensor) -> Result<()>| {
            progress.set_message(format!("conv: {step} at {name}"));
            progress.inc(1);
            ladder::run(&stream, &bench, y, &expected, launch)
        };
        let tuned = match &cudnn {
            Ok(cudnn) => if_supported(cudnn.conv2d(&x, &w, params, &mut y))?,
            Err(reason) => Err(reason.clone()),
        };
        let no_peer = tuned.as_ref().err().cloned().unwrap_or_default();
        let mut plan = tuned.ok();
        if let Some(plan) = &plan {
            chosen.push(format!("{name}: {}", plan.algorithm()));
        }
        let mut library = |y: &mut Tensor| match &mut plan {
            Some(plan) => check("cuDNN", y, &mut |y| plan.launch(&x, &w, None, y)),
            None => Ok(ladder::Outcome::Unsupported(no_peer.clone())),
        };
        let before = library(&mut y)?;
        let mut entries = Vec::new();
        for (number, (step, conv)) in steps.iter().enumerate() {
            let entry = match conv {
                Ok(conv) => patience.run(number, shape.flops(), || {
                    check(step, &mut y, &mut |y| conv.launch(&stream, &x, &w, None, params, y))
                })?,
                Err(reason) => Entry::LeftOut(reason.clone()),
            };
            entries.push((step.as_str(), entry));
        }
        let best = check("tuned", &mut y, &mut |y| chooser.launch(&stream, &x, &w, None, params, y))?;
        entries.push(("tuned", Entry::Checked(best)));
        entries.push(("PyTorch eager", Entry::Elsewhere(pytorch)));
        let library = Entry::Checked(faster(before, library(&mut y)?));
        let problem = Problem { name: &name, flops: shape.flops(), peer_ms: library.median_ms(), no_peer: &no_peer };
        board.row(&problem, "cuDNN", &library);
        for (step, entry) in &entries {
            board.row(&problem, step, entry);
        }
    }
    if !chosen.is_empty() {
        board.note(format!("cuDNN, tuned by itself without tensor cores, chose: {}.", chosen.join("; ")));
    }
    if let Some(version) = pytorch.version {
        board.note(format!("PyTorch {version}, cuDNN's own tuning, without TF32."));
    }
    Ok(board.finish())
}
