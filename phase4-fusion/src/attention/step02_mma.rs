//! Step 2: f16 on tensor cores, `ldmatrix` and `mma.sync`. Compute capability 8.0 and up.
//!
//! Hypothesis: the tensor cores are 15 times as fast as f32's multiply-adds, and the softmax between two products costs no way through
//! memory: what a thread has of the scores is what it needs of the second product's A. Change: a warp has 16 queries in registers, and
//! tiles of 64 keys come by `cp.async` (Dao, "FlashAttention-2", 2023).

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_02_mma.cu`.
pub(super) const STEP: Step = Step {
    number: 2,
    name: "mma",
    idea: "f16 on tensor cores; the weights stay in registers",
    source: kernel_source!("attention_02_mma"),
    method: Method::Half,
};
