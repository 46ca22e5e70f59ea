//! Buffers: device memory that knows its device, views of it, and pinned host memory.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::TransparentWrapper;

use super::element::DeviceElement;
use super::handle::{Handle, Side, on_either, resolve, resolve_neighbour};
use super::memory::Reservation;
use super::{Device, cuda, sim};
use crate::error::{Error, Result};

#[cfg(feature = "cuda")]
use cudarc::driver::CudaSlice;

/// Values of `T` in the memory of one device; freed when dropped, after the work queued on them.
#[repr(transparent)]
pub struct Buffer<T: DeviceElement> {
    raw: RawBuffer,
    element: PhantomData<T>,
}

/// A run of values inside a [`Buffer`], for reading.
pub struct View<'a, T: DeviceElement> {
    region: Region<'a>,
    element: PhantomData<T>,
}

/// A run of values inside a [`Buffer`], for writing.
pub struct ViewMut<'a, T: DeviceElement> {
    region: RegionMut<'a>,
    element: PhantomData<T>,
}

/// Device memory that a copy or a kernel reads: a [`Buffer`], a [`View`] or a [`ViewMut`].
pub trait DeviceSlice<T: DeviceElement> {
    /// The bytes of the slice.
    #[doc(hidden)]
    fn region(&self) -> Region<'_>;

    /// Number of values.
    fn len(&self) -> usize {
        self.region().bytes / size_of::<T>().max(1)
    }

    /// True if there is no value.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Device memory that a copy or a kernel writes: a [`Buffer`] or a [`ViewMut`].
pub trait DeviceSliceMut<T: DeviceElement>: DeviceSlice<T> {
    /// The bytes of the slice.
    #[doc(hidden)]
    fn region_mut(&mut self) -> RegionMut<'_>;
}

/// A part of a buffer.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Region<'a> {
    raw: &'a RawBuffer,
    offset: usize,
    pub(crate) bytes: usize,
}

/// A part of a buffer, borrowed for writing.
#[doc(hidden)]
pub struct RegionMut<'a> {
    raw: &'a mut RawBuffer,
    offset: usize,
    pub(crate) bytes: usize,
}

impl<'a> Region<'a> {
    /// Its bytes within the allocation.
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// Lease that keeps the memory when its buffer is dropped.
    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.raw.lease
    }

    /// The allocation, for work on `queue`.
    pub(crate) fn on<Q: Side>(
        &self,
        queue: &Q,
        operation: &'static str,
    ) -> Result<Q::Half<&'a cuda::Memory, &'a sim::Memory>> {
        resolve(queue, operation, "buffer", self.raw.device.id(), self.raw.memory.as_ref())
    }

    /// Device of the region.
    pub(crate) fn device(&self) -> &'a Device {
        &self.raw.device
    }

    /// The allocation, which may be another device's, for work on `queue`.
    pub(crate) fn near<Q: Side>(
        &self,
        queue: &Q,
        operation: &'static str,
    ) -> Result<Q::Half<&'a cuda::Memory, &'a sim::Memory>> {
        resolve_neighbour(queue, operation, "buffer", self.raw.device.id(), self.raw.memory.as_ref())
    }
}

impl RegionMut<'_> {
    /// The same for a shorter time.
    pub(crate) fn reborrow(&mut self) -> RegionMut<'_> {
        RegionMut { raw: self.raw, offset: self.offset, bytes: self.bytes }
    }

    /// Its bytes within the allocation.
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// Lease that keeps the memory when its buffer is dropped.
    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.raw.lease
    }

    /// The same for reading.
    pub(crate) fn shared(&self) -> Region<'_> {
        Region { raw: self.raw, offset: self.offset, bytes: self.bytes }
    }

    /// The allocation, which may be another device's, with that device, for work on `queue`.
    pub(crate) fn near<Q: Side>(
        &mut self,
        queue: &Q,
        operation: &'static str,
    ) -> Result<(&Device, Q::Half<&mut cuda::Memory, &mut sim::Memory>)> {
        let RawBuffer { device, memory, .. } = &mut *self.raw;
        let half = resolve_neighbour(queue, operation, "buffer", device.id(), memory.as_mut())?;
        Ok((device, half))
    }

    /// The allocation, for work on `queue`.
    pub(crate) fn on<Q: Side>(
        &mut self,
        queue: &Q,
        operation: &'static str,
    ) -> Result<Q::Half<&mut cuda::Memory, &mut sim::Memory>> {
        resolve(queue, operation, "buffer", self.raw.device.id(), self.raw.memory.as_mut())
    }
}

