//! Buffers: device memory that knows its device, views of it, and pinned host memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::Device;
use super::element::DeviceElement;
use super::memory::Reservation;
use crate::error::{Error, Result};

#[cfg(feature = "cuda")]
use cudarc::driver::{CudaSlice, PinnedHostSlice};

/// `len` values of `T` in the memory of one device; freed when dropped, once the streams that use it have passed.
pub struct Buffer<T: DeviceElement> {
    pub(crate) raw: RawBuffer,
    len: usize,
    /// Values that the allocation has room for.
    capacity: usize,
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
    /// The bytes meant.
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
    /// The bytes meant.
    #[doc(hidden)]
    fn region_mut(&mut self) -> RegionMut<'_>;
}

/// Bytes `[offset, offset + bytes)` of a buffer.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Region<'a> {
    pub(crate) raw: &'a RawBuffer,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Bytes `[offset, offset + bytes)` of a buffer, borrowed for writing.
#[doc(hidden)]
pub struct RegionMut<'a> {
    pub(crate) raw: &'a mut RawBuffer,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// An allocation without its element type.
#[doc(hidden)]
pub struct RawBuffer {
    pub(crate) storage: Storage,
    pub(crate) device: Device,
    /// Gives the bytes back to the device's count when the buffer goes.
    _reservation: Reservation,
}

pub(crate) enum Storage {
    #[cfg(feature = "cuda")]
    Cuda(CudaSlice<u8>),
    Sim(SimAllocation),
}

/// One allocation of the simulator; frees itself.
pub(crate) struct SimAllocation {
    pub(crate) device: Arc<ptx_sim::Device>,
    pub(crate) ptr: ptx_sim::DevicePtr,
}

impl Drop for SimAllocation {
    fn drop(&mut self) {
        // The pointer came from `alloc` of the same device and is freed once: there is no error to report.
        let _ = self.device.free(self.ptr);
    }
}

impl RawBuffer {
    pub(crate) fn new(storage: Storage, device: Device, reservation: Reservation) -> RawBuffer {
        RawBuffer { storage, device, _reservation: reservation }
    }
}

#[cfg(feature = "cuda")]
impl Drop for RawBuffer {
    fn drop(&mut self) {
        // cudarc frees in the calling thread's current context, and a thread that never used the device has none. An error
        // here is kept by the context and reported by the next operation.
        if let Storage::Cuda(slice) = &self.storage {
            let context = slice.context();
            context.record_err(context.bind_to_thread());
        }
    }
}

impl<T: DeviceElement> Buffer<T> {
    pub(crate) fn new(raw: RawBuffer, len: usize) -> Buffer<T> {
        Buffer { raw, len, capacity: len, element: PhantomData }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Makes it `len` values long, at most as many as it was allocated for. Values that come back are what they last were.
    pub(crate) fn set_len(&mut self, len: usize) -> Result<()> {
        if len > self.capacity {
            let detail = format!("{len} values do not fit the {} that were allocated", self.capacity);
            return Err(Error::shape("making a buffer longer", detail));
        }
        self.len = len;
        Ok(())
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the values take.
    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Where the buffer lives.
    pub fn device(&self) -> &Device {
        &self.raw.device
    }

    /// The values in `range`, for reading.
    ///
    /// # Panics
    /// If the range reaches past the end, as slicing a `Vec` does.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        let (start, end) = resolve(range, self.len);
        View {
            region: Region { raw: &self.raw, offset: start * size_of::<T>(), bytes: (end - start) * size_of::<T>() },
            element: PhantomData,
        }
    }

    /// The values in `range`, for writing.
    ///
    /// # Panics
    /// If the range reaches past the end, as slicing a `Vec` does.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let (start, end) = resolve(range, self.len);
        ViewMut {
            region: RegionMut {
                raw: &mut self.raw,
                offset: start * size_of::<T>(),
                bytes: (end - start) * size_of::<T>(),
            },
            element: PhantomData,
        }
    }

