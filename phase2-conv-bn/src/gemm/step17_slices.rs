//! Step 17: slices. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: with 8 × 16 sums per thread 6 loads serve 128 multiply-adds, in place of 4 for 64; but a tile of 128 × 128 then has only
//! four warps, one per scheduler, which has nothing to turn to when its warp waits. So the tile gets its warps twice: both slices
//! have all of its sums, and each adds up half of the values of i. Change: TN and WN doubled, two slices, and their sums added in
//! shared memory at the end.
//!
//! Measured at 4096³ on an H200: <!-- figure: phase5-bench/gemm["4096³" "step=slices" : "ms"] to 2 -->3.34<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/gemm["4096³" "step=slices" : "tflops"] -->41.19<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/gemm["4096³" "step=bands" : "ms"] / phase5-bench/gemm["4096³" "step=slices" : "ms"] as speed -->a slowdown to 0.93×<!-- /figure --> compared with step 16.
//! Counts: shared wavefronts, in the `gemm` table of `cargo run -p phase2-conv-bn -- gemm`. Registers: the `resources` table.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_17_slices.cu`.
pub const STEP: Step = Step {
    number: 17,
    name: "slices",
    idea: "8×16 sums per thread, and a tile's warps twice, each for half of i",
    source: kernel_source!("gemm_17_slices"),
    method: Tiling::Whole,
};
