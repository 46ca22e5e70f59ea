//! The product for GPUs before compute capability 8.0, which have no `cp.async`: step 8 with layouts and an epilogue.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_portable.cu`.
pub(super) const STEP: Step = Step {
    number: 0,
    name: "portable",
    idea: "step 8 with layouts and an epilogue",
    source: kernel_source!("gemm_portable"),
    method: Tiling::Portable,
};
