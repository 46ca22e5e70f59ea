//! `resnet-single`, `resnet-batch` and `memory`: whole ResNet18, by each implementation of the course.
//!
//! The weights are seeded, since their values change no time; results are compared with those of the CPU's fast layers, from
//! which the largest may differ by 1e-5 of the largest logit, and in tf32 and f16 by the bound of phase 4's plans.

use std::time::Duration;

use bench::ladder::{ELSEWHERE, NO_COUNTS, columns, milliseconds};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, NO_CLOCK, Timing};
use common::Device;
use common::prelude::*;
use common::progress::Progress;
use phase3_all_layers::backends::{ConvOnDevice, Cpu, OnHost, Planned, RoundTrip, Unfused};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::Parameters;
use phase4_fusion::commands::resnet18::{plan, plan_in_bytes};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::int8::Scales;
use phase4_fusion::models::runner::Runner;

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::differences::{CLOSE, within};
use crate::tables::peers::{self, OF_EAGER, Peer, by_host};
use crate::torch::{self, Mode, PeerRequest};

const CONFIG: Config = Config::RESNET18;
const SEED: u64 = 18;

/// The implementation of a row, one of [`by`].
pub(crate) const IMPLEMENTATION: ColumnSpec = ColumnSpec::text("implementation", "implementation");
/// Implementation, in `resnet-batch`.
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");
/// Images in a batch.
pub(crate) const BATCH_SIZE: ColumnSpec = ColumnSpec::identity("batch", "batch");
/// The median time of a pass.
pub(crate) const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 3);
/// Images per second.
pub(crate) const RATE: ColumnSpec = ColumnSpec::number("images_per_second", "images/s", 0);
const OVER_CPU: ColumnSpec = ColumnSpec::number("over_cpu", "over the CPU", 2);
const LANE_MILLIONS: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 1).on_simulator();
const LANE_MILLIONS_PER_IMAGE: ColumnSpec =
    ColumnSpec::number("lane_millions_per_image", "lane M per image", 1).on_simulator();
/// MiB of parameters.
pub(crate) const PARAMETERS: ColumnSpec = ColumnSpec::number("parameters", "parameters", 1);
pub(crate) const WINOGRAD: ColumnSpec = ColumnSpec::number("winograd", "Winograd", 1);
pub(crate) const SCRATCH: ColumnSpec = ColumnSpec::number("scratch", "scratch", 1);
/// MiB of planned activations.
pub(crate) const ACTIVATIONS: ColumnSpec = ColumnSpec::number("activations", "activations", 1);
const SUM: ColumnSpec = ColumnSpec::number("sum", "sum", 1);
/// MiB at the peak.
pub(crate) const PEAK: ColumnSpec = ColumnSpec::number("peak", "peak", 1);
const PEAK_PER_SUM: ColumnSpec = ColumnSpec::number("peak_per_sum", "peak / sum", 3);

const SINGLE_COLUMNS: &[ColumnSpec] =
    &[IMPLEMENTATION, MS, OVER_CPU, LANE_MILLIONS, columns::MAX_DIFFERENCE, columns::CHECK];
const BATCH_COLUMNS: &[ColumnSpec] =
    &[BATCH_SIZE, BY, MS, RATE, OF_EAGER, LANE_MILLIONS_PER_IMAGE, columns::MAX_DIFFERENCE, columns::CHECK];
const MEMORY_COLUMNS: &[ColumnSpec] =
    &[IMPLEMENTATION, BATCH_SIZE, PARAMETERS, WINOGRAD, SCRATCH, ACTIVATIONS, SUM, PEAK, PEAK_PER_SUM];

/// Names of the implementations in the tables; other tables look for them.
pub(crate) mod by {
    use crate::tables::peers::{PYTORCH_COMPILED, PYTORCH_EAGER, PYTORCH_GRAPH};

