//! Step 11: a nearly square part of the tile per warp, as in step 8 of the GEMM ladder.
//!
//! Hypothesis: a warp of step 10 has 16 channels × 64 pixels. For each tap its load of pixels wants 16 places of 16 bytes,
//! which shared memory delivers in four wavefronts. With 32 × 32 per warp it wants 8, and with the lanes dealt out as in that
//! step, two wavefronts do: 6 for the three loads in place of 8. Change: which part of the tile a thread has.
//!
//! Measured in `book/pages/research/convolution-steps.md`. Shared wavefronts: the `conv-3x3` table of `cargo run -p
//! phase2-conv-bn -- conv`.

use common::prelude::*;

use super::parts::Cost;
use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_11_warp_tiles.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 11,
    name: "warp tiles",
    idea: "32 × 32 outputs per warp, not 16 × 64",
    source: kernel_source!("conv_11_warp_tiles"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Fastest(Cost::SQUARE))),
};
