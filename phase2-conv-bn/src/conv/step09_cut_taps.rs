//! Step 9: taps cut among blocks, where there are fewer tiles than the chip could run blocks.
//!
//! Hypothesis: 512 channels of 7 × 7 pixels are 8 tiles of 64 × 64, for 132 SMs, each with 288 steps; cut in twelve, 96
//! blocks have 24 steps each, at the price of writing and adding up the parts. Change: a second dimension of the grid, and the last
//! block of a tile adds up its parts. How many cuts is estimated from times measured on an H200.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_09_cut_taps.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 9,
    name: "cut taps",
    idea: "several blocks share the taps of a tile where there are few tiles",
    source: kernel_source!("conv_09_cut_taps"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::SQUARE))),
};
