//! Inclusive sums of a list of 32-bit integers, modulo 2³², in three steps, which read and write it twice each, then read it twice, then
//! once. Any order of additions gives the same bits, so every step is checked exactly.

use bench::ladder::{self, Cost};
use common::check::Tolerance;
use common::device::SimOptions;
use common::limits::fits_i32;
use common::prelude::*;

use super::{Answer, Pattern, PatternRun, Trial, count, random_u32};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[LEVELS, REDUCE_FIRST, LOOK_BACK];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "scan", about: "inclusive sums of a list of integers", run };

/// Step 1. Hypothesis: every value passes memory four times, so the scan takes twice as long as reading and writing it once. Change:
/// none, this is the first version.
pub const LEVELS: Step<Method> = Step {
    number: 1,
    name: "levels",
    idea: "blocks scan, their totals are scanned, blocks add what came before",
    source: kernel_source!("scan_01_levels"),
    method: Method::Levels,
};

/// Step 2. Hypothesis: a pass that only adds up writes next to nothing, so three passages are left of four; and tiles of 4096 values
/// in registers need one barrier. Change: the order of the passes, and shuffles.
pub const REDUCE_FIRST: Step<Method> = Step {
    number: 2,
    name: "reduce first",
    idea: "totals of tiles first, then one pass that scans and writes",
    source: kernel_source!("scan_02_reduce_first"),
    method: Method::ReduceFirst,
};

/// Step 3. Hypothesis: blocks that tell one another their totals need no first pass, so the scan takes as long as a copy. Change:
/// decoupled look-back.
pub const LOOK_BACK: Step<Method> = Step {
    number: 3,
    name: "look-back",
    idea: "one pass, in which tiles look back for the sum before them",
    source: kernel_source!("scan_03_look_back"),
    method: Method::LookBack,
};

/// Host side that a step's kernels need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Two kernels per level of totals.
    Levels,
    /// Three kernels, the second of one block.
    ReduceFirst,
    /// One kernel.
    LookBack,
}

impl ladder::Method for Method {
    type Loaded = Scan;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Scan> {
        let module = device.load(&step.source)?;
        let kernel = |name| module.kernel(name);
        let kernels = match step.method {
            Method::Levels => {
                Kernels::Levels { scan: kernel("scan_blocks")?, add: kernel("add_before")?, totals: Vec::new() }
            }
            Method::ReduceFirst => Kernels::ReduceFirst {
                add: kernel("add_tiles")?,
                scan_totals: kernel("scan_totals")?,
                scan: kernel("scan_tiles")?,
                totals: None,
            },
            Method::LookBack => Kernels::LookBack { scan: kernel("scan")?, states: None },
        };
        let threads = module.constant("THREADS")? as u32;
        let tile = match step.method {
            Method::Levels => threads,
            Method::ReduceFirst | Method::LookBack => module.constant("TILE")? as u32,
        };
        Ok(Scan { kernels, threads, tile })
    }
}

/// A step, loaded on a device. It takes every list of up to 2³¹ − 1 values.
#[derive(Debug)]
pub struct Scan {
    kernels: Kernels,
    threads: u32,
    /// Values of a block.
    tile: u32,
}

/// The kernels, and the workspace that they share, which grows to the longest list so far.
#[derive(Debug)]
enum Kernels {
    /// Totals of each level.
    Levels { scan: Kernel, add: Kernel, totals: Vec<Option<Buffer<u32>>> },
    /// A total per tile.
    ReduceFirst { add: Kernel, scan_totals: Kernel, scan: Kernel, totals: Option<Buffer<u32>> },
    /// The ticket, then a state per tile.
    LookBack { scan: Kernel, states: Option<Buffer<u64>> },
}

