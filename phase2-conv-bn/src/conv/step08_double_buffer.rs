//! Step 8: the next step's values are on their way while this one's are multiplied.
//!
//! Hypothesis: in step 7 all warps of a block wait for the same loads; asked for before the multiply-adds and stored after them, they
//! arrive meanwhile. Change: two stages in shared memory, the next step's values in registers between them, one barrier per step.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=two buffers" : "ms"] -->0.2558<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=two buffers" : "tflops"] -->28.93<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=thread tile" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=two buffers" : "ms"] as speed -->a slowdown to 0.97×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=two buffers" : "ms"] -->0.3553<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=two buffers" : "tflops"] -->0.65<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=thread tile" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=two buffers" : "ms"] as speed -->a slowdown to 0.91×<!-- /figure --> compared with the step before.
//! Registers: the `resources` table.
//! The `conv` table of `cargo run -p phase5-bench` has the other shapes.

use common::prelude::*;

use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_08_double_buffer.cu`. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 8,
    name: "two buffers",
    idea: "the next step on its way to registers while this one is multiplied",
    source: kernel_source!("conv_08_double_buffer"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Never)),
};
