//! Cells of tensor memory that an instruction uses.

use std::ops::Range;

/// An instruction that loads, stores, copies, shifts or multiplies in tensor memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorStep {
    /// Index into [`super::Trace::steps`].
    pub step: usize,
    /// Parts of tensor memory, in the order in which the instruction has them.
    pub parts: Vec<TensorPart>,
    /// Columns that the block has allocated.
    pub held: Vec<Range<u32>>,
}

/// Some lanes of neighbouring columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorPart {
    /// Role in the instruction: `A`, `D`, `the scales of A`, `loaded`.
    pub name: &'static str,
    /// A bit for each lane.
    pub lanes: u128,
    pub columns: Range<u32>,
}
