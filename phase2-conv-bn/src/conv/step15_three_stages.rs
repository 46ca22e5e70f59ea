//! Step 15: three steps in shared memory. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: in step 14 a copy has the multiply-adds of one step to arrive in, and an SM that has one block has
//! nothing else to do while it waits; with three stages a copy has twice that time. Change: three stages, a group of copies for
//! each, and one barrier per step.
//!
//! Measured in `book/pages/research/convolution-steps.md`. The counts hardly change.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_15_three_stages.cu`. It takes windows of up to 16 × 15 taps; compute capability 8.0 and up.
pub(super) const STEP: Step = Step {
    number: 15,
    name: "more stages",
    idea: "the copies for two steps are on their way while one is multiplied",
    source: kernel_source!("conv_15_three_stages"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::WIDE_ASYNC))),
};
