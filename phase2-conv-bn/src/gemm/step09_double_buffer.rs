//! Step 9: two tiles of each matrix, the next on its way while one is multiplied. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: in step 8 all warps of a block wait for the tiles at the same time, and only the other block of the
//! SM works meanwhile; loads that are issued before the multiply-adds and needed after them leave no warp waiting.
//! Change: two tiles of each matrix in shared memory, one barrier for each step along K; B by `cp.async`, A through registers,
//! since it is transposed on the way.
//!
//! Measured in `book/pages/phase2/gemm-warps.md`. The counts hardly change.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_09_double_buffer.cu`.
pub(super) const STEP: Step = Step {
    number: 9,
    name: "double buffer",
    idea: "the next tiles on their way (cp.async) while these are multiplied",
    source: kernel_source!("gemm_09_double_buffer"),
    method: Tiling::Plain(Takes::Vectors),
};
