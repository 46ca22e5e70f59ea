//! Functions that programs look for when they start, and that the simulator does not have: each says `CUDA_ERROR_NOT_SUPPORTED`.

use std::ffi::c_int;

use crate::abi::Code;
use crate::api::Address;

macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                Code::NOT_SUPPORTED.0
            }
        )*

        /// The functions of this chapter, by name.
        pub(crate) const FUNCTIONS: &[(&str, Address)] = &[$((stringify!($name), Address($name as *const ()))),*];
    };
}

unsupported! {
    cuArray3DCreate_v2
    cuArrayCreate_v2
    cuArrayDestroy
    cuDestroyExternalMemory
    cuDeviceGetByPCIBusId
    cuExternalMemoryGetMappedBuffer
    cuImportExternalMemory
    cuIpcCloseMemHandle
    cuIpcGetEventHandle
    cuIpcGetMemHandle
    cuIpcOpenEventHandle
    cuIpcOpenMemHandle_v2
    cuMemAdvise_v2
    cuMemAllocManaged
    cuMemHostGetDevicePointer_v2
    cuMemPoolCreate
    cuMemPoolDestroy
    cuMemPoolGetAttribute
    cuMemPrefetchAsync_v2
    cuSurfObjectCreate
    cuSurfObjectDestroy
    cuTexObjectCreate
    cuTexObjectDestroy
}
