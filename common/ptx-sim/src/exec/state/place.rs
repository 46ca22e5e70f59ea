//! Kinds of accesses, and the memory that they reach.

use std::sync::Arc;

use super::launch::At;
use crate::ir::{Order, Scope};
use crate::lanes::each;
use crate::memory::Allocation;

/// Lanes of `mask` that lie in one place.
#[derive(Clone, Copy)]
pub(crate) struct Part<'p> {
    pub mask: u32,
    pub place: Place<'p>,
    /// The place, if it is a block of the heap.
    pub(crate) block: Option<&'p Arc<Allocation>>,
    /// Base of the lanes' addresses.
    pub base: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum Place<'p> {
    Allocation(&'p Allocation),
    Shared,
    /// Shared memory of the cluster's block of that rank, not the running one.
    Peer(u32),
    Local,
    Param,
}

/// Kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// Reads and writes in one.
    Atomic,
    /// The write of an asynchronous copy, which happens later.
    Copy,
}

/// The bytes that a lane is about to write.
pub(crate) type Values<'v> = &'v dyn Fn(usize) -> [u8; 32];

/// Access that each lane makes at its address.
#[derive(Clone, Copy)]
pub(crate) struct Reach<'v> {
    pub kind: Kind,
    pub order: Order,
    pub scope: Scope,
    /// Bytes from the address on.
    pub bytes: u64,
    /// Alignment of the address: a power of two.
    pub(crate) align: u64,
    /// Bytes of the instruction's access that precede these.
    pub after: u64,
    /// Whether it acquires nothing from earlier writers.
    pub blind: bool,
    /// Whether it is a load of what nothing writes while the kernel runs.
    pub read_only: bool,
    /// Values to write; set for stores.
    pub values: Option<Values<'v>>,
}

impl Reach<'_> {
    #[inline]
    pub(crate) fn new(kind: Kind, bytes: u64) -> Self {
        Self {
            kind,
            order: Order::Weak,
            scope: Scope::Device,
            bytes,
            align: bytes,
            after: 0,
            blind: false,
            read_only: false,
            values: None,
        }
    }

    #[inline]
    pub(crate) fn reads(self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Atomic)
    }

    #[inline]
    pub(crate) fn writes(self) -> bool {
        self.kind != Kind::Read
    }

    /// The verb of a report, and its preposition.
    pub(crate) fn verb(self) -> (&'static str, &'static str) {
        if self.writes() { ("write", "to") } else { ("read", "from") }
    }
}

/// The part of an access that lies in one place.
pub(crate) struct Visit<'a> {
    pub at: At<'a>,
    /// First row of the function's frame.
    pub frame: u32,
    pub part: &'a Part<'a>,
    pub addresses: &'a [u64; 32],
    pub reach: Reach<'a>,
}

impl Visit<'_> {
    /// The addresses, relative to the start of the place.
    pub(crate) fn offsets(&self) -> [u64; 32] {
        each(|lane| self.addresses[lane].wrapping_sub(self.part.base))
    }
}

/// A plain access of words by lanes that are in order.
#[derive(Clone, Copy)]
pub(crate) struct InOrder {
    /// The first of the lanes, and their number.
    pub lane: usize,
    pub lanes: u32,
    /// Lanes that take part, counted from the first.
    pub mask: u32,
    /// Offset of the first lane, from the start of the place.
    pub offset: u64,
    /// Words of each lane.
    pub count: u64,
    /// Whether all lanes access one place; otherwise each the next word.
    pub same: bool,
    pub write: bool,
    /// As [`Reach::read_only`].
    pub read_only: bool,
    /// Whether it is the first of its instruction.
    pub fresh: bool,
}
