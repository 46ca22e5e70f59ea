//! Step 11: blocks with equal work whatever the shape. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: a product with few tiles leaves most multiprocessors idle, however long its K is; cutting K fills them, for the price
//! of writing and adding up the parts. Change: the steps of all tiles are dealt out evenly, and the last block of a tile adds up
//! its parts, in a fixed order. Measured: the `gemm` table, by sizes with few tiles. What it does not do for products with many: on
//! an H200, blocks that begin anywhere along K no longer read the same rows of A and B at the same time, and 8192³ ran at two
//! thirds of its speed; cutting the tiles of the last, part-filled round alone lost 7 % at 4096³. So [`super::Gemm`] cuts only where
//! whole tiles do not fill the chip, and [`super::Tuned`] only long K: slices within a block hand over sooner.

use common::kernel_source;

use super::tiles::TileShape;
use super::{Step, Tiling};

/// `kernels/gemm_11_split_k.cu`.
pub const STEP: Step = Step {
    number: 11,
    name: "split K",
    idea: "K is cut where there are fewer tiles than blocks could run",
    source: kernel_source!("gemm_11_split_k"),
    method: Tiling {
        tile: [64, 64],
        threads: 128,
        vectors: true,
        tiles: &[TileShape { tile: [64, 64], step: 16, stages: 4, threads: 128, tiles_each: 0.0, any: true }],
        splits: true,
    },
};
