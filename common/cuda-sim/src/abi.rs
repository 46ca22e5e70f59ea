//! Numbers and structures of `cuda.h`, as far as they are used here.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A `CUresult` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// Declares result codes with their names and the driver's sentences.
macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            // Programs may ask for the name of any.
            $(#[allow(dead_code)] pub(crate) const $name: Code = Code($value);)*

            /// Name in `cuda.h`, and what the driver says of it; both end in a zero byte.
            pub(crate) fn describe(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    0 => Some(("CUDA_SUCCESS\0", "no error\0")),
                    $($value => Some((concat!("CUDA_ERROR_", stringify!($name), "\0"), concat!($text, "\0"))),)*
                    _ => None,
                }
            }
        }
    };
}
codes! {
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_CONTEXT = 201, "invalid device context";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    INVALID_PTX = 218, "a PTX JIT compilation failed";
    FILE_NOT_FOUND = 301, "file not found";
    INVALID_HANDLE = 400, "invalid resource handle";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    ASSERT = 710, "device-side assert triggered";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    UNKNOWN = 999, "unknown error";
}

/// Result of a function of the API.
pub(crate) type Outcome<T = ()> = Result<T, Code>;

/// `CUdeviceptr`.
pub(crate) type Pointer = u64;
/// `CUdevice`: the ordinal.
pub(crate) type DeviceId = c_int;
/// Any handle: `CUcontext`, `CUmodule`, `CUstream` …
pub(crate) type Handle = usize;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
pub(crate) const BUILT_IN_STREAMS: [Handle; 3] = [0, 1, 2];

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) count: c_uint,
}

/// `CUlaunchAttribute`.
#[repr(C)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_int,
    pub(crate) pad: [c_char; 4],
    pub(crate) value: [u32; 16],
}

/// Identifiers of [`LaunchAttribute`] that change what a launch computes.
pub(crate) mod launch_attribute {
    pub(crate) const COOPERATIVE: i32 = 2;
    pub(crate) const CLUSTER_DIMENSION: i32 = 4;
}

/// Keys of the `extra` argument of launches.
pub(crate) mod extra {
    pub(crate) const END: usize = 0;
    pub(crate) const BUFFER: usize = 1;
    pub(crate) const BUFFER_SIZE: usize = 2;
}

/// `CUDA_KERNEL_NODE_PARAMS` (the second version).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode {
    pub(crate) function: Handle,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) params: *const *const c_void,
    pub(crate) extra: *const *const c_void,
    pub(crate) kernel: Handle,
    pub(crate) context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemsetNode {
    pub(crate) target: Pointer,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element_bytes: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One side of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CopySide {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) lod: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: *mut c_void,
    pub(crate) device: Pointer,
    pub(crate) array: Handle,
    pub(crate) reserved: *mut c_void,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3d {
    pub(crate) from: CopySide,
    pub(crate) to: CopySide,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `CUmemorytype`.
pub(crate) mod memory_type {
    pub(crate) const HOST: u32 = 1;
    pub(crate) const DEVICE: u32 = 2;
    pub(crate) const UNIFIED: u32 = 4;
}

/// `CUdevice_attribute`.
pub(crate) mod device_attribute {
    #![allow(dead_code)]
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub(crate) const MAX_BLOCK_DIM_X: i32 = 2;
    pub(crate) const MAX_BLOCK_DIM_Y: i32 = 3;
    pub(crate) const MAX_BLOCK_DIM_Z: i32 = 4;
    pub(crate) const MAX_GRID_DIM_X: i32 = 5;
    pub(crate) const MAX_GRID_DIM_Y: i32 = 6;
    pub(crate) const MAX_GRID_DIM_Z: i32 = 7;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK: i32 = 8;
    pub(crate) const TOTAL_CONSTANT_MEMORY: i32 = 9;
    pub(crate) const WARP_SIZE: i32 = 10;
    pub(crate) const MAX_PITCH: i32 = 11;
    pub(crate) const MAX_REGISTERS_PER_BLOCK: i32 = 12;
    pub(crate) const CLOCK_RATE: i32 = 13;
    pub(crate) const TEXTURE_ALIGNMENT: i32 = 14;
    pub(crate) const MULTIPROCESSOR_COUNT: i32 = 16;
    pub(crate) const CONCURRENT_KERNELS: i32 = 31;
    pub(crate) const PCI_BUS_ID: i32 = 33;
    pub(crate) const PCI_DEVICE_ID: i32 = 34;
    pub(crate) const MEMORY_CLOCK_RATE: i32 = 36;
    pub(crate) const GLOBAL_MEMORY_BUS_WIDTH: i32 = 37;
    pub(crate) const L2_CACHE_SIZE: i32 = 38;
    pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: i32 = 39;
    pub(crate) const UNIFIED_ADDRESSING: i32 = 41;
    pub(crate) const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub(crate) const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub(crate) const STREAM_PRIORITIES_SUPPORTED: i32 = 78;
    pub(crate) const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: i32 = 81;
    pub(crate) const MAX_REGISTERS_PER_MULTIPROCESSOR: i32 = 82;
    pub(crate) const COOPERATIVE_LAUNCH: i32 = 95;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;
    pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: i32 = 106;
    pub(crate) const RESERVED_SHARED_MEMORY_PER_BLOCK: i32 = 111;
    pub(crate) const MEMORY_POOLS_SUPPORTED: i32 = 115;
    pub(crate) const CLUSTER_LAUNCH: i32 = 120;
    /// Attributes that `cuda.h` of CUDA 13 names end before.
    pub(crate) const END: i32 = 146;
}

/// `CUfunction_attribute`.
pub(crate) mod function_attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 0;
    pub(crate) const SHARED_SIZE: i32 = 1;
    pub(crate) const PTX_VERSION: i32 = 5;
    pub(crate) const BINARY_VERSION: i32 = 6;
    pub(crate) const MAX_DYNAMIC_SHARED_SIZE: i32 = 8;
    pub(crate) const PREFERRED_CARVEOUT: i32 = 9;
    /// Attributes that `cuda.h` of CUDA 13 names end before.
    pub(crate) const END: i32 = 16;
}

/// `CUjit_option`.
pub(crate) mod jit_option {
    pub(crate) const ERROR_LOG: i32 = 5;
    pub(crate) const ERROR_LOG_BYTES: i32 = 6;
}

// Layouts that clients rely on, by `cuda.h` on a 64-bit machine.
const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);
const _: () = assert!(size_of::<KernelNode>() == 72 && size_of::<MemsetNode>() == 40);
const _: () = assert!(size_of::<CopySide>() == 88 && size_of::<Copy3d>() == 200);
