//! Step 8: one query, whose keys are streamed without tensor cores. Compute capability 9.0 only, for clusters.
//!
//! Hypothesis: step 5 gives a query 64 rows of tensor cores, 63 of them empty, and waits for tiles in turn; it reads keys at 60 % of the
//! memory's rate. A query needs 4 operations per byte of keys and values, which f32's own multiply-adds do while the memory delivers them. Change:
//! 16-byte loads into registers, 8 of them ahead in each of 16 warps; a row's parts are added up over lanes, warps and a cluster.

use common::kernel_source;

use super::{Method, Step};

/// `kernels/attention_08_stream.cu`.
pub(super) const STEP: Step = Step {
    number: 8,
    name: "stream",
    idea: "one query: every SM streams keys, without tensor cores",
    source: kernel_source!("attention_08_stream"),
    method: Method::Stream(8),
};
