//! What is known of an operation without running it: what kind of work it is, and which registers it writes. The profiler
//! and the debugger read it here; a new operation has its line in [`Op::facts`] and nowhere else.

use super::op::*;
use super::work::{Class, Work};

/// The facts of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub work: Work,
    /// The registers that it writes, each by its first row.
    pub rows: Vec<R>,
    /// The predicates that it writes.
    pub predicates: Vec<P>,
}

impl Facts {
    /// Writes nothing.
    fn new(class: Class) -> Self {
        Self { work: Work::of(class), rows: Vec::new(), predicates: Vec::new() }
    }

    fn flops(mut self, flops: u32) -> Self {
        self.work.flops = flops;
        self
    }

    fn rows(mut self, rows: impl IntoIterator<Item = R>) -> Self {
        self.rows.extend(rows);
        self
    }

    fn row(self, d: R) -> Self {
        self.rows([d])
    }

    fn predicates(mut self, predicates: impl IntoIterator<Item = P>) -> Self {
        self.predicates.extend(predicates);
        self
    }

    fn predicate(self, d: P) -> Self {
        self.predicates([d])
    }
}

impl Op {
    /// What is known of the operation.
    pub(crate) fn facts(&self) -> Facts {
        use Class::*;
        let class = Facts::new;
        match self {
            // Moves and selection
            Op::Mov32 { d, .. }
            | Op::Mov64 { d, .. }
            | Op::Special { d, .. }
            | Op::FrameAddress { d, .. }
            | Op::Unpack32 { d, .. }
            | Op::Unpack64 { d, .. }
            | Op::Selp32 { d, .. }
            | Op::Selp64 { d, .. }
            | Op::Cvta { d, .. } => class(Other).row(*d),
            Op::Pack(pack) => class(Other).row(pack.d),
            Op::PredSet { d, .. }
            | Op::PredMov { d, .. }
            | Op::PredLogic { d, .. }
            | Op::RowToPred { d, .. }
            | Op::IsSpace { d, .. } => class(Other).predicate(*d),
            Op::Nop | Op::Unsupported => class(Other),

            // Integers
            Op::Add32 { d, .. }
            | Op::Sub32 { d, .. }
            | Op::Mul32 { d, .. }
            | Op::MulHiU32 { d, .. }
            | Op::MulHiS32 { d, .. }
            | Op::Mad32 { d, .. }
            | Op::And32 { d, .. }
            | Op::Or32 { d, .. }
            | Op::Xor32 { d, .. }
            | Op::Not32 { d, .. }
            | Op::Lop3 { d, .. }
            | Op::Shl32 { d, .. }
            | Op::ShrU32 { d, .. }
            | Op::ShrS32 { d, .. }
            | Op::MinU32 { d, .. }
            | Op::MinS32 { d, .. }
            | Op::MaxU32 { d, .. }
            | Op::MaxS32 { d, .. }
            | Op::Neg32 { d, .. }
            | Op::MulWideU32 { d, .. }
            | Op::MulWideS32 { d, .. }
            | Op::MadWideU32 { d, .. }
            | Op::MadWideS32 { d, .. }
            | Op::Add64 { d, .. }
            | Op::Sub64 { d, .. }
            | Op::Mul64 { d, .. }
            | Op::Mad64 { d, .. }
            | Op::And64 { d, .. }
            | Op::Or64 { d, .. }
            | Op::Xor64 { d, .. }
            | Op::Not64 { d, .. }
            | Op::Shl64 { d, .. }
            | Op::ShrU64 { d, .. }
            | Op::ShrS64 { d, .. } => class(Integer).row(*d),
            Op::Carry(carry) => class(Integer).row(carry.d),
            Op::SetpU32 { d, .. } | Op::SetpS32 { d, .. } | Op::SetpU64 { d, .. } | Op::SetpS64 { d, .. } => {
                class(Integer).predicate(*d)
            }

            // Floats
            Op::AddF32 { d, .. } | Op::SubF32 { d, .. } | Op::MulF32 { d, .. } => class(F32).flops(1).row(*d),
            Op::FmaF32 { d, .. } => class(F32).flops(2).row(*d),
            Op::DivF32 { d, .. } | Op::SqrtF32 { d, .. } | Op::MinF32 { d, .. } | Op::MaxF32 { d, .. } => {
                class(F32).row(*d)
            }
            Op::SetpF32 { d, .. } => class(F32).predicate(*d),
            Op::AddF64 { d, .. } | Op::SubF64 { d, .. } | Op::MulF64 { d, .. } => class(F64).flops(1).row(*d),
            Op::FmaF64 { d, .. } => class(F64).flops(2).row(*d),
            Op::HalfMath { op, d, packed, .. } => {
                let one = if *op == HalfOp::Fma { 2 } else { 1 };
                class(F16).flops(if *packed { 2 * one } else { one }).row(*d)
            }

            // Arithmetic without an arm of its own: the lowering knows
            Op::Map(map) => Facts { work: map.work, ..class(map.work.class).row(map.d) },
            Op::SetpFull(setp) => match setp.result {
                SetResult::Predicates { p, q } | SetResult::PredicatePair { p, q } => {
                    class(setp.class).predicates(p.into_iter().chain(q))
                }
                SetResult::Row { d, .. } | SetResult::RowPair { d, .. } => class(setp.class).row(d),
            },

            // Conversions
            Op::Sext64 { d, .. }
            | Op::Zext64 { d, .. }
            | Op::Trunc32 { d, .. }
            | Op::S32ToF32 { d, .. }
            | Op::U32ToF32 { d, .. }
            | Op::F32ToS32 { d, .. } => class(Conversion).row(*d),

            // Memory. Parameters are registers or constants on hardware
            Op::Load(access) => {
                let rows = access.rows.iter().take(access.count.into()).copied();
                class(if access.param { Other } else { Memory }).rows(rows.filter(|row| *row != R::MAX))
            }
            Op::Store(access) => class(if access.param { Other } else { Memory }),
            Op::Atomic(atomic) => class(Memory).rows(atomic.result),
            Op::CpAsync(_) | Op::CpAsyncCommit | Op::CpAsyncWait { .. } => class(Memory),
            Op::Fence { .. } => class(Barrier),

            // Control
            Op::Bra { .. } | Op::Join | Op::BrxIdx(_) | Op::Call(_) | Op::Ret | Op::Exit | Op::Trap | Op::Nanosleep => {
                class(Control)
            }
            Op::Barrier(barrier) => class(Barrier).rows(barrier.d).predicates(barrier.p),

            // Lanes together
            Op::Activemask { d } => class(Communication).row(*d),
            Op::Together(together) => match &together.op {
                TogetherOp::Sync => class(Barrier),
                TogetherOp::Shfl { d, valid, .. } => class(Communication).row(*d).predicates(*valid),
                TogetherOp::Vote { d, .. } | TogetherOp::MatchAny { d, .. } | TogetherOp::Redux { d, .. } => {
                    class(Communication).row(*d)
                }
                TogetherOp::MatchAll { d, all, .. } => class(Communication).row(*d).predicates(*all),
                TogetherOp::Elect { d, elected } => class(Communication).rows(*d).predicate(*elected),
                TogetherOp::Mma(op) => class(Tensor).flops(op.mma.flops()).rows(op.d.iter().copied()),
                TogetherOp::WmmaLoad(memory) => class(Memory).rows(memory.rows.iter().copied()),
                TogetherOp::LdMatrix(moves) => class(Memory).rows(moves.rows.iter().copied()),
                TogetherOp::WmmaStore(_) | TogetherOp::StMatrix(_) => class(Memory),
            },
        }
    }
}
