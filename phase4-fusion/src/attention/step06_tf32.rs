//! Step 6: f32 from memory, multiplied as tf32 by `mma.sync`. Compute capability 8.0 and up.
//!
//! Hypothesis: step 1 is limited by shared memory, of which it reads 16 bytes for eight multiply-adds, and tensor cores multiply tf32
//! eight times as fast as f32. Change: step 2's way through the tiles with f32 in them; a warp has 16 queries or 32, and kernels for
//! small heads of their own, since filled up to 40 values a head of 8 has five times the work.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_06_tf32.cu`.
pub(super) const STEP: Step = Step {
    number: 6,
    name: "tf32",
    idea: "f32 on tensor cores, rounded to tf32 on the way",
    source: kernel_source!("attention_06_tf32"),
    method: Method::Tf32,
};
