//! Checks each step, counts its launches, copies and waits, and on GPUs compares its time with NCCL's.

use bench::ladder::columns;
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Filler, NO_CLOCK};
use common::prelude::*;
use ranks::Nccl;

use super::{Asked, LADDER, Operands};

/// Bytes of the sums on GPUs: 1 KiB to 1 GiB.
pub const SIZES: [usize; 6] = [1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 1 << 30];
/// And on the simulator.
pub const SMALL_SIZES: [usize; 2] = [1 << 10, 16 << 10];

const BYTES: ColumnSpec = ColumnSpec::text("size", "size");
/// Number of devices that take part.
pub const GPUS: ColumnSpec = ColumnSpec::identity("gpus", "GPUs");
const STEP: ColumnSpec = ColumnSpec::text("step", "step");
const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);
const COPIES: ColumnSpec = ColumnSpec::number("copies", "copies", 0);
const WAITS: ColumnSpec = ColumnSpec::number("waits", "event waits", 0);
const RECEIVED: ColumnSpec = ColumnSpec::number("received_kib", "KiB in", 1);
const MICROSECONDS: ColumnSpec = ColumnSpec::number("us", "µs", 1).on_gpu();
const BUS: ColumnSpec = ColumnSpec::number("bus_gb_per_s", "GB/s", 1).on_gpu();
const OF_NCCL: ColumnSpec = ColumnSpec::number("of_nccl", "% of NCCL", 0).on_gpu();
const COLUMNS: [ColumnSpec; 11] =
    [BYTES, GPUS, STEP, LAUNCHES, COPIES, WAITS, RECEIVED, MICROSECONDS, BUS, OF_NCCL, columns::CHECK];

/// One method at one size.
#[derive(Clone, Debug)]
pub struct Row {
    /// Number and name of the step, or `NCCL`.
    pub way: String,
    /// Bytes of the values of one device.
    pub bytes: usize,
    /// Operations queued for one sum; unknown for NCCL.
    pub asked: Option<Asked>,
    /// Milliseconds of the slowest device; or why there are none.
    pub ms: Result<f64, String>,
    /// Milliseconds that NCCL took in the same run.
    pub nccl_ms: Option<f64>,
    /// The first wrong value, if there is one.
    pub wrong: Option<String>,
}

impl Row {
    /// Bytes per second that each device must send at least, 2(N − 1)/N of its values, in GB/s: as NCCL's tests define it.
    pub fn bus_gb_per_s(&self, ranks: usize) -> Option<f64> {
        let least = 2.0 * (ranks - 1) as f64 / ranks as f64 * self.bytes as f64;
        self.ms.as_ref().ok().map(|ms| least / (ms * 1e6))
    }

    /// NCCL's time divided by this one.
    pub fn of_nccl(&self) -> Option<f64> {
        Some(self.nccl_ms? / self.ms.as_ref().ok()?)
    }
}

/// Default byte sizes of a table.
pub fn sizes(group: &DeviceGroup) -> &'static [usize] {
    if group.is_sim() { &SMALL_SIZES } else { &SIZES }
}

