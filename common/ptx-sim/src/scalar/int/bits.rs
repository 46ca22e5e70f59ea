//! Logic, shifts, bit fields, permutations and dot products.

use super::super::Mode;
use super::{PrmtMode, Word, truncate};

/// `and`
#[inline]
pub(super) fn and(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a & b
}

/// `or`
#[inline]
pub(super) fn or(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a | b
}

/// `xor`
#[inline]
pub(super) fn xor(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a ^ b
}

/// `not`
#[inline]
pub(super) fn not<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    T::of(!a).raw()
}

/// `cnot`
#[inline]
pub(super) fn cnot<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    u64::from(T::of(a) == T::default())
}

/// `shl`; `b` is always a `.u32`.
#[inline]
pub(super) fn shl<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    let amount = b as u32;
    if amount < T::BITS { T::of(a << amount).raw() } else { 0 }
}

/// `shr`; `b` is always a `.u32`.
#[inline]
pub(super) fn shr<T: Word>(_: Mode, a: u64, b: u64, _: u64) -> u64 {
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
pub(super) fn shf_l(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (source, amount) = funnel(mode, a, b, c);
    source << amount >> 32
}

/// `shf.r`
#[inline]
pub(super) fn shf_r(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (source, amount) = funnel(mode, a, b, c);
    truncate(source >> amount, 32)
}

/// `lop3`: bit `4a + 2b + c` of the table, for each bit of the operands.
#[inline]
pub(super) fn lop3(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
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
pub(super) fn prmt(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
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
pub(super) fn bfe<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
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
pub(super) fn bfi<T: Word>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (position, length) = (c as u32 & 0xff, (c >> 32) as u32 & 0xff);
    let mask = low_ones(length).checked_shl(position).unwrap_or(0);
    let field = a.checked_shl(position).unwrap_or(0);
    T::of(b & !mask | field & mask).raw()
}

/// `bfind`
#[inline]
pub(super) fn bfind<T: Word>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
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
pub(super) fn brev<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    a.reverse_bits() >> (64 - T::BITS)
}

/// `clz`
#[inline]
pub(super) fn clz<T: Word>(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    u64::from(a.leading_zeros() + T::BITS - 64)
}

/// `popc`
#[inline]
pub(super) fn popc(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    u64::from(a.count_ones())
}

/// `fns`; a base above 31 is undefined in PTX and finds nothing here.
#[inline]
pub(super) fn fns(_: Mode, mask: u64, base: u64, offset: u64) -> u64 {
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
pub(super) fn bmsk(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
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
pub(super) fn szext<T: Word>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
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
pub(super) fn dp4a<const A_SIGNED: bool, const B_SIGNED: bool>(_: Mode, a: u64, b: u64, c: u64) -> u64 {
    let mut sum = c as i32;
    for i in 0..4 {
        sum = sum.wrapping_add(element(a, i, 8, A_SIGNED) * element(b, i, 8, B_SIGNED));
    }
    sum.raw()
}

/// `dp2a`
#[inline]
pub(super) fn dp2a<const HIGH: bool, const A_SIGNED: bool, const B_SIGNED: bool>(
    _: Mode,
    a: u64,
    b: u64,
    c: u64,
) -> u64 {
    let mut sum = c as i32;
    for i in 0..2 {
        let byte = if HIGH { i + 2 } else { i };
        sum = sum.wrapping_add(element(a, i, 16, A_SIGNED) * element(b, byte, 8, B_SIGNED));
    }
    sum.raw()
}
