//! `resnet-single`, `resnet-batch` and `memory`: whole ResNet18, by each implementation of the course.
//!
//! The weights are seeded, since their values change no time; results are compared with those of the CPU's fast layers, from
//! which the largest may differ by 1e-5 of the largest logit.

use std::time::Duration;

use common::Device;
use common::prelude::*;
use common::progress::Progress;
use common::table::{Cell, Column, Table};
use common::timing::{Bench, Timing};
use phase3_all_layers::backends::{ConvOnDevice, Cpu, OnHost, Planned, RoundTrip, Unfused};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::Parameters;

use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::board::{ELSEWHERE, NO_CLOCK, cell, milliseconds};
use crate::tables::differences::{CLOSE, close};
use crate::torch::{self, Mode, PeerRequest};

const CONFIG: Config = Config::RESNET18;
const SEED: u64 = 18;
const PHASE_4: &str = "it arrives with phase 4";

/// The implementations, as the tables call them; other tables look for them.
pub(crate) mod by {
    pub const PLAIN: &str = "1 CPU, plain loops";
    pub const CPU: &str = "1 CPU";
    pub const ROUND_TRIP: &str = "2 phase 1";
    pub const CONV_ON_DEVICE: &str = "3 phase 2";
    pub const PHASE3: &str = "4 phase 3";
    pub const PHASE4: &str = "5 phase 4";
    pub const PYTORCH_CPU: &str = "PyTorch, CPU";
    pub const EAGER: &str = "PyTorch eager";
    pub const COMPILED: &str = "PyTorch compiled";
    pub const GRAPH: &str = "PyTorch graph";
}

/// The difference of logits from the CPU's, and the word of the check.
fn check(by: &str, logits: &Tensor, cpu: &Tensor, wrong: &mut Vec<String>) -> common::Result<[Cell; 2]> {
    let (max_abs, word) = close(by, logits.as_slice()?, cpu.as_slice()?, wrong);
    Ok([max_abs.into(), word.into()])
}

/// A few runs by the host's clock, of what takes seconds on a slow machine.
fn by_host(repeats: usize, work: impl FnMut() -> common::Result<()>) -> common::Result<Timing> {
    Bench { warm_up: 1, repeats, limit: Duration::from_secs(4), ..Bench::default() }.measure_host(work)
}

/// The table in the registry.
pub const SINGLE: TableSpec = TableSpec {
    name: "resnet-single",
    shows: "five implementations of ResNet18: ms, speed-up, difference",
    so_far: "four of the five; the last: phase 4",
    make: Make::Measured(single),
};