    /// Name of the CPU in `resnet-batch`.
    pub(crate) const BATCH_CPU: &str = crate::tables::peers::CPU;
    /// Name of phase 3 in `resnet-batch`.
    pub(crate) const BATCH_PHASE3: &str = "phase 3";
    /// The same, launched as a graph; on a GPU.
    pub(crate) const BATCH_PHASE3_GRAPH: &str = "phase 3, graph";
    pub(crate) const PLAIN: &str = "1 CPU, plain loops";
    pub(crate) const CPU: &str = "1 CPU";
    pub(crate) const ROUND_TRIP: &str = "2 phase 1";
    pub(crate) const CONV_ON_DEVICE: &str = "3 phase 2";
    pub(crate) const PHASE3: &str = "4 phase 3";
    /// Names of phase 4 in `resnet-single`, by arithmetic.
    pub(crate) const PHASE4: [&str; 3] = [PHASE4_F32, "5 phase 4, tf32", PHASE4_F16];
    pub(crate) const PHASE4_F32: &str = "5 phase 4, f32";
    pub(crate) const PHASE4_F16: &str = "5 phase 4, f16";
    /// Names of phase 4 in `resnet-batch`.
    pub(crate) const BATCH_PHASE4: [&str; 3] = [BATCH_PHASE4_F32, "phase 4, tf32", BATCH_PHASE4_F16];
    pub(crate) const BATCH_PHASE4_F32: &str = "phase 4, f32";
    pub(crate) const BATCH_PHASE4_F16: &str = "phase 4, f16";
    /// Name in both for int8.
    pub(crate) const INT8: &str = "5 phase 4, int8";
    pub(crate) const BATCH_INT8: &str = "phase 4, int8";
    pub(crate) const PYTORCH_CPU: &str = "PyTorch, CPU";
    pub(crate) const EAGER: &str = PYTORCH_EAGER;
    pub(crate) const COMPILED: &str = PYTORCH_COMPILED;
    pub(crate) const GRAPH: &str = PYTORCH_GRAPH;
    pub(crate) const GRAPH_TF32: &str = "PyTorch graph, tf32";
    pub(crate) const TUNED_TF32: &str = "PyTorch tuned, tf32";
    pub(crate) const GRAPH_F16: &str = "PyTorch graph, f16";
    pub(crate) const TUNED_F16: &str = "PyTorch tuned, f16";
}

/// The difference of logits from the CPU's, and the word of the check.
fn check(by: &str, logits: &Tensor, cpu: &Tensor, wrong: &mut Vec<String>) -> common::Result<[(ColumnSpec, Cell); 2]> {
    check_within(CLOSE, by, logits, cpu, wrong)
}

/// [`check`], with another tolerance relative to the largest logit.
fn check_within(
    part: f64,
    by: &str,
    logits: &Tensor,
    cpu: &Tensor,
    wrong: &mut Vec<String>,
) -> common::Result<[(ColumnSpec, Cell); 2]> {
    let (max_abs, word) = within(part, by, logits.as_slice()?, cpu.as_slice()?, wrong);
    Ok([(columns::MAX_DIFFERENCE, max_abs.into()), (columns::CHECK, word.into())])
}

/// Phase 4's implementation for images of this shape.
fn phase4(
    device: &Device,
    parameters: &Parameters,
    arithmetic: Arithmetic,
    images: &[usize],
) -> common::Result<Runner> {
    Runner::new(device, plan(device, CONFIG, parameters, arithmetic, images)?)
}

/// [`phase4`] in int8, with steps from these images.
fn phase4_in_bytes(device: &Device, parameters: &Parameters, images: &Tensor) -> common::Result<Runner> {
    let scales = Scales::calibrate(CONFIG, parameters, images)?;
    Runner::new(device, plan_in_bytes(device, CONFIG, parameters, &scales, images.shape())?)
}

/// Note on int8's rows.
const ABOUT_INT8: &str = "int8: between convolutions, its steps by the same images in f32; the rest in f16.";

