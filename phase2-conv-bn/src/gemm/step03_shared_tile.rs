//! Step 3: tiles of A and B in shared memory.
//!
//! Hypothesis: in a block of 32×32 elements each value of A and B is fetched by 32 threads; fetched once into shared memory, it
//! asks the caches for a thirty-second. Change: the loop along K in steps of 32, with a barrier before and after the use of the
//! tiles.
//!
//! Measured in `book/pages/phase2/gemm-tiles.md`. Counts, in the `gemm` table of `cargo run -p phase2-conv-bn -- gemm`: global
//! sectors and shared wavefronts.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_03_shared_tile.cu`.
pub(super) const STEP: Step = Step {
    number: 3,
    name: "shared tile",
    idea: "tiles of A and B in shared memory, fetched once per block",
    source: kernel_source!("gemm_03_shared_tile"),
    method: Tiling::Plain(Takes::Any),
};
