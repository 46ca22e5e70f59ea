//! Arrays, and the textures and surfaces through which kernels read and write them.

use ptx_sim::{
    DevicePtr, Extent, ObjectError, ObjectHandle, Sampling, SurfaceDescriptor, TexelFormat, TextureDescriptor,
};

use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::queue::{Wanted, finish};
use crate::state::{Array, refused, say, state};
use crate::work::Place;

/// Flags of `cudaMalloc3DArray`, which are those of `CUDA_ARRAY3D`.
const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
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
        if flags & !(LAYERED | SURFACE | GATHER) != 0 {
            return Err(Code::NOT_SUPPORTED); // cubes, sparse arrays
        }
        let [width, height, depth] = size.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        let extent = match (flags & LAYERED != 0, height, depth) {
            (true, 0, layers) => Extent::OneDLayered(width, layers),
            (true, height, layers) => Extent::TwoDLayered(width, height, layers),
            (false, 0, _) => Extent::OneD(width),
            (false, height, 0) => Extent::TwoD(width, height),
            (false, height, depth) => Extent::ThreeD(width, height, depth),
        };
        let label = format!("array of {width} x {} x {}", height.max(1), depth.max(1));
        let rows = size[1].max(1) * size[2].max(1);
        let bytes = size[0].checked_mul(rows).and_then(|texels| texels.checked_mul(format.bytes() as usize));
        let zeros = vec![0; bytes.filter(|bytes| *bytes <= 16 << 30).ok_or(Code::OUT_OF_MEMORY)?];
        let device = &state()?.device;
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

    /// The place of a byte of a row, of a slice or layer.
    pub(crate) fn place(&self, x_bytes: usize, y: usize, z: usize) -> Place {
        Place::Device(self.base).offset(x_bytes + (y + z * self.rows()) * self.pitch)
    }

    /// The surface of the array, which lives as long.
    pub(crate) fn surface(&self) -> u64 {
        self.surface.0
    }

    /// A texture that reads the array.
    pub(crate) fn texture(&self, sampling: Sampling) -> Outcome<u64> {
        state()?.device.texture_of(self.surface, sampling).map(|texture| texture.0).map_err(told)
    }

    /// Frees the array's memory, once the textures over it are destroyed.
    pub(crate) fn destroy(&self) -> Outcome {
        finish(Wanted::All)?;
        state()?.device.destroy_object(self.surface).map_err(told)
    }
}

/// The array of a handle.
pub(crate) fn array(handle: Handle) -> Outcome<std::sync::Arc<Array>> {
    state()?.arrays.get(handle)
}

/// A texture over memory of the device, which kernels read texel by texel.
pub(crate) fn linear_texture(pointer: Pointer, texels: usize, format: TexelFormat, sampling: Sampling) -> Outcome<u64> {
    let extent = Extent::Linear(u32::try_from(texels).map_err(|_| Code::INVALID_VALUE)?);
    let texture = TextureDescriptor { extent, format, sampling, label: "texture of linear memory".to_owned() };
    state()?.device.bind_texture(&texture, DevicePtr(pointer)).map(|texture| texture.0).map_err(told)
}

/// A texture over rows of memory of the device.
pub(crate) fn pitched_texture(
    pointer: Pointer,
    [width, height, pitch]: [usize; 3],
    format: TexelFormat,
    sampling: Sampling,
) -> Outcome<u64> {
    let small = |size: usize| u32::try_from(size).map_err(|_| Code::INVALID_VALUE);
    let extent = Extent::TwoD(small(width)?, small(height)?);
    let texture = TextureDescriptor { extent, format, sampling, label: "texture of rows".to_owned() };
    let bound = state()?.device.bind_pitched_texture(&texture, DevicePtr(pointer), pitch as u64);
    bound.map(|texture| texture.0).map_err(told)
}

/// Destroys a texture.
pub(crate) fn destroy_texture(texture: u64) -> Outcome {
    finish(Wanted::All)?;
    state()?.device.destroy_object(ObjectHandle(texture)).map_err(told)
}
