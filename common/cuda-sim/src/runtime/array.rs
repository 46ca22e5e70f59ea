//! Arrays, textures and surfaces.

use std::ffi::{c_int, c_uint, c_void};

use ptx_sim::{ChannelKind, Sampling, TexelFormat};

use super::memory::{Extent, sides};
use super::runtime;
use crate::abi::{Code, Copy3d, CopySide, Handle, Outcome, Pointer};
use crate::api::{put, put_if_wanted};
use crate::array::{
    address_mode, address_number, array, destroy_texture, filter_mode, filter_number, resource_of_surface, texture,
};
use crate::copy::run;
use crate::queue::{When, submit};
use crate::state::{Array, Resource, state};
use crate::work::Work;

/// `cudaChannelFormatDesc`: bits of each channel, and their kind.
#[derive(Clone, Copy)]
#[repr(C)]
struct ChannelFormat {
    bits: [c_int; 4],
    kind: c_int,
}

impl ChannelFormat {
    fn texel(self) -> Outcome<TexelFormat> {
        let channels = self.bits.iter().take_while(|bits| **bits != 0).count();
        if self.bits[..channels].iter().any(|bits| *bits != self.bits[0]) {
            return Err(Code(20)); // `cudaErrorInvalidChannelDescriptor`
        }
        let kind = match self.kind {
            0 => ChannelKind::Signed,
            1 => ChannelKind::Unsigned,
            2 => ChannelKind::Float,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        Ok(TexelFormat { channels: channels as u8, bits: self.bits[0] as u8, kind })
    }

    fn of(format: TexelFormat) -> Self {
        let bits = std::array::from_fn(|at| if at < format.channels.into() { format.bits.into() } else { 0 });
        let kind = match format.kind {
            ChannelKind::Signed => 0,
            ChannelKind::Unsigned => 1,
            ChannelKind::Float => 2,
        };
        Self { bits, kind }
    }
}

/// `cudaResourceDesc`: the type, then an array's handle or a description of memory.
#[repr(C)]
struct ResourceParams {
    resource_type: c_int,
    /// Array, or address of memory.
    target: u64,
    format: ChannelFormat,
    /// Bytes of linear memory; or width and height in texels, and pitch in bytes.
    size: [usize; 3],
    reserved: [u64; 9],
    flags: c_uint,
}

impl ResourceParams {
    fn of(resource: &Resource) -> Self {
        let (resource_type, target, texel, size) = resource.description();
        let format = texel.map_or(ChannelFormat { bits: [0; 4], kind: 0 }, ChannelFormat::of);
        Self { resource_type, target, format, size, reserved: [0; 9], flags: 0 }
    }

    fn described(&self) -> Outcome<Resource> {
        Resource::new(self.resource_type, self.target, || self.format.texel(), self.size)
    }
}

/// `cudaTextureDesc`, as far as it counts without mipmaps.
#[repr(C)]
struct TextureParams {
    address: [c_int; 3],
    filter: c_int,
    read_mode: c_int,
    srgb: c_int,
    border: [f32; 4],
    normalised_coordinates: c_int,
    mipmaps: [u32; 7],
}

impl TextureParams {
    fn of(sampling: Sampling) -> Self {
        Self {
            address: sampling.address.map(address_number),
            filter: filter_number(sampling.filter),
            read_mode: sampling.normalised_float.into(),
            srgb: 0,
            border: sampling.border,
            normalised_coordinates: sampling.normalised_coordinates.into(),
            mipmaps: [0; 7],
        }
    }

