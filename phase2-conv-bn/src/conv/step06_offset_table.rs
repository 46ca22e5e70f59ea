//! Step 6: a table of taps in place of divisions.
//!
//! Hypothesis: step 5 divides twice for each value that it fetches. Where a tap lies, seen from the corner of its window, is the same
//! for all pixels: a table of 8 bytes per tap, made once for a geometry, leaves an addition, a comparison and the load. Change: the
//! table, and the corner and the edges of each thread's pixel, worked out once before the loop.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=offset table" : "ms"] -->0.8658<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=offset table" : "tflops"] -->8.55<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=implicit" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=offset table" : "ms"] as speed -->a speed-up of 1.36×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=offset table" : "ms"] -->0.1742<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=offset table" : "tflops"] -->1.33<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=implicit" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=offset table" : "ms"] as speed -->a speed-up of 1.40×<!-- /figure --> compared with the step before.
//! The `conv` table of `cargo run -p phase5-bench` has the other shapes.

use common::prelude::*;

use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_06_offset_table.cu`. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 6,
    name: "offset table",
    idea: "a table of taps in place of divisions",
    source: kernel_source!("conv_06_offset_table"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Never)),
};
