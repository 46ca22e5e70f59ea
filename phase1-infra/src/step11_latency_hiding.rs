//! Step 11: how many warps, and how many independent instructions in each, keep an SM busy.
//!
//! **Hypothesis.** A multiply-add takes L cycles and a scheduler can start one per cycle. So it needs L of them that do not wait for
//! each other, and it does not matter whether they come from L warps or from one warp with L independent chains. Loads are the
//! same with other numbers: bytes in flight = latency × bandwidth (Little's law). (Volkov, "Better Performance at Lower
//! Occupancy", GTC 2010; "Understanding Latency Hiding on GPUs", 2016.)
//!
//! **Change.** Two kernels, each with 1, 2, 4 or 8 chains or loads per thread, run with 1 to 64 warps on each SM. The
//! number of warps is set by shared memory: a block takes so much that exactly as many blocks fit as are launched per
//! SM.
//!
//! **Look at** the diagonals of the two tables, where warps × chains is the same. Counts say nothing here: those of the multiply-adds
//! are the same for any number of warps.

use bench::resources;
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue, Timing};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::ptx_sim::Limits;

use crate::occupancy;
use crate::{NO_CLOCK, NO_COUNTS, common_length};

/// `kernels/09_chains.cu`.
pub const CHAINS: KernelSource = kernel_source!("09_chains");
/// `kernels/10_loads.cu`.
pub const LOADS: KernelSource = kernel_source!("10_loads");

/// Chains, or loads in flight, per thread: a kernel for each, `chains_4`.
pub const PER_THREAD: [u32; 4] = [1, 2, 4, 8];
/// Warps on an SM.
pub const WARPS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Multiply-adds of each chain per round; `STEPS` of the kernel.
pub const STEPS: u32 = 16;
/// Maximum number of threads per block: one warp for each of an SM's four partitions.
const BLOCK: u32 = 128;

/// A launch that gives every SM the same number of warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Threads per block.
    pub threads: u32,
    /// Blocks that an SM holds.
    pub blocks: u32,
    /// Shared memory of a block, so large that no further block fits.
    pub shared_bytes: u32,
}

impl Residency {
    /// Launch with `warps` warps on each SM; `None` if an SM does not hold as many.
    // ANCHOR: residency
    pub fn of(limits: &Limits, warps: u32) -> Option<Residency> {
        let threads = (32 * warps).clamp(1, BLOCK);
        let blocks = (32 * warps).div_ceil(threads);
        if 32 * warps > limits.threads || blocks > limits.blocks {
            return None;
        }
        Some(Residency { threads, blocks, shared_bytes: limits.shared_for(blocks)? })
    }
    // ANCHOR_END: residency

    /// The launch on this number of SMs.
    pub fn launch(self, multiprocessors: u32) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (multiprocessors * self.blocks, 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: self.shared_bytes,
        }
    }
}

/// Threads of a launch of one dimension.
fn threads_of(config: &LaunchConfig) -> usize {
    config.grid_dim.0 as usize * config.block_dim.0 as usize
}

/// x ← a·x + b, `rounds` · [`STEPS`] times in each chain, with a kernel of [`CHAINS`]; one sum per thread.
///
/// # Errors
/// [`Error::Shape`] if `out` does not have one element per thread, or errors of the launch.
pub fn multiply_add(
    stream: &Stream,
    kernel: &Kernel,
    config: LaunchConfig,
    [a, b]: [f32; 2],
    rounds: u32,
    out: &mut Buffer<f32>,
) -> Result<()> {
    check_results("chains", &config, out)?;
    // SAFETY: the kernel writes one element per thread, and `out` has as many.
    unsafe { stream.launch_builder(kernel).arg(out).arg(&a).arg(&b).arg(&rounds).launch(config) }
}

/// The sum of every thread's elements of `x`, with a kernel of [`LOADS`] for `loads` loads in flight.
///
/// # Errors
/// [`Error::Shape`] if `out` does not have one element per thread or an index would not fit in 32 bits, or errors of the
/// launch.
pub fn add_up(
    stream: &Stream,
    kernel: &Kernel,
    config: LaunchConfig,
    loads: u32,
    x: &Buffer<f32>,
    out: &mut Buffer<f32>,
) -> Result<()> {
    check_results("loads", &config, out)?;
    let n = common_length("loads", &[x.len()])?;
    if u64::from(n) + u64::from(loads) * out.len() as u64 > u64::from(u32::MAX) {
        let detail = format!("{n} elements and {} threads: an index would not fit in 32 bits", out.len());
        return Err(Error::shape("loads", detail));
    }
    // SAFETY: the kernel compares each index with n, no index passes 2³² as was just checked, and `out` has one element per thread.
    unsafe { stream.launch_builder(kernel).arg(x).arg(out).arg(&n).launch(config) }
}

fn check_results(operation: &'static str, config: &LaunchConfig, out: &Buffer<f32>) -> Result<()> {
    if threads_of(config) == out.len() {
        return Ok(());
    }
    Err(Error::shape(
        operation,
        format!("{} threads and {} results, one per thread expected", threads_of(config), out.len()),
    ))
}

