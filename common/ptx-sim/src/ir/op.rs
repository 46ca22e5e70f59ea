//! The operations.

use super::access::{Access, Atomic, CpAsync, Scope};
use super::arithmetic::{BoolOp, Carry, HalfMath, Map, Pack, SetpFull, Special, VideoInst};
use super::bulk::{Bulk, CopyMap, ReplaceMap};
use super::control::{Barrier, BrxIdx, Call, Stack};
use super::facts::{Facts, note_operand, operand, operations};
use super::mbarrier::Mbarrier;
use super::space::MemSpace;
use super::tcgen05::Tcgen05;
use super::texture::{ObjectQuery, SurfaceOp, TextureOp};
use super::together::Together;
use super::work::{Class, Work};
use crate::scalar::Relation;

/// A row: a register, an immediate or an address, relative to the frame.
pub(crate) type R = u32;
/// A predicate, relative to the frame.
pub(crate) type P = u32;

/// One instruction and the predicate that guards it.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub op: Op,
    pub guard: Guard,
}

/// `@%p` / `@!%p`, packed: 0 is none, otherwise `(predicate + 1) << 1 | negated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guard(pub u32);

impl Guard {
    pub(crate) fn new(predicate: P, negated: bool) -> Self {
        Self((predicate + 1) << 1 | u32::from(negated))
    }

    pub(crate) fn predicate(self) -> Option<(P, bool)> {
        (self.0 != 0).then(|| ((self.0 >> 1) - 1, self.0 & 1 == 1))
    }
}

