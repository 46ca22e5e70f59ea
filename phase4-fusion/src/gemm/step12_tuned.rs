//! Step 12: the tile that fits the product, in all types that tensor cores take. Compute capability 9.0 only.
//!
//! Hypothesis: 128 × 256 is large for a product of 512³, which is eight such tiles, and most SMs have nothing to do. Change:
//! six shapes from 128 × 256 to 64 × 64 (`shapes.cuh`, `shapes_160.cuh`), and the same kernels for other types: [`TF32`],
//! [`E4M3`], [`SCALED_E4M3`] and [`S8`], which take B as its transpose only.

use common::kernel_source;

use super::tiles::{OF_BLOCKS, OF_BYTES, WHOLE};
use super::{Precision, Step, Tiling};

/// `kernels/gemm_12_tuned.cu`: f16 and bf16.
pub(super) const STEP: Step = Step {
    number: 12,
    name: "tuned tiles",
    idea: "the tile that fits the size, from 128×256 to 64×64",
    source: kernel_source!("gemm_12_tuned"),
    method: Tiling::Shapes(WHOLE, Precision::HALVES),
};

/// `kernels/gemm_12_tuned_tf32.cu`: f32, multiplied as tf32.
pub(super) const TF32: Step =
    Step { source: kernel_source!("gemm_12_tuned_tf32"), method: Tiling::Shapes(WHOLE, &[Precision::Tf32]), ..STEP };

/// `kernels/gemm_12_tuned_e4m3.cu`: 8-bit floats, to f16.
pub(super) const E4M3: Step =
    Step { source: kernel_source!("gemm_12_tuned_e4m3"), method: Tiling::Shapes(OF_BYTES, &[Precision::E4M3]), ..STEP };

/// `kernels/gemm_12_tuned_scaled_e4m3.cu`: 8-bit floats with a scale for each block, to bf16.
pub(super) const SCALED_E4M3: Step = Step {
    source: kernel_source!("gemm_12_tuned_scaled_e4m3"),
    method: Tiling::Shapes(OF_BLOCKS, &[Precision::ScaledE4M3]),
    ..STEP
};

/// `kernels/gemm_12_tuned_s8.cu`: 8-bit integers, to i32.
pub(super) const S8: Step =
    Step { source: kernel_source!("gemm_12_tuned_s8"), method: Tiling::Shapes(OF_BYTES, &[Precision::S8]), ..STEP };
