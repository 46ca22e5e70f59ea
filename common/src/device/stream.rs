//! Streams: queues of copies and launches that a device works off in order.

use std::fmt;

use super::buffer::{Buffer, DeviceSlice, DeviceSliceMut, RawBuffer, Storage, check_lengths};
use super::element::{DeviceElement, HostSlice, HostSliceMut};
use super::kernel::{Kernel, LaunchArgs};
use super::sim::memory_error;
use super::{Counts, Device};
use crate::error::{Error, Result};

#[cfg(feature = "cuda")]
use {
    super::cuda,
    cudarc::driver::{CudaEvent, CudaStream, DevicePtr, DevicePtrMut, HostSlice as _, result, sys},
    std::sync::Arc,
};

/// A queue of work on one device. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    pub(crate) backend: StreamBackend,
}

#[derive(Clone)]
pub(crate) enum StreamBackend {
    #[cfg(feature = "cuda")]
    Cuda(Arc<CudaStream>),
    /// Every operation is finished when its call returns.
    Sim,
}

/// A mark in a stream: other streams can wait for it, and two of them measure the time between.
pub struct Event {
    device: Device,
    mark: Mark,
}

enum Mark {
    #[cfg(feature = "cuda")]
    Cuda(CudaEvent),
    Sim(Counts),
}

impl Stream {
    pub(crate) fn default_of(device: &Device) -> Stream {
        Stream {
            device: device.clone(),
            backend: match device {
                #[cfg(feature = "cuda")]
                Device::Cuda(cuda) => StreamBackend::Cuda(cuda.context().default_stream()),
                Device::Sim(_) => StreamBackend::Sim,
            },
        }
    }

    pub(crate) fn new_on(device: &Device) -> Result<Stream> {
        Ok(Stream {
            device: device.clone(),
            backend: match device {
                #[cfg(feature = "cuda")]
                Device::Cuda(cuda) => StreamBackend::Cuda(cuda.new_stream()?),
                Device::Sim(_) => StreamBackend::Sim,
            },
        })
    }

    /// The device that does the work.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// cudarc's stream, for its bindings of libraries; `None` on the simulator.
    #[cfg(feature = "cuda")]
    pub fn as_cuda(&self) -> Option<&Arc<CudaStream>> {
        match &self.backend {
            StreamBackend::Cuda(stream) => Some(stream),
            StreamBackend::Sim => None,
        }
    }

