//! `layers`: the layers of ResNet18 on a real photo, on the CPU and on the device.
//!
//! First its opening: convolution 7×7/2 with padding 3 (3 → 64 channels), BatchNorm, ReLU; by naive loops and by a CPU at its
//! best, by phase 2's first kernels and its last, by cuDNN and PyTorch. Then the times of each kind of layer in a whole pass. The
//! weights are seeded, since their values change neither time nor check.

use std::time::{Duration, Instant};

use bench::ladder::{ELSEWHERE, NO_COUNTS, columns, if_supported, milliseconds, verdict};
use bench::peer::Cudnn;
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, NO_CLOCK, Queue, Timing};
use common::check::{F32_ROUND_OFF, Tolerance, compare};
use common::cpu;
use common::prelude::*;
use common::progress::Progress;
use common::reference::{self, BatchNorm, Conv2dParams, Reference};
use phase2_conv_bn::Step;
use phase2_conv_bn::conv;
use phase2_conv_bn::norm::{batch_norm, relu};
use phase3_all_layers::backends::{Cpu, OnHost, Planned, Unfused};
use phase3_all_layers::models::resnet::{Config, ResNet};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::differences::{CLOSE, close};
use crate::tables::peers::spread_note;
use crate::torch::{Mode, PeerRequest};

const NO_SPEED_UP: &str = "a speed-up needs the device's time";
const AS_A_WHOLE: &str = "the pass is checked as a whole";
const OTHER_SIDE: &str = "the CPU has its column, the device its own";

/// The layer, or [`ALL`] layers of a kind.
pub(crate) const LAYER: ColumnSpec = ColumnSpec::text("layer", "layer");
/// One of [`sides`].
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");
/// By the host's clock.
pub(crate) const CPU_MS: ColumnSpec = ColumnSpec::number("cpu_ms", "CPU ms", 2);
/// By events.
pub(crate) const DEVICE_MS: ColumnSpec = ColumnSpec::number("device_ms", "device ms", 4);
const OVER_NAIVE: ColumnSpec = ColumnSpec::number("over_naive", "over naive", 1).on_gpu();
const OVER_FAST_CPU: ColumnSpec = ColumnSpec::number("over_fast_cpu", "over fast CPU", 1);
const LANE_MILLIONS: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 1).on_simulator();

const COLUMNS: &[ColumnSpec] =
    &[LAYER, BY, CPU_MS, DEVICE_MS, OVER_NAIVE, OVER_FAST_CPU, LANE_MILLIONS, columns::MAX_DIFFERENCE, columns::CHECK];

/// Output channels of the first convolution.
const CHANNELS: usize = 64;
/// Its window, 7 × 7 over 3 channels.
const WEIGHT: [usize; 4] = [CHANNELS, 3, 7, 7];
const EPS: f32 = 1e-5;

fn params() -> Conv2dParams {
    Conv2dParams::new(2, 3)
}

/// The first convolution's and BatchNorm's parameters, on the host or on a device.
struct Weights {
    conv: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
}

impl Weights {
    /// The convolution uniform in ±√(6 / fan_in), so that its outputs have the variance of its inputs after a ReLU (He et al.,
    /// "Delving Deep into Rectifiers", 2015); BatchNorm's four around 1, 0, 0 and the variance that such outputs have, 2.
    fn seeded() -> common::Result<Weights> {
        let uniform = |shape: &[usize], seed, centre: f32, reach: f32| {
            let values = Tensor::random(shape, seed).into_vec()?;
            Tensor::from_vec(shape, values.into_iter().map(|value| centre + reach * value).collect())
        };
        let fan_in: usize = WEIGHT[1..].iter().product();
        Ok(Weights {
            conv: uniform(&WEIGHT, 1, 0.0, (6.0 / fan_in as f32).sqrt())?,
            gamma: uniform(&[CHANNELS], 2, 1.0, 0.25)?,
            beta: uniform(&[CHANNELS], 3, 0.0, 0.25)?,
            mean: uniform(&[CHANNELS], 4, 0.0, 0.5)?,
            variance: uniform(&[CHANNELS], 5, 2.0, 1.0)?,
        })
    }