/// `resnet-single`: one photo, from the host's memory to the host's logits.
fn single(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let progress = Progress::new(7, "resnet-single");
    let step = |what: &str| {
        progress.set_message(format!("resnet-single: {what}"));
        progress.inc(1);
    };
    let (images, parameters) = (context.photo.to_tensor(), CONFIG.seeded(SEED));
    let mut wrong = Vec::new();
    let timed = |cpu: Cpu, repeats| -> common::Result<(Timing, Tensor)> {
        let network = ResNet::load(&cpu, CONFIG, &parameters)?;
        let mut logits = Tensor::zeros(&[0]);
        let timing = by_host(repeats, || {
            logits = cpu.infer(&network, &images)?;
            Ok(())
        })?;
        Ok((timing, logits))
    };
    step(by::CPU);
    let (cpu, expected) = timed(Cpu::new(), 10)?;
    let on_cpu = cpu.median_ms();
    let mut columns = vec![
        Column::text("implementation"),
        Column::number("ms", 3),
        Column::number("over the CPU", 2),
        Column::number("max |Δ|", 3),
        Column::text("check"),
    ];
    if device.is_sim() {
        columns.insert(3, Column::number("lane M", 1));
    }
    let title = format!("resnet-single: ResNet18, one photo ({}), on {}", context.photo.name(), device.short_name());
    let mut table = Table::new(title, columns);
    let mut row = |name: &str, ms: Result<f64, String>, counted: Option<f64>, checked: [Cell; 2]| {
        let over = ms.clone().map(|ms| on_cpu.map_or(f64::NAN, |cpu| cpu / ms));
        let [difference, word] = checked;
        let mut cells = vec![name.into(), cell(ms), cell(over), difference, word];
        if device.is_sim() {
            cells.insert(3, Cell::or_absent(counted, "nothing of it runs on the device"));
        }
        table.row(cells);
    };
    step(by::PLAIN);
    let plain = Cpu::plain()?;
    let network = ResNet::load(&plain, CONFIG, &parameters)?;
    let begin = std::time::Instant::now();
    let plain_logits = plain.infer(&network, &images)?;
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    row(by::PLAIN, Ok(ms), None, check(by::PLAIN, &plain_logits, &expected, &mut wrong)?);
    row(by::CPU, on_cpu.ok_or_else(|| NO_CLOCK.to_owned()), None, check(by::CPU, &expected, &expected, &mut wrong)?);

    step("PyTorch");
    let bench = Bench { limit: Duration::from_secs(4), ..Bench::default() };
    let modes = [Mode::Cpu, Mode::Eager, Mode::Compiled, Mode::Graph];
    let pytorch = torch::measure(device, &bench, &modes.map(|mode| PeerRequest::resnet18(1, mode)));
    let unseen = || [(); 2].map(|()| Cell::absent(ELSEWHERE));
    row(by::PYTORCH_CPU, milliseconds(&pytorch.timings[0]), None, unseen());

    // What copies and kernels take, the host's clock says on a GPU; a simulated device has none.
    let mut on_device = |name: &str, run: &mut dyn FnMut() -> common::Result<Tensor>| -> crate::Result<()> {
        step(name);
        let mut logits = Tensor::zeros(&[0]);
        let mut work = || {
            logits = run()?;
            Ok(())
        };
        let (ms, counted) = match device.is_sim() {
            true => {
                let counts = Bench::default().measure(&device.stream(), work)?.counts();
                (Err(NO_CLOCK.to_owned()), counts.map(|counts| counts.lane_instructions as f64 / 1e6))
            }
            false => (milliseconds(&Ok(by_host(20, &mut work)?)), None),
        };
        row(name, ms, counted, check(name, &logits, &expected, &mut wrong)?);
        Ok(())
    };
    let round_trip = RoundTrip::new(device);
    let network = ResNet::load(&round_trip, CONFIG, &parameters)?;
    on_device(by::ROUND_TRIP, &mut || round_trip.infer(&network, &images))?;
    let by_conv = ConvOnDevice::new(device);
    let network = ResNet::load(&by_conv, CONFIG, &parameters)?;
    on_device(by::CONV_ON_DEVICE, &mut || by_conv.infer(&network, &images))?;
    drop((by_conv, network));
    let network = ResNet::load(&Unfused::new(device), CONFIG, &parameters)?;
    let mut planned = Planned::new(device, &network, images.shape())?;
    on_device(by::PHASE3, &mut || planned.infer(&device.stream(), &images))?;
    row(by::PHASE4, Err(PHASE_4.to_owned()), None, [(); 2].map(|()| Cell::absent(PHASE_4)));
    for (name, timing) in [by::EAGER, by::COMPILED, by::GRAPH].iter().zip(&pytorch.timings[1..]) {
        row(name, milliseconds(timing), None, unseen());
    }
    table.note(format!(
        "ms: from the image in the host's memory to the logits there, medians by the host's clock. The CPU: {} threads, but for \
         the plain loops, which have one and are run once.",
        rayon::current_num_threads()
    ));
    table.note(
        "2: the CPU computes, each tensor travels to the device and back first. 3: convolutions and BatchNorm on the device, with \
         copies around each pair. 4: all on the device, two copies in all.",
    );
    if device.is_cuda() {
        table.note("PyTorch on the GPU: by events, the image already there; without TF32.");
    }
    table.note(format!("|Δ|: to the CPU's logits; {CLOSE:e} of the largest is allowed. Weights: seeded."));
    Ok(FinishedTable { table, wrong })
}

/// The table in the registry.
pub const BATCH: TableSpec = TableSpec {
    name: "resnet-batch",
    shows: "ResNet18, batch 1 to 64, CPU and device: ms, images/s",
    so_far: "f32 of phase 3; others: phase 4",
    make: Make::Measured(batch),
};

