//! Input of the kernel: layers and tasks, word for word as `executor.cuh` declares them.

use bytemuck::{Pod, Zeroable};

/// Words of a layer in device memory.
pub const LAYER_WORDS: usize = 64;
/// Words of a task in device memory.
pub const TASK_WORDS: usize = 16;
/// An operand that there is not.
pub const NONE: u32 = u32::MAX;
/// Operands whose counters a task may wait for.
pub const OPERANDS: usize = 3;

/// Operation of a layer's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A convolution or a linear layer, with its epilogue.
    Product,
    /// Attention with softmax online.
    Attention,
    /// Scale, shift, sums and an activation.
    Pointwise,
    /// The embedding of timesteps.
    Embedding,
}

impl Kind {
    /// All of them, in the kernel's order.
    pub const ALL: [Kind; 4] = [Kind::Product, Kind::Attention, Kind::Pointwise, Kind::Embedding];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Product => "product",
            Kind::Attention => "attention",
            Kind::Pointwise => "pointwise",
            Kind::Embedding => "embedding",
        }
    }
}

/// Where a value lies in the arena, in floats: from one image, pixel and channel to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Source {
    /// Place of the first value.
    pub offset: u32,
    /// From image to image.
    pub image: u32,
    /// From pixel to pixel.
    pub pixel: u32,
    /// From channel to channel.
    pub channel: u32,
}

/// The same for all tasks of a layer; `executor.cuh` says what each field is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Layer {
    pub operation: u32,
    pub rows: u32,
    pub columns: u32,
    pub depth: u32,
    pub pixels: u32,
    pub x: Source,
    pub second: Source,
    pub result: Source,
    pub channels: u32,
    pub of_x: u32,
    pub height: u32,
    pub width: u32,
    pub out_height: u32,
    pub out_width: u32,
    pub window: u32,
    pub stride: u32,
    pub padding: u32,
    pub up: u32,
    pub weight: u32,
    pub pitch: u32,
    pub bias: u32,
    pub image: u32,
    pub image_is_later: u32,
    pub added: u32,
    pub added_pitch: u32,
    pub activation: u32,
    pub normalise: u32,
    pub eps: f32,
    pub wide: u32,
    pub tile: u32,
    pub parts: u32,
    pub part_depth: u32,
    pub partials: u32,
    pub needed: [u32; OPERANDS],
    pub heads: u32,
    pub tokens: u32,
    pub key_parts: u32,
    pub lanes: u32,
    pub each: u32,
    pub scale: f32,
    pub column_tiles: u32,
}

/// One tile of a layer: what a block does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    /// Its layer's number.
    pub layer: u32,
    /// The tile's row.
    pub row: u32,
    /// The tile's column; of attention the image and head.
    pub column: u32,
    /// The part of K.
    pub part: u32,
    /// The first counter to wait for, by operand.
    pub first: [u32; OPERANDS],
    /// Counters to wait for, by operand.
    pub number: [u32; OPERANDS],
    /// The counter that it increases.
    pub signal: u32,
    /// The counter of the tile's parts.
    pub merged: u32,
}

impl Task {
    /// The counters that it waits for.
    pub fn waits(&self) -> impl Iterator<Item = u32> + use<> {
        let ranges: [_; OPERANDS] = std::array::from_fn(|at| self.first[at]..self.first[at] + self.number[at]);
        ranges.into_iter().flatten()
    }
}

impl Default for Layer {
    /// Nothing to read, to add or to do.
    fn default() -> Layer {
        Layer {
            weight: NONE,
            bias: NONE,
            image: NONE,
            added: NONE,
            pixels: 1,
            parts: 1,
            column_tiles: 1,
            tile: 1,
            ..Layer::zeroed()
        }
    }
}

// SAFETY: all fields are four bytes each that may be zero.
unsafe impl Zeroable for Layer {}
// SAFETY: `repr(C)` of four-byte numbers alone: no padding, and any bits are values.
unsafe impl Pod for Layer {}
// SAFETY: as for `Layer`.
unsafe impl Zeroable for Task {}
// SAFETY: as for `Layer`.
unsafe impl Pod for Task {}

/// Each of `values` as words, filled up to `words` of them.
pub fn packed<T: Pod>(values: &[T], words: usize) -> Vec<u32> {
    let fill = words - size_of::<T>() / size_of::<u32>();
    let of = |value: &T| bytemuck::cast_slice(std::slice::from_ref(value)).to_vec();
    values.iter().flat_map(|value| of(value).into_iter().chain(std::iter::repeat_n(0, fill))).collect()
}
