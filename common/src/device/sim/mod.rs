//! The simulator: its memory, copies, fills, launches and graphs.

mod device;
mod host;
mod launch;
mod memory;
mod options;
mod queue;

pub use device::SimDevice;
pub(crate) use memory::{Function, Memory, Module, Pinned};
pub use options::{Counts, SimOptions};
pub(crate) use queue::{Graph, GraphExec, Mark, Queue};
