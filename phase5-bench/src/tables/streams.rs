//! `streams`: the cost of getting from one kernel to the next, and the work that can be done meanwhile.
//!
//! Chains and passes come first: with the first stream besides the default one, cudarc begins to record events for each use of a
//! buffer, which a plain launch then pays for. On the simulator there are smaller networks, and counts in place of times.

use std::time::Duration;

use bench::ladder::columns;
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, NO_CLOCK, Timing};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::progress::Progress;
use media::photo::{self, Photo};
use phase1_infra::step07_streams as overlap;
use phase3_all_layers::backends::{Captured, Planned, Unfused};
use phase3_all_layers::models::{autoencoder, resnet, unet};
use phase3_all_layers::nn::Module;
use phase4_fusion::commands::unet::plan;
use phase4_fusion::executor::{self, Executor};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::runner::Runner;
use phase4_fusion::streams::{Chain, Way};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};

/// The work.
pub(crate) const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
/// The way in which it is done.
pub(crate) const WAY: ColumnSpec = ColumnSpec::text("way", "way");
/// Calls of the host.
pub(crate) const CALLS: ColumnSpec = ColumnSpec::number("calls", "calls", 0);
const KERNELS: ColumnSpec = ColumnSpec::number("kernels", "kernels", 0).on_simulator();
/// Total milliseconds.
pub(crate) const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4).on_gpu();
/// Speed compared with the first way.
pub(crate) const GAIN: ColumnSpec = ColumnSpec::number("gain", "gain, ×", 2).on_gpu();
const OF_LONGEST: ColumnSpec = ColumnSpec::number("of_longest", "% of longest", 1).on_gpu();
const RATE: ColumnSpec = ColumnSpec::number("images_per_second", "images/s", 0).on_gpu();
const COLUMNS: &[ColumnSpec] = &[WHAT, WAY, CALLS, KERNELS, MS, GAIN, OF_LONGEST, RATE, columns::CHECK];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "streams",
    shows: "overlap, graphs, persistent kernel, images/s: ms and gain",
    uses: &[Need::Gpu],
    columns: COLUMNS,
    make: Make::Measured(run),
};

const SEED: u64 = 18;
const RIGHT: &str = "right";
const NO_PARTS: &str = "it has no parts that could run at the same time";
const NO_IMAGES: &str = "no images in it";
const ONE_OF_THE_PARTS: &str = "it is one of the parts";

/// Sizes of the work on a device: a millisecond on a GPU is an hour on the simulator.
struct Sizes {
    chain: usize,
    resnet: resnet::Config,
    /// Side of the network's input.
    side: usize,
    autoencoder_batch: usize,
    chunks: usize,
    chunk: usize,
    /// Consecutive batches, and images of each.
    batches: usize,
    batch: usize,
}

