//! Step 5: tiles without padding, whose pieces of 16 bytes change places row by row. Compute capability 8.0 and up.
//!
//! Hypothesis: a swizzle avoids bank conflicts as well as padding does, and takes no memory: what a fifth of the tiles took is one more
//! stage in the same 80 KiB. Change: the two functions that say where a value lies, and the number of stages. Wavefronts and conflicts
//! are counted in the tests, of both steps and of tiles without either.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_05_swizzle.cu`.
pub(super) const STEP: Step = Step {
    number: 5,
    name: "swizzle",
    idea: "pieces of 16 bytes change places, in place of padding",
    source: kernel_source!("gemm_05_swizzle"),
    method: Tiling::Rows,
};
