//! Streams, and the recording of their work as a graph.

use std::ffi::{c_int, c_uint, c_void};

use super::{outcome, runtime, same_as_driver};
use crate::abi::{Handle, Pointer};
use crate::driver::stream::*;

runtime! {
    fn cudaStreamCreate(stream: *mut Handle) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuStreamCreate(stream, 0) })
    }

    fn cudaCtxResetPersistingL2Cache() {
        Ok(())
    }
}

same_as_driver! {
    fn cudaStreamGetId(stream: Handle, id: *mut u64) also cudaStreamGetId_ptsz = cuStreamGetId;
    fn cudaStreamGetDevice(stream: Handle, device: *mut c_int) also cudaStreamGetDevice_ptsz = cuStreamGetDevice;
    fn cudaStreamCopyAttributes(to: Handle, from: Handle) also cudaStreamCopyAttributes_ptsz = cuStreamCopyAttributes;
    fn cudaStreamGetAttribute(stream: Handle, attribute: c_int, value: *mut [u32; 16])
        also cudaStreamGetAttribute_ptsz = cuStreamGetAttribute;
    fn cudaStreamSetAttribute(stream: Handle, attribute: c_int, value: *const [u32; 16])
        also cudaStreamSetAttribute_ptsz = cuStreamSetAttribute;
    fn cudaStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) = cuStreamCreate;
    fn cudaStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) = cuStreamCreateWithPriority;
    fn cudaStreamGetPriority(stream: Handle, priority: *mut c_int) also cudaStreamGetPriority_ptsz = cuStreamGetPriority;
    fn cudaStreamGetFlags(stream: Handle, flags: *mut c_uint) also cudaStreamGetFlags_ptsz = cuStreamGetFlags;
    fn cudaStreamDestroy(stream: Handle) = cuStreamDestroy_v2;
    fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) also cudaStreamWaitEvent_ptsz = cuStreamWaitEvent;
    fn cudaStreamAddCallback(
        stream: Handle,
        callback: unsafe extern "C" fn(Handle, c_int, *mut c_void),
        data: *mut c_void,
        flags: c_uint,
    ) also cudaStreamAddCallback_ptsz = cuStreamAddCallback;
    fn cudaStreamSynchronize(stream: Handle) also cudaStreamSynchronize_ptsz = cuStreamSynchronize;
    fn cudaStreamQuery(stream: Handle) also cudaStreamQuery_ptsz = cuStreamQuery;
    fn cudaStreamAttachMemAsync(
        stream: Handle,
        pointer: Pointer,
        bytes: usize,
        flags: c_uint,
    ) also cudaStreamAttachMemAsync_ptsz = cuStreamAttachMemAsync;
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) also cudaStreamBeginCapture_ptsz = cuStreamBeginCapture_v2;
    fn cudaStreamBeginCaptureToGraph(
        stream: Handle,
        graph: Handle,
        dependencies: *const Handle,
        edges: *const c_void,
        count: usize,
        mode: c_int,
    ) also cudaStreamBeginCaptureToGraph_ptsz = cuStreamBeginCaptureToGraph;
    fn cudaStreamUpdateCaptureDependencies(
        stream: Handle,
        nodes: *mut Handle,
        edges: *const c_void,
        count: usize,
        flags: c_uint,
    ) also cudaStreamUpdateCaptureDependencies_ptsz cudaStreamUpdateCaptureDependencies_v2
        cudaStreamUpdateCaptureDependencies_v2_ptsz = cuStreamUpdateCaptureDependencies_v2;
    fn cudaStreamEndCapture(stream: Handle, graph: *mut Handle) also cudaStreamEndCapture_ptsz = cuStreamEndCapture;
    fn cudaStreamGetCaptureInfo(
        stream: Handle,
        capturing: *mut c_int,
        id: *mut u64,
        graph: *mut Handle,
        dependencies: *mut *const Handle,
        edges: *mut *const c_void,
        count: *mut usize,
    ) also cudaStreamGetCaptureInfo_ptsz cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo_v3_ptsz =
        cuStreamGetCaptureInfo_v3;
    fn cudaStreamGetCaptureInfo_v2(
        stream: Handle,
        capturing: *mut c_int,
        id: *mut u64,
        graph: *mut Handle,
        dependencies: *mut *const Handle,
        count: *mut usize,
    ) also cudaStreamGetCaptureInfo_v2_ptsz = cuStreamGetCaptureInfo_v2;
    fn cudaStreamIsCapturing(stream: Handle, capturing: *mut c_int) also cudaStreamIsCapturing_ptsz = cuStreamIsCapturing;
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) = cuThreadExchangeStreamCaptureMode;
}
