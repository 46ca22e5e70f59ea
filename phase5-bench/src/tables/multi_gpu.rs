//! `multi-gpu`: one model over 1, 2 and 4 GPUs of a host: its batches divided, or its layers.
//!
//! Rates by the host's clock, from an idle device to the last result, with the copies between host and device. On the simulator there are
//! small networks on simulated devices, checked and counted.

use std::time::Duration;

use bench::ladder::{NO_COUNTS, columns};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, Clock, NO_CLOCK, Timing};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::progress::Progress;
use media::photo::{self, Photo};
use phase3_all_layers::models::{resnet, unet};
use phase3_all_layers::nn::Parameters;
pub(crate) use phase4_fusion::all_reduce::measured::GPUS;
use phase4_fusion::commands::{resnet18, unet as unet_plan};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::runner::Runner;
use phase4_fusion::parallel::feed::{Feed, normalised};
use phase4_fusion::parallel::pipeline::Pipeline;
use phase4_fusion::parallel::replicas::Replicas;
use phase4_fusion::tensor_parallel::measure;

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};

/// The work.
pub(crate) const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
/// How it is divided.
pub(crate) const WAY: ColumnSpec = ColumnSpec::text("way", "divided by");
const RATE: ColumnSpec = ColumnSpec::number("per_second", "per s", 1).on_gpu();
/// Latency of a single batch or frame.
const LATENCY: ColumnSpec = ColumnSpec::number("latency_ms", "latency, ms", 3).on_gpu();
/// Ratio of the rate to that of one device.
pub(crate) const SPEED_UP: ColumnSpec = ColumnSpec::number("speed_up", "speed-up, ×", 2).on_gpu();
const EFFICIENCY: ColumnSpec = ColumnSpec::number("efficiency", "% of linear", 1).on_gpu();
const LINK_MIB: ColumnSpec = ColumnSpec::number("link_mib", "link MiB", 2);
const LANE_MILLIONS: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 1).on_simulator();
const COLUMNS: &[ColumnSpec] =
    &[WHAT, WAY, GPUS, RATE, LATENCY, SPEED_UP, EFFICIENCY, LINK_MIB, LANE_MILLIONS, columns::CHECK];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "multi-gpu",
    shows: "1, 2, 4 GPUs: images/s, frames/s, latency, efficiency",
    uses: &[Need::Gpu, Need::SecondGpu, Need::Nccl],
    columns: COLUMNS,
    make: Make::Measured(run),
};

const SEED: u64 = 18;
const STEP: f32 = 700.0;
/// One frame on all devices, each with a part of the heads and channels.
const HEADS: &str = "heads";
const MIB: f64 = (1u64 << 20) as f64;
/// The compared numbers of devices.
const DEVICES: [usize; 3] = [1, 2, 4];
const ARITHMETIC: Arithmetic = Arithmetic::F16;

/// Sizes of the work: a second on a GPU is a day on the simulator.
struct Sizes {
    resnet: resnet::Config,
    side: usize,
    /// Images of a batch, and batches per device.
    batch: usize,
    batches: usize,
    /// Photos of a batch that are decoded, and such batches per device.
    decoded: usize,
    decoded_batches: usize,
    unet: (&'static str, unet::Config),
    latents: [usize; 4],
    frames: usize,
}

impl Sizes {
    fn of(group: &DeviceGroup) -> Sizes {
        if group.is_sim() {
            Sizes {
                resnet: resnet::Config { widths: [8, 8, 16, 16], blocks: [1, 1, 1, 1], classes: 10 },
                side: 32,
                batch: 2,
                batches: 2,
                decoded: 1,
                decoded_batches: 1,
                unet: ("a narrow U-Net", unet::Config { channels: 8, heads: 4 }),
                latents: [1, unet::INPUTS, 8, 8],
                frames: 1,
            }
        } else {
            Sizes {
                resnet: resnet::Config::RESNET18,
                side: 224,
                batch: 256,
                batches: 24,
                decoded: 128,
                decoded_batches: 4,
                unet: ("U-Net production", unet::Config::PRODUCTION),
                latents: [2, unet::INPUTS, 64, 64],
                frames: 48,
            }
        }
    }

    fn resnet_name(&self) -> &'static str {
        if self.side == 224 { "ResNet18" } else { "a small ResNet" }
    }
}

