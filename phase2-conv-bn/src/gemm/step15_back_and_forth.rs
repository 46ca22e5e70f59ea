//! Step 15: multiply-adds that go back and forth. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: the register file delivers two operands per cycle and lane, a multiply-add has three, and one that it shares with the
//! instruction before comes free (`.reuse`). In rows of eight, one in eight begins with two new ones; turned round, none does.
//! Change: every second row of sums is walked backwards.
//!
//! Measured at 4096³ on an H200: <!-- figure: phase5-bench/gemm["4096³" "step=back and forth" : "ms"] to 2 -->3.10<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/gemm["4096³" "step=back and forth" : "tflops"] -->44.27<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/gemm["4096³" "step=spread copies" : "ms"] / phase5-bench/gemm["4096³" "step=back and forth" : "ms"] as speed -->a speed-up of 1.05×<!-- /figure --> compared with step 14.
//! The counts do not change.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_15_back_and_forth.cu`.
pub const STEP: Step = Step {
    number: 15,
    name: "back and forth",
    idea: "each multiply-add shares an operand with the one before it",
    source: kernel_source!("gemm_15_back_and_forth"),
    method: Tiling::Whole,
};
