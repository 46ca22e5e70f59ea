//! Step 13: 8 × 8 sums per thread.
//!
//! Hypothesis: with 8 × 4 sums, 3 loads from shared memory serve 32 multiply-adds; with 8 × 8, 4 serve 64, and each weight
//! fetched serves 128 pixels in place of 64. The price is registers, and half as many blocks. Change: tiles of 64 × 128 with as
//! many threads as before.
//!
//! Measured in `book/pages/research/convolution-steps.md`. Shared wavefronts and instructions: the `conv-3x3` table of
//! `cargo run -p phase2-conv-bn -- conv`; registers: the `resources` table.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_13_wide_tile.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 13,
    name: "wide tile",
    idea: "64 × 128 outputs per block, 8 × 8 per thread",
    source: kernel_source!("conv_13_wide_tile"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::WIDE))),
};
