//! The tiles of the last steps, and the names of their kernels.

use super::{Layout, Precision};
use crate::tile::TileShape;

// ANCHOR: shapes
/// One block per tile, largest first.
pub(super) const WHOLE: &[TileShape] = &[
    TileShape::new("Large", "_128x256"),
    TileShape::new("Square160", "_128x160"),
    TileShape::new("Square", "_128x128"),
    TileShape::new("Wide160", "_64x160"),
    TileShape::new("Medium", "_64x128"),
    TileShape::new("Small", "_64x64"),
];

/// Tiles for values of one byte.
pub(super) const OF_BYTES: &[TileShape] = &[
    TileShape::new("Large", "_128x256"),
    TileShape::new("Square", "_128x128"),
    TileShape::new("Medium", "_64x128"),
    TileShape::new("Small", "_64x64"),
];

/// Tiles for values of one byte in blocks with scales.
pub(super) const OF_BLOCKS: &[TileShape] = &[
    TileShape::new("Tall", "_256x128"),
    TileShape::new("Square", "_128x128"),
    TileShape::new("Medium", "_64x128"),
    TileShape::new("Small", "_64x64"),
];

/// A cluster per tile, largest first.
pub(super) const CUT: &[TileShape] = &[
    TileShape::new("Fourths", "_128x128_4"),
    TileShape::new("Sixths", "_128x128_6"),
    TileShape::new("LargeEighths", "_128x128_8"),
    TileShape::new("Quarters", "_64x64_4"),
    TileShape::new("Eighths", "_64x64_8"),
];
// ANCHOR_END: shapes

/// Properties in which kernels of a tile differ.
pub(super) type Kind = (Precision, Layout);

/// Kinds of these types, with the layouts of each.
pub(super) fn kinds(precisions: &[Precision]) -> Vec<Kind> {
    let with_layouts = |&precision: &Precision| precision.layouts().iter().map(move |&layout| (precision, layout));
    precisions.iter().flat_map(with_layouts).collect()
}

/// `gemm_nt_f16` and so on.
pub(super) fn name((precision, layout): Kind) -> String {
    format!("gemm_{}_{}", layout.suffix(), precision.suffix())
}
