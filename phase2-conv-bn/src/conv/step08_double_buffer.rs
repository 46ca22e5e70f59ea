//! Step 8: the next step's values are on their way while this one's are multiplied.
//!
//! Hypothesis: in step 7 all warps of a block wait for the same loads; asked for before the multiply-adds and stored after them, they
//! arrive meanwhile. Change: two stages in shared memory, the next step's values in registers between them, one barrier per step.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`. Registers: the `resources` table.

use common::prelude::*;

use super::tabled::{Cutting, Tabled};
use super::{Load, Step};

/// `kernels/conv_08_double_buffer.cu`. It takes windows of up to 16 × 15 taps.
pub(super) const STEP: Step = Step {
    number: 8,
    name: "two buffers",
    idea: "the next step on its way to registers while this one is multiplied",
    source: kernel_source!("conv_08_double_buffer"),
    method: Load(|device, source| Tabled::load(device, source, STEP.name, Cutting::Never)),
};
