//! Step 15: three steps in shared memory. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: in step 14 a copy has the multiply-adds of one step to arrive in, and an SM that has one block has
//! nothing else to do while it waits; with three stages a copy has twice that time. Change: three stages, a group of copies for
//! each, and one barrier per step.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=more stages" : "ms"] -->0.1947<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=more stages" : "tflops"] -->37.99<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cp.async" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=more stages" : "ms"] as speed -->a speed-up of 1.18×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=more stages" : "ms"] -->0.0400<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=more stages" : "tflops"] -->5.78<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cp.async" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=more stages" : "ms"] as speed -->a speed-up of 1.23×<!-- /figure --> compared with the step before.
//! The counts hardly change. The `conv` table of `cargo run -p phase5-bench` has the other shapes.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_15_three_stages.cu`. It takes windows of up to 16 × 15 taps; compute capability 8.0 and up.
pub const STEP: Step = Step {
    number: 15,
    name: "more stages",
    idea: "the copies for two steps are on their way while one is multiplied",
    source: kernel_source!("conv_15_three_stages"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::WIDE_ASYNC))),
};
