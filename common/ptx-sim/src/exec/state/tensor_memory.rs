//! A block's tensor memory, and the work on it that is under way.

use std::collections::BTreeMap;
use std::ops::Range;

use super::block::Block;
use super::products::{Ranges, have, ranges};
use super::transfers::Issuer;
use crate::matrix::tcgen05::{COLUMNS, Cell, LANES, Product, SHIFT, TmemCopy};
use crate::matrix::{Descriptor, Tile};

/// Tensor memory of a block that has allocated some.
#[derive(Debug)]
pub(crate) struct TensorMemory {
    /// By lane and column.
    cells: Vec<u32>,
    /// Lanes of each column that were written.
    written: Vec<u128>,
    /// Ranges of columns, in the order of their allocation, with the warp and instruction of each.
    allocations: Vec<(Range<u32>, (u32, usize))>,
    /// Number of columns of the last allocation: later ones are no larger.
    pub(crate) last: u32,
    /// Instruction that gave up the right to allocate.
    pub(crate) relinquished: Option<usize>,
    /// Work that threads of the block have asked for, in that order.
    pub(crate) tasks: Vec<Task>,
}

impl Default for TensorMemory {
    fn default() -> Self {
        Self {
            cells: vec![0; (LANES * COLUMNS) as usize],
            written: vec![0; COLUMNS as usize],
            allocations: Vec::new(),
            last: COLUMNS,
            relinquished: None,
            tasks: Vec::new(),
        }
    }
}

impl TensorMemory {
    /// Host memory that it takes, in bytes.
    const BYTES: u64 = (LANES * COLUMNS) as u64 * 4;

    /// Allocates that many columns, a power of two, for an instruction of a warp; other blocks hold `others`. `None`: they are not
    /// free.
    pub(crate) fn allocate(&mut self, columns: u32, by: (u32, usize), others: &[Range<u32>]) -> Option<u32> {
        let is_free = |range: &Range<u32>| {
            let mut held = self.allocations.iter().map(|(range, _)| range).chain(others);
            held.all(|other| other.end <= range.start || other.start >= range.end)
        };
        let range = (0..COLUMNS).step_by(columns as usize).map(|first| first..first + columns).find(is_free)?;
        self.written[range.start as usize..range.end as usize].fill(0);
        self.allocations.push((range.clone(), by));
        self.last = columns;
        Some(range.start)
    }

    /// Frees an allocation; false: there is none.
    pub(crate) fn free(&mut self, first: u32, columns: u32) -> bool {
        let found = self.allocations.iter().position(|(range, _)| *range == (first..first + columns));
        found.map(|at| self.allocations.remove(at)).is_some()
    }

    /// The allocations, in their order.
    pub(crate) fn allocations(&self) -> &[(Range<u32>, (u32, usize))] {
        &self.allocations
    }

    /// The first of some columns that is not allocated.
    pub(crate) fn first_outside(&self, mut columns: Range<u32>) -> Option<u32> {
        columns.find(|column| !self.allocations.iter().any(|(range, _)| range.contains(column)))
    }

    /// The word of a cell, which has been checked.
    pub(crate) fn get(&self, Cell { lane, column }: Cell) -> u32 {
        self.cells[(lane * COLUMNS + column) as usize]
    }

    /// Writes a cell, which has been checked.
    pub(crate) fn set(&mut self, Cell { lane, column }: Cell, word: u32) {
        self.cells[(lane * COLUMNS + column) as usize] = word;
        self.written[column as usize] |= 1 << lane;
    }

    /// Moves what the lanes of a shift have to the lanes before them; what was never written is not written after it.
    pub(crate) fn shift(&mut self, Cell { lane: first, column }: Cell) {
        let [lanes, columns] = SHIFT;
        for column in column..column + columns {
            for lane in first..first + lanes - 1 {
                let word = self.get(Cell { lane: lane + 1, column });
                self.cells[(lane * COLUMNS + column) as usize] = word;
            }
            let moved = ((1 << (lanes - 1)) - 1) << first;
            let written = &mut self.written[column as usize];
            *written = *written & !moved | *written >> 1 & moved;
        }
    }

    /// The first of some cells that was never written.
    pub(crate) fn first_unwritten(&self, cells: &Cells) -> Option<Cell> {
        (cells.first..cells.end).find_map(|column| {
            let unwritten = cells.lanes & !self.written[column as usize];
            (unwritten != 0).then(|| Cell { lane: unwritten.trailing_zeros(), column })
        })
    }
}

/// Columns that blocks hold, where it is known which blocks share an SM ([`Launch::processor`]), and those that wait for some.
///
/// [`Launch::processor`]: super::launch::Launch::processor
#[derive(Debug, Default)]
pub(crate) struct SharedColumns {
    pub(crate) held: Vec<HeldColumns>,
    /// By the number of the block: warp and instruction.
    pub(crate) waiting: BTreeMap<u64, (u32, usize)>,
}

#[derive(Debug)]
pub(crate) struct HeldColumns {
    pub(crate) processor: u64,
    /// Number of the block, and the warp and instruction that allocated them.
    pub(crate) block: u64,
    pub(crate) range: Range<u32>,
    pub(crate) by: (u32, usize),
}

