//! Bytes of a tensor that a copy of one of its boxes moves, and their positions in shared memory.

use super::encoding::{DIMENSIONS, Map, Window};
use super::{Interleave, OutsideFill, Swizzle, TensorElement};
use crate::ir::{Route, TensorMode};
use crate::trace::TensorShape;

/// A box of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) map: Map,
    /// Coordinates of its first element.
    start: [i64; DIMENSIONS],
    /// Offset of im2col: from the pixel that is visited to the one that is read.
    offsets: [i64; 3],
    /// The rows that a copy takes one by one.
    rows: Option<[i64; 4]>,
}

/// Granularity of writes to rows.
const GRAIN: u64 = 16;

/// Each half-word of the NaN that a map fills in outside the tensor.
const NAN: u16 = 0x7ff7;

impl Tile {
    /// The error says why the map is unsuitable for such a copy.
    pub(crate) fn new(
        map: Map,
        coordinates: &[i32],
        offsets: &[u16],
        mode: TensorMode,
        route: Route,
    ) -> Result<Self, String> {
        if map.swizzle == Swizzle::Bytes128Atom32Flip8 && route == Route::SharedToGlobal {
            return Err("a swizzle that exchanges halves of 16 bytes is for loads".to_owned());
        }
        let rows = match (mode, coordinates) {
            (TensorMode::Rows, [_, rows @ ..]) => <[i32; 4]>::try_from(rows).ok().map(|rows| rows.map(i64::from)),
            _ => None,
        };
        let coordinates = if rows.is_some() { &coordinates[..2] } else { coordinates };
        if coordinates.len() != map.rank {
            return Err(format!("a tensor of {} dimensions, where the copy is one of {}", map.rank, coordinates.len()));
        }
        if let (Some(_), Window::Tiled([_, height, ..])) = (rows, map.window)
            && height != 1
        {
            return Err(format!("a map of boxes of {height} rows, where the copy takes rows one by one"));
        }
        match (map.window, mode == TensorMode::Im2col) {
            (Window::Tiled(_), false) | (Window::Im2col { .. }, true) => {}
            (Window::Tiled(_), true) => return Err("a map of tiles, where the copy is one of im2col".to_owned()),
            (Window::Im2col { .. }, false) => return Err("a map of im2col, where the copy is one of a tile".to_owned()),
        }
        let start: [i64; DIMENSIONS] = std::array::from_fn(|at| coordinates.get(at).copied().unwrap_or(0).into());
        if start[0] * map.element.bits() as i64 % 8 != 0 {
            return Err(format!("coordinate 0 is {}, in the middle of a byte", start[0]));
        }
        let offsets = std::array::from_fn(|at| offsets.get(at).copied().unwrap_or(0).into());
        Ok(Self { map, start, offsets, rows })
    }

    /// Start in the tensor's rows, unless channels are interleaved.
    pub(crate) fn first_byte(&self) -> Option<i64> {
        (self.map.interleave == Interleave::None).then(|| self.start[0] * self.map.element.bits() as i64 / 8)
    }

    /// Elements that a copy takes along a dimension after the first.
    fn count(&self, sizes: [u32; DIMENSIONS], at: usize) -> u64 {
        sizes[at].div_ceil(self.map.element_strides[at]).into()
    }