/// An allocation without its element type.
#[doc(hidden)]
pub struct RawBuffer {
    memory: ManuallyDrop<Handle<cuda::Memory, sim::Memory>>,
    device: Device,
    /// Bytes in use, from the start of the allocation.
    bytes: usize,
    /// Bytes allocated.
    capacity: usize,
    lease: Arc<Lease>,
}

/// Keeps the memory of a dropped buffer until the last holder of the lease is gone: graphs keep those of their buffers.
pub(crate) struct Lease {
    /// `None` while the buffer owns the memory.
    memory: Mutex<Option<Handle<cuda::Memory, sim::Memory>>>,
    /// Returns the bytes to the device's count when the memory is freed.
    _reservation: Reservation,
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        // SAFETY: a buffer is dropped once, and nothing looks at its memory afterwards.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        *self.lease.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }
}

impl RawBuffer {
    pub(crate) fn new(
        memory: Handle<cuda::Memory, sim::Memory>,
        device: Device,
        bytes: usize,
        reservation: Reservation,
    ) -> RawBuffer {
        let lease = Arc::new(Lease { memory: Mutex::default(), _reservation: reservation });
        RawBuffer { memory: ManuallyDrop::new(memory), device, bytes, capacity: bytes, lease }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Sets the length to `bytes`, at most the allocated size. Bytes that come back have their last values.
    pub(crate) fn set_bytes(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.capacity {
            let detail = format!("{bytes} bytes do not fit the {} that were allocated", self.capacity);
            return Err(Error::shape("recycling a buffer", detail));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl fmt::Debug for RawBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawBuffer({} bytes on {})", self.bytes, self.device.short_name())
    }
}

// SAFETY: `Buffer` is `repr(transparent)` over its `RawBuffer`, and any bytes are values of a `DeviceElement`; allocations begin
// at multiples of 256 bytes, and a rest too short for a value is not one.
unsafe impl<T: DeviceElement> TransparentWrapper<RawBuffer> for Buffer<T> {}

impl<T: DeviceElement> Buffer<T> {
    pub(crate) fn new(raw: RawBuffer) -> Buffer<T> {
        Buffer { raw, element: PhantomData }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.raw.bytes / size_of::<T>().max(1)
    }

    /// The same memory without its type.
    pub(crate) fn into_raw(self) -> RawBuffer {
        self.raw
    }

    /// An allocation as values of this type.
    pub(crate) fn of_raw(raw: &RawBuffer) -> &Buffer<T> {
        Buffer::wrap_ref(raw)
    }

    /// [`Buffer::of_raw`], for writing.
    pub(crate) fn of_raw_mut(raw: &mut RawBuffer) -> &mut Buffer<T> {
        Buffer::wrap_mut(raw)
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the values in bytes.
    pub fn num_bytes(&self) -> usize {
        self.raw.bytes
    }

    /// Device of the buffer.
    pub fn device(&self) -> &Device {
        &self.raw.device
    }

    /// The values in `range`, for reading.
    ///
    /// # Panics
    /// If the range reaches past the end, like slicing a `Vec`.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        let (start, end) = bounds(range, self.len());
        View {
            region: Region { raw: &self.raw, offset: start * size_of::<T>(), bytes: (end - start) * size_of::<T>() },
            element: PhantomData,
        }
    }

    /// The values in `range`, for writing.
    ///
    /// # Panics
    /// If the range reaches past the end, like slicing a `Vec`.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let (start, end) = bounds(range, self.len());
        ViewMut {
            region: RegionMut {
                raw: &mut self.raw,
                offset: start * size_of::<T>(),
                bytes: (end - start) * size_of::<T>(),
            },
            element: PhantomData,
        }
    }

    /// The bytes as a type of cudarc, for its bindings of cuBLAS and other libraries; `None` on the simulator. It is at
    /// least one byte long, even for an empty buffer.
    #[cfg(feature = "cuda")]
    pub fn as_cuda(&self) -> Option<&CudaSlice<u8>> {
        match &*self.raw.memory {
            Handle::Cuda(memory) => Some(memory.slice()),
            Handle::Sim(_) => None,
        }
    }

    /// [`Buffer::as_cuda`], for writing.
    #[cfg(feature = "cuda")]
    pub fn as_cuda_mut(&mut self) -> Option<&mut CudaSlice<u8>> {
        match &mut *self.raw.memory {
            Handle::Cuda(memory) => Some(memory.slice_mut()),
            Handle::Sim(_) => None,
        }
    }
}

impl<T: DeviceElement> DeviceSlice<T> for Buffer<T> {
    fn region(&self) -> Region<'_> {
        Region { raw: &self.raw, offset: 0, bytes: self.num_bytes() }
    }
}

