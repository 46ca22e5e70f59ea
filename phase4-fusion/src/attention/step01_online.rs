//! Step 1: f32, tiled, with online softmax. Any GPU.
//!
//! Hypothesis: phase 3's attention writes and reads its scores three times, tokens² of them; without them in memory, it is limited by
//! multiply-adds. Change: a block has 64 queries and walks over the keys; each row remembers the largest score and the sum so far
//! (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_01_online.cu`.
pub const STEP: Step = Step {
    number: 1,
    name: "online",
    idea: "a walk over the keys, with the largest score and the sum so far",
    source: kernel_source!("attention_01_online"),
    method: Method::Single,
};