/// Result of each thread of a block of [`multiply_add`], in f64.
pub fn multiply_add_reference(threads: u32, chains: u32, [a, b]: [f32; 2], rounds: u32) -> Vec<f64> {
    let chain = |first: u32| (0..rounds * STEPS).fold(f64::from(first), |x, _| f64::from(a) * x + f64::from(b));
    (0..threads).map(|thread| (0..chains).map(|at| chain(thread * chains + at)).sum()).collect()
}

/// Result of each of `threads` threads of [`add_up`], in f64.
pub fn add_up_reference(threads: usize, x: &[f32]) -> Vec<f64> {
    let mut sums = vec![0.0; threads];
    for row in x.chunks(threads.max(1)) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    sums
}

const WARPS_COLUMN: ColumnSpec = ColumnSpec::identity("warps", "warps per SM");
const OF_CHAINS: [ColumnSpec; 4] = [
    ColumnSpec::number("1 chain", "1 chain", 2),
    ColumnSpec::number("2 chains", "2 chains", 2),
    ColumnSpec::number("4 chains", "4 chains", 2),
    ColumnSpec::number("8 chains", "8 chains", 2),
];
const OF_LOADS: [ColumnSpec; 4] = [
    ColumnSpec::number("1 load", "1 load", 0),
    ColumnSpec::number("2 loads", "2 loads", 0),
    ColumnSpec::number("4 loads", "4 loads", 0),
    ColumnSpec::number("8 loads", "8 loads", 0),
];
const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const AT_1: ColumnSpec = ColumnSpec::number("at 1 warp", "instructions at 1 warp per SM", 2);
const AT_64: ColumnSpec = ColumnSpec::number("at 64 warps", "at 64", 2);

/// One cell of a table and what it was counted from.
struct Measured {
    timing: Timing,
    /// Multiply-adds or loads, of all lanes.
    operations: f64,
}

/// The three measured tables, and the limits of an SM of each compute capability.
///
/// # Errors
/// Errors of the device; [`Error::Invalid`] if a result is wrong or the limits of the device are not known.
pub fn run(device: &Device) -> Result<Vec<Table>> {
    let architecture = resources::architecture(device);
    let limits = occupancy::limits(&architecture)?;
    let multiprocessors = device.properties().multiprocessors.unwrap_or(4);
    let mut counts = Vec::new();

    let rounds = if device.is_sim() { 2 } else { 2048 };
    let title = format!("latency-hiding: TFLOP/s of chains of {} multiply-adds", rounds * STEPS);
    let mut chains = TableBuilder::on(device, &title, &columns_of(&OF_CHAINS));
    measure(
        device,
        &limits,
        &CHAINS,
        "chains",
        &mut counts,
        |warps, kernels| {
            let Some(residency) = Residency::of(&limits, warps) else { return Ok(None) };
            let mut cells = Vec::new();
            for (kernel, &count) in kernels.iter().zip(&PER_THREAD) {
                let config = residency.launch(multiprocessors);
                cells.push(time_chains(device, kernel, config, count, rounds)?);
            }
            Ok(Some(cells))
        },
        |warps, cells| {
            let rate = |cell: &Measured| cell.timing.rate(2.0 * cell.operations).map(|rate| rate / 1e12);
            fill(&mut chains, &OF_CHAINS, warps, cells, rate);
        },
    )?;
    if let Some(clock) = device.properties().clock_khz {
        let peak = f64::from(multiprocessors) * 128.0 * 2.0 * f64::from(clock) * 1e3 / 1e12;
        chains.note(format!(
            "{multiprocessors} SMs × 128 lanes × 2 × {:.2} GHz are {peak:.1} TFLOP/s (64 lanes on 7.5 and 8.0).",
            f64::from(clock) / 1e6
        ));
    }

    let n = if device.is_sim() { (1 << 16) + 3 } else { (1 << 26) + 3 };
    // Whole numbers, whose sums are exact in any order.
    let host: Vec<f32> = (0..n).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 29) as f32).collect();
    let x = device.stream().clone_htod(&host)?;
    let mut loads = TableBuilder::on(device, &format!("loads: GB/s of sums of {n} values"), &columns_of(&OF_LOADS));
    measure(
        device,
        &limits,
        &LOADS,
        "loads",
        &mut counts,
        |warps, kernels| {
            let Some(residency) = Residency::of(&limits, warps) else { return Ok(None) };
            let config = residency.launch(multiprocessors);
            let expected = add_up_reference(threads_of(&config), &host);
            let mut cells = Vec::new();
            for (kernel, &count) in kernels.iter().zip(&PER_THREAD) {
                cells.push(time_loads(device, kernel, config, count, &x, &expected)?);
            }
            Ok(Some(cells))
        },
        |warps, cells| {
            let rate = |cell: &Measured| cell.timing.rate(4.0 * cell.operations).map(|rate| rate / 1e9);
            fill(&mut loads, &OF_LOADS, warps, cells, rate);
        },
    )?;
    if let Some(bandwidth) = device.properties().memory_bandwidth() {
        loads.note(format!("The memory's peak is {:.0} GB/s.", bandwidth / 1e9));
    }

    let mut counted = TableBuilder::on(device, "counts: instructions per multiply-add or load", &[KERNEL, AT_1, AT_64]);
    for (name, at) in counts {
        let [one, most] = at.map(|count| Cell::or_absent(count, NO_COUNTS));
        counted.row().set(KERNEL, name).set(AT_1, one).set(AT_64, most).complete();
    }
    counted.note("Of lanes. The loop is counted too: its share falls as an iteration does more.");
    Ok(vec![chains.finish(), loads.finish(), counted.finish(), occupancy::limits_table()])
}