    /// The bytes as cudarc holds them, for its bindings of cuBLAS and other libraries; `None` on the simulator. It is at
    /// least one byte long, even for an empty buffer.
    #[cfg(feature = "cuda")]
    pub fn as_cuda(&self) -> Option<&CudaSlice<u8>> {
        match &self.raw.storage {
            Storage::Cuda(slice) => Some(slice),
            Storage::Sim(_) => None,
        }
    }

    /// [`Buffer::as_cuda`], for writing.
    #[cfg(feature = "cuda")]
    pub fn as_cuda_mut(&mut self) -> Option<&mut CudaSlice<u8>> {
        match &mut self.raw.storage {
            Storage::Cuda(slice) => Some(slice),
            Storage::Sim(_) => None,
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
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.raw.device.short_name())
    }
}

/// Page-locked host memory: the device copies from and to it by itself, so a copy can run while the program goes on. On
/// the simulator it is ordinary memory, and copies finish at once.
pub struct PinnedBuffer<T: DeviceElement> {
    storage: PinnedStorage,
    len: usize,
    element: PhantomData<T>,
}

enum PinnedStorage {
    /// cudarc's slice carries an event of the last copy, which every access from the host waits for.
    #[cfg(feature = "cuda")]
    Cuda(PinnedHostSlice<u8>),
    /// In 16-byte units, so that every element type is aligned.
    Host(Vec<u128>),
}

impl<T: DeviceElement> PinnedBuffer<T> {
    pub(crate) fn on_host(len: usize) -> PinnedBuffer<T> {
        let bytes = len * size_of::<T>();
        PinnedBuffer { storage: PinnedStorage::Host(vec![0; bytes.div_ceil(16)]), len, element: PhantomData }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn on_cuda(slice: PinnedHostSlice<u8>, len: usize) -> PinnedBuffer<T> {
        PinnedBuffer { storage: PinnedStorage::Cuda(slice), len, element: PhantomData }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn as_cuda(&self) -> Option<&PinnedHostSlice<u8>> {
        match &self.storage {
            PinnedStorage::Cuda(slice) => Some(slice),
            PinnedStorage::Host(_) => None,
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn as_cuda_mut(&mut self) -> Option<&mut PinnedHostSlice<u8>> {
        match &mut self.storage {
            PinnedStorage::Cuda(slice) => Some(slice),
            PinnedStorage::Host(_) => None,
        }
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
    /// What the device reports while waiting, such as a kernel's fault.
    pub fn as_slice(&self) -> Result<&[T]> {
        let bytes: &[u8] = match &self.storage {
            #[cfg(feature = "cuda")]
            PinnedStorage::Cuda(slice) => {
                slice.as_slice().map_err(|error| super::cuda::error("waiting for a copy", slice.context(), error))?
            }
            PinnedStorage::Host(units) => bytemuck::cast_slice(units),
        };
        Ok(bytemuck::cast_slice(&bytes[..self.len * size_of::<T>()]))
    }

    /// The values for writing, once copies in flight have finished.
    ///
    /// # Errors
    /// What the device reports while waiting, such as a kernel's fault.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        let bytes: &mut [u8] = match &mut self.storage {
            #[cfg(feature = "cuda")]
            PinnedStorage::Cuda(slice) => {
                let context = slice.context().clone();
                slice.as_mut_slice().map_err(|error| super::cuda::error("waiting for a copy", &context, error))?
            }
            PinnedStorage::Host(units) => bytemuck::cast_slice_mut(units),
        };
        Ok(bytemuck::cast_slice_mut(&mut bytes[..self.len * size_of::<T>()]))
    }
}

pub(crate) fn check_lengths(operation: &'static str, source_len: usize, destination_len: usize) -> Result<()> {
    if source_len == destination_len { Ok(()) } else { Err(Error::Length { operation, source_len, destination_len }) }
}

fn resolve(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
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
