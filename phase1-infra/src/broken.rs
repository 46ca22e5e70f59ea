//! The gallery of broken kernels: twelve with one bug each, and their repaired versions.
//!
//! Each kernel comes as `kernels/broken_NN_name.cu` and `kernels/repaired_NN_name.cu`, which differ only in the bug, and one
//! function here launches either version and compares the result with a reference. The files are named after what they compute:
//! finding the bug is up to the reader.
//!
//! On a GPU many of the broken versions give the right result, at least the first time; others destroy the CUDA context, so a
//! process should run only one of them.
//!
//! On the simulator, run them on a device that sanitises ([`simulator`]): it names the rule that was broken, even if the values
//! are right. [`compare`](mod@compare) compares it with NVIDIA's tools.

pub mod compare;

use std::cell::RefCell;
use std::fmt;

use common::check::{self, Mismatch, Report, Tolerance};
use common::device::{LaunchArgs, SimOptions};
use common::prelude::*;
use common::ptx_sim::Counters;
use common::table::{Cell, ColumnSpec, Table, TableBuilder};

/// A kernel with a bug, and its repaired version.
pub struct Broken {
    /// Its number in the gallery and in its file names: `07`.
    pub number: &'static str,
    /// What it computes, in one or two words.
    pub name: &'static str,
    /// The bug in a few words: not to be shown before the reader has looked for it.
    pub title: &'static str,
    /// A hint where to look.
    pub question: &'static str,
    /// True if the result is right but slow to compute, so that counts tell the versions apart and values don't.
    pub slow: bool,
    /// Sizes to run it at, in the unit that its function takes. The bug shows at the first.
    pub sizes: &'static [usize],
    broken: KernelSource,
    repaired: KernelSource,
    run: fn(&Case, usize) -> Result<Compared>,
}

/// One of the two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// With the bug.
    Broken,
    /// Without the bug.
    Repaired,
}

/// The outcome of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The values are right.
    Right(Report),
    /// The values are wrong.
    Wrong(Mismatch),
    /// The simulator's sanitiser found broken rules, whether or not the values are right.
    Found {
        /// [`Error::Findings`], of all launches together.
        found: Error,
        /// What the kernel left in memory. Threads stopped by a finding, at a mismatched barrier for instance, left nothing.
        values: Compared,
    },
    /// There are no values: the simulator's diagnostic, or the CUDA driver's error.
    Stopped(Error),
}

/// The result of a comparison.
pub type Compared = std::result::Result<Report, Mismatch>;

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::Broken => "broken",
            Version::Repaired => "repaired",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Right(report) => {
                write!(f, "right: {} value{}", report.count, if report.count == 1 { "" } else { "s" })
            }
            Outcome::Wrong(mismatch) => write!(f, "wrong: {mismatch}"),
            Outcome::Found { values, .. } => {
                let values = if values.is_ok() { "right" } else { "wrong" };
                write!(f, "found {}; the values are {values}", self.kinds().join(", "))
            }
            Outcome::Stopped(Error::Fault { fault, .. }) => write!(f, "stopped: {}", fault.kind.name()),
            Outcome::Stopped(error) => write!(f, "stopped: {error}"),
        }
    }
}

impl Outcome {
    /// True if the values are right and the sanitiser found nothing.
    pub fn is_right(&self) -> bool {
        matches!(self, Outcome::Right(_))
    }

    /// The names of the broken rules that the simulator found, each once.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        for (kind, _) in self.places() {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// The simulator's findings, in order: the rule that was broken, and the line of the kernel's file.
    pub fn places(&self) -> Vec<(&'static str, Option<u32>)> {
        match self {
            Outcome::Found { found: Error::Findings { findings, .. }, .. } => {
                findings.iter().map(|finding| (finding.kind.name(), finding.line)).collect()
            }
            Outcome::Stopped(Error::Fault { fault, .. }) => vec![(fault.kind.name(), fault.line)],
            _ => Vec::new(),
        }
    }

    /// The simulator's diagnostics, with the lines of source.
    pub fn diagnostics(&self) -> Option<&str> {
        match self {
            Outcome::Found { found: Error::Findings { rendered, .. }, .. }
            | Outcome::Stopped(Error::Fault { rendered, .. }) => Some(rendered),
            _ => None,
        }
    }
}

/// A simulator that sanitises every launch: the gallery's device if there is no GPU.
pub fn simulator() -> Device {
    Device::sim_with(sanitising())
}