impl Scan {
    /// Queues the inclusive sums of `x` into `y`, of the same length: `y[i] = x[0] + … + x[i]`. Both are on the stream's device.
    ///
    /// The first launch allocates a workspace of at most 1/255 of the list; any launch that needs more grows it.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many values, or the lengths differ; [`Error::WrongDevice`], [`Error::OutOfMemory`].
    pub fn launch(&mut self, stream: &Stream, x: &Buffer<u32>, y: &mut Buffer<u32>) -> Result<()> {
        let n = fits_i32("scan", "the number of values", Some(x.len()))?.unsigned_abs();
        if y.len() != x.len() {
            let detail = format!("there are {} values, and room for {} sums", x.len(), y.len());
            return Err(Error::shape("scan", detail));
        }
        if n == 0 {
            return Ok(());
        }
        let tile = self.tile;
        let tiles = n.div_ceil(tile);
        let of_blocks = |count| LaunchConfig { grid_dim: (count, 1, 1), ..LaunchConfig::linear(0, self.threads) };
        match &mut self.kernels {
            Kernels::Levels { scan, add, totals } => {
                // Values of each level: the list's, then the totals of its blocks, until there is one block.
                let mut lengths = vec![n];
                let mut length = n;
                while length > tile {
                    length = length.div_ceil(tile);
                    lengths.push(length);
                }
                // Those of the last level's one block are written too, and not read.
                let sizes = lengths.iter().map(|length| length.div_ceil(tile));
                totals.resize_with(totals.len().max(lengths.len()), || None);
                for (totals, size) in totals.iter_mut().zip(sizes) {
                    workspace(totals, stream, size as usize)?;
                }
                let mut levels: Vec<&mut Buffer<u32>> =
                    totals.iter_mut().take(lengths.len()).filter_map(Option::as_mut).collect();
                for (level, &length) in lengths.iter().enumerate() {
                    let mut launch = stream.launch_builder(scan);
                    let (below, rest) = levels.split_at_mut(level);
                    match below.last_mut() {
                        None => launch.arg(x).arg(&mut *y),
                        Some(below) => launch.arg(&mut **below).arg_again(0),
                    };
                    launch.arg(&mut *rest[0]).arg(&length);
                    // SAFETY: the kernel reads x[i] and writes y[i] for i < length, each thread its own, and a total per block.
                    unsafe { launch.launch(of_blocks(length.div_ceil(tile))) }?;
                }
                for (level, &length) in lengths.iter().enumerate().rev().skip(1) {
                    let mut launch = stream.launch_builder(add);
                    let (below, rest) = levels.split_at_mut(level);
                    match below.last_mut() {
                        None => launch.arg(&mut *y),
                        Some(below) => launch.arg(&mut **below),
                    };
                    launch.arg(&*rest[0]).arg(&length);
                    // SAFETY: the kernel changes y[i] for i < length, each thread its own, and reads the totals of earlier blocks.
                    unsafe { launch.launch(of_blocks(length.div_ceil(tile))) }?;
                }
                Ok(())
            }
            Kernels::ReduceFirst { add, scan_totals, scan, totals } => {
                let totals = workspace(totals, stream, tiles as usize)?;
                let mut launch = stream.launch_builder(add);
                launch.arg(x).arg(&mut *totals).arg(&n);
                // SAFETY: the kernel reads x[i] for i < n and writes a total per tile.
                unsafe { launch.launch(of_blocks(tiles)) }?;
                let mut launch = stream.launch_builder(scan_totals);
                launch.arg(&mut *totals).arg(&tiles);
                // SAFETY: one block changes the totals of the tiles, each thread those that it has read.
                unsafe { launch.launch(of_blocks(1)) }?;
                let mut launch = stream.launch_builder(scan);
                launch.arg(x).arg(y).arg(&*totals).arg(&n);
                // SAFETY: the kernel reads x[i] and writes y[i] for i < n, and reads the totals of earlier tiles.
                unsafe { launch.launch(of_blocks(tiles)) }
            }
            Kernels::LookBack { scan, states } => {
                let states = workspace(states, stream, 1 + tiles as usize)?;
                stream.memset_zeros(states)?;
                let mut launch = stream.launch_builder(scan);
                launch.arg(x).arg(y).arg(states).arg(&n);
                // SAFETY: the kernel reads x[i] and writes y[i] for i < n; the ticket and a state per tile are its own.
                unsafe { launch.launch(of_blocks(tiles)) }
            }
        }
    }
}

/// Returns `kept` if it is long enough and on the stream's device; otherwise replaces it with a new one.
fn workspace<'a, T: DeviceElement>(
    kept: &'a mut Option<Buffer<T>>,
    stream: &Stream,
    len: usize,
) -> Result<&'a mut Buffer<T>> {
    match kept.take().filter(|kept| kept.len() >= len && kept.device() == stream.device()) {
        Some(buffer) => Ok(kept.insert(buffer)),
        None => Ok(kept.insert(stream.alloc_uninit(len)?)),
    }
}

/// The sums, which must be exact.
pub fn reference(x: &[u32]) -> Answer<u32> {
    let sums = x.iter().scan(0, |sum: &mut u32, &value| {
        *sum = sum.wrapping_add(value);
        Some(*sum)
    });
    Answer { values: sums.collect(), tolerance: Tolerance::exact() }
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    // How often a tile looks at the state before it depends on when that one's block runs: with one worker, which is the same each time.
    let one_worker;
    let device = if trial.device.is_sim() {
        one_worker = Device::sim_with(SimOptions { workers: 1, ..bench::parts::simulator() });
        &one_worker
    } else {
        trial.device
    };
    let trial = &Trial { device, ..*trial };
    let n = trial.size(1 << 18, 1 << 27);
    let values = random_u32(n, 3);
    let expected = reference(&values);
    let stream = device.stream();
    let x = stream.clone_htod(&values)?;
    let mut y = stream.alloc_uninit::<u32>(n)?;
    let runs = LADDER.iter().map(|step| {
        let mut scan = step.load(device)?;
        let run = trial.run(step, &mut y, &expected, |stream, y| scan.launch(stream, &x, y))?;
        let cost = Cost { bytes: 8.0 * n as f64, values: n as f64, ..Cost::default() };
        Ok(PatternRun { size: format!("{} values", count(n)), step: step.title(), cost, run })
    });
    runs.collect()
}
