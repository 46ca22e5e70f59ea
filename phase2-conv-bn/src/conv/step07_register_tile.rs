//! Step 7: a register tile, as in steps 4 to 7 of the GEMM ladder.
//!
//! Hypothesis: step 6 loads twice from shared memory for each multiply-add; with 8 × 4 sums per thread 3 loads of 16 bytes serve 32,
//! and each value fetched serves 64 rows or columns in place of 32. Change: tiles of 64 × 64 × 16, weights transposed on their way.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=thread tile" : "ms"] -->0.2482<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=thread tile" : "tflops"] -->29.81<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=offset table" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=thread tile" : "ms"] as speed -->a speed-up of 3.49×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=thread tile" : "ms"] -->0.3231<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=thread tile" : "tflops"] -->0.72<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=offset table" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=thread tile" : "ms"] as speed -->a slowdown to 0.54×<!-- /figure --> compared with the step before.
//! The `conv` table of `cargo run -p phase5-bench` has the other shapes.

use common::prelude::*;

use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_07_register_tile.cu`. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 7,
    name: "thread tile",
    idea: "8 output channels × 4 pixels per thread, 16 bytes per load",
    source: kernel_source!("conv_07_register_tile"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Never)),
};
