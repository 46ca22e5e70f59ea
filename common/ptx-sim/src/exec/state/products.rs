//! Products of warpgroups in flight: what warps have asked for with `wgmma`, and have not got.

use std::collections::VecDeque;

use super::launch::Launch;
use super::warp::Frame;
use crate::ir::*;
use crate::matrix::{Dense, Descriptor};

/// Warps of a warpgroup.
pub(crate) const WARPS: u32 = 4;

/// The products of a block's warpgroups.
#[derive(Debug, Default)]
pub(crate) struct Wgmmas {
    pub(crate) groups: Vec<Warpgroup>,
    /// Products whose tiles have not been read yet.
    pub(crate) unread: usize,
}

impl Wgmmas {
    /// Resets this for a fresh block.
    pub(crate) fn reset(&mut self, threads: u32) {
        self.unread = 0;
        self.groups.clear();
        self.groups.resize_with(threads.div_ceil(32 * WARPS) as usize, Warpgroup::default);
    }
}

/// Products are counted from the start of the block.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    /// Products that some warp has asked for and some warp has not got.
    pub(crate) products: VecDeque<Product>,
    /// The number of the first of them.
    pub(crate) first: u64,
    pub(crate) members: [Member; WARPS as usize],
}

/// Progress of one warp of the group.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// Products that it has asked for.
    pub(crate) issued: u64,
    /// Products whose results are in its registers.
    pub(crate) done: u64,
    /// Number of products it had asked for when it committed each of its latest groups.
    pub(crate) groups: VecDeque<u64>,
    pub(crate) names: Vec<Name>,
    /// Turns that its first product in flight has had to wait.
    pub(crate) turns: u32,
}

/// A product in flight.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) pc: usize,
    /// The warp that asked first.
    pub(crate) warp: u32,
    /// Ranges of its tiles in shared memory, for a sanitiser.
    pub(crate) reach: Option<Reach>,
    /// The descriptor, if A is in shared memory.
    pub(crate) a: Option<Descriptor>,
    pub(crate) b: Descriptor,
    pub(crate) accumulate: bool,
    /// Frame of each warp's registers.
    pub(crate) frames: [Frame; WARPS as usize],
    /// The moment when the tiles were read, to a sanitiser.
    pub(crate) read: u32,
    /// A and B from shared memory, once they have been read.
    pub(crate) tiles: Option<(Option<Dense>, Dense)>,
}

/// Ranges of shared memory in their order: start, and number of bytes.
pub(crate) type Ranges = Vec<[u64; 2]>;

/// Ranges of shared memory that a product reads.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Each warp's rows of A; empty if they are in registers.
    pub(crate) a: [Ranges; WARPS as usize],
    pub(crate) b: Ranges,
}

impl Reach {
    pub(crate) fn new(op: &WgmmaOp, a: Option<Descriptor>, b: Descriptor) -> Self {
        let rows = op.wgmma.tile_a(op.mn_major[0]);
        let of_warp = |warp: usize| {
            let all = a.into_iter().flat_map(|a| rows.addresses(a));
            ranges(all.filter(|(_, [row, _])| row / 16 == warp).map(|(address, _)| address).collect())
        };
        let columns = op.wgmma.tile_b(op.mn_major[1]);
        Self { a: std::array::from_fn(of_warp), b: ranges(columns.addresses(b).map(|(address, _)| address).collect()) }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Ranges> {
        self.a.iter().chain([&self.b])
    }

    fn has(&self, at: u64, bytes: u64) -> bool {
        self.all().any(|ranges| have(ranges, at, bytes))
    }
}

/// Whether the ranges have one of those bytes.
pub(crate) fn have(ranges: &[[u64; 2]], at: u64, bytes: u64) -> bool {
    let next = ranges.partition_point(|[from, count]| from + count <= at);
    ranges.get(next).is_some_and(|[from, _]| *from < at.saturating_add(bytes.max(1)))
}

/// Chunks of 16 bytes as ranges.
pub(crate) fn ranges(mut chunks: Vec<u64>) -> Ranges {
    chunks.sort_unstable();
    chunks.dedup();
    chunks.chunk_by(|one, next| *next == one + 16).map(|range| [range[0], 16 * range.len() as u64]).collect()
}

/// Another register that gets a result.
#[derive(Debug)]
pub(crate) struct Name {
    /// Number of the product, and of the register in its D.
    pub(crate) of: (u64, usize),
    /// The row, counted from the warp's first.
    pub(crate) row: u32,
    pub(crate) lanes: u32,
}

/// A product of a warp, whose result is not in its registers yet.
pub(crate) struct InFlight<'l> {
    pub(crate) pc: usize,
    pub(crate) op: &'l WgmmaOp,
    /// Frame of its registers.
    pub(crate) frame: Frame,
}

