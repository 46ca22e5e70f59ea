//! An NVIDIA GPU: its memory, copies, fills, launches and graphs, by cudarc, and the few driver calls that its safe layer leaves out.

mod device;
mod driver;
mod event;
mod graph;
mod memory;
mod module;
mod queue;
mod tensor_map;

pub use device::CudaDevice;
pub(crate) use event::{Mark, elapsed_ms, wait_for};
pub(crate) use graph::{Graph, GraphExec};
pub(crate) use memory::{Memory, Pinned};
pub(crate) use module::{Function, Module};
pub(crate) use queue::Queue;
