//! Step 6: two sets of fragments, one of which is multiplied while the other is loaded. Compute capability 8.0 and up.
//!
//! Hypothesis: a warp that loads and then multiplies leaves the tensor cores idle for the way from shared memory; with the next
//! fragments on their way meanwhile it does not. The price is registers: 168 per thread, so one block per SM in place of two.
//! Change: loads stand one product of 16 values of i ahead, across the barrier too.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_06_fragments_ahead.cu`.
pub(crate) const STEP: Step = Step {
    number: 6,
    name: "fragments ahead",
    idea: "the next fragments are loaded while these are multiplied",
    source: kernel_source!("gemm_06_fragments_ahead"),
    method: Tiling::Rows,
};
