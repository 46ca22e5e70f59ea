//! Maps of tensors for TMA.

use std::ffi::c_int;

use ptx_sim::TensorElement::{self, *};
use ptx_sim::{DevicePtr, Interleave, OutsideFill, Swizzle, TensorMap, TensorMapDescriptor, TensorWindow};

use crate::abi::{Code, Outcome, Pointer};
use crate::api::{exported, put, slice};
use crate::state::context;
use crate::tell::say;

/// Element types in the order of `CUtensorMapDataType`.
const ELEMENTS: [TensorElement; 14] = [U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16, F32Ftz, Tf32, Tf32Ftz, B4x16];
/// In the order of `CUtensorMapInterleave`.
const INTERLEAVES: [Interleave; 3] = [Interleave::None, Interleave::Bytes16, Interleave::Bytes32];
/// In the order of `CUtensorMapFloatOOBfill`.
const FILLS: [OutsideFill; 2] = [OutsideFill::Zero, OutsideFill::Nan];

fn nth<T: Copy>(values: &[T], at: c_int) -> Outcome<T> {
    usize::try_from(at).ok().and_then(|at| values.get(at)).copied().ok_or(Code::INVALID_VALUE)
}

/// The tensor of a map of either kind.
struct Tensor {
    element: c_int,
    rank: u32,
    address: Pointer,
    extents: *const u64,
    strides: *const u64,
    element_strides: *const u32,
    interleave: c_int,
    swizzle: c_int,
    fill: c_int,
}

impl Tensor {
    /// Encodes a map, or says which rule it breaks.
    ///
    /// # Safety
    /// The lists have as many entries as the rank asks for.
    unsafe fn encode(self, map: *mut TensorMap, window: TensorWindow) -> Outcome {
        context()?;
        let rank = self.rank as usize;
        // SAFETY: as the caller promises.
        let descriptor = unsafe {
            TensorMapDescriptor {
                element: nth(&ELEMENTS, self.element)?,
                address: DevicePtr(self.address),
                extents: slice(self.extents, rank)?.to_vec(),
                strides: slice(self.strides, rank.saturating_sub(1))?.to_vec(),
                window,
                element_strides: slice(self.element_strides, rank)?.to_vec(),
                interleave: nth(&INTERLEAVES, self.interleave)?,
                swizzle: nth(&Swizzle::ALL, self.swizzle)?,
                fill: nth(&FILLS, self.fill)?,
            }
        };
        let encoded = descriptor.encode().map_err(|error| {
            say(&error.to_string());
            Code::INVALID_VALUE
        })?;
        // SAFETY: a place of the caller's, aligned as the manual asks.
        unsafe { put(map, encoded) }
    }
}

exported! {
    fn cuTensorMapEncodeTiled(
        map: *mut TensorMap,
        element: c_int,
        rank: u32,
        address: Pointer,
        extents: *const u64,
        strides: *const u64,
        sizes: *const u32,
        element_strides: *const u32,
        interleave: c_int,
        swizzle: c_int,
        _promotion: c_int,
        fill: c_int,
    ) {
        let tensor = Tensor { element, rank, address, extents, strides, element_strides, interleave, swizzle, fill };
        // SAFETY: as the caller promises.
        unsafe { tensor.encode(map, TensorWindow::Tiled(slice(sizes, rank as usize)?.to_vec())) }
    }

    fn cuTensorMapEncodeIm2col(
        map: *mut TensorMap,
        element: c_int,
        rank: u32,
        address: Pointer,
        extents: *const u64,
        strides: *const u64,
        lower: *const i32,
        upper: *const i32,
        channels: u32,
        pixels: u32,
        element_strides: *const u32,
        interleave: c_int,
        swizzle: c_int,
        _promotion: c_int,
        fill: c_int,
    ) {
        let tensor = Tensor { element, rank, address, extents, strides, element_strides, interleave, swizzle, fill };
        let corners = (rank as usize).saturating_sub(2);
        // SAFETY: as the caller promises.
        unsafe {
            let (lower, upper) = (slice(lower, corners)?.to_vec(), slice(upper, corners)?.to_vec());
            tensor.encode(map, TensorWindow::Im2col { lower, upper, channels, pixels })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_of_the_simulator_has_a_number() {
        for element in TensorElement::ALL {
            assert_eq!(ELEMENTS.iter().filter(|known| **known == element).count(), 1, "{element:?}");
        }
    }
}