impl SharedColumns {
    /// The columns of an SM that other blocks than `block` hold.
    pub(crate) fn of_others(&self, processor: Option<u64>, block: u64) -> Vec<Range<u32>> {
        let others = self.held.iter().filter(|held| Some(held.processor) == processor && held.block != block);
        others.map(|held| held.range.clone()).collect()
    }

    /// Called when a block has ended.
    pub(crate) fn forget(&mut self, block: u64) {
        self.held.retain(|held| held.block != block);
    }
}

pub(crate) const TMEM_PRODUCT: &str = "tcgen05.mma";
pub(crate) const TMEM_COPY: &str = "tcgen05.cp";
pub(crate) const TMEM_SHIFT: &str = "tcgen05.shift";

/// Access of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TmemUse {
    Load,
    Store,
    /// D of a product, or what else it reads.
    Product,
    Operand,
    /// Cells that a copy writes.
    Copy,
    /// Cells that a shift reads and writes.
    Shift,
}

impl TmemUse {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Load => "tcgen05.ld",
            Self::Store => "tcgen05.st",
            Self::Product | Self::Operand => TMEM_PRODUCT,
            Self::Copy => TMEM_COPY,
            Self::Shift => TMEM_SHIFT,
        }
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Store | Self::Product | Self::Copy | Self::Shift)
    }

    /// Whether a warp waits for it by `tcgen05.wait`, and not at an mbarrier.
    pub(crate) fn is_access(self) -> bool {
        matches!(self, Self::Load | Self::Store)
    }
}

/// Cells of tensor memory: some lanes of neighbouring columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    /// A bit for each lane.
    pub(crate) lanes: u128,
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl Cells {
    pub(crate) fn new(lanes: impl Iterator<Item = u32>, columns: Range<u32>) -> Self {
        let lanes = lanes.filter(|lane| *lane < LANES).fold(0, |all, lane| all | 1 << lane);
        Self { lanes, first: columns.start, end: columns.end }
    }

    /// Whether the two have a cell in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.lanes & other.lanes != 0 && self.first < other.end && other.first < self.end
    }
}

/// Work that a thread has asked for.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) by: Issuer,
    pub(crate) work: TensorWork,
}

#[derive(Debug)]
pub(crate) enum TensorWork {
    Multiply(Box<Multiply>),
    Copy(Box<CopyToTmem>),
    Shift(Box<ShiftLanes>),
    /// An arrival at the mbarriers at that offset in the shared memory of these blocks of the cluster.
    Arrive {
        at: u64,
        ranks: Vec<u32>,
    },
}

impl TensorWork {
    /// Blocks of the cluster whose memory it uses.
    pub(crate) fn ranks(&self) -> &[u32] {
        match self {
            Self::Multiply(multiply) => &multiply.ranks,
            Self::Copy(copy) => &copy.ranks,
            Self::Shift(shift) => &shift.ranks,
            Self::Arrive { .. } => &[],
        }
    }

    /// Ranges of each block's shared memory that it reads, for a sanitiser.
    pub(crate) fn reads(&self) -> Option<&Ranges> {
        match self {
            Self::Multiply(multiply) => multiply.reads.as_ref(),
            Self::Copy(copy) => copy.reads.as_ref(),
            Self::Shift(_) | Self::Arrive { .. } => None,
        }
    }

    /// Cells that it uses of each block's tensor memory, by name.
    pub(crate) fn uses(&self) -> Vec<(&'static str, Cells, TmemUse)> {
        match self {
            Self::Multiply(multiply) => {
                let read = [("A", multiply.a_cells())].into_iter().filter_map(|(name, cells)| Some((name, cells?)));
                let read = read.chain(multiply.scale_cells()).map(|(name, cells)| (name, cells, TmemUse::Operand));
                [("D", multiply.d_cells(), TmemUse::Product)].into_iter().chain(read).collect()
            }
            Self::Copy(copy) => vec![("copied", copy.cells(), TmemUse::Copy)],
            Self::Shift(shift) => vec![("shifted", shift.cells(), TmemUse::Shift)],
            Self::Arrive { .. } => Vec::new(),
        }
    }
}

/// Rows of each block's shared memory that go to its tensor memory.
#[derive(Debug)]
pub(crate) struct CopyToTmem {
    pub(crate) form: TmemCopy,
    pub(crate) ranks: Vec<u32>,
    pub(crate) to: Cell,
    pub(crate) from: Descriptor,
    pub(crate) reads: Option<Ranges>,
}

impl CopyToTmem {
    /// Cells that it writes.
    pub(crate) fn cells(&self) -> Cells {
        let Cell { lane: first, column } = self.to;
        let rows = 0..self.form.tile().extent as u32;
        let lanes = rows.flat_map(|row| self.form.lanes(row)).map(|lane| first + lane);
        Cells::new(lanes, column..column + self.form.columns())
    }
}

