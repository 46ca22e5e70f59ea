//! Step 12: two sets of operands in registers, as in step 13 of the GEMM ladder.
//!
//! Hypothesis: the multiply-adds of a tap wait for its three loads from shared memory, which other warps must hide; asked for a
//! tap earlier, they arrive during 32 multiply-adds. Change: the operands of the next tap are read before those of this one are
//! multiplied, within a step.
//!
//! Measured on an H200, 64 → 64 channels, 3×3, 56 × 56 pixels, 32 images: <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=read ahead" : "ms"] -->0.2218<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=read ahead" : "tflops"] -->33.36<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=warp tiles" : "ms"] / phase5-bench/conv["convolution=64→64 3 @56 ×32" "step=read ahead" : "ms"] as speed -->a slowdown to 0.96×<!-- /figure --> compared with the step before.
//! And 512 → 512 channels, 3×3, 7 × 7 pixels, one image: <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=read ahead" : "ms"] -->0.0337<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=read ahead" : "tflops"] -->6.86<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=warp tiles" : "ms"] / phase5-bench/conv["convolution=512→512 3 @7 ×1" "step=read ahead" : "ms"] as speed -->a slowdown to 0.97×<!-- /figure --> compared with the step before.
//! Registers: the `resources` table. The counts do not change. The `conv` table of `cargo run -p phase5-bench` has the other
//! shapes.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_12_read_ahead.cu`. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 12,
    name: "read ahead",
    idea: "the operands of the next tap are read before these are multiplied",
    source: kernel_source!("conv_12_read_ahead"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::SQUARE))),
};
