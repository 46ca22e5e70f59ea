//! The fields of a map, their bytes, and their rules.

use super::{Interleave, OutsideFill, Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMapDescriptor, TensorWindow};
use crate::ir::MapField;

/// Maximum dimensions of a tensor.
pub(super) const DIMENSIONS: usize = 5;

/// A map's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    pub(super) element: TensorElement,
    pub(super) rank: usize,
    /// Address of the first element.
    pub(crate) address: u64,
    pub(super) extents: [u64; DIMENSIONS],
    /// Bytes; the first is an element's, rounded down.
    pub(super) strides: [u64; DIMENSIONS],
    pub(super) element_strides: [u32; DIMENSIONS],
    pub(super) interleave: Interleave,
    pub(super) swizzle: Swizzle,
    pub(super) fill: OutsideFill,
    pub(super) window: Window,
}

/// Elements that one copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Tiled([u32; DIMENSIONS]),
    Im2col { lower: [i32; 3], upper: [i32; 3], channels: u32, pixels: u32 },
}

const KIND: usize = 8;
const BOX: usize = 16;
const ELEMENT_STRIDES: usize = 26;
const EXTENTS: usize = 32;
const STRIDES: usize = 72;
const CORNERS: usize = 104;
const CHANNELS: usize = 116;

/// Bit fields of the word of kinds: first bit, and a mask.
const ELEMENT: (u32, u32) = (0, 15);
const RANK: (u32, u32) = (4, 7);
const INTERLEAVE: (u32, u32) = (8, 3);
const SWIZZLE: (u32, u32) = (12, 7);
const FILL: (u32, u32) = (16, 1);
const IM2COL: (u32, u32) = (20, 1);
const ATOMICITY: (u32, u32) = (24, 3);

/// A swizzle's mode and atomicity (`tensormap.replace`).
const fn codes(swizzle: Swizzle) -> (u32, u32) {
    match swizzle {
        Swizzle::None => (0, 0),
        Swizzle::Bytes32 => (1, 0),
        Swizzle::Bytes64 => (2, 0),
        Swizzle::Bytes128 => (3, 0),
        Swizzle::Bytes128Atom32 => (3, 1),
        Swizzle::Bytes128Atom32Flip8 => (3, 2),
        Swizzle::Bytes128Atom64 => (3, 3),
    }
}

fn fixed<const N: usize, T: Copy + Default>(from: &[T]) -> [T; N] {
    std::array::from_fn(|at| from.get(at).copied().unwrap_or_default())
}

impl Map {
    pub(super) fn new(descriptor: &TensorMapDescriptor) -> Result<Self, String> {
        let TensorMapDescriptor { element, address, extents, strides, window, element_strides, .. } = descriptor;
        let rank = extents.len();
        let of_rank = |what: &str, count: usize, expected: usize| {
            if count == expected {
                Ok(())
            } else {
                Err(format!("{count} {what}, where a tensor of {rank} dimensions has {expected}"))
            }
        };
        if !(1..=DIMENSIONS).contains(&rank) {
            return Err(format!("{rank} dimensions, where 1 to {DIMENSIONS} are possible"));
        }
        of_rank("strides", strides.len(), rank - 1)?;
        of_rank("element strides", element_strides.len(), rank)?;
        let window = match window {
            TensorWindow::Tiled(sizes) => {
                of_rank("sizes of the box", sizes.len(), rank)?;
                Window::Tiled(fixed(sizes))
            }
            TensorWindow::Im2col { lower, upper, channels, pixels } => {
                if rank < 3 {
                    return Err(format!("{rank} dimensions, where im2col has 3 to {DIMENSIONS}"));
                }
                of_rank("lower corners", lower.len(), rank - 2)?;
                of_rank("upper corners", upper.len(), rank - 2)?;
                Window::Im2col { lower: fixed(lower), upper: fixed(upper), channels: *channels, pixels: *pixels }
            }
        };
        let mut all = [0; DIMENSIONS];
        all[0] = element.bits() / 8;
        all[1..rank].copy_from_slice(strides);
        let map = Self {
            element: *element,
            rank,
            address: address.0,
            extents: fixed(extents),
            strides: all,
            element_strides: fixed(element_strides),
            interleave: descriptor.interleave,
            swizzle: descriptor.swizzle,
            fill: descriptor.fill,
            window,
        };
        map.check()?;
        Ok(map)
    }

    /// Bytes of a row of a box, whose elements follow each other in both memories.
    pub(crate) fn inner_bytes(&self) -> u64 {
        let count = match self.window {
            Window::Tiled(sizes) => sizes[0],
            Window::Im2col { channels, .. } => channels,
        };
        u64::from(count) * self.element.bits() / 8
    }

    /// Bytes within which chunks of 16 bytes are exchanged; 16 if none are.
    pub(crate) fn swizzled_bytes(&self) -> u64 {
        self.swizzle.span().unwrap_or(16)
    }