    fn to_device(&self, device: &Device) -> common::Result<Weights> {
        Ok(Weights {
            conv: self.conv.to_device(device)?,
            gamma: self.gamma.to_device(device)?,
            beta: self.beta.to_device(device)?,
            mean: self.mean.to_device(device)?,
            variance: self.variance.to_device(device)?,
        })
    }

    fn norm(&self) -> BatchNorm<'_> {
        BatchNorm { weight: &self.gamma, bias: &self.beta, mean: &self.mean, variance: &self.variance, eps: EPS }
    }

    /// Maximum factor by which BatchNorm multiplies a difference of its input: max |γ| / √(variance + eps).
    fn gain(&self) -> common::Result<f64> {
        let scales = self.gamma.as_slice()?.iter().zip(self.variance.as_slice()?);
        Ok(scales
            .map(|(gamma, variance)| f64::from(gamma.abs()) / (f64::from(*variance) + f64::from(EPS)).sqrt())
            .fold(0.0, f64::max))
    }
}

/// Time and result of one side for a layer.
struct Layer {
    timing: Timing,
    output: Tensor,
}

/// A row of the opening. Each layer's input is the previous one's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpeningLayer {
    Conv2d,
    BatchNorm,
    Relu,
    /// All three, one after another.
    Total,
}

impl OpeningLayer {
    const ALL: [OpeningLayer; 4] =
        [OpeningLayer::Conv2d, OpeningLayer::BatchNorm, OpeningLayer::Relu, OpeningLayer::Total];

    fn name(self) -> &'static str {
        match self {
            OpeningLayer::Conv2d => "Conv2D",
            OpeningLayer::BatchNorm => "BatchNorm",
            OpeningLayer::Relu => "ReLU",
            OpeningLayer::Total => "total",
        }
    }
}

/// Times and results of one side for the layers that it has.
#[derive(Default)]
struct Layers {
    conv2d: Option<Layer>,
    batch_norm: Option<Layer>,
    relu: Option<Layer>,
    total: Option<Layer>,
}

