//! Step 16: tiles numbered in bands. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: 264 blocks run at a time. Numbered along rows of 64 tiles, as 8192³ has, they want some 4 rows of tiles of A and all 64
//! columns of B; in bands of eight rows, 8 and 33. So L2 has to fetch little more than half. At 4096³, with 32 tiles across, it is
//! the same either way. Change: the number of a block becomes a place within a band of eight rows of tiles.
//!
//! Measured in `book/pages/research/gemm-steps.md`.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_16_bands.cu`.
pub(super) const STEP: Step = Step {
    number: 16,
    name: "bands",
    idea: "blocks that run at a time share rows of A and columns of B in L2",
    source: kernel_source!("gemm_16_bands"),
    method: Tiling::Plain(Takes::WholeTiles),
};
