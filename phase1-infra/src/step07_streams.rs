//! Step 7: can copies overlap with kernels?
//!
//! **Hypothesis.** Besides its SMs, a GPU has copy engines for each direction. In one stream they take turns; with
//! several, one chunk's kernel can run while the next chunk is copied in and the previous one out:
//!
//! ```text
//! one stream     in0 kernel0 out0 in1 kernel1 out1 in2 kernel2 out2
//! three streams  in0 kernel0 out0
//!                    in1     kernel1 out1
//!                            in2     kernel2 out2
//! ```
//!
//! **Change.** The data is cut into chunks, which are distributed over 1 to 4 streams. Three conditions must hold: the host
//! memory is pinned, or each copy blocks the host; each chunk has its own device buffer, since uses of one buffer run in order;
//! and the streams begin and end with an event, which is how one stream waits for another.
//!
//! **Look at** the times: the best case is the longest of the three parts alone, the worst their sum. Then at the timeline,
//! drawn from the events after each operation: with one stream the letters follow each other, with several they overlap. The
//! simulator finishes each operation before the next begins, which is one of the orders that a GPU may choose. There the table
//! shows that the results are right in that order, and that counts grow from event to event.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Timing};
use common::check::{F32_ROUND_OFF, Tolerance, compare};
use common::device::Counts;
use common::prelude::*;

use crate::{NO_CLOCK, NO_COUNTS, common_length};

const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
const STREAMS: ColumnSpec = ColumnSpec::identity("streams", "streams");
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 3);
const GAIN: ColumnSpec = ColumnSpec::number("of one stream, ×", "of one stream, ×", 2);
const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("lane instructions", "lane instructions", 0);
const CHECK: ColumnSpec = ColumnSpec::text("check", "check");

const CHUNK: ColumnSpec = ColumnSpec::identity("chunk", "chunk");
const STREAM: ColumnSpec = ColumnSpec::identity("stream", "stream");
const BEGINS: ColumnSpec = ColumnSpec::number("begins, ms", "begins, ms", 3);
const ENDS: ColumnSpec = ColumnSpec::number("ends, ms", "ends, ms", 3);
const DRAWING: ColumnSpec =
    ColumnSpec::text("i: copy in, k: kernel, o: copy out", "i: copy in, k: kernel, o: copy out");
const UNTIL_END: ColumnSpec =
    ColumnSpec::number("lane instructions until its end", "lane instructions until its end", 0);

/// `kernels/04_iterate.cu`.
pub const SOURCE: KernelSource = kernel_source!("04_iterate");

/// The factor a of the iteration.
pub const FACTOR: f32 = -0.5;

/// y ← a·y + x on each element, `rounds` times, starting from y = x; `kernel` is from [`SOURCE`].
///
/// # Errors
/// [`Error::Shape`] for more than 2³¹ − 1 elements, or errors of the launch.
// ANCHOR: launch
pub fn iterate(stream: &Stream, kernel: &Kernel, values: &mut Buffer<f32>, rounds: u32) -> Result<()> {
    let n = common_length("iterate", &[values.len()])?;
    // SAFETY: the kernel compares its index with n, the buffer's length.
    unsafe {
        let mut launch = stream.launch_builder(kernel);
        launch.arg(values).arg(&FACTOR).arg(&rounds).arg(&n).launch(LaunchConfig::for_threads(n))
    }
}
// ANCHOR_END: launch

/// Result of [`iterate`], in f64 and without iterating: x·(1 + a + … + aʳ) = x·(1 − aʳ⁺¹) / (1 − a) for r rounds.
pub fn iterate_reference(values: &[f32], rounds: u32) -> Vec<f64> {
    let a = f64::from(FACTOR);
    let sum = (1.0 - a.powf(f64::from(rounds) + 1.0)) / (1.0 - a);
    values.iter().map(|&x| f64::from(x) * sum).collect()
}

/// For |x| ≤ 1. With a = −½ the product is exact and |y| ≤ 1, so each round adds an error of at most u and halves the previous
/// error: less than 2u in total, for any number of rounds.
pub fn iterate_tolerance() -> Tolerance {
    Tolerance::absolute(2.0 * F32_ROUND_OFF)
}

/// A part of the data with its own memory on both sides.
pub struct Chunk {
    /// Page-locked, so that the copy does not involve the host.
    pub input: PinnedBuffer<f32>,
    /// On the device.
    pub values: Buffer<f32>,
    /// Page-locked.
    pub output: PinnedBuffer<f32>,
}

