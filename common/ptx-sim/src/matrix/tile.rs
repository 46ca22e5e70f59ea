//! Tiles of A and B in shared memory, as `wgmma` and `tcgen05.mma` read them.
//!
//! A row of A, or a column of B, has 256 bits of k (for B, twice that if A is sparse). Memory is cut into chunks of 16 bytes:
//! eight neighbours along k (*K-major*) or, for 16-bit elements, across it (*MN-major*, "transposed"). A descriptor locates the
//! chunks. With W bytes of the swizzle (16: none), `mn` the row of A or column of B, and the two offsets of the descriptor,
//! leading and stride:
//!
//! ```text
//!   K-major:   chunk (mn, c), c = k / chunk's elements       MN-major:  chunk (c, k), c = mn / 8
//!     mn % 8 · W  +  mn / 8 · stride                           k % 8 · W  +  c % (W / 16) · 16
//!     c % (W / 16) · 16  +  c / (W / 16) · leading             + c / (W / 16) · leading  +  k / 8 · stride
//!                                                              (without swizzle leading and stride trade places)
//! ```
//!
//! A swizzle exchanges the chunks within a line of W bytes: address bits 4 … 6 are XORed with bits 7 … 9 (128 bytes), 4 … 5
//! with 7 … 8 (64), or 4 with 7 (32). These are bits of the address, so a tile begins at a multiple of 8 · W, unless the
//! descriptor's base offset gives the number of lines by which the pattern is shifted.
//!
//! `tcgen05` has one more for MN-major tiles, of 128 bytes with *atoms* of 32: pairs of chunks are exchanged, bits 5 … 6 with 7 … 8.
//! Its pattern has four lines, and so the steps of k count by four instead of eight (CUTLASS, `mma_sm100_desc.hpp`).

use super::number;
use crate::scalar::Scalar;
use crate::scalar::half::{Bf16, F16, Half};
use crate::trace::ProductTile;

/// Bytes of a chunk.
const CHUNK: u64 = 16;

/// A matrix descriptor (PTX ISA, "Matrix Descriptor Format").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) bits: u64,
    /// Bytes of a line within which chunks are exchanged: 128, 64, 32, or 16 without swizzle.
    pub(super) swizzle: u64,
    /// Bytes that a swizzle leaves together: 16 or 32.
    pub(super) atom: u64,
}

impl Descriptor {
    /// Descriptor of a `wgmma`.
    pub(crate) fn of_wgmma(bits: u64) -> Self {
        let swizzle = match bits >> 62 {
            0 => 16,
            1 => 128,
            2 => 64,
            _ => 32,
        };
        Self { bits, swizzle, atom: 16 }
    }

    /// 14 bits that count 16 bytes.
    fn field(self, bit: u32) -> u64 {
        (self.bits >> bit & 0x3fff) << 4
    }

    /// Start of the tile in shared memory.
    pub(crate) fn start(self) -> u64 {
        self.field(0)
    }

    /// The leading dimension byte offset.
    pub(crate) fn leading(self) -> u64 {
        self.field(16)
    }

    /// The stride dimension byte offset.
    pub(crate) fn stride(self) -> u64 {
        self.field(32)
    }

    /// Number of lines of 128 bytes by which the pattern of the swizzle is shifted.
    pub(crate) fn base_offset(self) -> u64 {
        self.bits >> 49 & 7
    }

    /// Bytes of a line within which chunks are exchanged: 128, 64, 32, or 16 without swizzle.
    pub(crate) fn swizzle(self) -> u64 {
        self.swizzle
    }

    /// Whether the swizzle leaves pairs of chunks together.
    pub(super) fn has_wide_atoms(self) -> bool {
        self.atom != CHUNK
    }

    /// Swizzled address of the chunk that a plain layout has at `address`.
    fn swizzled(self, address: u64) -> u64 {
        let line = (address >> 7).wrapping_sub(self.base_offset()) & (self.swizzle / self.atom - 1);
        address ^ (line * self.atom)
    }
}

impl std::fmt::Display for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (start, leading, stride) = (self.start(), self.leading(), self.stride());
        write!(f, "start {start:#x}, leading offset {leading}, stride offset {stride}, ")?;
        match self.swizzle() {
            16 => write!(f, "no swizzle"),
            bytes if self.has_wide_atoms() => write!(f, "swizzle of {bytes} bytes with atoms of {}", self.atom),
            bytes => write!(f, "swizzle of {bytes} bytes"),
        }
    }
}

/// A or B in shared memory, or the rows of a copy to tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(super) number: Scalar,
    /// Rows of A or columns of B.
    pub(crate) extent: usize,
    /// In units (see `Scalar::elements_a_unit`).
    pub(super) k: usize,
    pub(super) mn_major: bool,
    /// Whether a chunk has 16 elements of less than 8 bits, packed, and then nothing (as TMA unpacks them).
    pub(super) padded: bool,
}

impl Tile {
    /// Units in a chunk of 16 bytes.
    fn units(self) -> usize {
        if self.padded { 16 } else { 4 * self.number.units_a_register() }
    }

    /// The chunks: rows or columns first and then along k, or the other way round.
    fn chunks(self) -> impl Iterator<Item = (usize, usize)> {
        let (outer, inner) =
            if self.mn_major { (self.k, self.extent / self.units()) } else { (self.extent, self.k / self.units()) };
        (0..outer).flat_map(move |at| (0..inner).map(move |chunk| (at, chunk)))
    }

