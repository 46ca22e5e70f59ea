//! Step 4: a producer warp, and two consumer warpgroups that take turns. Compute capability 9.0 only.
//!
//! Hypothesis: in step 3 the tensor cores rest while weights are computed: at 128 values of a head, 64 × 128 scores take 1024 cycles of
//! products and some 600 of exponentials and maxima. If one warpgroup weighs while the other multiplies, only the longer of the two
//! counts. Change: roles, barriers of a ring for K and for V, `setmaxnreg`, turns by named barriers; within a warpgroup, the next scores
//! begin before the last values are complete (Shah et al., "FlashAttention-3", 2024). A grid that stays.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_04_roles.cu`.
pub(super) const STEP: Step = Step {
    number: 4,
    name: "roles",
    idea: "a warp copies; one warpgroup weighs while the other multiplies",
    source: kernel_source!("attention_04_roles"),
    method: Method::Stays,
};