/// For [`Device::open_with`]: [`simulator`], if a simulator is chosen.
pub fn sanitising() -> SimOptions {
    SimOptions { sanitize: true, ..SimOptions::default() }
}

impl Broken {
    /// The file of one version.
    pub fn source(&self, version: Version) -> &KernelSource {
        match version {
            Version::Broken => &self.broken,
            Version::Repaired => &self.repaired,
        }
    }

    /// Launches one version on `device` and compares what it computed with a reference; `size` is one of [`Broken::sizes`].
    ///
    /// # Errors
    /// What prevents the launch, such as [`Error::NvrtcMissing`]. An error inside the kernel is an outcome.
    pub fn run(&self, device: &Device, version: Version, size: usize) -> Result<Outcome> {
        let source = self.source(version);
        let case = Case { device, stream: device.stream(), version, source, found: RefCell::default() };
        let ended = (self.run)(&case, size);
        match (ended, case.found.into_inner()) {
            (Ok(values), Some(found)) => Ok(Outcome::Found { found, values }),
            (Ok(Ok(report)), None) => Ok(Outcome::Right(report)),
            (Ok(Err(mismatch)), None) => Ok(Outcome::Wrong(mismatch)),
            (Err(error @ (Error::Fault { .. } | Error::Cuda { .. })), _) => Ok(Outcome::Stopped(error)),
            (Err(error), _) => Err(error),
        }
    }

    /// What the command prints for one version at the first size: the simulator's diagnostics if there are any, then one line
    /// with the verdict; for an entry that is [slow](Broken::slow), also what the simulator counts.
    ///
    /// # Errors
    /// As [`Broken::run`].
    pub fn report(&self, device: &Device, version: Version) -> Result<(Outcome, String)> {
        let outcome = self.run(device, version, self.sizes[0])?;
        let diagnostics = outcome.diagnostics().map_or_else(String::new, |text| format!("{text}\n\n"));
        let mut report = format!("{diagnostics}{} {}, {version}: {outcome}\n", self.number, self.name);
        if self.slow
            && let Some(counts) = counters(device, self)?
        {
            report += &counts.to_text();
        }
        Ok((outcome, report))
    }

    /// The entry with this number or name: `07`, `7` or `warp-sum`.
    pub fn find(wanted: &str) -> Option<&'static Broken> {
        BROKEN.iter().find(|entry| entry.keys().contains(&wanted))
    }

    /// The names that [`Broken::find`] accepts.
    pub fn keys(&self) -> [&'static str; 3] {
        [self.name, self.number, self.number.trim_start_matches('0')]
    }
}

