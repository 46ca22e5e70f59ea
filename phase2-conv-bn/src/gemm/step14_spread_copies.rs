//! Step 14: copies among the multiply-adds. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: sixteen copies of 4 bytes in a row fill the queue of the memory pipeline, and the first multiply-add waits behind
//! them; two at a time never fill it. Change: the copies are numbered, and each i of a step but the last starts its share of them.
//!
//! Measured in `book/pages/research/gemm-steps.md`. The counts do not change.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_14_spread_copies.cu`.
pub(super) const STEP: Step = Step {
    number: 14,
    name: "spread copies",
    idea: "the copies of a later step among the multiply-adds of this one",
    source: kernel_source!("gemm_14_spread_copies"),
    method: Tiling::Plain(Takes::WholeTiles),
};
