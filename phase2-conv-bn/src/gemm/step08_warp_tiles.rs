//! Step 8: the threads of a warp take a part of C that is nearly square.
//!
//! Hypothesis: for each i a warp of step 7 wants 16 + 128 values for its 16×128 elements; for 64×32 it wants 64 + 32, and if lanes
//! that want the same are neighbours, shared memory serves sixteen of them at a time: 8 wavefronts in place of 12. Change: the
//! place of a thread in the tile, from bits of its number.
//!
//! Measured in `book/pages/phase2/gemm-warps.md`. The wavefronts are fewer (`gemm` table of `cargo run -p phase2-conv-bn --
//! gemm`), but shared memory was not the limit any more.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_08_warp_tiles.cu`.
pub(super) const STEP: Step = Step {
    number: 8,
    name: "warp tiles",
    idea: "64×32 of C per warp, lanes that want the same side by side",
    source: kernel_source!("gemm_08_warp_tiles"),
    method: Tiling::Plain(Takes::Vectors),
};
