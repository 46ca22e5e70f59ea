//! Functions that programs look for when they start, as PyCUDA does for those of CUDA 3, and that the simulator does not have: each
//! says `CUDA_ERROR_NOT_SUPPORTED`.

crate::api::unsupported! {
    cuCtxAttach
    cuDestroyExternalMemory
    cuDeviceGetByPCIBusId
    cuExternalMemoryGetMappedBuffer
    cuImportExternalMemory
    cuIpcCloseMemHandle
    cuIpcGetEventHandle
    cuIpcGetMemHandle
    cuIpcOpenEventHandle
    cuIpcOpenMemHandle_v2
    cuMemcpy3DPeer
    cuMemcpy3DPeerAsync
    cuModuleGetSurfRef
    cuModuleGetTexRef
    cuParamSetTexRef
    cuProfilerInitialize
    cuSurfRefGetArray
    cuSurfRefSetArray
    cuTexRefCreate
    cuTexRefDestroy
    cuTexRefGetAddressMode
    cuTexRefGetAddress_v2
    cuTexRefGetArray
    cuTexRefGetFilterMode
    cuTexRefGetFlags
    cuTexRefGetFormat
    cuTexRefSetAddress2D_v3
    cuTexRefSetAddressMode
    cuTexRefSetAddress_v2
    cuTexRefSetArray
    cuTexRefSetFilterMode
    cuTexRefSetFlags
    cuTexRefSetFormat
}
