//! Step 3: few tiles, cut along K. Compute capability 9.0 and up.
//!
//! Hypothesis: a 7 × 7 image with 512 channels is 8 tiles of 64 × 64 with 72 steps each, so 124 of 132 SMs are idle. Cut
//! into eight slices, 64 work, for 9 steps each. Phase 2's step 19 hands parts over through memory and counts who is last; the
//! blocks of a cluster read each other's shared memory, and a barrier of the cluster says when. Change: clusters of slices.

use common::kernel_source;

use super::tiles::CUT;
use super::{Method, Step};

/// `kernels/conv_03_slices.cu`.
pub(super) const STEP: Step = Step {
    number: 3,
    name: "slices of K",
    idea: "few tiles: the blocks of a cluster share one, each for a part of K",
    source: kernel_source!("conv_03_slices"),
    method: Method::Tiles(CUT),
};
