//! State spaces, and where each begins among the generic addresses.

/// A state space that memory instructions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemSpace {
    Generic,
    /// Global and const: both are allocations of the device.
    Global,
    Shared,
    Local,
    /// A kernel's parameters.
    Param,
}

/// Where generic addresses of shared memory begin.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;

/// Where generic addresses of a thread's local memory begin.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;

/// Where generic addresses of a kernel's parameters begin.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;

/// Where the addresses of functions begin.
pub(crate) const FUNCTION_WINDOW: u64 = 0x0400_0000_0000;

/// Addresses from one function to the next: more than one, so that an offset to a function is not the function after it.
pub(crate) const FUNCTION_BYTES: u64 = 1 << 16;

/// Bytes of each window.
pub(crate) const WINDOW: u64 = 0x0100_0000_0000;

pub(crate) fn window(space: MemSpace) -> u64 {
    match space {
        MemSpace::Shared => SHARED_WINDOW,
        MemSpace::Local => LOCAL_WINDOW,
        MemSpace::Param => PARAM_WINDOW,
        MemSpace::Generic | MemSpace::Global => 0,
    }
}
