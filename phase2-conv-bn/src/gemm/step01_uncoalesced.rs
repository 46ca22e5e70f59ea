//! Step 1: one thread per element of C, and the lanes of a warp down a column.
//!
//! Hypothesis: a thread per element is enough parallelism, and it does not matter which thread takes which element. Change: none,
//! this is where the ladder begins.
//!
//! Measured in `book/pages/phase2/gemm-naive.md`. The `gemm` table of `cargo run -p phase2-conv-bn -- gemm` shows the sectors per
//! request that explain it.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_01_uncoalesced.cu`.
pub(super) const STEP: Step = Step {
    number: 1,
    name: "uncoalesced",
    idea: "one thread per element, lanes down a column of C",
    source: kernel_source!("gemm_01_uncoalesced"),
    method: Tiling::Plain(Takes::Any),
};