/// `count` chunks of `len` distinct values each.
///
/// # Errors
/// Errors of the device.
pub fn chunks(device: &Device, count: usize, len: usize) -> Result<Vec<Chunk>> {
    let stream = device.stream();
    let chunk = |i: usize| -> Result<Chunk> {
        let mut input = device.alloc_pinned(len)?;
        input.as_mut_slice()?.copy_from_slice(Tensor::random(&[len], i as u64).as_slice()?);
        let mut output = device.alloc_pinned(len)?;
        output.as_mut_slice()?.fill(f32::NAN);
        Ok(Chunk { input, values: stream.alloc_poisoned(len)?, output })
    };
    let chunks = (0..count).map(chunk).collect();
    stream.synchronize()?;
    chunks
}

/// The events of one chunk, in the order of its stream: before the copy in, after it, after the kernel, after the copy out.
pub type Marks = [Event; 4];

/// Queues every chunk's copy in, kernel and copy out on `workers` in turn, after the work already queued on `main` and before its
/// next work. Without workers, nothing is queued.
///
/// # Errors
/// Errors of the device.
// ANCHOR: pipeline
pub fn pipeline(
    main: &Stream,
    workers: &[Stream],
    kernel: &Kernel,
    rounds: u32,
    chunks: &mut [Chunk],
) -> Result<Vec<Marks>> {
    let begin = main.record_event()?;
    for worker in workers {
        worker.wait(&begin)?; // nothing begins before `main` reaches this point
    }
    let mut marks = Vec::new();
    for (chunk, worker) in chunks.iter_mut().zip(workers.iter().cycle()) {
        let before = worker.record_event()?;
        worker.memcpy_htod(&chunk.input, &mut chunk.values)?; // returns at once: pinned
        let copied_in = worker.record_event()?;
        iterate(worker, kernel, &mut chunk.values, rounds)?;
        let computed = worker.record_event()?;
        worker.memcpy_dtoh(&chunk.values, &mut chunk.output)?;
        marks.push([before, copied_in, computed, worker.record_event()?]);
    }
    for worker in workers {
        main.join(worker)?; // `main` continues when all are done
    }
    Ok(marks)
}
// ANCHOR_END: pipeline

/// Compares each chunk's output with the reference.
///
/// # Errors
/// [`Error::Invalid`] if one is wrong, or errors of the device.
pub fn check(chunks: &[Chunk], rounds: u32) -> Result<()> {
    for (i, chunk) in chunks.iter().enumerate() {
        let expected = iterate_reference(chunk.input.as_slice()?, rounds);
        compare(chunk.output.as_slice()?, &expected, iterate_tolerance())
            .map_err(|mismatch| Error::Invalid(format!("streams, chunk {i}: {mismatch}")))?;
    }
    Ok(())
}

/// The three parts alone, then together on 1 to 4 streams; then timelines.
///
/// # Errors
/// Errors of the device; [`Error::Invalid`] if a result is wrong.
pub fn run(device: &Device) -> Result<Vec<Table>> {
    // 8 chunks of 8 MiB on a GPU.
    let (count, len) = if device.is_sim() { (8, 4 << 10) } else { (8, 2 << 20) };
    let main = device.stream();
    let kernel = device.kernel(&SOURCE, "iterate")?;
    let mut chunks = chunks(device, count, len)?;
    let bench = Bench { warm_up: 2, repeats: 10, ..Bench::default() };

    let copy_in =
        bench.measure(&main, || chunks.iter_mut().try_for_each(|c| main.memcpy_htod(&c.input, &mut c.values)))?;
    let copy_out =
        bench.measure(&main, || chunks.iter_mut().try_for_each(|c| main.memcpy_dtoh(&c.values, &mut c.output)))?;
    let mut compute = |rounds| {
        bench.measure(&main, || chunks.iter_mut().try_for_each(|c| iterate(&main, &kernel, &mut c.values, rounds)))
    };
    // Enough rounds to make the kernel about as long as a copy, where overlap gains most.
    const TRIAL: u32 = 1024;
    let rounds = match (copy_in.median_ms(), compute(TRIAL)?.median_ms()) {
        (Some(copy), Some(trial)) => (f64::from(TRIAL) * copy / trial).clamp(1.0, 1e6) as u32,
        _ => 8,
    };
    let kernels = compute(rounds)?;

    let kib = (count * len * size_of::<f32>()) >> 10;
    let what = format!("streams: {count} chunks, {kib} KiB each way, {rounds} rounds");
    let mut table = TableBuilder::on(device, &what, &[WHAT, STREAMS, MS, GAIN, INSTRUCTIONS, CHECK]);
    let counts =
        |timing: &Timing| Cell::or_absent(timing.counts().map(|counts| counts.lane_instructions as f64), NO_COUNTS);
    for (part, timing) in [("copies in alone", &copy_in), ("kernels alone", &kernels), ("copies out alone", &copy_out)]
    {
        let ms = Cell::or_absent(timing.median_ms(), NO_CLOCK);
        let row = table.row().set(WHAT, part).set(STREAMS, 1usize).set(MS, ms);
        row.set(GAIN, "").set(INSTRUCTIONS, counts(timing)).set(CHECK, "").complete();
    }
    let workers = (0..4).map(|_| device.new_stream()).collect::<Result<Vec<_>>>()?;
    let mut one_stream = None;
    let mut marks = Vec::new();
    let mut timelines = Vec::new();
    for streams in 1..=workers.len() {
        for chunk in &mut chunks {
            chunk.output.as_mut_slice()?.fill(f32::NAN);
        }
        let timing = bench.measure(&main, || {
            marks = pipeline(&main, &workers[..streams], &kernel, rounds, &mut chunks)?;
            Ok(())
        })?;
        check(&chunks, rounds)?;
        // Three streams: one per kind of engine. One stream, for comparison.
        if streams == 1 || streams == 3 {
            timelines.push(timeline(streams, &marks, device)?);
        }
        let ms = timing.median_ms();
        one_stream = one_stream.or(ms);
        let gain = one_stream.zip(ms).map(|(one, ms)| one / ms);
        let row = table.row().set(WHAT, "copy in, kernel, copy out").set(STREAMS, streams);
        row.set(MS, Cell::or_absent(ms, NO_CLOCK))
            .set(GAIN, Cell::or_absent(gain, NO_CLOCK))
            .set(INSTRUCTIONS, counts(&timing))
            .set(CHECK, format!("{} values", count * len))
            .complete();
    }
    timelines.insert(0, table.finish());
    Ok(timelines)
}

