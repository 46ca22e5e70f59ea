//! Step 5: a square of 8×8 elements of C a thread.
//!
//! Hypothesis: 16 loads serve 64 multiply-adds, a quarter each in place of step 4's nine eighths. The price is registers: at up to
//! 128 per thread, an SM holds 16 warps in place of up to 64. Change: 8×8 sums per thread, tiles of 128×128×16.
//!
//! Measured in `book/pages/phase2/gemm-tiles.md`. Counts, in the `gemm` table of `cargo run -p phase2-conv-bn -- gemm`: shared
//! wavefronts. Registers: the `resources` table.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_05_register_tile.cu`.
pub(super) const STEP: Step = Step {
    number: 5,
    name: "register tile",
    idea: "a square of 8×8 elements per thread",
    source: kernel_source!("gemm_05_register_tile"),
    method: Tiling::Plain(Takes::Any),
};
