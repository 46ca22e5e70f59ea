//! The barriers of a block.

use crate::ir::NUMBERED_BARRIERS;

/// All barriers of a block.
pub(crate) const BARRIERS: usize = NUMBERED_BARRIERS as usize;

/// A numbered barrier of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierState {
    /// Threads that have come, those that only arrived included.
    pub arrived: u32,
    /// Threads that are expected; 0 stands for all live threads of the block.
    pub expected: u32,
    /// Predicates of `.red`: true ones.
    pub trues: u32,
    /// Threads that brought a predicate.
    pub voters: u32,
}
