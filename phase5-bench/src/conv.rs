//! `conv`: every step of the convolution's ladder, cuDNN and PyTorch, over the shapes of ResNet18 and of the video U-Net.

use std::time::Duration;

use common::ladder::{self, Expected};
use common::peer::Cudnn;
use common::prelude::*;
use common::progress::Progress;
use common::reference::Conv2dParams;
use common::timing::{Bench, Queue};
use phase2_conv_bn::conv::{LADDER, Tuned};

use crate::board::{Board, Entry, Patience, Problem, faster, if_supported};
use crate::plot::Work as Needs;
use crate::tables::{Context, Outcome};
use crate::torch::{self, Mode, Work};

/// A square convolution without bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    batch: usize,
    channels: usize,
    out_channels: usize,
    window: usize,
    stride: usize,
    padding: usize,
    /// Height and width of the input.
    size: usize,
}

/// With the padding that keeps a size at stride 1.
const fn shape(channels: usize, out_channels: usize, window: usize, stride: usize, size: usize) -> Shape {
    Shape { batch: 1, channels, out_channels, window, stride, padding: window / 2, size }
}

/// The distinct convolutions of ResNet18: the stem, those of 3 × 3, and the shortcuts.
const RESNET18: [Shape; 11] = [
    shape(3, 64, 7, 2, 224),
    shape(64, 64, 3, 1, 56),
    shape(128, 128, 3, 1, 28),
    shape(256, 256, 3, 1, 14),
    shape(512, 512, 3, 1, 7),
    shape(64, 128, 3, 2, 56),
    shape(128, 256, 3, 2, 28),
    shape(256, 512, 3, 2, 14),
    shape(64, 128, 1, 2, 56),
    shape(128, 256, 1, 2, 28),
    shape(256, 512, 1, 2, 14),
];
const RESNET18_BATCHES: [usize; 2] = [1, 32];

/// The U-Net's convolutions of 3 × 3 where their channels stay, by its levels.
const U_NET: [Shape; 4] =
    [shape(320, 320, 3, 1, 64), shape(640, 640, 3, 1, 32), shape(1280, 1280, 3, 1, 16), shape(1280, 1280, 3, 1, 8)];
const U_NET_BATCH: usize = 2;

/// On the simulator: one of each kind, small.
const SIMULATED: [Shape; 4] =
    [shape(3, 16, 7, 2, 33), shape(16, 24, 3, 1, 14), shape(16, 32, 3, 2, 14), shape(16, 32, 1, 2, 14)];

impl Shape {
    /// All that a GPU is measured with.
    fn all() -> Vec<Shape> {
        let of =
            |shapes: &[Shape], batch| shapes.iter().map(move |&shape| Shape { batch, ..shape }).collect::<Vec<_>>();
        let mut all: Vec<Shape> = RESNET18_BATCHES.into_iter().flat_map(|batch| of(&RESNET18, batch)).collect();
        all.extend(of(&U_NET, U_NET_BATCH));
        all
    }

    /// As the note explains it: `256→512 3/2 @14 ×32`.
    fn name(self) -> String {
        let Shape { batch, channels, out_channels, window, stride, size, .. } = self;
        let stride = if stride == 1 { String::new() } else { format!("/{stride}") };
        format!("{channels}→{out_channels} {window}{stride} @{size} ×{batch}")
    }

    /// The measured shape of this name.
    fn from_name(name: &str) -> Option<Shape> {
        Shape::all().into_iter().find(|shape| shape.name() == name)
    }

    fn params(self) -> Conv2dParams {
        Conv2dParams::new(self.stride, self.padding)
    }

    fn input(self) -> [usize; 4] {
        [self.batch, self.channels, self.size, self.size]
    }

    fn weight(self) -> [usize; 4] {
        [self.out_channels, self.channels, self.window, self.window]
    }

    fn output(self) -> [usize; 4] {
        let size = (self.size + 2 * self.padding - self.window) / self.stride + 1;
        [self.batch, self.out_channels, size, size]
    }

    /// Two a multiply-add, padding counted as any value.
    fn flops(self) -> f64 {
        let outputs: usize = self.output().iter().product();
        2.0 * outputs as f64 * (self.channels * self.window * self.window) as f64
    }

    /// Of input, weight and output, each once.
    fn bytes(self) -> f64 {
        let values = |shape: [usize; 4]| shape.iter().product::<usize>() as f64;
        4.0 * (values(self.input()) + values(self.weight()) + values(self.output()))
    }
}

/// What the measured convolution of this name needs.
pub(crate) fn work(name: &str) -> Option<Needs> {
    Shape::from_name(name).map(|shape| Needs { flops: shape.flops(), bytes: shape.bytes() })
}

/// Makes the table.
///
/// # Errors
/// What the device reports.
pub fn run(context: &Context) -> crate::Result<Outcome> {
    let device = &context.device;
    let shapes = if device.is_cuda() { Shape::all() } else { SIMULATED.to_vec() };
    let bench = Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() };
    let stream = device.stream();
    let cudnn = if_supported(Cudnn::open(&stream))?;
    let steps = LADDER
        .iter()
        .map(|step| Ok((format!("{} {}", step.number(), step.name()), if_supported(step.load(device))?)))
        .collect::<common::Result<Vec<_>>>()?;
    let chooser = Tuned::load(device)?;
    let progress = Progress::new((shapes.len() * (LADDER.len() + 3)) as u64, "conv");
    progress.set_message("conv: PyTorch");
    let work: Vec<Work> =
        shapes.iter().map(|shape| Work::conv2d(shape.input(), shape.weight(), shape.params(), Mode::Eager)).collect();
    let pytorch = torch::measure(device, &bench, &work);

    let mut board = Board::new(context, "conv: convolutions in f32, NCHW", "convolution", "cuDNN")?;
    board.note(
        "C→K R/s @H ×N: a window R × R with stride s (1, if none is said) over N images of C × H × H, padding R / 2.",
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_found_by_its_name_and_knows_its_output() {
        let all = Shape::all();
        assert_eq!(all.len(), 26);
        for shape in all {
            assert_eq!(Shape::from_name(&shape.name()), Some(shape));
            let (x, w) = (Tensor::zeros(&[1, shape.channels, shape.size, shape.size]), Tensor::zeros(&shape.weight()));
            let output = shape.params().output_shape(&x, &w).unwrap();
            assert_eq!(output[1..], shape.output()[1..], "{}", shape.name());
        }
        let stem = Shape::from_name("3→64 7/2 @224 ×32").unwrap();
        assert_eq!(stem.output(), [32, 64, 112, 112]);
        assert_eq!(stem.flops(), 2.0 * 32.0 * 64.0 * 12544.0 * 147.0);
        assert!(Shape::from_name("3→64 7/2 @224 ×33").is_none());
    }
}
