//! Step 15: pairs of blocks that multiply as one (`cta_group::2`), and take the place of pairs that have not begun
//! (`clusterlaunchcontrol`). Compute capability 10.0 only; by the manual, on the simulator alone: no such GPU was there to compare with.
//!
//! Hypothesis: step 14 fetches all of B's tile for 128 rows of C, and its tensor cores rest at both ends of a block. A pair shares B's tile
//! without a multicast, since one product reads the shared memory of both; and a pair that goes on with another's tile has no ends. Change:
//! clusters of two, half of B per block, two places for sums, the next tile asked for while the present one is multiplied.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_15_pairs.cu`.
pub(super) const STEP: Step = Step {
    number: 15,
    name: "pairs",
    idea: "two blocks multiply as one, and go on with tiles of others",
    source: kernel_source!("gemm_15_pairs"),
    method: Tiling::Maps,
};
