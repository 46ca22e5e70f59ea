//! Step 18: the tile that fits the product. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: the larger a tile, the fewer bytes a multiply-add needs; the smaller, the more blocks there are for the SMs.
//! 128 × 128 is small for 8192³ and large for 256³. Change: the tile of step 17 becomes a template (`gemm_tile.cuh`) with four shapes,
//! from 128 × 256 to 32 × 32, and kernels for ragged products of the two smaller ones.
//!
//! Measured in `book/pages/phase2/linear-relu.md`. On an H200 another tile is best from [`TileShape::tiles_each`] of them per SM.

use common::kernel_source;

use super::tiles::TileShape;
use super::{Step, Tiling};

/// `kernels/gemm_18_tuned.cu`.
pub(super) const STEP: Step = Step {
    number: 18,
    name: "tuned tiles",
    idea: "the tile that fits the size, from 128×256 to 32×32",
    source: kernel_source!("gemm_18_tuned"),
    method: Tiling::Fitting(&[
        TileShape { name: "Large", tile: [128, 256], tiles_each: 2.0, rate: 52.0, any: false },
        TileShape { name: "Square", tile: [128, 128], tiles_each: 0.9, rate: 47.0, any: false },
        TileShape { name: "Medium", tile: [64, 128], tiles_each: 0.7, rate: 44.0, any: true },
        TileShape { name: "Small", tile: [32, 32], tiles_each: 0.0, rate: 26.0, any: true },
    ]),
};
