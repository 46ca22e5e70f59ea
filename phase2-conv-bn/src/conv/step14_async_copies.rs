//! Step 14: values go straight to shared memory. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: in step 13 a thread holds 24 values of the next step in registers while it multiplies, and then stores them;
//! `cp.async` needs neither the registers nor the stores. The price: a copy that transposes moves 4 bytes, so that weights are
//! 8 copies in place of 2 loads. Change: copies in place of loads and stores, still two stages.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cp.async" : "ms"] -->0.2299<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cp.async" : "tflops"] -->32.19<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=wide tile" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cp.async" : "ms"] as speed -->a slowdown to 0.82×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cp.async" : "ms"] -->0.0494<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cp.async" : "tflops"] -->4.68<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=wide tile" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cp.async" : "ms"] as speed -->a slowdown to 0.75×<!-- /figure --> compared with the step before.
//! Instructions: the `conv-3x3` table of `cargo run -p phase2-conv-bn -- conv`. The `conv` table of `cargo run -p phase5-bench`
//! has the other shapes.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_14_async_copies.cu`. It takes windows of up to 16 × 15 taps; compute capability 8.0 and up.
pub const STEP: Step = Step {
    number: 14,
    name: "cp.async",
    idea: "cp.async straight to shared memory, 4 bytes each",
    source: kernel_source!("conv_14_async_copies"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::WIDE_ASYNC))),
};
