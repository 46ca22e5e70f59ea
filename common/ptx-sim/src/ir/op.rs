//! The operations.

use super::bulk::{Bulk, CopyMap, ReplaceMap};
use super::space::MemSpace;
use super::work::{Class, Work};
use crate::matrix::{Mma, Wgmma, WmmaAccess};
use crate::scalar::video::Video;
use crate::scalar::{CarryFn, CompareFn, LaneFn, Mode};
use crate::texture::Geometry;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

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

/// `[base + offset]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub space: MemSpace,
    pub base: Base,
    pub offset: i64,
}

impl Address {
    /// The register that holds the base.
    pub(crate) fn row(&self) -> Option<R> {
        match self.base {
            Base::Row32(row) | Base::Row64(row) => Some(row),
            Base::None | Base::Frame => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// No base: `offset` is the address.
    None,
    /// A 32-bit row, zero-extended.
    Row32(R),
    /// A 64-bit row.
    Row64(R),
    /// The function's frame in local memory.
    Frame,
}

/// Part of an access in the order of memory (PTX ISA, "Memory Consistency Model"). All but `Weak` are *strong*: two of
/// them at one place are no race. `.volatile` counts as `Relaxed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

impl Order {
    /// Whether the access itself orders the thread's earlier work before it.
    pub(crate) fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcquireRelease)
    }
}

/// Threads among which an access is strong, or a fence orders (PTX ISA, "Scope"). A cluster counts as the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Block,
    Device,
    /// All devices and the host.
    System,
}

/// `ld` and `st`: `count` elements of `bytes` each, one to a register.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub address: Address,
    /// Bytes of one element in memory: 1, 2, 4, 8 or 16.
    pub bytes: u8,
    /// Elements of the vector: 1, 2, 4 or 8.
    pub count: u8,
    /// Destination or source rows; `R::MAX` for the sink `_`.
    pub rows: [R; 8],
    /// Whether a register of the instruction takes two rows (or, for `b128`, four).
    pub wide: bool,
    /// Whether a load extends the sign of its element to the register's width.
    pub signed: bool,
    /// Whether the registers have 16 bits.
    pub narrow: bool,
    /// `.param`: an argument of the kernel or of a call.
    pub param: bool,
    pub order: Order,
    pub scope: Scope,
}

impl Access {
    /// Whether words go to or come from 32-bit registers, in no particular order.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.bytes == 4 && !self.wide && self.order == Order::Weak
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AtomOp {
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Add,
    Inc,
    Dec,
    MinU,
    MinS,
    MaxU,
    MaxS,
    /// Floating-point add, min or max: a function of [`crate::scalar`].
    Float(LaneFn),
}

/// `atom` and `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub address: Address,
    pub op: AtomOp,
    pub order: Order,
    pub scope: Scope,
    pub mode: Mode,
    /// Whether an f32 addition flushes subnormals: in global memory it does, in shared memory it does not (PTX ISA,
    /// "atom").
    pub flushes: bool,
    /// 2, 4, 8 or 16.
    pub bytes: u8,
    /// The row of the old value; `None` for `red` and the sink.
    pub result: Option<R>,
    /// Further elements of a vector: the rows of the old value and of `a`.
    pub more: Vec<(Option<R>, R)>,
    pub a: R,
    /// The new value of `cas`.
    pub b: R,
}

impl Atomic {
    /// Bytes of all elements together.
    pub(crate) fn total_bytes(&self) -> u64 {
        u64::from(self.bytes) * (1 + self.more.len() as u64)
    }
}

/// `tex` and `tld4` of an object.
#[derive(Clone, Debug)]
pub(crate) struct TextureOp {
    /// The 64-bit row of the handle.
    pub handle: R,
    pub geometry: Geometry,
    pub layer: Option<R>,
    /// One to three.
    pub coordinates: Vec<R>,
    /// Whether the coordinates are s32, numbers of texels.
    pub integer: bool,
    /// `tld4`: the channel that is gathered.
    pub gathered: Option<u8>,
    /// Rows of the four channels; `R::MAX` for the sink `_`.
    pub rows: [R; 4],
}

/// Effect of an access beyond a surface's edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    Trap,
    /// It goes to the nearest place inside.
    Clamp,
    /// It reads zeros, and writes nothing.
    Zero,
}

