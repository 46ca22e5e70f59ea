//! Arrays, textures and surfaces.

use std::ffi::{c_int, c_uint, c_void};

use ptx_sim::{ChannelKind, Sampling, TexelFormat};

use crate::abi::{Code, CopySide, Handle, Outcome, Pointer};
use crate::api::{exported, put};
use crate::array::{
    address_mode, address_number, array, destroy_texture, filter_mode, filter_number, resource_of_surface, texture,
};
use crate::copy::run;
use crate::queue::{When, submit};
use crate::state::{Array, Resource, state};
use crate::work::Place;

/// `CUarray_format`, with the channels' bits and kind.
const FORMATS: [(c_int, u8, ChannelKind); 8] = [
    (0x01, 8, ChannelKind::Unsigned),
    (0x02, 16, ChannelKind::Unsigned),
    (0x03, 32, ChannelKind::Unsigned),
    (0x08, 8, ChannelKind::Signed),
    (0x09, 16, ChannelKind::Signed),
    (0x0a, 32, ChannelKind::Signed),
    (0x10, 16, ChannelKind::Float),
    (0x20, 32, ChannelKind::Float),
];

fn texel(format: c_int, channels: c_uint) -> Outcome<TexelFormat> {
    let found = FORMATS.iter().find(|(known, ..)| *known == format).ok_or(Code::NOT_SUPPORTED)?;
    let channels = u8::try_from(channels).map_err(|_| Code::INVALID_VALUE)?;
    Ok(TexelFormat { channels, bits: found.1, kind: found.2 })
}

/// The format's number, and its channels.
fn numbers(TexelFormat { channels, bits, kind }: TexelFormat) -> (c_int, c_uint) {
    let format = FORMATS.iter().find(|known| (known.1, known.2) == (bits, kind)).map_or(0, |known| known.0);
    (format, channels.into())
}

/// `CUDA_ARRAY_DESCRIPTOR`
#[repr(C)]
pub(crate) struct Descriptor {
    size: [usize; 2],
    format: c_int,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
pub(crate) struct Descriptor3d {
    size: [usize; 3],
    format: c_int,
    channels: c_uint,
    flags: c_uint,
}

impl Descriptor3d {
    fn of(array: &Array) -> Self {
        let (format, channels) = numbers(array.format);
        Self { size: array.size, format, channels, flags: array.flags }
    }

    fn create(&self) -> Outcome<Handle> {
        Ok(state()?.arrays.add(Array::new(texel(self.format, self.channels)?, self.size, self.flags)?))
    }
}

/// `CUDA_RESOURCE_DESC`
#[repr(C)]
pub(crate) struct ResourceParams {
    resource_type: c_int,
    /// Array, or address of memory.
    target: u64,
    format: c_int,
    channels: c_uint,
    /// Bytes of linear memory; or width and height in texels, and pitch in bytes.
    size: [usize; 3],
    reserved: [u64; 11],
    flags: c_uint,
}

impl ResourceParams {
    fn of(resource: &Resource) -> Self {
        let (resource_type, target, texel, size) = resource.description();
        let (format, channels) = texel.map_or((0, 0), numbers);
        Self { resource_type, target, format, channels, size, reserved: [0; 11], flags: 0 }
    }

    fn described(&self) -> Outcome<Resource> {
        Resource::new(self.resource_type, self.target, || texel(self.format, self.channels), self.size)
    }
}

/// `CUDA_TEXTURE_DESC`, as far as it counts without mipmaps.
#[repr(C)]
pub(crate) struct TextureParams {
    address: [c_int; 3],
    filter: c_int,
    flags: c_uint,
    mipmaps: [u32; 5],
    border: [f32; 4],
    reserved: [c_int; 12],
}

/// Flags of [`TextureParams`].
const READ_AS_INTEGER: c_uint = 1;
const NORMALISED_COORDINATES: c_uint = 2;
const SRGB: c_uint = 16;

impl TextureParams {
    fn of((resource, sampling): &(Resource, Sampling)) -> Self {
        let TexelFormat { kind, bits, .. } = resource.format();
        let mut flags = 0;
        if kind != ChannelKind::Float && bits < 32 && !sampling.normalised_float {
            flags |= READ_AS_INTEGER;
        }
        if sampling.normalised_coordinates {
            flags |= NORMALISED_COORDINATES;
        }
        Self {
            address: sampling.address.map(address_number),
            filter: filter_number(sampling.filter),
            flags,
            mipmaps: [0; 5],
            border: sampling.border,
            reserved: [0; 12],
        }
    }

