//! The one kernel file under study in a process: the costs of its launches, and the rules they break.
//!
//! A server that lets a reader edit kernels runs each version in a process of its own, by the code that checks the course's own
//! kernel. That code is not involved: every simulator of such a process keeps its counts and findings in kernels of this file
//! here. A finding doesn't end the run then, so that the values are compared too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ptx_sim::{Counters, Fault, FaultKind, Observation, Trace, TraceRequest};

use super::kernel::Kernel;
use crate::compile::KernelSource;
use crate::error::{Error, Result};

/// Maximum warp instructions of a block that are recorded.
const MOST_STEPS: usize = 1500;
/// Number of launches of a kernel that are recorded; the first that executes the most instructions of the file is kept.
const RECORDED: u64 = 4;
/// Maximum findings of different kinds or lines that are kept.
const MOST_FINDINGS: usize = 50;

static SUBJECT: OnceLock<Subject> = OnceLock::new();

/// A kernel file or a header, in a process that runs nothing else.
pub struct Subject {
    file: String,
    host_memory: u64,
    is_alone: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Labels of the modules made from the file.
    modules: BTreeSet<String>,
    kernels: BTreeMap<String, Tally>,
    findings: Vec<Finding>,
    traces: BTreeMap<String, Trace>,
}

/// Costs of all launches of a kernel together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Number of launches.
    pub launches: u64,
    /// Counts of the profiler.
    pub counters: Counters,
}

/// A broken rule, at one line.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The first occurrence; its count is that of all launches.
    pub fault: Fault,
    /// The diagnostic.
    pub rendered: String,
}

impl Subject {
    /// Makes `file`, relative to the workspace and with `/`, the subject of this process. Its simulators may take `host_memory` bytes
    /// of the host for a launch. Until [`Subject::with_company`] other kernels are [`Error::Unsupported`], which ladders skip.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the process has a subject.
    pub fn begin(file: &str, host_memory: u64) -> Result<&'static Subject> {
        let subject =
            Subject { file: file.to_owned(), host_memory, is_alone: AtomicBool::new(true), seen: Mutex::default() };
        SUBJECT.set(subject).map_err(|_| Error::Invalid("this process has a subject".to_owned()))?;
        SUBJECT.get().ok_or_else(|| Error::Invalid("this process has no subject".to_owned()))
    }

    pub(super) fn current() -> Option<&'static Subject> {
        SUBJECT.get()
    }

    /// Lets other kernels run too, for a file that is only used beside them; forgets earlier observations.
    pub fn with_company(&self) {
        self.is_alone.store(false, Ordering::Relaxed);
        let mut seen = self.seen();
        seen.kernels.clear();
        seen.findings.clear();
        seen.traces.clear();
    }

    /// Launched kernels, by name.
    pub fn kernels(&self) -> BTreeMap<String, Tally> {
        self.seen().kernels.clone()
    }

    /// Broken rules, in order; faults that ended a launch are among them.
    pub fn findings(&self) -> Vec<Finding> {
        self.seen().findings.clone()
    }

    /// Traces by the kernel's name: the first block of one of the first launches.
    pub fn traces(&self) -> BTreeMap<String, Trace> {
        self.seen().traces.clone()
    }

    /// Trace to record of the next launch of a kernel.
    pub(super) fn wanted_trace(&self, kernel: &Kernel) -> Option<TraceRequest> {
        let launches = self.seen().kernels.get(kernel.name()).map_or(0, |tally| tally.launches);
        let source = kernel.source().map(str::to_owned);
        let request = || TraceRequest { max_steps: MOST_STEPS, registers: true, source, ..TraceRequest::default() };
        (launches < RECORDED).then(request)
    }

    pub(super) fn host_memory(&self) -> u64 {
        self.host_memory
    }

    /// Registers a module that is to be loaded, or refuses it.
    pub(super) fn admit(&self, source: &KernelSource, device: impl FnOnce() -> String) -> Result<()> {
        if source.is_made_from(&self.file)? {
            self.seen().modules.insert(source.label());
        } else if self.is_alone.load(Ordering::Relaxed) {
            return Err(Error::Unsupported {
                what: source.label(),
                device: device(),
                reason: format!("this run is about {}", self.file),
            });
        }
        Ok(())
    }

    /// Whether a kernel is made from the file.
    pub(super) fn has(&self, kernel: &Kernel) -> bool {
        self.seen().modules.contains(kernel.module_name())
    }

    /// Keeps a launch's costs and findings. Findings left in `observation` end the run: to launch such a kernel again would take as
    /// long again.
    pub(super) fn note(&self, kernel: &Kernel, observation: &mut Observation) {
        let mut seen = self.seen();
        let tally = seen.kernels.entry(kernel.name().to_owned()).or_default();
        tally.launches += 1;
        if let Some(profile) = &observation.profile {
            tally.counters += profile.counters;
        }
        if let Some(trace) = observation.trace.take() {
            let known = seen.traces.get(kernel.name()).map_or(0, |known| known.sites.len());
            if trace.sites.len() > known {
                seen.traces.insert(kernel.name().to_owned(), trace);
            }
        }
        observation.findings.iter().for_each(|fault| seen.find(kernel.source(), fault));
        observation.findings.retain(|fault| is_long(fault.kind));
    }

    /// Keeps the faults of a launch that one of them ended.
    pub(super) fn note_faults(&self, kernel: &Kernel, faults: &[Fault]) {
        let mut seen = self.seen();
        seen.kernels.entry(kernel.name().to_owned()).or_default().launches += 1;
        faults.iter().for_each(|fault| seen.find(kernel.source(), fault));
    }

    /// Keeps a finding of a host that reads what a kernel of `module` stored, if the module is made from the file.
    pub(super) fn note_read(&self, module: &str, source: Option<&str>, finding: &Fault) {
        let mut seen = self.seen();
        if seen.modules.contains(module) {
            seen.find(source, finding);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn find(&mut self, source: Option<&str>, fault: &Fault) {
        let place = |fault: &Fault| (fault.kind, fault.file.clone(), fault.line);
        let known = self.findings.iter().position(|known| place(&known.fault) == place(fault));
        if let Some(at) = known {
            self.findings[at].fault.count += fault.count;
        } else if self.findings.len() < MOST_FINDINGS {
            let rendered = fault.render(source, false);
            self.findings.push(Finding { fault: fault.clone(), rendered });
        }
    }
}

/// Whether a launch that breaks this rule takes as long as it is allowed to.
fn is_long(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Budget | FaultKind::TimeLimit | FaultKind::MemoryLimit | FaultKind::Deadlock)
}
