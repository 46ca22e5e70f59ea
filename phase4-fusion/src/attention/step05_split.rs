//! Step 5: few queries, cut along the keys. Compute capability 9.0 only.
//!
//! Hypothesis: one query of 16 heads over 16384 keys is 16 tiles, so 116 of 132 SMs are idle. Cut into eight slices, 128 blocks
//! read an eighth of the keys each. A row's parts can be added up whatever their largest scores were: that is what the log-sum-exp is
//! for (Dao et al., "Flash-Decoding for long-context inference", 2023, where a second kernel adds). Change: clusters of slices, which add
//! up in each other's shared memory; one warpgroup of consumers.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_05_split.cu`.
pub(super) const STEP: Step = Step {
    number: 5,
    name: "split keys",
    idea: "few queries: the blocks of a cluster share a tile, each for a part of the keys",
    source: kernel_source!("attention_05_split"),
    method: Method::Slices(&[8, 4, 2]),
};
