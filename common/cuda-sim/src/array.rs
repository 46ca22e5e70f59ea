//! Arrays, and the textures and surfaces through which kernels read and write them.

use std::ffi::c_int;
use std::sync::Arc;

use ptx_sim::{
    AddressMode, DevicePtr, Extent, Filter, ObjectError, ObjectHandle, Sampling, SurfaceDescriptor, TexelFormat,
    TextureDescriptor,
};

use crate::abi::{Code, Handle, Outcome};
use crate::queue::{Wanted, finish};
use crate::state::{Array, Resource, State, state};
use crate::tell::{locked, refused, say};

/// Flags of `cudaMalloc3DArray`, which are those of `CUDA_ARRAY3D`.
const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
const CUBEMAP: u32 = 4;
const GATHER: u32 = 8;

/// Prints why there is no such array, texture or surface.
fn told(error: ObjectError) -> Code {
    match error {
        ObjectError::Memory(error) => refused(&error),
        ObjectError::Handle { .. } => Code::INVALID_HANDLE,
        error => {
            say(&error.to_string());
            Code::INVALID_VALUE
        }
    }
}

impl Array {
    /// An array of zeros.
    pub(crate) fn new(format: TexelFormat, size: [usize; 3], flags: u32) -> Outcome<Self> {
        if flags & !(LAYERED | SURFACE | CUBEMAP | GATHER) != 0 {
            return Err(Code::NOT_SUPPORTED); // sparse arrays
        }
        let [width, height, depth] = size.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        if flags & CUBEMAP != 0 && (width != height || !depth.is_multiple_of(6) || (flags & LAYERED == 0 && depth != 6))
        {
            return Err(Code::INVALID_VALUE);
        }
        let extent = match (flags & (LAYERED | CUBEMAP) != 0, height, depth) {
            (true, 0, layers) => Extent::OneDLayered(width, layers),
            (true, height, layers) => Extent::TwoDLayered(width, height, layers),
            (false, 0, _) => Extent::OneD(width),
            (false, height, 0) => Extent::TwoD(width, height),
            (false, height, depth) => Extent::ThreeD(width, height, depth),
        };
        let label = format!("array of {width} x {} x {}", height.max(1), depth.max(1));
        let rows = size[1].max(1) * size[2].max(1);
        let bytes = size[0].checked_mul(rows).and_then(|texels| texels.checked_mul(format.bytes() as usize));
        let State { device, options, .. } = state()?;
        let bytes = bytes.filter(|bytes| *bytes as u64 <= options.memory).ok_or(Code::OUT_OF_MEMORY)?;
        let zeros = vec![0; bytes];
        let surface = device.create_surface(&SurfaceDescriptor { extent, format, label }, &zeros).map_err(told)?;
        let (base, pitch) = device.object_memory(surface).map_err(told)?;
        Ok(Self { surface, format, size, flags, base: base.0, pitch: pitch as usize })
    }

    /// Bytes of a texel.
    pub(crate) fn texel_bytes(&self) -> usize {
        self.format.bytes() as usize
    }

    /// Number of rows from a slice or layer to the next.
    pub(crate) fn rows(&self) -> usize {
        self.size[1].max(1)
    }

    /// Bytes of a row, number of rows, number of slices or layers.
    pub(crate) fn row_bytes_rows_planes(&self) -> [usize; 3] {
        [self.size[0] * self.texel_bytes(), self.rows(), self.size[2].max(1)]
    }

    /// Frees the array's memory, once the textures over it are destroyed.
    pub(crate) fn destroy(&self) -> Outcome {
        finish(Wanted::All)?;
        state()?.device.destroy_object(self.surface).map_err(told)
    }
}

/// The array of a handle.
pub(crate) fn array(handle: Handle) -> Outcome<Arc<Array>> {
    state()?.arrays.get(handle)
}

/// `CUresourcetype` and `cudaResourceType`
mod resource_type {
    pub(super) const ARRAY: i32 = 0;
    pub(super) const LINEAR: i32 = 2;
    pub(super) const PITCHED: i32 = 3;
}

impl Resource {
    /// A resource as both APIs describe it: an array's handle or an address; bytes, or width, height and pitch.
    pub(crate) fn new(
        resource_type: i32,
        target: u64,
        format: impl FnOnce() -> Outcome<TexelFormat>,
        [width, height, pitch]: [usize; 3],
    ) -> Outcome<Self> {
        Ok(match resource_type {
            resource_type::ARRAY => Self::Array(target as Handle, array(target as Handle)?),
            resource_type::LINEAR => Self::Linear { pointer: target, bytes: width, format: format()? },
            resource_type::PITCHED => {
                Self::Pitched { pointer: target, size: [width, height], pitch, format: format()? }
            }
            _ => return Err(Code::NOT_SUPPORTED), // mipmaps
        })
    }

