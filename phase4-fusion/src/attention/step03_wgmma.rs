//! Step 3: `wgmma`, and tiles by TMA. Compute capability 9.0 only.
//!
//! Hypothesis: step 2's warps read all of K and V for 16 queries each, and `mma.sync` has half of the tensor cores' rate; a warpgroup's
//! products read K and V once for 64 queries and take the weights from registers. Change: tiles of 128 queries and 128 keys, tensor maps
//! of four dimensions, which read a projection in place, and two stages.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_03_wgmma.cu`.
pub(super) const STEP: Step = Step {
    number: 3,
    name: "wgmma",
    idea: "products of warpgroups, tiles by TMA; weights from registers",
    source: kernel_source!("attention_03_wgmma"),
    method: Method::Maps,
};
