//! State spaces, and the start of each among the generic addresses.

/// A state space that memory instructions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemSpace {
    Generic,
    /// Global and const: both are allocations of the device.
    Global,
    /// The block's own.
    Shared,
    /// The shared memory of all blocks of the cluster, whose addresses [`CLUSTER_RANK`] describes.
    Cluster,
    Local,
    /// A kernel's parameters.
    Param,
}

/// Start of the generic addresses of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;

/// Start of the generic addresses of a thread's local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;

/// Start of the generic addresses of a kernel's parameters.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;

/// Start of the addresses of functions.
pub(crate) const FUNCTION_WINDOW: u64 = 0x0400_0000_0000;

/// Distance between the addresses of functions: more than one, so that an offset to a function is not the next function.
pub(crate) const FUNCTION_BYTES: u64 = 1 << 16;

/// Shared memory of a cluster: from this bit on an address in the shared window, or a 32-bit one, says which block's it is
/// (see `exec::state::cluster`).
pub(crate) const CLUSTER_RANK: u32 = 24;

/// Bytes of each window.
pub(crate) const WINDOW: u64 = 0x0100_0000_0000;

pub(crate) fn window(space: MemSpace) -> u64 {
    match space {
        MemSpace::Shared | MemSpace::Cluster => SHARED_WINDOW,
        MemSpace::Local => LOCAL_WINDOW,
        MemSpace::Param => PARAM_WINDOW,
        MemSpace::Generic | MemSpace::Global => 0,
    }
}
