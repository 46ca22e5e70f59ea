//! Step 9: Q, K, V and weights of one byte. Compute capability 9.0 only.
//!
//! Hypothesis: tensor cores multiply e4m3 at twice f16's rate, so at 128 values of a head products would take no longer than exponentials.
//! Change: step 4 over bytes. Products of bytes take both factors only as they lie along K, which V does not: three more warps of the
//! producer turn its tiles in shared memory (Shah et al., "FlashAttention-3", 2024). A kernel that wrote Vᵀ before took 5 % of the time.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_09_e4m3.cu`.
pub(super) const STEP: Step = Step {
    number: 9,
    name: "e4m3",
    idea: "values and weights of one byte: products take half of the time",
    source: kernel_source!("attention_09_e4m3"),
    method: Method::Bytes,
};