/// All steps, and NCCL, at each of these numbers of bytes: checked, then timed.
///
/// # Errors
/// Errors of the devices. A step that a device does not support is a row with the reason.
pub fn measure(group: &DeviceGroup, sizes: &[usize]) -> Result<Vec<Row>> {
    let values = |bytes: usize| bytes / size_of::<f32>();
    let most = values(sizes.iter().copied().max().unwrap_or(0));
    let mut operands = Operands::new(group, most)?;
    let mut filler = Fillers::new(&operands.streams)?;
    let mut rows = Vec::new();
    let mut nccl_ms = vec![None; sizes.len()];
    let nccl = Nccl::open(&operands.streams);
    for (&bytes, nccl_ms) in sizes.iter().zip(&mut nccl_ms) {
        let row = |ms, wrong| Row { way: "NCCL".to_owned(), bytes, asked: None, ms, nccl_ms: None, wrong };
        let nccl = match &nccl {
            Err(error) if error.is_unsupported() => {
                rows.push(row(Err(error.to_string()), None));
                continue;
            }
            Err(error) => return Err(Error::Invalid(error.to_string())),
            Ok(nccl) => nccl,
        };
        let mut once = |operands: &mut Operands| {
            let len = operands.len();
            nccl.all_reduce(&operands.values, &mut operands.sums, len)
        };
        let (ms, _, wrong) = check_and_time(&mut operands, values(bytes), &mut filler, &mut once)?;
        *nccl_ms = ms.clone().ok();
        rows.push(Row { nccl_ms: *nccl_ms, ..row(ms, wrong) });
    }
    for step in LADDER {
        let way = step.title();
        let mut prepared = match (step.method.0)(&step.source, group, most) {
            Err(error) if error.is_unsupported() => {
                let absent = |bytes: &usize| Row {
                    way: way.clone(),
                    bytes: *bytes,
                    asked: None,
                    ms: Err(error.to_string()),
                    nccl_ms: None,
                    wrong: None,
                };
                rows.extend(sizes.iter().map(absent));
                continue;
            }
            prepared => prepared?,
        };
        for (&bytes, nccl_ms) in sizes.iter().zip(&nccl_ms) {
            let mut once = |operands: &mut Operands| prepared.queue(operands);
            let (ms, asked, wrong) = check_and_time(&mut operands, values(bytes), &mut filler, &mut once)?;
            let (asked, nccl_ms) = (Some(asked), *nccl_ms);
            rows.push(Row { way: way.clone(), bytes, asked, ms, nccl_ms, wrong });
        }
    }
    Ok(rows)
}

/// Checks a sum, then times it: returns milliseconds, queued operations, and errors.
fn check_and_time(
    operands: &mut Operands,
    len: usize,
    filler: &mut Fillers,
    once: &mut dyn FnMut(&mut Operands) -> Result<()>,
) -> Result<(Result<f64, String>, Asked, Option<String>)> {
    operands.reset(len)?;
    once(operands)?;
    let asked = operands.asked.clone();
    let wrong = operands.check().err().map(|error| error.to_string());
    if wrong.is_some() {
        return Ok((Err("it is wrong".to_owned()), asked, wrong));
    }
    if operands.streams[0].device().is_sim() {
        return Ok((Err(NO_CLOCK.to_owned()), asked, None));
    }
    let ms = filler.time(operands, once)?;
    // What was timed has to be right too, or the second launch was not as good as the first.
    let wrong = operands.check().err().map(|error| error.to_string());
    Ok((Ok(ms), asked, wrong))
}

/// Memory of each GPU that is filled while the host queues the timed work.
struct Fillers(Vec<Filler>);

impl Fillers {
    /// Approximate milliseconds of the runs of a batch.
    const BATCH_MS: f64 = 4.0;
    /// Maximum number of runs per batch.
    const RUNS: usize = 20;
    /// Fills of half a gigabyte that keep a GPU busy while the host queues a batch: about 2 ms.
    const FILLS: usize = 12;
    /// Number of batches, of which the median counts.
    const BATCHES: usize = 7;

    fn new(streams: &[Stream]) -> Result<Fillers> {
        let on_gpu = streams.iter().filter(|stream| stream.device().is_cuda());
        Ok(Fillers(on_gpu.map(Filler::new).collect::<Result<_>>()?))
    }

    /// Milliseconds of one run, by events on the slowest device, in batches of consecutive runs.
    fn time(&mut self, operands: &mut Operands, once: &mut dyn FnMut(&mut Operands) -> Result<()>) -> Result<f64> {
        self.batch(operands, 2, once)?;
        let first = self.batch(operands, 1, once)?;
        let runs = ((Fillers::BATCH_MS / first) as usize).clamp(1, Fillers::RUNS);
        let mut all = Vec::with_capacity(Fillers::BATCHES);
        for _ in 0..Fillers::BATCHES {
            all.push(self.batch(operands, runs, once)?);
        }
        all.sort_by(f64::total_cmp);
        Ok(all[all.len() / 2])
    }

