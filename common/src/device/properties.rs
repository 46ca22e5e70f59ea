//! Properties of a device, and a kernel's requirements.

/// Figures that launches and tables need. `None` if the device has no such thing: a simulator has no clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Marketing name.
    pub name: String,
    /// (major, minor): 9.0 for an H200. The simulator runs PTX itself and has none.
    pub compute_capability: Option<(u32, u32)>,
    /// Streaming multiprocessors (SMs).
    pub multiprocessors: Option<u32>,
    /// Bytes of device memory.
    pub total_memory: u64,
    /// Default maximum bytes of shared memory of a block.
    pub shared_per_block: u32,
    /// Maximum bytes of shared memory of a block; launches request more than `shared_per_block` themselves.
    pub shared_per_block_optin: u32,
    /// Maximum threads of a block.
    pub max_threads_per_block: u32,
    /// Maximum blocks of a grid in x, y, z.
    pub max_grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub max_block: [u32; 3],
    /// Lanes of a warp.
    pub warp_size: u32,
    /// 32-bit registers of an SM.
    pub registers_per_multiprocessor: Option<u32>,
    /// Maximum resident threads of an SM.
    pub max_threads_per_multiprocessor: Option<u32>,
    /// Bytes of L2 cache.
    pub l2_bytes: Option<u64>,
    /// Peak clock of the SMs in kHz.
    pub clock_khz: Option<u32>,
    /// Peak clock of the memory in kHz.
    pub memory_clock_khz: Option<u32>,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: Option<u32>,
}

impl Properties {
    /// Peak memory bandwidth in bytes/s: two transfers per clock over the width of the bus.
    pub fn memory_bandwidth(&self) -> Option<f64> {
        let clock = f64::from(self.memory_clock_khz?) * 1e3;
        let bytes = f64::from(self.memory_bus_bits?) / 8.0;
        Some(2.0 * clock * bytes)
    }
}

/// The resources that a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAttributes {
    /// Registers per thread; the simulator assigns none.
    pub registers: Option<u32>,
    /// Bytes of local memory per thread: spilled registers and arrays.
    pub local_bytes: Option<u32>,
    /// Bytes of shared memory per block declared in the source.
    pub static_shared: u32,
    /// Maximum threads of a block of this kernel, given its registers and `__launch_bounds__`.
    pub max_threads_per_block: u32,
}

/// Link between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether kernels of one reach the memory of the other.
    pub peer_access: bool,
    /// Whether atomics over the link are executed at the memory.
    pub native_atomics: bool,
    /// The driver's order of links, 0 for the fastest.
    pub rank: u32,
}
