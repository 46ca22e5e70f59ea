//! Bulk copies under way.
//!
//! A transfer belongs to the block to whose shared memory it goes, or, if it goes to global memory, to the block that asked
//! for it. Its addresses have been checked.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::copies::Source;
use super::launch::{BlockIndex, Launch};
use crate::fault::Fault;
use crate::ir::AtomOp;
use crate::memory::Allocation;
use crate::scalar::Mode;
use crate::tensor_map::Tile;

/// Number of bytes that cost as much as an instruction to copy.
pub(crate) const BYTES_AN_INSTRUCTION: u64 = 128;

/// The thread that asked for a copy, and its instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issuer {
    /// `blockIdx`, and the block's number in the launch.
    pub block: BlockIndex,
    pub number: u64,
    pub warp: u32,
    pub lane: usize,
    pub pc: usize,
}

/// A bulk copy under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) by: Issuer,
    /// Range in shared memory: start, and number of bytes.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) far: Far,
    pub(crate) reduction: Option<ElementReduction>,
    pub(crate) completes: Completes,
    /// Contents of the source, once it has been read.
    pub(crate) held: Option<Vec<u8>>,
    /// Undefined bytes of the source when it was read, kept for a sanitiser.
    pub(crate) undefined: Vec<UndefinedRun>,
    /// Turns until it is made unasked.
    pub(crate) turns: Option<u32>,
}

/// Bytes of a copy's source that were not defined.
#[derive(Debug)]
pub(crate) struct UndefinedRun {
    /// Number of the first in the box.
    pub(crate) dense: u64,
    /// The undefined bits of each.
    pub(crate) bits: Vec<u8>,
    /// Whether all of the 16 bytes around each are undefined: otherwise they may be padding beside members of a struct.
    pub(crate) whole: bool,
    /// The read that brought them, or the copy itself.
    pub(crate) source: Arc<Fault>,
}

impl UndefinedRun {
    /// Bits of the bytes in `range` of the box, and the number of the first byte; `None` if there are none. If elements of `size` bytes
    /// are combined, the whole elements: such a sum is undefined throughout.
    pub(crate) fn part(&self, range: Range<u64>, size: u64) -> Option<(u64, Cow<'_, [u8]>)> {
        let (start, end) = (self.dense.max(range.start), (self.dense + self.bits.len() as u64).min(range.end));
        if start >= end {
            return None;
        }
        if size == 1 {
            let at = |dense: u64| (dense - self.dense) as usize;
            return Some((start, Cow::Borrowed(&self.bits[at(start)..at(end)])));
        }
        let (start, end) = (start / size * size, end.next_multiple_of(size));
        Some((start, Cow::Owned(vec![0xff; (end - start) as usize])))
    }
}

/// The other end.
#[derive(Clone, Debug)]
pub(crate) enum Far {
    /// An allocation, and the offset in it.
    Linear(Source, u64),
    /// An allocation, the offset of the tensor in it, and the box.
    Tile(Source, u64, Box<Tile>),
    /// The block's own shared memory.
    Shared(u64),
    /// Bytes read from the shared memory of another block of the cluster.
    Bytes(Vec<u8>),
    /// The first block of a cluster that was cancelled; `None`: none could be.
    Response(Option<[u32; 3]>),
}

/// Completion mechanism of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completes {
    /// A phase of the mbarrier at `at` in the shared memory of the block of rank `of`: the transfer goes to shared memory.
    Barrier { of: u32, at: u64 },
    /// A group of the issuer's thread: the transfer goes to global memory.
    Group(u32),
}

/// Operation that combines the elements with the ones in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementReduction {
    pub op: AtomOp,
    pub bytes: u8,
    pub mode: Mode,
}

impl Transfer {
    pub(crate) fn new(
        by: Issuer,
        [at, bytes]: [u64; 2],
        far: Far,
        completes: Completes,
        reduction: Option<ElementReduction>,
    ) -> Self {
        Self { by, at, bytes, far, reduction, completes, held: None, undefined: Vec::new(), turns: None }
    }

    pub(crate) fn is_of(&self, warp: u32, lane: usize) -> bool {
        self.by.warp == warp && self.by.lane == lane
    }

    /// Calls `action` for each run of bytes in global memory: its start in the box, its start in the allocation, its length.
    pub(crate) fn for_global(&self, mut action: impl FnMut(u64, u64, u64)) {
        match &self.far {
            Far::Linear(_, offset) => action(0, *offset, self.bytes),
            Far::Tile(_, offset, tile) => tile.visit(|dense, from, bytes| {
                if let Some(from) = from {
                    action(dense, offset + from, bytes);
                }
            }),
            Far::Shared(_) | Far::Bytes(_) | Far::Response(_) => {}
        }
    }

    /// The allocation at the other end.
    pub(crate) fn allocation<'l>(&'l self, launch: &'l Launch<'_>) -> Option<&'l Allocation> {
        match &self.far {
            Far::Linear(source, _) | Far::Tile(source, ..) => match source {
                Source::Buffer(index) => launch.memory.get(*index).map(|found| &**found),
                Source::Block(block) => Some(block),
            },
            Far::Shared(_) | Far::Bytes(_) | Far::Response(_) => None,
        }
    }
}

/// The transfers of a block.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    pub(crate) under_way: Vec<Transfer>,
    /// Number of transfers so far.
    pub(crate) count: u64,
    /// Whether some are made when their turn has come.
    pub(crate) timed: bool,
    /// Whether some complete on the mbarrier of another block.
    pub(crate) tells_others: bool,
    /// Whether the block has been told that no cluster can be cancelled.
    pub(crate) refused: bool,
}

impl Transfers {
    /// Resets this for a block that begins.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Transfer> {
        self.under_way.iter()
    }

    /// Host memory of one transfer, in bytes.
    pub(crate) fn bytes_of(transfer: &Transfer) -> u64 {
        let held = transfer.held.as_ref().map_or(0, Vec::capacity);
        let tile = match &transfer.far {
            Far::Tile(..) => size_of::<Tile>(),
            Far::Bytes(held) => held.capacity(),
            Far::Linear(..) | Far::Shared(_) | Far::Response(_) => 0,
        };
        let runs = transfer.undefined.iter().map(|run| run.bits.capacity());
        let undefined = transfer.undefined.capacity() * size_of::<UndefinedRun>() + runs.sum::<usize>();
        (size_of::<Transfer>() + tile + held + undefined) as u64
    }
}
