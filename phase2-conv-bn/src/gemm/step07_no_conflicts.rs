//! Step 7: the same accesses, at places that lie in different banks.
//!
//! Hypothesis: in step 6 the four lanes that store a row of A meet in one bank, and every fifth lane that reads B meets the first;
//! rows of the tile 4 floats longer, and columns of a thread in two groups, spread both over all banks. Change: padding, and
//! who takes which part.
//!
//! Measured in `book/pages/phase2/gemm-banks.md`. Counts: bank conflicts, in the `gemm` table of `cargo run -p phase2-conv-bn --
//! gemm`; none are left, and a test asserts it.

use common::kernel_source;

use super::{Step, Takes, Tiling};

/// `kernels/gemm_07_no_conflicts.cu`.
pub(super) const STEP: Step = Step {
    number: 7,
    name: "no conflicts",
    idea: "padded rows, groups of columns: every lane its own bank",
    source: kernel_source!("gemm_07_no_conflicts"),
    method: Tiling::Plain(Takes::Vectors),
};
