//! Integer and bit arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions", and the
//! extended-precision forms with their carry).
//!
//! The generic functions are lane functions themselves: `int::add::<u32>` is the result of [`int_op`] for `add.u32`,
//! and inlined into a loop over 32 lanes with a constant [`Mode`] it vectorises.

use super::{LaneFn, Mode, Scalar};

/// Computation of an integer instruction. `a`, `b`, `c` are its source operands in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOp {
    /// `a + b`; `.sat` clamps to the type's range.
    Add,
    /// `a - b`; `.sat` clamps to the type's range.
    Sub,
    /// The low half of `a × b`.
    MulLo,
    /// The high half of `a × b`.
    MulHi,
    /// The whole of `a × b`, twice as wide as the type.
    MulWide,
    /// Low half of `a × b`, plus `c`.
    MadLo,
    /// High half of `a × b`, plus `c`; `.sat` clamps the sum.
    MadHi,
    /// `a × b + c`, where `c` and the result are twice as wide as the type.
    MadWide,
    /// Bits 31…0 of a 24 × 24-bit product.
    Mul24Lo,
    /// Bits 47…16 of a 24 × 24-bit product.
    Mul24Hi,
    /// `Mul24Lo` plus `c`.
    Mad24Lo,
    /// `Mul24Hi` plus `c`; `.sat` clamps the sum.
    Mad24Hi,
    /// Quotient, towards zero.
    Div,
    /// Remainder, of the dividend's sign.
    Rem,
    /// `|a|`
    Abs,
    /// `-a`
    Neg,
    /// The smaller; `.relu` clamps it at 0.
    Min,
    /// The larger; `.relu` clamps it at 0.
    Max,
    /// `c + |a - b|`
    Sad,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Bitwise complement.
    Not,
    /// 1 if `a` is 0, otherwise 0.
    Cnot,
    /// Left shift by `b`, clamped at the width.
    Shl,
    /// Right shift by `b`, clamped at the width; signed types fill with the sign.
    Shr,
    /// Upper word of `b:a` shifted left by `c`; clamps at 32, or wraps if `immediate` is 1.
    ShfL,
    /// Lower word of `b:a` shifted right by `c`; clamps at 32, or wraps if `immediate` is 1.
    ShfR,
    /// Any function of three bits: `immediate` is its table.
    Lop3,
    /// Picks four bytes of `b:a`; `immediate` is a [`PrmtMode`].
    Prmt,
    /// The field of `a` at bit `b` that is `c` bits long.
    Bfe,
    /// `b` with the low bits of `a` put into a field. The two operands that name it share `c`: position in its low 32
    /// bits, length in its high 32.
    Bfi,
    /// Position of the highest bit that differs from the sign; the shift that brings it to the top if `immediate` is 1.
    Bfind,
    /// The bits in reverse order.
    Brev,
    /// Leading zeros.
    Clz,
    /// Ones.
    Popc,
    /// Position of the `c`-th one of `a`, counting from bit `b`.
    Fns,
    /// `b` ones from bit `a`; wraps if `immediate` is 1, otherwise clamps.
    Bmsk,
    /// The low `b` bits of `a`, extended; wraps if `immediate` is 1, otherwise clamps.
    Szext,
    /// Four products of bytes, added to `c`.
    Dp4a {
        /// `a` holds signed bytes.
        a_signed: bool,
        /// `b` holds signed bytes.
        b_signed: bool,
    },
    /// Two products of a half of `a` and a byte of `b`, added to `c`.
    Dp2a {
        /// `.hi`: bytes 2 and 3 of `b`, not 0 and 1.
        high: bool,
        /// `a` holds signed halves.
        a_signed: bool,
        /// `b` holds signed bytes.
        b_signed: bool,
    },
    /// Absolute differences of the unsigned bytes or halves of `a` and `b`: in their places, or added up with `c`.
    AbsDiffPacked {
        /// Two halves, not four bytes.
        halves: bool,
        /// `.add`: summed, with `c`.
        sum: bool,
    },
}

impl IntOp {
    /// Number of operands.
    #[must_use]
    pub fn sources(self) -> usize {
        match self {
            Self::Abs | Self::Neg | Self::Not | Self::Cnot | Self::Bfind | Self::Brev | Self::Clz | Self::Popc => 1,
            Self::MadLo | Self::MadHi | Self::MadWide | Self::Mad24Lo | Self::Mad24Hi | Self::Sad => 3,
            Self::ShfL | Self::ShfR | Self::Lop3 | Self::Prmt | Self::Bfe | Self::Bfi | Self::Fns => 3,
            Self::Dp4a { .. } | Self::Dp2a { .. } | Self::AbsDiffPacked { .. } => 3,
            _ => 2,
        }
    }
}

/// Meaning of `prmt`'s control operand (PTX ISA, "prmt").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PrmtMode {
    /// Four selectors of four bits; the top bit of each replicates the byte's sign.
    #[default]
    Generic,
    /// `.f4e`: four bytes forwards from the selector.
    Forward4,
    /// `.b4e`: four bytes backwards from the selector.
    Backward4,
    /// `.rc8`: one byte, four times.
    Replicate8,
    /// `.ecl`: clamped to the left.
    EdgeLeft,
    /// `.ecr`: clamped to the right.
    EdgeRight,
    /// `.rc16`: one half, twice.
    Replicate16,
}

/// A machine integer that PTX computes with. All arithmetic wraps.
pub trait Word: Copy + Ord + Default {
    /// Width.
    const BITS: u32;
    /// Whether the type has a sign.
    const SIGNED: bool;
    /// All ones, whatever the sign.
    const ONES: Self;
    /// Reads the low bits.
    fn of(raw: u64) -> Self;
    /// Zero-extended bits.
    fn raw(self) -> u64;
    /// The value, exactly.
    fn value(self) -> i128;
    /// The nearest value of this type.
    fn clamped(value: i128) -> Self;
    /// Sum.
    fn plus(self, other: Self) -> Self;
    /// Difference.
    fn minus(self, other: Self) -> Self;
    /// Low half of the product.
    fn times(self, other: Self) -> Self;
    /// The exact product, its low 64 bits and the 64 above them.
    fn product(self, other: Self) -> (u64, u64);
    /// Quotient and remainder, `None` for a zero divisor.
    fn quotient(self, other: Self) -> Option<(Self, Self)>;
    /// `|self - other|`
    fn distance(self, other: Self) -> u64;
    /// Right shift by less than the width.
    fn shifted_right(self, amount: u32) -> Self;
}

