//! Pairs of a 32-bit key and a 32-bit value, sorted by their keys in three steps. The sort is stable: pairs with equal keys keep their
//! order. So the result is one list, and every step is checked exactly.

use bench::ladder::{self, Cost, StepRun};
use common::check::{Tolerance, compare};
use common::limits::fits_i32;
use common::prelude::*;

use super::{Pattern, PatternRun, Trial, count, random_u32};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[SCATTER, EXCHANGE, MATCH];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "radix-sort", about: "pairs of a key and a value, sorted", run };

/// Step 1. Hypothesis: eight passes of 20 bytes per pair, were the stores not scattered: each pair goes to a sector of its own. Change:
/// none, this is the first version.
pub const SCATTER: Step<Method> = Step {
    number: 1,
    name: "scatter",
    idea: "count, add up, store each pair at its place; 4 bits per pass",
    source: kernel_source!("radix_01_scatter"),
    method: Method,
};

/// Step 2. Hypothesis: a tile of 1024 pairs has 64 pairs per digit, which are 8 or 9 sectors if stored side by side. Change: the tile is
/// sorted in shared memory before it is stored.
pub const EXCHANGE: Step<Method> = Step {
    number: 2,
    name: "exchange",
    idea: "a tile is sorted in shared memory, then stored",
    source: kernel_source!("radix_02_exchange"),
    method: Method,
};

/// Step 3. Hypothesis: with 8 bits per pass there are half as many passes, if the ranks of 256 digits are affordable. Change: ranks by
/// `match` among the lanes of a warp, larger tiles.
pub const MATCH: Step<Method> = Step {
    number: 3,
    name: "match",
    idea: "8 bits per pass; lanes find equal digits by match",
    source: kernel_source!("radix_03_match"),
    method: Method,
};

/// Launch of a step: the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method;

impl ladder::Method for Method {
    type Loaded = RadixSort;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<RadixSort> {
        let module = device.load(&step.source)?;
        let constant = |name| Ok::<_, Error>(module.constant(name)? as u32);
        Ok(RadixSort {
            count_digits: module.kernel("count_digits")?,
            scan_rows: module.kernel("scan_rows")?,
            scatter: module.kernel("scatter")?,
            bits: constant("BITS")?,
            digits: constant("DIGITS")?,
            threads: constant("THREADS")?,
            tile: constant("TILE")?,
            scan_threads: constant("SCAN_THREADS")?,
            workspace: None,
        })
    }
}

/// Keys and their values, on a device.
#[derive(Debug)]
pub struct Pairs {
    /// \[n\].
    pub keys: Buffer<u32>,
    /// \[n\].
    pub values: Buffer<u32>,
}

impl Pairs {
    /// Copies keys and values from the host.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn to_device(stream: &Stream, keys: &[u32], values: &[u32]) -> Result<Pairs> {
        Ok(Pairs { keys: stream.clone_htod(keys)?, values: stream.clone_htod(values)? })
    }

    /// Memory for `n` pairs, filled with poison.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn poisoned(stream: &Stream, n: usize) -> Result<Pairs> {
        Ok(Pairs { keys: stream.alloc_poisoned(n)?, values: stream.alloc_poisoned(n)? })
    }

    /// Keys and values, on the host.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn to_host(&self, stream: &Stream) -> Result<[Vec<u32>; 2]> {
        Ok([stream.clone_dtoh(&self.keys)?, stream.clone_dtoh(&self.values)?])
    }

    /// Runs a step that fills them, as [`Trial::run`] does with one buffer: poison, check, time.
    pub(super) fn run<M: Clone>(
        &mut self,
        trial: &Trial<'_>,
        step: &Step<M>,
        expected: &[Vec<u32>; 2],
        mut launch: impl FnMut(&Stream, &mut Pairs) -> Result<()>,
    ) -> Result<StepRun> {
        (trial.announce)(&step.title());
        let stream = trial.device.stream();
        StepRun::profiled(trial.device, || {
            stream.poison(&mut self.keys)?;
            stream.poison(&mut self.values)?;
            ladder::run_with(
                &stream,
                trial.bench,
                self,
                |pairs| launch(&stream, pairs),
                |pairs| {
                    let [keys, values] = pairs.to_host(&stream)?;
                    let of_keys = compare(&keys, &expected[0], Tolerance::exact());
                    Ok(of_keys.and_then(|_| compare(&values, &expected[1], Tolerance::exact())))
                },
            )
        })
    }
}

/// A step, loaded on a device. It takes up to 2³¹ − 1 pairs.
#[derive(Debug)]
pub struct RadixSort {
    count_digits: Kernel,
    scan_rows: Kernel,
    scatter: Kernel,
    bits: u32,
    digits: u32,
    threads: u32,
    tile: u32,
    scan_threads: u32,
    workspace: Option<Workspace>,
}

/// Memory that a sort needs in addition to its input and output; `pairs` sets the maximum number of pairs.
#[derive(Debug)]
struct Workspace {
    /// Result of every second pass.
    pairs: Pairs,
    /// \[digits, tiles\].
    counts: Buffer<u32>,
    /// \[digits\].
    totals: Buffer<u32>,
}

