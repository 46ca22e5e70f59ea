//! Step 6: a table of taps in place of divisions.
//!
//! Hypothesis: step 5 divides twice for each value that it fetches. Where a tap lies, seen from the corner of its window, is the same
//! for all pixels: a table of 8 bytes per tap, made once for a geometry, leaves an addition, a comparison and the load. Change: the
//! table, and the corner and the edges of each thread's pixel, worked out once before the loop.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`.

use common::prelude::*;

use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_06_offset_table.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 6,
    name: "offset table",
    idea: "a table of taps in place of divisions",
    source: kernel_source!("conv_06_offset_table"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Never)),
};
