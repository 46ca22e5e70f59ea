//! Step 2: the tile that fits the layer. Compute capability 9.0 and up.
//!
//! Hypothesis: 128 pixels × 64 channels fetch 24 KiB for 256 cycles of the tensor cores, 96 bytes per cycle, which L2 does not
//! deliver to all SMs; 128 × 256 need half of that per cycle, but a layer with few pixels has too few such tiles.
//! Change: ten shapes, from 256 × 160 to 64 × 64, and a choice by what each is expected to take.

use common::kernel_source;

use super::tiles::WHOLE;
use super::{Method, Step};

/// `kernels/conv_02_tuned.cu`.
pub(super) const STEP: Step = Step {
    number: 2,
    name: "tuned tiles",
    idea: "the tile that fits the layer, from 256×160 to 64×64",
    source: kernel_source!("conv_02_tuned"),
    method: Method::Tiles(WHOLE),
};
