//! Step 14: `tcgen05`, products whose sums lie in tensor memory. Compute capability 10.0 only; by the manual, on the simulator alone: no
//! such GPU was there to compare with.
//!
//! Hypothesis: in step 9 two warpgroups hold 128 sums per thread, and all their threads ask for each product. With the sums in a memory
//! of their own one thread asks, and 128 threads are enough to store C. Change: `tcgen05` in place of `wgmma`, arrivals that the
//! tensor cores make by themselves, no `setmaxnreg`.

use common::kernel_source;

use super::{Step, Tiling};

/// `kernels/gemm_14_tensor_memory.cu`.
pub(super) const STEP: Step = Step {
    number: 14,
    name: "tensor memory",
    idea: "sums in tensor memory: one thread asks for all products",
    source: kernel_source!("gemm_14_tensor_memory"),
    method: Tiling::Maps,
};
