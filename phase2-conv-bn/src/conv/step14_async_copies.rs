//! Step 14: values go straight to shared memory. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: in step 13 a thread holds 24 values of the next step in registers while it multiplies, and then stores them;
//! `cp.async` needs neither the registers nor the stores. The price: a copy that transposes moves 4 bytes, so that weights are
//! 8 copies in place of 2 loads. Change: copies in place of loads and stores, still two stages.
//!
//! Measured in `book/pages/research/convolution-steps.md`. Instructions: the `conv-3x3` table of `cargo run -p phase2-conv-bn
//! -- conv`.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_14_async_copies.cu`. It takes windows of up to 16 × 15 taps; compute capability 8.0 and up.
pub(super) const STEP: Step = Step {
    number: 14,
    name: "cp.async",
    idea: "cp.async straight to shared memory, 4 bytes each",
    source: kernel_source!("conv_14_async_copies"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::WIDE_ASYNC))),
};