    /// The sampling of a resource. Integers of 8 and 16 bits are read as floats unless a flag says otherwise.
    fn sampling(&self, resource: &Resource) -> Outcome<Sampling> {
        if self.flags & SRGB != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let format = resource.format();
        Ok(Sampling {
            filter: filter_mode(self.filter),
            address: self.address.map(address_mode),
            normalised_coordinates: self.flags & NORMALISED_COORDINATES != 0,
            normalised_float: self.flags & READ_AS_INTEGER == 0
                && format.kind != ChannelKind::Float
                && format.bits < 32,
            border: self.border,
        })
    }
}

/// A place in an array: a byte of its first row, from which a copy goes on in the order of rows.
fn at(array: Handle, offset: usize) -> CopySide {
    CopySide::in_array(array, [offset, 0, 0])
}

fn device(address: Pointer) -> CopySide {
    CopySide::rows(Place::Device(address), 0)
}

fn host(address: *const c_void) -> CopySide {
    CopySide::rows(Place::host(address), 0)
}

exported! {
    fn cuArrayCreate_v2(handle: *mut Handle, descriptor: *const Descriptor) {
        // SAFETY: as the caller promises.
        unsafe {
            let &Descriptor { size: [width, height], format, channels } = descriptor.as_ref().ok_or(Code::INVALID_VALUE)?;
            put(handle, Descriptor3d { size: [width, height, 0], format, channels, flags: 0 }.create()?)
        }
    }

    fn cuArray3DCreate_v2(handle: *mut Handle, descriptor: *const Descriptor3d) {
        // SAFETY: as the caller promises.
        unsafe { put(handle, descriptor.as_ref().ok_or(Code::INVALID_VALUE)?.create()?) }
    }

    fn cuArrayDestroy(handle: Handle) {
        state()?.arrays.remove(handle)?.destroy()
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut Descriptor, handle: Handle) {
        let Descriptor3d { size: [width, height, _], format, channels, .. } = Descriptor3d::of(&*array(handle)?);
        // SAFETY: a place of the caller's.
        unsafe { put(descriptor, Descriptor { size: [width, height], format, channels }) }
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut Descriptor3d, handle: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(descriptor, Descriptor3d::of(&*array(handle)?)) }
    }

    fn cuMemcpyDtoA_v2(to: Handle, offset: usize, from: Pointer, bytes: usize) {
        submit(0, run((at(to, offset), device(from)), bytes)?)
    }

    fn cuMemcpyAtoD_v2(to: Pointer, from: Handle, offset: usize, bytes: usize) {
        submit(0, run((device(to), at(from, offset)), bytes)?)
    }

    fn cuMemcpyHtoA_v2(to: Handle, offset: usize, from: *const c_void, bytes: usize) {
        submit(When::Now, run((at(to, offset), host(from)), bytes)?)
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, from: Handle, offset: usize, bytes: usize) {
        submit(When::Now, run((host(to), at(from, offset)), bytes)?)
    }

    fn cuMemcpyAtoA_v2(to: Handle, to_offset: usize, from: Handle, from_offset: usize, bytes: usize) {
        submit(0, run((at(to, to_offset), at(from, from_offset)), bytes)?)
    }

    fn cuMemcpyHtoAAsync_v2(to: Handle, offset: usize, from: *const c_void, bytes: usize, stream: Handle) {
        submit(stream, run((at(to, offset), host(from)), bytes)?)
    }

    fn cuMemcpyAtoHAsync_v2(to: *mut c_void, from: Handle, offset: usize, bytes: usize, stream: Handle) {
        submit(stream, run((host(to), at(from, offset)), bytes)?)
    }

    fn cuTexObjectCreate(
        texture: *mut u64,
        resource: *const ResourceParams,
        params: *const TextureParams,
        view: *const c_void,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let resource = resource.as_ref().ok_or(Code::INVALID_VALUE)?.described()?;
            let sampling = params.as_ref().ok_or(Code::INVALID_VALUE)?.sampling(&resource)?;
            if !view.is_null() {
                return Err(Code::NOT_SUPPORTED);
            }
            put(texture, resource.texture(sampling)?)
        }
    }

    fn cuTexObjectDestroy(texture: u64) {
        destroy_texture(texture)
    }

    fn cuTexObjectGetResourceDesc(resource: *mut ResourceParams, texture: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(resource, ResourceParams::of(&self::texture(texture)?.0)) }
    }

    fn cuTexObjectGetTextureDesc(params: *mut TextureParams, texture: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(params, TextureParams::of(&self::texture(texture)?)) }
    }

    // No texture has a view.
    fn cuTexObjectGetResourceViewDesc(_view: *mut c_void, _texture: u64) {
        Err(Code::INVALID_VALUE)
    }

    fn cuSurfObjectGetResourceDesc(resource: *mut ResourceParams, surface: u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(resource, ResourceParams::of(&resource_of_surface(surface)?)) }
    }

    fn cuSurfObjectCreate(surface: *mut u64, resource: *const ResourceParams) {
        // SAFETY: as the caller promises.
        unsafe { put(surface, resource.as_ref().ok_or(Code::INVALID_VALUE)?.described()?.surface()?) }
    }

    // It lives as long as its array.
    fn cuSurfObjectDestroy(_surface: u64) {
        Ok(())
    }
}

// Layouts that programs rely on, by `cuda.h` on a 64-bit machine.
const _: () = assert!(size_of::<Descriptor>() == 24 && size_of::<Descriptor3d>() == 40);
const _: () = assert!(std::mem::offset_of!(ResourceParams, size) == 24);
const _: () = assert!(std::mem::offset_of!(TextureParams, border) == 40);
const _: () = assert!(size_of::<ResourceParams>() == 144 && size_of::<TextureParams>() == 104);
