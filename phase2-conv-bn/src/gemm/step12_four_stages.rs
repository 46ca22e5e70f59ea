//! Step 12: four steps along K in shared memory. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: with two stages a copy has the time of one step to arrive in, some 2000 cycles of multiply-adds, which is more than
//! memory takes as a rule, but not always; with four it has three times that. Change: four stages, a group of copies for each,
//! dynamic shared memory (68 KB are more than a static array may have).
//!
//! Measured in `book/pages/research/gemm-steps.md`. The counts hardly change.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_12_four_stages.cu`.
pub(super) const STEP: Step = Step {
    number: 12,
    name: "four stages",
    idea: "four steps along K in shared memory at a time",
    source: kernel_source!("gemm_12_four_stages"),
    method: Tiling::Plain(Takes::WholeTiles),
};