impl Wgmmas {
    /// Whether some product's tiles have yet to be read.
    #[inline(always)]
    pub(crate) fn are_to_read(&self) -> bool {
        self.unread != 0
    }

    /// The product that has yet to read one of those bytes of shared memory: its instruction, and the warp that asked first.
    pub(crate) fn to_read(&self, at: u64, bytes: u64) -> Option<(usize, u32)> {
        let products = self.groups.iter().flat_map(|group| &group.products).filter(|product| product.tiles.is_none());
        let has = |product: &&Product| product.reach.as_ref().is_some_and(|reach| reach.has(at, bytes));
        products.into_iter().find(has).map(|product| (product.pc, product.warp))
    }

    /// Products of a warp in flight, the latest first.
    pub(crate) fn in_flight<'l>(&self, launch: &Launch<'l>, warp: u32) -> impl Iterator<Item = InFlight<'l>> {
        let group = self.groups.get((warp / WARPS) as usize);
        let member = (warp % WARPS) as usize;
        let numbers = group.map_or(0..0, |group| group.members[member].done..group.members[member].issued);
        numbers.rev().filter_map(move |number| {
            let product = group?.product(number)?;
            Some(InFlight { pc: product.pc, op: op_at(launch, product.pc)?, frame: product.frames[member] })
        })
    }

    /// Whether a row, counted from the warp's first, is one more name of a result.
    pub(crate) fn is_name(&self, warp: u32, row: u32) -> bool {
        let group = self.groups.get((warp / WARPS) as usize);
        group.is_some_and(|group| group.members[(warp % WARPS) as usize].names.iter().any(|name| name.row == row))
    }
}

impl Warpgroup {
    pub(crate) fn product(&self, number: u64) -> Option<&Product> {
        self.products.get(number.checked_sub(self.first)? as usize)
    }

    /// Releases the products that all warps have got. Returns the host memory that they took, in bytes.
    pub(crate) fn retire(&mut self, launch: &Launch<'_>) -> u64 {
        let done = self.members.iter().map(|member| member.done).min().unwrap_or(0);
        let count = done.saturating_sub(self.first) as usize;
        self.first = self.first.max(done);
        self.products.drain(..count.min(self.products.len())).filter_map(|product| bytes_of(launch, product.pc)).sum()
    }
}

/// The instruction at `pc`.
pub(crate) fn op_at<'l>(launch: &Launch<'l>, pc: usize) -> Option<&'l WgmmaOp> {
    match &launch.program.code[pc].op {
        Op::Together(together) => match &together.op {
            TogetherOp::Wgmma(op) => Some(op),
            _ => None,
        },
        _ => None,
    }
}

/// Host memory that a product takes while it is in flight, in bytes.
pub(crate) fn bytes_of(launch: &Launch<'_>, pc: usize) -> Option<u64> {
    let op = op_at(launch, pc)?;
    // At worst, each 16 bytes of the tiles are a range of their own.
    let reach = if launch.sanitised { op.tile_bytes() } else { 0 };
    Some(size_of::<Product>() as u64 + op.wgmma.decoded_bytes() + reach)
}