    /// Bytes of the box in shared memory.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = match self.map.window {
            Window::Tiled(_) if let Some(rows) = self.rows => rows.len() as u64,
            Window::Tiled(sizes) => (1..self.map.rank).map(|at| self.count(sizes, at)).product(),
            Window::Im2col { pixels, .. } => u64::from(pixels),
        };
        rows * self.map.inner_bytes()
    }

    /// Calls `action` for contiguous runs of bytes: their start in the box without gaps or swizzling, their offset from the
    /// tensor's first element (`None`: outside the tensor), and their length.
    pub(crate) fn visit(&self, mut action: impl FnMut(u64, Option<u64>, u64)) {
        let map = &self.map;
        let rank = map.rank;
        let inner = map.inner_bytes();
        if let Some(rows) = self.rows {
            for (at, row) in (0..).zip(rows) {
                let mut coordinates = self.start;
                coordinates[1] = row;
                self.row(at * inner, coordinates, &mut action);
            }
            return;
        }
        match map.window {
            Window::Tiled(sizes) => {
                let mut at = [0; DIMENSIONS];
                let mut dense = 0;
                loop {
                    let coordinates = std::array::from_fn(|dimension| {
                        self.start[dimension] + at[dimension] as i64 * i64::from(map.element_strides[dimension])
                    });
                    self.row(dense, coordinates, &mut action);
                    dense += inner;
                    let Some(next) = (1..rank).find(|dimension| at[*dimension] + 1 < self.count(sizes, *dimension))
                    else {
                        return;
                    };
                    at[next] += 1;
                    at[1..next].fill(0);
                }
            }
            Window::Im2col { .. } => {
                for (pixel, coordinates) in (0..).zip(self.pixels()) {
                    self.row(pixel * inner, coordinates, &mut action);
                }
            }
        }
    }

    /// For im2col, the coordinates of each pixel that is read, in the order of the box's rows; empty for other windows.
    pub(crate) fn pixels(&self) -> impl Iterator<Item = [i64; DIMENSIONS]> {
        let (map, offsets, mut base) = (self.map, self.offsets, self.start);
        let (lower, upper, count) = match map.window {
            Window::Tiled(_) => ([0; 3], [0; 3], 0),
            Window::Im2col { lower, upper, pixels, .. } => (lower, upper, pixels),
        };
        let pixels = 1..map.rank.max(2) - 1;
        (0..count).map(move |_| {
            let mut coordinates = base;
            for (pixel, offset) in coordinates[pixels.clone()].iter_mut().zip(offsets) {
                *pixel += offset;
            }
            // The next pixel of the bounding box, then of the next image.
            let wraps = pixels.clone().all(|at| {
                base[at] += i64::from(map.element_strides[at]);
                let last = map.extents[at] as i64 - 1 + i64::from(upper[at - 1]);
                let over = base[at] > last;
                if over {
                    base[at] = lower[at - 1].into();
                }
                over
            });
            if wraps {
                base[map.rank - 1] += 1;
            }
            coordinates
        })
    }

    /// Calls `action` for each run of bytes that a copy to the tensor writes: its start in the box, its start in the tensor, its
    /// length. Rows are written in units of 16 bytes, the last of them whole: beyond the tensor's edge too, as on an H200.
    pub(crate) fn visit_stores(&self, mut action: impl FnMut(u64, u64, u64)) {
        let mut end = None; // of the run before, in the box and in the tensor
        self.visit(|dense, at, count| match at {
            Some(at) => {
                action(dense, at, count);
                end = Some((dense + count, at + count));
            }
            None => {
                if let Some((_, at)) = end.filter(|(end, _)| *end == dense && !dense.is_multiple_of(GRAIN)) {
                    action(dense, at, count.min(GRAIN - dense % GRAIN));
                }
            }
        });
    }

    /// A row along the first dimension: the parts before the tensor, in it, and after it.
    fn row(&self, dense: u64, coordinates: [i64; DIMENSIONS], action: &mut impl FnMut(u64, Option<u64>, u64)) {
        let map = &self.map;
        let bits = map.element.bits();
        let inner = map.inner_bytes();
        let is_inside = |at: usize| (0..map.extents[at] as i64).contains(&coordinates[at]);
        if !(1..map.rank).all(is_inside) {
            action(dense, None, inner);
            return;
        }
        let elements = (inner * 8 / bits) as i64;
        let first = coordinates[0];
        let begin = (-first).clamp(0, elements);
        let end = (map.extents[0] as i64 - first).clamp(begin, elements);
        let [begin, end] = [begin, end].map(|at| at as u64 * bits / 8);
        if begin != 0 {
            action(dense, None, begin);
        }
        if begin != end {
            let outer: u128 = (1..map.rank).map(|at| coordinates[at] as u128 * u128::from(map.strides[at])).sum();
            let at = outer + first.max(0) as u128 * u128::from(bits) / 8;
            action(dense + begin, Some(u64::try_from(at).unwrap_or(u64::MAX)), end - begin);
        }
        if end != inner {
            action(dense + end, None, inner - end);
        }
    }

    /// Address in shared memory of a byte of the box, if the box begins at `at`.
    pub(crate) fn shared(&self, at: u64, dense: u64) -> u64 {
        self.map.swizzle.apply(at + dense)
    }

    /// Whether parts of it are exchanged, in units of [`Self::unit`].
    pub(crate) fn is_swizzled(&self) -> bool {
        self.map.swizzle.span().is_some()
    }

    /// Bytes that are neighbours in shared memory, too.
    pub(crate) fn unit(&self) -> u64 {
        if self.map.swizzle == Swizzle::Bytes128Atom32Flip8 { 8 } else { 16 }
    }

    /// The tensor and the position of the box in it; `name` stands for the map's address.
    pub(crate) fn shape(&self, name: String) -> TensorShape {
        let map = &self.map;
        let sizes = match map.window {
            Window::Tiled(sizes) => sizes[..map.rank].to_vec(),
            Window::Im2col { .. } => Vec::new(),
        };
        TensorShape {
            name,
            element: map.element.name(),
            element_bytes: map.element.bits() / 8,
            extents: map.extents[..map.rank].to_vec(),
            sizes,
            pixels: self.pixels().map(|at| at[..map.rank].to_vec()).collect(),
            offsets: self.offsets[..map.rank.max(2) - 2].to_vec(),
            steps: map.element_strides[..map.rank].to_vec(),
            start: self.start[..map.rank].to_vec(),
            fill: match map.fill {
                OutsideFill::Zero => "zeros",
                OutsideFill::Nan => "NaN",
            },
            row_bytes: map.inner_bytes(),
        }
    }

    pub(crate) fn element(&self) -> TensorElement {
        self.map.element
    }

    /// Fills bytes of whole elements that are outside the tensor.
    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        match self.map.fill {
            OutsideFill::Zero => bytes.fill(0),
            OutsideFill::Nan => bytes.chunks_exact_mut(2).for_each(|half| half.copy_from_slice(&NAN.to_le_bytes())),
        }
    }

    /// Converts elements on their way to shared memory, as measured on an H200: those of tf32 are rounded, and subnormal
    /// numbers are kept, also for the types with `ftz`.
    pub(crate) fn convert(&self, bytes: &mut [u8]) {
        if !matches!(self.map.element, TensorElement::Tf32 | TensorElement::Tf32Ftz) {
            return;
        }
        for word in bytes.chunks_exact_mut(4) {
            let bits = word.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = if f32::from_bits(bits).is_nan() {
                0x7fff_e000
            } else {
                // to the nearest of 10 bits of mantissa, ties to even
                (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff
            };
            word.copy_from_slice(&bits.to_le_bytes());
        }
    }
}