    /// Checks the rules of `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col`; the error names the broken one.
    fn check(&self) -> Result<(), String> {
        let Self { rank, interleave, swizzle, .. } = *self;
        let sliced = interleave != Interleave::None;
        if sliced && rank < 3 {
            return Err(format!("{rank} dimensions, where an interleaved tensor has 3 to {DIMENSIONS}"));
        }
        let align = if interleave == Interleave::Bytes32 { 32 } else { 16 };
        if !self.address.is_multiple_of(align) {
            return Err(format!("the address {:#x} is not a multiple of {align}", self.address));
        }
        for (at, extent) in self.extents.iter().enumerate().take(rank) {
            if *extent == 0 || *extent > 1 << 32 {
                return Err(format!("extent {at} is {extent}, where 1 to 2^32 are possible"));
            }
        }
        if !(self.extents[0] % 8 * self.element.bits()).is_multiple_of(8) {
            return Err(format!("extent 0 is {}, which ends in the middle of a byte", self.extents[0]));
        }
        for (at, stride) in self.strides.iter().enumerate().take(rank).skip(1) {
            if !stride.is_multiple_of(align) {
                return Err(format!("the stride of dimension {at} is {stride} bytes, not a multiple of {align}"));
            }
            if *stride >= 1 << 40 {
                return Err(format!(
                    "the stride of dimension {at} is {stride} bytes, where less than 2^40 is possible"
                ));
            }
        }
        for (at, stride) in self.element_strides.iter().enumerate().take(rank) {
            if !(1..=8).contains(stride) {
                return Err(format!("element stride {at} is {stride}, where 1 to 8 are possible"));
            }
        }
        match self.window {
            Window::Tiled(sizes) => {
                for (at, size) in sizes.iter().enumerate().take(rank) {
                    if !(1..=256).contains(size) {
                        return Err(format!("size {at} of the box is {size}, where 1 to 256 are possible"));
                    }
                }
            }
            Window::Im2col { lower, upper, channels, pixels } => {
                let limit = 1 << [15, 7, 4][rank - 3];
                for (at, corner) in lower.iter().take(rank - 2).chain(upper.iter().take(rank - 2)).enumerate() {
                    if !(-limit..limit).contains(corner) {
                        let (at, below) = (at % (rank - 2), limit - 1);
                        return Err(format!(
                            "a corner is at {corner} along dimension {}, where -{limit} to {below} are possible of {rank} dimensions",
                            at + 1
                        ));
                    }
                }
                if !(1..=256).contains(&channels) {
                    return Err(format!("{channels} channels of each pixel, where 1 to 256 are possible"));
                }
                if !(1..=1024).contains(&pixels) {
                    return Err(format!("{pixels} pixels, where 1 to 1024 are possible"));
                }
            }
        }
        let inner = self.inner_bytes();
        match interleave {
            Interleave::None if !inner.is_multiple_of(16) => {
                return Err(format!("the first dimension of the box has {inner} bytes, not a multiple of 16"));
            }
            // Wider boxes take several slices, in an order that NVIDIA does not document.
            Interleave::Bytes16 if inner != 16 => {
                return Err(format!("the first dimension of the box has {inner} bytes, not the 16 of a slice"));
            }
            Interleave::Bytes32 if inner != 32 => {
                return Err(format!("the first dimension of the box has {inner} bytes, not the 32 of a slice"));
            }
            _ => {}
        }
        if interleave == Interleave::Bytes32 && swizzle != Swizzle::Bytes32 {
            return Err("slices of 32 bytes need the swizzle of 32 bytes".to_owned());
        }
        if let Some(span) = swizzle.span()
            && inner > span
            && !sliced
        {
            return Err(format!(
                "the first dimension of the box has {inner} bytes, more than the {span} of the swizzle"
            ));
        }
        if self.fill == OutsideFill::Nan && !self.element.is_float() {
            return Err(format!("elements of {} cannot be filled with NaN", self.element.name()));
        }
        Ok(())
    }

    pub(super) fn encode(&self) -> [u8; TENSOR_MAP_BYTES] {
        let mut bytes = [0; TENSOR_MAP_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.address.to_le_bytes());
        let im2col = matches!(self.window, Window::Im2col { .. });
        let (mode, atomicity) = codes(self.swizzle);
        let kind = (self.element as u32) << ELEMENT.0
            | (self.rank as u32 - 1) << RANK.0
            | (self.interleave as u32) << INTERLEAVE.0
            | mode << SWIZZLE.0
            | atomicity << ATOMICITY.0
            | (self.fill as u32) << FILL.0
            | u32::from(im2col) << IM2COL.0;
        put(KIND, &kind.to_le_bytes());
        for (at, stride) in self.element_strides.iter().enumerate() {
            put(ELEMENT_STRIDES + at, &[*stride as u8]);
        }
        for (at, extent) in self.extents.iter().enumerate() {
            put(EXTENTS + 8 * at, &extent.to_le_bytes());
        }
        for (at, stride) in self.strides.iter().skip(1).enumerate() {
            put(STRIDES + 8 * at, &stride.to_le_bytes());
        }
        match self.window {
            Window::Tiled(sizes) => {
                for (at, size) in sizes.iter().enumerate() {
                    put(BOX + 2 * at, &(*size as u16).to_le_bytes());
                }
            }
            Window::Im2col { lower, upper, channels, pixels } => {
                for (at, corner) in lower.iter().chain(&upper).enumerate() {
                    put(CORNERS + 2 * at, &(*corner as i16).to_le_bytes());
                }
                put(CHANNELS, &(channels as u16).to_le_bytes());
                put(CHANNELS + 2, &(pixels as u16).to_le_bytes());
            }
        }
        bytes
    }

