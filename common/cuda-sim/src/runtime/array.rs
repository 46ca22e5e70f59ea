//! Arrays, textures and surfaces.

use std::ffi::{c_int, c_uint, c_void};

use ptx_sim::{AddressMode, ChannelKind, Filter, Sampling, TexelFormat};

use super::memory::{Extent, kind, sides};
use super::runtime;
use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::api::{put, put_if_wanted};
use crate::array::{array, destroy_texture, linear_texture, pitched_texture};
use crate::queue::{When, submit};
use crate::state::{Array, state};
use crate::work::{Place, Work};

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
struct Resource {
    resource_type: c_int,
    /// Array, or address of memory.
    target: u64,
    format: ChannelFormat,
    /// Bytes of linear memory; or width and height in texels, and pitch in bytes.
    size: [usize; 3],
}

/// `cudaResourceType`
const ARRAY: c_int = 0;
const LINEAR: c_int = 2;
const PITCHED: c_int = 3;

/// `cudaTextureDesc`, as far as it counts without mipmaps.
#[repr(C)]
struct TextureParams {
    address: [c_int; 3],
    filter: c_int,
    read_mode: c_int,
    srgb: c_int,
    border: [f32; 4],
    normalised_coordinates: c_int,
}

impl TextureParams {
    fn sampling(&self) -> Outcome<Sampling> {
        let mode = |mode| match mode {
            0 => AddressMode::Wrap,
            2 => AddressMode::Mirror,
            3 => AddressMode::Border,
            _ => AddressMode::Clamp,
        };
        if self.srgb != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(Sampling {
            filter: if self.filter == 0 { Filter::Point } else { Filter::Linear },
            address: self.address.map(mode),
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

/// A byte of an array: offset in its row, and the row.
type Position = (Handle, usize, usize);

/// A copy of rows between an array and memory. `kind` names the side of the memory.
fn copy(
    (handle, x_bytes, y): Position,
    (memory, pitch): (Pointer, usize),
    bytes: usize,
    rows: usize,
    kind: c_int,
    to_array: bool,
) -> Outcome<Work> {
    let array = array(handle)?;
    if x_bytes + bytes > array.size[0] * array.texel_bytes() || y + rows > array.rows() * array.size[2].max(1) {
        return Err(Code::INVALID_VALUE);
    }
    let there = array.place(x_bytes, y, 0);
    let Place::Device(address) = there else { return Err(Code::UNKNOWN) };
    Ok(if to_array {
        let (to, from) = sides(address, memory, kind)?;
        Work::Copy { to, from, bytes, rows, to_pitch: array.pitch, from_pitch: pitch }
    } else {
        let (to, from) = sides(memory, address, kind)?;
        Work::Copy { to, from, bytes, rows, to_pitch: pitch, from_pitch: array.pitch }
    })
}

/// A copy of bytes in the order of an array's rows, which begins at the first byte of one.
fn run(position: Position, memory: Pointer, bytes: usize, kind: c_int, to_array: bool) -> Outcome<Work> {
    let array = array(position.0)?;
    let row = array.size[0] * array.texel_bytes();
    let whole = copy((position.0, 0, position.2), (memory, row), row, bytes / row, kind, to_array)?;
    if position.1 != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    let rest = bytes % row;
    if rest == 0 {
        return Ok(whole);
    }
    let done = bytes - rest;
    let last = copy((position.0, 0, position.2 + bytes / row), (memory + done as u64, row), rest, 1, kind, to_array)?;
    Ok(Work::Sequence(vec![whole, last]))
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
        submit(When::Now, copy((to, x_bytes, y), (from, pitch), width, height, kind, true)?)
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
        submit(stream, copy((to, x_bytes, y), (from, pitch), width, height, kind, true)?)
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
        submit(When::Now, copy((from, x_bytes, y), (to, pitch), width, height, kind, false)?)
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
        submit(stream, copy((from, x_bytes, y), (to, pitch), width, height, kind, false)?)
    }

    fn cudaMemcpyToArray(to: Handle, x_bytes: usize, y: usize, from: Pointer, bytes: usize, kind: c_int)
        also cudaMemcpyToArray_ptds {
        submit(When::Now, run((to, x_bytes, y), from, bytes, kind, true)?)
    }

    fn cudaMemcpyFromArray(to: Pointer, from: Handle, x_bytes: usize, y: usize, bytes: usize, kind: c_int)
        also cudaMemcpyFromArray_ptds {
        submit(When::Now, run((from, x_bytes, y), to, bytes, kind, false)?)
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
        let from = array(from)?;
        let Place::Device(source) = from.place(from_x, from_y, 0) else { return Err(Code::UNKNOWN) };
        let on_device = kind::DEVICE_TO_DEVICE;
        submit(0, copy((to, to_x, to_y), (source, from.pitch), width, height, on_device, true)?)
    }

    fn cudaCreateTextureObject(
        texture: *mut u64,
        resource: *const Resource,
        params: *const TextureParams,
        view: *const c_void,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let resource = resource.as_ref().ok_or(Code::INVALID_VALUE)?;
            let sampling = params.as_ref().ok_or(Code::INVALID_VALUE)?.sampling()?;
            let created = match resource.resource_type {
                _ if !view.is_null() => return Err(Code::NOT_SUPPORTED),
                ARRAY => array(resource.target as Handle)?.texture(sampling)?,
                LINEAR => {
                    let format = resource.format.texel()?;
                    linear_texture(resource.target, resource.size[0] / format.bytes() as usize, format, sampling)?
                }
                PITCHED => pitched_texture(resource.target, resource.size, resource.format.texel()?, sampling)?,
                _ => return Err(Code::NOT_SUPPORTED), // mipmaps
            };
            put(texture, created)
        }
    }

    fn cudaDestroyTextureObject(texture: u64) {
        destroy_texture(texture)
    }

    fn cudaCreateSurfaceObject(surface: *mut u64, resource: *const Resource) {
        // SAFETY: as the caller promises.
        unsafe {
            let resource = resource.as_ref().ok_or(Code::INVALID_VALUE)?;
            if resource.resource_type != ARRAY {
                return Err(Code::INVALID_VALUE);
            }
            put(surface, array(resource.target as Handle)?.surface())
        }
    }

    // It lives as long as its array.
    fn cudaDestroySurfaceObject(_surface: u64) {
        Ok(())
    }
}

// Layouts that programs rely on, by `driver_types.h` on a 64-bit machine.
const _: () = assert!(std::mem::offset_of!(Resource, size) == 40 && std::mem::offset_of!(Resource, format) == 16);
const _: () = assert!(std::mem::offset_of!(TextureParams, normalised_coordinates) == 40);
