//! Step 19: blocks with equal work whatever the shape. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: a product with few tiles leaves most SMs idle, however long its K is; cutting K fills them, at the price
//! of writing and adding up the parts. Change: the steps of all tiles are dealt out evenly, and the last block of a tile adds up
//! its parts, in a fixed order.
//!
//! Measured in `book/pages/phase2/gemm-tuned.md`. Cutting only the tiles of the last, partly filled round lost 7 % at 4096³, in
//! an experiment apart from the record. So [`super::Gemm`] cuts only where whole tiles do not fill the chip, and [`super::Tuned`]
//! only long K: slices within a block hand over sooner. It takes this step, too, for large products that step 18's tiles do not
//! fit, ragged or with a round of tiles half empty: [`super::Gemm::evenly`].

use common::kernel_source;

use super::tiles::TileShape;
use super::{Step, Tiling};

/// `kernels/gemm_19_split_k.cu`.
pub(super) const STEP: Step = Step {
    number: 19,
    name: "split K",
    idea: "K is cut where there are fewer tiles than blocks could run",
    source: kernel_source!("gemm_19_split_k"),
    method: Tiling::Cut(&[TileShape { name: "Square", tile: [64, 64], tiles_each: 0.0, rate: 40.0, any: true }]),
};
