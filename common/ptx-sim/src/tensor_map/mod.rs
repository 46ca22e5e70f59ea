//! Tensor maps (`CUtensorMap`): properties of a tensor that a bulk copy of a box needs.
//!
//! A map is 128 bytes, opaque to the kernel. The host makes one from a [`TensorMapDescriptor`]; a kernel may set its fields
//! (`tensormap.replace`), also those of 128 zeros. The simulator's layout, little-endian:
//!
//! ```text
//!   0 address  8 kind: element, rank - 1, interleave, swizzle, fill, im2col, atomicity  16 box, 5 × u16  26 element strides, 5 × u8
//!  32 extents, 5 × u64  72 strides of dimensions 1 to 4, 4 × u64  104 corners of im2col, 6 × i16  116 channels, pixels, u16
//! ```

mod encoding;
mod tile;

use crate::memory::DevicePtr;
pub(crate) use encoding::Map;
pub(crate) use tile::Tile;

/// Bytes of a map.
pub const TENSOR_MAP_BYTES: usize = 128;

/// A map as passed to kernels: a `__grid_constant__ const CUtensorMap` parameter, or 128 bytes of global or constant memory
/// that are aligned to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct TensorMap(pub(crate) [u8; TENSOR_MAP_BYTES]);

impl TensorMap {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; TENSOR_MAP_BYTES] {
        &self.0
    }
}

/// The type of a tensor's elements. The numbers are those of `tensormap.replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are called as in PTX")]
pub enum TensorElement {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    S32 = 3,
    U64 = 4,
    S64 = 5,
    F16 = 6,
    F32 = 7,
    /// f32 with subnormals flushed to zero.
    F32Ftz = 8,
    F64 = 9,
    Bf16 = 10,
    /// f32 that is rounded to the 10 bits of mantissa that tensor cores use.
    Tf32 = 11,
    Tf32Ftz = 12,
    /// Two elements of 4 bits in a byte, in shared memory too.
    B4x16 = 13,
}

impl TensorElement {
    /// All types, each at its number.
    pub const ALL: [Self; 14] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::F32,
        Self::F32Ftz,
        Self::F64,
        Self::Bf16,
        Self::Tf32,
        Self::Tf32Ftz,
        Self::B4x16,
    ];

    /// Name in PTX.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::S32 => "s32",
            Self::U64 => "u64",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F32Ftz => "f32_ftz",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::Tf32Ftz => "tf32_ftz",
            Self::B4x16 => "b4x16",
        }
    }

    /// Bits of one element.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::B4x16 => 4,
            Self::U8 => 8,
            Self::U16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::S32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 32,
            Self::U64 | Self::S64 | Self::F64 => 64,
        }
    }

    /// Whether it is floating point.
    #[must_use]
    pub fn is_float(self) -> bool {
        !matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64 | Self::B4x16)
    }
}

/// Whether channels are in slices of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interleave {
    /// No slices.
    #[default]
    None,
    /// Slices of 16 bytes (NC/8HWC8 of 16-bit elements).
    Bytes16,
    /// Slices of 32 bytes.
    Bytes32,
}

/// Layout of a box in shared memory: chunks of 16 bytes are exchanged, so that a column of them is in different banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swizzle {
    /// No swizzling.
    #[default]
    None,
    /// Within 32 bytes: address bit 4 is flipped by bit 7.
    Bytes32,
    /// Within 64 bytes: bits 4 and 5 by bits 7 and 8.
    Bytes64,
    /// Within 128 bytes: bits 4 to 6 by bits 7 to 9.
    Bytes128,
    /// Within 128 bytes, in atoms of 32: bits 5 and 6 by bits 7 and 8. From compute capability 10.0 on, as the next two.
    Bytes128Atom32,
    /// The same, with the halves of each 16 bytes exchanged in every other line of 128: bit 3 by bit 7. For loads only.
    Bytes128Atom32Flip8,
    /// Within 128 bytes, in atoms of 64: bit 6 by bit 7.
    Bytes128Atom64,
}

