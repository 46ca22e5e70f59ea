//! Memory of the GPU, and page-locked memory of the host.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, PinnedHostSlice, sys};

use super::driver::error;
use crate::error::Result;

/// One allocation.
pub(crate) struct Memory {
    pub(super) slice: CudaSlice<u8>,
    /// Address, read without the events that cudarc records for each access to it.
    pub(super) address: sys::CUdeviceptr,
}

impl Memory {
    pub(crate) fn slice(&self) -> &CudaSlice<u8> {
        &self.slice
    }

    pub(crate) fn slice_mut(&mut self) -> &mut CudaSlice<u8> {
        &mut self.slice
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // cudarc frees in the calling thread's current context, and a thread that never used the device has none. An error
        // here is kept by the context and reported by the next operation.
        let context = self.slice.context();
        context.record_err(context.bind_to_thread());
    }
}

/// Page-locked host memory. Every access from the host waits for the last copy.
pub(crate) struct Pinned {
    /// Carries an event too, but cudarc records it only while there are several streams.
    pub(super) slice: PinnedHostSlice<u8>,
    /// The end of the last copy.
    pub(super) copied: CudaEvent,
}

impl Pinned {
    /// `bytes` zeros.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Pinned> {
        let fail = |e| error("allocating pinned host memory", context, e);
        // Cached, unlike cudarc's default of write-combining, which the host reads back at a crawl; portable, so that every
        // GPU's copies know that it is pinned.
        // SAFETY: the memory is filled just below, before anyone can read it.
        let mut slice =
            unsafe { context.alloc_pinned_with_flags::<u8>(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }.map_err(fail)?;
        slice.as_mut_slice().map_err(fail)?.fill(0);
        let copied = context.new_event(Some(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)).map_err(fail)?;
        Ok(Pinned { slice, copied })
    }

    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        let waited = self.copied.synchronize().and_then(|()| self.slice.as_slice());
        waited.map_err(|e| error(WAIT_FOR_COPY, self.slice.context(), e))
    }

    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        let context = self.slice.context().clone();
        let waited = self.copied.synchronize().and_then(|()| self.slice.as_mut_slice());
        waited.map_err(|e| error(WAIT_FOR_COPY, &context, e))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.slice.context().record_err(self.copied.synchronize());
    }
}

const WAIT_FOR_COPY: &str = "waiting for a copy";