fn columns_of(quantities: &[ColumnSpec; 4]) -> [ColumnSpec; 5] {
    let [one, two, four, eight] = *quantities;
    [WARPS_COLUMN, one, two, four, eight]
}

/// Instructions of a lane per operation, by kernel: with the fewest warps, and with the most.
type Counts = Vec<(String, [Option<f64>; 2])>;

/// One row for each number of warps, from `of_row`, which returns `None` where that many do not fit.
fn measure(
    device: &Device,
    limits: &Limits,
    source: &KernelSource,
    name: &str,
    counts: &mut Counts,
    of_row: impl Fn(u32, &[Kernel]) -> Result<Option<Vec<Measured>>>,
    mut show: impl FnMut(u32, Option<&[Measured]>),
) -> Result<()> {
    let kernels = PER_THREAD.map(|count| device.kernel(source, &format!("{name}_{count}")));
    let kernels = kernels.into_iter().collect::<Result<Vec<Kernel>>>()?;
    let begin = counts.len();
    counts.extend(kernels.iter().map(|kernel| (kernel.name().to_owned(), [None; 2])));
    let most = WARPS.iter().copied().filter(|warps| 32 * warps <= limits.threads).max();
    for warps in WARPS {
        let row = of_row(warps, &kernels)?;
        let per_operation =
            |cell: &Measured| cell.timing.counts().map(|counts| counts.lane_instructions as f64 / cell.operations);
        for (at, cell) in row.iter().flatten().enumerate() {
            let [first, last] = &mut counts[begin + at].1;
            if warps == WARPS[0] {
                *first = per_operation(cell);
            }
            if Some(warps) == most {
                *last = per_operation(cell);
            }
        }
        show(warps, row.as_deref());
    }
    Ok(())
}

fn fill(
    table: &mut TableBuilder,
    columns: &[ColumnSpec; 4],
    warps: u32,
    cells: Option<&[Measured]>,
    rate: impl Fn(&Measured) -> Option<f64>,
) {
    let row = table.row().set(WARPS_COLUMN, u64::from(warps));
    let Some(cells) = cells else {
        return row.finish("an SM of this device does not hold that many warps");
    };
    let cells = columns.iter().zip(cells).map(|(column, cell)| (*column, Cell::or_absent(rate(cell), NO_CLOCK)));
    row.set_all(cells).complete();
}

/// The state of the device before a measured run, and the runs.
fn bench() -> Bench {
    Bench { warm_up: 1, repeats: 10, queue: Queue::Warm, ..Bench::default() }
}

fn time_chains(device: &Device, kernel: &Kernel, config: LaunchConfig, chains: u32, rounds: u32) -> Result<Measured> {
    // Each step adds 1, so that the result is exact and says how many steps there were.
    let factors = [1.0, 1.0];
    let stream = device.stream();
    let mut out = stream.alloc_poisoned::<f32>(threads_of(&config))?;
    let timing = bench().measure(&stream, || multiply_add(&stream, kernel, config, factors, rounds, &mut out))?;
    let of_block = multiply_add_reference(config.block_dim.0, chains, factors, rounds);
    check(kernel, &stream.clone_dtoh(&out)?, &of_block.repeat(config.grid_dim.0 as usize))?;
    let steps = f64::from(rounds) * f64::from(STEPS);
    Ok(Measured { timing, operations: threads_of(&config) as f64 * f64::from(chains) * steps })
}

fn time_loads(
    device: &Device,
    kernel: &Kernel,
    config: LaunchConfig,
    loads: u32,
    x: &Buffer<f32>,
    expected: &[f64],
) -> Result<Measured> {
    let stream = device.stream();
    let mut out = stream.alloc_poisoned::<f32>(threads_of(&config))?;
    let timing = bench().measure(&stream, || add_up(&stream, kernel, config, loads, x, &mut out))?;
    check(kernel, &stream.clone_dtoh(&out)?, expected)?;
    Ok(Measured { timing, operations: x.len() as f64 })
}

fn check(kernel: &Kernel, actual: &[f32], expected: &[f64]) -> Result<()> {
    let compared = compare(actual, expected, Tolerance::exact());
    compared.map(drop).map_err(|mismatch| Error::Invalid(format!("{}: {mismatch}", kernel.name())))
}