    pub(crate) fn format(&self) -> TexelFormat {
        match self {
            Self::Array(_, array) => array.format,
            Self::Linear { format, .. } | Self::Pitched { format, .. } => *format,
        }
    }

    /// Creates a texture that reads it.
    pub(crate) fn texture(&self, sampling: Sampling) -> Outcome<u64> {
        let device = &state()?.device;
        let small = |size: usize| u32::try_from(size).map_err(|_| Code::INVALID_VALUE);
        let texture = match *self {
            Self::Array(_, ref array) => match (array.flags & CUBEMAP != 0, array.flags & LAYERED != 0) {
                (false, _) => device.texture_of(array.surface, sampling),
                (true, layered) => {
                    let [width, _, layers] = array.size.map(|size| size as u32);
                    let cubes = if layered { Extent::CubeLayered(width, layers / 6) } else { Extent::Cube(width) };
                    device.cubes_of(array.surface, cubes, sampling)
                }
            },
            Self::Linear { pointer, bytes, format } => {
                let extent = Extent::Linear(small(bytes / format.bytes() as usize)?);
                let label = "texture of linear memory".to_owned();
                device.bind_texture(&TextureDescriptor { extent, format, sampling, label }, DevicePtr(pointer))
            }
            Self::Pitched { pointer, size: [width, height], pitch, format } => {
                let extent = Extent::TwoD(small(width)?, small(height)?);
                let texture = TextureDescriptor { extent, format, sampling, label: "texture of rows".to_owned() };
                device.bind_pitched_texture(&texture, DevicePtr(pointer), pitch as u64)
            }
        };
        let texture = texture.map_err(told)?.0;
        locked(&state()?.textures).insert(texture, (self.clone(), sampling));
        Ok(texture)
    }

    /// The description from which [`Self::new`] makes it: type, handle or address, format of memory, size.
    pub(crate) fn description(&self) -> (i32, u64, Option<TexelFormat>, [usize; 3]) {
        match *self {
            Self::Array(handle, _) => (resource_type::ARRAY, handle as u64, None, [0; 3]),
            Self::Linear { pointer, bytes, format } => (resource_type::LINEAR, pointer, Some(format), [bytes, 0, 0]),
            Self::Pitched { pointer, size: [width, height], pitch, format } => {
                (resource_type::PITCHED, pointer, Some(format), [width, height, pitch])
            }
        }
    }

    /// The surface of an array, which lives as long as the array.
    pub(crate) fn surface(&self) -> Outcome<u64> {
        match self {
            Self::Array(_, array) => Ok(array.surface.0),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// The behaviour beyond an edge, by its number in both APIs.
pub(crate) fn address_mode(mode: c_int) -> AddressMode {
    match mode {
        0 => AddressMode::Wrap,
        2 => AddressMode::Mirror,
        3 => AddressMode::Border,
        _ => AddressMode::Clamp,
    }
}

/// The number of a behaviour beyond an edge.
pub(crate) fn address_number(mode: AddressMode) -> c_int {
    (0..4).find(|number| address_mode(*number) == mode).unwrap_or(1)
}

/// The filter of a number in both APIs.
pub(crate) fn filter_mode(mode: c_int) -> Filter {
    if mode == 0 { Filter::Point } else { Filter::Linear }
}

/// The number of a filter.
pub(crate) fn filter_number(filter: Filter) -> c_int {
    (filter == Filter::Linear).into()
}

/// The resource and the sampling of a texture.
pub(crate) fn texture(texture: u64) -> Outcome<(Resource, Sampling)> {
    locked(&state()?.textures).get(&texture).cloned().ok_or(Code::INVALID_VALUE)
}

/// The resource of a surface: the array whose memory it is.
pub(crate) fn resource_of_surface(surface: u64) -> Outcome<Resource> {
    let handle = state()?.arrays.find(|array| array.surface.0 == surface).map_err(|_| Code::INVALID_VALUE)?;
    Ok(Resource::Array(handle, array(handle)?))
}

/// Destroys a texture.
pub(crate) fn destroy_texture(texture: u64) -> Outcome {
    finish(Wanted::All)?;
    locked(&state()?.textures).remove(&texture);
    state()?.device.destroy_object(ObjectHandle(texture)).map_err(told)
}
