//! What the steps of all ladders have in common.

use common::prelude::KernelSource;

/// A step of a ladder: a kernel file, and in `M` what its host side needs to know beside it.
#[derive(Clone, Debug)]
pub struct Step<M> {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) idea: &'static str,
    pub(crate) source: KernelSource,
    pub(crate) method: M,
}

impl<M: Clone> Step<M> {
    /// Its place in the ladder, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What messages call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number and name, as in a table: `7 no conflicts`.
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

    /// The same host side for another text, such as a kernel with a mistake that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step<M> {
        Step { source, ..self.clone() }
    }
}