/// The gallery.
pub static BROKEN: [Broken; 12] = [
    Broken {
        number: "01",
        name: "difference",
        title: "a missing barrier",
        question: "Who wrote the left neighbour, and when?",
        slow: false,
        sizes: &[200, 1, 2, 31, 32, 33, 255, 256],
        broken: kernel_source!("broken_01_difference"),
        repaired: kernel_source!("repaired_01_difference"),
        run: difference,
    },
    Broken {
        number: "02",
        name: "scale",
        title: "a bound for one element of four",
        question: "What does the last thread do?",
        slow: false,
        sizes: &[1001, 0, 1, 2, 3, 4, 5, 1023, 1024, 1025],
        broken: kernel_source!("broken_02_scale"),
        repaired: kernel_source!("repaired_02_scale"),
        run: scale,
    },
    Broken {
        number: "03",
        name: "column-sums",
        title: "an accumulator never set to zero",
        question: "What do the sums start from?",
        slow: false,
        sizes: &[100, 0, 1, 2, 33, 257],
        broken: kernel_source!("broken_03_column_sums"),
        repaired: kernel_source!("repaired_03_column_sums"),
        run: column_sums,
    },
    Broken {
        number: "04",
        name: "transpose",
        title: "bank conflicts",
        question: "How many passes does a warp need to read its part of the tile?",
        slow: true,
        sizes: &[100, 1, 31, 32, 33, 65],
        broken: kernel_source!("broken_04_transpose"),
        repaired: kernel_source!("repaired_04_transpose"),
        run: transpose,
    },
    Broken {
        number: "05",
        name: "scale-rows",
        title: "uncoalesced accesses",
        question: "How far apart are the values that a warp loads together?",
        slow: true,
        sizes: &[100, 1, 31, 32, 33, 257],
        broken: kernel_source!("broken_05_scale_rows"),
        repaired: kernel_source!("repaired_05_scale_rows"),
        run: scale_rows,
    },
    Broken {
        number: "06",
        name: "block-sum",
        title: "a barrier that some never reach",
        question: "Who waits for whom?",
        slow: false,
        sizes: &[1000, 0, 1, 2, 255, 256, 257],
        broken: kernel_source!("broken_06_block_sum"),
        repaired: kernel_source!("repaired_06_block_sum"),
        run: block_sum,
    },
    Broken {
        number: "07",
        name: "warp-sum",
        title: "a mask that names absent lanes",
        question: "Which lanes does the mask name, and which lanes take part?",
        slow: false,
        sizes: &[1000, 0, 1, 2, 31, 32, 33, 257],
        broken: kernel_source!("broken_07_warp_sum"),
        repaired: kernel_source!("repaired_07_warp_sum"),
        run: warp_sum,
    },
    Broken {
        number: "08",
        name: "rank-of",
        title: "a buffer used again too soon",
        question: "Two buffers: is that enough?",
        slow: false,
        sizes: &[1000, 0, 1, 127, 128, 129, 257],
        broken: kernel_source!("broken_08_rank_of"),
        repaired: kernel_source!("repaired_08_rank_of"),
        run: rank_of,
    },
    Broken {
        number: "09",
        name: "ring-walk",
        title: "an index that overflows",
        question: "How large does the product become?",
        slow: false,
        sizes: &[100_003, 0, 1, 2, 255, 256, 257, 34_749],
        broken: kernel_source!("broken_09_ring_walk"),
        repaired: kernel_source!("repaired_09_ring_walk"),
        run: ring_walk,
    },
    Broken {
        number: "10",
        name: "frame",
        title: "a misaligned vector load",
        question: "Which values of `start` are fine?",
        slow: false,
        sizes: &[75, 0, 1, 255, 256, 257],
        broken: kernel_source!("broken_10_frame"),
        repaired: kernel_source!("repaired_10_frame"),
        run: frame,
    },
    Broken {
        number: "11",
        name: "add-rows",
        title: "a pointer to freed memory",
        question: "Nothing is wrong with the kernels. Who owns the rows?",
        slow: false,
        sizes: &[1000, 1, 2, 255, 256, 257],
        // The bug is on the host: one file for both versions.
        broken: kernel_source!("broken_11_add_rows"),
        repaired: kernel_source!("broken_11_add_rows"),
        run: add_rows,
    },
    Broken {
        number: "12",
        name: "count-above",
        title: "a race between blocks",
        question: "What happens between the load and the store of `+=`?",
        slow: false,
        sizes: &[100_003, 0, 1, 255, 256, 257],
        broken: kernel_source!("broken_12_count_above"),
        repaired: kernel_source!("repaired_12_count_above"),
        run: count_above,
    },
];

/// The gallery as a table, without naming the bugs.
pub fn list() -> Table {
    const NUMBER: ColumnSpec = ColumnSpec::text("number", "number");
    const NAME: ColumnSpec = ColumnSpec::text("name", "name");
    const QUESTION: ColumnSpec = ColumnSpec::text("question", "question");
    let mut table = TableBuilder::of("twelve broken kernels", [NUMBER, NAME, QUESTION]);
    for entry in &BROKEN {
        table.row().set(NUMBER, entry.number).set(NAME, entry.name).set(QUESTION, entry.question).complete();
    }
    table.finish()
}

/// The counts of `device` for each version at the first size; `None` if it does not count. For the entries that are
/// [slow](Broken::slow), whose broken version can run to its end.
///
/// # Errors
/// As [`Broken::run`].
pub fn counters(device: &Device, entry: &Broken) -> Result<Option<Table>> {
    if !device.is_sim() {
        return Ok(None);
    }
    const VERSION: ColumnSpec = ColumnSpec::text("version", "version");
    const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("warp instructions", "warp instructions", 0);
    const PER_LOAD: ColumnSpec = ColumnSpec::number("sectors per load", "sectors per load", 1);
    const PER_STORE: ColumnSpec = ColumnSpec::number("sectors per store", "sectors per store", 1);
    const PER_SHARED: ColumnSpec =
        ColumnSpec::number("wavefronts per shared access", "wavefronts per shared access", 1);
    let columns = [VERSION, INSTRUCTIONS, PER_LOAD, PER_STORE, PER_SHARED];
    let mut table = crate::table(entry.name, device, &columns);
    for version in [Version::Broken, Version::Repaired] {
        let counters = profiled(entry, version)?;
        let ratio = |total: u64, requests: u64| match requests {
            0 => Cell::absent("no such access"),
            requests => (total as f64 / requests as f64).into(),
        };
        let shared = ratio(
            counters.shared_load_wavefronts + counters.shared_store_wavefronts,
            counters.shared_load_requests + counters.shared_store_requests,
        );
        let row = table.row().set(VERSION, version.to_string()).set(INSTRUCTIONS, counters.warp_instructions);
        row.set(PER_LOAD, ratio(counters.global_load_sectors, counters.global_load_requests))
            .set(PER_STORE, ratio(counters.global_store_sectors, counters.global_store_requests))
            .set(PER_SHARED, shared)
            .complete();
    }
    Ok(Some(table.finish()))
}