macro_rules! word {
    ($type:ident, $unsigned:ident, $signed:literal, $wide:ident) => {
        impl Word for $type {
            const BITS: u32 = $type::BITS;
            const SIGNED: bool = $signed;
            const ONES: Self = $unsigned::MAX as $type;
            #[inline]
            fn of(raw: u64) -> Self {
                raw as Self
            }
            #[inline]
            fn raw(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline]
            fn value(self) -> i128 {
                i128::from(self)
            }
            #[inline]
            fn clamped(value: i128) -> Self {
                value.clamp(i128::from(Self::MIN), i128::from(Self::MAX)) as Self
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn product(self, other: Self) -> (u64, u64) {
                let product = $wide::from(self).wrapping_mul($wide::from(other));
                (product as u64, (product as i128 >> 64) as u64)
            }
            #[inline]
            fn quotient(self, other: Self) -> Option<(Self, Self)> {
                (other != 0).then(|| (self.wrapping_div(other), self.wrapping_rem(other)))
            }
            #[inline]
            fn distance(self, other: Self) -> u64 {
                u64::from(self.abs_diff(other))
            }
            #[inline]
            fn shifted_right(self, amount: u32) -> Self {
                self >> amount
            }
        }
    };
}
word!(u16, u16, false, u32);
word!(i16, u16, true, i32);
word!(u32, u32, false, u64);
word!(i32, u32, true, i64);
word!(u64, u64, false, u128);
word!(i64, u64, true, i128);

/// `add`
#[inline]
pub fn add<T: Word>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    if mode.saturate {
        return T::clamped(T::of(a).value() + T::of(b).value()).raw();
    }
    T::of(a).plus(T::of(b)).raw()
}

/// `sub`
#[inline]
pub fn sub<T: Word>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    if mode.saturate {
        return T::clamped(T::of(a).value() - T::of(b).value()).raw();
    }
    T::of(a).minus(T::of(b)).raw()
}

/// `mul.lo`
#[inline]
pub fn mul_lo<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    T::of(a).times(T::of(b)).raw()
}

/// `mul.hi`
#[inline]
pub fn mul_hi<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    let (low, high) = T::of(a).product(T::of(b));
    if T::BITS == 64 { high } else { T::of(low >> T::BITS).raw() }
}

/// `mul.wide`, for 16 and 32 bits.
#[inline]
pub fn mul_wide<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    truncate(T::of(a).product(T::of(b)).0, 2 * T::BITS)
}

/// `mad.lo`
#[inline]
pub fn mad_lo<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    T::of(a).times(T::of(b)).plus(T::of(c)).raw()
}

/// `mad.hi`
#[inline]
pub fn mad_hi<T: Word>(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mode, mul_hi::<T>(mode, a, b, 0), c, 0)
}

/// `mad.wide`, for 16 and 32 bits.
#[inline]
pub fn mad_wide<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    truncate(T::of(a).product(T::of(b)).0.wrapping_add(c), 2 * T::BITS)
}

#[inline]
fn truncate(bits: u64, width: u32) -> u64 {
    bits & (u64::MAX >> (64 - width))
}

/// The 48-bit product of the low 24 bits.
#[inline]
fn product24<T: Word>(a: u64, b: u64) -> u64 {
    let low24 = |x: u64| {
        if T::SIGNED { i64::from((x as i32) << 8 >> 8) as u64 } else { x & 0xff_ffff }
    };
    low24(a).wrapping_mul(low24(b))
}

/// `mul24.lo`
#[inline]
pub fn mul24_lo<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    truncate(product24::<T>(a, b), 32)
}

/// `mul24.hi`
#[inline]
pub fn mul24_hi<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    truncate(product24::<T>(a, b) >> 16, 32)
}

/// `mad24.lo`
#[inline]
pub fn mad24_lo<T: Word>(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    T::of(mul24_lo::<T>(mode, a, b, 0)).plus(T::of(c)).raw()
}

/// `mad24.hi`
#[inline]
pub fn mad24_hi<T: Word>(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mode, mul24_hi::<T>(mode, a, b, 0), c, 0)
}

/// `div`. By zero: all ones. PTX leaves that to the machine; ptxas (13.0, sm_90) ends both its division and its
/// remainder with `d = ~b` for a zero `b`.
#[inline]
pub fn div<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    T::of(a).quotient(T::of(b)).map_or(T::ONES, |(quotient, _)| quotient).raw()
}

/// `rem`. By zero: all ones, like [`div`].
#[inline]
pub fn rem<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    T::of(a).quotient(T::of(b)).map_or(T::ONES, |(_, remainder)| remainder).raw()
}

/// `abs`; the most negative value stays as it is.
#[inline]
pub fn abs<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    let a = T::of(a);
    if a < T::default() { T::default().minus(a).raw() } else { a.raw() }
}

/// `neg`
#[inline]
pub fn neg<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    T::default().minus(T::of(a)).raw()
}

#[inline]
fn relu<T: Word>(mode: Mode, x: T) -> u64 {
    if mode.relu { x.max(T::default()).raw() } else { x.raw() }
}

/// `min`
#[inline]
pub fn min<T: Word>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    relu(mode, T::of(a).min(T::of(b)))
}

/// `max`
#[inline]
pub fn max<T: Word>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    relu(mode, T::of(a).max(T::of(b)))
}

/// `sad`
#[inline]
pub fn sad<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    T::of(c.wrapping_add(T::of(a).distance(T::of(b)))).raw()
}

/// `and`
#[inline]
pub fn and(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a & b
}

/// `or`
#[inline]
pub fn or(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a | b
}

/// `xor`
#[inline]
pub fn xor(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a ^ b
}