/// Note on the tolerance in both tables.
fn allowed() -> String {
    format!(
        "|Δ|: to the CPU's logits; {CLOSE:e} of the largest is allowed, in tf32, f16 and int8 three roundings for each of the layers that \
         multiply."
    )
}

/// PyTorch's versions: the first [`ON_CPU`] are those on the CPU.
const PEERS: [Peer; 8] = {
    use torch::Arithmetic::{F16, F32, Tf32};
    [
        Peer::new(by::PYTORCH_CPU, Mode::Cpu, F32),
        Peer::new(by::EAGER, Mode::Eager, F32),
        Peer::new(by::COMPILED, Mode::Compiled, F32),
        Peer::new(by::GRAPH, Mode::Graph, F32),
        Peer::new(by::GRAPH_TF32, Mode::Graph, Tf32),
        Peer::new(by::TUNED_TF32, Mode::Autotuned, Tf32),
        Peer::new(by::GRAPH_F16, Mode::Graph, F16),
        Peer::new(by::TUNED_F16, Mode::Autotuned, F16),
    ]
};
const ON_CPU: usize = 1;
/// The batches at which PyTorch is measured in tf32 and f16 too: trying kernels takes it long.
const TUNED_BATCHES: [usize; 3] = [1, 32, 256];

/// Peers that are measured at a batch.
fn peers(context: &Context, batch: usize) -> impl Iterator<Item = Peer> {
    let (all, quick) = (TUNED_BATCHES.contains(&batch), context.only_summary);
    let timely = PEERS.into_iter().filter(move |peer| !quick || peers::is_quick(peer.mode));
    timely.filter(move |peer| all || peer.arithmetic == torch::Arithmetic::F32)
}

/// The batch that the summary shows.
const IN_SUMMARY: InSummary = InSummary { gpu: "32", simulator: "1" };

fn request(peer: Peer, batch: usize) -> PeerRequest {
    PeerRequest::resnet18(batch, peer.mode).with_arithmetic(peer.arithmetic)
}

/// Note on PyTorch's rows.
const ABOUT_PEERS: &str =
    "f32 without TF32; tf32 and f16 channels last. tuned: torch.compile with max-autotune, as a CUDA graph";

/// The table in the registry.
pub const SINGLE: TableSpec = TableSpec {
    name: "resnet-single",
    shows: "five implementations of ResNet18: ms, speed-up, difference",
    uses: &[Need::Gpu, Need::PyTorch],
    columns: SINGLE_COLUMNS,
    make: Make::Measured(single),
};

