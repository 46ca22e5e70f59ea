//! The k largest of a list's keys, by radix select. Of keys that equal the k-th largest, the first ones of the list belong to the
//! result, and the result is in the order of the list: there is one right answer, and it is checked exactly.

use bench::ladder::{self, Cost};
use common::limits::fits_i32;
use common::prelude::*;

use super::radix_sort::Pairs;
use super::{Pattern, PatternRun, Trial, count, random_u32, sharing_blocks};
use crate::Step;

/// All steps: there is one.
pub static LADDER: &[Step<Method>] = &[SELECT];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "top-k", about: "the 1000 largest keys of a list", run };

/// Hypothesis: the k-th largest key is known after four counts of its digits; with the two passes that store the result, the keys are
/// read six times, where a sort moves each pair eight times.
pub const SELECT: Step<Method> = Step {
    number: 1,
    name: "select",
    idea: "find the k-th largest key digit by digit",
    source: kernel_source!("topk_01_select"),
    method: Method,
};

/// How a step is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method;

impl ladder::Method for Method {
    type Loaded = TopK;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<TopK> {
        let module = device.load(&step.source)?;
        let constant = |name| Ok::<_, Error>(module.constant(name)? as u32);
        let count_candidates = module.kernel("count_candidates")?;
        Ok(TopK {
            choose_digit: module.kernel("choose_digit")?,
            count_winners: module.kernel("count_winners")?,
            scan_rows: module.kernel("scan_rows")?,
            collect: module.kernel("collect")?,
            bits: constant("BITS")?,
            digits: constant("DIGITS")?,
            threads: constant("THREADS")?,
            tile: constant("TILE")?,
            most_blocks: sharing_blocks(&count_candidates, constant("THREADS")?, constant("BLOCKS")?)?,
            count_candidates,
            scan_threads: constant("SCAN_THREADS")?,
            workspace: None,
        })
    }
}

/// The selection, loaded on a device. It takes up to 2³¹ − 1 keys.
#[derive(Debug)]
pub struct TopK {
    count_candidates: Kernel,
    choose_digit: Kernel,
    count_winners: Kernel,
    scan_rows: Kernel,
    collect: Kernel,
    bits: u32,
    digits: u32,
    threads: u32,
    tile: u32,
    most_blocks: u32,
    scan_threads: u32,
    workspace: Option<Workspace>,
}

/// Memory that a selection needs in addition to its input and output.
#[derive(Debug)]
struct Workspace {
    /// Number of keys, and k.
    sizes: [u32; 2],
    /// State for the k-th largest key before the first digit.
    nothing: Buffer<u32>,
    /// State for the k-th largest key so far: its upper digits, and its rank among the keys with these.
    known: Buffer<u32>,
    /// \[digits\].
    digits: Buffer<u32>,
    /// \[2, tiles\].
    winners: Buffer<u32>,
    /// \[2\].
    totals: Buffer<u32>,
}

impl TopK {
    /// Keys that justify a thread where blocks stride.
    const SHARE: u32 = 16;

