//! Events.

use std::ffi::c_uint;

use super::{outcome, runtime, same_as_driver};
use crate::abi::Handle;
use crate::driver::event::*;

runtime! {
    fn cudaEventCreate(event: *mut Handle) {
        // SAFETY: a place of the caller's.
        outcome(unsafe { cuEventCreate(event, 0) })
    }
}

same_as_driver! {
    fn cudaEventCreateWithFlags(event: *mut Handle, flags: c_uint) = cuEventCreate;
    fn cudaEventRecord(event: Handle, stream: Handle) also cudaEventRecord_ptsz = cuEventRecord;
    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) also cudaEventRecordWithFlags_ptsz =
        cuEventRecordWithFlags;
    fn cudaEventQuery(event: Handle) = cuEventQuery;
    fn cudaEventSynchronize(event: Handle) = cuEventSynchronize;
    fn cudaEventDestroy(event: Handle) = cuEventDestroy_v2;
    fn cudaEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) also cudaEventElapsedTime_v2 =
        cuEventElapsedTime;
}
