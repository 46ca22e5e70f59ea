//! Step 13: few tiles, cut along K. Compute capability 9.0 only.
//!
//! Hypothesis: a product of 256 × 256 over K = 4096 is 16 tiles of 64 × 64 with 64 steps each, so 116 of 132 SMs are
//! idle. Cut into four slices, 64 blocks have 16 steps each. Phase 2's step 19 hands parts over through memory and counts who is
//! last; the blocks of a cluster read each other's shared memory, and a barrier of the cluster says when. Change: clusters of
//! slices (`SLICES` in `slices.cuh`), which are gone after one tile.

use common::kernel_source;

use super::tiles::CUT;
use super::{Precision, Step, Tiling};

/// `kernels/gemm_13_slices.cu`: f16 and bf16.
pub(super) const STEP: Step = Step {
    number: 13,
    name: "slices of K",
    idea: "few tiles: the blocks of a cluster share one, each for a part of K",
    source: kernel_source!("gemm_13_slices"),
    method: Tiling::Shapes(CUT, Precision::HALVES),
};

/// `kernels/gemm_13_slices_tf32.cu`: f32, multiplied as tf32.
pub(super) const TF32: Step =
    Step { source: kernel_source!("gemm_13_slices_tf32"), method: Tiling::Shapes(CUT, &[Precision::Tf32]), ..STEP };
