//! Marks in a stream.

use cudarc::driver::{CudaEvent, DriverError, sys};

use super::driver::error;
use crate::error::Result;

/// A mark in a stream.
pub(crate) type Mark = CudaEvent;

/// Waits until the stream has reached the mark.
pub(crate) fn wait_for(mark: &Mark) -> Result<()> {
    mark.synchronize().map_err(|e| error("waiting for an event", mark.context(), e))
}

/// Milliseconds between two events, by the function that exists in drivers of every CUDA version: cudarc's own call needs
/// 12.8.
pub(crate) fn elapsed_ms(start: &Mark, end: &Mark) -> Result<f32> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let context = start.context();
    let measure = || {
        start.synchronize()?;
        end.synchronize()?;
        let mut ms = 0.0;
        // SAFETY: the driver is loaded, or there would be no events; the signature is cuEventElapsedTime's, and both events
        // are alive.
        unsafe {
            match sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0") {
                Ok(elapsed) => elapsed(&mut ms, start.cu_event(), end.cu_event()).result()?,
                Err(_) => return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)),
            }
        }
        Ok(ms)
    };
    measure().map_err(|e| error("reading the time between two events", context, e))
}
