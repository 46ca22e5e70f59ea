//! **Hypothesis.** One meeting is enough if the values wait in memory that the next sum leaves alone: then a rank does not have to hear
//! that the others have read them. And the sum can take the place of the values.
//!
//! **Change.** Two staging buffers per device, used in turns; the kernel counts its own launches.
//!
//! **Floor.** (N − 1)·n bytes come into each device, and n are copied inside of it; one flag's way over the link.

use common::prelude::*;

use super::staged::{Protocol, Staged};
use super::{Method, Step, VECTOR};

/// `kernels/all_reduce_07_resident.cu`.
pub const SOURCE: KernelSource = kernel_source!("all_reduce_07_resident");

/// Two halves of vectors, read by the others after a meeting.
pub const PROTOCOL: Protocol =
    Protocol { kernel: "resident", unit: VECTOR, unit_sent: VECTOR, staged_units: |_| 2, meets: true };

/// The step.
pub const STEP: Step = Step {
    number: 7,
    name: "resident",
    idea: "one meeting, by two staging buffers in turns",
    source: SOURCE,
    method: Method(|source, group, most| Ok(Box::new(Staged::new(group, most * size_of::<f32>(), source, PROTOCOL)?))),
};