/// `resnet-single`: one photo, from the host's memory to the host's logits.
fn single(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let progress = Progress::new(10, "resnet-single");
    let step = |what: &str| {
        progress.set_message(format!("resnet-single: {what}"));
        progress.inc(1);
    };
    let (images, parameters) = (context.image()?, CONFIG.seeded(SEED));
    let mut wrong = Vec::new();
    let time_passes = |cpu: Cpu, bench: Bench| -> common::Result<(Timing, Tensor)> {
        let network = ResNet::load(&cpu, CONFIG, &parameters)?;
        let mut logits = Tensor::zeros(&[0]);
        let timing = context.host_bench(bench).measure_host(|| {
            logits = cpu.infer(&network, &images)?;
            Ok(())
        })?;
        Ok((timing, logits))
    };
    step(by::CPU);
    let (cpu, expected) = time_passes(Cpu::new(), peers::on_host(10))?;
    let on_cpu = cpu.median_ms();
    let title = format!("resnet-single: ResNet18, one photo ({}), on {}", context.photo.name(), device.short_name());
    let mut table = context.table(title, SINGLE_COLUMNS);
    let timed = |name: &str, ms: Result<f64, String>| {
        let over = ms.clone().map(|ms| on_cpu.map_or(f64::NAN, |cpu| cpu / ms));
        [(IMPLEMENTATION, name.into()), (MS, ms.into()), (OVER_CPU, over.into())]
    };
    let on_the_host = "nothing of it runs on the device";
    if !context.only_summary {
        step(by::PLAIN);
        // A pass takes seconds. Where no GPU is compared with it, one is enough.
        let repeats = if device.is_sim() { 1 } else { 5 };
        let bench = Bench { warm_up: 0, repeats, limit: Duration::from_secs(60), ..Bench::default() };
        let (plain, plain_logits) = time_passes(Cpu::plain()?, bench)?;
        let checked = check(by::PLAIN, &plain_logits, &expected, &mut wrong)?;
        let plain_ms = plain.median_ms().ok_or_else(|| NO_CLOCK.to_owned());
        table.row().set_all(timed(by::PLAIN, plain_ms)).set_all(checked).finish(on_the_host);
        table.note(format!("Plain loops: {}.", peers::spread_note([&plain])));
    }
    let checked = check(by::CPU, &expected, &expected, &mut wrong)?;
    let cpu_ms = on_cpu.ok_or_else(|| NO_CLOCK.to_owned());
    table.row().set_all(timed(by::CPU, cpu_ms)).set_all(checked).finish(on_the_host);

    step("PyTorch");
    let bench = Bench { limit: Duration::from_secs(4), ..Bench::default() };
    let pytorch =
        context.pytorch.measure(device, &bench, &peers(context, 1).map(|peer| request(peer, 1)).collect::<Vec<_>>());
    let mut timings = peers(context, 1).zip(&pytorch.timings);
    for (peer, timing) in timings.by_ref().take(ON_CPU) {
        table.row().set_all(timed(peer.name, milliseconds(timing))).finish(ELSEWHERE);
    }

    // What copies and kernels take, the host's clock says on a GPU; a simulated device has none.
    let mut on_device = |name: &str, part: f64, run: &mut dyn FnMut() -> common::Result<Tensor>| -> crate::Result<()> {
        step(name);
        let mut logits = Tensor::zeros(&[0]);
        let mut work = || {
            logits = run()?;
            Ok(())
        };
        let (ms, counted) = if device.is_sim() {
            let counts = Bench::default().measure(&device.stream(), work)?.counts();
            (Err(NO_CLOCK.to_owned()), counts.map(|counts| counts.lane_instructions as f64 / 1e6))
        } else {
            (milliseconds(&Ok(by_host(context, 20, &mut work)?)), None)
        };
        let checked = check_within(part, name, &logits, &expected, &mut wrong)?;
        let counted = Cell::or_absent(counted, NO_COUNTS);
        table.row().set_all(timed(name, ms)).set(LANE_MILLIONS, counted).set_all(checked).finish("not measured");
        Ok(())
    };
    let round_trip = RoundTrip::new(device);
    let network = ResNet::load(&round_trip, CONFIG, &parameters)?;
    on_device(by::ROUND_TRIP, CLOSE, &mut || round_trip.infer(&network, &images))?;
    let by_conv = ConvOnDevice::new(device);
    let network = ResNet::load(&by_conv, CONFIG, &parameters)?;
    on_device(by::CONV_ON_DEVICE, CLOSE, &mut || by_conv.infer(&network, &images))?;
    drop((by_conv, network));
    let network = ResNet::load(&Unfused::new(device), CONFIG, &parameters)?;
    let mut planned = Planned::new(device, &network, images.shape())?;
    on_device(by::PHASE3, CLOSE, &mut || planned.infer(&device.stream(), &images))?;
    drop(planned);
    drop(network);
    for (arithmetic, name) in Arithmetic::ALL.into_iter().zip(by::PHASE4) {
        let mut runner = phase4(device, &parameters, arithmetic, images.shape())?;
        let bound = runner.plan().error_bound();
        on_device(name, bound, &mut || runner.infer(&device.stream(), &images))?;
    }
    let mut runner = phase4_in_bytes(device, &parameters, &images)?;
    let bound = runner.plan().error_bound();
    on_device(by::INT8, bound, &mut || runner.infer(&device.stream(), &images))?;
    drop(runner);
    for (peer, timing) in timings {
        table.row().set_all(timed(peer.name, milliseconds(timing))).finish(ELSEWHERE);
    }
    table.note(format!(
        "ms: from the image in the host's memory to the logits there, medians by the host's clock. The CPU: {} threads, but for \
         the plain loops, which have one.",
        rayon::current_num_threads()
    ));
    table.note(
        "2: the CPU computes, each tensor travels to the device and back first. 3: convolutions and BatchNorm on the device, with \
         copies around each pair. 4: all on the device, two copies in all. 5: the same, fused, in four arithmetics.",
    );
    table.note(ABOUT_INT8);
    if device.is_cuda() {
        table.note(format!("PyTorch on the GPU: by events, the image already there; {ABOUT_PEERS}."));
    }
    table.note(format!("{} Weights: seeded.", allowed()));
    if let Some(note) = context.side_note() {
        table.note(note);
    }
    Ok(FinishedTable { table: table.finish(), wrong })
}