/// The profiler's counts for one version, all its launches together.
fn profiled(entry: &Broken, version: Version) -> Result<Counters> {
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    entry.run(&device, version, entry.sizes[0])?;
    let mut counters = Counters::default();
    for profile in device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default() {
        counters += profile.counters;
    }
    Ok(counters)
}

/// The profiler's finding for a kernel that is right but slow: which of its accesses costs more than it should.
pub(crate) fn slow_in(entry: &Broken) -> Result<Option<&'static str>> {
    let counters = profiled(entry, Version::Broken)?;
    let sectors = counters.global_load_sectors + counters.global_store_sectors;
    let ideal = counters.global_load_sectors_ideal + counters.global_store_sectors_ideal;
    Ok(match counters {
        _ if counters.shared_load_conflicts + counters.shared_store_conflicts != 0 => Some("bank conflicts"),
        _ if sectors > 2 * ideal => Some("uncoalesced"),
        _ => None,
    })
}

/// One version of an entry, and the device it runs on.
struct Case<'a> {
    device: &'a Device,
    stream: Stream,
    version: Version,
    source: &'a KernelSource,
    /// [`Error::Findings`] so far.
    found: RefCell<Option<Error>>,
}

impl Case<'_> {
    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.device.kernel(self.source, name)
    }

    /// Launches one of the gallery's kernels with the arguments that `push` appends, which must match its file. Findings of the
    /// sanitiser are kept: the launch has run to its end, so there are values to compare.
    fn launch<'k>(
        &'k self,
        kernel: &'k Kernel,
        config: LaunchConfig,
        push: impl FnOnce(&mut LaunchArgs<'k>),
    ) -> Result<()> {
        let mut args = self.stream.launch_builder(kernel);
        push(&mut args);
        // SAFETY: the repaired kernels stay inside buffers of the sizes given here. Of the broken ones, only `scale` writes
        // outside, up to 12 bytes past y but not past the next multiple of 16, which is padding on every device. Reads of
        // others that are out of bounds, misaligned or too late cause a fault at worst, which is an outcome like any other.
        match unsafe { args.launch(config) } {
            Err(error @ Error::Findings { .. }) => self.keep(error),
            other => return other,
        }
        Ok(())
    }

    fn keep(&self, error: Error) {
        let mut found = self.found.borrow_mut();
        match (&mut *found, error) {
            (Some(Error::Findings { findings, rendered }), Error::Findings { findings: more, rendered: text }) => {
                findings.extend(more);
                rendered.push_str("\n\n");
                rendered.push_str(&text);
            }
            (found, error) => *found = Some(error),
        }
    }
}

/// Distinct values in (−1, 1).
fn values(n: usize, seed: u64) -> Result<Vec<f32>> {
    Tensor::random(&[n], seed).into_vec()
}

/// For sums of `terms` values in (−1, 1).
fn sum_tolerance(terms: usize) -> Tolerance {
    Tolerance::dot(terms, terms as f64)
}

fn sum(values: impl IntoIterator<Item = f32>) -> f64 {
    values.into_iter().map(f64::from).sum()
}

/// A matrix that is neither square nor a multiple of a tile.
fn columns_for(rows: usize) -> usize {
    rows / 2 + 3
}

fn difference(case: &Case, columns: usize) -> Result<Compared> {
    const ROWS: usize = 5;
    let x = values(ROWS * columns, 1)?;
    let kernel = case.kernel("difference")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let config = LaunchConfig { grid_dim: (ROWS as u32, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    case.launch(&kernel, config, |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(columns as u32));
    })?;
    // One subtraction: exactly the same bits.
    let left = |i: usize| if i.is_multiple_of(columns) { 0.0 } else { x[i - 1] };
    let expected: Vec<f32> = (0..x.len()).map(|i| x[i] - left(i)).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&y)?, &expected, Tolerance::exact()))
}