/// `not`
#[inline]
pub fn not<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    T::of(!a).raw()
}

/// `cnot`
#[inline]
pub fn cnot<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    u64::from(T::of(a) == T::default())
}

/// `shl`; `b` is always a `.u32`.
#[inline]
pub fn shl<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    let amount = b as u32;
    if amount < T::BITS { T::of(a << amount).raw() } else { 0 }
}

/// `shr`; `b` is always a `.u32`.
#[inline]
pub fn shr<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    let amount = b as u32;
    if !T::SIGNED && amount >= T::BITS {
        return 0;
    }
    T::of(a).shifted_right(amount.min(T::BITS - 1)).raw()
}

#[inline]
fn funnel(mode: Mode, a: u64, b: u64, c: u64) -> (u64, u32) {
    let amount = if mode.immediate == 1 { c as u32 & 31 } else { (c as u32).min(32) };
    (b << 32 | a & 0xffff_ffff, amount)
}

/// `shf.l`
#[inline]
pub fn shf_l(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (source, amount) = funnel(mode, a, b, c);
    source << amount >> 32
}

/// `shf.r`
#[inline]
pub fn shf_r(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (source, amount) = funnel(mode, a, b, c);
    truncate(source >> amount, 32)
}

/// `lop3`: bit `4a + 2b + c` of the table, for each bit of the operands.
#[inline]
pub fn lop3(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (a as u32, b as u32, c as u32);
    let mut result = 0;
    for minterm in 0..8 {
        // All ones where the table has a one: no branch, so that a loop over lanes vectorises.
        let wanted = 0u32.wrapping_sub(mode.immediate >> minterm & 1);
        let pick = |x: u32, bit: u32| if minterm & bit == 0 { !x } else { x };
        result |= wanted & pick(a, 4) & pick(b, 2) & pick(c, 1);
    }
    u64::from(result)
}

/// `prmt`
#[inline]
pub fn prmt(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    const FORWARD: u32 = PrmtMode::Forward4 as u32;
    const BACKWARD: u32 = PrmtMode::Backward4 as u32;
    const REPLICATE8: u32 = PrmtMode::Replicate8 as u32;
    const LEFT: u32 = PrmtMode::EdgeLeft as u32;
    const RIGHT: u32 = PrmtMode::EdgeRight as u32;
    const REPLICATE16: u32 = PrmtMode::Replicate16 as u32;
    let source = b << 32 | a & 0xffff_ffff;
    let n = c as u32 & 3;
    let mut result = 0;
    for i in 0..4 {
        let selector = match mode.immediate {
            FORWARD => n + i,
            BACKWARD => n.wrapping_sub(i) & 7,
            REPLICATE8 => n,
            LEFT => n.max(i),
            RIGHT => n.min(i),
            REPLICATE16 => (n & 1) * 2 + (i & 1),
            _ => c as u32 >> (4 * i) & 0xf,
        };
        let byte = (source >> (8 * (selector & 7))) as u8;
        let byte = if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        result |= u64::from(byte) << (8 * i);
    }
    result
}

/// `bfe`; `b` is the position and `c` the length, both modulo 256.
#[inline]
pub fn bfe<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (position, length) = (b as u32 & 0xff, c as u32 & 0xff);
    if length == 0 {
        return 0;
    }
    // The field's bits below the width, and the sign that fills the rest.
    let sign = T::SIGNED && a >> (position + length - 1).min(T::BITS - 1) & 1 == 1;
    let fill = if sign { u64::MAX } else { 0 };
    let kept = length.min(T::BITS.saturating_sub(position));
    let mask = low_ones(kept);
    let field = a.checked_shr(position).unwrap_or(0);
    T::of(field & mask | fill & !mask).raw()
}

#[inline]
fn low_ones(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// `bfi`; `c` holds the position in its low 32 bits and the length in its high 32, both modulo 256.
#[inline]
pub fn bfi<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (position, length) = (c as u32 & 0xff, (c >> 32) as u32 & 0xff);
    let mask = low_ones(length).checked_shl(position).unwrap_or(0);
    let field = a.checked_shl(position).unwrap_or(0);
    T::of(b & !mask | field & mask).raw()
}

/// `bfind`
#[inline]
pub fn bfind<T: Word>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let a = T::of(a);
    let bits = if a < T::default() { T::of(!a.raw()).raw() } else { a.raw() };
    if bits == 0 {
        return 0xffff_ffff;
    }
    let position = 63 - bits.leading_zeros();
    u64::from(if mode.immediate == 1 { T::BITS - 1 - position } else { position })
}

/// `brev`
#[inline]
pub fn brev<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    a.reverse_bits() >> (64 - T::BITS)
}

/// `clz`
#[inline]
pub fn clz<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    u64::from(a.leading_zeros() + T::BITS - 64)
}

/// `popc`
#[inline]
pub fn popc(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    u64::from(a.count_ones())
}

/// `fns`; a base above 31 is undefined in PTX and finds nothing here.
#[inline]
pub fn fns(_: Mode, mask: u64, base: u64, offset: u64) -> u64 {
    let (base, offset) = (base as u32, offset as i32);
    let set = |position: u32| mask >> position & 1 == 1;
    let found = if base > 31 {
        None
    } else if offset == 0 {
        set(base).then_some(base)
    } else {
        let skip = offset.unsigned_abs() as usize - 1;
        if offset > 0 {
            (base..32).filter(|&position| set(position)).nth(skip)
        } else {
            (0..=base).rev().filter(|&position| set(position)).nth(skip)
        }
    };
    u64::from(found.unwrap_or(u32::MAX))
}

/// `bmsk`
#[inline]
pub fn bmsk(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let wrap = mode.immediate == 1;
    if !wrap && a as u32 >= 32 {
        return 0;
    }
    let position = a as u32 & 31;
    let width = if wrap { b as u32 & 31 } else { (b as u32).min(32) };
    truncate(low_ones(width) << position, 32)
}