/// The table in the registry.
pub const BATCH: TableSpec = TableSpec {
    name: "resnet-batch",
    shows: "ResNet18, batch 1 to 256, CPU and device: ms, images/s",
    uses: &[Need::Gpu, Need::PyTorch],
    columns: BATCH_COLUMNS,
    make: Make::Measured(batch),
};

/// `resnet-batch`: batches from the device's memory to logits there.
fn batch(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let batches: &[usize] = if device.is_cuda() { &[1, 4, 8, 16, 32, 64, 256] } else { &[1, 2] };
    let batches = context.chosen(batches, IN_SUMMARY, |batch| batch.to_string());
    let parameters = CONFIG.seeded(SEED);
    let network = ResNet::load(&Unfused::new(device), CONFIG, &parameters)?;
    let cpu = Cpu::new();
    let on_cpu = ResNet::load(&cpu, CONFIG, &parameters)?;
    let progress = Progress::new(6 * batches.len() as u64 + 1, "resnet-batch");
    let step = |what: String| {
        progress.set_message(format!("resnet-batch: {what}"));
        progress.inc(1);
    };
    let bench = Bench { limit: Duration::from_secs(2), ..Bench::default() };
    step("PyTorch".to_owned());
    let work: Vec<PeerRequest> =
        batches.iter().flat_map(|&batch| peers(context, batch).map(move |peer| request(peer, batch))).collect();
    let pytorch = context.pytorch.measure(device, &bench, &work);
    let mut timings = pytorch.timings.iter();

    let mut wrong = Vec::new();
    let mut table = context.table(format!("resnet-batch: ResNet18 on {}", device.short_name()), BATCH_COLUMNS);
    for batch in batches {
        let peers: Vec<_> = peers(context, batch).zip(timings.by_ref()).collect();
        let (cpu_peers, gpu_peers) = peers.split_at(ON_CPU);
        let eager = gpu_peers.iter().find(|(peer, _)| peer.name == by::EAGER);
        let eager = eager.map_or_else(|| Err(ELSEWHERE.to_owned()), |(_, timing)| milliseconds(timing));
        let timed = |name: &str, ms: Result<f64, String>| {
            let of_eager = ms.clone().and_then(|ms| Ok(100.0 * eager.clone()? / ms));
            let rate = ms.clone().map(|ms| batch as f64 / (ms * 1e-3));
            let about = [(BATCH_SIZE, batch.into()), (BY, name.into())];
            about.into_iter().chain([(MS, ms.into()), (RATE, rate.into()), (OF_EAGER, of_eager.into())])
        };
        let images = Tensor::random(&[batch, 3, context.side(), context.side()], 1);
        step(format!("batch {batch}, CPU"));
        let mut expected = Tensor::zeros(&[0]);
        let timing = by_host(context, 3, || {
            expected = cpu.infer(&on_cpu, &images)?;
            Ok(())
        })?;
        let name = format!("CPU, batch {batch}");
        let checked = check(&name, &expected, &expected, &mut wrong)?;
        let row = table.row().set_all(timed(by::BATCH_CPU, milliseconds(&Ok(timing)))).set_all(checked);
        row.finish("nothing of it runs on the device");
        for (peer, timing) in cpu_peers {
            table.row().set_all(timed(peer.name, milliseconds(timing))).finish(ELSEWHERE);
        }

        step(format!("batch {batch}, phase 3"));
        let stream = device.stream();
        let mut planned = Planned::new(device, &network, images.shape())?;
        let checked =
            check(&format!("phase 3, batch {batch}"), &planned.infer(&stream, &images)?, &expected, &mut wrong)?;
        let timing = bench.measure(&stream, || planned.queue(&stream))?;
        let counted = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6 / batch as f64);
        let row = table.row().set_all(timed(by::BATCH_PHASE3, milliseconds(&Ok(timing))));
        let row = row.set(LANE_MILLIONS_PER_IMAGE, Cell::or_absent(counted, NO_COUNTS)).set_all(checked);
        row.finish("not measured");
        if device.is_cuda() {
            let captured = planned.capture(&stream)?;
            let timing = bench.measure(&stream, || captured.queue(&stream))?;
            let row = table.row().set_all(timed(by::BATCH_PHASE3_GRAPH, milliseconds(&Ok(timing))));
            row.finish("as without a graph");
        }
        drop(planned);
        let fused = Arithmetic::ALL.into_iter().zip(by::BATCH_PHASE4);
        for (arithmetic, name) in fused.chain([(Arithmetic::Int8, by::BATCH_INT8)]) {
            // The simulator takes seconds for an image; what a batch changes shows in one of them.
            if device.is_sim() && batch > 1 && arithmetic != Arithmetic::F16 {
                continue;
            }
            step(format!("batch {batch}, {name}"));
            let mut runner = match arithmetic {
                Arithmetic::Int8 => phase4_in_bytes(device, &parameters, &images)?,
                _ => phase4(device, &parameters, arithmetic, images.shape())?,
            };
            let (bound, logits) = (runner.plan().error_bound(), runner.infer(&stream, &images)?);
            let checked = check_within(bound, &format!("{name}, batch {batch}"), &logits, &expected, &mut wrong)?;
            let timing = bench.measure(&stream, || runner.queue(&stream))?;
            let counted = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6 / batch as f64);
            let row = table.row().set_all(timed(name, milliseconds(&Ok(timing))));
            let row = row.set(LANE_MILLIONS_PER_IMAGE, Cell::or_absent(counted, NO_COUNTS)).set_all(checked);
            row.finish("not measured");
        }
        for (peer, timing) in gpu_peers {
            table.row().set_all(timed(peer.name, milliseconds(timing))).finish(ELSEWHERE);
        }
    }
    table.note(if device.is_sim() {
        "lane M: millions of instructions that the simulator executed, counted by lane."
    } else {
        "By events on a GPU that waits for the host, images and logits on the device; the CPU by its own clock."
    });
    if let Some(version) = pytorch.version {
        table.note(format!("PyTorch {version}, {ABOUT_PEERS}."));
    }
    table.note(ABOUT_INT8);
    table.note(allowed());
    if let Some(note) = context.side_note() {
        table.note(note);
    }
    Ok(FinishedTable { table: table.finish(), wrong })
}

