//! Step 10: 16 bytes per load where neighbours lie side by side.
//!
//! Hypothesis: for a step of 16 taps a thread of step 9 fetches 8 weights, 8 entries of the table and 8 values of the input,
//! one per load. The taps of an output channel are neighbours in memory, and so are the entries: 2 loads of weights and 4 of
//! the table do for 16. Change: a thread fetches four neighbouring weights and two neighbouring entries at a time. Rows of
//! weights begin at multiples of 16 bytes only if the number of taps is a multiple of 4; others go one by one.
//!
//! Measured in `book/pages/research/convolution-steps.md`. Loads of global memory: the `conv-loads` table of `cargo run -p
//! phase2-conv-bn -- conv`.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_10_vectors.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 10,
    name: "vectors",
    idea: "weights four at a time, table entries two at a time",
    source: kernel_source!("conv_10_vectors"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::SQUARE))),
};
