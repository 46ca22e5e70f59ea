//! Accesses of memory: addresses, loads and stores, atomics, `cp.async`.

use super::facts::Facts;
use super::op::{P, R};
use super::space::MemSpace;
use super::work::Class;
use crate::scalar::{LaneFn, Mode};

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
/// them at one place are no race, if each reaches the other's thread ([`Scope`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    /// `.volatile`: as `Relaxed`, of system scope.
    Volatile,
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

    /// Whether the access itself orders the thread's later work after it.
    pub(crate) fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcquireRelease)
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
    /// Bit for each byte of the whole access that the program uses, from a load's `used_bytes_mask` (PTX ISA, ".pragma"):
    /// the compiler may join loads over bytes that are not the program's.
    pub used: u32,
    /// `.param`: an argument of the kernel or of a call.
    pub param: bool,
    pub order: Order,
    pub scope: Scope,
    /// Whether words go to or come from 32-bit registers, all of them used and in no particular order.
    pub plain: bool,
    /// `.nc`: a load of memory that nothing writes while the kernel runs.
    pub read_only: bool,
}

impl Access {
    /// Start and length of each run of bytes that are used.
    pub(crate) fn used_runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let total = u32::from(self.bytes) * u32::from(self.count);
        let mut left = self.used & u32::MAX >> (32 - total);
        std::iter::from_fn(move || {
            let start = left.trailing_zeros();
            let length = left.checked_shr(start)?.trailing_ones();
            left &= u32::MAX.checked_shl(start + length).unwrap_or(0);
            Some((start.into(), length.into()))
        })
    }

    fn values(&self) -> impl Iterator<Item = R> {
        self.rows.into_iter().take(self.count.into())
    }

    pub(super) fn note_load(&self, facts: &mut Facts) {
        facts.read(self.address.row()).write(self.values());
        self.note_space(facts);
    }

    pub(super) fn note_store(&self, facts: &mut Facts) {
        facts.read(self.values()).read(self.address.row());
        self.note_space(facts);
    }

    /// Parameters are registers or constants on hardware.
    fn note_space(&self, facts: &mut Facts) {
        if self.param {
            facts.work.class = Class::Other;
        }
    }

    /// A loaded element, extended to its register.
    #[inline(always)]
    pub(crate) fn extended(&self, value: u64) -> u64 {
        if !self.signed || self.bytes >= 8 {
            return value;
        }
        let shift = 64 - 8 * u32::from(self.bytes);
        let value = ((value << shift) as i64 >> shift) as u64;
        // A 16-bit register stands zero-extended; a 32-bit one takes the whole.
        if self.narrow && self.bytes < 4 && !self.wide { value & 0xffff } else { value }
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
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read([self.a]).read(self.more.iter().map(|(_, a)| *a));
        facts.read(matches!(self.op, AtomOp::Cas).then_some(self.b)).read(self.address.row());
        facts.write(self.result).write(self.more.iter().filter_map(|(result, _)| *result));
    }

    /// Bytes of all elements together.
    pub(crate) fn total_bytes(&self) -> u64 {
        u64::from(self.bytes) * (1 + self.more.len() as u64)
    }
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

impl CpAsync {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.dst.row()).read(self.src.row()).read(self.src_bytes);
        facts.test(self.ignore.map(|(predicate, _)| predicate));
    }
}
