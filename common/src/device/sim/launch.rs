//! A launch whose arguments are settled, and what is known after it.

use std::ops::Range;
use std::sync::Arc;

use super::super::kernel::Kernel;
use super::super::order::{How, Touch};
use super::super::subject::Subject;
use super::memory::Function;
use crate::error::{Error, Result};

/// A launch with its arguments' addresses.
pub(super) struct Launch {
    pub(super) kernel: Kernel,
    pub(super) function: Function,
    pub(super) config: ptx_sim::LaunchConfig,
    pub(super) args: Vec<ptx_sim::Arg>,
}

/// The subject of this process, if the kernel is made from it.
pub(super) fn subject_of(kernel: &Kernel) -> Option<&'static Subject> {
    Subject::current().filter(|subject| subject.has(kernel))
}

/// Returns the observations, kept for the subject if there is one.
pub(super) fn noted(
    kernel: &Kernel,
    subject: Option<&Subject>,
    mut observed: Result<ptx_sim::Observation, ptx_sim::LaunchError>,
) -> Result<ptx_sim::Observation, ptx_sim::LaunchError> {
    if let Some(subject) = subject {
        match &mut observed {
            Ok(observation) => subject.note(kernel, observation),
            Err(ptx_sim::LaunchError::Fault(fault)) => subject.note_faults(kernel, std::slice::from_ref(&**fault)),
            Err(ptx_sim::LaunchError::Findings(findings)) => subject.note_faults(kernel, findings),
            Err(_) => {}
        }
    }
    observed
}

/// Memory that a kernel accessed.
pub(super) fn touches_of(memory: ptx_sim::TouchedMemory) -> Vec<Touch> {
    let ptx_sim::TouchedMemory { pointer, label, read, written, atomic } = memory;
    let label: Arc<str> = label.into();
    let of = |how: How, ranges: Vec<Range<u64>>| {
        let label = label.clone();
        ranges.into_iter().map(move |bytes| Touch { base: pointer.0, label: label.clone(), how, bytes })
    };
    of(How::Read, read).chain(of(How::Write, written)).chain(of(How::Atomic, atomic)).collect()
}

/// Findings of the launcher, as types of this crate.
pub(super) fn launch_error(kernel: &Kernel, error: ptx_sim::LaunchError) -> Error {
    let (name, source) = (kernel.name().to_owned(), kernel.source());
    match error {
        ptx_sim::LaunchError::Fault(fault) => Error::Fault { rendered: fault.render(source, false), fault },
        ptx_sim::LaunchError::Findings(findings) => {
            let rendered: Vec<_> = findings.iter().map(|finding| finding.render(source, false)).collect();
            Error::Findings { rendered: rendered.join("\n\n"), findings }
        }
        ptx_sim::LaunchError::Arguments { .. } => Error::Arguments { kernel: name, detail: error.to_string() },
        other => Error::LaunchConfig { kernel: name, detail: other.to_string() },
    }
}
