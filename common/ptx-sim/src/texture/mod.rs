//! Texture and surface objects: the host's description of them, and the result of reading at a coordinate.
//!
//! No executor here: `sample` finds the texels of a coordinate and their weights, `texel` decodes a texel's bytes. An object's
//! texels lie in device memory, row after row, layer after layer, each row padded to 16 bytes. Hardware lays arrays out in
//! tiles that NVIDIA does not document, so sectors that a profile counts for them are those of this layout.

mod objects;
mod sample;
mod texel;

pub(crate) use objects::{Object, ObjectKind, Objects, Slot};
pub(crate) use sample::{Coordinates, Footprint, MAX_TEXELS, corners, footprint};

/// Shape of an object, in texels: `(width)`, `(width, height)`, `(width, height, depth)`; layered ones have the number of
/// their layers last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Linear memory, which kernels index with `tex1Dfetch` only: no filter, no address modes, and 0 past its end.
    Linear(u32),
    /// `cudaArray` of one dimension.
    OneD(u32),
    /// `cudaArray` of two dimensions.
    TwoD(u32, u32),
    /// `cudaArray` of three dimensions.
    ThreeD(u32, u32, u32),
    /// Layers of one dimension.
    OneDLayered(u32, u32),
    /// Layers of two dimensions.
    TwoDLayered(u32, u32, u32),
    /// A cube of six square faces, each a layer: +x, -x, +y, -y, +z, -z. Only textures are cubes.
    Cube(u32),
    /// So many cubes, each with six layers.
    CubeLayered(u32, u32),
}

impl Extent {
    /// Width, height and depth; 1 along a missing axis.
    pub(crate) fn size(self) -> [u32; 3] {
        match self {
            Self::Linear(width) | Self::OneD(width) | Self::OneDLayered(width, _) => [width, 1, 1],
            Self::TwoD(width, height) | Self::TwoDLayered(width, height, _) => [width, height, 1],
            Self::ThreeD(width, height, depth) => [width, height, depth],
            Self::Cube(width) | Self::CubeLayered(width, _) => [width, width, 1],
        }
    }

    /// Number of layers; 1 without any.
    pub(crate) fn layers(self) -> u32 {
        match self {
            Self::OneDLayered(_, layers) | Self::TwoDLayered(_, _, layers) => layers,
            Self::Cube(_) => 6,
            Self::CubeLayered(_, cubes) => cubes.saturating_mul(6),
            _ => 1,
        }
    }

    /// Maximum width, height, depth and layers on a device of compute capability 9.0 (CUDA C++ Programming Guide,
    /// "Technical Specifications per Compute Capability").
    fn limits(self) -> [u32; 4] {
        match self {
            Self::Linear(_) => [1 << 28, 1, 1, 1],
            Self::OneD(_) => [131_072, 1, 1, 1],
            Self::TwoD(..) => [131_072, 65_536, 1, 1],
            Self::ThreeD(..) => [16_384, 16_384, 16_384, 1],
            Self::OneDLayered(..) => [32_768, 1, 1, 2048],
            Self::TwoDLayered(..) => [32_768, 32_768, 1, 2048],
            Self::Cube(_) | Self::CubeLayered(..) => [32_768, 32_768, 1, 2046],
        }
    }

    /// The name of the geometry in PTX; linear memory is `1d`.
    pub(crate) fn geometry(self) -> Geometry {
        match self {
            Self::Linear(_) | Self::OneD(_) => Geometry::OneD,
            Self::TwoD(..) => Geometry::TwoD,
            Self::ThreeD(..) => Geometry::ThreeD,
            Self::OneDLayered(..) => Geometry::OneDLayered,
            Self::TwoDLayered(..) => Geometry::TwoDLayered,
            Self::Cube(_) => Geometry::Cube,
            Self::CubeLayered(..) => Geometry::CubeLayered,
        }
    }
}

/// The geometry that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Geometry {
    OneD,
    TwoD,
    ThreeD,
    OneDLayered,
    TwoDLayered,
    Cube,
    CubeLayered,
}

impl Geometry {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "1d" => Self::OneD,
            "2d" => Self::TwoD,
            "3d" => Self::ThreeD,
            "a1d" => Self::OneDLayered,
            "a2d" => Self::TwoDLayered,
            "cube" => Self::Cube,
            "acube" => Self::CubeLayered,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneD => "1d",
            Self::TwoD => "2d",
            Self::ThreeD => "3d",
            Self::OneDLayered => "a1d",
            Self::TwoDLayered => "a2d",
            Self::Cube => "cube",
            Self::CubeLayered => "acube",
        }
    }

    pub(crate) fn is_layered(self) -> bool {
        matches!(self, Self::OneDLayered | Self::TwoDLayered | Self::CubeLayered)
    }

    pub(crate) fn is_cube(self) -> bool {
        matches!(self, Self::Cube | Self::CubeLayered)
    }

    /// Coordinates without the layer; for cubes, of a direction.
    pub(crate) fn dimensions(self) -> usize {
        match self {
            Self::OneD | Self::OneDLayered => 1,
            Self::TwoD | Self::TwoDLayered => 2,
            Self::ThreeD | Self::Cube | Self::CubeLayered => 3,
        }
    }
}