/// `szext`
#[inline]
pub fn szext<T: Word>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let width = b as u32;
    if mode.immediate != 1 && width >= 32 {
        return a;
    }
    bfe::<T>(mode, a, 0, u64::from(width & 31))
}

/// Element `index` of `width` bits, extended.
#[inline]
fn element(bits: u64, index: u32, width: u32, signed: bool) -> i32 {
    let top = (bits as u32) << (32 - width * (index + 1));
    if signed { top as i32 >> (32 - width) } else { (top >> (32 - width)) as i32 }
}

/// `dp4a`
#[inline]
pub fn dp4a<const A_SIGNED: bool, const B_SIGNED: bool>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let mut sum = c as i32;
    for i in 0..4 {
        sum = sum.wrapping_add(element(a, i, 8, A_SIGNED) * element(b, i, 8, B_SIGNED));
    }
    sum.raw()
}

/// `dp2a`
#[inline]
pub fn dp2a<const HIGH: bool, const A_SIGNED: bool, const B_SIGNED: bool>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let mut sum = c as i32;
    for i in 0..2 {
        let byte = if HIGH { i + 2 } else { i };
        sum = sum.wrapping_add(element(a, i, 16, A_SIGNED) * element(b, byte, 8, B_SIGNED));
    }
    sum.raw()
}

/// `vabsdiff2`, `vabsdiff4` of unsigned elements, each `WIDTH` bits.
#[inline]
pub fn abs_diff_packed<const WIDTH: u32, const SUM: bool>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let mut result = if SUM { c as u32 } else { 0 };
    for i in 0..32 / WIDTH {
        let difference = element(a, i, WIDTH, false).abs_diff(element(b, i, WIDTH, false));
        result = result.wrapping_add(if SUM { difference } else { difference << (WIDTH * i) });
    }
    result.raw()
}

/// Both halves of packed operands.
#[inline]
fn halves(f: LaneFn, mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let half = |shift: u32| f(mode, a >> shift & 0xffff, b >> shift & 0xffff, c >> shift & 0xffff);
    half(16) << 16 | half(0)
}

fn typed<T: Word>(op: IntOp) -> Option<LaneFn> {
    use IntOp::*;
    let f: LaneFn = match op {
        Add => add::<T>,
        Sub => sub::<T>,
        MulLo => mul_lo::<T>,
        MulHi => mul_hi::<T>,
        MulWide if T::BITS < 64 => mul_wide::<T>,
        MadLo => mad_lo::<T>,
        MadHi => mad_hi::<T>,
        MadWide if T::BITS < 64 => mad_wide::<T>,
        Mul24Lo if T::BITS == 32 => mul24_lo::<T>,
        Mul24Hi if T::BITS == 32 => mul24_hi::<T>,
        Mad24Lo if T::BITS == 32 => mad24_lo::<T>,
        Mad24Hi if T::BITS == 32 => mad24_hi::<T>,
        Div => div::<T>,
        Rem => rem::<T>,
        Abs if T::SIGNED => abs::<T>,
        Neg if T::SIGNED => neg::<T>,
        Min => min::<T>,
        Max => max::<T>,
        Sad => sad::<T>,
        Shr => shr::<T>,
        Bfe if T::BITS >= 32 => bfe::<T>,
        Bfind if T::BITS >= 32 => bfind::<T>,
        Szext if T::BITS == 32 => szext::<T>,
        Dp4a { .. } | Dp2a { .. } if T::BITS == 32 => return dot_product(op),
        AbsDiffPacked { halves: false, sum: false } if T::BITS == 32 => abs_diff_packed::<8, false>,
        AbsDiffPacked { halves: false, sum: true } if T::BITS == 32 => abs_diff_packed::<8, true>,
        AbsDiffPacked { halves: true, sum: false } if T::BITS == 32 => abs_diff_packed::<16, false>,
        AbsDiffPacked { halves: true, sum: true } if T::BITS == 32 => abs_diff_packed::<16, true>,
        _ => return None,
    };
    Some(f)
}

fn dot_product(op: IntOp) -> Option<LaneFn> {
    Some(match op {
        IntOp::Dp4a { a_signed: false, b_signed: false } => dp4a::<false, false>,
        IntOp::Dp4a { a_signed: false, b_signed: true } => dp4a::<false, true>,
        IntOp::Dp4a { a_signed: true, b_signed: false } => dp4a::<true, false>,
        IntOp::Dp4a { a_signed: true, b_signed: true } => dp4a::<true, true>,
        IntOp::Dp2a { high: false, a_signed: false, b_signed: false } => dp2a::<false, false, false>,
        IntOp::Dp2a { high: false, a_signed: false, b_signed: true } => dp2a::<false, false, true>,
        IntOp::Dp2a { high: false, a_signed: true, b_signed: false } => dp2a::<false, true, false>,
        IntOp::Dp2a { high: false, a_signed: true, b_signed: true } => dp2a::<false, true, true>,
        IntOp::Dp2a { high: true, a_signed: false, b_signed: false } => dp2a::<true, false, false>,
        IntOp::Dp2a { high: true, a_signed: false, b_signed: true } => dp2a::<true, false, true>,
        IntOp::Dp2a { high: true, a_signed: true, b_signed: false } => dp2a::<true, true, false>,
        IntOp::Dp2a { high: true, a_signed: true, b_signed: true } => dp2a::<true, true, true>,
        _ => return None,
    })
}

fn untyped<T: Word>(op: IntOp) -> Option<LaneFn> {
    use IntOp::*;
    let f: LaneFn = match op {
        And => and,
        Or => or,
        Xor => xor,
        Not => not::<T>,
        Cnot => cnot::<T>,
        Shl => shl::<T>,
        Shr => shr::<T>,
        Bfi if T::BITS >= 32 => bfi::<T>,
        Brev if T::BITS >= 32 => brev::<T>,
        Clz if T::BITS >= 32 => clz::<T>,
        Popc if T::BITS >= 32 => popc,
        ShfL if T::BITS == 32 => shf_l,
        ShfR if T::BITS == 32 => shf_r,
        Lop3 if T::BITS == 32 => lop3,
        Prmt if T::BITS == 32 => prmt,
        Fns if T::BITS == 32 => fns,
        Bmsk if T::BITS == 32 => bmsk,
        _ => return None,
    };
    Some(f)
}

