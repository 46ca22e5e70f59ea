//! Descriptions of tensors for bulk copies.

pub use ptx_sim::{Interleave, OutsideFill, Swizzle, TensorElement, TensorWindow};

/// A tensor of one to five dimensions, fastest first, and the parts that copies move: the arguments of
/// `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`, without the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapConfig {
    /// Type of the elements.
    pub element: TensorElement,
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the first.
    pub strides: Vec<u64>,
    /// Elements that one copy moves.
    pub window: TensorWindow,
    /// Step between copied elements along each dimension, 1 to 8.
    pub element_strides: Vec<u32>,
    /// Whether channels are in slices of their own.
    pub interleave: Interleave,
    /// Layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// Contents of a box outside the tensor.
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
    pub(super) fn bytes(&self) -> u128 {
        let row = self.extents.first().map_or(0, |extent| u128::from(*extent) * u128::from(self.element.bits()) / 8);
        let others = self.extents.iter().skip(1).zip(&self.strides);
        let others = others.map(|(extent, stride)| u128::from(extent.saturating_sub(1)) * u128::from(*stride));
        row + others.sum::<u128>()
    }
}

/// 128 bytes, aligned for the driver.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Encoded(pub(super) [u64; 16]);