    fn batch(
        &mut self,
        operands: &mut Operands,
        runs: usize,
        once: &mut dyn FnMut(&mut Operands) -> Result<()>,
    ) -> Result<f64> {
        operands.streams.iter().try_for_each(Stream::synchronize)?;
        for _ in 0..Fillers::FILLS {
            self.0.iter_mut().zip(&operands.streams).try_for_each(|(filler, stream)| filler.fill(stream))?;
        }
        let mark = |operands: &Operands| operands.streams.iter().map(Stream::record_event).collect::<Result<Vec<_>>>();
        // All begin together: when the last has filled its memory.
        operands.meet()?;
        let starts = mark(operands)?;
        (0..runs).try_for_each(|_| once(operands))?;
        let ends = mark(operands)?;
        let mut slowest = 0.0f64;
        for (start, end) in starts.iter().zip(&ends) {
            slowest = slowest.max(f64::from(start.elapsed_ms(end)?));
        }
        Ok(slowest / runs as f64)
    }
}

/// The tables of [`measure`] for each of `counts`, on that many of the group's first devices, as one table; and its errors.
///
/// # Errors
/// Same as [`measure`].
pub fn table(group: &DeviceGroup, counts: &[usize], sizes: &[usize]) -> Result<(Table, Vec<String>)> {
    let title = format!("sums over {}", group.describe());
    let mut table = TableBuilder::on(&group.devices()[0], &title, &COLUMNS);
    let mut wrong = Vec::new();
    let mut rows = Vec::new();
    for &count in counts {
        rows.extend(measure(&group.first(count), sizes)?.into_iter().map(|row| (count, row)));
    }
    // By size; of each, fewer GPUs first, and NCCL before the steps.
    rows.sort_by_key(|(_, row)| row.bytes);
    for (ranks, row) in rows {
        let asked = |of: fn(&Asked) -> usize| {
            let count = row.asked.as_ref().map(|asked| of(asked) as f64);
            Cell::or_absent(count, "what a library queues is its own affair")
        };
        let no_time = row.ms.as_ref().err().map_or(NO_CLOCK, String::as_str);
        let check = match (&row.wrong, &row.ms) {
            (Some(_), _) => Cell::from("WRONG"),
            (None, Err(reason)) if row.asked.is_none() => Cell::absent(reason.clone()),
            (None, _) => Cell::from("ok"),
        };
        let received = row.asked.as_ref().map(|asked| asked.most_received() as f64 / 1024.0);
        let place = format!("{} at {} on {ranks} devices", row.way, size(row.bytes));
        wrong.extend(row.wrong.iter().map(|wrong| format!("{place}: {wrong}")));
        table
            .row()
            .set(BYTES, size(row.bytes))
            .set(GPUS, ranks)
            .set(STEP, row.way.as_str())
            .set(LAUNCHES, asked(|asked| asked.launches))
            .set(COPIES, asked(|asked| asked.copies))
            .set(WAITS, asked(|asked| asked.waits))
            .set(RECEIVED, Cell::or_absent(received, "what a library queues is its own affair"))
            .set(MICROSECONDS, Cell::or_absent(row.ms.as_ref().ok().map(|ms| ms * 1e3), no_time))
            .set(BUS, Cell::or_absent(row.bus_gb_per_s(ranks), no_time))
            .set(OF_NCCL, Cell::or_absent(row.of_nccl().map(|ratio| 100.0 * ratio), "there is no NCCL to compare with"))
            .set(columns::CHECK, check)
            .complete();
    }
    table.note(
        "Launches, copies and waits for events: on all devices, for one sum; the host never waits. KiB in: over the links into the \
         device that gets most.",
    );
    if counts.contains(&1) {
        table.note("One device has nothing to exchange: its sums are its values.");
    }
    if !group.is_sim() {
        table.note("µs: medians of batches, by events of the slowest device. GB/s: bus bandwidth, 2(N − 1)/N times the size by the time.");
    }
    Ok((table.finish(), wrong))
}

/// `256 KiB`.
fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}