/// The table in the registry.
pub const MEMORY: TableSpec = TableSpec {
    name: "memory",
    shows: "phases 1 to 4: peak bytes on the device",
    uses: &[],
    columns: MEMORY_COLUMNS,
    make: Make::Measured(memory),
};

const MIB: f64 = (1 << 20) as f64;

/// The row of an implementation whose memory is planned: bytes of parameters, Winograd's transforms, scratch and activations, and
/// the peak.
fn row_of_plan(table: &mut TableBuilder, name: &str, batch: usize, parts: [u64; 4], peak: u64) {
    let sum: u64 = parts.iter().sum();
    let all =
        [PARAMETERS, WINOGRAD, SCRATCH, ACTIVATIONS, SUM, PEAK].into_iter().zip(parts.into_iter().chain([sum, peak]));
    table
        .row()
        .set(IMPLEMENTATION, name)
        .set(BATCH_SIZE, batch)
        .set_all(all.map(|(column, bytes)| (column, (bytes as f64 / MIB).into())))
        .set(PEAK_PER_SUM, peak as f64 / sum as f64)
        .finish("not measured");
}

/// `memory`: peak memory that each implementation has allocated on the device.
fn memory(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let batches: &[usize] = if device.is_cuda() { &[1, 32] } else { &[1] };
    let parameters = CONFIG.seeded(SEED);
    let title = format!("memory: ResNet18's on {}, MiB", device.short_name());
    let mut table = context.table(title, MEMORY_COLUMNS);
    for &batch in batches {
        let images = Tensor::random(&[batch, 3, context.side(), context.side()], 1);
        let of_phase1 = peak(device, || on_host(&RoundTrip::new(device), &parameters, &images))?;
        let of_phase2 = peak(device, || on_host(&ConvOnDevice::new(device), &parameters, &images))?;
        for (name, peak) in [(by::ROUND_TRIP, of_phase1), (by::CONV_ON_DEVICE, of_phase2)] {
            let row = table.row().set(IMPLEMENTATION, name).set(BATCH_SIZE, batch);
            row.set(PEAK, peak as f64 / MIB).finish("it has no plan: what lives at a time, its peak says");
        }
        let mut parts = [0; 4];
        let of_phase3 = peak(device, || {
            let backend = Unfused::new(device);
            let network = ResNet::load(&backend, CONFIG, &parameters)?;
            let mut planned = Planned::new(device, &network, images.shape())?;
            planned.infer(&device.stream(), &images)?;
            let [transformed, scratch] = backend.scratch_bytes();
            let activations = planned.workspace().bytes() + 4 * images.len() as u64;
            parts = [bytes_of(&parameters), transformed, scratch, activations];
            Ok(())
        })?;
        row_of_plan(&mut table, by::PHASE3, batch, parts, of_phase3);
        let by_format = Arithmetic::ALL.map(Some).into_iter().zip(by::PHASE4);
        for (arithmetic, name) in by_format.chain([(None, by::INT8)]) {
            let mut parts = [0; 4];
            let of_phase4 = peak(device, || {
                let mut runner = match arithmetic {
                    Some(arithmetic) => phase4(device, &parameters, arithmetic, images.shape())?,
                    None => phase4_in_bytes(device, &parameters, &images)?,
                };
                runner.infer(&device.stream(), &images)?;
                let [parameters, transformed, scratch] = runner.plan().bytes();
                parts = [parameters, transformed, scratch, runner.workspace().bytes() + 4 * images.len() as u64];
                Ok(())
            })?;
            row_of_plan(&mut table, name, batch, parts, of_phase4);
        }
    }
    table.note("peak: the most that our buffers took at a time, counted where they are allocated.");
    if let Some(note) = context.side_note() {
        table.note(note);
    }
    table.note(
        "parameters: as the model has them. Winograd: 3×3 weights once more, as its step reads them. scratch: parts of \
         results and tables of offsets. activations: planned before anything is allocated, with the input.",
    );
    Ok(FinishedTable { table: table.finish(), wrong: Vec::new() })
}

fn on_host(backend: &impl OnHost, parameters: &Parameters, images: &Tensor) -> common::Result<()> {
    backend.infer(&ResNet::load(backend, CONFIG, parameters)?, images).map(drop)
}

fn bytes_of(parameters: &Parameters) -> u64 {
    parameters.iter().map(|(_, tensor)| 4 * tensor.len() as u64).sum()
}

/// Maximum bytes of `work` on the device, in addition to those allocated before.
fn peak(device: &Device, work: impl FnOnce() -> common::Result<()>) -> common::Result<u64> {
    device.synchronize()?;
    device.reset_peak_memory();
    let before = device.memory().in_use;
    work()?;
    Ok(device.memory().peak - before)
}