impl Sizes {
    fn of(device: &Device) -> Sizes {
        if device.is_sim() {
            let small = resnet::Config { widths: [8, 12, 16, 20], blocks: [1, 1, 1, 1], classes: 10 };
            let [side, chunk] = [32, 4 << 10];
            Sizes { chain: 8, resnet: small, side, autoencoder_batch: 1, chunks: 4, chunk, batches: 3, batch: 1 }
        } else {
            let [side, chunk] = [224, 2 << 20];
            let resnet = resnet::Config::RESNET18;
            Sizes { chain: 64, resnet, side, autoencoder_batch: 32, chunks: 16, chunk, batches: 16, batch: 16 }
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
}

/// One row: a piece of work done in one way.
struct Measured<'a> {
    what: &'a str,
    way: &'a str,
    /// Calls by which the host makes the device work.
    calls: usize,
    timing: Timing,
    /// The time of the plainest way.
    plain: Option<f64>,
    /// The time of the longest of its parts, or why there is none.
    longest: Result<Option<f64>, &'static str>,
    images: Option<usize>,
}

impl Growing<'_> {
    fn add(&mut self, row: Measured<'_>, checked: common::Result<()>) {
        let Measured { what, way, calls, timing, plain, longest, images } = row;
        self.progress.inc(1);
        let ms = timing.median_ms();
        let over = |other: Option<f64>| other.zip(ms).map(|(other, ms)| other / ms);
        let kernels = Cell::or_absent(timing.counts().map(|counts| counts.launches as f64), "a GPU does not count");
        let of_longest = match longest {
            Ok(longest) => Cell::or_absent(longest.zip(ms).map(|(longest, ms)| 100.0 * ms / longest), NO_CLOCK),
            Err(reason) => Cell::or_absent(None, reason),
        };
        let rate = match images {
            Some(images) => Cell::or_absent(ms.map(|ms| images as f64 / (ms * 1e-3)), NO_CLOCK),
            None => Cell::or_absent(None, NO_IMAGES),
        };
        let check = match checked {
            Ok(()) => RIGHT,
            Err(error) => {
                self.wrong.push(format!("{what}, {way}: {error}"));
                "WRONG"
            }
        };
        let row = self.table.row().set(WHAT, what).set(WAY, way).set(CALLS, Cell::from(calls as f64));
        row.set(KERNELS, kernels)
            .set(MS, Cell::or_absent(ms, NO_CLOCK))
            .set(GAIN, Cell::or_absent(over(plain), NO_CLOCK))
            .set(OF_LONGEST, of_longest)
            .set(RATE, rate)
            .set(columns::CHECK, check)
            .complete();
    }
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let sizes = Sizes::of(device);
    let progress = Progress::new(32, "streams");
    let table = context.table(format!("streams on {}", device.short_name()), COLUMNS);
    let mut growing = Growing { table, wrong: Vec::new(), progress: &progress };
    chains(device, &sizes, &mut growing)?;
    passes(device, &sizes, &mut growing)?;
    unets(device, &mut growing)?;
    copies(device, &sizes, &mut growing)?;
    images(context, &sizes, &mut growing)?;
    let Growing { mut table, wrong, .. } = growing;
    progress.finish();
    table.note(format!(
        "Chains: {} steps, each over 64 KiB on a GPU. Calls: launches and copies that the host queues. Times by events, from an idle device; \
         images by the host's clock. U-Net: size and batch.",
        sizes.chain
    ));
    table.note(format!(
        "Images: {} batches of {}, decoded from JPEG, resized and normalised by {} threads into pinned memory; two of these buffers, \
         each with a graph of the pass.",
        sizes.batches,
        sizes.batch,
        rayon::current_num_threads()
    ));
    Ok(FinishedTable { table: table.finish(), wrong })
}

fn bench() -> Bench {
    Bench { limit: Duration::from_secs(2), ..Bench::default() }
}

/// A chain of tiny kernels in every way.
fn chains(device: &Device, sizes: &Sizes, growing: &mut Growing<'_>) -> crate::Result<()> {
    let stream = device.stream();
    let what = format!("{} tiny kernels", sizes.chain);
    let mut plain = None;
    for way in Way::ALL {
        let mut chain = match Chain::new(&stream, way, sizes.chain) {
            Err(error) if error.is_unsupported() => {
                growing.table.row().set(WHAT, what.as_str()).set(WAY, way.name()).finish(&error.to_string());
                continue;
            }
            chain => chain?,
        };
        let mut runs = 0;
        let timing = bench().measure(&stream, || {
            runs += 1;
            chain.queue(&stream)
        })?;
        plain = plain.or(timing.median_ms());
        let calls = way.calls(sizes.chain);
        let checked = chain.check(&stream, runs);
        let longest = Err(NO_PARTS);
        growing.add(Measured { what: &what, way: way.name(), calls, timing, plain, longest, images: None }, checked);
    }
    Ok(())
}

/// Whole networks, launch by launch and as a graph.
fn passes(device: &Device, sizes: &Sizes, growing: &mut Growing<'_>) -> crate::Result<()> {
    let backend = Unfused::new(device);
    let network = resnet::ResNet::load(&backend, sizes.resnet, &sizes.resnet.seeded(SEED))?;
    let x = Tensor::random(&[1, 3, sizes.side, sizes.side], 1);
    pass(device, &format!("{} batch 1", sizes.resnet_name()), &network, &x, growing)?;
    let config = autoencoder::Config::ORIGINAL;
    let model = autoencoder::Autoencoder::load(&backend, config, &config.seeded(SEED))?;
    let shape = autoencoder::Stage::SliceEncoding.input_shape(&config, sizes.autoencoder_batch);
    let what = format!("autoencoder batch {}", sizes.autoencoder_batch);
    pass(device, &what, &model, &Tensor::random(&shape, 2), growing)
}