/// The arithmetic of `op` on `ty`; `None` if PTX has no such form. Results narrower than the destination register are
/// zero-extended.
pub fn int_op(op: IntOp, ty: Scalar) -> Option<LaneFn> {
    use IntOp::{Add, Max, Min};
    match ty {
        Scalar::U16 => typed::<u16>(op),
        Scalar::S16 => typed::<i16>(op),
        Scalar::U32 => typed::<u32>(op),
        Scalar::S32 => typed::<i32>(op),
        Scalar::U64 => typed::<u64>(op),
        Scalar::S64 => typed::<i64>(op),
        Scalar::B16 => untyped::<u16>(op),
        Scalar::B32 => untyped::<u32>(op),
        Scalar::B64 => untyped::<u64>(op),
        Scalar::U16x2 => match op {
            Add => Some(|mode, a, b, c| halves(add::<u16>, mode, a, b, c)),
            Min => Some(|mode, a, b, c| halves(min::<u16>, mode, a, b, c)),
            Max => Some(|mode, a, b, c| halves(max::<u16>, mode, a, b, c)),
            _ => None,
        },
        Scalar::S16x2 => match op {
            Add => Some(|mode, a, b, c| halves(add::<i16>, mode, a, b, c)),
            Min => Some(|mode, a, b, c| halves(min::<i16>, mode, a, b, c)),
            Max => Some(|mode, a, b, c| halves(max::<i16>, mode, a, b, c)),
            _ => None,
        },
        _ => None,
    }
}

/// An extended-precision operation: `(carry in, a, b, c) -> (d, carry out)`. The executor passes `None` for the forms
/// that read no carry (`add.cc`) and drops the carry of those that write none (`addc`).
///
/// Hardware subtracts by adding the complement, so that the carry of a difference is set if nothing was borrowed: this
/// is visible where `addc` follows `sub.cc`, or `subc` follows `add.cc`.
pub type CarryFn = fn(Option<bool>, u64, u64, u64) -> (u64, bool);

/// The operations that have `.cc` forms (PTX ISA, "Extended-Precision Integer Arithmetic Instructions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CarryOp {
    /// `add.cc`, `addc`
    Add,
    /// `sub.cc`, `subc`: the carry is the opposite of a borrow.
    Sub,
    /// `mad.lo.cc`, `madc.lo`
    MadLo,
    /// `mad.hi.cc`, `madc.hi`
    MadHi,
}

