//! Step 12: two sets of operands in registers, as in step 13 of the GEMM ladder.
//!
//! Hypothesis: the multiply-adds of a tap wait for its three loads from shared memory, which other warps must hide; asked for a
//! tap earlier, they arrive during 32 multiply-adds. Change: the operands of the next tap are read before those of this one are
//! multiplied, within a step.
//!
//! Measured in `book/pages/research/convolution-steps.md`. Registers: the `resources` table. The counts do not change.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_12_read_ahead.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 12,
    name: "read ahead",
    idea: "the operands of the next tap are read before these are multiplied",
    source: kernel_source!("conv_12_read_ahead"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::SQUARE))),
};