/// `resnet-batch`: batches from the device's memory to logits there.
fn batch(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let batches: &[usize] = if device.is_cuda() { &[1, 4, 8, 16, 32, 64] } else { &[1, 4] };
    let parameters = CONFIG.seeded(SEED);
    let network = ResNet::load(&Unfused::new(device), CONFIG, &parameters)?;
    let cpu = Cpu::new();
    let on_cpu = ResNet::load(&cpu, CONFIG, &parameters)?;
    let progress = Progress::new(2 * batches.len() as u64 + 1, "resnet-batch");
    let step = |what: String| {
        progress.set_message(format!("resnet-batch: {what}"));
        progress.inc(1);
    };
    let bench = Bench { limit: Duration::from_secs(2), ..Bench::default() };
    step("PyTorch".to_owned());
    let modes = [Mode::Cpu, Mode::Eager, Mode::Compiled, Mode::Graph];
    let work: Vec<PeerRequest> =
        batches.iter().flat_map(|&batch| modes.map(|mode| PeerRequest::resnet18(batch, mode))).collect();
    let pytorch = torch::measure(device, &bench, &work);

    let mut wrong = Vec::new();
    let mut columns = vec![
        Column::identity("batch"),
        Column::text("by"),
        Column::number("ms", 3),
        Column::number("images/s", 0),
        Column::number("% of eager", 1),
        Column::number("max |Δ|", 3),
        Column::text("check"),
    ];
    if device.is_sim() {
        columns.insert(5, Column::number("lane M an image", 1));
    }
    let mut table = Table::new(format!("resnet-batch: ResNet18 on {}", device.short_name()), columns);
    for (&batch, pytorch) in batches.iter().zip(pytorch.timings.chunks(modes.len())) {
        let eager = milliseconds(&pytorch[1]);
        let mut row = |name: &str, ms: Result<f64, String>, counted: Option<f64>, checked: [Cell; 2]| {
            let of_eager = ms.clone().and_then(|ms| eager.clone().map(|eager| 100.0 * eager / ms));
            let rate = ms.clone().map(|ms| batch as f64 / (ms * 1e-3));
            let [difference, word] = checked;
            let mut cells =
                vec![(batch as f64).into(), name.into(), cell(ms), cell(rate), cell(of_eager), difference, word];
            if device.is_sim() {
                cells.insert(5, Cell::or_absent(counted, "nothing of it runs on the device"));
            }
            table.row(cells);
        };
        let images = Tensor::random(&[batch, 3, 224, 224], 1);
        step(format!("batch {batch}, CPU"));
        let mut expected = Tensor::zeros(&[0]);
        let timing = by_host(3, || {
            expected = cpu.infer(&on_cpu, &images)?;
            Ok(())
        })?;
        let name = format!("CPU, batch {batch}");
        row("CPU", milliseconds(&Ok(timing)), None, check(&name, &expected, &expected, &mut wrong)?);
        let unseen = || [(); 2].map(|()| Cell::absent(ELSEWHERE));
        row(by::PYTORCH_CPU, milliseconds(&pytorch[0]), None, unseen());

        step(format!("batch {batch}, phase 3"));
        let stream = device.stream();
        let mut planned = Planned::new(device, &network, images.shape())?;
        let checked =
            check(&format!("phase 3, batch {batch}"), &planned.infer(&stream, &images)?, &expected, &mut wrong)?;
        let timing = bench.measure(&stream, || planned.queue(&stream))?;
        let counted = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6 / batch as f64);
        row("phase 3", milliseconds(&Ok(timing)), counted, checked);
        for (name, timing) in [by::EAGER, by::COMPILED, by::GRAPH].iter().zip(&pytorch[1..]) {
            row(name, milliseconds(timing), None, unseen());
        }
    }
    table.note(match device.is_sim() {
        true => "lane M: millions of instructions that the simulator executed, counted by lane.",
        false => {
            "By events on a GPU that waits for the host, images and logits on the device; the CPU by its own clock."
        }
    });
    if let Some(version) = pytorch.version {
        table.note(format!("PyTorch {version}, f32 without TF32."));
    }
    table.note(format!("|Δ|: to the CPU's logits; {CLOSE:e} of the largest is allowed."));
    Ok(FinishedTable { table, wrong })
}