    /// A buffer of `len` values that hold whatever was there before.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn alloc_uninit<T: DeviceElement>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::Invalid(format!("{len} values of {} bytes: no memory is that large", size_of::<T>()))
        })?;
        let raw = match (&self.device, &self.backend) {
            #[cfg(feature = "cuda")]
            (Device::Cuda(device), StreamBackend::Cuda(stream)) => device.alloc(stream, bytes)?,
            (Device::Sim(sim), _) => {
                // What the simulator's diagnostics call it.
                let element = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
                sim.alloc(bytes, &format!("buffer of {len} {element}"))?
            }
            #[cfg(feature = "cuda")]
            (Device::Cuda(_), StreamBackend::Sim) => {
                unreachable!("a GPU's stream is made with its own kind")
            }
        };
        Ok(Buffer::new(raw, len))
    }

    /// A buffer of `len` zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
    pub fn alloc_zeros<T: DeviceElement>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(len)?;
        self.memset_zeros(&mut buffer)?;
        Ok(buffer)
    }

    /// A buffer whose every byte is 0xFF: NaN in all float types, −1 in signed integers. A kernel that forgets an output
    /// leaves a value that no check lets pass.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
    pub fn alloc_poisoned<T: DeviceElement>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(len)?;
        self.poison(&mut buffer)?;
        Ok(buffer)
    }

    /// A new buffer with the values of host memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
    pub fn clone_htod<T: DeviceElement>(&self, source: &(impl HostSlice<T> + ?Sized)) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(source.host().len())?;
        self.memcpy_htod(source, &mut buffer)?;
        Ok(buffer)
    }

    /// The values of device memory, complete when this returns.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or what earlier work on the stream ran into.
    pub fn clone_dtoh<T: DeviceElement>(&self, source: &impl DeviceSlice<T>) -> Result<Vec<T>> {
        let mut values = bytemuck::zeroed_vec(source.len());
        self.memcpy_dtoh(source, &mut values)?;
        Ok(values)
    }

    /// A new buffer with the values of another on the same device.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the driver reports.
    pub fn clone_dtod<T: DeviceElement>(&self, source: &impl DeviceSlice<T>) -> Result<Buffer<T>> {
        let mut buffer = self.alloc_uninit(source.len())?;
        self.memcpy_dtod(source, &mut buffer)?;
        Ok(buffer)
    }

    /// Sets every value to zero.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or what the driver reports.
    pub fn memset_zeros<T: DeviceElement>(&self, dst: &mut impl DeviceSliceMut<T>) -> Result<()> {
        self.fill(dst, 0)
    }

    /// Sets every byte to 0xFF, as [`Stream::alloc_poisoned`] does.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or what the driver reports.
    pub fn poison<T: DeviceElement>(&self, dst: &mut impl DeviceSliceMut<T>) -> Result<()> {
        self.fill(dst, 0xFF)
    }

    fn fill<T: DeviceElement>(&self, dst: &mut impl DeviceSliceMut<T>, value: u8) -> Result<()> {
        const OPERATION: &str = "filling a buffer";
        let region = dst.region_mut();
        self.check_device(OPERATION, region.raw)?;
        let range = region.offset..region.offset + region.bytes;
        match (&mut region.raw.storage, &self.backend) {
            #[cfg(feature = "cuda")]
            (Storage::Cuda(slice), StreamBackend::Cuda(stream)) => {
                cuda::fill(stream, slice, range, value).map_err(|e| cuda::error(OPERATION, stream.context(), e))
            }
            (Storage::Sim(allocation), _) => allocation
                .device
                .fill(at(allocation, range.start), value, range.len() as u64)
                .map_err(|source| memory_error(OPERATION, source)),
            #[cfg(feature = "cuda")]
            (Storage::Cuda(_), StreamBackend::Sim) => unreachable!("the devices were compared"),
        }
    }

    /// Copies host memory to the device; the lengths must be equal. From a [`super::PinnedBuffer`] the copy is only queued
    /// when this returns, from ordinary memory it is finished.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], or what the driver reports.
    pub fn memcpy_htod<T: DeviceElement>(
        &self,
        source: &(impl HostSlice<T> + ?Sized),
        dst: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        const OPERATION: &str = "copying to the device";
        let source = source.host();
        check_lengths(OPERATION, source.len(), dst.len())?;
        let region = dst.region_mut();
        self.check_device(OPERATION, region.raw)?;
        if region.bytes == 0 {
            return Ok(());
        }
        match (&mut region.raw.storage, &self.backend) {
            #[cfg(feature = "cuda")]
            (Storage::Cuda(slice), StreamBackend::Cuda(stream)) => {
                let fail = |e| cuda::error(OPERATION, stream.context(), e);
                stream.context().bind_to_thread().map_err(fail)?;
                let (ptr, _written) = slice.device_ptr_mut(stream);
                let ptr = ptr + region.offset as u64;
                if let super::element::Host::Pinned(pinned) = &source
                    && let Some(pinned) = pinned.as_cuda()
                    && pinned.context() == stream.context()
                {
                    // SAFETY: the slice is only read by the copy queued here, whose end `_reading` marks; the pinned buffer
                    // waits for that mark before anyone writes or frees it.
                    let (bytes, _reading) = unsafe { pinned.stream_synced_slice(stream) };
                    // SAFETY: `region.bytes` bytes lie at `ptr`, and as many in the source, as compared above.
                    return unsafe { result::memcpy_htod_async(ptr, &bytes[..region.bytes], stream.cu_stream()) }
                        .map_err(fail);
                }
                let bytes: &[u8] = bytemuck::cast_slice(source.slice()?);
                // SAFETY: the lengths were compared, and the synchronisation keeps `bytes` borrowed until the copy is over.
                unsafe { result::memcpy_htod_async(ptr, bytes, stream.cu_stream()) }
                    .and_then(|()| stream.synchronize())
                    .map_err(fail)
            }
            (Storage::Sim(allocation), _) => allocation
                .device
                .write(at(allocation, region.offset), bytemuck::cast_slice(source.slice()?))
                .map_err(|source| memory_error(OPERATION, source)),
            #[cfg(feature = "cuda")]
            (Storage::Cuda(_), StreamBackend::Sim) => unreachable!("the devices were compared"),
        }
    }

    /// Copies device memory to the host; the lengths must be equal. Into a [`super::PinnedBuffer`] the copy is only queued
    /// when this returns (its `as_slice` waits), into ordinary memory it is finished.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], or what earlier work on the stream ran into.
    pub fn memcpy_dtoh<T: DeviceElement>(
        &self,
        source: &impl DeviceSlice<T>,
        dst: &mut (impl HostSliceMut<T> + ?Sized),
    ) -> Result<()> {
        const OPERATION: &str = "copying from the device";
        let region = source.region();
        let mut dst = dst.host_mut();
        check_lengths(OPERATION, source.len(), dst.len())?;
        self.check_device(OPERATION, region.raw)?;
        if region.bytes == 0 {
            return Ok(());
        }
        match (&region.raw.storage, &self.backend) {
            #[cfg(feature = "cuda")]
            (Storage::Cuda(slice), StreamBackend::Cuda(stream)) => {
                let fail = |e| cuda::error(OPERATION, stream.context(), e);
                stream.context().bind_to_thread().map_err(fail)?;
                let (ptr, _read) = slice.device_ptr(stream);
                let ptr = ptr + region.offset as u64;
                if let super::element::HostMut::Pinned(pinned) = &mut dst
                    && let Some(pinned) = pinned.as_cuda_mut()
                    && pinned.context() == stream.context()
                {
                    // SAFETY: the pinned buffer waits for the mark that `_writing` leaves before anyone reads or frees it.
                    let (bytes, _writing) = unsafe { pinned.stream_synced_mut_slice(stream) };
                    // SAFETY: `region.bytes` bytes lie at `ptr`, and as many in the destination, as compared above.
                    return unsafe { result::memcpy_dtoh_async(&mut bytes[..region.bytes], ptr, stream.cu_stream()) }
                        .map_err(fail);
                }
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(dst.slice_mut()?);
                // SAFETY: the lengths were compared, and the synchronisation keeps `bytes` borrowed until the copy is over.
                unsafe { result::memcpy_dtoh_async(bytes, ptr, stream.cu_stream()) }
                    .and_then(|()| stream.synchronize())
                    .map_err(fail)
            }
            (Storage::Sim(allocation), _) => allocation
                .device
                .read(at(allocation, region.offset), bytemuck::cast_slice_mut(dst.slice_mut()?))
                .map_err(|source| memory_error(OPERATION, source)),
            #[cfg(feature = "cuda")]
            (Storage::Cuda(_), StreamBackend::Sim) => unreachable!("the devices were compared"),
        }
    }

    /// Queues a copy inside the device; the lengths must be equal.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], or what the driver reports.
    pub fn memcpy_dtod<T: DeviceElement>(
        &self,
        source: &impl DeviceSlice<T>,
        dst: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        const OPERATION: &str = "copying inside the device";
        check_lengths(OPERATION, source.len(), dst.len())?;
        let from = source.region();
        let to = dst.region_mut();
        self.check_device(OPERATION, from.raw)?;
        self.check_device(OPERATION, to.raw)?;
        if from.bytes == 0 {
            return Ok(());
        }
        match (&from.raw.storage, &mut to.raw.storage, &self.backend) {
            #[cfg(feature = "cuda")]
            (Storage::Cuda(source), Storage::Cuda(dst), StreamBackend::Cuda(stream)) => {
                let fail = |e| cuda::error(OPERATION, stream.context(), e);
                stream.context().bind_to_thread().map_err(fail)?;
                let (source, _read) = source.device_ptr(stream);
                let (dst, _written) = dst.device_ptr_mut(stream);
                // SAFETY: both regions lie in live buffers of this context and are `from.bytes` long.
                unsafe {
                    result::memcpy_dtod_async(
                        dst + to.offset as u64,
                        source + from.offset as u64,
                        from.bytes,
                        stream.cu_stream(),
                    )
                }
                .map_err(fail)
            }
            (Storage::Sim(source), Storage::Sim(dst), _) => source
                .device
                .copy(at(dst, to.offset), at(source, from.offset), from.bytes as u64)
                .map_err(|source| memory_error(OPERATION, source)),
            #[cfg(feature = "cuda")]
            _ => unreachable!("the devices were compared"),
        }
    }

    /// Starts the argument list of a launch; see [`LaunchArgs`].
    pub fn launch_builder<'a>(&'a self, kernel: &'a Kernel) -> LaunchArgs<'a> {
        LaunchArgs::new(self, kernel)
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn record_event(&self) -> Result<Event> {
        let mark = match (&self.device, &self.backend) {
            #[cfg(feature = "cuda")]
            (_, StreamBackend::Cuda(stream)) => Mark::Cuda(
                stream
                    .record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))
                    .map_err(|e| cuda::error("recording an event", stream.context(), e))?,
            ),
            (device, _) => Mark::Sim(device.counts().unwrap_or_default()),
        };
        Ok(Event { device: self.device.clone(), mark })
    }

    /// Lets work queued from here on begin only when `event` has been reached.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or what the driver reports.
    pub fn wait(&self, event: &Event) -> Result<()> {
        if event.device != self.device {
            return Err(wrong_device("waiting for an event", "event", &self.device, &event.device));
        }
        match (&event.mark, &self.backend) {
            #[cfg(feature = "cuda")]
            (Mark::Cuda(event), StreamBackend::Cuda(stream)) => {
                stream.wait(event).map_err(|e| cuda::error("waiting for an event", stream.context(), e))
            }
            _ => Ok(()),
        }
    }

    /// Lets work queued from here on begin only when all that `other` has now is done.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or what the driver reports.
    pub fn join(&self, other: &Stream) -> Result<()> {
        self.wait(&other.record_event()?)
    }

    /// Waits until the stream is empty.
    ///
    /// # Errors
    /// What went wrong in its work; a kernel's fault on a GPU surfaces here.
    pub fn synchronize(&self) -> Result<()> {
        match &self.backend {
            #[cfg(feature = "cuda")]
            StreamBackend::Cuda(stream) => {
                stream.synchronize().map_err(|e| cuda::error("waiting for the stream", stream.context(), e))
            }
            StreamBackend::Sim => Ok(()),
        }
    }

    pub(crate) fn check_device(&self, operation: &'static str, raw: &RawBuffer) -> Result<()> {
        match raw.device == self.device {
            true => Ok(()),
            false => Err(wrong_device(operation, "buffer", &self.device, &raw.device)),
        }
    }
}