/// Meaning of a channel's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// Unsigned integers.
    Unsigned,
    /// Integers in two's complement.
    Signed,
    /// Floats: half of 16 bits, single of 32.
    Float,
}

/// Format of a texel. A missing channel reads as 0, the fourth as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TexelFormat {
    /// 1, 2 or 4.
    pub channels: u8,
    /// Bits of a channel: 8, 16 or 32.
    pub bits: u8,
    /// Meaning of the bits.
    pub kind: ChannelKind,
}

impl TexelFormat {
    /// Bytes of a texel.
    #[must_use]
    pub fn bytes(self) -> u64 {
        u64::from(self.channels) * u64::from(self.bits / 8)
    }
}

/// Texels that a coordinate reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// The one that it lies in.
    #[default]
    Point,
    /// The two, four or eight around it, weighted by distance in steps of 1/256.
    Linear,
}

/// Behaviour of a coordinate outside an object, along one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The texel at the other end on, periodically. With coordinates in texels the same as `Clamp`.
    Wrap,
    /// The texel at the edge.
    #[default]
    Clamp,
    /// Back and forth. With coordinates in texels the same as `Clamp`.
    Mirror,
    /// The border's colour.
    Border,
}

/// Sampling of a texture (`cudaTextureDesc`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Texels that a coordinate reads.
    pub filter: Filter,
    /// Behaviour beyond the edges, by axis.
    pub address: [AddressMode; 3],
    /// Whether coordinates go from 0 to 1 along each axis, not from 0 to the number of texels.
    pub normalised_coordinates: bool,
    /// Whether integers of 8 and 16 bits are read as floats from 0 or -1 to 1 (`cudaReadModeNormalizedFloat`).
    pub normalised_float: bool,
    /// The border's colour.
    pub border: [f32; 4],
}

/// Description of a texture.
#[derive(Clone, Debug, PartialEq)]
pub struct TextureDescriptor {
    /// Shape.
    pub extent: Extent,
    /// Format of its texels.
    pub format: TexelFormat,
    /// Sampling.
    pub sampling: Sampling,
    /// Name in diagnostics.
    pub label: String,
}

/// Description of a surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurfaceDescriptor {
    /// Shape; not [`Extent::Linear`].
    pub extent: Extent,
    /// Format of its texels.
    pub format: TexelFormat,
    /// Name in diagnostics.
    pub label: String,
}

/// A texture or surface of a device, as passed to kernels: `cudaTextureObject_t` or `cudaSurfaceObject_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectHandle(pub u64);

/// Reason why the host cannot have or use a texture or surface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The requested object does not exist on hardware.
    #[error("`{label}`: {message}")]
    Invalid {
        /// Requested label of the object.
        label: String,
        /// The conflicting properties.
        message: String,
    },
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] crate::MemoryError),
    /// The handle belongs to no object, or no longer.
    #[error("{:#x} is not the handle of {expected}", handle.0)]
    Handle {
        /// The handle.
        handle: ObjectHandle,
        /// Expected kind of object.
        expected: &'static str,
    },
    /// The number of bytes does not match the object.
    #[error("{given} bytes for `{label}`, which has {expected}")]
    Size {
        /// The object.
        label: String,
        /// Number of bytes passed.
        given: u64,
        /// Bytes of all its texels.
        expected: u64,
    },
}

/// Checks a shape and a format; the error describes the problem.
fn check(extent: Extent, format: TexelFormat, sampling: Option<&Sampling>) -> Result<(), String> {
    let TexelFormat { channels, bits, kind } = format;
    if !matches!(channels, 1 | 2 | 4) || !matches!(bits, 8 | 16 | 32) || bits == 8 && kind == ChannelKind::Float {
        return Err(format!("there is no texel of {channels} channels of {bits} bits as {kind:?}"));
    }
    let [width, height, depth] = extent.size();
    for ((what, size), limit) in ["width", "height", "depth", "number of layers"]
        .iter()
        .zip([width, height, depth, extent.layers()])
        .zip(extent.limits())
    {
        if size == 0 || size > limit {
            return Err(format!("a {what} of {size}, where 1 to {limit} are possible"));
        }
    }
    let Some(sampling) = sampling else {
        return match extent {
            Extent::Linear(_) | Extent::Cube(_) | Extent::CubeLayered(..) => {
                Err("linear memory is no surface, nor is a cube, whose faces are layers".into())
            }
            _ => Ok(()),
        };
    };
    let floats = kind == ChannelKind::Float || sampling.normalised_float;
    if sampling.normalised_float && (kind == ChannelKind::Float || bits == 32) {
        return Err("only integers of 8 and 16 bits are read as normalised floats".into());
    }
    if sampling.filter == Filter::Linear && !floats {
        return Err("only floats, and what is read as floats, can be filtered".into());
    }
    if matches!(extent, Extent::Linear(_)) && (sampling.filter == Filter::Linear || sampling.normalised_coordinates) {
        return Err("linear memory is read texel by texel".into());
    }
    Ok(())
}
