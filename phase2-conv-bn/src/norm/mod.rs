//! What is limited by memory alone: BatchNorm, ReLU, and the statistics that BatchNorm needs in training.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`batch_norm`] 1 | `norm_01_batch_norm.cu` | one thread normalises one element |
//! | 2 | `norm_02_scale_shift.cu` | two parameters a channel computed beforehand, a grid over the planes |
//! | 3 | `norm_03_vectorised.cu` | 16-byte vectors, four loads in flight a thread |
//! | [`relu`] 1 | `relu_01_naive.cu` | one thread clips one element, in place |
//! | 2 | `relu_02_vectorised.cu` | 16-byte vectors, four loads in flight a thread |
//! | [`statistics`] 1 | `stats_01_naive.cu` | one thread a channel |
//! | 2 | `stats_02_shared.cu` | one block a channel, a tree of sums in shared memory |
//! | 3 | `stats_03_shuffle.cu` | many blocks a channel, vectors, warp shuffles, a second stage |
//! | 4 | `stats_04_welford.cu` | means and squared distances merged in place of sums |
//!
//! [`ladders`] runs them all.

pub mod batch_norm;
pub mod ladders;
pub mod relu;
pub mod statistics;

use common::prelude::LaunchConfig;

/// Threads of a block of the vectorised kernels.
const THREADS: u32 = 256;
/// Values that a thread of theirs has in flight: four vectors of four.
const VALUES_IN_FLIGHT: u32 = 16;

/// The launch of a kernel that changes `n` values by `in_flight.cuh`: a thread for every 16 of them.
pub fn vectors_config(n: u32) -> LaunchConfig {
    LaunchConfig::linear(n.div_ceil(VALUES_IN_FLIGHT), THREADS)
}