    /// Queues the largest of `keys`, as many as `largest` holds, into its keys, and their indices in the list into its values, in
    /// the order of the list. All are on the stream's device.
    ///
    /// The first launch allocates a small workspace; a launch with other sizes allocates a new one.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are fewer keys than that, or too many; [`Error::WrongDevice`], [`Error::OutOfMemory`].
    pub fn launch(&mut self, stream: &Stream, keys: &Buffer<u32>, largest: &mut Pairs) -> Result<()> {
        let n = fits_i32("top-k", "the number of keys", Some(keys.len()))?.unsigned_abs();
        let k = fits_i32("top-k", "k", Some(largest.keys.len()))?.unsigned_abs();
        if k > n || largest.values.len() != k as usize {
            let detail = format!("{k} of {n} keys, and {} of their indices", largest.values.len());
            return Err(Error::shape("top-k", detail));
        }
        if k == 0 {
            return Ok(());
        }
        let tiles = n.div_ceil(self.tile);
        let fits = |workspace: &Workspace| workspace.sizes == [n, k] && workspace.known.device() == stream.device();
        let mut workspace = match self.workspace.take().filter(fits) {
            Some(workspace) => workspace,
            None => Workspace {
                sizes: [n, k],
                nothing: stream.clone_htod(&[0, k])?,
                known: stream.alloc_uninit(2)?,
                digits: stream.alloc_uninit(self.digits as usize)?,
                winners: stream.alloc_uninit(2 * tiles as usize)?,
                totals: stream.alloc_uninit(2)?,
            },
        };
        let Workspace { nothing, known, digits, winners, totals, .. } = &mut workspace;
        stream.memcpy_dtod(nothing, known)?;
        stream.memset_zeros(digits)?;
        let of_blocks = |blocks, threads| LaunchConfig { grid_dim: (blocks, 1, 1), ..LaunchConfig::linear(0, threads) };
        let counting = n.div_ceil(self.threads * Self::SHARE).min(self.most_blocks);
        for round in 0..u32::BITS / self.bits {
            let mut launch = stream.launch_builder(&self.count_candidates);
            launch.arg(keys).arg(&*known).arg(&mut *digits).arg(&n).arg(&round);
            // SAFETY: the kernel reads keys[i] for i < n and what is known, and adds to the counts of digits.
            unsafe { launch.launch(of_blocks(counting, self.threads)) }?;
            let mut launch = stream.launch_builder(&self.choose_digit);
            launch.arg(&mut *digits).arg(&mut *known).arg(&round);
            // SAFETY: the one block reads and writes the counts of digits and what is known.
            unsafe { launch.launch(of_blocks(1, self.threads)) }?;
        }
        let mut launch = stream.launch_builder(&self.count_winners);
        launch.arg(keys).arg(&*known).arg(&mut *winners).arg(&n);
        // SAFETY: a block reads keys of its tile below n, and writes its column of the counts.
        unsafe { launch.launch(of_blocks(tiles, self.threads)) }?;
        let mut launch = stream.launch_builder(&self.scan_rows);
        launch.arg(&mut *winners).arg(&mut *totals).arg(&tiles);
        let threads = tiles.next_multiple_of(32).min(self.scan_threads);
        // SAFETY: a block reads and writes its row of the counts, and its total.
        unsafe { launch.launch(of_blocks(2, threads)) }?;
        let mut launch = stream.launch_builder(&self.collect);
        launch.arg(keys).arg(&*known).arg(&*winners).arg(&mut largest.keys).arg(&mut largest.values).arg(&n);
        // SAFETY: a block reads keys of its tile below n; by the counts, the places that all blocks store to are those below k.
        unsafe { launch.launch(of_blocks(tiles, self.threads)) }?;
        self.workspace = Some(workspace);
        Ok(())
    }
}

/// The k largest keys and their indices, in the order of the list; of equal keys, the first ones.
///
/// # Panics
/// If there are fewer than `k` keys.
pub fn reference(keys: &[u32], k: usize) -> [Vec<u32>; 2] {
    assert!(k <= keys.len(), "{k} of {} keys", keys.len());
    let mut indices: Vec<u32> = (0..keys.len() as u32).collect();
    if k > 0 {
        // The largest first, and of equal ones the first.
        indices.select_nth_unstable_by_key(k - 1, |&index| (!keys[index as usize], index));
    }
    indices.truncate(k);
    indices.sort_unstable();
    [indices.iter().map(|&index| keys[index as usize]).collect(), indices]
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let n = trial.size(1 << 18, 1 << 27);
    let keys = random_u32(n, 5);
    let expected = reference(&keys, 1000);
    let stream = trial.device.stream();
    let keys = stream.clone_htod(&keys)?;
    let mut largest = Pairs::poisoned(&stream, 1000)?;
    let runs = LADDER.iter().map(|step| {
        let mut top = step.load(trial.device)?;
        let run = largest.run(trial, step, &expected, |stream, largest| top.launch(stream, &keys, largest))?;
        let cost = Cost { bytes: 4.0 * n as f64, values: n as f64, ..Cost::default() };
        Ok(PatternRun { size: format!("{} keys", count(n)), step: step.title(), cost, run })
    });
    runs.collect()
}