/// The arithmetic of `op` on `ty` (32 and 64 bits); `None` if PTX has no such form.
pub fn carry_op(op: CarryOp, ty: Scalar) -> Option<CarryFn> {
    fn typed<T: Word>(op: CarryOp) -> CarryFn {
        match op {
            CarryOp::Add => |carry, a, b, _| sum::<T>(carry, a, b),
            CarryOp::Sub => |carry, a, b, _| {
                let (a, b) = (T::of(a).raw(), T::of(b).raw());
                let (first, under) = a.overflowing_sub(b);
                let (second, under_again) = first.overflowing_sub(u64::from(carry == Some(false)));
                (truncate(second, T::BITS), !(under || under_again))
            },
            CarryOp::MadLo => |carry, a, b, c| sum::<T>(carry, mul_lo::<T>(Mode::default(), a, b, 0), c),
            CarryOp::MadHi => |carry, a, b, c| sum::<T>(carry, mul_hi::<T>(Mode::default(), a, b, 0), c),
        }
    }
    fn sum<T: Word>(carry: Option<bool>, a: u64, b: u64) -> (u64, bool) {
        let sum = u128::from(T::of(a).raw()) + u128::from(T::of(b).raw()) + u128::from(carry.unwrap_or(false));
        (truncate(sum as u64, T::BITS), sum >> T::BITS != 0)
    }
    match ty {
        Scalar::U32 | Scalar::B32 => Some(typed::<u32>(op)),
        Scalar::S32 => Some(typed::<i32>(op)),
        Scalar::U64 | Scalar::B64 => Some(typed::<u64>(op)),
        Scalar::S64 => Some(typed::<i64>(op)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Random;
    use super::*;

    fn run(op: IntOp, ty: Scalar, operands: [u64; 3]) -> u64 {
        run_with(Mode::default(), op, ty, operands)
    }

    fn run_with(mode: Mode, op: IntOp, ty: Scalar, [a, b, c]: [u64; 3]) -> u64 {
        let f = int_op(op, ty).unwrap_or_else(|| panic!("no {op:?} of {ty:?}"));
        f(mode, a, b, c)
    }

    fn immediate(immediate: u32) -> Mode {
        Mode { immediate, ..Mode::default() }
    }

    /// The types of arithmetic, with their width and whether they have a sign.
    const TYPES: [(Scalar, u32, bool); 6] = [
        (Scalar::U16, 16, false),
        (Scalar::S16, 16, true),
        (Scalar::U32, 32, false),
        (Scalar::S32, 32, true),
        (Scalar::U64, 64, false),
        (Scalar::S64, 64, true),
    ];

    /// An operand of `width` bits; small numbers and the ends of the range come often.
    fn operand(random: &mut Random, width: u32) -> u64 {
        let bits = match random.bits() & 3 {
            0 => random.bits(),
            1 => random.bits() >> (random.bits() & 63),
            2 => (random.bits() & 3).wrapping_sub(2),
            _ => (1u64 << (width - 1)).wrapping_sub(random.bits() & 1),
        };
        truncate(bits, width)
    }

    #[test]
    fn arithmetic_agrees_with_exact_integers() {
        let mut random = Random(20);
        for (ty, width, signed) in TYPES {
            let exact = |raw: u64| {
                if signed { i128::from((raw << (64 - width)) as i64 >> (64 - width)) } else { raw.into() }
            };
            let cut = |value: i128| truncate(value as u64, width);
            let (least, most) =
                if signed { (-1 << (width - 1), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) };
            for _ in 0..100_000 {
                let [a, b, c] = [(); 3].map(|()| operand(&mut random, width));
                let [x, y, z] = [a, b, c].map(exact);
                let check = |op: IntOp, expected: u64| {
                    assert_eq!(run(op, ty, [a, b, c]), expected, "{op:?} {ty:?} {x} {y} {z}");
                };
                // u64 × u64 does not fit an i128; its low 128 bits are right all the same.
                let product = x.wrapping_mul(y);
                let high = if signed { product >> width } else { (product as u128 >> width) as i128 };
                check(IntOp::Add, cut(x + y));
                check(IntOp::Sub, cut(x - y));
                check(IntOp::MulLo, cut(product));
                check(IntOp::MulHi, cut(high));
                check(IntOp::MadLo, cut(product.wrapping_add(z)));
                check(IntOp::MadHi, cut(high + z));
                check(IntOp::Min, cut(x.min(y)));
                check(IntOp::Max, cut(x.max(y)));
                check(IntOp::Sad, cut(z + (x - y).abs()));
                check(IntOp::Div, if y == 0 { cut(-1) } else { cut(x / y) });
                check(IntOp::Rem, if y == 0 { cut(-1) } else { cut(x % y) });
                if signed {
                    check(IntOp::Abs, cut(x.abs()));
                    check(IntOp::Neg, cut(-x));
                }
                if width < 64 {
                    let wide = |value: i128| truncate(value as u64, 2 * width);
                    check(IntOp::MulWide, wide(product));
                    let addend = operand(&mut random, 2 * width);
                    let sum = wide(product.wrapping_add(addend.into()));
                    assert_eq!(run(IntOp::MadWide, ty, [a, b, addend]), sum, "{ty:?} {x} {y} {addend}");
                }
                let sat = Mode { saturate: true, ..Mode::default() };
                assert_eq!(run_with(sat, IntOp::Add, ty, [a, b, 0]), cut((x + y).clamp(least, most)));
                assert_eq!(run_with(sat, IntOp::Sub, ty, [a, b, 0]), cut((x - y).clamp(least, most)));
                assert_eq!(run_with(sat, IntOp::MadHi, ty, [a, b, c]), cut((exact(cut(high)) + z).clamp(least, most)));
                let relu = Mode { relu: true, ..Mode::default() };
                assert_eq!(run_with(relu, IntOp::Min, ty, [a, b, 0]), cut(x.min(y).max(0)));

                let amount = random.bits() % 80;
                let shifted = if amount >= 64 { if x < 0 { -1 } else { 0 } } else { x >> amount };
                assert_eq!(run(IntOp::Shr, ty, [a, amount, 0]), cut(shifted), "{ty:?} {x} >> {amount}");
            }
        }
    }

    #[test]
    fn bit_fields_follow_the_pseudo_code_of_the_manual() {
        // PTX ISA, "bfe" and "bfi": bit by bit.
        let bit = |x: u64, i: u32| i < 64 && x >> i & 1 == 1;
        let mut random = Random(21);
        for (ty, width, signed) in TYPES.into_iter().filter(|&(_, width, _)| width >= 32) {
            let untyped = if width == 32 { Scalar::B32 } else { Scalar::B64 };
            for _ in 0..50_000 {
                let [a, b] = [(); 2].map(|()| operand(&mut random, width));
                let [p, l] = [(); 2].map(|()| random.bits() >> (random.bits() & 63) & 0x1ff);
                let (position, length) = (p as u32 & 0xff, l as u32 & 0xff);
                let sign = signed && length > 0 && bit(a, (position + length - 1).min(width - 1));
                let mut extracted = 0;
                let mut inserted = b;
                for i in 0..width {
                    let inside = i < length && position + i < width;
                    extracted |= u64::from(if inside { bit(a, position + i) } else { sign }) << i;
                    if inside {
                        let place = position + i;
                        inserted = inserted & !(1 << place) | u64::from(bit(a, i)) << place;
                    }
                }
                assert_eq!(run(IntOp::Bfe, ty, [a, p, l]), extracted, "bfe {ty:?} {a:#x} {p} {l}");
                assert_eq!(run(IntOp::Bfi, untyped, [a, b, l << 32 | p]), inserted, "bfi {a:#x} {b:#x} {p} {l}");
            }
        }
    }

    #[test]
    fn masks_and_extensions_follow_the_pseudo_code_of_the_manual() {
        let mut random = Random(22);
        for _ in 0..100_000 {
            let [a, b] = [(); 2].map(|()| operand(&mut random, 32) >> (random.bits() & 31)).map(|x| x as u32);
            let word = operand(&mut random, 32) as u32;
            for wrap in [false, true] {
                let (position, width) = (a & 31, b & 31);
                let sum = position + width;
                let mut mask0 = u32::MAX << position;
                let mut mask1 = u32::MAX.checked_shl(sum).unwrap_or(0);
                let overflow = sum >= 32 || !wrap && (a >= 32 || b >= 32);
                if !wrap && a >= 32 {
                    mask0 = 0;
                }
                if overflow {
                    mask1 = 0;
                } else if width == 0 {
                    mask1 = u32::MAX;
                }
                let mode = immediate(wrap.into());
                let found = run_with(mode, IntOp::Bmsk, Scalar::B32, [a.into(), b.into(), 0]);
                assert_eq!(found as u32, mask0 & !mask1, "bmsk {a} {b} wrap {wrap}");

                let large = b >= 32 && !wrap;
                let mask = if large { 0 } else { u32::MAX << width };
                let sign = !(width == 0 || large) && word >> (width.wrapping_sub(1) & 31) & 1 == 1;
                let signed = word & !mask | if sign { mask } else { 0 };
                let operands = [word.into(), b.into(), 0];
                assert_eq!(run_with(mode, IntOp::Szext, Scalar::U32, operands) as u32, word & !mask);
                assert_eq!(run_with(mode, IntOp::Szext, Scalar::S32, operands) as u32, signed, "{word:#x} {b} {wrap}");
            }
        }
    }

    #[test]
    fn counting_and_finding() {
        let word = |op, a| run(op, Scalar::B32, [a, 0, 0]);
        assert_eq!(word(IntOp::Clz, 0), 32);
        assert_eq!(word(IntOp::Clz, 0x00ff_0000), 8);
        assert_eq!(word(IntOp::Popc, 0xf0f0_0001), 9);
        assert_eq!(word(IntOp::Brev, 0x8000_0002), 0x4000_0001);
        assert_eq!(run(IntOp::Clz, Scalar::B64, [1, 0, 0]), 63);
        assert_eq!(run(IntOp::Brev, Scalar::B64, [1, 0, 0]), 1 << 63);
        for (ty, a, position) in [
            (Scalar::U32, 0x0001_0000, 16),
            (Scalar::U32, 0, 0xffff_ffff),
            (Scalar::S32, 0xffff_ffff, 0xffff_ffff),
            (Scalar::S32, 0xffff_fff0, 3),
            (Scalar::S32, 0x0000_0010, 4),
            (Scalar::U64, 1 << 63, 63),
            (Scalar::S64, u64::MAX - 1, 0),
        ] {
            assert_eq!(run(IntOp::Bfind, ty, [a, 0, 0]), position, "{ty:?} {a:#x}");
            let width = if matches!(ty, Scalar::U64 | Scalar::S64) { 64 } else { 32 };
            let amount = if position > 63 { position } else { width - 1 - position };
            assert_eq!(run_with(immediate(1), IntOp::Bfind, ty, [a, 0, 0]), amount);
        }
        // The examples of the manual, and the ends.
        let fns = |mask: u64, base: u64, offset: i32| run(IntOp::Fns, Scalar::B32, [mask, base, offset as u32 as u64]);
        assert_eq!(fns(0xaaaa_aaaa, 3, 1), 3);
        assert_eq!(fns(0xaaaa_aaaa, 3, -1), 3);
        assert_eq!(fns(0xaaaa_aaaa, 2, 1), 3);
        assert_eq!(fns(0xaaaa_aaaa, 2, -1), 1);
        assert_eq!(fns(0xaaaa_aaaa, 1, 16), 31);
        assert_eq!(fns(0xaaaa_aaaa, 1, 17), 0xffff_ffff);
        assert_eq!(fns(0xaaaa_aaaa, 2, 0), 0xffff_ffff);
        assert_eq!(fns(0xaaaa_aaaa, 3, 0), 3);
        assert_eq!(fns(u64::from(u32::MAX), 0, i32::MIN), 0xffff_ffff);
    }

    #[test]
    fn logic() {
        let [a, b, c] = [0xf0f0_1234, 0xcccc_5678, 0xaaaa_9abc];
        let lop3 = |table| run_with(immediate(table), IntOp::Lop3, Scalar::B32, [a, b, c]);
        assert_eq!(lop3(0x80), a & b & c);
        assert_eq!(lop3(0xfe), a | b | c);
        assert_eq!(lop3(0x40), a & b & !c);
        assert_eq!(lop3(0x1a), (a & b | c) ^ a);
        assert_eq!(lop3(0x96), a ^ b ^ c);
        assert_eq!(run(IntOp::Not, Scalar::B16, [0x00ff, 0, 0]), 0xff00);
        assert_eq!(run(IntOp::Cnot, Scalar::B32, [0, 0, 0]), 1);
        assert_eq!(run(IntOp::Cnot, Scalar::B32, [2, 0, 0]), 0);
        assert_eq!(run(IntOp::Xor, Scalar::B64, [a, b, 0]), a ^ b);
    }

    #[test]
    fn shifts_clamp_or_wrap() {
        assert_eq!(run(IntOp::Shl, Scalar::B16, [0xffff, 4, 0]), 0xfff0);
        assert_eq!(run(IntOp::Shl, Scalar::B32, [1, 31, 0]), 1 << 31);
        assert_eq!(run(IntOp::Shl, Scalar::B32, [1, 32, 0]), 0);
        assert_eq!(run(IntOp::Shl, Scalar::B64, [1, 0xffff_ffff, 0]), 0);
        assert_eq!(run(IntOp::Shr, Scalar::B32, [1 << 31, 31, 0]), 1);
        let (low, high) = (0x89ab_cdef, 0x0123_4567);
        let shf = |op, wrap, amount| run_with(immediate(wrap), op, Scalar::B32, [low, high, amount]);
        assert_eq!(shf(IntOp::ShfL, 0, 4), 0x1234_5678);
        assert_eq!(shf(IntOp::ShfR, 0, 4), 0x789a_bcde);
        assert_eq!(shf(IntOp::ShfL, 0, 0), high);
        assert_eq!(shf(IntOp::ShfL, 0, 40), low);
        assert_eq!(shf(IntOp::ShfR, 0, 40), high);
        assert_eq!(shf(IntOp::ShfL, 1, 36), 0x1234_5678);
        assert_eq!(shf(IntOp::ShfR, 1, 32), low);
    }

    #[test]
    fn permutes_follow_the_tables_of_the_manual() {
        // Byte i of `b:a` is i, so that a result spells its selectors.
        let prmt = |mode: PrmtMode, c| {
            run_with(immediate(mode as u32), IntOp::Prmt, Scalar::B32, [0x0302_0100, 0x0706_0504, c])
        };
        assert_eq!(prmt(PrmtMode::Generic, 0x7310), 0x0703_0100);
        for (mode, rows) in [
            (PrmtMode::Forward4, [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
            (PrmtMode::Backward4, [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
            (PrmtMode::Replicate8, [0, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
            (PrmtMode::EdgeLeft, [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
            (PrmtMode::EdgeRight, [0, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
            (PrmtMode::Replicate16, [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
        ] {
            for (c, row) in rows.into_iter().enumerate() {
                assert_eq!(prmt(mode, c as u64), row, "{mode:?} {c}");
            }
        }
        let signs = run(IntOp::Prmt, Scalar::B32, [0x80_7f, 0, 0x9898]);
        assert_eq!(signs, 0xff00_ff00);
    }

    #[test]
    fn absolute_differences_of_elements() {
        let (a, b) = (0xff02_80fe, 0x0103_ff05);
        let run = |halves, sum| run(IntOp::AbsDiffPacked { halves, sum }, Scalar::U32, [a, b, 1000]);
        assert_eq!(run(false, false), 0xfe01_7ff9);
        assert_eq!(run(false, true), 1000 + 0xfe + 0x01 + 0x7f + 0xf9);
        assert_eq!(run(true, false), 0xfdff_7e07);
        assert_eq!(run(true, true), 1000 + 0xfdff + 0x7e07);
    }

    #[test]
    fn dot_products() {
        let (a, b) = (0xff02_80fe, 0x0103_ff05);
        let bytes = |x: u64, signed: bool| {
            (x as u32).to_le_bytes().map(|byte| if signed { i64::from(byte as i8) } else { byte.into() })
        };
        let halves = |x: u64, signed: bool| {
            [x & 0xffff, x >> 16].map(|half| if signed { i64::from(half as i16) } else { half as i64 })
        };
        for (a_signed, b_signed) in [(false, false), (false, true), (true, false), (true, true)] {
            let ty = if a_signed || b_signed { Scalar::S32 } else { Scalar::U32 };
            let sum: i64 = bytes(a, a_signed).into_iter().zip(bytes(b, b_signed)).map(|(x, y)| x * y).sum();
            let found = run(IntOp::Dp4a { a_signed, b_signed }, ty, [a, b, 1000]);
            assert_eq!(found, truncate((sum + 1000) as u64, 32), "dp4a {a_signed} {b_signed}");
            for high in [false, true] {
                let picked = &bytes(b, b_signed)[if high { 2..4 } else { 0..2 }];
                let sum: i64 = halves(a, a_signed).iter().zip(picked).map(|(x, y)| x * y).sum();
                let found = run(IntOp::Dp2a { high, a_signed, b_signed }, ty, [a, b, 1000]);
                assert_eq!(found, truncate((sum + 1000) as u64, 32), "dp2a {high} {a_signed} {b_signed}");
            }
        }
    }

    #[test]
    fn products_of_24_bits() {
        let [a, b] = [0xff80_0001, 0x0012_3456];
        let unsigned = 0x0080_0001u64 * 0x0012_3456;
        assert_eq!(run(IntOp::Mul24Lo, Scalar::U32, [a, b, 0]), unsigned & 0xffff_ffff);
        assert_eq!(run(IntOp::Mul24Hi, Scalar::U32, [a, b, 0]), unsigned >> 16);
        let signed = -0x7f_ffffi64 * 0x12_3456;
        assert_eq!(run(IntOp::Mul24Lo, Scalar::S32, [a, b, 0]), truncate(signed as u64, 32));
        assert_eq!(run(IntOp::Mad24Hi, Scalar::S32, [a, b, 5]), truncate(((signed >> 16) + 5) as u64, 32));
    }

    #[test]
    fn packed_halves_do_not_carry_over() {
        assert_eq!(run(IntOp::Add, Scalar::U16x2, [0xffff_ffff, 0x0001_0002, 0]), 0x0000_0001);
        assert_eq!(run(IntOp::Min, Scalar::S16x2, [0xffff_0001, 0x0001_ffff, 0]), 0xffff_ffff);
        assert_eq!(run(IntOp::Max, Scalar::U16x2, [0xffff_0001, 0x0001_ffff, 0]), 0xffff_ffff);
        let relu = Mode { relu: true, ..Mode::default() };
        assert_eq!(run_with(relu, IntOp::Max, Scalar::S16x2, [0xffff_0003, 0xfffe_0001, 0]), 0x0000_0003);
    }

    #[test]
    fn carries_chain_into_wide_arithmetic() {
        let f = |op, ty| carry_op(op, ty).unwrap_or_else(|| panic!("no {op:?} of {ty:?}"));
        let mut random = Random(23);
        for (ty, width) in [(Scalar::U32, 32), (Scalar::S32, 32), (Scalar::U64, 64), (Scalar::S64, 64)] {
            for _ in 0..20_000 {
                let [a0, a1, b0, b1] = [(); 4].map(|()| operand(&mut random, width));
                let [a, b] = [(a0, a1), (b0, b1)].map(|(low, high)| u128::from(low) | u128::from(high) << width);
                let mask = u128::MAX >> (128 - 2 * width);
                let join = |low: u64, high: u64| u128::from(low) | u128::from(high) << width;

                let (low, carry) = f(CarryOp::Add, ty)(None, a0, b0, 0);
                let (high, _) = f(CarryOp::Add, ty)(Some(carry), a1, b1, 0);
                assert_eq!(join(low, high), a.wrapping_add(b) & mask);
                let (low, carry) = f(CarryOp::Sub, ty)(None, a0, b0, 0);
                let (high, _) = f(CarryOp::Sub, ty)(Some(carry), a1, b1, 0);
                assert_eq!(join(low, high), a.wrapping_sub(b) & mask);
                if matches!(ty, Scalar::U32 | Scalar::U64) {
                    let (low, carry) = f(CarryOp::MadLo, ty)(None, a0, b0, a0);
                    let (high, _) = f(CarryOp::MadHi, ty)(Some(carry), a0, b0, a1);
                    let exact = (u128::from(a0) * u128::from(b0)).wrapping_add(a) & mask;
                    assert_eq!(join(low, high), exact);
                }
            }
        }
        assert!(carry_op(CarryOp::Add, Scalar::U16).is_none());
    }

    #[test]
    fn forms_that_ptx_lacks_are_refused() {
        for (op, ty) in [
            (IntOp::And, Scalar::U32),
            (IntOp::MulWide, Scalar::S64),
            (IntOp::Abs, Scalar::U32),
            (IntOp::Bfe, Scalar::U16),
            (IntOp::Popc, Scalar::B16),
            (IntOp::Sub, Scalar::U16x2),
            (IntOp::Mul24Lo, Scalar::U64),
            (IntOp::Prmt, Scalar::B64),
        ] {
            assert!(int_op(op, ty).is_none(), "{op:?} {ty:?}");
        }
    }
}
