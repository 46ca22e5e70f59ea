//! Step 9: two tiles of each matrix, the next on its way while one is multiplied. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: in step 8 all warps of a block wait for the tiles at the same time, and only the other block of the
//! SM works meanwhile; loads that are issued before the multiply-adds and needed after them leave no warp waiting.
//! Change: two tiles of each matrix in shared memory, one barrier for each step along K; B by `cp.async`, A through registers,
//! since it is transposed on the way.
//!
//! Measured at 4096³ on an H200: <!-- figure: phase5-bench/gemm["4096³" "step=double buffer" : "ms"] to 2 -->3.18<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/gemm["4096³" "step=double buffer" : "tflops"] -->43.22<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/gemm["4096³" "step=warp tiles" : "ms"] / phase5-bench/gemm["4096³" "step=double buffer" : "ms"] as speed -->a speed-up of 1.10×<!-- /figure --> compared with step 8.
//! The counts hardly change.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_09_double_buffer.cu`.
pub const STEP: Step = Step {
    number: 9,
    name: "double buffer",
    idea: "the next tiles on their way (cp.async) while these are multiplied",
    source: kernel_source!("gemm_09_double_buffer"),
    method: Tiling::Vectors,
};