impl Swizzle {
    /// All swizzles, in the order of `CUtensorMapSwizzle`.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Bytes32,
        Self::Bytes64,
        Self::Bytes128,
        Self::Bytes128Atom32,
        Self::Bytes128Atom32Flip8,
        Self::Bytes128Atom64,
    ];

    /// Bytes within which chunks are exchanged; `None` without swizzling.
    #[must_use]
    pub fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            Self::Bytes128 | Self::Bytes128Atom32 | Self::Bytes128Atom32Flip8 | Self::Bytes128Atom64 => Some(128),
        }
    }

    /// Bytes that are exchanged as one.
    fn atom(self) -> u64 {
        match self {
            Self::None | Self::Bytes32 | Self::Bytes64 | Self::Bytes128 => 16,
            Self::Bytes128Atom32 | Self::Bytes128Atom32Flip8 => 32,
            Self::Bytes128Atom64 => 64,
        }
    }

    /// Swizzled address of the byte at an address of shared memory (PTX ISA, "Swizzling Modes").
    #[must_use]
    pub fn apply(self, address: u64) -> u64 {
        let atoms = self.span().map_or(0, |span| span / self.atom() - 1);
        let flipped = if self == Self::Bytes128Atom32Flip8 { (address >> 7 & 1) << 3 } else { 0 };
        address ^ ((address >> 7 & atoms) * self.atom()) ^ flipped
    }
}

/// Contents of a box outside its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutsideFill {
    /// Zeros.
    #[default]
    Zero,
    /// NaNs, of floating-point elements.
    Nan,
}

/// Elements that one copy moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorWindow {
    /// A box with these numbers of elements along each dimension, fastest first; 1 to 256.
    Tiled(Vec<u32>),
    /// Pixels in the order in which a convolution visits them; the dimensions are C, W, H, D, N, without D or without H and D.
    Im2col {
        /// Start of the bounding box of pixels, along W, H, D.
        lower: Vec<i32>,
        /// End of the bounding box, counted from the last pixel.
        upper: Vec<i32>,
        /// Elements of each pixel; at most 256.
        channels: u32,
        /// At most 1024.
        pixels: u32,
    },
}

/// A tensor in global memory and the parts that copies move, with the parameters of `cuTensorMapEncodeTiled` and
/// `cuTensorMapEncodeIm2col`. Dimensions are in order of their strides, fastest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapDescriptor {
    /// Type of the elements.
    pub element: TensorElement,
    /// The first element; a multiple of 16.
    pub address: DevicePtr,
    /// Elements along each of one to five dimensions.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the first, whose elements have no gaps.
    pub strides: Vec<u64>,
    /// Elements that one copy moves.
    pub window: TensorWindow,
    /// Step between copied elements along each dimension, 1 to 8. That of the first dimension is ignored without
    /// interleaving.
    pub element_strides: Vec<u32>,
    /// Whether channels stand in slices.
    pub interleave: Interleave,
    /// Layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// Contents of a box outside the tensor.
    pub fill: OutsideFill,
}

/// A rule of tensor maps that a descriptor breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tensor map: {0}")]
pub struct TensorMapError(pub(crate) String);

impl TensorMapDescriptor {
    /// A map of tiles without swizzling or gaps: each copy moves a box of those sizes of a row-major tensor, fastest dimension
    /// first.
    #[must_use]
    pub fn tiled(element: TensorElement, address: DevicePtr, extents: &[u64], sizes: &[u32]) -> Self {
        let mut bits = element.bits();
        let strides = extents.iter().take(extents.len().saturating_sub(1)).map(|extent| {
            bits = bits.saturating_mul(*extent);
            bits / 8
        });
        Self {
            element,
            address,
            strides: strides.collect(),
            extents: extents.to_vec(),
            window: TensorWindow::Tiled(sizes.to_vec()),
            element_strides: vec![1; extents.len()],
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            fill: OutsideFill::Zero,
        }
    }

    /// Checks the rules of tensor maps.
    ///
    /// # Errors
    /// [`TensorMapError`] with the broken rule.
    pub fn check(&self) -> Result<(), TensorMapError> {
        self.map().map(drop)
    }

    /// The map.
    ///
    /// # Errors
    /// Same as [`Self::check`].
    pub fn encode(&self) -> Result<TensorMap, TensorMapError> {
        Ok(TensorMap(self.map()?.encode()))
    }

    fn map(&self) -> Result<Map, TensorMapError> {
        Map::new(self).map_err(TensorMapError)
    }
}
