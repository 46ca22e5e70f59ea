//! Step 4: a column of 8 elements of C a thread.
//!
//! Hypothesis: step 3 does two loads from shared memory for each multiply-add. A thread that keeps 8 sums uses each value of B
//! eight times, and does 9 loads for 8 multiply-adds: half. Change: 8 sums per thread, so a block of 512 threads covers 64×64.
//!
//! Measured in `book/pages/phase2/gemm-tiles.md`. Counts, in the `gemm` table of `cargo run -p phase2-conv-bn -- gemm`: shared
//! wavefronts.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_04_register_column.cu`.
pub(super) const STEP: Step = Step {
    number: 4,
    name: "register column",
    idea: "a column of 8 elements per thread: a value of B used 8 times",
    source: kernel_source!("gemm_04_register_column"),
    method: Tiling::Plain(Takes::Any),
};