/// The table in the registry.
pub const MEMORY: TableSpec = TableSpec {
    name: "memory",
    shows: "phases 1 to 4: peak bytes on the device",
    so_far: "phases 1 to 3",
    make: Make::Measured(memory),
};

/// `memory`: what each implementation has allocated on the device at its peak.
fn memory(context: &Context) -> crate::Result<FinishedTable> {
    const MIB: f64 = (1 << 20) as f64;
    let device = &context.device;
    let batches: &[usize] = if device.is_cuda() { &[1, 32] } else { &[1] };
    let parameters = CONFIG.seeded(SEED);
    let columns = [
        Column::text("implementation"),
        Column::identity("batch"),
        Column::number("parameters", 1),
        Column::number("Winograd", 1),
        Column::number("scratch", 1),
        Column::number("activations", 1),
        Column::number("sum", 1),
        Column::number("peak", 1),
        Column::number("peak / sum", 3),
    ];
    let title = format!("memory: ResNet18's on {}, MiB", device.short_name());
    let mut table = Table::new(title, columns);
    let absent = || Cell::absent("it has no plan: what lives at a time, its peak says");
    for &batch in batches {
        let images = Tensor::random(&[batch, 3, 224, 224], 1);
        for name in [by::ROUND_TRIP, by::CONV_ON_DEVICE] {
            let peak = peak(device, || match name {
                by::ROUND_TRIP => on_host(&RoundTrip::new(device), &parameters, &images),
                _ => on_host(&ConvOnDevice::new(device), &parameters, &images),
            })?;
            let unplanned = [(); 5].map(|()| absent());
            let cells = [name.into(), (batch as f64).into()].into_iter().chain(unplanned);
            table.row(cells.chain([(peak as f64 / MIB).into(), absent()]));
        }
        let mut parts = [0; 4];
        let peak = peak(device, || {
            let backend = Unfused::new(device);
            let network = ResNet::load(&backend, CONFIG, &parameters)?;
            let mut planned = Planned::new(device, &network, images.shape())?;
            planned.infer(&device.stream(), &images)?;
            let [transformed, scratch] = backend.scratch_bytes();
            let activations = planned.workspace().bytes() + 4 * images.len() as u64;
            parts = [bytes_of(&parameters), transformed, scratch, activations];
            Ok(())
        })?;
        let sum: u64 = parts.iter().sum();
        let cells = [by::PHASE3.into(), (batch as f64).into()].into_iter();
        let cells = cells.chain(parts.iter().chain([&sum, &peak]).map(|&bytes| (bytes as f64 / MIB).into()));
        table.row(cells.chain([(peak as f64 / sum as f64).into()]));
        let cells = [by::PHASE4.into(), (batch as f64).into()].into_iter();
        table.row(cells.chain([(); 7].map(|()| Cell::absent(PHASE_4))));
    }
    table.note("peak: the most that our buffers took at a time, counted where they are allocated.");
    table.note(
        "parameters: as the model has them. Winograd: 3×3 weights once more, as its step reads them. scratch: parts of \
         results and tables of offsets. activations: planned before anything is allocated, with the input.",
    );
    Ok(FinishedTable { table, wrong: Vec::new() })
}

fn on_host(backend: &impl OnHost, parameters: &Parameters, images: &Tensor) -> common::Result<()> {
    backend.infer(&ResNet::load(backend, CONFIG, parameters)?, images).map(drop)
}

fn bytes_of(parameters: &Parameters) -> u64 {
    parameters.iter().map(|(_, tensor)| 4 * tensor.len() as u64).sum()
}

/// The most bytes that `work` had on the device beside what was there before.
fn peak(device: &Device, work: impl FnOnce() -> common::Result<()>) -> common::Result<u64> {
    device.synchronize()?;
    device.reset_peak_memory();
    let before = device.memory().in_use;
    work()?;
    Ok(device.memory().peak - before)
}
