//! The barriers of a block.

use crate::ir::NUMBERED_BARRIERS;

/// All barriers of a block.
pub(crate) const BARRIERS: usize = NUMBERED_BARRIERS as usize;

/// A numbered barrier of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierState {
    /// Arrived threads, including those that do not wait.
    pub arrived: u32,
    /// Expected threads; 0 stands for all live threads of the block.
    pub expected: u32,
    /// Number of true predicates of `.red`.
    pub trues: u32,
    /// Number of threads that brought a predicate.
    pub voters: u32,
}
