//! Step 7: f32 by tensor cores that only know tf32. Compute capability 8.0 and up.
//!
//! Hypothesis: rounding to tf32 loses 13 bits, but the lost part is a value of tf32 too: high · high + high · low + low · high is off by
//! 2⁻²⁰, and three products on tensor cores are still faster than one without (Ootomo and Yokota, "Recovering single precision accuracy
//! from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022). Change: each value of step 6 in two parts.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_07_parts.cu`.
pub const STEP: Step = Step {
    number: 7,
    name: "parts",
    idea: "f32 on tensor cores: three products of tf32 for one of f32",
    source: kernel_source!("attention_07_parts"),
    method: Method::Parts,
};
