//! Functions that programs look for when they start, and that the simulator does not have: each says `CUDA_ERROR_NOT_SUPPORTED`.

crate::api::unsupported! {
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
    cuSurfObjectCreate
    cuSurfObjectDestroy
    cuTexObjectCreate
    cuTexObjectDestroy
}