fn pass(
    device: &Device,
    what: &str,
    module: &impl Module<Unfused>,
    x: &Tensor,
    growing: &mut Growing<'_>,
) -> crate::Result<()> {
    let stream = device.stream();
    let mut planned = Planned::new(device, module, x.shape())?;
    let expected = planned.infer(&stream, x)?;
    let plain = bench().measure(&stream, || planned.queue(&stream))?;
    let mut captured = planned.capture(&stream)?;
    let y = captured.infer(&stream, x)?;
    let same = if y.as_slice()? == expected.as_slice()? {
        Ok(())
    } else {
        Err(Error::Invalid("the graph's output differs from that of the launches".to_owned()))
    };
    let graph = bench().measure(&stream, || captured.queue(&stream))?;
    let (calls, first) = (captured.graph().nodes().len(), plain.median_ms());
    for (way, calls, timing, checked) in [("launches", calls, plain, Ok(())), ("graph", 1, graph, same)] {
        growing.add(Measured { what, way, calls, timing, plain: first, longest: Err(NO_PARTS), images: None }, checked);
    }
    Ok(())
}

/// U-Nets in f32, as a graph of launches and as one persistent kernel that takes tasks from a queue.
fn unets(device: &Device, growing: &mut Growing<'_>) -> crate::Result<()> {
    const NARROW: unet::Config = unet::Config { channels: 8, heads: 2 };
    let [tiny, small, production] = unet::Config::ALL;
    let (side, of_all): (_, &[_]) = if device.is_sim() {
        (8, &[(("narrow", NARROW), 1)])
    } else {
        (64, &[(tiny, 1), (tiny, 2), (small, 1), (small, 2), (production, 1)])
    };
    let stream = device.stream();
    for &((name, config), batch) in of_all {
        let what = format!("U-Net {name}, {batch}");
        let latents = [batch, unet::INPUTS, side, side];
        let (x, steps) = (Tensor::random(&latents, 3), Tensor::full(&[batch], 700.0));
        let parameters = config.seeded(SEED);
        let mut runner = Runner::new(device, plan(device, config, &parameters, Arithmetic::F32, &latents)?)?;
        let expected = runner.infer_all(&stream, &[&x, &steps])?;
        let graph = bench().measure(&stream, || runner.queue(&stream))?;
        let bound = runner.plan().error_bound();
        drop(runner);
        let program = executor::unet(config, &parameters, &latents, executor::processors(device))?;
        let mut executor = Executor::new(&stream, &program)?;
        let found = executor.infer(&stream, &[&x, &steps])?;
        let persistent = bench().measure(&stream, || executor.queue(&stream))?;
        // Each may be as far from the exact result as its bound.
        let tolerance = Tolerance::of_scale(bound + program.error_bound(), expected.as_slice()?);
        let checked = compare(found.as_slice()?, expected.as_slice()?, tolerance);
        let checked = checked.map(drop).map_err(|mismatch| Error::Invalid(mismatch.to_string()));
        let plain = graph.median_ms();
        for (way, timing, checked) in [("graph", graph, Ok(())), ("persistent kernel", persistent, checked)] {
            let longest = Err(NO_PARTS);
            growing.add(Measured { what: &what, way, calls: 1, timing, plain, longest, images: None }, checked);
        }
    }
    Ok(())
}