/// Lanes of each block's tensor memory that move down by one.
#[derive(Debug)]
pub(crate) struct ShiftLanes {
    pub(crate) ranks: Vec<u32>,
    /// The first.
    pub(crate) at: Cell,
}

impl ShiftLanes {
    /// Cells that it reads or writes.
    pub(crate) fn cells(&self) -> Cells {
        let ([lanes, columns], Cell { lane, column }) = (SHIFT, self.at);
        Cells::new(lane..lane + lanes, column..column + columns)
    }
}

/// A product with its operands.
#[derive(Debug)]
pub(crate) struct Multiply {
    pub(crate) product: Product,
    /// Blocks of the cluster that it is of.
    pub(crate) ranks: Vec<u32>,
    pub(crate) d: Cell,
    pub(crate) a: OperandA,
    pub(crate) b: Descriptor,
    /// Where the scales of A and of B are.
    pub(crate) scales: Option<[Cell; 2]>,
    /// Factor of D before; `None`: it starts at zero.
    pub(crate) scale: Option<f64>,
    /// Masks of the lanes that are not written, for each block.
    pub(crate) disabled: Vec<[u32; 4]>,
    /// Ranges of each block's shared memory that it reads, for a sanitiser.
    pub(crate) reads: Option<Ranges>,
}

impl Multiply {
    /// Cells of D in each block.
    pub(crate) fn d_cells(&self) -> Cells {
        let Cell { lane: first, column } = self.d;
        Cells::new(self.product.lanes().map(|lane| first + lane), column..column + self.product.columns_of_d())
    }

    /// Cells of A in each block, if it is in tensor memory.
    pub(crate) fn a_cells(&self) -> Option<Cells> {
        let OperandA::Tmem(Cell { lane: first, column }) = self.a else { return None };
        let rows = (0..self.product.rows()).map(|row| first + self.product.lane(row));
        Some(Cells::new(rows, column..column + self.product.columns_of_a()))
    }

    /// Cells of the scales of A and B in each block: whole columns, and of the last those lanes of each quarter that have some.
    fn scale_cells(&self) -> Vec<(&'static str, Cells)> {
        let Some(places) = self.scales else { return Vec::new() };
        let names = ["the scales of A", "the scales of B"];
        let of = |((name, at), extent): ((&'static str, Cell), u32)| {
            let end = at.column + extent / 32;
            let whole = (extent >= 32).then(|| Cells::new(0..LANES, at.column..end));
            let rest =
                (extent % 32 > 0).then(|| Cells::new((0..LANES).filter(|lane| lane % 32 < extent % 32), end..end + 1));
            [whole, rest].into_iter().flatten().map(move |cells| (name, cells))
        };
        names.into_iter().zip(places).zip(self.product.scaled()).flat_map(of).collect()
    }

    /// Name, tile and descriptor of each operand in shared memory.
    pub(crate) fn tiles(&self) -> impl Iterator<Item = (&'static str, Tile, Descriptor)> {
        let a = match self.a {
            OperandA::Shared(a) => Some(("A", self.product.tile_a(), a)),
            OperandA::Tmem(_) => None,
        };
        a.into_iter().chain([("B", self.product.tile_b(), self.b)])
    }

    /// Ranges of each block's shared memory that the product reads, in order.
    pub(crate) fn shared_ranges(&self) -> Ranges {
        ranges(self.tiles().flat_map(|(_, tile, found)| tile.addresses(found)).map(|(address, _)| address).collect())
    }
}

impl Block {
    /// The block's tensor memory, which takes memory of the host from its first use on.
    pub(crate) fn tensor_memory(&mut self) -> &mut TensorMemory {
        if self.tensor.is_none() {
            self.arrival_bytes += TensorMemory::BYTES;
        }
        self.tensor.get_or_insert_default()
    }

    /// Products and copies that have yet to happen with this block's memory, and who asked for each.
    pub(crate) fn work_under_way(&self) -> impl Iterator<Item = (Issuer, &TensorWork)> {
        let other = self.peers.get((self.rank ^ 1) as usize).and_then(|peer| peer.tensor.as_ref());
        let tasks = self.tensor.iter().chain(other).flat_map(|memory| &memory.tasks);
        tasks.filter(|task| task.work.ranks().contains(&self.rank)).map(|task| (task.by, &task.work))
    }

    /// Whether some product or copy has yet to read its tiles in shared memory.
    pub(crate) fn has_tiles_to_read(&self) -> bool {
        self.wgmmas.are_to_read() || self.tensor.is_some() && self.work_under_way().next().is_some()
    }

    /// The product that has yet to read one of those bytes of shared memory: its instruction, and the warp that asked first.
    pub(crate) fn product_to_read(&self, at: u64, bytes: u64) -> Option<(usize, u32)> {
        let reads = |work: &TensorWork| work.reads().is_some_and(|reads| have(reads, at, bytes));
        let tcgen05 = || self.work_under_way().find(|(_, work)| reads(work));
        self.wgmmas.to_read(at, bytes).or_else(|| tcgen05().map(|(by, _)| (by.pc, by.warp)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandA {
    Shared(Descriptor),
    Tmem(Cell),
}
