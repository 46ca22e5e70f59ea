//! Step 6: accesses of 16 bytes, with A transposed on its way into shared memory.
//!
//! Hypothesis: step 5 issues 16 loads for 64 multiply-adds, and each load is an instruction that could have been a multiply-add; 4
//! loads of 16 bytes do the same. Change: `float4` for A, B, C and the tiles; A's tile is transposed, so that a thread's values
//! lie side by side in it.
//!
//! Measured in `book/pages/phase2/gemm-banks.md`. The stores have bank conflicts, which are new, and the assembler had made loads
//! of 16 bytes of step 5's already. Counts: instructions and bank conflicts, in the `gemm` table of `cargo run -p phase2-conv-bn
//! -- gemm`.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_06_vectors.cu`.
pub(super) const STEP: Step = Step {
    number: 6,
    name: "16-byte loads",
    idea: "16 bytes per load, A transposed in shared memory",
    source: kernel_source!("gemm_06_vectors"),
    method: Tiling::Plain(Takes::Vectors),
};
