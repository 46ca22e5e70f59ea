//! Step 11: clusters of two blocks, each of which fetches half of B's tile for both. Compute capability 9.0 only.
//!
//! Hypothesis: step 10 asks L2 for 48 KiB per step and block; shared by two, B's part of them, two thirds, is halved. Change:
//! copies of B go to both blocks, and a stage is free when the consumers of both say so; clusters take their tiles in bands.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_11_clusters.cu`.
pub(super) const STEP: Step = Step {
    number: 11,
    name: "clusters",
    idea: "two blocks share B's tile by multicast",
    source: kernel_source!("gemm_11_clusters"),
    method: Tiling::Persistent,
};
