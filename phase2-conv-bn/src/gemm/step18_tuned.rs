//! Step 18: the tile that fits the product. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: the larger a tile, the fewer bytes a multiply-add needs; the smaller, the more blocks there are for the SMs.
//! 128 × 128 is small for 8192³ and large for 256³. Change: the tile of step 17 becomes a template (`gemm_tile.cuh`) with four shapes,
//! from 128 × 256 to 32 × 32, and kernels for ragged products of the two smaller ones.
//!
//! Measured at 4096³ on an H200: <!-- figure: phase5-bench/gemm["4096³" "step=tuned tiles" : "ms"] to 2 -->2.66<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/gemm["4096³" "step=tuned tiles" : "tflops"] -->51.74<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/gemm["4096³" "step=slices" : "ms"] / phase5-bench/gemm["4096³" "step=tuned tiles" : "ms"] as speed -->a speed-up of 1.26×<!-- /figure --> compared with step 17.
//! At 256³ it takes <!-- figure: phase5-bench/gemm["256³" "step=tuned tiles" : "ms"] -->0.0064<!-- /figure --> ms,
//! which is <!-- figure: phase5-bench/gemm["256³" "step=slices" : "ms"] / phase5-bench/gemm["256³" "step=tuned tiles" : "ms"] as speed -->a speed-up of 5.00×<!-- /figure --> compared with step 17.
//! On an H200 another tile is best from [`TileShape::tiles_each`] of them per SM.

use common::kernel_source;

use super::tiles::TileShape;
use super::{Step, Tiling};

/// `kernels/gemm_18_tuned.cu`.
pub const STEP: Step = Step {
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
