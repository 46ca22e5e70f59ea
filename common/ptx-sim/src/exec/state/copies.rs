//! Asynchronous copies of a warp under way.

use std::sync::Arc;

use super::launch::Launch;
use crate::lanes::lanes;
use crate::memory::Allocation;

/// `cp.async` copies under way. They happen as late as PTX allows, when a wait asks for them, so that a kernel that
/// forgets to wait reads the old contents: on hardware it would only sometimes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    pub(crate) pending: Vec<PendingCopy>,
    /// Copies so far.
    pub(crate) count: u64,
    /// Groups that each lane has committed.
    pub(crate) committed: [u32; 32],
    /// Groups of bulk copies that each lane has committed.
    pub(crate) bulk_committed: [u32; 32],
}

#[derive(Clone, Debug)]
pub(crate) struct PendingCopy {
    pub(crate) lane: usize,
    /// The instruction that asked for it.
    pub(crate) pc: usize,
    /// Group of the lane that it belongs to.
    pub(crate) group: u32,
    /// Offset in shared memory.
    pub(crate) to: u32,
    /// Source, and the offset in it.
    pub(crate) from: (Source, u64),
    pub(crate) bytes: u8,
    /// Bytes read; the rest is zeros.
    pub(crate) read: u8,
    /// Turns of the warp until it is made unasked.
    pub(crate) turns: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Index in the launch's snapshot.
    Buffer(usize),
    /// Block of the heap.
    Block(Arc<Allocation>),
}

impl PendingCopy {
    /// The allocation that it reads, if it reads any bytes.
    pub(crate) fn source<'c>(&'c self, launch: &'c Launch<'_>) -> &'c Allocation {
        match &self.from.0 {
            Source::Buffer(index) => &launch.memory[*index],
            Source::Block(block) => block,
        }
    }

    /// Whether a wait of the lanes in `mask` for all but the latest `n` groups covers it, too; `None`: for all copies.
    pub(crate) fn is_due(&self, committed: &[u32; 32], n: Option<u32>, mask: u32) -> bool {
        let due = n.is_none_or(|n| self.group < committed[self.lane].saturating_sub(n));
        mask >> self.lane & 1 == 1 && due
    }
}

impl Copies {
    /// Number of copies that such a wait covers, and number that it leaves under way.
    pub(crate) fn waits(&self, n: Option<u32>, mask: u32) -> [usize; 2] {
        let due = self.pending.iter().filter(|copy| copy.is_due(&self.committed, n, mask)).count();
        [due, self.pending.len() - due]
    }

    /// Takes the copies of a lane; the caller is responsible for them from now on.
    pub(crate) fn take(&mut self, lane: usize) -> Vec<PendingCopy> {
        self.pending.extract_if(.., |copy| copy.lane == lane).collect()
    }

    /// Host memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pending.capacity() * size_of::<PendingCopy>()
    }

    pub(crate) fn commit_bulk(&mut self, mask: u32) {
        lanes(mask).for_each(|lane| self.bulk_committed[lane] = self.bulk_committed[lane].saturating_add(1));
    }

    pub(crate) fn commit(&mut self, mask: u32) {
        lanes(mask).for_each(|lane| self.committed[lane] = self.committed[lane].saturating_add(1));
    }
}

/// Arrivals of the block that follow asynchronous copies.
#[derive(Clone, Debug)]
pub(crate) struct AsyncArrival {
    pub(crate) warp: u32,
    pub(crate) lane: usize,
    /// The object, in shared memory.
    pub(crate) at: u64,
    pub(crate) copies: Vec<PendingCopy>,
    /// The instruction that asked for it.
    pub(crate) pc: usize,
}

impl AsyncArrival {
    /// Host memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.copies.capacity() * size_of::<PendingCopy>()) as u64
    }
}