operations! {
    /// The instructions. `d` is the destination; `a`, `b`, `c` are the sources in PTX's order.
    #[derive(Clone, Debug)]
    pub(crate) enum Op {
        computes Other {
            Mov32 { d: write, a: read };
            Mov64 { d: write, a: read };
            Special { d: write, register: is(Special), wide: is(bool) };
            /// The address of something in the frame's local memory, in the local space.
            FrameAddress { d: write, offset: is(u32), wide: is(bool) };
            /// Bits of `a` from `shift` on, `mask` wide: unpacking (`mov.b32 {lo, hi}, a`).
            Unpack32 { d: write, a: read, shift: is(u8), mask: is(u32) };
            Unpack64 { d: write, a: read, shift: is(u8), mask: is(u32) };
            /// `parts` low to high, each `bits` wide, into one register.
            Pack(pack: Box<Pack>) => Pack::note;
            Selp32 { d: write, a: read, b: read, p: test, negated: is(bool) };
            Selp64 { d: write, a: read, b: read, p: test, negated: is(bool) };
            PredSet { d: set, value: is(bool) };
            PredMov { d: set, a: test, negated: is(bool) };
            PredLogic { op: is(BoolOp), d: set, a: test, b: test, not_a: is(bool), not_b: is(bool) };
            /// Non-zero lanes to a predicate.
            RowToPred { d: set, a: read };
            /// `cvta`, both ways: adds or subtracts the window of a space.
            Cvta { d: write, a: read, wide: is(bool), delta: is(u64) };
            IsSpace { d: set, a: read, wide: is(bool), space: is(MemSpace), constant: is(bool) };
            /// `mapa`: the address that stands for `a` in the block of a rank of the cluster.
            MapShared { d: write, a: read, rank: read, wide: is(bool) };
            /// `getctarank`: the rank of the block whose shared memory the address is in.
            RankOf { d: write, a: read, wide: is(bool) };
        }

        computes Integer {
            Add32 { d: write, a: read, b: read };
            Sub32 { d: write, a: read, b: read };
            Mul32 { d: write, a: read, b: read };
            MulHiU32 { d: write, a: read, b: read };
            MulHiS32 { d: write, a: read, b: read };
            Mad32 { d: write, a: read, b: read, c: read };
            And32 { d: write, a: read, b: read };
            Or32 { d: write, a: read, b: read };
            Xor32 { d: write, a: read, b: read };
            Not32 { d: write, a: read };
            Lop3 { d: write, a: read, b: read, c: read, table: is(u8) };
            Shl32 { d: write, a: read, b: read };
            ShrU32 { d: write, a: read, b: read };
            ShrS32 { d: write, a: read, b: read };
            MinU32 { d: write, a: read, b: read };
            MinS32 { d: write, a: read, b: read };
            MaxU32 { d: write, a: read, b: read };
            MaxS32 { d: write, a: read, b: read };
            Neg32 { d: write, a: read };

            MulWideU32 { d: write, a: read, b: read };
            MulWideS32 { d: write, a: read, b: read };
            MadWideU32 { d: write, a: read, b: read, c: read };
            MadWideS32 { d: write, a: read, b: read, c: read };
            Add64 { d: write, a: read, b: read };
            Sub64 { d: write, a: read, b: read };
            Mul64 { d: write, a: read, b: read };
            Mad64 { d: write, a: read, b: read, c: read };
            And64 { d: write, a: read, b: read };
            Or64 { d: write, a: read, b: read };
            Xor64 { d: write, a: read, b: read };
            Not64 { d: write, a: read };
            Shl64 { d: write, a: read, b: read };
            ShrU64 { d: write, a: read, b: read };
            ShrS64 { d: write, a: read, b: read };

            SetpU32 { cmp: is(Relation), d: set, a: read, b: read };
            SetpS32 { cmp: is(Relation), d: set, a: read, b: read };
            SetpU64 { cmp: is(Relation), d: set, a: read, b: read };
            SetpS64 { cmp: is(Relation), d: set, a: read, b: read };

            /// `add.cc`, `addc`, `addc.cc`, `sub…`, `madc…`: the carry flag is one mask per warp.
            Carry(carry: Box<Carry>) => Carry::note;
            Video(video: Box<VideoInst>) => VideoInst::note;
            /// All other arithmetic, lane by lane; it knows its class.
            Map(map: Box<Map>) => Map::note;
            /// All other comparisons; it knows its class.
            SetpFull(setp: Box<SetpFull>) => SetpFull::note;
        }

        // Rounding to nearest
        computes F32 (1 flops) {
            AddF32 { d: write, a: read, b: read, ftz: is(bool) };
            SubF32 { d: write, a: read, b: read, ftz: is(bool) };
            MulF32 { d: write, a: read, b: read, ftz: is(bool) };
        }
        computes F32 (2 flops) {
            FmaF32 { d: write, a: read, b: read, c: read, ftz: is(bool) };
        }
        computes F32 {
            DivF32 { d: write, a: read, b: read };
            SqrtF32 { d: write, a: read };
            MinF32 { d: write, a: read, b: read, ftz: is(bool) };
            MaxF32 { d: write, a: read, b: read, ftz: is(bool) };
            SetpF32 { cmp: is(Relation), d: set, a: read, b: read };
        }
        computes F64 (1 flops) {
            AddF64 { d: write, a: read, b: read };
            SubF64 { d: write, a: read, b: read };
            MulF64 { d: write, a: read, b: read };
        }
        computes F64 (2 flops) {
            FmaF64 { d: write, a: read, b: read, c: read };
        }
        computes F16 {
            HalfMath(half: HalfMath) => HalfMath::note;
        }

        computes Conversion {
            /// Sign or zero extension of 32-bit lanes to 64, truncation of 64 to 32.
            Sext64 { d: write, a: read };
            Zext64 { d: write, a: read };
            Trunc32 { d: write, a: read };
            // Rounding to nearest, to zero for an integer result
            S32ToF32 { d: write, a: read };
            U32ToF32 { d: write, a: read };
            F32ToS32 { d: write, a: read };
        }

        acts Memory {
            Load(access: Box<Access>) => Access::note_load;
            Store(access: Box<Access>) => Access::note_store;
            Atomic(atomic: Box<Atomic>) => Atomic::note;
            Texture(texture: Box<TextureOp>) => TextureOp::note;
            Surface(surface: Box<SurfaceOp>) => SurfaceOp::note;
            CpAsync(copy: Box<CpAsync>) => CpAsync::note;
            CpAsyncCommit;
            /// All but the latest `n` groups (`None`: everything, committed or not).
            CpAsyncWait { n: is(Option<u32>) };
            Bulk(bulk: Box<Bulk>) => Bulk::note;
            /// `cp.async.bulk.commit_group`
            BulkCommit;
            /// `cp.async.bulk.wait_group`: all but the latest `n` groups; `read`: their sources may be written again.
            BulkWait { n: is(u32), read: is(bool) };
            ReplaceMap(replace: Box<ReplaceMap>) => ReplaceMap::note;
            CopyMap(copy: Box<CopyMap>) => CopyMap::note;
        }

        acts Tensor {
            /// `tcgen05`, of one thread.
            Tcgen05(op: Box<Tcgen05>) => Tcgen05::note;
        }

        acts Barrier {
            Barrier(barrier: Box<Barrier>) => Barrier::note;
            Mbarrier(mbarrier: Box<Mbarrier>) => Mbarrier::note;
            Fence { scope: is(Scope) };
            /// `fence.proxy.async`: orders ordinary accesses and those of bulk copies.
            ProxyFence;
            /// `tcgen05.fence`: `after`: later work on tensor memory comes after what the thread has waited for.
            TmemFence { after: is(bool) };
            /// `barrier.cluster.arrive`; `releases`: waiting threads learn of the thread's earlier work.
            ClusterArrive { releases: is(bool) };
            /// `barrier.cluster.wait`
            ClusterWait;
        }

        acts Control {
            Bra {
                target: is(u32),
                /// Where diverged lanes meet again: an [`Op::Join`], or `u32::MAX`.
                join: is(u32),
            };
            Join;
            BrxIdx(brx: Box<BrxIdx>) => BrxIdx::note;
            Call(call: Box<Call>) => Call::note;
            Ret;
            Exit;
            Trap;
            Nanosleep;
        }

        acts Communication {
            Activemask { d: write };
            /// Lanes together; it knows its class.
            Together(together: Box<Together>) => Together::note;
        }

        acts Other {
            /// `txq`, `suq`
            Query(query: Box<ObjectQuery>) => ObjectQuery::note;
            /// `alloca`, `stacksave`, `stackrestore`
            Stack(stack: Stack) => Stack::note;
            /// `setmaxnreg`: registers of each thread of the warp; `increases`: it waits until the block has them.
            SetRegisters { count: is(u32), increases: is(bool) };
            /// `prefetch`, `discard` and the like: no effect that a program can see.
            Nop;
            /// Not known to the simulator: a kernel that could reach one is refused when it is loaded.
            Unsupported;
        }
    }
}

impl Op {
    /// Whether it is for a pair of blocks (`.cta_group::2`).
    pub(crate) fn is_for_pairs(&self) -> bool {
        match self {
            Self::Tcgen05(op) => op.pair,
            Self::Bulk(bulk) => bulk.pair,
            _ => false,
        }
    }

    /// Facts of the operation.
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        self.note(&mut facts);
        facts
    }
}
