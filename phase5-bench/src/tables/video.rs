//! `video`: a frame of the video U-Net, which is one forward pass over two latents of 64 × 64 and one diffusion step.

use std::time::Duration;

use bench::ladder::{ELSEWHERE, NO_COUNTS, columns, milliseconds};
use bench::table::{Cell, ColumnSpec};
use bench::timing::{Bench, Timing};
use common::prelude::*;
use common::progress::Progress;
use common::reference::DiffusionParams;
use phase3_all_layers::backends::{Cpu, OnHost, Planned, Unfused};
use phase3_all_layers::commands::video::{Options, generate, generate_by, peak_signal_to_noise};
use phase3_all_layers::layers::{DiffusionStep, kinds};
use phase3_all_layers::models::unet::{self, Config, UNet};
use phase3_all_layers::nn::{Module, Value};
use phase4_fusion::commands::unet::plan;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::plan::WithInputs;

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::differences::{CLOSE, within};
use crate::tables::peers::{
    CPU, OF_EAGER, PYTORCH_AUTOTUNED, PYTORCH_COMPILED_GRAPH, PYTORCH_GRAPH, Peer, about_cpu, is_quick, on_cpu,
};
use crate::torch::{self, Mode, PeerRequest};

const BATCH: usize = 2;
const SIDE: usize = 64;
/// On the simulator, where time is short.
const SMALL_SIDE: usize = 16;
/// The largest configuration.
pub(crate) const PRODUCTION: &str = "production";
/// Its operations per frame, two per multiply-add: those of convolutions, linear layers and attention, as added up on the page
/// `phase4/unet`.
pub(crate) const FRAME_FLOPS: f64 = 1.4246e12;
/// Target times of the literature, in ms.
const TARGETS: [f64; 4] = [44.8, 40.0, 16.0, 11.0];

/// The configuration of a row.
pub(crate) const CONFIGURATION: ColumnSpec = ColumnSpec::text("configuration", "U-Net");
/// One of [`versions`].
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");
/// Milliseconds of a frame.
pub(crate) const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 2);
const FRAMES_PER_SECOND: ColumnSpec = ColumnSpec::number("frames_per_second", "fps", 1).on_gpu();
const LANE_MILLIONS: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 0).on_simulator();
pub(crate) const WEIGHTS_MIB: ColumnSpec = ColumnSpec::number("weights_mib", "weight MiB", 0).on_gpu();
pub(crate) const PLANNED_MIB: ColumnSpec = ColumnSpec::number("planned_mib", "MiB planned", 0);