impl Layers {
    fn of(&self, layer: OpeningLayer) -> Option<&Layer> {
        match layer {
            OpeningLayer::Conv2d => self.conv2d.as_ref(),
            OpeningLayer::BatchNorm => self.batch_norm.as_ref(),
            OpeningLayer::Relu => self.relu.as_ref(),
            OpeningLayer::Total => self.total.as_ref(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Layer> {
        OpeningLayer::ALL.into_iter().filter_map(|layer| self.of(layer))
    }
}

/// One implementation of the layers.
struct Side {
    name: &'static str,
    on_cpu: bool,
    layers: Layers,
}

/// Names of the sides in the table; other tables look for them.
pub(crate) mod sides {
    pub(crate) const NAIVE_CPU: &str = "naive loops";
    pub(crate) const FAST_CPU: &str = "fast CPU";
    pub(crate) const NAIVE: &str = "naive kernels";
    pub(crate) const FAST: &str = "fast kernels";
    pub(crate) const CUDNN: &str = "cuDNN";
    pub(crate) const PYTORCH: &str = "PyTorch eager";
}

/// Expected results: each layer for its own input, and the three together.
struct Expected {
    values: Vec<f64>,
    tolerance: Tolerance,
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "layers",
    shows: "layers of ResNet18: CPU and device ms, speed-up, check",
    uses: &[Need::Gpu, Need::Cudnn, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let bench = context.host_bench(Bench { warm_up: 1, repeats: 9, limit: Duration::from_secs(6), ..Bench::default() });
    let progress = Progress::new(9, "layers");
    let step = |what: &str| {
        progress.set_message(format!("layers: {what}"));
        progress.inc(1);
    };
    let device = &context.device;
    let input = context.photo.to_tensor();
    let weights = Weights::seeded()?;
    step(sides::NAIVE_CPU);
    let mut sides = vec![naive_on_cpu(&input, &weights, &bench)?];
    step(sides::FAST_CPU);
    sides.push(fast_on_cpu(&input, &weights, &bench)?);
    step(sides::NAIVE);
    sides.push(naive_on_device(device, &input, &weights)?);
    step(sides::FAST);
    sides.push(fast_on_device(device, &input, &weights)?);
    step(sides::CUDNN);
    let without_cudnn = match if_supported(Cudnn::open(&device.stream()))? {
        Ok(cudnn) => {
            sides.push(by_cudnn(device, &cudnn, &input, &weights)?);
            None
        }
        Err(reason) => Some(reason),
    };
    step("PyTorch");
    let pytorch = by_pytorch(context, input.dims4()?);
    step("f64 reference");
    let (mut table, mut wrong) = tabulate(context, &input, &weights, &sides)?;
    if let Some(reason) = without_cudnn {
        for layer in [OpeningLayer::Conv2d, OpeningLayer::BatchNorm] {
            table.row().set(LAYER, layer.name()).set(BY, sides::CUDNN).finish(&reason);
        }
    }
    for (layer, timing) in OpeningLayer::ALL.iter().zip(pytorch) {
        let row = table.row().set(LAYER, layer.name()).set(BY, sides::PYTORCH);
        match milliseconds(&timing) {
            Ok(ms) => row.set(DEVICE_MS, ms).finish(ELSEWHERE),
            Err(reason) => row.finish(&reason),
        }
    }
    step("all of ResNet18");
    whole(context, &mut table, &mut wrong)?;
    Ok(FinishedTable { table: table.finish(), wrong })
}

/// Prefix of the rows of a whole pass, followed by the kind of layer.
pub(crate) const ALL: &str = "all ";
const RUNS: usize = 5;

/// Time of each kind of layer in a pass over the photo: on the CPU, plain and fast, and on the device.
fn whole(context: &Context, table: &mut TableBuilder, wrong: &mut Vec<String>) -> crate::Result<()> {
    let (device, config, images) = (&context.device, Config::RESNET18, context.image()?);
    if let Some(note) = context.side_note() {
        table.note(note);
    }
    let parameters = config.seeded(18);
    let on_cpu = |cpu: Cpu| -> common::Result<(Vec<(&'static str, f64)>, Tensor)> {
        let logits = cpu.infer(&ResNet::load(&cpu, config, &parameters)?, &images)?;
        Ok((cpu.times_ms(), logits))
    };
    let fast_runs = if context.quick { 1 } else { RUNS };
    // Without a GPU to compare it with, a pass of plain loops, which takes seconds, is run once.
    let plain_runs = if device.is_sim() { 1 } else { fast_runs };
    let naive = (0..plain_runs).map(|_| on_cpu(Cpu::plain()?)).collect::<common::Result<Vec<_>>>()?;
    let fast = (0..fast_runs).map(|_| on_cpu(Cpu::new())).collect::<common::Result<Vec<_>>>()?;
    let network = ResNet::load(&Unfused::new(device), config, &parameters)?;
    let (stream, mut planned) = (device.stream(), Planned::new(device, &network, images.shape())?);
    let logits = planned.infer(&stream, &images)?;
    let runs = if device.is_sim() { 1 } else { RUNS };
    let profiles = (0..runs).map(|_| planned.profile(&stream)).collect::<common::Result<Vec<_>>>()?;

    let (max_abs, word) = close("all of ResNet18", logits.as_slice()?, fast[0].1.as_slice()?, wrong);
    // A kind's median over the runs; `None` is the sum of all kinds.
    let median = |of: &dyn Fn(usize) -> Option<f64>, runs: usize| -> Option<f64> {
        let mut values = (0..runs).map(of).collect::<Option<Vec<_>>>()?;
        values.sort_by(f64::total_cmp);
        values.get(runs / 2).copied()
    };
    let chosen = |kind: Option<&str>, other: &str| kind.is_none_or(|kind| kind == other);
    let of = |times: &[(&'static str, f64)], kind: Option<&str>| -> Option<f64> {
        Some(times.iter().filter(|(other, _)| chosen(kind, other)).map(|(_, ms)| ms).sum())
    };
    let kinds = profiles[0].iter().map(|share| Some(share.kind)).chain([None]);
    for kind in kinds {
        let layer = format!("{ALL}{}", kind.unwrap_or("layers"));
        let naive_ms = median(&|run| of(&naive[run].0, kind), naive.len());
        let fast_ms = median(&|run| of(&fast[run].0, kind), fast.len());
        let shares = |run: usize| profiles[run].iter().filter(|share| chosen(kind, share.kind));
        let ms = median(&|run| shares(run).map(|share| share.ms).sum(), runs);
        let counts: Option<u64> = shares(0).map(|share| share.lane_instructions).sum();
        let unchecked = || [columns::MAX_DIFFERENCE, columns::CHECK].map(|column| (column, Cell::absent(AS_A_WHOLE)));
        for (by, ms) in [(sides::NAIVE_CPU, naive_ms), (sides::FAST_CPU, fast_ms)] {
            let row = table.row().set(LAYER, layer.as_str()).set(BY, by);
            row.set(CPU_MS, Cell::or_absent(ms, NO_CLOCK)).set_all(unchecked()).finish(OTHER_SIDE);
        }
        let over = |cpu: Option<f64>| Cell::or_absent(cpu.zip(ms).map(|(cpu, ms)| cpu / ms), NO_SPEED_UP);
        let checked = [(columns::MAX_DIFFERENCE, max_abs.into()), (columns::CHECK, word.into())];
        table
            .row()
            .set(LAYER, layer)
            .set(BY, sides::FAST)
            .set(DEVICE_MS, Cell::or_absent(ms, NO_CLOCK))
            .set(OVER_NAIVE, over(naive_ms))
            .set(OVER_FAST_CPU, over(fast_ms))
            .set(LANE_MILLIONS, Cell::or_absent(counts.map(|counts| counts as f64 / 1e6), NO_COUNTS))
            .set_all(if kind.is_none() { checked } else { unchecked() })
            .finish(OTHER_SIDE);
    }
    table.note(format!(
        "all …: what layers of the kind take of one pass over the photo, by events around each on a busy GPU, medians of {RUNS}; \
         fast CPU: of {fast_runs}, naive loops: of {plain_runs}. |Δ| there: to the CPU's logits, of whose largest {CLOSE:e} is allowed."
    ));
    Ok(())
}

/// Compares all sides with the reference and adds rows with their times.
fn tabulate(
    context: &Context,
    input: &Tensor,
    weights: &Weights,
    sides: &[Side],
) -> crate::Result<(TableBuilder, Vec<String>)> {
    let device = &context.device;
    let convolved = reference::conv2d(input, &weights.conv, None, params())?;
    let total = together(&convolved, &params().output_shape(input, &weights.conv)?, weights)?;
    let title = format!(
        "layers: ResNet18's opening on {} ({} × {}), on {}",
        context.photo.name(),
        context.photo.size().0,
        context.photo.size().1,
        device.short_name()
    );
    let mut table = context.table(title, COLUMNS);
    let mut wrong = Vec::new();
    for layer in OpeningLayer::ALL {
        let name = layer.name();
        for side in sides {
            let Some(Layer { timing, output }) = side.layers.of(layer) else { continue };
            let expected = expected(layer, side, &convolved, &total, weights)?;
            let result = compare(output.as_slice()?, &expected.values, expected.tolerance);
            // The baseline too: a speed-up over a wrong result is none.
            let (max_abs, word) = verdict(&format!("{name} by {}", side.name), result, &mut wrong);
            let row = table.row().set(LAYER, name).set(BY, side.name);
            let row = row.set(columns::MAX_DIFFERENCE, max_abs).set(columns::CHECK, word);
            let ms = timing.median_ms();
            let row = if side.on_cpu {
                row.set(CPU_MS, Cell::or_absent(ms, NO_CLOCK))
            } else {
                let over = |baseline: &str| {
                    let baseline =
                        sides.iter().find(|side| side.name == baseline).and_then(|side| side.layers.of(layer));
                    let cpu = baseline.and_then(|baseline| baseline.timing.median_ms());
                    Cell::or_absent(cpu.zip(ms).map(|(cpu, ms)| cpu / ms), NO_SPEED_UP)
                };
                let lanes = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6);
                row.set(DEVICE_MS, Cell::or_absent(ms, NO_CLOCK))
                    .set(OVER_NAIVE, over(sides::NAIVE_CPU))
                    .set(OVER_FAST_CPU, over(sides::FAST_CPU))
                    .set(LANE_MILLIONS, Cell::or_absent(lanes, NO_COUNTS))
            };
            row.finish(OTHER_SIDE);
        }
    }
    let of = |on_cpu: bool| {
        let sides = sides.iter().filter(move |side| side.on_cpu == on_cpu);
        spread_note(sides.flat_map(|side| side.layers.iter()).map(|layer| &layer.timing))
    };
    table.note(format!(
        "naive loops: plain f32 on one thread. fast CPU: `common::cpu`, a tuned product and im2col on {} threads; {}.",
        rayon::current_num_threads(),
        of(true)
    ));
    table.note(if device.is_sim() { "lane M: millions of instructions that the simulator executed, counted by lane.".to_owned() } else { format!(
            "device ms: by events, without copies, the device alone, with the tensors (3 MB each) warm in the L2 cache, {}.",
            of(false)
        ) });
    table.note("|Δ|: to the f64 reference of the same input; what f32 rounding may cost is derived. Weights: seeded.");
    Ok((table, wrong))
}

/// Runs the three operations of any implementation on the host, timed separately: one after another, as in a pass, with a look at
/// the clock after each. So a busy host slows all rows alike, and no part takes longer than the whole.
fn on_cpu(
    name: &'static str,
    bench: &Bench,
    conv: impl Fn() -> common::Result<Tensor>,
    norm: impl Fn(&Tensor) -> common::Result<Tensor>,
    relu: impl Fn(Tensor) -> common::Result<Tensor>,
) -> common::Result<Side> {
    let convolved = conv()?;
    let normalised = norm(&convolved)?;
    let clipped = relu(normalised.to_host()?)?;
    let mut laps: [Vec<f64>; 3] = Default::default();
    let mut output = Tensor::zeros(&[0]);
    let total = bench.measure_host(|| {
        let mut start = Instant::now();
        let mut lap = |layer: usize| {
            let now = Instant::now();
            laps[layer].push((now - start).as_secs_f64() * 1e3);
            start = now;
        };
        let convolved = conv()?;
        lap(0);
        let normalised = norm(&convolved)?;
        lap(1);
        let clipped = relu(normalised)?;
        lap(2);
        output = clipped;
        Ok(())
    })?;
    // Those of the warm-up stand first.
    let [conv2d, batch_norm, relu] = laps.map(|mut laps| {
        let measured = laps.split_off(laps.len() - total.repeats());
        Timing::from_samples(total.clock(), measured)
    });
    let layers = Layers {
        conv2d: Some(Layer { timing: conv2d?, output: convolved }),
        batch_norm: Some(Layer { timing: batch_norm?, output: normalised }),
        relu: Some(Layer { timing: relu?, output: clipped }),
        total: Some(Layer { timing: total, output }),
    };
    Ok(Side { name, on_cpu: true, layers })
}

/// The f32 loops of a beginner, on one thread.
fn naive_on_cpu(input: &Tensor, weights: &Weights, bench: &Bench) -> crate::Result<Side> {
    // The loops spread over the threads of the pool they run in: this one has a single thread.
    let pool = cpu::one_pinned_thread()?;
    let conv = || reference::conv2d_f32(input, &weights.conv, None, params());
    let norm = |x: &Tensor| reference::batch_norm_f32(x, &weights.norm());
    Ok(pool.install(|| on_cpu(sides::NAIVE_CPU, bench, conv, norm, |x| reference::relu_f32(&x)))?)
}

/// The best layers of the CPU.
fn fast_on_cpu(input: &Tensor, weights: &Weights, bench: &Bench) -> crate::Result<Side> {
    let conv = || cpu::conv2d(input, &weights.conv, None, params());
    let norm = |x: &Tensor| cpu::batch_norm(x, &weights.norm());
    let relu = |mut x: Tensor| cpu::relu_in_place(&mut x).map(|()| x);
    Ok(on_cpu(sides::FAST_CPU, bench, conv, norm, relu)?)
}

/// The first step of each ladder.
fn naive_on_device(device: &Device, input: &Tensor, weights: &Weights) -> crate::Result<Side> {
    let conv = conv::step01_direct::STEP.load(device)?;
    let launch = |stream: &Stream, x: &Tensor, w: &Tensor, y: &mut Tensor| conv.launch(stream, x, w, None, params(), y);
    on_device(sides::NAIVE, device, input, weights, launch, &batch_norm::NAIVE, &relu::NAIVE)
}

/// The fastest convolution for the shape, and the last step of the other ladders.
fn fast_on_device(device: &Device, input: &Tensor, weights: &Weights) -> crate::Result<Side> {
    let conv = conv::Tuned::load(device)?;
    let launch = |stream: &Stream, x: &Tensor, w: &Tensor, y: &mut Tensor| conv.launch(stream, x, w, None, params(), y);
    on_device(sides::FAST, device, input, weights, launch, &batch_norm::VECTORISED, &relu::VECTORISED)
}

/// As launches on a busy device, warm.
fn queued() -> Bench {
    Bench { queue: Queue::Warm, ..Bench::default() }
}

fn on_device(
    name: &'static str,
    device: &Device,
    input: &Tensor,
    weights: &Weights,
    conv: impl Fn(&Stream, &Tensor, &Tensor, &mut Tensor) -> common::Result<()>,
    norm: &Step<batch_norm::Method>,
    relu: &Step<relu::Method>,
) -> crate::Result<Side> {
    let (stream, bench) = (device.stream(), queued());
    let (x, weights) = (input.to_device(device)?, weights.to_device(device)?);
    let (norm, relu) = (norm.load(device)?.layer(&stream, &weights.norm())?, relu.load(device)?);
    let shape = params().output_shape(&x, &weights.conv)?;
    let mut y = Tensor::empty_on(device, &shape)?;
    let mut z = Tensor::empty_on(device, &shape)?;

    let timing = bench.measure(&stream, || conv(&stream, &x, &weights.conv, &mut y))?;
    let convolved = Layer { timing, output: y.to_host()? };
    let timing = bench.measure(&stream, || norm.launch(&stream, &y, &mut z))?;
    let normalised = Layer { timing, output: z.to_host()? };
    // In place, so all runs but the first clip what is clipped already: the same reads and writes.
    let timing = bench.measure(&stream, || relu.launch_in_place(&stream, &mut z))?;
    let clipped = Layer { timing, output: z.to_host()? };

    stream.poison(y.buffer_mut()?)?;
    stream.poison(z.buffer_mut()?)?;
    let timing = bench.measure(&stream, || {
        conv(&stream, &x, &weights.conv, &mut y)?;
        norm.launch(&stream, &y, &mut z)?;
        relu.launch_in_place(&stream, &mut z)
    })?;
    let total = Layer { timing, output: z.to_host()? };
    let layers =
        Layers { conv2d: Some(convolved), batch_norm: Some(normalised), relu: Some(clipped), total: Some(total) };
    Ok(Side { name, on_cpu: false, layers })
}

/// Convolution and BatchNorm of the library.
fn by_cudnn(device: &Device, cudnn: &Cudnn, input: &Tensor, weights: &Weights) -> crate::Result<Side> {
    let (stream, bench) = (device.stream(), queued());
    let (x, weights) = (input.to_device(device)?, weights.to_device(device)?);
    let shape = params().output_shape(&x, &weights.conv)?;
    let mut y = Tensor::empty_on(device, &shape)?;
    let mut z = Tensor::empty_on(device, &shape)?;
    let mut plan = cudnn.conv2d(&x, &weights.conv, params(), &mut y)?;
    stream.poison(y.buffer_mut()?)?;
    let timing = bench.measure(&stream, || plan.launch(&x, &weights.conv, None, &mut y))?;
    let convolved = Layer { timing, output: y.to_host()? };
    let timing = bench.measure(&stream, || cudnn.batch_norm(&y, &weights.norm(), &mut z))?;
    let normalised = Layer { timing, output: z.to_host()? };
    let layers = Layers { conv2d: Some(convolved), batch_norm: Some(normalised), ..Layers::default() };
    Ok(Side { name: sides::CUDNN, on_cpu: false, layers })
}

/// The first three layers; the input has the shape `shape`, and its values do not matter.
fn by_pytorch(context: &Context, shape: [usize; 4]) -> Vec<Result<Timing, String>> {
    let size = |at: usize| (shape[at] + 2 * 3 - 7) / 2 + 1;
    let output = [shape[0], CHANNELS, size(2), size(3)];
    let work = [
        PeerRequest::conv2d(shape, WEIGHT, params(), Mode::Eager),
        PeerRequest::batch_norm(output, Mode::Eager),
        PeerRequest::relu(output, Mode::Eager),
    ];
    context.pytorch.measure(&context.device, &queued(), &work).timings
}

/// The reference for a layer of a side: BatchNorm and ReLU for the inputs that they had there.
fn expected(
    layer: OpeningLayer,
    side: &Side,
    convolved: &Reference,
    total: &Expected,
    weights: &Weights,
) -> common::Result<Expected> {
    let own = |reference: Reference| Expected { tolerance: reference.tolerance(), values: reference.values };
    let output_of = |before: OpeningLayer| {
        let layer = side.layers.of(before).map(|layer| &layer.output);
        layer.ok_or_else(|| common::Error::Invalid(format!("{} has no {}", side.name, before.name())))
    };
    Ok(match layer {
        OpeningLayer::Conv2d => own(convolved.clone()),
        OpeningLayer::BatchNorm => own(reference::batch_norm(output_of(OpeningLayer::Conv2d)?, &weights.norm())?),
        OpeningLayer::Relu => own(reference::relu(output_of(OpeningLayer::BatchNorm)?)?),
        OpeningLayer::Total => Expected { values: total.values.clone(), tolerance: total.tolerance },
    })
}

/// All three layers from the f64 convolution. Its values are rounded to f32 once on the way; BatchNorm multiplies that error and
/// the convolution's own by its gain and adds its own, and ReLU enlarges no difference.
fn together(convolved: &Reference, shape: &[usize], weights: &Weights) -> common::Result<Expected> {
    let rounded = convolved.values.iter().map(|&value| value as f32).collect();
    let normalised = reference::batch_norm(&Tensor::from_vec(shape, rounded)?, &weights.norm())?;
    let before = convolved.tolerance().absolute + F32_ROUND_OFF * convolved.magnitude;
    Ok(Expected {
        tolerance: Tolerance::absolute(weights.gain()? * before + normalised.tolerance().absolute),
        values: normalised.values.iter().map(|value| value.max(0.0)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use bench::table::Table;
    use media::photo::Photo;

    use super::*;

    fn column(table: &Table, column: ColumnSpec) -> Vec<Cell> {
        table.iter().map(|row| row.cell(column).unwrap().clone()).collect()
    }

    common::device_test! {
        fn all_sides_pass_and_a_planted_wrong_value_does_not(device) {
            let context = Context::new(device.clone(), Photo::built_in());
            let (input, weights) = (context.photo.to_tensor(), Weights::seeded()?);
            let bench = Bench { warm_up: 0, repeats: 1, ..Bench::default() };
            let mut sides = vec![
                naive_on_cpu(&input, &weights, &bench).unwrap(),
                fast_on_cpu(&input, &weights, &bench).unwrap(),
                naive_on_device(&device, &input, &weights).unwrap(),
                fast_on_device(&device, &input, &weights).unwrap(),
            ];
            let (table, wrong) = tabulate(&context, &input, &weights, &sides).unwrap();
            let table = table.finish();
            assert!(wrong.is_empty(), "{wrong:?}");
            assert_eq!(column(&table, columns::CHECK), vec![Cell::from("ok"); 16]);
            let measured = |of| column(&table, of).iter().filter(|cell| matches!(cell, Cell::Number(_))).count();
            assert_eq!(measured(CPU_MS), 8);
            assert_eq!(measured(DEVICE_MS), if device.is_cuda() { 8 } else { 0 }, "no time without a clock");
            if device.is_sim() {
                let launches = |layer| sides[2].layers.of(layer).unwrap().timing.counts().unwrap().launches;
                assert_eq!(OpeningLayer::ALL.map(launches), [1, 1, 1, 3]);
                assert_eq!(measured(LANE_MILLIONS), 8);
            }

            // A hundredth of a value's usual size, one value of 800 thousand.
            sides[2].layers.batch_norm.as_mut().unwrap().output.as_mut_slice()?[777_777] += 0.01;
            sides[0].layers.total.as_mut().unwrap().output.as_mut_slice()?[5] = f32::NAN;
            let (table, wrong) = tabulate(&context, &input, &weights, &sides).unwrap();
            let table = table.finish();
            let mistakes = table.iter().filter(|row| row.text(columns::CHECK).unwrap() == "WRONG");
            let rows: Vec<_> = mistakes.map(|row| [row.text(LAYER).unwrap(), row.text(BY).unwrap()]).collect();
            // ReLU is checked against what BatchNorm handed over.
            let naive = |layer| [layer, sides::NAIVE];
            assert_eq!(rows, [naive("BatchNorm"), naive("ReLU"), ["total", sides::NAIVE_CPU]]);
            let planted = "BatchNorm by naive kernels: 1 of 802816 values are wrong, the first at 777777";
            assert!(wrong[0].starts_with(planted), "{:?}", wrong);
            assert!(wrong.iter().any(|wrong| wrong.starts_with("total by naive loops: 1 of 802816 values are wrong, the first at 5: NaN")), "{:?}", wrong);
            Ok(())
        }
    }

    #[test]
    fn the_bound_of_the_whole_holds_for_a_sloppy_convolution_and_not_for_a_wrong_one() {
        let weights = Weights::seeded().unwrap();
        let image = Tensor::random(&[1, 3, 12, 12], 9);
        let convolved = reference::conv2d(&image, &weights.conv, None, params()).unwrap();
        let shape = [1, CHANNELS, 6, 6];
        let expected = together(&convolved, &shape, &weights).unwrap();
        let after = |error: f64| {
            let values = convolved.values.iter().map(|value| (value + error) as f32).collect();
            let normalised =
                reference::batch_norm_f32(&Tensor::from_vec(&shape, values).unwrap(), &weights.norm()).unwrap();
            reference::relu_f32(&normalised).unwrap().into_vec().unwrap()
        };
        let allowed = convolved.tolerance().absolute;
        assert!(compare(&after(allowed), &expected.values, expected.tolerance).is_ok());
        assert!(compare(&after(10.0 * allowed), &expected.values, expected.tolerance).is_err());
    }
}