#[derive(Clone, Debug)]
pub(crate) enum SurfaceAction {
    /// `suld`; `R::MAX` for the sink `_`.
    Load {
        rows: Vec<R>,
        wide: bool,
    },
    Store {
        rows: Vec<R>,
        wide: bool,
    },
    /// `sured`
    Reduce {
        op: AtomOp,
        a: R,
    },
}

/// `suld`, `sust` and `sured` of an object. The first coordinate counts bytes.
#[derive(Clone, Debug)]
pub(crate) struct SurfaceOp {
    /// The 64-bit row of the handle.
    pub handle: R,
    pub geometry: Geometry,
    pub layer: Option<R>,
    /// One to three.
    pub coordinates: Vec<R>,
    pub outside: Outside,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Elements: 1, 2 or 4.
    pub count: u8,
    pub action: SurfaceAction,
}

impl SurfaceOp {
    /// Bytes of all elements together.
    pub(crate) fn total_bytes(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.count)
    }
}

/// Queried property of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectProperty {
    Width,
    Height,
    Depth,
    Layers,
    /// Levels or samples.
    One,
    NormalisedCoordinates,
}

/// `txq` and `suq`.
#[derive(Clone, Debug)]
pub(crate) struct ObjectQuery {
    pub d: R,
    /// The 64-bit row of the handle.
    pub handle: R,
    /// `suq`
    pub surface: bool,
    pub what: ObjectProperty,
}

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

/// An instruction that the lanes named in a mask execute together.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    /// The row of the member mask; `None` means all live lanes of the warp (`.aligned` matrix instructions).
    pub members: Option<R>,
    pub op: TogetherOp,
}

#[derive(Clone, Debug)]
pub(crate) enum TogetherOp {
    /// `bar.warp.sync`: lanes may meet at different ones.
    Sync,
    Shfl {
        mode: ShflMode,
        d: R,
        valid: Option<P>,
        a: R,
        b: R,
        c: R,
    },
    Vote {
        mode: VoteMode,
        d: R,
        a: P,
        negated: bool,
    },
    MatchAny {
        d: R,
        a: R,
        wide: bool,
    },
    MatchAll {
        d: R,
        all: Option<P>,
        a: R,
        wide: bool,
    },
    Redux {
        op: ReduxOp,
        d: R,
        a: R,
    },
    Elect {
        d: Option<R>,
        elected: P,
    },
    Mma(Box<MmaOp>),
    WmmaLoad(Box<WmmaMemory>),
    WmmaStore(Box<WmmaMemory>),
    /// `movmatrix`: an 8 × 8 matrix of 16-bit elements, transposed.
    MovMatrix {
        d: R,
        a: R,
    },
    LdMatrix(Box<MatrixMove>),
    StMatrix(Box<MatrixMove>),
    /// `wgmma.fence`
    WgmmaFence,
    /// `wgmma.mma_async`: a warp's part of a product of its warpgroup.
    Wgmma(Box<WgmmaOp>),
    /// `wgmma.commit_group`
    WgmmaCommit,
    /// `wgmma.wait_group`: all but the latest `n` groups.
    WgmmaWait {
        n: u8,
    },
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

#[derive(Clone, Debug)]
pub(crate) struct MatrixMove {
    pub address: Address,
    pub rows: Vec<R>,
    pub transposed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    RedAnd,
    RedOr,
    RedPopc,
}

#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub kind: BarrierKind,
    /// Row of the barrier's number.
    pub id: R,
    /// `bar` and `.aligned`: all threads of a warp must execute the same one.
    pub aligned: bool,
    /// Row of the thread count; `None`: all threads of the block.
    pub count: Option<R>,
    /// The predicate that `.red` reduces, and whether it is negated.
    pub source: Option<(P, bool)>,
    /// Destination of `.red.popc`.
    pub d: Option<R>,
    /// Destination of `.red.and`/`.red.or`.
    pub p: Option<P>,
}

#[derive(Clone, Debug)]
pub(crate) struct CpAsync {
    pub dst: Address,
    pub src: Address,
    /// 4, 8 or 16.
    pub bytes: u8,
    /// Row of the number of bytes to read; the rest is zeros.
    pub src_bytes: Option<R>,
    /// `ignore-src` predicate: all zeros where it is true.
    pub ignore: Option<(P, bool)>,
}

