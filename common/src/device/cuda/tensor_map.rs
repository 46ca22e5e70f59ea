//! The driver's maps of tensors.

use std::ffi::c_void;

use cudarc::driver::{DriverError, sys};

use super::super::tensor_map_config::Encoded;

/// The driver's map of a tensor whose rules have been checked.
pub(super) fn encode_map(described: &ptx_sim::TensorMapDescriptor) -> std::result::Result<Encoded, DriverError> {
    use ptx_sim::TensorElement::*;
    type Tiled = unsafe extern "C" fn(
        *mut Encoded,
        u32,
        u32,
        *mut c_void,
        *const u64,
        *const u64,
        *const u32,
        *const u32,
        u32,
        u32,
        u32,
        u32,
    ) -> sys::CUresult;
    type Im2col = unsafe extern "C" fn(
        *mut Encoded,
        u32,
        u32,
        *mut c_void,
        *const u64,
        *const u64,
        *const i32,
        *const i32,
        u32,
        u32,
        *const u32,
        u32,
        u32,
        u32,
        u32,
    ) -> sys::CUresult;
    // CUtensorMapDataType
    let element = match described.element {
        U8 => 0,
        U16 => 1,
        U32 => 2,
        S32 => 3,
        U64 => 4,
        S64 => 5,
        F16 => 6,
        F32 => 7,
        F64 => 8,
        Bf16 => 9,
        F32Ftz => 10,
        Tf32 => 11,
        Tf32Ftz => 12,
        B4x16 => 13,
    };
    let rank = described.extents.len() as u32;
    let address = described.address.0 as *mut c_void;
    let (extents, strides) = (described.extents.as_ptr(), described.strides.as_ptr());
    let element_strides = described.element_strides.as_ptr();
    // The enums of the driver number these in the same order.
    let (interleave, swizzle, fill) = (described.interleave as u32, described.swizzle as u32, described.fill as u32);
    const NO_PROMOTION: u32 = 0;
    let mut encoded = Encoded([0; 16]);
    let missing = DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED);
    // SAFETY: the driver is loaded, or there would be no stream; the signatures are those of cuTensorMapEncodeTiled and
    // cuTensorMapEncodeIm2col with their enums as numbers; every list has as many entries as `rank` asks for, which the check of
    // the description has seen, and the map is aligned to 64 bytes.
    unsafe {
        let driver = sys::culib();
        match &described.window {
            ptx_sim::TensorWindow::Tiled(sizes) => {
                let encode = driver.get::<Tiled>(b"cuTensorMapEncodeTiled\0").map_err(|_| missing)?;
                let sizes = sizes.as_ptr();
                encode(
                    &mut encoded,
                    element,
                    rank,
                    address,
                    extents,
                    strides,
                    sizes,
                    element_strides,
                    interleave,
                    swizzle,
                    NO_PROMOTION,
                    fill,
                )
                .result()?;
            }
            ptx_sim::TensorWindow::Im2col { lower, upper, channels, pixels } => {
                let encode = driver.get::<Im2col>(b"cuTensorMapEncodeIm2col\0").map_err(|_| missing)?;
                let (lower, upper) = (lower.as_ptr(), upper.as_ptr());
                encode(
                    &mut encoded,
                    element,
                    rank,
                    address,
                    extents,
                    strides,
                    lower,
                    upper,
                    *channels,
                    *pixels,
                    element_strides,
                    interleave,
                    swizzle,
                    NO_PROMOTION,
                    fill,
                )
                .result()?;
            }
        }
    }
    Ok(encoded)
}
