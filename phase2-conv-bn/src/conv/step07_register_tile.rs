//! Step 7: a register tile, as in steps 4 to 7 of the GEMM ladder.
//!
//! Hypothesis: step 6 loads twice from shared memory for each multiply-add; with 8 × 4 sums per thread 3 loads of 16 bytes serve 32,
//! and each value fetched serves 64 rows or columns in place of 32. Change: tiles of 64 × 64 × 16, weights transposed on their way.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`.

use common::prelude::*;

use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_07_register_tile.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 7,
    name: "thread tile",
    idea: "8 output channels × 4 pixels per thread, 16 bytes per load",
    source: kernel_source!("conv_07_register_tile"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Never)),
};
