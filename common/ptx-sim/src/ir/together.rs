//! Instructions that lanes of a warp execute together.

use super::access::Address;
use super::facts::{Facts, note_operand, operand, operations};
use super::op::{P, R};
use super::tcgen05::{TmemAccess, TmemAlloc};
use super::work::{Class, Work};
use crate::matrix::{Mma, Wgmma, WmmaAccess};
use crate::scalar::{LaneFn, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ReduxOp {
    /// Minimum or maximum of f32: a function of [`crate::scalar`]; `abs`: of magnitudes.
    Float {
        f: LaneFn,
        max: bool,
        mode: Mode,
        abs: bool,
    },
    Add,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
}

impl ReduxOp {
    /// Whether the two are one operation. Addresses of functions do not tell.
    pub(crate) fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Float { max, mode, abs, .. },
                Self::Float { max: other_max, mode: other_mode, abs: other_abs, .. },
            ) => (max, mode, abs) == (other_max, other_mode, other_abs),
            _ => std::mem::discriminant(&self) == std::mem::discriminant(&other),
        }
    }
}

/// An instruction that the lanes named in a mask execute together.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    /// The row of the member mask; `None` means all live lanes of the warp (`.aligned` matrix instructions).
    pub members: Option<R>,
    pub op: TogetherOp,
}

impl Together {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.members);
        self.op.note(facts);
    }
}

operations! {
    #[derive(Clone, Debug)]
    pub(crate) enum TogetherOp {
        acts Communication {
            Shfl { mode: is(ShflMode), d: write, valid: maybe_set, a: read, b: read, c: read };
            Vote { mode: is(VoteMode), d: write, a: test, negated: is(bool) };
            MatchAny { d: write, a: read, wide: is(bool) };
            MatchAll { d: write, all: maybe_set, a: read, wide: is(bool) };
            Redux { op: is(ReduxOp), d: write, a: read };
            Elect { d: maybe_write, elected: set };
            /// `movmatrix`: an 8 × 8 matrix of 16-bit elements, transposed.
            MovMatrix { d: write, a: read };
        }

        acts Tensor {
            Mma(op: Box<MmaOp>) => MmaOp::note;
            /// `wgmma.mma_async`: a warp's part of a product of its warpgroup.
            Wgmma(op: Box<WgmmaOp>) => WgmmaOp::note;
        }

        acts Memory {
            WmmaLoad(memory: Box<WmmaMemory>) => WmmaMemory::note_load;
            WmmaStore(memory: Box<WmmaMemory>) => WmmaMemory::note_store;
            LdMatrix(moves: Box<MatrixMove>) => MatrixMove::note_load;
            StMatrix(moves: Box<MatrixMove>) => MatrixMove::note_store;
            TmemAlloc(alloc: Box<TmemAlloc>) => TmemAlloc::note;
            TmemFree { address: read, columns: read, pair: is(bool) };
            /// `tcgen05.relinquish_alloc_permit`
            TmemRelinquish { pair: is(bool) };
            TmemLoad(access: Box<TmemAccess>) => TmemAccess::note_load;
            TmemStore(access: Box<TmemAccess>) => TmemAccess::note_store;
        }

        acts Barrier {
            /// `bar.warp.sync`: lanes may meet at different ones.
            Sync;
            /// `wgmma.fence`
            WgmmaFence;
            /// `wgmma.commit_group`
            WgmmaCommit;
            /// `wgmma.wait_group`: all but the latest `n` groups.
            WgmmaWait { n: is(u8) };
            /// `tcgen05.wait`: for the warp's stores, or its loads.
            TmemWait { stores: is(bool) };
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MmaOp {
    pub mma: Mma,
    /// Whether the registers of d, a, b and c take two rows.
    pub wide: [bool; 4],
    pub d: Vec<R>,
    pub a: Vec<R>,
    pub b: Vec<R>,
    pub c: Vec<R>,
    /// Row of the metadata of a sparse A.
    pub metadata: Option<R>,
}

impl MmaOp {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.work.flops = self.mma.flops();
        facts.read(self.a.iter().chain(&self.b).chain(&self.c).chain(&self.metadata).copied());
        facts.write(self.d.iter().copied());
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WgmmaOp {
    pub wgmma: Wgmma,
    pub d: Vec<R>,
    pub a: WgmmaA,
    /// The 64-bit row of B's descriptor.
    pub b: R,
    /// Whether the tiles of A and B are MN-major.
    pub mn_major: [bool; 2],
    /// The predicate `scale-d`, and whether it is negated: without it D starts at zero.
    pub accumulate: (P, bool),
    /// Whether A · B is subtracted.
    pub negated: bool,
    /// Row of the metadata of a sparse A.
    pub metadata: Option<R>,
}

#[derive(Clone, Debug)]
pub(crate) enum WgmmaA {
    Registers(Vec<R>),
    /// The 64-bit row of its descriptor.
    Descriptor(R),
}

impl WgmmaOp {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.work.flops = self.wgmma.flops();
        facts.read(self.sources()).read(self.d.iter().copied()).test([self.accumulate.0]).write(self.d.iter().copied());
    }

    /// Bytes of the tiles in shared memory.
    pub(crate) fn tile_bytes(&self) -> u64 {
        let b = self.wgmma.tile_b(self.mn_major[1]).bytes();
        match self.a {
            WgmmaA::Registers(_) => b,
            WgmmaA::Descriptor(_) => b + self.wgmma.tile_a(self.mn_major[0]).bytes(),
        }
    }

    /// The registers that hold A, if A is not in shared memory.
    pub(crate) fn a_rows(&self) -> &[R] {
        match &self.a {
            WgmmaA::Registers(rows) => rows,
            WgmmaA::Descriptor(_) => &[],
        }
    }

    /// The registers that it reads besides D.
    pub(crate) fn sources(&self) -> impl Iterator<Item = R> {
        let descriptor = match self.a {
            WgmmaA::Registers(_) => None,
            WgmmaA::Descriptor(row) => Some(row),
        };
        self.a_rows().iter().copied().chain(descriptor).chain([self.b]).chain(self.metadata)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WmmaMemory {
    pub access: WmmaAccess,
    pub address: Address,
    pub wide: bool,
    pub rows: Vec<R>,
    /// The stride in elements; `None`: the fragment's own extent.
    pub stride: Option<R>,
}

impl WmmaMemory {
    /// Bytes of a lane's registers that precede a part of one.
    pub(crate) fn after(&self, register: usize, part: usize) -> u64 {
        let bytes = if self.wide { 8 } else { 4 };
        (register * bytes + part * self.access.part_bytes()) as u64
    }

    pub(super) fn note_load(&self, facts: &mut Facts) {
        facts.read(self.stride).read(self.address.row()).write(self.rows.iter().copied());
    }

    pub(super) fn note_store(&self, facts: &mut Facts) {
        facts.read(self.rows.iter().copied()).read(self.stride).read(self.address.row());
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MatrixMove {
    pub address: Address,
    pub rows: Vec<R>,
    pub transposed: bool,
}

impl MatrixMove {
    pub(super) fn note_load(&self, facts: &mut Facts) {
        facts.read(self.address.row()).write(self.rows.iter().copied());
    }

    pub(super) fn note_store(&self, facts: &mut Facts) {
        facts.read(self.rows.iter().copied()).read(self.address.row());
    }
}
