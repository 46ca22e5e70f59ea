//! Numbers and structures of `cuda.h`, as far as they are used here.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A `CUresult` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// Texts about a result code.
#[derive(Clone, Copy)]
pub(crate) struct Description {
    /// Name in `cuda.h`.
    pub(crate) name: &'static CStr,
    /// Name in the runtime API.
    pub(crate) runtime: &'static CStr,
    pub(crate) text: &'static CStr,
}

/// Joins literals to a C string.
macro_rules! ended {
    ($($part:expr),*) => {
        match CStr::from_bytes_with_nul(concat!($($part,)* "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        }
    };
}

/// Declares result codes with their names, those in the runtime API without `cudaError`, and the driver's sentences.
macro_rules! codes {
    ($($name:ident = $value:literal, $runtime:literal, $text:literal;)*) => {
        impl Code {
            // Programs may ask for the name of any.
            $(#[allow(dead_code)] pub(crate) const $name: Code = Code($value);)*

            pub(crate) fn describe(self) -> Option<Description> {
                match self.0 {
                    0 => Some(Description { name: c"CUDA_SUCCESS", runtime: c"cudaSuccess", text: c"no error" }),
                    $($value => Some(Description {
                        name: ended!("CUDA_ERROR_", stringify!($name)),
                        runtime: ended!("cudaError", $runtime),
                        text: ended!($text),
                    }),)*
                    _ => None,
                }
            }
        }
    };
}
codes! {
    INVALID_VALUE = 1, "InvalidValue", "invalid argument";
    OUT_OF_MEMORY = 2, "MemoryAllocation", "out of memory";
    NOT_INITIALIZED = 3, "InitializationError", "initialization error";
    DEINITIALIZED = 4, "CudartUnloading", "driver shutting down";
    NO_DEVICE = 100, "NoDevice", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "InvalidDevice", "invalid device ordinal";
    INVALID_CONTEXT = 201, "DeviceUninitialized", "invalid device context";
    NO_BINARY_FOR_GPU = 209, "NoKernelImageForDevice", "no kernel image is available for execution on the device";
    INVALID_PTX = 218, "InvalidPtx", "a PTX JIT compilation failed";
    FILE_NOT_FOUND = 301, "FileNotFound", "file not found";
    OPERATING_SYSTEM = 304, "OperatingSystem", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "InvalidResourceHandle", "invalid resource handle";
    ILLEGAL_STATE = 401, "IllegalState", "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "SymbolNotFound", "named symbol not found";
    NOT_READY = 600, "NotReady", "device not ready";
    ILLEGAL_ADDRESS = 700, "IllegalAddress", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "LaunchOutOfResources", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "LaunchTimeout", "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, "PeerAccessAlreadyEnabled", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "PeerAccessNotEnabled", "peer access has not been enabled";
    ASSERT = 710, "Assert", "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "HostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "HostMemoryNotRegistered", "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "HardwareStackError", "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "IllegalInstruction", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "MisalignedAddress", "misaligned address";
    LAUNCH_FAILED = 719, "LaunchFailure", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "CooperativeLaunchTooLarge", "too many blocks in cooperative launch";
    NOT_SUPPORTED = 801, "NotSupported", "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "StreamCaptureUnsupported", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "StreamCaptureInvalidated", "operation failed due to a previous error during capture";
    CAPTURED_EVENT = 907, "CapturedEvent", "operation not permitted on an event last recorded in a capturing stream";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "GraphExecUpdateFailure", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    INVALID_CLUSTER_SIZE = 912, "InvalidClusterSize", "cluster misconfiguration";
    UNKNOWN = 999, "Unknown", "unknown error";
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
pub(crate) const BUILT_IN_STREAMS: [Handle; 3] = [0, 1, PER_THREAD_STREAM];
pub(crate) const PER_THREAD_STREAM: Handle = 2;

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

/// `CUDA_KERNEL_NODE_PARAMS`, in its second version: the first, which is that of functions without `_v2`, ends before `kernel`.
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
#[derive(Clone, Copy, Debug)]
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

// SAFETY: the program promises, by the API's contract, that memory of the host is valid until the copy is done.
unsafe impl Send for CopySide {}
// SAFETY: as above.
unsafe impl Sync for CopySide {}

/// One side of a `CUDA_MEMCPY2D`.
#[repr(C)]
pub(crate) struct Side2d {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: *mut c_void,
    pub(crate) device: Pointer,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub(crate) struct Copy2d {
    pub(crate) from: Side2d,
    pub(crate) to: Side2d,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy3d {
    pub(crate) from: CopySide,
    pub(crate) to: CopySide,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `CUmemcpy3DOperand`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyOperand {
    pub(crate) kind: u32,
    /// An address, or the handle of an array.
    pub(crate) place: u64,
    /// Elements of a row and rows of a layer, 0 for as many as are copied; or coordinates in the array.
    pub(crate) shape: [usize; 3],
}

impl CopyOperand {
    pub(crate) const POINTER: u32 = 1;
    pub(crate) const ARRAY: u32 = 2;
}

/// `CUDA_MEMCPY3D_BATCH_OP`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchedCopy {
    pub(crate) from: CopyOperand,
    pub(crate) to: CopyOperand,
    /// In elements.
    pub(crate) extent: [usize; 3],
    pub(crate) source_order: u32,
    pub(crate) flags: u32,
}

/// `CUmemorytype`.
pub(crate) mod memory_type {
    pub(crate) const HOST: u32 = 1;
    pub(crate) const DEVICE: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
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
    pub(crate) const CAN_MAP_HOST_MEMORY: i32 = 19;
    pub(crate) const CONCURRENT_KERNELS: i32 = 31;
    pub(crate) const PCI_BUS_ID: i32 = 33;
    pub(crate) const PCI_DEVICE_ID: i32 = 34;
    pub(crate) const MEMORY_CLOCK_RATE: i32 = 36;
    pub(crate) const GLOBAL_MEMORY_BUS_WIDTH: i32 = 37;
    pub(crate) const L2_CACHE_SIZE: i32 = 38;
    pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: i32 = 39;
    pub(crate) const ASYNC_ENGINE_COUNT: i32 = 40;
    pub(crate) const UNIFIED_ADDRESSING: i32 = 41;
    pub(crate) const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub(crate) const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub(crate) const STREAM_PRIORITIES_SUPPORTED: i32 = 78;
    pub(crate) const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: i32 = 81;
    pub(crate) const MAX_REGISTERS_PER_MULTIPROCESSOR: i32 = 82;
    pub(crate) const MANAGED_MEMORY: i32 = 83;
    pub(crate) const CONCURRENT_MANAGED_ACCESS: i32 = 89;
    pub(crate) const CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: i32 = 91;
    pub(crate) const COOPERATIVE_LAUNCH: i32 = 95;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;
    pub(crate) const HOST_REGISTER_SUPPORTED: i32 = 99;
    pub(crate) const VIRTUAL_MEMORY_MANAGEMENT: i32 = 102;
    pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: i32 = 106;
    pub(crate) const RESERVED_SHARED_MEMORY_PER_BLOCK: i32 = 111;
    pub(crate) const MEMORY_POOLS_SUPPORTED: i32 = 115;
    pub(crate) const CLUSTER_LAUNCH: i32 = 120;
    /// Attributes that `cuda.h` of CUDA 13 names end before.
    pub(crate) const END: i32 = 148;
}

/// `CUfunction_attribute`.
pub(crate) mod function_attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 0;
    pub(crate) const SHARED_SIZE: i32 = 1;
    pub(crate) const CONST_SIZE: i32 = 2;
    pub(crate) const LOCAL_SIZE: i32 = 3;
    pub(crate) const REGISTERS: i32 = 4;
    pub(crate) const PTX_VERSION: i32 = 5;
    pub(crate) const BINARY_VERSION: i32 = 6;
    pub(crate) const MAX_DYNAMIC_SHARED_SIZE: i32 = 8;
    pub(crate) const PREFERRED_CARVEOUT: i32 = 9;
    pub(crate) const REQUIRED_CLUSTER_WIDTH: i32 = 11;
    pub(crate) const REQUIRED_CLUSTER_DEPTH: i32 = 13;
    pub(crate) const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: i32 = 14;
    /// Attributes that `cuda.h` of CUDA 13 names end before.
    pub(crate) const END: i32 = 16;
}

/// `CUjit_option`.
pub(crate) mod jit_option {
    pub(crate) const MAX_REGISTERS: i32 = 0;
    pub(crate) const INFO_LOG: i32 = 3;
    pub(crate) const INFO_LOG_BYTES: i32 = 4;
    pub(crate) const ERROR_LOG: i32 = 5;
    pub(crate) const ERROR_LOG_BYTES: i32 = 6;
}

// Layouts that clients rely on, by `cuda.h` on a 64-bit machine.
const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);
const _: () = assert!(size_of::<KernelNode>() == 72 && size_of::<MemsetNode>() == 40);
const _: () = assert!(size_of::<CopySide>() == 88 && size_of::<Copy3d>() == 200 && size_of::<Copy2d>() == 128);
