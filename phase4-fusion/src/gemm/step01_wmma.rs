//! Step 1: a warp computes 16 × 16 elements of C with `wmma`, straight from global memory. Compute capability 8.0 and up.
//!
//! Hypothesis: one instruction does 4096 multiply-adds, so even without shared memory the tensor cores beat what f32's best tile
//! does with fma. Change: none, this is the first version. It takes M, N and K that are multiples of 16, since a fragment is
//! loaded whole.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_01_wmma.cu`.
pub(super) const STEP: Step = Step {
    number: 1,
    name: "wmma",
    idea: "a warp per 16×16 of C, from global memory",
    source: kernel_source!("gemm_01_wmma"),
    method: Tiling::Fragments,
};