fn scale(case: &Case, n: usize) -> Result<Compared> {
    const FACTOR: f32 = 0.7;
    let x = values(n, 1)?;
    let kernel = case.kernel("scale")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(n)?;
    let config = LaunchConfig::for_threads(n.div_ceil(4) as u32);
    case.launch(&kernel, config, |args| {
        args.arg(&x_dev).arg(&mut y).arg(&FACTOR).arg(&(n as u32));
    })?;
    let expected: Vec<f32> = x.iter().map(|x| FACTOR * x).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&y)?, &expected, Tolerance::exact()))
}

fn column_sums(case: &Case, rows: usize) -> Result<Compared> {
    let columns = columns_for(rows);
    let matrix = values(rows * columns, 1)?;
    let kernel = case.kernel("column_sums")?;
    let matrix_dev = case.stream.clone_htod(&matrix)?;
    let mut sums = match case.version {
        // Uninitialised: poison would be a value, which a tool could not tell from an intended one.
        Version::Broken => case.stream.alloc_uninit::<f32>(columns)?,
        Version::Repaired => case.stream.alloc_poisoned::<f32>(columns)?,
    };
    case.launch(&kernel, LaunchConfig::for_threads(columns as u32), |args| {
        args.arg(&matrix_dev).arg(&mut sums).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let column = |column: usize| (0..rows).map(move |row| row * columns + column);
    let expected: Vec<f64> = (0..columns).map(|at| sum(column(at).map(|i| matrix[i]))).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&sums)?, &expected, sum_tolerance(rows)))
}

fn transpose(case: &Case, rows: usize) -> Result<Compared> {
    let columns = columns_for(rows);
    let x = values(rows * columns, 1)?;
    let kernel = case.kernel("transpose")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let tiles = |n: usize| n.div_ceil(32) as u32;
    let config =
        LaunchConfig { grid_dim: (tiles(columns), tiles(rows), 1), block_dim: (32, 32, 1), shared_mem_bytes: 0 };
    case.launch(&kernel, config, |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let expected: Vec<f32> = (0..x.len()).map(|i| x[i % rows * columns + i / rows]).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&y)?, &expected, Tolerance::exact()))
}

fn scale_rows(case: &Case, rows: usize) -> Result<Compared> {
    let columns = columns_for(rows);
    let (x, factors) = (values(rows * columns, 1)?, values(rows, 2)?);
    let kernel = case.kernel("scale_rows")?;
    let (x_dev, factors_dev) = (case.stream.clone_htod(&x)?, case.stream.clone_htod(&factors)?);
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let threads = match case.version {
        Version::Broken => rows,
        Version::Repaired => columns,
    };
    case.launch(&kernel, LaunchConfig::for_threads(threads as u32), |args| {
        args.arg(&x_dev).arg(&factors_dev).arg(&mut y).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let expected: Vec<f32> = (0..x.len()).map(|i| factors[i / columns] * x[i]).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&y)?, &expected, Tolerance::exact()))
}

fn block_sum(case: &Case, n: usize) -> Result<Compared> {
    sums_of_runs(case, "block_sum", n, 256)
}

fn warp_sum(case: &Case, n: usize) -> Result<Compared> {
    sums_of_runs(case, "warp_sum", n, 32)
}

/// A kernel in which each block adds up a run of `run` values, one per thread.
fn sums_of_runs(case: &Case, name: &str, n: usize, run: usize) -> Result<Compared> {
    let x = values(n, 1)?;
    let kernel = case.kernel(name)?;
    let config = LaunchConfig::linear(n as u32, run as u32);
    let x_dev = case.stream.clone_htod(&x)?;
    // Zero values still need one block, which returns the sum 0.
    let mut sums = case.stream.alloc_poisoned::<f32>(config.grid_dim.0 as usize)?;
    case.launch(&kernel, config, |args| {
        args.arg(&x_dev).arg(&mut sums).arg(&(n as u32));
    })?;
    let block = |i: usize| &x[(i * run).min(n)..((i + 1) * run).min(n)];
    let expected: Vec<f64> = (0..sums.len()).map(|i| sum(block(i).iter().copied())).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&sums)?, &expected, sum_tolerance(run)))
}

