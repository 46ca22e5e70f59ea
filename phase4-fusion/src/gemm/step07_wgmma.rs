//! Step 7: `wgmma`, products of four warps that read both tiles from shared memory. Compute capability 9.0 only.
//!
//! Hypothesis: step 6 is limited by registers and by the fragments' way into them; a warpgroup's product takes neither, 64 × 128 × 16 at
//! a time, so even without a copy on its way it is as fast. Change: tiles in the order that a descriptor can describe (128 bytes
//! of a row, swizzled), a fence between the threads' stores and the tensor cores' reads, and no copy ahead: one idea a step.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_07_wgmma.cu`.
pub(super) const STEP: Step = Step {
    number: 7,
    name: "wgmma",
    idea: "products of a warpgroup, from tiles in shared memory",
    source: kernel_source!("gemm_07_wgmma"),
    method: Tiling::Rows,
};
