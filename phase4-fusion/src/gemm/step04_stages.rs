//! Step 4: four tiles of each matrix in shared memory, filled by `cp.async`. Compute capability 8.0 and up.
//!
//! Hypothesis: step 3's warps wait for the way from L2 once per 32 values of i; with three steps on their way ahead of the one that is
//! multiplied, nobody waits, and one barrier per step is enough. Change: copies that no thread waits for, a ring of four stages.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_04_stages.cu`.
pub(super) const STEP: Step = Step {
    number: 4,
    name: "four stages",
    idea: "cp.async, four tiles of each matrix in shared memory",
    source: kernel_source!("gemm_04_stages"),
    method: Tiling::Rows,
};
