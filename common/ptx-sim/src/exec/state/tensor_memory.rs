//! A block's tensor memory, and the work on it that is under way.

use std::ops::Range;

use super::transfers::Issuer;
use crate::matrix::Descriptor;
use crate::matrix::tcgen05::{COLUMNS, Cell, LANES, Product};

/// Tensor memory of a block that has allocated some.
#[derive(Debug)]
pub(crate) struct TensorMemory {
    /// By lane and column.
    cells: Vec<u32>,
    /// Ranges of columns, in the order of their allocation.
    allocations: Vec<Range<u32>>,
    /// Number of columns of the last allocation: later ones are no larger.
    pub(crate) last: u32,
    /// Instruction that gave up the right to allocate.
    pub(crate) relinquished: Option<usize>,
    /// What threads of the block have asked for, in that order.
    pub(crate) tasks: Vec<Task>,
}

impl Default for TensorMemory {
    fn default() -> Self {
        Self {
            cells: vec![0; (LANES * COLUMNS) as usize],
            allocations: Vec::new(),
            last: COLUMNS,
            relinquished: None,
            tasks: Vec::new(),
        }
    }
}

impl TensorMemory {
    /// Host memory that it takes, in bytes.
    pub(crate) const BYTES: u64 = (LANES * COLUMNS) as u64 * 4;

    /// Allocates that many columns, a power of two. `None`: they are not free.
    pub(crate) fn allocate(&mut self, columns: u32) -> Option<u32> {
        let is_free = |range: &Range<u32>| {
            self.allocations.iter().all(|other| other.end <= range.start || other.start >= range.end)
        };
        let range = (0..COLUMNS).step_by(columns as usize).map(|first| first..first + columns).find(is_free)?;
        self.allocations.push(range.clone());
        self.last = columns;
        Some(range.start)
    }

    /// Frees an allocation; false: there is none.
    pub(crate) fn free(&mut self, first: u32, columns: u32) -> bool {
        let found = self.allocations.iter().position(|range| *range == (first..first + columns));
        found.map(|at| self.allocations.remove(at)).is_some()
    }

    /// The allocations, in their order.
    pub(crate) fn allocations(&self) -> &[Range<u32>] {
        &self.allocations
    }

    /// The first of some columns that is not allocated.
    pub(crate) fn first_outside(&self, mut columns: Range<u32>) -> Option<u32> {
        columns.find(|column| !self.allocations.iter().any(|range| range.contains(column)))
    }

    /// A cell, which has been checked.
    pub(crate) fn cell(&mut self, Cell { lane, column }: Cell) -> &mut u32 {
        &mut self.cells[(lane * COLUMNS + column) as usize]
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
    /// An arrival at the mbarriers at that offset in the shared memory of these blocks of the cluster.
    Arrive {
        at: u64,
        ranks: Vec<u32>,
    },
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
    /// Factor of D before; `None`: it starts at zero.
    pub(crate) scale: Option<f64>,
    /// Masks of the lanes that are not written, for each block.
    pub(crate) disabled: Vec<[u32; 4]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandA {
    Shared(Descriptor),
    Tmem(Cell),
}
