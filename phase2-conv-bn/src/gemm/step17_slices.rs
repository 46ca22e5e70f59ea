//! Step 17: slices. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: with 8 × 16 sums per thread 6 loads serve 128 multiply-adds, in place of 4 for 64; but a tile of 128 × 128 then has only
//! four warps, one per scheduler, which has nothing to turn to when its warp waits. So the tile gets its warps twice: both slices
//! have all of its sums, and each adds up half of the values of i. Change: TN and WN doubled, two slices, and their sums added in
//! shared memory at the end.
//!
//! Measured in `book/pages/research/gemm-steps.md`. Counts: shared wavefronts, in the `gemm` table of `cargo run -p phase2-conv-bn
//! -- gemm`. Registers: the `resources` table.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_17_slices.cu`.
pub(super) const STEP: Step = Step {
    number: 17,
    name: "slices",
    idea: "8×16 sums per thread, and a tile's warps twice, each for half of i",
    source: kernel_source!("gemm_17_slices"),
    method: Tiling::Plain(Takes::WholeTiles),
};
