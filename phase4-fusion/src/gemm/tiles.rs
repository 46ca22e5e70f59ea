//! The tiles of the last steps, when each is best, and the names of their kernels.

use super::{Layout, Precision};
use crate::tile::TileShape;

// ANCHOR: shapes
// Blocks per multiprocessor and steps along K for which an H200 was measured to be fastest with each.
pub(super) const LARGE: TileShape = TileShape { least: 2.0, ..TileShape::any("Large", "_128x256") };
pub(super) const SQUARE: TileShape = TileShape { least: 0.52, ..TileShape::any("Square", "_128x128") };
pub(super) const PAIRED: TileShape = TileShape { least: 0.5, steps: 48, ..TileShape::any("Paired", "_64x128_pair") };
pub(super) const MEDIUM: TileShape = TileShape { least: 0.5, ..TileShape::any("Medium", "_64x128") };
pub(super) const FOURTHS: TileShape =
    TileShape { least: 0.4, most: 0.6, steps: 48, ..TileShape::any("Fourths", "_128x128_4") };
pub(super) const EIGHTHS: TileShape = TileShape { most: 0.25, steps: 64, ..TileShape::any("Eighths", "_64x64_8") };
pub(super) const QUARTERS: TileShape = TileShape { most: 0.5, steps: 24, ..TileShape::any("Quarters", "_64x64_4") };
pub(super) const SMALL: TileShape = TileShape::any("Small", "_64x64");

/// All of them, in the order in which they are asked whether they fit.
pub(super) const ORDER: [TileShape; 8] = [LARGE, SQUARE, PAIRED, MEDIUM, FOURTHS, EIGHTHS, QUARTERS, SMALL];
// ANCHOR_END: shapes

/// What kernels of a tile differ in.
pub(super) type Kind = (Precision, Layout);

/// Of these types, with the layouts that each has.
pub(super) fn kinds(precisions: &[Precision]) -> Vec<Kind> {
    let with_layouts = |&precision: &Precision| precision.layouts().iter().map(move |&layout| (precision, layout));
    precisions.iter().flat_map(with_layouts).collect()
}

/// `gemm_nt_f16` and so on.
pub(super) fn name((precision, layout): Kind) -> String {
    format!("gemm_{}_{}", layout.suffix(), precision.suffix())
}