pub(crate) fn wrong_device(operation: &'static str, what: &'static str, expected: &Device, found: &Device) -> Error {
    // Two simulators share a name.
    let found = match expected.is_sim() && found.is_sim() {
        true => "another simulator".to_owned(),
        false => found.short_name(),
    };
    Error::WrongDevice { operation, what, expected: expected.short_name(), found }
}

fn at(allocation: &super::buffer::SimAllocation, offset: usize) -> ptx_sim::DevicePtr {
    ptx_sim::DevicePtr(allocation.ptr.0 + offset as u64)
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(of {})", self.device.short_name())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(of {})", self.device.short_name())
    }
}

impl Event {
    /// Waits until the stream has reached the mark.
    ///
    /// # Errors
    /// What went wrong in the work before it.
    pub fn synchronize(&self) -> Result<()> {
        match &self.mark {
            #[cfg(feature = "cuda")]
            Mark::Cuda(event) => {
                event.synchronize().map_err(|e| cuda::error("waiting for an event", event.context(), e))
            }
            Mark::Sim(_) => Ok(()),
        }
    }

    /// Milliseconds from this mark to `end`, once both are reached; the device's own clock, to about half a microsecond.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the simulator, which has counts ([`Event::counts_until`]) and no clock.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32> {
        if self.device != end.device {
            return Err(wrong_device("measuring between two events", "event", &self.device, &end.device));
        }
        match (&self.mark, &end.mark) {
            #[cfg(feature = "cuda")]
            (Mark::Cuda(start), Mark::Cuda(end)) => cuda::elapsed_ms(start, end),
            _ => Err(Error::Unsupported {
                what: "measuring time between events".to_owned(),
                device: self.device.short_name(),
                reason: crate::timing::NO_CLOCK.to_owned(),
            }),
        }
    }

    /// What the simulator executed from this mark to `end`; `None` on a GPU.
    pub fn counts_until(&self, end: &Event) -> Option<Counts> {
        match (&self.mark, &end.mark) {
            (Mark::Sim(start), Mark::Sim(later)) if self.device == end.device => Some(*later - *start),
            _ => None,
        }
    }
}
