//! Step 15: multiply-adds that go back and forth. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: the register file delivers two operands per cycle and lane, a multiply-add has three, and one that it shares with the
//! instruction before comes free (`.reuse`). In rows of eight, one in eight begins with two new ones; turned round, none does.
//! Change: every second row of sums is walked backwards.
//!
//! Measured in `book/pages/research/gemm-steps.md`. The counts do not change.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_15_back_and_forth.cu`.
pub(super) const STEP: Step = Step {
    number: 15,
    name: "back and forth",
    idea: "each multiply-add shares an operand with the one before it",
    source: kernel_source!("gemm_15_back_and_forth"),
    method: Tiling::Plain(Takes::WholeTiles),
};
