//! Step 9: taps cut among blocks, where there are fewer tiles than the chip could run blocks.
//!
//! Hypothesis: 512 channels of 7 × 7 pixels are 8 tiles of 64 × 64, for 132 SMs, each with 288 steps; cut in twelve, 96
//! blocks have 24 steps each, at the price of writing and adding up the parts. Change: a second dimension of the grid, and the last
//! block of a tile adds up its parts. How many cuts is estimated from times measured on an H200.
//!
//! Measured on an H200, 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cut taps" : "ms"] -->0.0418<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cut taps" : "tflops"] -->5.54<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=two buffers" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=cut taps" : "ms"] as speed -->a speed-up of 8.51×<!-- /figure --> compared with the step before.
//! And 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cut taps" : "ms"] -->0.2317<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cut taps" : "tflops"] -->31.93<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=two buffers" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=cut taps" : "ms"] as speed -->a speed-up of 1.10×<!-- /figure --> compared with the step before.
//! The `conv` table of `cargo run -p phase5-bench` has the other shapes.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_09_cut_taps.cu`. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 9,
    name: "cut taps",
    idea: "several blocks share the taps of a tile where there are few tiles",
    source: kernel_source!("conv_09_cut_taps"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::SQUARE))),
};
