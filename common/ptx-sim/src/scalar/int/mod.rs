//! Integer and bit arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions", and the
//! extended-precision forms with their carry).
//!
//! The generic functions are lane functions themselves: `int::add::<u32>` is the result of [`int_op`] for `add.u32`,
//! and inlined into a loop over 32 lanes with a constant [`Mode`] it vectorises.

mod bits;
mod carry;
#[cfg(test)]
mod tests;

use self::bits::*;
pub use self::carry::{CarryFn, CarryOp, carry_op};
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
}

impl IntOp {
    /// Number of operands.
    #[must_use]
    pub fn sources(self) -> usize {
        match self {
            Self::Abs | Self::Neg | Self::Not | Self::Cnot | Self::Bfind | Self::Brev | Self::Clz | Self::Popc => 1,
            Self::MadLo | Self::MadHi | Self::MadWide | Self::Mad24Lo | Self::Mad24Hi | Self::Sad => 3,
            Self::ShfL | Self::ShfR | Self::Lop3 | Self::Prmt | Self::Bfe | Self::Bfi | Self::Fns => 3,
            Self::Dp4a { .. } | Self::Dp2a { .. } => 3,
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