/// The growing table.
struct Growing<'a> {
    table: TableBuilder,
    wrong: Vec<String>,
    progress: &'a Progress,
    group: &'a DeviceGroup,
}

/// Work on some devices.
struct Measured {
    /// Images or frames.
    items: usize,
    timing: Timing,
    latency: Option<f64>,
    /// Bytes over links between host and device, or between devices.
    link_bytes: u64,
    checked: common::Result<()>,
}

impl Growing<'_> {
    /// The available numbers of devices.
    fn counts(&self) -> impl Iterator<Item = usize> + use<> {
        let there = self.group.len();
        DEVICES.into_iter().filter(move |count| *count <= there)
    }

    fn bench(&self) -> Bench {
        Bench { warm_up: 1, repeats: 7, limit: Duration::from_secs(8), ..Bench::default() }
    }

    /// Measures `work` until all devices are done.
    fn measure(&self, mut work: impl FnMut() -> common::Result<()>) -> common::Result<Timing> {
        if self.group.is_sim() {
            // Once, to count: what all devices did.
            let before = self.counted();
            work()?;
            return Ok(Timing::from_counts(self.counted() - before));
        }
        self.bench().measure_host(|| {
            work()?;
            self.group.synchronize()
        })
    }

    /// Milliseconds of a single `work`, where there is a clock.
    fn latency(&self, work: impl FnMut() -> common::Result<()>) -> common::Result<Option<f64>> {
        if self.group.is_sim() {
            return Ok(None);
        }
        Ok(self.measure(work)?.median_ms())
    }

    fn counted(&self) -> common::device::Counts {
        let all = self.group.devices().iter().filter_map(Device::counts);
        all.fold(common::device::Counts::default(), |sum, one| sum + one)
    }

    /// Adds a row; `alone` is the rate of one device, once it is known.
    fn row(&mut self, what: &str, way: &str, gpus: usize, alone: &mut Option<f64>, measured: Measured) {
        let Measured { items, timing, latency, link_bytes, checked } = measured;
        self.progress.inc(1);
        let rate = timing.median_ms().map(|ms| items as f64 / (ms * 1e-3));
        *alone = alone.or(rate);
        let speed_up = rate.zip(*alone).map(|(rate, alone)| rate / alone);
        let lanes = match timing.counts() {
            // It asks for flags of other devices until they are set, which takes more or fewer instructions each time.
            Some(_) if way == HEADS && gpus > 1 => Cell::absent("waits, as often as it takes"),
            counts => Cell::or_absent(counts.map(|counts| counts.lane_instructions as f64 / 1e6), NO_COUNTS),
        };
        let check = match checked {
            Ok(()) => "right",
            Err(error) => {
                self.wrong.push(format!("{what}, {way}, {gpus} GPUs: {error}"));
                "WRONG"
            }
        };
        self.table
            .row()
            .set(WHAT, what)
            .set(WAY, way)
            .set(GPUS, gpus)
            .set(RATE, Cell::or_absent(rate, NO_CLOCK))
            .set(LATENCY, Cell::or_absent(latency, "a rate alone"))
            .set(SPEED_UP, Cell::or_absent(speed_up, NO_CLOCK))
            .set(EFFICIENCY, Cell::or_absent(speed_up.map(|up| 100.0 * up / gpus as f64), NO_CLOCK))
            .set(LINK_MIB, link_bytes as f64 / MIB)
            .set(LANE_MILLIONS, lanes)
            .set(columns::CHECK, check)
            .complete();
    }
}

