//! Step 3: fragments by hand, `ldmatrix` and `mma.sync`, from tiles whose rows have padding. Compute capability 8.0 and up.
//!
//! Hypothesis: with 16 bytes per copy the way into shared memory takes an eighth of the instructions; a row and 16 bytes of padding
//! put the 8 rows of a matrix into different banks; and 64 sums per lane ask for two loads where step 2 asks for four. Change: tiles of
//! 128 × 128 × 32, 64 × 32 of C per warp, known places of all values. From here on rows of A and B must begin at multiples
//! of 16 bytes.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_03_ldmatrix.cu`.
pub(super) const STEP: Step = Step {
    number: 3,
    name: "ldmatrix",
    idea: "ldmatrix and mma.sync by hand, 128×128 per block",
    source: kernel_source!("gemm_03_ldmatrix"),
    method: Tiling::Rows,
};
