//! The driver's functions, and its errors in our own words.

use cudarc::driver::sys;
use cudarc::driver::{CudaContext, DriverError};

use crate::error::Error;

/// Functions of the driver that cudarc calls for us. It panics if one is missing, so they are looked for first.
pub(super) const FUNCTIONS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Driver functions for graphs; a driver without them does everything else.
pub(super) const GRAPH_FUNCTIONS: &[&str] = &[
    "cuGraphAddDependencies_v2",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecUpdate_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphNodeGetType",
];

/// Driver functions for several GPUs that reach each other's memory.
pub(super) const PEER_FUNCTIONS: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetP2PAttribute",
    "cuMemPoolSetAccess",
    "cuMemcpyPeerAsync",
];

/// The first of these functions that is missing in the driver.
pub(super) fn missing_function(names: &[&'static str]) -> Option<&'static str> {
    // SAFETY: only opens the driver's library, which whoever asks has seen to be there.
    let driver = unsafe { sys::culib() };
    // SAFETY: only asks whether there is such a symbol; nothing is called.
    let missing = |name: &&str| unsafe { driver.get::<unsafe extern "C" fn()>(name.as_bytes()).is_err() };
    names.iter().copied().find(missing)
}

/// A driver error in our own words.
pub(super) fn error(operation: &str, context: &CudaContext, error: DriverError) -> Error {
    Error::Cuda {
        operation: operation.to_owned(),
        device: format!("cuda:{}", context.ordinal()),
        code: Some(error.0 as u32),
        message: describe(error),
    }
}

/// `CUDA_ERROR_INVALID_VALUE (invalid argument)`; for a kernel's error, also a way to locate it.
pub(super) fn describe(error: DriverError) -> String {
    use sys::CUresult::*;
    let name = format!("{:?}", error.0);
    let text = match error.error_string().ok().and_then(|text| text.to_str().ok()) {
        Some(text) => format!("{name} ({text})"),
        None => name,
    };
    match error.0 {
        CUDA_ERROR_ILLEGAL_ADDRESS
        | CUDA_ERROR_MISALIGNED_ADDRESS
        | CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUDA_ERROR_ASSERT
        | CUDA_ERROR_LAUNCH_FAILED => {
            format!(
                "{text}: a kernel went wrong, and the GPU does not say where; run it on the simulator (--device sim), which does"
            )
        }
        _ => text,
    }
}