/// Fails unless the values are the same, bit for bit.
fn same(found: &[f32], expected: &[f32]) -> common::Result<()> {
    match found.iter().zip(expected).position(|(found, expected)| found.to_bits() != expected.to_bits()) {
        None if found.len() == expected.len() => Ok(()),
        None => Err(Error::Invalid(format!("{} values, expected {}", found.len(), expected.len()))),
        Some(at) => Err(Error::Invalid(format!("value {at} is {}, expected {}", found[at], expected[at]))),
    }
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    // Two show what there is to check.
    let most = if context.is_hurried() { 2 } else { DEVICES[DEVICES.len() - 1] };
    let group = context.group(most)?;
    let sizes = Sizes::of(&group);
    let progress = Progress::new(7 * DEVICES.len() as u64, "multi-gpu");
    let table = context.table(format!("multi-gpu on {}", group.describe()), COLUMNS);
    let mut growing = Growing { table, wrong: Vec::new(), progress: &progress, group: &group };
    images(&sizes, &mut growing)?;
    frames(&sizes, &mut growing)?;
    let Growing { mut table, wrong, .. } = growing;
    progress.finish();
    table.note(format!(
        "In {ARITHMETIC}. Images: batches of {} from pinned memory, {} per device, as f32 or as bytes of pixels; two places per device, so that \
         copies and passes overlap. From JPEG: batches of {}, decoded by {} threads of the host.",
        sizes.batch,
        sizes.batches,
        sizes.decoded,
        rayon::current_num_threads()
    ));
    let [count, _, height, width] = sizes.latents;
    table.note(format!(
        "A frame: one forward pass over {count} latents of {height} × {width}. Clips: each device has its own. Heads, and channels: all devices \
         work on one frame; latents: each has one of its latents. Layers: in a pipeline, one latent at a time. link MiB: of a batch or frame, between host and device, or between devices."
    ));
    if !group.is_sim() {
        table.note(machine(&group)?);
    }
    Ok(FinishedTable { table: table.finish(), wrong })
}

/// The GPUs, their driver and the link between the first two.
fn machine(group: &DeviceGroup) -> common::Result<String> {
    let driver = common::probe::report().into_iter().find(|part| part.name == common::probe::Library::Driver.name());
    let driver = driver.and_then(|part| part.version).unwrap_or_default();
    let clock = group.devices()[0]
        .properties()
        .clock_khz
        .map_or_else(String::new, |khz| format!(", clocks up to {} MHz", khz / 1000));
    let link = match group.len() {
        1 => String::new(),
        _ => {
            let link = group.link(0, 1)?;
            let has = |is: bool, what: &str| format!("{} {what}", if is { "with" } else { "without" });
            let (access, atomics) = (has(link.peer_access, "peer access"), has(link.native_atomics, "native atomics"));
            format!("; between GPUs 0 and 1 a link {access} and {atomics}")
        }
    };
    Ok(format!("{}, driver {driver}{clock}{link}.", group.describe()))
}

/// ResNet18: from pinned memory, as f32 and as the bytes of pixels, and from JPEG.
fn images(sizes: &Sizes, growing: &mut Growing<'_>) -> crate::Result<()> {
    let parameters = sizes.resnet.seeded(SEED);
    let name = sizes.resnet_name();
    let shape = [sizes.batch, 3, sizes.side, sizes.side];
    let pinned =
        |what: &str| Images { what: format!("{name}, {what}"), parameters: &parameters, shape, each: sizes.batches };
    let values = Tensor::random(&shape, 1);
    replicas(growing, sizes, &pinned("f32"), values.as_slice()?, &values, |_| Ok(()))?;
    let pixels: Vec<u8> = values.as_slice()?.iter().map(|value| (127.5 * (value + 1.0)) as u8).collect();
    replicas(growing, sizes, &pinned("bytes"), &pixels, &normalised(&shape, &pixels)?, |_| Ok(()))?;

    let shape = [sizes.decoded, 3, sizes.side, sizes.side];
    let photos = decode(sizes.decoded, sizes.side)?;
    let jpeg = Images { what: format!("{name}, JPEG"), parameters: &parameters, shape, each: sizes.decoded_batches };
    replicas(growing, sizes, &jpeg, photos.as_slice()?, &photos, |input: &mut PinnedBuffer<f32>| {
        let decoded = decode(sizes.decoded, sizes.side)?;
        input.as_mut_slice()?.copy_from_slice(decoded.as_slice()?);
        Ok(())
    })
}

/// Batches of images for a network.
struct Images<'a> {
    what: String,
    parameters: &'a Parameters,
    shape: [usize; 4],
    /// Batches of a device.
    each: usize,
}