/// Copies in and out, and kernels between them, on 1, 2 and 4 streams.
fn copies(device: &Device, sizes: &Sizes, growing: &mut Growing<'_>) -> crate::Result<()> {
    let &Sizes { chunks: count, chunk: len, .. } = sizes;
    let main = device.stream();
    let kernel = device.kernel(&overlap::SOURCE, "iterate")?;
    let mut chunks = overlap::chunks(device, count, len)?;
    let copy_in =
        bench().measure(&main, || chunks.iter_mut().try_for_each(|c| main.memcpy_htod(&c.input, &mut c.values)))?;
    let copy_out =
        bench().measure(&main, || chunks.iter_mut().try_for_each(|c| main.memcpy_dtoh(&c.values, &mut c.output)))?;
    let mut compute = |rounds| {
        bench().measure(&main, || {
            chunks.iter_mut().try_for_each(|c| overlap::iterate(&main, &kernel, &mut c.values, rounds))
        })
    };
    // As long as a copy, where overlap gains most.
    const TRIAL: u32 = 1024;
    let rounds = match copy_in.median_ms() {
        Some(copy) => compute(TRIAL)?.median_ms().map_or(8, |ms| (f64::from(TRIAL) * copy / ms).clamp(1.0, 1e6) as u32),
        None => 8,
    };
    let kernels = compute(rounds)?;
    let parts = [copy_in.median_ms(), kernels.median_ms(), copy_out.median_ms()];
    let longest = parts.into_iter().flatten().reduce(f64::max);
    let what = format!("{count} × in, kernel, out");
    let alone = [("copies in", copy_in), ("kernels", kernels), ("copies out", copy_out)];
    for (way, timing) in alone {
        let longest = Err(ONE_OF_THE_PARTS);
        growing.add(Measured { what: &what, way, calls: count, timing, plain: None, longest, images: None }, Ok(()));
    }
    let mut plain = None;
    for streams in [1, 2, 4] {
        let workers = (0..streams).map(|_| device.new_stream()).collect::<Result<Vec<_>, _>>()?;
        for chunk in &mut chunks {
            chunk.output.as_mut_slice()?.fill(f32::NAN);
        }
        let timing =
            bench().measure(&main, || overlap::pipeline(&main, &workers, &kernel, rounds, &mut chunks).map(drop))?;
        plain = plain.or(timing.median_ms());
        let checked = overlap::check(&chunks, rounds);
        let way = format!("{streams} stream{}", if streams == 1 { "" } else { "s" });
        let calls = 3 * count;
        growing.add(
            Measured { what: &what, way: &way, calls, timing, plain, longest: Ok(longest), images: None },
            checked,
        );
    }
    Ok(())
}

/// One of the two slots where batches wait, travel and are computed.
struct Slot<'p> {
    input: PinnedBuffer<f32>,
    captured: Captured<'p>,
    logits: PinnedBuffer<f32>,
    stream: Stream,
}

impl Slot<'_> {
    /// Waits until the slot is free, and puts a batch there.
    fn fill(&mut self, batch: &Tensor) -> common::Result<()> {
        self.input.as_mut_slice()?.copy_from_slice(batch.as_slice()?);
        Ok(())
    }

    /// Queues the copy in, the pass, and the copy out of its logits.
    fn queue(&mut self) -> common::Result<()> {
        self.stream.memcpy_htod(&self.input, self.captured.input_mut().buffer_mut()?)?;
        self.captured.queue(&self.stream)?;
        self.stream.memcpy_dtoh(self.captured.output().buffer()?, &mut self.logits)
    }
}

/// The first `side` rows and columns of each image, if it is larger.
pub(super) fn corner(images: Tensor, side: usize) -> common::Result<Tensor> {
    let &[count, channels, height, width] = images.shape() else { return Ok(images) };
    if (height, width) == (side, side) {
        return Ok(images);
    }
    let rows = images.as_slice()?.chunks(width).enumerate().filter(|(row, _)| row % height < side);
    let values = rows.flat_map(|(_, row)| row[..side].iter().copied()).collect();
    Tensor::from_vec(&[count, channels, side, side], values)
}

