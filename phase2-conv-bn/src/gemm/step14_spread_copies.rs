//! Step 14: copies among the multiply-adds. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: sixteen copies of 4 bytes in a row fill the queue of the memory pipeline, and the first multiply-add waits behind
//! them; two at a time never fill it. Change: the copies are numbered, and each i of a step but the last starts its share of them.
//!
//! Measured at 4096³ on an H200: <!-- figure: phase5-bench/gemm["4096³" "step=spread copies" : "ms"] to 2 -->3.27<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/gemm["4096³" "step=spread copies" : "tflops"] -->42.03<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/gemm["4096³" "step=read ahead" : "ms"] / phase5-bench/gemm["4096³" "step=spread copies" : "ms"] as speed -->a slowdown to 0.88×<!-- /figure --> compared with step 13.
//! The counts do not change.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_14_spread_copies.cu`.
pub const STEP: Step = Step {
    number: 14,
    name: "spread copies",
    idea: "the copies of a later step among the multiply-adds of this one",
    source: kernel_source!("gemm_14_spread_copies"),
    method: Tiling::Whole,
};