impl RadixSort {
    /// Queues the pairs of `input`, sorted by key and otherwise in their order, into `output`. All are on the stream's device.
    ///
    /// The first launch allocates a workspace slightly larger than `input`; a launch with another number of pairs allocates a new
    /// one.
    ///
    /// # Errors
    /// [`Error::Shape`] if the four lists are not equally long, or too long; [`Error::WrongDevice`], [`Error::OutOfMemory`].
    pub fn launch(&mut self, stream: &Stream, input: &Pairs, output: &mut Pairs) -> Result<()> {
        let n = fits_i32("radix sort", "the number of pairs", Some(input.keys.len()))?.unsigned_abs();
        let lengths = [input.values.len(), output.keys.len(), output.values.len()];
        if lengths != [n as usize; 3] {
            let detail = format!("there are {n} keys to sort, and lists of {lengths:?} for values and the results");
            return Err(Error::shape("radix sort", detail));
        }
        if n == 0 {
            return Ok(());
        }
        let tiles = n.div_ceil(self.tile);
        let fits = |workspace: &Workspace| {
            workspace.pairs.keys.len() == n as usize && workspace.totals.device() == stream.device()
        };
        let mut workspace = match self.workspace.take().filter(fits) {
            Some(workspace) => workspace,
            None => Workspace {
                pairs: Pairs { keys: stream.alloc_uninit(n as usize)?, values: stream.alloc_uninit(n as usize)? },
                counts: stream.alloc_uninit(self.digits as usize * tiles as usize)?,
                totals: stream.alloc_uninit(self.digits as usize)?,
            },
        };
        let Workspace { pairs, counts, totals } = &mut workspace;
        for pass in 0..u32::BITS / self.bits {
            // There is an even number of passes, so the last one stores into the output.
            let shift = pass * self.bits;
            match pass {
                0 => self.pass(stream, input, pairs, counts, totals, shift)?,
                _ if pass % 2 == 1 => self.pass(stream, pairs, output, counts, totals, shift)?,
                _ => self.pass(stream, output, pairs, counts, totals, shift)?,
            }
        }
        self.workspace = Some(workspace);
        Ok(())
    }

    /// Sorts by the digit at `shift`.
    fn pass(
        &self,
        stream: &Stream,
        from: &Pairs,
        to: &mut Pairs,
        counts: &mut Buffer<u32>,
        totals: &mut Buffer<u32>,
        shift: u32,
    ) -> Result<()> {
        let n = from.keys.len() as u32;
        let tiles = n.div_ceil(self.tile);
        let of_blocks = |blocks, threads| LaunchConfig { grid_dim: (blocks, 1, 1), ..LaunchConfig::linear(0, threads) };
        let mut launch = stream.launch_builder(&self.count_digits);
        launch.arg(&from.keys).arg(&mut *counts).arg(&n).arg(&shift);
        // SAFETY: a block reads keys of its tile below n, and writes its column of the counts.
        unsafe { launch.launch(of_blocks(tiles, self.threads)) }?;

        let mut launch = stream.launch_builder(&self.scan_rows);
        launch.arg(&mut *counts).arg(&mut *totals).arg(&tiles);
        let threads = tiles.next_multiple_of(32).min(self.scan_threads);
        // SAFETY: a block reads and writes its row of the counts, and its total.
        unsafe { launch.launch(of_blocks(self.digits, threads)) }?;

        let mut launch = stream.launch_builder(&self.scatter);
        launch.arg(&from.keys).arg(&from.values).arg(&mut to.keys).arg(&mut to.values);
        launch.arg(&*counts).arg(&*totals).arg(&n).arg(&shift);
        // SAFETY: a block reads pairs of its tile below n; by the counts, the places that all blocks store to are those below n.
        unsafe { launch.launch(of_blocks(tiles, self.threads)) }
    }
}

/// The keys in order, and their values: a stable sort.
pub fn reference(keys: &[u32], values: &[u32]) -> [Vec<u32>; 2] {
    let mut pairs: Vec<(u32, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|&(key, _)| key);
    let (keys, values) = pairs.into_iter().unzip();
    [keys, values]
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let n = trial.size(1 << 16, 1 << 25);
    let keys = random_u32(n, 4);
    let indices: Vec<u32> = (0..n as u32).collect();
    let expected = reference(&keys, &indices);
    let stream = trial.device.stream();
    let input = Pairs::to_device(&stream, &keys, &indices)?;
    let mut output = Pairs::poisoned(&stream, n)?;
    let runs = LADDER.iter().map(|step| {
        let mut sort = step.load(trial.device)?;
        let run = output.run(trial, step, &expected, |stream, output| sort.launch(stream, &input, output))?;
        // Pairs are read once and written once at least.
        let cost = Cost { bytes: 16.0 * n as f64, values: n as f64, ..Cost::default() };
        Ok(PatternRun { size: format!("{} pairs", count(n)), step: step.title(), cost, run })
    });
    runs.collect()
}