/// A slot of parameter space, copied between frames by a call: offset in the frame's local memory, bytes.
pub(crate) type Slot = (u32, u32);

/// Location of an argument or result in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// `.param`: bytes of the frame's local memory.
    Memory(Slot),
    /// `.reg`: a row, or two.
    Row {
        row: R,
        wide: bool,
    },
    Predicate(P),
}

#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// Index into the module's functions.
    Function(u32),
    /// A 64-bit row holding a function's address.
    Indirect(R),
    Vprintf,
    AssertFail,
    /// A second argument is the alignment.
    Malloc,
    Free,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub callee: Callee,
    pub args: Vec<Place>,
    pub results: Vec<Place>,
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
    pub work: Work,
}

/// The instructions. `d` is the destination; `a`, `b`, `c` are the sources in PTX's order.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    // Moves
    Mov32 {
        d: R,
        a: R,
    },
    Mov64 {
        d: R,
        a: R,
    },
    Special {
        d: R,
        what: Special,
        wide: bool,
    },
    /// The address of something in the frame's local memory, in the local space.
    FrameAddress {
        d: R,
        offset: u32,
        wide: bool,
    },
    /// `alloca`, `stacksave`, `stackrestore`
    Stack(Stack),
    /// Bits of `a` from `shift` on, `mask` wide: unpacking (`mov.b32 {lo, hi}, a`).
    Unpack32 {
        d: R,
        a: R,
        shift: u8,
        mask: u32,
    },
    Unpack64 {
        d: R,
        a: R,
        shift: u8,
        mask: u32,
    },
    /// `parts` low to high, each `bits` wide, into one register.
    Pack(Box<Pack>),
    /// Sign or zero extension of 32-bit lanes to 64, truncation of 64 to 32.
    Sext64 {
        d: R,
        a: R,
    },
    Zext64 {
        d: R,
        a: R,
    },
    Trunc32 {
        d: R,
        a: R,
    },

    // 32-bit integers
    Add32 {
        d: R,
        a: R,
        b: R,
    },
    Sub32 {
        d: R,
        a: R,
        b: R,
    },
    Mul32 {
        d: R,
        a: R,
        b: R,
    },
    MulHiU32 {
        d: R,
        a: R,
        b: R,
    },
    MulHiS32 {
        d: R,
        a: R,
        b: R,
    },
    Mad32 {
        d: R,
        a: R,
        b: R,
        c: R,
    },
    And32 {
        d: R,
        a: R,
        b: R,
    },
    Or32 {
        d: R,
        a: R,
        b: R,
    },
    Xor32 {
        d: R,
        a: R,
        b: R,
    },
    Not32 {
        d: R,
        a: R,
    },
    Lop3 {
        d: R,
        a: R,
        b: R,
        c: R,
        table: u8,
    },
    Shl32 {
        d: R,
        a: R,
        b: R,
    },
    ShrU32 {
        d: R,
        a: R,
        b: R,
    },
    ShrS32 {
        d: R,
        a: R,
        b: R,
    },
    MinU32 {
        d: R,
        a: R,
        b: R,
    },
    MinS32 {
        d: R,
        a: R,
        b: R,
    },
    MaxU32 {
        d: R,
        a: R,
        b: R,
    },
    MaxS32 {
        d: R,
        a: R,
        b: R,
    },
    Neg32 {
        d: R,
        a: R,
    },

    // 64-bit integers
    MulWideU32 {
        d: R,
        a: R,
        b: R,
    },
    MulWideS32 {
        d: R,
        a: R,
        b: R,
    },
    MadWideU32 {
        d: R,
        a: R,
        b: R,
        c: R,
    },
    MadWideS32 {
        d: R,
        a: R,
        b: R,
        c: R,
    },
    Add64 {
        d: R,
        a: R,
        b: R,
    },
    Sub64 {
        d: R,
        a: R,
        b: R,
    },
    Mul64 {
        d: R,
        a: R,
        b: R,
    },
    Mad64 {
        d: R,
        a: R,
        b: R,
        c: R,
    },
    And64 {
        d: R,
        a: R,
        b: R,
    },
    Or64 {
        d: R,
        a: R,
        b: R,
    },
    Xor64 {
        d: R,
        a: R,
        b: R,
    },
    Not64 {
        d: R,
        a: R,
    },
    Shl64 {
        d: R,
        a: R,
        b: R,
    },
    ShrU64 {
        d: R,
        a: R,
        b: R,
    },
    ShrS64 {
        d: R,
        a: R,
        b: R,
    },

    /// `add.cc`, `addc`, `addc.cc`, `sub…`, `madc…`: the carry flag is one mask per warp.
    Carry(Box<Carry>),
    Video(Box<VideoInst>),

    // f32, rounding to nearest
    AddF32 {
        d: R,
        a: R,
        b: R,
        ftz: bool,
    },
    SubF32 {
        d: R,
        a: R,
        b: R,
        ftz: bool,
    },
    MulF32 {
        d: R,
        a: R,
        b: R,
        ftz: bool,
    },
    FmaF32 {
        d: R,
        a: R,
        b: R,
        c: R,
        ftz: bool,
    },
    DivF32 {
        d: R,
        a: R,
        b: R,
    },
    SqrtF32 {
        d: R,
        a: R,
    },
    MinF32 {
        d: R,
        a: R,
        b: R,
        ftz: bool,
    },
    MaxF32 {
        d: R,
        a: R,
        b: R,
        ftz: bool,
    },
    // Halves or pairs of halves, rounding to nearest
    HalfMath {
        op: HalfOp,
        d: R,
        a: R,
        b: R,
        c: R,
        bfloat: bool,
        packed: bool,
    },
    // f64, rounding to nearest
    AddF64 {
        d: R,
        a: R,
        b: R,
    },
    SubF64 {
        d: R,
        a: R,
        b: R,
    },
    MulF64 {
        d: R,
        a: R,
        b: R,
    },
    FmaF64 {
        d: R,
        a: R,
        b: R,
        c: R,
    },
    // Conversions, rounding to nearest (to zero for an integer result)
    S32ToF32 {
        d: R,
        a: R,
    },
    U32ToF32 {
        d: R,
        a: R,
    },
    F32ToS32 {
        d: R,
        a: R,
    },

    /// All other operations, lane by lane.
    Map(Box<Map>),

    // Predicates and selection
    SetpU32 {
        cmp: Cmp,
        d: P,
        a: R,
        b: R,
    },
    SetpS32 {
        cmp: Cmp,
        d: P,
        a: R,
        b: R,
    },
    SetpU64 {
        cmp: Cmp,
        d: P,
        a: R,
        b: R,
    },
    SetpS64 {
        cmp: Cmp,
        d: P,
        a: R,
        b: R,
    },
    SetpF32 {
        cmp: Cmp,
        d: P,
        a: R,
        b: R,
    },
    SetpFull(Box<SetpFull>),
    PredSet {
        d: P,
        value: bool,
    },
    PredMov {
        d: P,
        a: P,
        negated: bool,
    },
    PredLogic {
        op: BoolOp,
        d: P,
        a: P,
        b: P,
        not_a: bool,
        not_b: bool,
    },
    Selp32 {
        d: R,
        a: R,
        b: R,
        p: P,
        negated: bool,
    },
    Selp64 {
        d: R,
        a: R,
        b: R,
        p: P,
        negated: bool,
    },
    /// Non-zero lanes to a predicate.
    RowToPred {
        d: P,
        a: R,
    },

    // Memory
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Texture(Box<TextureOp>),
    Surface(Box<SurfaceOp>),
    Query(Box<ObjectQuery>),
    CpAsync(Box<CpAsync>),
    CpAsyncCommit,
    Mbarrier(Box<Mbarrier>),
    /// All but the latest `n` groups (`None`: everything, committed or not).
    CpAsyncWait {
        n: Option<u32>,
    },
    Bulk(Box<Bulk>),
    /// `cp.async.bulk.commit_group`
    BulkCommit,
    /// `cp.async.bulk.wait_group`: all but the latest `n` groups; `read`: their sources may be written again.
    BulkWait {
        n: u32,
        read: bool,
    },
    ReplaceMap(Box<ReplaceMap>),
    CopyMap(Box<CopyMap>),
    Fence {
        scope: Scope,
    },
    /// `fence.proxy.async`: orders ordinary accesses and those of bulk copies.
    ProxyFence,
    /// `cvta`, both ways: adds or subtracts the window of a space.
    Cvta {
        d: R,
        a: R,
        wide: bool,
        delta: u64,
    },
    IsSpace {
        d: P,
        a: R,
        wide: bool,
        space: MemSpace,
        constant: bool,
    },
    /// `prefetch`, `discard` and the like: no effect that a program can see.
    Nop,

    // Control
    Bra {
        target: u32,
        /// where diverged lanes meet again: an [`Op::Join`], or `u32::MAX`
        join: u32,
    },
    Join,
    BrxIdx(Box<BrxIdx>),
    Call(Box<Call>),
    Ret,
    Exit,
    Trap,
    Nanosleep,
    /// `setmaxnreg`: registers of each thread of the warp; `increases`: it waits until the block has them.
    SetRegisters {
        count: u32,
        increases: bool,
    },
    Activemask {
        d: R,
    },
    Barrier(Box<Barrier>),
    /// `barrier.cluster.arrive`; `releases`: waiting threads learn of the thread's earlier work.
    ClusterArrive {
        releases: bool,
    },
    /// `barrier.cluster.wait`
    ClusterWait,
    /// `mapa`: the address that stands for `a` in the block of a rank of the cluster.
    MapShared {
        d: R,
        a: R,
        rank: R,
        wide: bool,
    },
    /// `getctarank`: the rank of the block whose shared memory the address is in.
    RankOf {
        d: R,
        a: R,
        wide: bool,
    },
    Together(Box<Together>),

    /// Not known to the simulator: a kernel that could reach one is refused when it is loaded.
    Unsupported,
}

