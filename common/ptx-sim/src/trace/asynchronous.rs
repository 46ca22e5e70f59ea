//! Work that goes on while its thread does: copies, products of warpgroups, and the mbarriers that report them.

/// Asynchronous part of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncStep {
    /// Index into [`super::Trace::steps`].
    pub step: usize,
    /// The lanes concerned, one bit per lane.
    pub lanes: u32,
    /// Kind.
    pub event: AsyncEvent,
}

/// Work that is waited for by groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouped {
    /// `cp.async`.
    Copies,
    /// Bulk copies and reductions whose source is shared memory.
    BulkStores,
    /// `wgmma.mma_async`.
    Products,
}

/// An mbarrier of the block, in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Offset of the mbarrier in shared memory.
    pub mbarrier: u64,
    /// Parity of the phase.
    pub odd: bool,
}

/// See [`AsyncStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A bulk copy to shared memory begins, with the number of bytes that the phase waits for.
    Loads {
        /// Phase of the mbarrier that it completes on.
        phase: Phase,
        /// Bytes that arrive.
        bytes: u64,
    },
    /// Begins work that belongs to the thread's next group.
    Begins(Grouped),
    /// Makes a group of the work since the last one.
    Commits(Grouped),
    /// Waits for all but the latest groups.
    Waits {
        /// Kind of work.
        work: Grouped,
        /// Number of groups that it does not wait for; `None`: it waits for all work, committed or not.
        pending: Option<u32>,
    },
    /// Arrives at an mbarrier.
    Arrives(Phase),
    /// Arrives when all `cp.async` so far are complete.
    ArrivesWhenCopied(Phase),
    /// Asks whether a phase is over.
    Asks {
        /// Phase.
        phase: Phase,
        /// The answer.
        over: bool,
    },
}
