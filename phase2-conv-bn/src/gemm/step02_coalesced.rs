//! Step 2: one thread per element of C, and the lanes of a warp along a row.
//!
//! Hypothesis: step 1 fetches 32 sectors for each load of A and one for B; with the lanes along a row a warp needs one of A and
//! four of B, so the memory system has a sixth of the work. Change: `threadIdx.x` and `threadIdx.y` exchanged.
//!
//! Measured in `book/pages/phase2/gemm-naive.md`. The `gemm` table of `cargo run -p phase2-conv-bn -- gemm` shows the sectors per
//! request.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_02_coalesced.cu`.
pub(super) const STEP: Step = Step {
    number: 2,
    name: "coalesced",
    idea: "lanes along a row of C",
    source: kernel_source!("gemm_02_coalesced"),
    method: Tiling::Plain(Takes::Any),
};
