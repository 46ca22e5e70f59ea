//! Facts of an operation that are known without running it: its kind of work, and the registers it reads and writes. The
//! profiler, the debugger and the sanitiser read them here; a new operation has its lines in [`Op::facts`] and
//! [`Op::sources`] and nowhere else.

use super::bulk::BulkShape;
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
    /// Facts of the operation.
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
            | Op::Cvta { d, .. }
            | Op::MapShared { d, .. }
            | Op::RankOf { d, .. } => class(Other).row(*d),
            Op::Pack(pack) => class(Other).row(pack.d),
            Op::Stack(stack) => match stack.op {
                StackOp::Alloca { d, .. } | StackOp::Save { d } => class(Other).row(d),
                StackOp::Restore { .. } => class(Other),
            },
            Op::PredSet { d, .. }
            | Op::PredMov { d, .. }
            | Op::PredLogic { d, .. }
            | Op::RowToPred { d, .. }
            | Op::IsSpace { d, .. } => class(Other).predicate(*d),
            Op::Nop | Op::SetRegisters { .. } | Op::Unsupported => class(Other),

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
            Op::Video(video) => class(Integer).row(video.d),
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
            Op::Atomic(atomic) => {
                class(Memory).rows(atomic.result).rows(atomic.more.iter().filter_map(|(result, _)| *result))
            }
            Op::Texture(op) => class(Memory).rows(op.rows.into_iter().filter(|row| *row != R::MAX)),
            Op::Surface(op) => match &op.action {
                SurfaceAction::Load { rows, .. } => {
                    class(Memory).rows(rows.iter().copied().filter(|row| *row != R::MAX))
                }
                SurfaceAction::Store { .. } | SurfaceAction::Reduce { .. } => class(Memory),
            },
            Op::Query(query) => class(Other).row(query.d),
            Op::Mbarrier(mbarrier) => match mbarrier.op {
                MbarrierOp::Arrive { d, .. } => class(Barrier).rows(d),
                MbarrierOp::Wait { p, .. } => class(Barrier).predicates(p),
                MbarrierOp::Init { .. }
                | MbarrierOp::Inval
                | MbarrierOp::Transactions { .. }
                | MbarrierOp::ArriveWhenCopied { .. } => class(Barrier),
            },
            Op::CpAsync(_) | Op::CpAsyncCommit | Op::CpAsyncWait { .. } => class(Memory),
            Op::Bulk(_) | Op::BulkCommit | Op::BulkWait { .. } | Op::ReplaceMap(_) | Op::CopyMap(_) => class(Memory),
            Op::Fence { .. } | Op::ProxyFence | Op::ClusterArrive { .. } | Op::ClusterWait => class(Barrier),

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
                TogetherOp::Vote { d, .. }
                | TogetherOp::MatchAny { d, .. }
                | TogetherOp::Redux { d, .. }
                | TogetherOp::MovMatrix { d, .. } => class(Communication).row(*d),
                TogetherOp::MatchAll { d, all, .. } => class(Communication).row(*d).predicates(*all),
                TogetherOp::Elect { d, elected } => class(Communication).rows(*d).predicate(*elected),
                TogetherOp::Mma(op) => class(Tensor).flops(op.mma.flops()).rows(op.d.iter().copied()),
                TogetherOp::Wgmma(op) => class(Tensor).flops(op.wgmma.flops()).rows(op.d.iter().copied()),
                TogetherOp::WgmmaFence | TogetherOp::WgmmaCommit | TogetherOp::WgmmaWait { .. } => class(Barrier),
                TogetherOp::WmmaLoad(memory) => class(Memory).rows(memory.rows.iter().copied()),
                TogetherOp::LdMatrix(moves) => class(Memory).rows(moves.rows.iter().copied()),
                TogetherOp::WmmaStore(_) | TogetherOp::StMatrix(_) => class(Memory),
            },
        }
    }
    /// Whether it only computes registers from registers, lane by lane.
    pub(crate) fn computes(&self) -> bool {
        !matches!(
            self,
            Op::Nop
                | Op::Unsupported
                | Op::Stack(_)
                | Op::Load(_)
                | Op::Store(_)
                | Op::Atomic(_)
                | Op::Texture(_)
                | Op::Surface(_)
                | Op::Query(_)
                | Op::Mbarrier(_)
                | Op::CpAsync(_)
                | Op::CpAsyncCommit
                | Op::CpAsyncWait { .. }
                | Op::Bulk(_)
                | Op::BulkCommit
                | Op::BulkWait { .. }
                | Op::ReplaceMap(_)
                | Op::CopyMap(_)
                | Op::Fence { .. }
                | Op::ProxyFence
                | Op::Bra { .. }
                | Op::Join
                | Op::BrxIdx(_)
                | Op::Call(_)
                | Op::Ret
                | Op::Exit
                | Op::Trap
                | Op::Nanosleep
                | Op::SetRegisters { .. }
                | Op::Barrier(_)
                | Op::Together(_)
        )
    }

    /// The registers that it reads, each by its first row, and the predicates except that of its guard.
    pub(crate) fn sources(&self) -> (Vec<R>, Vec<P>) {
        let rows = |rows: &[R]| (rows.to_vec(), Vec::new());
        let with = |rows: &[R], more: &[Option<R>]| {
            (rows.iter().copied().chain(more.iter().flatten().copied()).collect::<Vec<R>>(), Vec::new())
        };
        match self {
            Op::Mov32 { a, .. }
            | Op::Mov64 { a, .. }
            | Op::Unpack32 { a, .. }
            | Op::Unpack64 { a, .. }
            | Op::Sext64 { a, .. }
            | Op::Zext64 { a, .. }
            | Op::Trunc32 { a, .. }
            | Op::Not32 { a, .. }
            | Op::Neg32 { a, .. }
            | Op::Not64 { a, .. }
            | Op::SqrtF32 { a, .. }
            | Op::S32ToF32 { a, .. }
            | Op::U32ToF32 { a, .. }
            | Op::F32ToS32 { a, .. }
            | Op::RowToPred { a, .. }
            | Op::Cvta { a, .. }
            | Op::IsSpace { a, .. }
            | Op::RankOf { a, .. } => rows(&[*a]),
            Op::MapShared { a, rank, .. } => rows(&[*a, *rank]),
            Op::Add32 { a, b, .. }
            | Op::Sub32 { a, b, .. }
            | Op::Mul32 { a, b, .. }
            | Op::MulHiU32 { a, b, .. }
            | Op::MulHiS32 { a, b, .. }
            | Op::And32 { a, b, .. }
            | Op::Or32 { a, b, .. }
            | Op::Xor32 { a, b, .. }
            | Op::Shl32 { a, b, .. }
            | Op::ShrU32 { a, b, .. }
            | Op::ShrS32 { a, b, .. }
            | Op::MinU32 { a, b, .. }
            | Op::MinS32 { a, b, .. }
            | Op::MaxU32 { a, b, .. }
            | Op::MaxS32 { a, b, .. }
            | Op::MulWideU32 { a, b, .. }
            | Op::MulWideS32 { a, b, .. }
            | Op::Add64 { a, b, .. }
            | Op::Sub64 { a, b, .. }
            | Op::Mul64 { a, b, .. }
            | Op::And64 { a, b, .. }
            | Op::Or64 { a, b, .. }
            | Op::Xor64 { a, b, .. }
            | Op::Shl64 { a, b, .. }
            | Op::ShrU64 { a, b, .. }
            | Op::ShrS64 { a, b, .. }
            | Op::AddF32 { a, b, .. }
            | Op::SubF32 { a, b, .. }
            | Op::MulF32 { a, b, .. }
            | Op::DivF32 { a, b, .. }
            | Op::MinF32 { a, b, .. }
            | Op::MaxF32 { a, b, .. }
            | Op::AddF64 { a, b, .. }
            | Op::SubF64 { a, b, .. }
            | Op::MulF64 { a, b, .. }
            | Op::SetpU32 { a, b, .. }
            | Op::SetpS32 { a, b, .. }
            | Op::SetpU64 { a, b, .. }
            | Op::SetpS64 { a, b, .. }
            | Op::SetpF32 { a, b, .. } => rows(&[*a, *b]),
            Op::Mad32 { a, b, c, .. }
            | Op::Lop3 { a, b, c, .. }
            | Op::MadWideU32 { a, b, c, .. }
            | Op::MadWideS32 { a, b, c, .. }
            | Op::Mad64 { a, b, c, .. }
            | Op::FmaF32 { a, b, c, .. }
            | Op::FmaF64 { a, b, c, .. } => rows(&[*a, *b, *c]),
            Op::HalfMath { op, a, b, c, .. } => with(&[*a, *b], &[(*op == HalfOp::Fma).then_some(*c)]),
            Op::Stack(stack) => match stack.op {
                StackOp::Alloca { size, .. } => rows(&[size]),
                StackOp::Save { .. } => rows(&[]),
                StackOp::Restore { a } => rows(&[a]),
            },
            Op::Carry(carry) => rows(&[carry.a, carry.b, carry.c]),
            Op::Pack(pack) => rows(&pack.parts),
            Op::Map(map) => (map.sources.into_iter().filter(|row| *row != R::MAX).collect(), Vec::new()),
            Op::SetpFull(setp) => {
                (vec![setp.a, setp.b], setp.combine.into_iter().map(|(_, predicate, _)| predicate).collect())
            }
            Op::PredMov { a, .. } => (Vec::new(), vec![*a]),
            Op::PredLogic { a, b, .. } => (Vec::new(), vec![*a, *b]),
            Op::Selp32 { a, b, p, .. } | Op::Selp64 { a, b, p, .. } => (vec![*a, *b], vec![*p]),
            Op::Load(access) => with(&[], &[access.address.row()]),
            Op::Store(access) => {
                let values = access.rows.iter().take(access.count.into()).copied().filter(|row| *row != R::MAX);
                (values.chain(access.address.row()).collect(), Vec::new())
            }
            Op::Atomic(atomic) => {
                let swaps = matches!(atomic.op, AtomOp::Cas);
                let vector = std::iter::once(atomic.a).chain(atomic.more.iter().map(|(_, a)| *a));
                with(&vector.collect::<Vec<_>>(), &[swaps.then_some(atomic.b), atomic.address.row()])
            }
            Op::Texture(op) => {
                (op.coordinates.iter().copied().chain(op.layer).chain([op.handle]).collect(), Vec::new())
            }
            Op::Surface(op) => {
                let values = match &op.action {
                    SurfaceAction::Load { .. } => &[][..],
                    SurfaceAction::Store { rows, .. } => rows,
                    SurfaceAction::Reduce { a, .. } => std::slice::from_ref(a),
                };
                let place = op.coordinates.iter().copied().chain(op.layer).chain([op.handle]);
                (values.iter().copied().chain(place).collect(), Vec::new())
            }
            Op::Query(query) => rows(&[query.handle]),
            Op::Mbarrier(mbarrier) => {
                let row = match mbarrier.op {
                    MbarrierOp::Init { count } => Some(count),
                    MbarrierOp::Arrive { count, expect, .. } => {
                        return with(&[], &[count, expect, mbarrier.address.row()]);
                    }
                    MbarrierOp::Transactions { bytes, .. } => Some(bytes),
                    MbarrierOp::Wait { phase: MbarrierPhase::State(row) | MbarrierPhase::Parity(row), .. } => Some(row),
                    MbarrierOp::Inval | MbarrierOp::ArriveWhenCopied { .. } => None,
                };
                with(&[], &[row, mbarrier.address.row()])
            }
            Op::Video(video) => (video.sources.into_iter().filter(|row| *row != R::MAX).collect(), Vec::new()),
            Op::CpAsync(copy) => (
                [copy.dst.row(), copy.src.row(), copy.src_bytes].into_iter().flatten().collect(),
                copy.ignore.into_iter().map(|(predicate, _)| predicate).collect(),
            ),
            Op::Bulk(bulk) => {
                let addresses = [Some(&bulk.shared), Some(&bulk.other), bulk.barrier.as_ref()];
                let mut from: Vec<R> = addresses.into_iter().flatten().filter_map(Address::row).collect();
                from.extend(bulk.multicast);
                match &bulk.shape {
                    BulkShape::Bytes(bytes) => from.push(*bytes),
                    BulkShape::Words { rows, .. } => from.extend(rows),
                    BulkShape::Tensor { coordinates, offsets, .. } => from.extend(coordinates.iter().chain(offsets)),
                }
                (from, Vec::new())
            }
            Op::ReplaceMap(replace) => with(&[replace.value.0], &[replace.map.row()]),
            Op::CopyMap(copy) => with(&[], &[copy.to.row(), copy.from.row()]),
            Op::BrxIdx(brx) => rows(&[brx.index]),
            Op::Call(call) => {
                let args = call.args.iter();
                (
                    args.clone()
                        .filter_map(|place| match place {
                            Place::Row { row, .. } => Some(*row),
                            _ => None,
                        })
                        .collect(),
                    args.filter_map(|place| match place {
                        Place::Predicate(predicate) => Some(*predicate),
                        _ => None,
                    })
                    .collect(),
                )
            }
            Op::Barrier(barrier) => {
                let rows = barrier.count.into_iter().chain([barrier.id]).collect();
                (rows, barrier.source.into_iter().map(|(predicate, _)| predicate).collect())
            }
            Op::Together(together) => {
                let mut from: Vec<R> = together.members.into_iter().collect();
                let mut predicates = Vec::new();
                match &together.op {
                    TogetherOp::Sync
                    | TogetherOp::Elect { .. }
                    | TogetherOp::WgmmaFence
                    | TogetherOp::WgmmaCommit
                    | TogetherOp::WgmmaWait { .. } => {}
                    TogetherOp::Shfl { a, b, c, .. } => from.extend([*a, *b, *c]),
                    TogetherOp::Vote { a, .. } => predicates.push(*a),
                    TogetherOp::MatchAny { a, .. }
                    | TogetherOp::MatchAll { a, .. }
                    | TogetherOp::Redux { a, .. }
                    | TogetherOp::MovMatrix { a, .. } => from.push(*a),
                    TogetherOp::Mma(op) => from.extend(op.a.iter().chain(&op.b).chain(&op.c).chain(&op.metadata)),
                    TogetherOp::Wgmma(op) => {
                        from.extend(op.sources().chain(op.d.iter().copied()));
                        predicates.push(op.accumulate.0);
                    }
                    TogetherOp::WmmaLoad(memory) => from.extend(memory.stride.into_iter().chain(memory.address.row())),
                    TogetherOp::WmmaStore(memory) => {
                        from.extend(memory.rows.iter().copied().chain(memory.stride).chain(memory.address.row()));
                    }
                    TogetherOp::LdMatrix(moves) => from.extend(moves.address.row()),
                    TogetherOp::StMatrix(moves) => from.extend(moves.rows.iter().copied().chain(moves.address.row())),
                }
                (from, predicates)
            }
            Op::Special { .. }
            | Op::FrameAddress { .. }
            | Op::PredSet { .. }
            | Op::CpAsyncCommit
            | Op::CpAsyncWait { .. }
            | Op::BulkCommit
            | Op::BulkWait { .. }
            | Op::Fence { .. }
            | Op::ClusterArrive { .. }
            | Op::ClusterWait
            | Op::ProxyFence
            | Op::Nop
            | Op::Bra { .. }
            | Op::Join
            | Op::Ret
            | Op::Exit
            | Op::Trap
            | Op::Nanosleep
            | Op::SetRegisters { .. }
            | Op::Activemask { .. }
            | Op::Unsupported => (Vec::new(), Vec::new()),
        }
    }
}
