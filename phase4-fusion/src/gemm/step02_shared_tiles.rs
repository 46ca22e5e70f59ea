//! Step 2: tiles in shared memory, fetched once per block, with zeros beyond the edges. Compute capability 8.0 and up.
//!
//! Hypothesis: a value from global memory serves 64 multiply-adds in place of 16, and the multiplying warps wait for shared memory
//! only. Change: tiles of 64 × 64 × 32, four fragments of C per warp. Values travel one at a time, so every M, N and K is
//! possible: this step is what is left for products that no other takes.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_02_shared_tiles.cu`.
pub(super) const STEP: Step = Step {
    number: 2,
    name: "shared tiles",
    idea: "tiles in shared memory, zeros beyond the edges",
    source: kernel_source!("gemm_02_shared_tiles"),
    method: Tiling::Any,
};
