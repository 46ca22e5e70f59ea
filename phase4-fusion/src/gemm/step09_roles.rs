//! Step 9: a producer warp and two consumer warpgroups, which wait for each other at barriers in shared memory only. Compute
//! capability 9.0 only.
//!
//! Hypothesis: in step 8 the products of a step end before those of the next begin, since the thread that copies waits for all;
//! a warp of its own keeps the ring full, and consumers begin the next products before the last are complete. With the registers that the
//! producer gives back, a consumer holds 64 × 256 sums, and 48 KiB of tiles serve twice the products of 32. Change: roles,
//! `full` and `empty` barriers, `setmaxnreg`, tiles of 128 × 256.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_09_roles.cu`.
pub(super) const STEP: Step = Step {
    number: 9,
    name: "roles",
    idea: "a warp copies, two warpgroups multiply 128×256",
    source: kernel_source!("gemm_09_roles"),
    method: Tiling::Maps,
};