/// An instruction on the end of the frame's local memory, counted from where the frame's variables end
/// ([`Function::stack`](super::Function::stack)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub op: StackOp,
    /// Whether its registers have 64 bits, not 32.
    pub wide: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StackOp {
    /// Memory of `size` bytes, aligned to `align` bytes: its address in the local space.
    Alloca { d: R, size: R, align: u32 },
    /// The address of the end.
    Save { d: R },
    /// Restores the saved end.
    Restore { a: R },
}

#[derive(Clone, Debug)]
pub(crate) struct Pack {
    pub d: R,
    pub d_wide: bool,
    pub bits: u8,
    pub parts: Vec<R>,
    pub part_wide: bool,
}

/// A video instruction.
#[derive(Clone, Debug)]
pub(crate) struct VideoInst {
    pub video: Video,
    pub d: R,
    /// Unused ones are `R::MAX`.
    pub sources: [R; 3],
}

/// An instruction on an mbarrier, a barrier that is an object in shared memory (PTX ISA, "mbarrier").
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    pub address: Address,
    pub op: MbarrierOp,
    pub order: Order,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum MbarrierOp {
    /// Row of the number of arrivals that complete a phase.
    Init {
        count: R,
    },
    Inval,
    Arrive {
        /// Row, of 64 bits, of the state before.
        d: Option<R>,
        /// Row of the number of arrivals; `None`: one.
        count: Option<R>,
        /// `arrive_drop`: later phases expect fewer arrivals.
        drop: bool,
        /// `.noComplete`: the phase must not end.
        no_complete: bool,
        /// Row of the number of additional bytes that the phase waits for.
        expect: Option<R>,
    },
    /// `expect_tx` and `complete_tx`: row of a number of bytes that the phase waits for, or that have come.
    Transactions {
        bytes: R,
        complete: bool,
    },
    /// `test_wait`, `try_wait`
    Wait {
        p: Option<P>,
        phase: MbarrierPhase,
    },
    /// `cp.async.mbarrier.arrive`: an arrival when the thread's copies so far are there.
    ArriveWhenCopied {
        /// Without `.noinc` the phase waits for one arrival more.
        increments: bool,
    },
}

/// The phase whose end a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MbarrierPhase {
    /// Row, of 64 bits, of a state that an arrival returned.
    State(R),
    /// Row of the phase's number modulo 2.
    Parity(R),
}

#[derive(Clone, Debug)]
pub(crate) struct BrxIdx {
    pub index: R,
    /// Number of its list in the function, of which `targets` is a part: many branches may share one.
    pub list: u32,
    pub targets: std::sync::Arc<[u32]>,
    pub join: u32,
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
