//! The tiles of the steps, and when each is best.

use super::Layer;
use crate::gemm::{Precision, ROW_BYTES};
use crate::tile::{TileShape, Work};

/// Blocks per multiprocessor from which a tile is worth it, on an H200.
const BUSY: f64 = 0.7;

pub(super) const NARROW: TileShape = TileShape { least: BUSY, columns: 64, ..TileShape::any("Narrow", "_256x64") };
pub(super) const LARGE: TileShape = TileShape { least: BUSY, steps: 8, ..TileShape::any("Large", "_256x128") };
pub(super) const SQUARE: TileShape = TileShape { least: BUSY, ..TileShape::any("Square", "_128x128") };
pub(super) const HALVES: TileShape = TileShape { least: BUSY, steps: 32, ..TileShape::any("Halves", "_128x128_2") };
pub(super) const WIDE: TileShape = TileShape { least: BUSY, ..TileShape::any("Wide", "_64x128") };
pub(super) const EIGHTHS: TileShape = TileShape { most: 0.75, steps: 24, ..TileShape::any("Eighths", "_64x64_8") };
pub(super) const QUARTERS: TileShape = TileShape { most: 1.0, steps: 8, ..TileShape::any("Quarters", "_64x64_4") };
pub(super) const SMALL: TileShape = TileShape::any("Small", "_64x64");

/// All tiles of the steps that have a choice, in the order in which they are asked whether they fit.
pub(super) const ORDER: [TileShape; 8] = [NARROW, LARGE, SQUARE, HALVES, WIDE, EIGHTHS, QUARTERS, SMALL];

impl Layer {
    /// The layer as a product: a row per pixel of the output, a column per channel of it.
    pub(super) fn work(&self, precision: Precision) -> Work {
        let along_k = ROW_BYTES / precision.input().size();
        Work { rows: self.pixels(), columns: self.filter[0], steps: self.depth() / along_k }
    }
}
