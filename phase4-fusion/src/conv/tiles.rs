//! The tiles of the steps.

use super::Size;
use crate::gemm::{Precision, ROW_BYTES};
use crate::tile::{TileShape, Work};

/// One block per tile, largest first.
pub(super) const WHOLE: &[TileShape] = &[
    TileShape::new("Large160", "_256x160"),
    TileShape::new("Square256", "_128x256"),
    TileShape::new("Tall192", "_192x128"),
    TileShape::new("Square160", "_128x160"),
    TileShape::new("Square", "_128x128"),
    TileShape::new("Narrow", "_256x64"),
    TileShape::new("Wide256", "_64x256"),
    TileShape::new("Wide160", "_64x160"),
    TileShape::new("Wide", "_64x128"),
    TileShape::new("Small", "_64x64"),
];

/// A cluster per tile, largest first.
pub(super) const CUT: &[TileShape] = &[
    TileShape::new("Halves160", "_128x160_2"),
    TileShape::new("Halves", "_128x128_2"),
    TileShape::new("Thirds", "_192x128_3"),
    TileShape::new("Fourths", "_128x128_4"),
    TileShape::new("LargeEighths", "_128x128_8"),
    TileShape::new("Quarters", "_64x64_4"),
    TileShape::new("Eighths", "_64x64_8"),
];

impl Size {
    /// The layer as a product: one row per pixel of the output, one column per channel of it.
    pub(super) fn work(&self, precision: Precision) -> Work {
        let along_k = ROW_BYTES / precision.input().size();
        Work { rows: self.pixels(), columns: self.filter[0], steps: self.depth() / along_k, gathered: true }
    }
}
