//! Tensor memory: its allocation, moves and products (PTX ISA, "TensorCore 5th Generation Family Instructions").

use super::access::Address;
use super::facts::{Facts, operations};
use super::op::{P, R};
use super::work::{Class, Work};
use crate::matrix::tcgen05::{Kind, TmemCopy, TmemMove};

/// An instruction of a single thread.
#[derive(Clone, Debug)]
pub(crate) struct Tcgen05 {
    /// `.cta_group::2`: of a pair of blocks.
    pub pair: bool,
    pub op: Tcgen05Op,
}

impl Tcgen05 {
    pub(super) fn note(&self, facts: &mut Facts) {
        self.op.note(facts);
    }
}

operations! {
    #[derive(Clone, Debug)]
    pub(crate) enum Tcgen05Op {
        acts Tensor {
            /// `tcgen05.mma`
            Multiply(product: Box<TmemProduct>) => TmemProduct::note;
            /// `tcgen05.cp`
            Copy(copy: Box<SharedToTmem>) => SharedToTmem::note;
            /// `tcgen05.shift`
            Shift(shift: Box<TmemShift>) => TmemShift::note;
        }

        acts Barrier {
            /// `tcgen05.commit`: an arrival at an mbarrier when the thread's products and copies so far are there.
            Commit(commit: Box<TmemCommit>) => TmemCommit::note;
        }
    }
}

/// `tcgen05.mma`
#[derive(Clone, Debug)]
pub(crate) struct TmemProduct {
    pub kind: Kind,
    /// Address of D in tensor memory.
    pub d: Address,
    pub a: TmemA,
    /// The 64-bit row of B's descriptor.
    pub b: R,
    /// Row of the instruction descriptor.
    pub descriptor: R,
    /// Rows of the mask of lanes that are not written; none: all are.
    pub disabled: Vec<R>,
    /// The predicate `enable-input-d`, and whether it is negated: without it D starts at zero.
    pub accumulate: (P, bool),
    /// D is divided by two to that power before.
    pub scale: u32,
    /// Scales per row of A and column of B, and the addresses of A's and of B's in tensor memory.
    pub scales: (u32, Vec<Address>),
}

/// `tcgen05.cp`
#[derive(Clone, Debug)]
pub(crate) struct SharedToTmem {
    pub form: TmemCopy,
    /// Address in tensor memory.
    pub to: Address,
    /// The 64-bit row of the descriptor of the rows in shared memory.
    pub from: R,
}

impl SharedToTmem {
    fn note(&self, facts: &mut Facts) {
        facts.read(self.to.row()).read([self.from]);
    }
}

/// `tcgen05.shift`
#[derive(Clone, Debug)]
pub(crate) struct TmemShift {
    /// Address in tensor memory of the first of its lanes.
    pub first: Address,
}

impl TmemShift {
    fn note(&self, facts: &mut Facts) {
        facts.read(self.first.row());
    }
}

#[derive(Clone, Debug)]
pub(crate) enum TmemA {
    /// The 64-bit row of its descriptor.
    Shared(R),
    /// Its address in tensor memory.
    Tmem(Address),
}

impl TmemProduct {
    fn note(&self, facts: &mut Facts) {
        facts.read(self.d.row()).read([self.b, self.descriptor]).read(self.disabled.iter().copied());
        match &self.a {
            TmemA::Shared(row) => facts.read([*row]),
            TmemA::Tmem(address) => facts.read(address.row()),
        };
        for address in &self.scales.1 {
            facts.read(address.row());
        }
        facts.test([self.accumulate.0]);
    }
}

/// `tcgen05.commit`
#[derive(Clone, Debug)]
pub(crate) struct TmemCommit {
    /// Address of the mbarrier in shared memory.
    pub barrier: Address,
    /// Row of the mask of blocks whose mbarriers at that offset get an arrival; `None`: the one at the address.
    pub multicast: Option<R>,
}

impl TmemCommit {
    fn note(&self, facts: &mut Facts) {
        facts.read(self.barrier.row()).read(self.multicast);
    }
}

/// `tcgen05.ld`, `tcgen05.st`
#[derive(Clone, Debug)]
pub(crate) struct TmemAccess {
    pub form: TmemMove,
    pub address: Address,
    pub rows: Vec<R>,
}

impl TmemAccess {
    pub(super) fn note_load(&self, facts: &mut Facts) {
        facts.read(self.address.row()).write(self.rows.iter().copied());
    }

    pub(super) fn note_store(&self, facts: &mut Facts) {
        facts.read(self.address.row()).read(self.rows.iter().copied());
    }
}

/// `tcgen05.alloc`
#[derive(Clone, Debug)]
pub(crate) struct TmemAlloc {
    /// Place in shared memory where the address goes.
    pub to: Address,
    /// Row of the number of columns.
    pub columns: R,
    pub pair: bool,
}

impl TmemAlloc {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.to.row()).read([self.columns]);
    }
}