    /// Decodes a map from its bytes; the error says why they are invalid.
    pub(crate) fn decode(bytes: &[u8; TENSOR_MAP_BYTES]) -> Result<Self, String> {
        let word = |at: usize| u64::from_le_bytes(fixed(&bytes[at..at + 8]));
        let half = |at: usize| u16::from_le_bytes(fixed(&bytes[at..at + 2]));
        let kind = word(KIND) as u32;
        let part = |(shift, mask): (u32, u32)| (kind >> shift & mask) as usize;
        let Some(element) = TensorElement::ALL.get(part(ELEMENT)).copied() else {
            return Err(format!("there is no type {} of elements", part(ELEMENT)));
        };
        let rank = part(RANK) + 1;
        if rank > DIMENSIONS {
            return Err(format!("{rank} dimensions, where 1 to {DIMENSIONS} are possible"));
        }
        let interleave = match part(INTERLEAVE) {
            0 => Interleave::None,
            1 => Interleave::Bytes16,
            2 => Interleave::Bytes32,
            other => return Err(format!("there is no interleave layout {other}")),
        };
        let (mode, atomicity) = (part(SWIZZLE) as u32, part(ATOMICITY) as u32);
        let Some(swizzle) = Swizzle::ALL.into_iter().find(|known| codes(*known) == (mode, atomicity)) else {
            return Err(match atomicity {
                0 => format!("the swizzle mode {mode} is not known"),
                _ => format!(
                    "the swizzle mode {mode} has no atomicity {atomicity}: only that of 128 bytes has others than 0"
                ),
            });
        };
        let window = if part(IM2COL) == 1 {
            if rank < 3 {
                return Err(format!("{rank} dimensions, where im2col has 3 to {DIMENSIONS}"));
            }
            let corners: [i32; 6] = std::array::from_fn(|at| i32::from(half(CORNERS + 2 * at) as i16));
            Window::Im2col {
                lower: fixed(&corners[..3]),
                upper: fixed(&corners[3..]),
                channels: half(CHANNELS).into(),
                pixels: half(CHANNELS + 2).into(),
            }
        } else {
            Window::Tiled(std::array::from_fn(|at| half(BOX + 2 * at).into()))
        };
        let stride = |at: usize| if at == 0 { element.bits() / 8 } else { word(STRIDES + 8 * (at - 1)) };
        let map = Self {
            element,
            rank,
            address: word(0),
            extents: std::array::from_fn(|at| word(EXTENTS + 8 * at)),
            strides: std::array::from_fn(stride),
            element_strides: std::array::from_fn(|at| bytes[ELEMENT_STRIDES + at].into()),
            interleave,
            swizzle,
            fill: if part(FILL) == 1 { OutsideFill::Nan } else { OutsideFill::Zero },
            window,
        };
        map.check()?;
        Ok(map)
    }

    /// Sets a field of a map's bytes; the error says why the value is invalid.
    pub(crate) fn replace(bytes: &mut [u8; TENSOR_MAP_BYTES], field: MapField, value: u64) -> Result<(), String> {
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let word = value as u32;
        let (shift, mask) = match field {
            MapField::GlobalAddress => {
                put(0, &value.to_le_bytes());
                return Ok(());
            }
            MapField::BoxDim(at) => {
                let size = u16::try_from(word).map_err(|_| format!("a box of {word}, where 1 to 256 are possible"))?;
                put(BOX + 2 * usize::from(at), &size.to_le_bytes());
                return Ok(());
            }
            MapField::GlobalDim(at) => {
                put(EXTENTS + 8 * usize::from(at), &u64::from(word).to_le_bytes());
                return Ok(());
            }
            MapField::GlobalStride(at) => {
                put(STRIDES + 8 * usize::from(at), &value.to_le_bytes());
                return Ok(());
            }
            MapField::ElementStride(at) => {
                let stride = u8::try_from(word)
                    .map_err(|_| format!("an element stride of {word}, where 1 to 8 are possible"))?;
                put(ELEMENT_STRIDES + usize::from(at), &[stride]);
                return Ok(());
            }
            MapField::SwizzleAtomicity => ATOMICITY,
            MapField::Rank => RANK,
            MapField::Element => ELEMENT,
            MapField::Interleave => INTERLEAVE,
            MapField::Swizzle => SWIZZLE,
            MapField::Fill => FILL,
        };
        if word > mask {
            return Err(format!("the field cannot be {word}"));
        }
        let kind = u32::from_le_bytes(fixed(&bytes[KIND..KIND + 4])) & !(mask << shift) | word << shift;
        bytes[KIND..KIND + 4].copy_from_slice(&kind.to_le_bytes());
        Ok(())
    }
}