    /// Address of a chunk: `at` counts rows, or steps of k of an MN-major tile, `chunk` the chunks along the other axis.
    fn address(self, descriptor: Descriptor, at: usize, chunk: usize) -> u64 {
        let (at, chunk, width) = (at as u64, chunk as u64, descriptor.swizzle());
        let (mut across, mut along) = (descriptor.stride(), descriptor.leading());
        if self.mn_major && width == 16 {
            (across, along) = (along, across);
        }
        let lines = if descriptor.has_wide_atoms() { 4 } else { 8 };
        let line = width / CHUNK;
        let offset = at % lines * width + at / lines * across + chunk % line * CHUNK + chunk / line * along;
        descriptor.swizzled(descriptor.start() + offset)
    }

    /// Checks that `tcgen05` reads such a tile in the layout of a descriptor. The error says what it cannot be.
    pub(crate) fn check_layout(self, descriptor: Descriptor) -> Result<(), &'static str> {
        match (descriptor.has_wide_atoms(), self.mn_major) {
            (true, false) => {
                Err("its swizzle has atoms of 32 bytes, which only a transposed matrix (MN-major) may have")
            }
            (false, true) if self.number.bits() == 32 => {
                Err("a transposed matrix of 32-bit elements has the swizzle of 128 bytes with atoms of 32")
            }
            _ => Ok(()),
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(self) -> u64 {
        (self.extent * self.k / self.units() * 16) as u64
    }

    /// The addresses of its chunks of 16 bytes, each with its first row or column and its first k.
    pub(crate) fn addresses(self, descriptor: Descriptor) -> impl Iterator<Item = (u64, [usize; 2])> {
        self.chunks().map(move |(at, chunk)| {
            let elements = chunk * self.units();
            let place = if self.mn_major { [elements, at] } else { [at, elements] };
            (self.address(descriptor, at, chunk), place)
        })
    }

    /// For a picture: the tile of a warp's instruction at that step of a trace.
    pub(crate) fn shown(self, name: &'static str, descriptor: Descriptor, step: usize) -> ProductTile {
        let elements = self.number.elements_a_unit();
        let in_elements = |[at, k]: [usize; 2]| [at, k * elements];
        ProductTile {
            step,
            name,
            element: self.number.name(),
            extent: in_elements([self.extent, self.k]),
            mn_major: self.mn_major,
            descriptor: descriptor.bits,
            start: descriptor.start(),
            leading: descriptor.leading(),
            stride: descriptor.stride(),
            swizzle: descriptor.swizzle(),
            chunks: self.addresses(descriptor).map(|(at, place)| (at, in_elements(place))).collect(),
        }
    }

    /// The first chunk outside shared memory of `bytes` bytes: its address, and the row or column and the k.
    pub(crate) fn outside(self, descriptor: Descriptor, bytes: u64) -> Option<(u64, [usize; 2])> {
        self.addresses(descriptor).find(|(address, _)| address + 16 > bytes)
    }

    /// The elements by `index(row or column, k)`.
    #[inline(always)]
    fn decode<T: Copy + Default>(
        self,
        descriptor: Descriptor,
        read: &impl Fn(u64) -> u128,
        element: impl Fn(u64) -> T,
        index: impl Fn(usize, usize) -> usize,
    ) -> Vec<T> {
        let mut dense = vec![T::default(); self.extent * self.k];
        let (units, bits) = (self.units(), if self.padded { self.number.bits() as usize } else { 128 / self.units() });
        for (at, chunk) in self.chunks() {
            let bytes = read(self.address(descriptor, at, chunk));
            for unit in 0..units {
                let along = chunk * units + unit;
                let to = if self.mn_major { index(along, at) } else { index(at, along) };
                dense[to] = element((bytes >> (unit * bits)) as u64);
            }
        }
        dense
    }

    /// The elements by `index(row or column, k)`, if they are floats.
    #[inline(always)]
    pub(super) fn floats(
        self,
        descriptor: Descriptor,
        read: &impl Fn(u64) -> u128,
        index: impl Fn(usize, usize) -> usize,
    ) -> Option<Vec<f64>> {
        Some(match self.number {
            Scalar::F16 => self.decode(descriptor, read, |bits| F16::widen(bits & 0xffff).into(), index),
            Scalar::Bf16 => self.decode(descriptor, read, |bits| Bf16::widen(bits & 0xffff).into(), index),
            Scalar::Tf32 => self.decode(descriptor, read, number::tf32, index),
            Scalar::E4m3 => self.decode(descriptor, read, number::e4m3, index),
            Scalar::E5m2 => self.decode(descriptor, read, number::e5m2, index),
            Scalar::E2m3 => self.decode(descriptor, read, number::e2m3, index),
            Scalar::E3m2 => self.decode(descriptor, read, number::e3m2, index),
            Scalar::E2m1 => self.decode(descriptor, read, number::e2m1, index),
            _ => return None,
        })
    }

    /// The elements by `index(row or column, k)`, if they are integers or words of bits.
    #[inline(always)]
    pub(super) fn integers(
        self,
        descriptor: Descriptor,
        read: &impl Fn(u64) -> u128,
        index: impl Fn(usize, usize) -> usize,
    ) -> Vec<i32> {
        match self.number {
            Scalar::S8 => self.decode(descriptor, read, number::s8, index),
            Scalar::U8 => self.decode(descriptor, read, number::u8, index),
            _ => self.decode(descriptor, read, |bits| bits as i32, index),
        }
    }
}
