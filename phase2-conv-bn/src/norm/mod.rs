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

use common::prelude::{KernelSource, LaunchConfig};

/// A step of one of the ladders here; `M` tells its host side apart from its neighbours'.
#[derive(Clone, Debug)]
pub struct Step<M> {
    number: u32,
    name: &'static str,
    idea: &'static str,
    source: KernelSource,
    method: M,
}

impl<M: Copy> Step<M> {
    /// Its place in the ladder, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What tables call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number and name, as in a table.
    pub fn title(&self) -> String {
        format!("{} {}", self.number, self.name)
    }

    /// What is new in it, in a few words.
    pub fn idea(&self) -> &'static str {
        self.idea
    }

    /// The kernel file.
    pub fn source(&self) -> &KernelSource {
        &self.source
    }

    /// The same geometry for another text, such as a kernel with a mistake that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step<M> {
        Step { source, ..self.clone() }
    }
}

/// Threads of a block of the vectorised kernels.
const THREADS: u32 = 256;
/// Values that a thread of theirs has in flight: four vectors of four.
const VALUES_IN_FLIGHT: u32 = 16;

/// A thread for each [`VALUES_IN_FLIGHT`] of `n` values.
pub(crate) fn vectors_config(n: u32) -> LaunchConfig {
    LaunchConfig::linear(n.div_ceil(VALUES_IN_FLIGHT), THREADS)
}