/// When each chunk was copied in, computed and copied out, by its events.
fn timeline(streams: usize, marks: &[Marks], device: &Device) -> Result<Table> {
    let columns = [CHUNK, STREAM, BEGINS, ENDS, DRAWING, UNTIL_END];
    let mut table = TableBuilder::on(device, &format!("timeline, streams: {streams}"), &columns);
    let first = &marks[0][0];
    // [chunk][mark] in ms since the first chunk began; empty on the simulator.
    let times: Vec<[f32; 4]> = if device.is_sim() {
        Vec::new()
    } else {
        marks.iter().map(|marks| since(first, marks)).collect::<Result<_>>()?
    };
    let end = times.iter().map(|times| times[3]).fold(0.0, f32::max);
    for (i, marks) in marks.iter().enumerate() {
        let time = times.get(i);
        let at = |mark: usize| Cell::or_absent(time.map(|time| time[mark].into()), NO_CLOCK);
        let drawing = time.map_or_else(|| Cell::absent(NO_CLOCK), |time| draw(time, end).into());
        let counts = first.counts_until(&marks[3]).map(|Counts { lane_instructions, .. }| lane_instructions as f64);
        let row = table.row().set(CHUNK, i).set(STREAM, i % streams).set(BEGINS, at(0)).set(ENDS, at(3));
        row.set(DRAWING, drawing).set(UNTIL_END, Cell::or_absent(counts, NO_COUNTS)).complete();
    }
    Ok(table.finish())
}

fn since(first: &Event, marks: &Marks) -> Result<[f32; 4]> {
    let mut times = [0.0; 4];
    for (time, mark) in times.iter_mut().zip(marks) {
        *time = first.elapsed_ms(mark)?;
    }
    Ok(times)
}

/// `···iiikkkooo·····` for the marks of a chunk, on a scale that ends at `end`.
fn draw(times: &[f32; 4], end: f32) -> String {
    const WIDTH: usize = 44;
    let place = |time: f32| ((time / end.max(f32::MIN_POSITIVE)) * WIDTH as f32).round() as usize;
    let places = times.map(place);
    let letter = |column: usize| match places.iter().filter(|&&place| place <= column).count() {
        1 => 'i',
        2 => 'k',
        3 => 'o',
        _ => '·',
    };
    (0..WIDTH).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn a_chunk_is_drawn_where_its_events_were() {
        let parts = [('·', 5), ('i', 10), ('k', 10), ('o', 5), ('·', 14)];
        let expected: String = parts.map(|(letter, count)| letter.to_string().repeat(count)).concat();
        assert_eq!(draw(&[1.0, 3.0, 5.0, 6.0], 8.8), expected);
        // A part too short to show takes no space, and a total of zero does not divide by zero.
        assert_eq!(draw(&[0.0, 0.0, 8.0, 8.0], 8.0), "k".repeat(44));
        assert_eq!(draw(&[0.0; 4], 0.0), "·".repeat(44));
    }
}
