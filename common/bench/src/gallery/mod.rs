//! A gallery of broken kernels: each with one bug, its repaired version, and a function that launches either and compares the
//! result with a reference.
//!
//! A phase declares the list, a [`Gallery`], and the run functions. This module runs them, on the simulator with its sanitiser
//! ([`simulator`]); [`compare`](mod@compare) finds the tools that find each bug, [`orders`](mod@orders) the effects that show
//! without a tool; [`command`] is the subcommand that shows it all.
//!
//! On a GPU many broken versions give the right result, at least the first time. Others destroy the CUDA context or never end,
//! so a process should run only one of them.

pub mod command;
pub mod compare;
pub mod orders;
pub mod testing;

use std::cell::RefCell;
use std::fmt;

use ptx_sim::Counters;

use crate::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::check::{Mismatch, Report};
use common::device::{LaunchArgs, SimOptions};
use common::prelude::*;

/// Broken kernels, in the order in which they are shown.
pub struct Gallery {
    /// The subcommand that shows it, which is also the first word of its kernels' file names and its table in a record: `broken`.
    pub command: &'static str,
    /// The title of its list: `twelve broken kernels`.
    pub title: &'static str,
    /// The kernels.
    pub entries: &'static [Broken],
}

/// Names a gallery on the command line: [`command::GalleryArgs`].
pub trait Shown: 'static {
    /// The gallery.
    const GALLERY: &'static Gallery;
}

impl Gallery {
    /// The entry with this number or name: `07`, `7` or `warp-sum`.
    pub fn find(&self, wanted: &str) -> Option<&'static Broken> {
        self.entries.iter().find(|entry| entry.keys().contains(&wanted))
    }

    /// The gallery as a table, without naming the bugs.
    pub fn list(&self) -> Table {
        const NUMBER: ColumnSpec = ColumnSpec::text("number", "number");
        const NAME: ColumnSpec = ColumnSpec::text("name", "name");
        const QUESTION: ColumnSpec = ColumnSpec::text("question", "question");
        let mut table = TableBuilder::of(self.title, [NUMBER, NAME, QUESTION]);
        for entry in self.entries {
            table.row().set(NUMBER, entry.number).set(NAME, entry.name).set(QUESTION, entry.question).complete();
        }
        table.note("Run one by its number; --repaired runs it without the bug.");
        table.finish()
    }
}

/// A kernel with a bug, and its repaired version.
pub struct Broken {
    /// Number in the gallery and in the file names: `07`.
    pub number: &'static str,
    /// Computation in one or two words.
    pub name: &'static str,
    /// The bug in a few words: not to be shown before the reader has looked for it.
    pub title: &'static str,
    /// A hint where to look.
    pub question: &'static str,
    /// True if the result is right but slow to compute, so that counts tell the versions apart and values don't.
    pub slow: bool,
    /// Sizes to run it at, in the unit of its function. The bug shows at the first.
    pub sizes: &'static [usize],
    /// The file with the bug.
    pub broken: KernelSource,
    /// The file without it; the same file if the bug is on the host.
    pub repaired: KernelSource,
    /// Launches a version at a size and compares its result with a reference.
    pub run: fn(&Case, usize) -> Result<Compared>,
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
        /// Values in memory after the launch. Threads stopped by a finding, at a mismatched barrier for instance, left nothing.
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

    /// Launches one version on `device` and compares its result with a reference; `size` is one of [`Broken::sizes`].
    ///
    /// # Errors
    /// Errors that prevent the launch, such as [`Error::CompilerMissing`]. An error inside the kernel is an outcome.
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

    /// Returns the output of the command for one version at the first size: the simulator's diagnostics if there are any,
    /// then one line with the verdict; for an entry that is [slow](Broken::slow), also the simulator's counts.
    ///
    /// # Errors
    /// Same as [`Broken::run`].
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

    /// The names that [`Gallery::find`] accepts.
    pub fn keys(&self) -> [&'static str; 3] {
        [self.name, self.number, self.number.trim_start_matches('0')]
    }
}

/// The counts of `device` for each version at the first size; `None` if it does not count. For the entries that are
/// [slow](Broken::slow), whose broken version can run to its end.
///
/// # Errors
/// Same as [`Broken::run`].
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
    let mut table = TableBuilder::on(device, entry.name, &columns);
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
fn slow_in(entry: &Broken) -> Result<Option<&'static str>> {
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
pub struct Case<'a> {
    /// The device.
    pub device: &'a Device,
    /// The stream for copies and launches.
    pub stream: Stream,
    /// The version to launch.
    pub version: Version,
    source: &'a KernelSource,
    /// [`Error::Findings`] so far.
    found: RefCell<Option<Error>>,
}

impl Case<'_> {
    /// The kernel of this name in the version's file.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        self.device.kernel(self.source, name)
    }

    /// Launches a kernel with the arguments that `push` appends. Findings of the sanitiser are kept: the launch has run to its
    /// end, so there are values to compare.
    ///
    /// # Errors
    /// Errors of the launch other than findings.
    ///
    /// # Safety
    /// Same as [`LaunchArgs::launch`], as far as a kernel with a bug allows: it must not write to memory that is in use.
    pub unsafe fn launch<'k>(
        &'k self,
        kernel: &'k Kernel,
        config: LaunchConfig,
        push: impl FnOnce(&mut LaunchArgs<'k>),
    ) -> Result<()> {
        let mut args = self.stream.launch_builder(kernel);
        push(&mut args);
        // SAFETY: promised by the caller.
        match unsafe { args.launch(config) } {
            Err(error @ Error::Findings { .. }) => self.keep(error),
            other => return other,
        }
        Ok(())
    }

    /// Copies a buffer to the host. Undefined values in it are findings, which are kept.
    ///
    /// # Errors
    /// Same as [`Stream::clone_dtoh`].
    pub fn read<T: DeviceElement>(&self, buffer: &impl DeviceSlice<T>) -> Result<Vec<T>> {
        match self.stream.clone_dtoh(buffer) {
            Err(error @ Error::Findings { .. }) => {
                self.keep(error);
                self.stream.clone_dtoh(buffer) // reported once
            }
            other => other,
        }
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