    fn sampling(&self) -> Outcome<Sampling> {
        if self.srgb != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(Sampling {
            filter: filter_mode(self.filter),
            address: self.address.map(address_mode),
            normalised_coordinates: self.normalised_coordinates != 0,
            normalised_float: self.read_mode != 0,
            border: self.border,
        })
    }
}

/// # Safety
/// `format` is null or valid; `handle` is null or a place of the caller's.
unsafe fn create(handle: *mut Handle, format: *const ChannelFormat, size: [usize; 3], flags: c_uint) -> Outcome {
    // SAFETY: as the caller promises.
    unsafe {
        let format = format.as_ref().ok_or(Code::INVALID_VALUE)?.texel()?;
        put(handle, state()?.arrays.add(Array::new(format, size, flags)?))
    }
}

/// Target and source of a copy to an array, where `kind` names the sides.
fn to_array((to, x_bytes, y): Position, from: Pointer, pitch: usize, kind: c_int) -> Outcome<(CopySide, CopySide)> {
    let (_, from) = sides(array(to)?.base, from, kind)?;
    Ok((CopySide::in_array(to, [x_bytes, y, 0]), CopySide::rows(from, pitch)))
}

/// Target and source of a copy from an array.
fn from_array(to: Pointer, pitch: usize, (from, x_bytes, y): Position, kind: c_int) -> Outcome<(CopySide, CopySide)> {
    let (to, _) = sides(to, array(from)?.base, kind)?;
    Ok((CopySide::rows(to, pitch), CopySide::in_array(from, [x_bytes, y, 0])))
}

/// A place in an array: offset in its row, and the row.
type Position = (Handle, usize, usize);

/// A copy of rows.
fn rows((to, from): (CopySide, CopySide), width: usize, height: usize) -> Outcome<Work> {
    Copy3d::rows(to, from, width, height).work()
}

#[unsafe(no_mangle)]
extern "C" fn cudaCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, kind: c_int) -> ChannelFormat {
    ChannelFormat { bits: [x, y, z, w], kind }
}