/// Photos from their files' bytes to the host's logits.
fn images(context: &Context, sizes: &Sizes, growing: &mut Growing<'_>) -> crate::Result<()> {
    let &Sizes { batches, batch, .. } = sizes;
    let device = &context.device;
    let network = resnet::ResNet::load(&Unfused::new(device), sizes.resnet, &sizes.resnet.seeded(SEED))?;
    let total = batches * batch;
    let decode = || -> common::Result<Tensor> {
        use rayon::prelude::*;
        let photos: Vec<Photo> = (0..batch).into_par_iter().map(|_| Photo::built_in()).collect();
        corner(photo::batch(&photos)?, sizes.side)
    };
    let decoded = decode()?;
    let shape = decoded.shape().to_vec();
    let main = device.stream();
    let mut plans = [Planned::new(device, &network, &shape)?, Planned::new(device, &network, &shape)?];
    let expected = plans[0].infer(&main, &decoded)?;
    let slot = |planned| -> common::Result<Slot<'_>> {
        let captured = Planned::capture(planned, &main)?;
        let input = device.alloc_pinned(decoded.len())?;
        let logits = device.alloc_pinned(captured.output().len())?;
        Ok(Slot { input, captured, logits, stream: device.new_stream()? })
    };
    let mut slots = plans.iter_mut().map(slot).collect::<common::Result<Vec<_>>>()?;
    main.synchronize()?;
    let what = format!("{total} photos, {}", sizes.resnet_name());

    // The simulator runs each way once, to count; a GPU's host takes the median of a few.
    let host = Bench { warm_up: 1, repeats: 5, limit: Duration::from_secs(6), ..Bench::default() };
    let measure = |work: &mut dyn FnMut() -> common::Result<()>| {
        if device.is_sim() { host.measure(&main, work) } else { host.measure_host(work) }
    };
    let all = |each: &mut dyn FnMut() -> common::Result<()>| (0..batches).try_for_each(|_| each());
    let decoding = measure(&mut || all(&mut || decode().map(drop)))?;
    let first = &mut slots[0];
    first.fill(&decoded)?;
    let copying = measure(&mut || {
        all(&mut || first.stream.memcpy_htod(&first.input, first.captured.input_mut().buffer_mut()?))?;
        first.stream.synchronize()
    })?;
    let computing = measure(&mut || {
        all(&mut || first.captured.queue(&first.stream))?;
        first.stream.synchronize()
    })?;
    let parts = [decoding.median_ms(), copying.median_ms(), computing.median_ms()];
    let longest = parts.into_iter().flatten().reduce(f64::max);
    for (way, calls, timing) in
        [("decoding", 0, decoding), ("copies in", batches, copying), ("passes", batches, computing)]
    {
        let (longest, images) = (Err(ONE_OF_THE_PARTS), Some(total));
        growing.add(Measured { what: &what, way, calls, timing, plain: None, longest, images }, Ok(()));
    }

    let check = |slots: &mut [Slot<'_>], used: usize| -> common::Result<()> {
        for slot in &mut slots[..used] {
            if slot.logits.as_slice()? != expected.as_slice()? {
                return Err(Error::Invalid("the logits differ from those of a plain pass".to_owned()));
            }
            slot.logits.as_mut_slice()?.fill(f32::NAN);
        }
        Ok(())
    };
    for slot in &mut slots {
        slot.logits.as_mut_slice()?.fill(f32::NAN);
    }
    let one_after_the_other = measure(&mut || {
        all(&mut || {
            let slot = &mut slots[0];
            slot.fill(&decode()?)?;
            slot.queue()?;
            slot.stream.synchronize()
        })
    })?;
    let checked = check(&mut slots, 1);
    let plain = one_after_the_other.median_ms();
    let overlapped = measure(&mut || {
        for i in 0..batches {
            // The host decodes while the device still works on the batch before.
            let batch = decode()?;
            let slot = &mut slots[i % 2];
            slot.fill(&batch)?;
            slot.queue()?;
        }
        slots.iter().try_for_each(|slot| slot.stream.synchronize())
    })?;
    let checked_overlap = check(&mut slots, 2);
    for (way, timing, checked) in
        [("in turn", one_after_the_other, checked), ("overlapped", overlapped, checked_overlap)]
    {
        let (calls, longest, images) = (3 * batches, Ok(longest), Some(total));
        growing.add(Measured { what: &what, way, calls, timing, plain, longest, images }, checked);
    }
    Ok(())
}