impl<T: DeviceElement> DeviceSliceMut<T> for Buffer<T> {
    fn region_mut(&mut self) -> RegionMut<'_> {
        RegionMut { offset: 0, bytes: self.num_bytes(), raw: &mut self.raw }
    }
}

impl<T: DeviceElement> DeviceSlice<T> for View<'_, T> {
    fn region(&self) -> Region<'_> {
        self.region
    }
}

impl<T: DeviceElement> DeviceSlice<T> for ViewMut<'_, T> {
    fn region(&self) -> Region<'_> {
        Region { raw: self.region.raw, offset: self.region.offset, bytes: self.region.bytes }
    }
}

impl<T: DeviceElement> DeviceSliceMut<T> for ViewMut<'_, T> {
    fn region_mut(&mut self) -> RegionMut<'_> {
        RegionMut { raw: self.region.raw, offset: self.region.offset, bytes: self.region.bytes }
    }
}

impl<T: DeviceElement> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len(), self.raw.device.short_name())
    }
}

impl<T: DeviceElement> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

/// Page-locked host memory: the device copies from and to it by itself, so a copy can run while the program goes on. On
/// the simulator it is ordinary memory, and copies finish at once.
pub struct PinnedBuffer<T: DeviceElement> {
    pub(super) memory: Handle<cuda::Pinned, sim::Pinned>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: DeviceElement> PinnedBuffer<T> {
    /// `memory` has room for `len` values.
    pub(crate) fn new(memory: Handle<cuda::Pinned, sim::Pinned>, len: usize) -> PinnedBuffer<T> {
        PinnedBuffer { memory, len, element: PhantomData }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, once copies in flight have finished.
    ///
    /// # Errors
    /// Errors of the device while waiting, such as a kernel's fault.
    pub fn as_slice(&self) -> Result<&[T]> {
        let bytes: &[u8] = on_either!(&self.memory, memory => memory.bytes()?);
        Ok(bytemuck::cast_slice(&bytes[..self.len * size_of::<T>()]))
    }

    /// The values for writing, once copies in flight have finished.
    ///
    /// # Errors
    /// Errors of the device while waiting, such as a kernel's fault.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        let bytes: &mut [u8] = on_either!(&mut self.memory, memory => memory.bytes_mut()?);
        Ok(bytemuck::cast_slice_mut(&mut bytes[..self.len * size_of::<T>()]))
    }
}

pub(crate) fn check_lengths(operation: &'static str, source_len: usize, destination_len: usize) -> Result<()> {
    if source_len == destination_len { Ok(()) } else { Err(Error::Length { operation, source_len, destination_len }) }
}

fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "range {start}..{end} of a buffer of {len} values");
    (start, end)
}