runtime! {
    fn cudaMallocArray(handle: *mut Handle, format: *const ChannelFormat, width: usize, height: usize, flags: c_uint) {
        // SAFETY: as the caller promises.
        unsafe { create(handle, format, [width, height, 0], flags) }
    }

    fn cudaMalloc3DArray(handle: *mut Handle, format: *const ChannelFormat, extent: Extent, flags: c_uint) {
        // SAFETY: as the caller promises.
        unsafe { create(handle, format, [extent.width, extent.height, extent.depth], flags) }
    }

    fn cudaFreeArray(handle: Handle) {
        if handle == 0 { Ok(()) } else { state()?.arrays.remove(handle)?.destroy() }
    }

    fn cudaGetChannelDesc(format: *mut ChannelFormat, handle: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(format, ChannelFormat::of(array(handle)?.format)) }
    }

    fn cudaArrayGetInfo(format: *mut ChannelFormat, extent: *mut Extent, flags: *mut c_uint, handle: Handle) {
        let array = array(handle)?;
        let [width, height, depth] = array.size;
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(format, ChannelFormat::of(array.format));
            put_if_wanted(extent, Extent { width, height, depth });
            put_if_wanted(flags, array.flags);
        }
        Ok(())
    }

    fn cudaMemcpy2DToArray(
        to: Handle,
        x_bytes: usize,
        y: usize,
        from: Pointer,
        pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) also cudaMemcpy2DToArray_ptds {
        submit(When::Now, rows(to_array((to, x_bytes, y), from, pitch, kind)?, width, height)?)
    }

    fn cudaMemcpy2DToArrayAsync(
        to: Handle,
        x_bytes: usize,
        y: usize,
        from: Pointer,
        pitch: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpy2DToArrayAsync_ptsz {
        submit(stream, rows(to_array((to, x_bytes, y), from, pitch, kind)?, width, height)?)
    }

    fn cudaMemcpy2DFromArray(
        to: Pointer,
        pitch: usize,
        from: Handle,
        x_bytes: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: c_int,
    ) also cudaMemcpy2DFromArray_ptds {
        submit(When::Now, rows(from_array(to, pitch, (from, x_bytes, y), kind)?, width, height)?)
    }

    fn cudaMemcpy2DFromArrayAsync(
        to: Pointer,
        pitch: usize,
        from: Handle,
        x_bytes: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpy2DFromArrayAsync_ptsz {
        submit(stream, rows(from_array(to, pitch, (from, x_bytes, y), kind)?, width, height)?)
    }

    fn cudaMemcpyToArray(to: Handle, x_bytes: usize, y: usize, from: Pointer, bytes: usize, kind: c_int)
        also cudaMemcpyToArray_ptds {
        submit(When::Now, run(to_array((to, x_bytes, y), from, 0, kind)?, bytes)?)
    }

    fn cudaMemcpyToArrayAsync(
        to: Handle,
        x_bytes: usize,
        y: usize,
        from: Pointer,
        bytes: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpyToArrayAsync_ptsz {
        submit(stream, run(to_array((to, x_bytes, y), from, 0, kind)?, bytes)?)
    }

    fn cudaMemcpyFromArray(to: Pointer, from: Handle, x_bytes: usize, y: usize, bytes: usize, kind: c_int)
        also cudaMemcpyFromArray_ptds {
        submit(When::Now, run(from_array(to, 0, (from, x_bytes, y), kind)?, bytes)?)
    }

    fn cudaMemcpyFromArrayAsync(
        to: Pointer,
        from: Handle,
        x_bytes: usize,
        y: usize,
        bytes: usize,
        kind: c_int,
        stream: Handle,
    ) also cudaMemcpyFromArrayAsync_ptsz {
        submit(stream, run(from_array(to, 0, (from, x_bytes, y), kind)?, bytes)?)
    }

    fn cudaMemcpyArrayToArray(
        to: Handle,
        to_x: usize,
        to_y: usize,
        from: Handle,
        from_x: usize,
        from_y: usize,
        bytes: usize,
        _kind: c_int,
    ) also cudaMemcpyArrayToArray_ptds {
        let sides = (CopySide::in_array(to, [to_x, to_y, 0]), CopySide::in_array(from, [from_x, from_y, 0]));
        submit(0, run(sides, bytes)?)
    }

    fn cudaMemcpy2DArrayToArray(
        to: Handle,
        to_x: usize,
        to_y: usize,
        from: Handle,
        from_x: usize,
        from_y: usize,
        width: usize,
        height: usize,
        _kind: c_int,
    ) also cudaMemcpy2DArrayToArray_ptds {
        let sides = (CopySide::in_array(to, [to_x, to_y, 0]), CopySide::in_array(from, [from_x, from_y, 0]));
        submit(0, rows(sides, width, height)?)
    }

    fn cudaCreateTextureObject(
        texture: *mut u64,
        resource: *const ResourceParams,
        params: *const TextureParams,
        view: *const c_void,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let resource = resource.as_ref().ok_or(Code::INVALID_VALUE)?;
            let sampling = params.as_ref().ok_or(Code::INVALID_VALUE)?.sampling()?;
            if !view.is_null() {
                return Err(Code::NOT_SUPPORTED);
            }
            put(texture, resource.described()?.texture(sampling)?)
        }
    }

    fn cudaDestroyTextureObject(texture: u64) {
        destroy_texture(texture)
    }

    fn cudaGetTextureObjectResourceDesc(resource: *mut ResourceParams, texture: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(resource, ResourceParams::of(&self::texture(texture)?.0)) }
    }

    fn cudaGetTextureObjectTextureDesc(params: *mut TextureParams, texture: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(params, TextureParams::of(self::texture(texture)?.1)) }
    }

    // No texture has a view.
    fn cudaGetTextureObjectResourceViewDesc(_view: *mut c_void, _texture: u64) {
        Err(Code::INVALID_VALUE)
    }

    fn cudaGetSurfaceObjectResourceDesc(resource: *mut ResourceParams, surface: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(resource, ResourceParams::of(&resource_of_surface(surface)?)) }
    }

    fn cudaCreateSurfaceObject(surface: *mut u64, resource: *const ResourceParams) {
        // SAFETY: as the caller promises.
        unsafe {
            put(surface, resource.as_ref().ok_or(Code::INVALID_VALUE)?.described()?.surface()?)
        }
    }

    // It lives as long as its array.
    fn cudaDestroySurfaceObject(_surface: u64) {
        Ok(())
    }
}

// Layouts that programs rely on, by `driver_types.h` on a 64-bit machine.
const _: () =
    assert!(std::mem::offset_of!(ResourceParams, size) == 40 && std::mem::offset_of!(ResourceParams, format) == 16);
const _: () = assert!(std::mem::offset_of!(TextureParams, normalised_coordinates) == 40);
const _: () = assert!(size_of::<ResourceParams>() == 144 && size_of::<TextureParams>() == 72);
