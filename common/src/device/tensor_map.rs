//! Tensor maps: what bulk copies of Hopper GPUs (`cp.async.bulk.tensor`) have to know of a tensor in a buffer.

use super::backend::Backend;
use super::buffer::{DeviceSlice, DeviceSliceMut, Region, RegionMut};
use super::element::DeviceElement;
use super::handle::on_either;
use super::kernel::{KernelArg, LaunchArgs, Slot};
use super::stream::Stream;
use crate::error::{Error, Result};

pub use ptx_sim::{Interleave, OutsideFill, Swizzle, TensorElement, TensorWindow};

/// What messages call the making of a map.
const ENCODE: &str = "making a tensor map";

/// A tensor of one to five dimensions, fastest first, and how copies take parts of it: the arguments of
/// `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`, but for the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapConfig {
    /// Type of the elements.
    pub element: TensorElement,
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the first.
    pub strides: Vec<u64>,
    /// What one copy moves.
    pub window: TensorWindow,
    /// Step between copied elements along each dimension, 1 to 8.
    pub element_strides: Vec<u32>,
    /// Whether channels stand in slices of their own.
    pub interleave: Interleave,
    /// How a box lies in shared memory.
    pub swizzle: Swizzle,
    /// What stands where a box is outside the tensor.
    pub fill: OutsideFill,
}

impl TensorMapConfig {
    /// Copies of boxes of `sizes` elements from a tensor without gaps, neither swizzled nor interleaved, with zeros outside.
    pub fn tiled(element: TensorElement, extents: &[u64], sizes: &[u32]) -> TensorMapConfig {
        let described = ptx_sim::TensorMapDescriptor::tiled(element, ptx_sim::DevicePtr(0), extents, sizes);
        TensorMapConfig {
            element,
            extents: described.extents,
            strides: described.strides,
            window: described.window,
            element_strides: described.element_strides,
            interleave: described.interleave,
            swizzle: described.swizzle,
            fill: described.fill,
        }
    }

    /// The tensor at an address.
    pub(super) fn at(&self, address: u64) -> ptx_sim::TensorMapDescriptor {
        ptx_sim::TensorMapDescriptor {
            element: self.element,
            address: ptx_sim::DevicePtr(address),
            extents: self.extents.clone(),
            strides: self.strides.clone(),
            window: self.window.clone(),
            element_strides: self.element_strides.clone(),
            interleave: self.interleave,
            swizzle: self.swizzle,
            fill: self.fill,
        }
    }

    /// Bytes from the first element to the end of the last.
    fn bytes(&self) -> u128 {
        let size = self.element.size();
        let strides = std::iter::once(size).chain(self.strides.iter().copied());
        let last = self.extents.iter().zip(strides);
        let last = last.map(|(extent, stride)| u128::from(extent.saturating_sub(1)) * u128::from(stride));
        last.sum::<u128>() + u128::from(size)
    }
}

/// 128 bytes, aligned as the driver wants them.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Encoded(pub(super) [u64; 16]);

/// A map of a buffer that a kernel reads: its parameter is a `const __grid_constant__ CUtensorMap`.
pub struct TensorMap<'b> {
    encoded: Encoded,
    region: Region<'b>,
}

/// A map of a buffer that a kernel writes, or reads and writes.
pub struct TensorMapMut<'b> {
    encoded: Encoded,
    region: RegionMut<'b>,
}

impl Stream {
    /// A map of a buffer that kernels read.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the rule that `config` breaks, also if the tensor does not fit the buffer;
    /// [`Error::WrongDevice`]; [`Error::Unsupported`] on a GPU before compute capability 9.0.
    pub fn tensor_map<'b, T: DeviceElement>(
        &self,
        buffer: &'b impl DeviceSlice<T>,
        config: &TensorMapConfig,
    ) -> Result<TensorMap<'b>> {
        let region = buffer.region();
        self.check_map(config, region.bytes)?;
        let encoded = on_either!(&self.queue, queue => {
            queue.encode(region.on(queue, ENCODE)?, region.range().start, config)?
        });
        Ok(TensorMap { encoded, region })
    }

    /// A map of a buffer that kernels write.
    ///
    /// # Errors
    /// As [`Stream::tensor_map`].
    pub fn tensor_map_mut<'b, T: DeviceElement>(
        &self,
        buffer: &'b mut impl DeviceSliceMut<T>,
        config: &TensorMapConfig,
    ) -> Result<TensorMapMut<'b>> {
        let mut region = buffer.region_mut();
        self.check_map(config, region.bytes)?;
        let start = region.range().start;
        let encoded = on_either!(&self.queue, queue => queue.encode(region.on(queue, ENCODE)?, start, config)?);
        Ok(TensorMapMut { encoded, region })
    }

    fn check_map(&self, config: &TensorMapConfig, bytes: usize) -> Result<()> {
        let device = self.device().short_name();
        // The address is checked where it is known; every multiple of 32 will do until then.
        config.at(0).check().map_err(|error| Error::TensorMap { device: device.clone(), detail: error.to_string() })?;
        let needed = config.bytes();
        if needed > bytes as u128 {
            let detail = format!("the tensor reaches to byte {needed} of a buffer of {bytes}");
            return Err(Error::TensorMap { device, detail });
        }
        Ok(())
    }
}

impl<'a, 'b: 'a> KernelArg<'a> for &'b TensorMap<'_> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        let at = args.push_value(bytemuck::bytes_of(&self.encoded.0));
        args.slots.push(Slot::ReadMap { at, region: self.region });
    }
}

impl<'a, 'b: 'a> KernelArg<'a> for &'b mut TensorMapMut<'_> {
    fn push(self, args: &mut LaunchArgs<'a>) {
        let at = args.push_value(bytemuck::bytes_of(&self.encoded.0));
        args.slots.push(Slot::WriteMap { at, region: self.region.reborrow() });
    }
}
