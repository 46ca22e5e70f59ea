//! Step 8: tiles that the copy engine (TMA) fetches, and barriers in shared memory that count their bytes. Compute capability 9.0
//! only.
//!
//! Hypothesis: 256 threads spend more instructions on fetching than on multiplying in step 7, and wait for what they fetch; one thread
//! that asks for boxes, four steps ahead, frees them all. Change: tensor maps in place of pointers, four stages, `mbarrier`.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_08_tma.cu`.
pub(super) const STEP: Step = Step {
    number: 8,
    name: "tma",
    idea: "boxes that the copy engine fetches, counted by barriers in memory",
    source: kernel_source!("gemm_08_tma"),
    method: Tiling::Maps,
};
