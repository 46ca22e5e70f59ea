//! A wait for memory: an access that finds nothing new.

use super::warp::Frame;

/// A strong load, an atomic that changes nothing, or a `tcgen05.alloc` that gets none, in a warp that does nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poll {
    pub(crate) pc: usize,
    pub(crate) frame: Frame,
    /// The first lane, and the address as the instruction has it.
    pub(crate) lane: usize,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Offset in the block's own shared memory, which no other cluster can write; `None`: it is elsewhere.
    pub(crate) shared: Option<u64>,
}
