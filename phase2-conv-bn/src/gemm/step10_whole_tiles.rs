//! Step 10: a kernel for products of whole tiles, without a test of the edge. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: step 9 compares row, column and i with their limits for each access, though in a large product hardly a tile reaches
//! an edge; without the tests there are fewer instructions beside the multiply-adds. Change: M, N and K are multiples of the tile's
//! sizes, and every test goes; other products are refused.
//!
//! Measured in `book/pages/research/gemm-steps.md`. Counts: instructions, in the `gemm` table of `cargo run -p phase2-conv-bn --
//! gemm`.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_10_whole_tiles.cu`.
pub(super) const STEP: Step = Step {
    number: 10,
    name: "whole tiles",
    idea: "a kernel for whole tiles, without a test of the edge",
    source: kernel_source!("gemm_10_whole_tiles"),
    method: Tiling::Plain(Takes::WholeTiles),
};