/// Rows of a network on 1, 2 and more devices: `given` is in pinned memory, `seen` is the network's input, and `read` is the
/// host's work for each batch.
fn replicas<T: Feed>(
    growing: &mut Growing<'_>,
    sizes: &Sizes,
    images: &Images<'_>,
    given: &[T],
    seen: &Tensor,
    read: impl Fn(&mut PinnedBuffer<T>) -> common::Result<()>,
) -> crate::Result<()> {
    let group = growing.group;
    let plan = |device: &Device| resnet18::plan(device, sizes.resnet, images.parameters, ARITHMETIC, &images.shape);
    let first = &group.devices()[0];
    let expected = Runner::new(first, plan(first)?)?.infer(&first.stream(), seen)?.into_vec()?;
    let mut replicas = Replicas::<T>::new(group, 2, plan)?;
    // All places have the images from here on.
    let fill = |_: usize, inputs: &mut [&mut PinnedBuffer<T>]| {
        inputs[0].as_mut_slice()?.copy_from_slice(given);
        Ok(())
    };
    replicas.run(2 * group.len(), fill, |_, _| Ok(()))?;
    let mut alone = None;
    for gpus in growing.counts() {
        replicas.limit(gpus);
        let batches = images.each * gpus;
        let timing = growing.measure(|| replicas.run(batches, |_, inputs| read(inputs[0]), |_, _| Ok(())))?;
        let mut checked = Ok(());
        replicas.run(
            2 * gpus,
            |_, _| Ok(()),
            |_, logits| {
                if checked.is_ok() {
                    checked = same(logits, &expected);
                }
                Ok(())
            },
        )?;
        let (items, link_bytes) = (batches * images.shape[0], replicas.host_bytes());
        let measured = Measured { items, timing, latency: None, link_bytes, checked };
        growing.row(&images.what, "batches", gpus, &mut alone, measured);
    }
    Ok(())
}

/// That many of the course's photo, decoded on all threads; the first `side` rows and columns of each.
fn decode(count: usize, side: usize) -> common::Result<Tensor> {
    use rayon::prelude::*;
    let photos: Vec<Photo> = (0..count).into_par_iter().map(|_| Photo::built_in()).collect();
    super::streams::corner(photo::batch(&photos)?, side)
}

/// The U-Net: clips of each device, and its layers in a pipeline.
fn frames(sizes: &Sizes, growing: &mut Growing<'_>) -> crate::Result<()> {
    let (name, config) = sizes.unet;
    let (group, latents) = (growing.group, sizes.latents);
    let parameters = config.seeded(8);
    let inputs = [Tensor::random(&latents, 1), Tensor::full(&latents[..1], STEP)];
    let plan = |device: &Device| unet_plan::plan(device, config, &parameters, ARITHMETIC, &latents);
    let mut replicas = Replicas::new(group, 1, plan)?;
    let mut expected = Vec::new();
    let fill = |_: usize, places: &mut [&mut PinnedBuffer<f32>]| {
        for (place, input) in places.iter_mut().zip(&inputs) {
            place.as_mut_slice()?.copy_from_slice(input.as_slice()?);
        }
        Ok(())
    };
    replicas.run(group.len(), fill, |batch, noise| {
        if batch == 0 {
            expected = noise.to_vec();
        }
        Ok(())
    })?;
    let mut alone = None;
    for gpus in growing.counts() {
        replicas.limit(gpus);
        let frames = sizes.frames * gpus;
        let timing = growing.measure(|| replicas.run(frames, |_, _| Ok(()), |_, _| Ok(())))?;
        let latency = growing.latency(|| replicas.run(1, |_, _| Ok(()), |_, _| Ok(())))?;
        let mut checked = Ok(());
        replicas.run(
            gpus,
            |_, _| Ok(()),
            |_, noise| {
                if checked.is_ok() {
                    checked = same(noise, &expected);
                }
                Ok(())
            },
        )?;
        let measured = Measured { items: frames, timing, latency, link_bytes: replicas.host_bytes(), checked };
        growing.row(name, "clips", gpus, &mut alone, measured);
    }
    let bound = replicas.plan().error_bound();
    drop(replicas);
    let alone_ms = heads(sizes, growing, &parameters, &inputs, &expected)?;
    // A latent at a time: of a frame's, and of the frames that follow.
    let micro = [&[1], &latents[1..]].concat();
    let graph = config.graph(&parameters, &micro)?;
    let one: Vec<Tensor> = inputs
        .iter()
        .map(|input| {
            let shape = [&[1], &input.shape()[1..]].concat();
            Tensor::from_vec(&shape, input.as_slice()?[..shape.iter().product()].to_vec())
        })
        .collect::<common::Result<_>>()?;
    let near = |found: &[f32]| {
        // A batch of one may take other tiles than that of a frame: not the same bits.
        let expected = &expected[..found.len()];
        let report = compare(found, expected, Tolerance::of_scale(bound, expected));
        report.map(drop).map_err(|wrong| Error::Invalid(wrong.to_string()))
    };
    for gpus in growing.counts().filter(|gpus| *gpus > 1 && *gpus <= latents[0]) {
        let part = group.first(gpus);
        let plan = |device: &Device| unet_plan::plan(device, config, &parameters, ARITHMETIC, &micro);
        let mut replicas = Replicas::new(&part, 1, plan)?;
        let fill = |_: usize, places: &mut [&mut PinnedBuffer<f32>]| {
            places.iter_mut().zip(&one).try_for_each(|(place, input)| {
                place.as_mut_slice()?.copy_from_slice(input.as_slice()?);
                Ok(())
            })
        };
        let mut checked = Ok(());
        replicas.run(latents[0], fill, |latent, noise| {
            if latent == 0 {
                checked = near(noise);
            }
            Ok(())
        })?;
        let timing = growing.measure(|| replicas.run(latents[0], |_, _| Ok(()), |_, _| Ok(())))?;
        let (latency, link_bytes) = (timing.median_ms(), replicas.host_bytes() * latents[0] as u64);
        growing.row(name, "latents", gpus, &mut alone, Measured { items: 1, timing, latency, link_bytes, checked });
    }
    for gpus in growing.counts().filter(|gpus| *gpus > 1) {
        let part = group.first(gpus);
        let mut pipeline = Pipeline::new(&part, ARITHMETIC, &graph, &[&micro, &[1]])?;
        pipeline.set_inputs(&[&one[0], &one[1]])?;
        part.synchronize()?;
        let mut kept = part.devices()[gpus - 1].alloc_pinned::<f32>(expected.len() / latents[0])?;
        let mut run =
            |count: usize| {
                pipeline.run(count, |at, stream, noise| {
                    if at + 1 == count { stream.memcpy_dtoh(noise.buffer()?, &mut kept) } else { Ok(()) }
                })
            };
        run(2)?;
        part.synchronize()?;
        let (frames, passes) = (sizes.frames, sizes.frames * latents[0]);
        let timing = growing.measure(|| run(passes))?;
        let latency = growing.latency(|| run(latents[0]))?;
        part.synchronize()?;
        let checked = near(kept.as_slice()?);
        let link_bytes = pipeline.link_bytes() * latents[0] as u64;
        // Neither has the host's copies of each frame.
        let mut alone = alone_ms.map(|ms| 1e3 / ms);
        growing.row(name, "layers", gpus, &mut alone, Measured { items: frames, timing, latency, link_bytes, checked });
    }
    Ok(())
}