const COLUMNS: &[ColumnSpec] = &[
    CONFIGURATION,
    BY,
    MS,
    FRAMES_PER_SECOND,
    OF_EAGER,
    LANE_MILLIONS,
    WEIGHTS_MIB,
    PLANNED_MIB,
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Names of the versions in the table; other tables look for them.
pub(crate) mod versions {
    pub(crate) const UNFUSED: &str = "unfused";
    /// The same, launched as a graph; on a GPU.
    pub(crate) const UNFUSED_GRAPH: &str = "unfused, graph";
    /// Phase 4's, in the order of `Arithmetic::ALL`.
    pub(crate) const FUSED: [&str; 3] = [FUSED_F32, "fused, tf32", FUSED_F16];
    pub(crate) const FUSED_F32: &str = "fused, f32";
    pub(crate) const FUSED_F16: &str = "fused, f16";
    pub(crate) const EAGER: &str = crate::tables::peers::PYTORCH_EAGER;
    pub(crate) const GRAPH_NHWC: &str = "PyTorch graph, NHWC";
    pub(crate) const GRAPH_F16: &str = "PyTorch graph, f16";
    pub(crate) const COMPILED_GRAPH_F16: &str = "compiled graph, f16";
}

/// PyTorch's versions: the first [`OF_EACH`] of each configuration, all of the largest, since compiling takes minutes.
const PEERS: [Peer; 11] = {
    use torch::Arithmetic::{F16, F32, Tf32};
    [
        Peer::new(versions::EAGER, Mode::Eager, F32),
        Peer::new(PYTORCH_GRAPH, Mode::Graph, F32),
        Peer::new(versions::GRAPH_NHWC, Mode::Graph, F32).channels_last(),
        Peer::new(PYTORCH_COMPILED_GRAPH, Mode::CompiledGraph, F32),
        Peer::new("PyTorch graph, tf32", Mode::Graph, Tf32),
        Peer::new(versions::GRAPH_F16, Mode::Graph, F16),
        Peer::new("compiled graph, tf32", Mode::CompiledGraph, Tf32),
        Peer::new(versions::COMPILED_GRAPH_F16, Mode::CompiledGraph, F16),
        // Last: what takes longer than a peer may leaves the others as they are.
        Peer::new("PyTorch tuned, f16", Mode::Autotuned, F16),
        Peer::new("PyTorch tuned, tf32", Mode::Autotuned, Tf32),
        Peer::new(PYTORCH_AUTOTUNED, Mode::Autotuned, F32),
    ]
};
const OF_EACH: usize = 6;

/// Peers that are measured for a configuration.
fn peers(context: &Context, name: &str) -> Vec<Peer> {
    let of_each = if name == PRODUCTION { &PEERS } else { &PEERS[..OF_EACH] };
    of_each.iter().copied().filter(|peer| !context.only_summary || is_quick(peer.mode)).collect()
}

/// The configuration that the summary shows.
const IN_SUMMARY: InSummary = InSummary { gpu: PRODUCTION, simulator: "tiny" };

/// A forward pass, and the step that uses its result.
#[derive(Debug)]
struct Frame<M> {
    network: M,
    step: DiffusionStep,
    noisy: Tensor,
    previous: Tensor,
}

impl<M: Module<Unfused>> Module<Unfused> for Frame<M> {
    fn forward<'p>(&'p self, x: Value<'p, Unfused>) -> common::Result<Value<'p, Unfused>> {
        let noise = self.network.forward(x)?;
        let pass = noise.pass();
        let mut y = pass.intermediate(self.noisy.shape())?;
        let params = DiffusionParams { alpha_bar: 0.5, weight: 0.7, threshold: 0.5 };
        pass.queue(kinds::DIFFUSION, |stream| {
            self.step.launch(stream, [&self.noisy, &noise, &self.previous], params, &mut y)
        })?;
        Ok(noise.next(y))
    }
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "video",
    shows: "video U-Net unfused, fused, f16: ms a frame, frames/s",
    uses: &[Need::Gpu, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// A version for its row.
struct Measured {
    noise: Vec<f32>,
    timing: Timing,
    planned_bytes: u64,
}

/// A pass of a version over `x`, for its noise, and frames, for their time: launch by launch, or as a graph.
fn measure<M: Module<Unfused>>(
    device: &Device,
    bench: &Bench,
    network: M,
    x: &Tensor,
    as_graph: bool,
) -> crate::Result<Measured> {
    let stream = device.stream();
    let noise = Planned::new(device, &network, x.shape())?.infer(&stream, x)?.into_vec()?;
    let [count, _, height, width] = x.dims4()?;
    let latents = |seed| Tensor::random(&[count, unet::LATENTS, height, width], seed).to_device(device);
    let frame = Frame { network, step: DiffusionStep::load(device)?, noisy: latents(2)?, previous: latents(3)? };
    let mut planned = Planned::new(device, &frame, x.shape())?;
    stream.memcpy_htod(x.as_slice()?, planned.input_mut().buffer_mut()?)?;
    let planned_bytes = planned.workspace().bytes();
    let timing = if as_graph {
        let captured = planned.capture(&stream)?;
        bench.measure(&stream, || captured.queue(&stream))?
    } else {
        bench.measure(&stream, || planned.queue(&stream))?
    };
    Ok(Measured { noise, timing, planned_bytes })
}

/// Frames of a clip, and the diffusion steps of each: on a GPU, and on the simulator.
const CLIP: [Options; 2] = [
    Options { frames: 2, steps: 10, side: SIDE, seed: 1 },
    Options { frames: 2, steps: 2, side: unet::MULTIPLE, seed: 1 },
];

/// Difference of a clip in each arithmetic from the one in f32, in decibels: its frames are made one after the other.
fn decibels(device: &Device, options: &Options) -> crate::Result<Vec<(String, f64)>> {
    let config = if device.is_sim() { Config { channels: 8, heads: 2 } } else { Config::SMALL };
    let parameters = config.seeded(8);
    let clip = |arithmetic| {
        let latents = [1, unet::INPUTS, options.side, options.side];
        let plan = plan(device, config, &parameters, arithmetic, &latents)?;
        generate_by(&plan, device, config, &parameters, options, || ())
    };
    let exact = clip(Arithmetic::F32)?;
    let unfused = generate(device, config, &parameters, options, || ())?;
    let mut apart = vec![("phase 3's, in f32,".to_owned(), peak_signal_to_noise(&unfused, &exact)?)];
    for other in [Arithmetic::Tf32, Arithmetic::F16] {
        apart.push((other.to_string(), peak_signal_to_noise(&clip(other)?, &exact)?));
    }
    Ok(apart)
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    const MIB: f64 = (1 << 20) as f64;
    let device = &context.device;
    let configs = if device.is_cuda() { &Config::ALL[..] } else { &Config::ALL[..1] };
    let configs = context.chosen(configs, IN_SUMMARY, |(name, _)| name.to_owned());
    let side = if device.is_cuda() { SIDE } else { SMALL_SIDE };
    let bench = Bench { limit: Duration::from_secs(3), ..Bench::default() };
    let progress = Progress::new(5 * configs.len() as u64 + 2, "video");
    let step = |what: String| {
        progress.set_message(format!("video: {what}"));
        progress.inc(1);
    };
    step("PyTorch".to_owned());
    let work: Vec<PeerRequest> = configs
        .iter()
        .flat_map(|&(name, config)| {
            peers(context, name).into_iter().map(move |peer| {
                PeerRequest::unet(config.channels, BATCH, peer.mode)
                    .with_arithmetic(peer.arithmetic)
                    .with_channels_last(peer.channels_last)
            })
        })
        .collect();
    let pytorch = context.pytorch.measure(device, &bench, &work);

    let title = format!("video: the U-Net, {BATCH} latents of {side} × {side}, on {}", device.short_name());
    let mut table = context.table(title, COLUMNS);
    let (mut wrong, mut targets) = (Vec::new(), Vec::new());
    let mut timings = pytorch.timings.iter();
    for (name, config) in configs {
        let pytorch: Vec<_> = peers(context, name).into_iter().zip(timings.by_ref()).collect();
        let eager = pytorch.first().map_or(Err(ELSEWHERE.to_owned()), |(_, timing)| milliseconds(timing));
        let mut timed = |by: &str, ms: Result<f64, String>| {
            let rate = ms.clone().map(|ms| 1e3 / ms);
            let of_eager = ms.clone().and_then(|ms| Ok(100.0 * eager.clone()? / ms));
            if let (Ok(ms), PRODUCTION) = (&ms, name) {
                let met = TARGETS.iter().filter(|&target| ms <= target).map(f64::to_string).collect::<Vec<_>>();
                targets.push(format!("{by} {}", if met.is_empty() { "none".to_owned() } else { met.join(", ") }));
            }
            let about = [(CONFIGURATION, name.into()), (BY, by.into())];
            about.into_iter().chain([(MS, ms.into()), (FRAMES_PER_SECOND, rate.into()), (OF_EAGER, of_eager.into())])
        };
        step(format!("{name}, CPU"));
        let parameters = config.seeded(8);
        let (x, steps) = (Tensor::random(&[BATCH, unet::INPUTS, side, side], 1), [700.0; BATCH]);
        let times = Tensor::from_vec(&[BATCH], steps.to_vec())?;
        let cpu = Cpu::new();
        let network = UNet::load(&cpu, config, &parameters)?;
        let (timing, expected) = on_cpu(context, || cpu.infer(&network.at(times.to_host()?), &x)?.into_vec())?;
        drop(network);
        if device.is_cuda() {
            table.row().set_all(timed(CPU, milliseconds(&Ok(timing)))).finish("the others are compared with it");
        }

        step(format!("{name}, unfused"));
        let mut version = |by: &str, part: f64, held: u64, measured: Measured| {
            let Measured { noise, timing, planned_bytes } = measured;
            let (max_abs, word) = within(part, &format!("the U-Net {name}, {by}"), &noise, &expected, &mut wrong);
            let counted = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6);
            table
                .row()
                .set_all(timed(by, milliseconds(&Ok(timing))))
                .set(LANE_MILLIONS, Cell::or_absent(counted, NO_COUNTS))
                .set(WEIGHTS_MIB, held as f64 / MIB)
                .set(PLANNED_MIB, planned_bytes as f64 / MIB)
                .set(columns::MAX_DIFFERENCE, max_abs)
                .set(columns::CHECK, word)
                .finish("not measured");
        };
        let network = UNet::load(&Unfused::new(device), config, &parameters)?;
        let held = parameters.iter().map(|(_, tensor)| 4 * tensor.len() as u64).sum::<u64>();
        version(
            versions::UNFUSED,
            CLOSE,
            held,
            measure(device, &bench, network.at(times.to_device(device)?), &x, false)?,
        );
        if device.is_cuda() {
            let at = network.at(times.to_device(device)?);
            version(versions::UNFUSED_GRAPH, CLOSE, held, measure(device, &bench, at, &x, true)?);
        }
        drop(network);
        let is_shown = |arithmetic| !context.only_summary || arithmetic != Arithmetic::Tf32;
        for (arithmetic, by) in Arithmetic::ALL.into_iter().zip(versions::FUSED).filter(|(of, _)| is_shown(*of)) {
            step(format!("{name}, {by}"));
            let plan = plan(device, config, &parameters, arithmetic, x.shape())?;
            let at = WithInputs { plan: &plan, inputs: vec![times.to_device(device)?] };
            let measured = measure(device, &bench, at, &x, true)?;
            version(by, plan.error_bound(), plan.bytes()[0], measured);
        }
        drop(parameters);
        for (peer, timing) in pytorch {
            let row = table.row().set_all(timed(peer.name, milliseconds(timing)));
            row.finish("measured in a process of its own; its memory and results are not seen here");
        }
    }
    table.note(
        "A frame: one forward pass and one diffusion step; PyTorch's is the pass alone. By events, on an idle GPU.",
    );
    if device.is_cuda() {
        table.note(about_cpu());
    }
    table.note("MiB planned: of activations. Fused: phase 4's plan, launched as a graph; the rest launch by launch.");
    if !context.only_summary && !context.is_hurried() {
        step("clips".to_owned());
        let options = &CLIP[usize::from(device.is_sim())];
        let apart = decibels(device, options)?;
        let words: Vec<String> = apart.iter().map(|(of, db)| format!("{of} {db:.1} dB")).collect();
        let Options { frames, steps, .. } = options;
        let clip = format!("{frames} frames, {steps} steps each");
        table.note(format!("PSNR of a clip of {clip}, to the fused one in f32: {}.", words.join(", ")));
    }
    if !targets.is_empty() {
        let all = TARGETS.map(|target| target.to_string()).join(", ");
        table.note(format!("Targets for production, ms: {all}. Met by {}.", targets.join("; by ")));
    }
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}, its own attention; f32 without TF32, tf32 and f16 channels last, and f32 where NHWC is said. compiled \
             graph: torch.compile; tuned: the same with max-autotune; both as a CUDA graph."
        ));
    }
    table.note(format!(
        "|Δ|: the noise that the pass predicts, to the CPU's; {CLOSE:e} of the largest is allowed in f32, in other formats three \
         roundings per product. Weights: seeded."
    ));
    Ok(FinishedTable { table: table.finish(), wrong })
}
