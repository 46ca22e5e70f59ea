//! Modules, memory of the device, and memory of the host that copies need not wait for.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use ptx_sim::Kernel as Function;

use super::super::handle::Handle;
use super::super::order::{self, Clock, How, Touch};
use super::super::properties::KernelAttributes;
use super::host::SimHost;
use crate::error::{Error, Result};

/// A loaded module.
pub(crate) struct Module(pub(super) ptx_sim::LoadedModule);

impl Module {
    /// The kernel of this name; `refused` makes an error of the loader's message.
    pub(crate) fn function<C>(
        &self,
        name: &str,
        refused: impl FnOnce(String) -> Error,
    ) -> Result<(Handle<C, Function>, KernelAttributes)> {
        let kernel = self.0.kernel(name).map_err(|error| refused(error.render(false)))?;
        let attributes = KernelAttributes {
            registers: None,
            local_bytes: None,
            static_shared: kernel.info().static_shared,
            max_threads_per_block: kernel.info().max_threads.unwrap_or(u32::MAX).min(ptx_sim::MAX_THREADS),
        };
        Ok((Handle::Sim(kernel), attributes))
    }
}

/// One allocation; frees itself.
pub(crate) struct Memory {
    pub(super) host: Arc<SimHost>,
    pub(super) ptr: ptx_sim::DevicePtr,
    pub(super) label: Arc<str>,
}

impl Memory {
    /// The address of a byte.
    pub(super) fn at(&self, offset: usize) -> ptx_sim::DevicePtr {
        ptx_sim::DevicePtr(self.ptr.0 + offset as u64)
    }

    /// An access to a range of it.
    pub(super) fn touch(&self, how: How, range: Range<usize>) -> Touch {
        let bytes = range.start as u64..range.end as u64;
        Touch { base: self.ptr.0, label: self.label.clone(), how, bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The pointer came from `alloc` of the same device and is freed once: there is no error to report.
        let _ = self.host.memory.free(self.ptr);
        if let Some(order) = &self.host.order {
            order.forget(self.ptr.0);
        }
    }
}

/// Host memory in units of 16 bytes, so that every element type is aligned.
pub(crate) struct Pinned {
    pub(super) units: Vec<u128>,
    host: Arc<SimHost>,
    /// Clock of the copies from and to it: a reader of the bytes has waited for them.
    copied: Mutex<Clock>,
}

impl Pinned {
    /// `bytes` zeros.
    pub(super) fn new(host: Arc<SimHost>, bytes: usize) -> Pinned {
        Pinned { units: vec![0; bytes.div_ceil(size_of::<u128>())], host, copied: Mutex::default() }
    }

    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        self.wait();
        Ok(bytemuck::cast_slice(&self.units))
    }

    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.wait();
        Ok(bytemuck::cast_slice_mut(&mut self.units))
    }

    fn wait(&self) {
        if let Some(order) = &self.host.order {
            order.host_waits(&self.copied.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Records a queued copy with this clock.
    pub(super) fn copy(&self, clock: &Clock) {
        order::join(&mut self.copied.lock().unwrap_or_else(PoisonError::into_inner), clock);
    }
}
