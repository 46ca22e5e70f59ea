//! Step 10: as many blocks as there is room for, each of which takes one tile of C after the other. Compute capability 9.0 only.
//!
//! Hypothesis: step 9 pays for each tile's beginning and end, some thousand cycles beside the 65,536 of its products at 4096³;
//! with the next tile's copies under way while one is stored, and its stores under the next one's products, it pays once. Change:
//! the loop over tiles, and C by way of shared memory and the copy engine, so rows of C must begin at multiples of 16 bytes.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_10_persistent.cu`.
pub(super) const STEP: Step = Step {
    number: 10,
    name: "persistent",
    idea: "a grid that stays: C is stored while the next tile is multiplied",
    source: kernel_source!("gemm_10_persistent"),
    method: Tiling::Persistent,
};
