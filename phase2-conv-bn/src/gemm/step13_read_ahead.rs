//! Step 13: two sets of operands in registers. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: after the barrier of each step all warps read shared memory at once and wait for it; if the first values of a step are
//! read before the last multiply-adds of the step before, those hide it. Change: the values of the next i are read before this i's
//! are multiplied, across the border of a step too, so that the barrier stands before the last i.
//!
//! Measured in `book/pages/research/gemm-steps.md`. Registers: the `resources` table.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_13_read_ahead.cu`.
pub(super) const STEP: Step = Step {
    number: 13,
    name: "read ahead",
    idea: "the operands of the next i are read before these are multiplied",
    source: kernel_source!("gemm_13_read_ahead"),
    method: Tiling::Plain(Takes::WholeTiles),
};
