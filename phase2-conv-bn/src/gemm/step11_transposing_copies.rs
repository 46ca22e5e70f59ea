//! Step 11: A too is copied by `cp.async`, which transposes it. Compute capability 8.0 and up.
//!
//! Hypothesis: in step 10 a thread holds eight values of A in registers while it multiplies, and then stores them; a copy of 4 bytes
//! may go anywhere in shared memory, so that it can transpose without either. The price: eight copies in place of two loads.
//! Change: A by copies of 4 bytes, in the pattern that a transposed B had already.
//!
//! Measured in `book/pages/research/gemm-steps.md`. Counts: instructions, in the `gemm` table of `cargo run -p phase2-conv-bn --
//! gemm`. Registers: the `resources` table.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_11_transposing_copies.cu`.
pub(super) const STEP: Step = Step {
    number: 11,
    name: "async transpose",
    idea: "A by cp.async too, which transposes it 4 bytes at a time",
    source: kernel_source!("gemm_11_transposing_copies"),
    method: Tiling::Plain(Takes::WholeTiles),
};
