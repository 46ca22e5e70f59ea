//! Moves, arithmetic and comparisons.

use super::facts::Facts;
use super::op::{P, R};
use super::work::{Class, Work};
use crate::scalar::video::Video;
use crate::scalar::{CarryFn, CompareFn, LaneFn, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfOp {
    Add,
    Sub,
    Mul,
    Fma,
}

/// Index (0 = x, 1 = y, 2 = z) where the register is a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    SmId,
    NSmId,
    GridId,
    Clock,
    ClockHi,
    Clock64,
    GlobalTimer,
    GlobalTimerLo,
    GlobalTimerHi,
    DynamicSharedSize,
    TotalSharedSize,
    /// Half of the address of a cooperative launch's barrier: the upper one.
    Workspace(bool),
    /// Index of the cluster in the grid, and their number.
    ClusterId(u8),
    ClusterCount(u8),
    /// Index of the block in its cluster, and the cluster's shape.
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterRank,
    ClusterBlocks,
    /// Whether the kernel is launched with clusters, even of one block.
    ExplicitCluster,
    /// A constant: `%envreg<n>`, …
    Fixed(u32),
}

/// Arithmetic of halves or pairs of halves, rounding to nearest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfMath {
    pub op: HalfOp,
    pub d: R,
    pub a: R,
    pub b: R,
    /// Read by [`HalfOp::Fma`] alone.
    pub c: R,
    pub bfloat: bool,
    pub packed: bool,
}

impl HalfMath {
    pub(super) fn note(&self, facts: &mut Facts) {
        let fused = self.op == HalfOp::Fma;
        facts.read([self.a, self.b]).read(fused.then_some(self.c)).write([self.d]);
        facts.work.flops = if fused { 2 } else { 1 } << u32::from(self.packed);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SetpFull {
    pub class: Class,
    pub compare: CompareFn,
    pub ftz: bool,
    pub a: R,
    pub b: R,
    /// Width of the operands in bytes: 2, 4 or 8.
    pub bytes: u8,
    pub combine: Option<(BoolOp, P, bool)>,
    pub result: SetResult,
}

impl SetpFull {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.work.class = self.class;
        facts.read([self.a, self.b]).test(self.combine.map(|(_, predicate, _)| predicate));
        match self.result {
            SetResult::Predicates { p, q } | SetResult::PredicatePair { p, q } => facts.set(p).set(q),
            SetResult::Row { d, .. } | SetResult::RowPair { d, .. } => facts.write([d]),
        };
    }
}

/// `setp` writes `p` and, if named, its complement `q`; `set` writes a row of ones and zeros.
#[derive(Clone, Debug)]
pub(crate) enum SetResult {
    Predicates {
        p: Option<P>,
        q: Option<P>,
    },
    Row {
        d: R,
        when_true: u32,
    },
    /// `setp.f16x2` and `set.f16x2`: one result per half.
    PredicatePair {
        p: Option<P>,
        q: Option<P>,
    },
    RowPair {
        d: R,
        when_true: u16,
    },
}

/// Arithmetic that has no arm of its own.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub f: LaneFn,
    pub mode: Mode,
    /// Sources; unused ones are `R::MAX`.
    pub sources: [R; 3],
    /// Width of each source in bytes: 1, 2, 4 or 8.
    pub source_bytes: [u8; 3],
    /// Whether each source stands in two rows.
    pub source_wide: [bool; 3],
    pub d: R,
    pub d_wide: bool,
    /// The result's sign bit is extended from this many bits to the register's width; 0: zero-extended.
    pub sign_from: u8,
    /// Whether operands and result are integers or bits.
    pub integer: bool,
    pub work: Work,
}

impl Map {
    /// The operation in one lane.
    #[inline(always)]
    pub(crate) fn apply(&self, [a, b, c]: [u64; 3]) -> u64 {
        let value = (self.f)(self.mode, a, b, c);
        let shift = if self.sign_from == 0 { 0 } else { 64 - self.sign_from };
        ((value << shift) as i64 >> shift) as u64
    }

    pub(super) fn note(&self, facts: &mut Facts) {
        facts.work = self.work;
        facts.read(self.sources).write([self.d]);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pack {
    pub d: R,
    pub d_wide: bool,
    pub bits: u8,
    pub parts: Vec<R>,
    pub part_wide: bool,
}

impl Pack {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.parts.iter().copied()).write([self.d]);
    }
}

/// A video instruction.
#[derive(Clone, Debug)]
pub(crate) struct VideoInst {
    pub video: Video,
    pub d: R,
    /// Unused ones are `R::MAX`.
    pub sources: [R; 3],
}

impl VideoInst {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.sources).write([self.d]);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Carry {
    pub f: CarryFn,
    pub wide: bool,
    /// `addc`, `subc`, `madc`: the carry flag is read.
    pub carry_in: bool,
    /// `.cc`: the carry flag is written.
    pub carry_out: bool,
    pub d: R,
    pub a: R,
    pub b: R,
    pub c: R,
}

impl Carry {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read([self.a, self.b, self.c]).write([self.d]);
    }
}
