//! Step 4: a column of 8 elements of C a thread.
//!
//! Hypothesis: step 3 does two loads from shared memory for each multiply-add. A thread that keeps 8 sums uses each value of B
//! eight times, and does 9 loads for 8 multiply-adds: half. Change: 8 sums per thread, so a block of 512 threads covers 64×64.
//!
//! Measured at 4096³ on an H200: <!-- figure: phase5-bench/gemm["4096³" "step=register column" : "ms"] to 2 -->8.24<!-- /figure --> ms,
//! or <!-- figure: phase5-bench/gemm["4096³" "step=register column" : "tflops"] -->16.67<!-- /figure --> TFLOP/s,
//! which is <!-- figure: phase5-bench/gemm["4096³" "step=shared tile" : "ms"] / phase5-bench/gemm["4096³" "step=register column" : "ms"] as speed -->a speed-up of 1.98×<!-- /figure --> compared with step 3.
//! Counts, in the `gemm` table of `cargo run -p phase2-conv-bn -- gemm`: shared wavefronts.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_04_register_column.cu`.
pub const STEP: Step = Step {
    number: 4,
    name: "register column",
    idea: "a column of 8 elements per thread: a value of B used 8 times",
    source: kernel_source!("gemm_04_register_column"),
    method: Tiling::Any,
};
