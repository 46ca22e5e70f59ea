//! Values in device memory, and host memory for copies to and from it.

use super::buffer::PinnedBuffer;
use crate::error::Result;

/// A value with the same bytes on the host and on the device: any `Pod` type, such as `f32`, `u8`, `half::f16`, or a
/// `#[repr(C)]` struct without padding.
pub trait DeviceElement: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> DeviceElement for T {}

/// Host memory that a copy may read: a slice, a `Vec`, an array, or a [`PinnedBuffer`].
pub trait HostSlice<T: DeviceElement> {
    /// Distinguishes pageable from pinned memory.
    #[doc(hidden)]
    fn host(&self) -> Host<'_, T>;
}

/// Host memory that a copy may write.
pub trait HostSliceMut<T: DeviceElement> {
    /// Distinguishes pageable from pinned memory.
    #[doc(hidden)]
    fn host_mut(&mut self) -> HostMut<'_, T>;
}

/// The two kinds of host memory: the device can read a pinned buffer on its own, while the program goes on.
#[doc(hidden)]
pub enum Host<'a, T: DeviceElement> {
    /// Ordinary memory; the copy is finished when the call returns.
    Pageable(&'a [T]),
    /// Page-locked memory; the copy is finished when the stream has reached it.
    Pinned(&'a PinnedBuffer<T>),
}

/// [`Host`], to be written to.
#[doc(hidden)]
pub enum HostMut<'a, T: DeviceElement> {
    /// Ordinary memory.
    Pageable(&'a mut [T]),
    /// Page-locked memory.
    Pinned(&'a mut PinnedBuffer<T>),
}

impl<T: DeviceElement> Host<'_, T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Host::Pageable(slice) => slice.len(),
            Host::Pinned(buffer) => buffer.len(),
        }
    }

    pub(crate) fn slice(&self) -> Result<&[T]> {
        match self {
            Host::Pageable(slice) => Ok(slice),
            Host::Pinned(buffer) => buffer.as_slice(),
        }
    }
}

impl<T: DeviceElement> HostMut<'_, T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            HostMut::Pageable(slice) => slice.len(),
            HostMut::Pinned(buffer) => buffer.len(),
        }
    }

    pub(crate) fn slice_mut(&mut self) -> Result<&mut [T]> {
        match self {
            HostMut::Pageable(slice) => Ok(slice),
            HostMut::Pinned(buffer) => buffer.as_mut_slice(),
        }
    }
}

impl<T: DeviceElement> HostSlice<T> for [T] {
    fn host(&self) -> Host<'_, T> {
        Host::Pageable(self)
    }
}

impl<T: DeviceElement> HostSlice<T> for Vec<T> {
    fn host(&self) -> Host<'_, T> {
        Host::Pageable(self)
    }
}

impl<T: DeviceElement, const N: usize> HostSlice<T> for [T; N] {
    fn host(&self) -> Host<'_, T> {
        Host::Pageable(self)
    }
}

impl<T: DeviceElement> HostSlice<T> for PinnedBuffer<T> {
    fn host(&self) -> Host<'_, T> {
        Host::Pinned(self)
    }
}

impl<T: DeviceElement> HostSliceMut<T> for [T] {
    fn host_mut(&mut self) -> HostMut<'_, T> {
        HostMut::Pageable(self)
    }
}

impl<T: DeviceElement> HostSliceMut<T> for Vec<T> {
    fn host_mut(&mut self) -> HostMut<'_, T> {
        HostMut::Pageable(self)
    }
}

impl<T: DeviceElement, const N: usize> HostSliceMut<T> for [T; N] {
    fn host_mut(&mut self) -> HostMut<'_, T> {
        HostMut::Pageable(self)
    }
}

impl<T: DeviceElement> HostSliceMut<T> for PinnedBuffer<T> {
    fn host_mut(&mut self) -> HostMut<'_, T> {
        HostMut::Pinned(self)
    }
}
