//! Step 13: 8 × 8 sums per thread.
//!
//! Hypothesis: with 8 × 4 sums, 3 loads from shared memory serve 32 multiply-adds; with 8 × 8, 4 serve 64, and each weight
//! fetched serves 128 pixels in place of 64. The price is registers, and half as many blocks. Change: tiles of 64 × 128 with as
//! many threads as before.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=wide tile" : "ms"] -->0.1883<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=wide tile" : "tflops"] -->39.29<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=read ahead" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=wide tile" : "ms"] as speed -->a speed-up of 1.18×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=wide tile" : "ms"] -->0.0371<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=wide tile" : "tflops"] -->6.23<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=read ahead" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=wide tile" : "ms"] as speed -->a slowdown to 0.91×<!-- /figure --> compared with the step before.
//! Shared wavefronts and instructions: the `conv-3x3` table of `cargo run -p phase2-conv-bn -- conv`; registers: the
//! `resources` table. The `conv` table of `cargo run -p phase5-bench` has the other shapes.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_13_wide_tile.cu`. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 13,
    name: "wide tile",
    idea: "64 × 128 outputs per block, 8 × 8 per thread",
    source: kernel_source!("conv_13_wide_tile"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::WIDE))),
};