fn rank_of(case: &Case, n: usize) -> Result<Compared> {
    let x = values(n, 1)?;
    let kernel = case.kernel("rank_of")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut ranks = case.stream.alloc_poisoned::<u32>(n)?;
    case.launch(&kernel, LaunchConfig::linear(n as u32, 128), |args| {
        args.arg(&x_dev).arg(&mut ranks).arg(&(n as u32));
    })?;
    let mut sorted = x.clone();
    sorted.sort_by(f32::total_cmp);
    let expected: Vec<u32> = x.iter().map(|x| sorted.partition_point(|other| other < x) as u32).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&ranks)?, &expected, Tolerance::exact()))
}

fn ring_walk(case: &Case, n: usize) -> Result<Compared> {
    // With this step the product passes 2³¹ from i = 34 748 on.
    const STEP: i32 = 61_803;
    let x = values(n, 1)?;
    let kernel = case.kernel("ring_walk")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(n)?;
    case.launch(&kernel, LaunchConfig::for_threads(n as u32), |args| {
        args.arg(&x_dev).arg(&mut y).arg(&STEP).arg(&(n as i32));
    })?;
    let expected: Vec<f32> = (0..n as u64).map(|i| x[(i * STEP as u64 % n as u64) as usize]).collect();
    Ok(check::compare(&case.stream.clone_dtoh(&y)?, &expected, Tolerance::exact()))
}

fn frame(case: &Case, quads: usize) -> Result<Compared> {
    // 10 ms at 44.1 kHz.
    const START: usize = 441;
    let x = values(START + 4 * quads, 1)?;
    let kernel = case.kernel("frame")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(4 * quads)?;
    case.launch(&kernel, LaunchConfig::for_threads(quads as u32), |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(START as u32)).arg(&(quads as u32));
    })?;
    Ok(check::compare(&case.stream.clone_dtoh(&y)?, &x[START..], Tolerance::exact()))
}

fn add_rows(case: &Case, columns: usize) -> Result<Compared> {
    let rows = [1, 2, 3].map(|seed| Tensor::random(&[columns], seed));
    let sums = match case.version {
        Version::Broken => {
            // ANCHOR: freed
            let (table, _) = upload(case, &rows)?;
            add(case, &table, rows.len(), columns)?
            // ANCHOR_END: freed
        }
        Version::Repaired => {
            // ANCHOR: kept
            let (table, _rows) = upload(case, &rows)?;
            add(case, &table, rows.len(), columns)?
            // ANCHOR_END: kept
        }
    };
    let host = rows.iter().map(Tensor::as_slice).collect::<Result<Vec<_>>>()?;
    let expected: Vec<f64> = (0..columns).map(|column| sum(host.iter().map(|row| row[column]))).collect();
    Ok(check::compare(&sums, &expected, sum_tolerance(rows.len())))
}

// ANCHOR: upload
/// A buffer for each row, and the table of their addresses.
fn upload(case: &Case, rows: &[Tensor]) -> Result<(Buffer<u64>, Vec<Buffer<f32>>)> {
    let set_row = case.kernel("set_row")?;
    let mut table = case.stream.alloc_zeros::<u64>(rows.len())?;
    let mut buffers = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let buffer = case.stream.clone_htod(row.as_slice()?)?;
        case.launch(&set_row, LaunchConfig::linear(1, 1), |args| {
            args.arg(&mut table).arg(&(i as u32)).arg(&buffer);
        })?;
        buffers.push(buffer);
    }
    Ok((table, buffers))
}
// ANCHOR_END: upload

/// The sum of the rows that `table` points to.
fn add(case: &Case, table: &Buffer<u64>, rows: usize, columns: usize) -> Result<Vec<f32>> {
    let add_rows = case.kernel("add_rows")?;
    let mut sums = case.stream.alloc_poisoned::<f32>(columns)?;
    case.launch(&add_rows, LaunchConfig::for_threads(columns as u32), |args| {
        args.arg(table).arg(&mut sums).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    case.stream.clone_dtoh(&sums)
}

fn count_above(case: &Case, n: usize) -> Result<Compared> {
    const THRESHOLD: f32 = 0.25;
    let x = values(n, 1)?;
    let kernel = case.kernel("count_above")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut count = case.stream.alloc_zeros::<u32>(1)?;
    case.launch(&kernel, LaunchConfig::for_threads(n as u32), |args| {
        args.arg(&x_dev).arg(&THRESHOLD).arg(&mut count).arg(&(n as u32));
    })?;
    let expected = x.iter().filter(|&&x| x > THRESHOLD).count() as u32;
    Ok(check::compare(&case.stream.clone_dtoh(&count)?, &[expected], Tolerance::exact()))
}
