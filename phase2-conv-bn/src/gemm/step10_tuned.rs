//! Step 10: the tile that fits the product. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: step 9 is held up by three things, the registers that A passes through, the barrier each 16 values of i, and a
//! tile that is too small for large products and too large for small ones. Change: A is copied and transposed 4 bytes at a time
//! without passing through registers; several steps along K are in shared memory at once, with the copies of a later one spread
//! over the multiply-adds of this one; and there are four tiles, from 128 × 256 to 32 × 32, of which all but the largest have more
//! warps than they have sums for: slices, which share out each step's values of i. Measured: the `gemm` table; on an H200 which tile
//! is best changes where it has [`TileShape::tiles_each`] of them a multiprocessor.

use common::kernel_source;

use super::tiles::TileShape;
use super::{Step, Tiling};

/// `kernels/gemm_10_tuned.cu`.
pub const STEP: Step = Step {
    number: 10,
    name: "tuned tiles",
    idea: "the tile that fits the size, slices of K; nothing through registers",
    source: kernel_source!("gemm_10_tuned"),
    method: Tiling {
        tile: [128, 256],
        threads: 256,
        vectors: true,
        tiles: &[
            TileShape { tile: [128, 256], step: 32, stages: 3, threads: 256, tiles_each: 2.0, any: false },
            TileShape { tile: [128, 128], step: 16, stages: 8, threads: 256, tiles_each: 0.9, any: false },
            TileShape { tile: [64, 128], step: 32, stages: 3, threads: 256, tiles_each: 0.7, any: true },
            TileShape { tile: [32, 32], step: 32, stages: 4, threads: 128, tiles_each: 0.0, any: true },
        ],
        splits: false,
    },
};