/// One frame over all devices, each with a part of the heads and channels. Returns the milliseconds of one device.
fn heads(
    sizes: &Sizes,
    growing: &mut Growing<'_>,
    parameters: &Parameters,
    inputs: &[Tensor; 2],
    expected: &[f32],
) -> crate::Result<Option<f64>> {
    let (name, config) = sizes.unet;
    let group = growing.group;
    let graph = config.graph(parameters, &sizes.latents)?;
    let expected = Tensor::from_vec(&graph.outputs()[0].shape, expected.to_vec())?;
    let (mut alone, mut alone_ms) = (None, None);
    for gpus in growing.counts() {
        let before = growing.counted();
        let measured = measure(&group.first(gpus), ARITHMETIC, &graph, &inputs.each_ref(), &expected)?;
        let timing = match measured.ms {
            Some(ms) => Timing::from_samples(Clock::DeviceEvents, vec![ms])?,
            None => Timing::from_counts(growing.counted() - before),
        };
        let checked = measured.wrong().map_or(Ok(()), |wrong| Err(Error::Invalid(wrong)));
        let (latency, link_bytes) = (measured.ms, measured.link_bytes);
        alone_ms = alone_ms.or(latency);
        growing.row(name, HEADS, gpus, &mut alone, Measured { items: 1, timing, latency, link_bytes, checked });
        if let (Some(ms), Some(without), true) = (measured.ms, measured.ms_without_sums, gpus > 1) {
            growing.table.note(format!(
                "Heads and channels over {gpus} GPUs: {} sums of a frame. Without them, which is wrong, it would take {without:.3} ms: they \
                 are {:.0} % of its time.",
                measured.sums,
                100.0 * (ms - without) / ms
            ));
        }
    }
    Ok(alone_ms)
}
