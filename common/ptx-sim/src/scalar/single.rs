//! Single precision (PTX ISA, "Floating-Point Instructions").
//!
//! Every result is rounded once: sums and products are formed in f64 without loss, or with a last bit that stands for
//! the lost part ([`sum_to_odd`]), and only then narrowed. Quotients and roots of f32 operands cannot come closer to an
//! f32 or a midpoint than 2⁻⁴⁹ relative, unless they are one; rounding them to f64 first does no harm either.

// Inlined always: with a constant mode little is left of these functions, but they look big before that is known.

use super::{Mode, Rounding};

/// Every NaN result (PTX ISA, "Floating-Point Instructions": the canonical NaN).
pub const NAN: u32 = 0x7fff_ffff;

/// Whether the machine has a fused multiply-add that the compiler may use.
const HARDWARE_FMA: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// `.ftz`: a subnormal number becomes zero of its sign.
#[inline]
pub const fn flush(bits: u32) -> u32 {
    // A mask, not a choice of values: this vectorises.
    let kept = if bits & 0x7f80_0000 == 0 { 0x8000_0000 } else { u32::MAX };
    bits & kept
}

/// The bits of `x`, with every NaN made canonical.
#[inline(always)]
pub fn canonical(x: f32) -> u32 {
    if x.is_nan() { NAN } else { x.to_bits() }
}

/// An f32 operand, after `.ftz`.
#[inline(always)]
pub fn operand(mode: Mode, raw: u64) -> f32 {
    let bits = raw as u32;
    f32::from_bits(if mode.ftz { flush(bits) } else { bits })
}

/// An f32 result: `.sat`, canonical NaN, `.ftz`. A saturated NaN or negative zero is +0.
#[inline(always)]
pub fn result(mode: Mode, x: f32) -> u64 {
    let x = if mode.saturate { unit(x) } else { x };
    let bits = canonical(x);
    u64::from(if mode.ftz { flush(bits) } else { bits })
}

/// `x` was rounded from `exact`, whose last bit may be sticky. If it is the least normal number, but would be smaller with an
/// unbounded exponent, it is tiny, and `.ftz` makes it zero: hardware flushes by the rule of IEEE 754, 7.5, "after rounding".
#[inline(always)]
pub fn flush_tiny(mode: Mode, x: f32, exact: f64) -> f32 {
    const SCALE: f64 = (1u128 << 64) as f64;
    let least = x.abs() == f32::MIN_POSITIVE;
    let tiny = mode.ftz
        && least
        && f64::from(narrow(mode.rounding, exact * SCALE).abs()) < f64::from(f32::MIN_POSITIVE) * SCALE;
    if tiny { 0f32.copysign(x) } else { x }
}

/// `.sat`: clamped to [0, 1]; NaN is 0.
#[inline(always)]
pub fn unit(x: f32) -> f32 {
    let below_one = if x < 1.0 { x } else { 1.0 };
    if x > 0.0 { below_one } else { 0.0 }
}

macro_rules! sum_to_odd {
    ($name:ident, $float:ident, $bits:ident) => {
        /// `a + b`, rounded to odd: to the neighbour whose last bit is one, unless the sum is exact. Rounding that to a format
        /// with at least two bits less gives the same as rounding the exact sum (Boldo and Melquiond, "Emulation of FMA and
        /// correctly rounded sums: proved algorithms using rounding to odd"). No branches, so that it vectorises.
        ///
        /// Finite operands must be so small that nothing overflows; infinities and NaNs are all right.
        #[inline(always)]
        pub fn $name(a: $float, b: $float) -> $float {
            let sum = a + b;
            let b_part = sum - a;
            let error = (a - (sum - b_part)) + (b - b_part);
            let bits = sum.to_bits();
            let outwards = (error > 0.0) == (sum > 0.0);
            let neighbour = bits.wrapping_add(if outwards { 1 } else { $bits::MAX });
            // The error is NaN beside an infinity: exact.
            let inexact = error.abs() > 0.0;
            $float::from_bits(if inexact & (bits & 1 == 0) { neighbour } else { bits })
        }
    };
}
sum_to_odd!(sum_to_odd, f64, u64);
sum_to_odd!(sum_to_odd_f32, f32, u32);

/// Rounds `x`, whose last bit may be sticky, to f32. `.rna` does not occur with f32 results.
#[inline(always)]
pub fn narrow(rounding: Rounding, x: f64) -> f32 {
    const INWARDS: u32 = u32::MAX;
    const OUTWARDS: u32 = 1;
    let near = x as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    // Where the nearest lies on the wrong side of `x`, its neighbour is meant: one bit pattern away. A zero that came
    // from `x` has the sign of `x`.
    let (wrong, step) = match rounding {
        Rounding::Nearest | Rounding::NearestAway => return near,
        Rounding::Zero => (back.abs() > x.abs(), INWARDS),
        Rounding::Down => (back > x, if near.is_sign_negative() { OUTWARDS } else { INWARDS }),
        Rounding::Up => (back < x, if near.is_sign_negative() { INWARDS } else { OUTWARDS }),
    };
    f32::from_bits(if wrong { bits.wrapping_add(step) } else { bits })
}

/// The sign of an exact zero sum is negative when rounding down, unless both terms are +0 (IEEE 754, 6.3).
#[inline(always)]
fn signed_zero(rounding: Rounding, sum: f64, a: f64, b: f64) -> f64 {
    if rounding != Rounding::Down {
        return sum;
    }
    let sign = (a.to_bits() | b.to_bits()) & (1 << 63);
    f64::from_bits(sum.to_bits() | if sum == 0.0 { sign } else { 0 })
}

#[inline(always)]
fn rounded_sum(rounding: Rounding, a: f64, b: f64) -> f32 {
    narrow(rounding, signed_zero(rounding, sum_to_odd(a, b), a, b))
}

/// The bits of `a × b + c` rounded once to nearest, without a fused multiply-add in hardware: the product of two f32
/// is exact in f64. Canonical NaN; no branches.
#[inline(always)]
pub fn fma_f32_soft(a: f32, b: f32, c: f32) -> u32 {
    canonical(sum_to_odd(f64::from(a) * f64::from(b), f64::from(c)) as f32)
}

/// `add`
#[inline(always)]
pub fn add(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let (a, b) = (operand(mode, a), operand(mode, b));
    let sum = match mode.rounding {
        Rounding::Nearest => a + b,
        rounding => rounded_sum(rounding, a.into(), b.into()),
    };
    result(mode, sum)
}

/// `sub`
#[inline(always)]
pub fn sub(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    add(mode, a, b ^ 0x8000_0000, c)
}

/// `mul`
#[inline(always)]
pub fn mul(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let (a, b) = (operand(mode, a), operand(mode, b));
    let product = match mode.rounding {
        Rounding::Nearest => a * b,
        rounding => narrow(rounding, f64::from(a) * f64::from(b)),
    };
    result(mode, flush_tiny(mode, product, f64::from(a) * f64::from(b)))
}

/// `fma`, and `mad` of f32, which has been the same since sm_20.
#[inline(always)]
pub fn fma(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (operand(mode, a), operand(mode, b), operand(mode, c));
    let fused = match mode.rounding {
        Rounding::Nearest if HARDWARE_FMA => a.mul_add(b, c),
        Rounding::Nearest => f32::from_bits(fma_f32_soft(a, b, c)),
        rounding => rounded_sum(rounding, f64::from(a) * f64::from(b), c.into()),
    };
    result(mode, flush_tiny(mode, fused, sum_to_odd(f64::from(a) * f64::from(b), c.into())))
}

/// `div.rnd`
#[inline]
pub fn div(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let (a, b) = (operand(mode, a), operand(mode, b));
    let quotient = match mode.rounding {
        Rounding::Nearest => a / b,
        rounding => narrow(rounding, f64::from(a) / f64::from(b)),
    };
    result(mode, flush_tiny(mode, quotient, f64::from(a) / f64::from(b)))
}

/// `rcp.rnd`
#[inline]
pub fn rcp(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    div(mode, u64::from(1f32.to_bits()), a, 0)
}

/// `sqrt.rnd`
#[inline]
pub fn sqrt(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let a = operand(mode, a);
    let root = match mode.rounding {
        Rounding::Nearest => a.sqrt(),
        rounding => narrow(rounding, f64::from(a).sqrt()),
    };
    result(mode, root)
}

/// `abs`: hardware does an addition, so NaN becomes canonical.
#[inline]
pub fn abs(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    result(mode, operand(mode, a).abs())
}

/// `neg`: hardware does an addition, so NaN becomes canonical.
#[inline]
pub fn neg(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    result(mode, -operand(mode, a))
}

/// The smaller of `a` and `b`, where -0 is less than +0 and a number is preferred to NaN.
#[inline(always)]
pub fn smaller(a: f32, b: f32) -> f32 {
    // Of equal numbers, zeros alone can differ: the negative sign wins.
    let equal = f32::from_bits(a.to_bits() | b.to_bits());
    let least = if a < b { a } else { b };
    let least = if a == b { equal } else { least };
    // `least` is already `b` if `a` is NaN.
    if b.is_nan() { a } else { least }
}

/// `min` and `max` (PTX ISA, "min", "max") on operands that have been flushed. `max(a, b)` is `-min(-a, -b)`.
#[inline(always)]
pub fn extremum(mode: Mode, largest: bool, a: f32, b: f32) -> f32 {
    let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
    let (a, b) = if mode.xorsign_abs { (a.abs(), b.abs()) } else { (a, b) };
    let (x, y) = if largest { (-a, -b) } else { (a, b) };
    let least = smaller(x, y);
    let found = if largest { -least } else { least };
    let found = if mode.xorsign_abs { f32::from_bits(found.to_bits() | sign) } else { found };
    let nan = mode.propagate_nan && (a.is_nan() || b.is_nan());
    if nan { f32::from_bits(NAN) } else { found }
}

/// `min`
#[inline(always)]
pub fn min(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    result(mode, extremum(mode, false, operand(mode, a), operand(mode, b)))
}

/// `max`
#[inline(always)]
pub fn max(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    result(mode, extremum(mode, true, operand(mode, a), operand(mode, b)))
}

/// The bits without the sign if `immediate` is 1: the `.abs` of the forms with three operands.
#[inline]
fn magnitude(mode: Mode, raw: u64) -> u64 {
    if mode.immediate == 1 { raw & 0x7fff_ffff } else { raw }
}

/// `min` of three; `.abs` if `immediate` is 1.
#[inline]
pub fn min3(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    min(mode, min(mode, magnitude(mode, a), magnitude(mode, b), 0), magnitude(mode, c), 0)
}

/// `max` of three; `.abs` if `immediate` is 1.
#[inline]
pub fn max3(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    max(mode, max(mode, magnitude(mode, a), magnitude(mode, b), 0), magnitude(mode, c), 0)
}

/// `copysign`: the sign of `a` on the magnitude of `b`, bit for bit.
#[inline]
pub fn copysign(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a & 0x8000_0000 | b & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::super::LaneFn;
    use super::super::soft::Format;
    use super::super::testing::{DIRECTED, Op, Random, mode, reference};
    use super::*;

    fn bits(x: f32) -> u64 {
        x.to_bits().into()
    }

    #[test]
    fn soft_fma_is_fused() {
        let mut random = Random(3);
        for round in 0..10_000_000u32 {
            let [a, b, c] = [(); 3].map(|()| f32::from_bits(random.number(Format::F32) as u32));
            // Every fourth addend all but cancels the product.
            let c = if round % 4 == 0 { f32::from_bits((-(a * b)).to_bits() ^ (round >> 2 & 3)) } else { c };
            assert_eq!(fma_f32_soft(a, b, c), canonical(a.mul_add(b, c)), "{a:e} {b:e} {c:e}");
        }
    }

    #[test]
    fn arithmetic_agrees_with_llvm_in_every_rounding() {
        let mut random = Random(4);
        let operations: [(Op, LaneFn); 5] =
            [(Op::Add, add), (Op::Sub, sub), (Op::Mul, mul), (Op::Div, div), (Op::Fma, fma)];
        for _ in 0..200_000 {
            let [a, b, c] = [(); 3].map(|()| random.number(Format::F32));
            for rounding in DIRECTED {
                for (op, f) in operations {
                    let ours = f(mode(rounding), a, b, c);
                    let theirs = reference(op, Format::F32, rounding, a, b, c).unwrap_or(NAN.into());
                    assert_eq!(ours, theirs, "{op:?} {rounding:?} {a:#x} {b:#x} {c:#x}");
                }
                let root = super::super::soft::sqrt(Format::F32, rounding, a).unwrap_or(NAN.into());
                assert_eq!(sqrt(mode(rounding), a, 0, 0), root, "sqrt {rounding:?} {a:#x}");
                let one = bits(1.0);
                assert_eq!(rcp(mode(rounding), a, 0, 0), div(mode(rounding), one, a, 0));
            }
        }
    }

    #[test]
    fn flushing_keeps_the_sign_of_operands_and_results() {
        let ftz = Mode { ftz: true, ..Mode::default() };
        let tiny = bits(-1e-40);
        let least = bits(f32::MIN_POSITIVE);
        assert_eq!(mul(ftz, tiny, bits(1e20), 0), bits(-0.0));
        assert_eq!(mul(ftz, least, bits(-0.5), 0), bits(-0.0));
        assert_eq!(add(ftz, tiny, bits(1.0), 0), bits(1.0));
        assert_eq!(sub(ftz, least, bits(f32::MIN_POSITIVE * 1.5), 0), bits(-0.0));
        assert_eq!(div(ftz, bits(1.0), tiny, 0), bits(f32::NEG_INFINITY));
        assert_eq!(mul(Mode::default(), least, bits(0.5), 0), bits(f32::MIN_POSITIVE / 2.0));
        assert_eq!(abs(ftz, tiny, 0, 0), 0);
    }

    #[test]
    fn saturation_clamps_to_the_unit_interval() {
        let sat = Mode { saturate: true, ..Mode::default() };
        for (x, expected) in [(2.0, 1.0), (0.25, 0.25), (-3.0, 0.0), (f32::NAN, 0.0), (-0.0, 0.0), (f32::INFINITY, 1.0)]
        {
            assert_eq!(add(sat, bits(x), bits(-0.0), 0), bits(expected), "{x}");
            assert_eq!(fma(sat, bits(x), bits(1.0), bits(-0.0)), bits(expected), "{x}");
        }
    }

    #[test]
    fn invalid_operations_give_the_canonical_nan() {
        let nan = u64::from(NAN);
        let plain = Mode::default();
        let infinity = bits(f32::INFINITY);
        let payload = 0xffc1_2345;
        assert_eq!(sub(plain, infinity, infinity, 0), nan);
        assert_eq!(mul(plain, 0, infinity, 0), nan);
        assert_eq!(fma(plain, 0, infinity, payload), nan);
        assert_eq!(add(plain, payload, 0, 0), nan);
        assert_eq!(sqrt(plain, bits(-1.0), 0, 0), nan);
        assert_eq!(neg(plain, payload, 0, 0), nan);
        assert_eq!(abs(plain, payload, 0, 0), nan);
        assert_eq!(copysign(plain, 0, payload, 0), payload & 0x7fff_ffff);
    }

    #[test]
    fn minimum_and_maximum_order_zeros_and_prefer_numbers() {
        let plain = Mode::default();
        let strict = Mode { propagate_nan: true, ..plain };
        let xorsign = Mode { xorsign_abs: true, ..plain };
        let (nan, payload) = (u64::from(NAN), 0x7f80_0001);
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert_eq!(min(plain, bits(a), bits(b), 0), bits(-0.0));
            assert_eq!(max(plain, bits(a), bits(b), 0), bits(0.0));
        }
        for (a, b) in [(1.0, -2.0), (-2.0, 1.0), (-2.0, f32::INFINITY), (-3.0, -2.0)] {
            assert_eq!(min(plain, bits(a), bits(b), 0), bits(a.min(b)));
            assert_eq!(max(plain, bits(a), bits(b), 0), bits(a.max(b)));
        }
        for f in [min, max] {
            assert_eq!(f(plain, payload, bits(-2.0), 0), bits(-2.0));
            assert_eq!(f(plain, bits(-2.0), payload, 0), bits(-2.0));
            assert_eq!(f(plain, payload, payload, 0), nan);
            assert_eq!(f(strict, payload, bits(-2.0), 0), nan);
            assert_eq!(f(strict, bits(-2.0), payload, 0), nan);
            assert_eq!(f(xorsign, payload, bits(-2.0), 0), bits(-2.0));
            assert_eq!(f(xorsign, payload, payload, 0), nan);
        }
        assert_eq!(min(xorsign, bits(-3.0), bits(2.0), 0), bits(-2.0));
        assert_eq!(max(xorsign, bits(-3.0), bits(-2.0), 0), bits(3.0));
        assert_eq!(min3(plain, bits(3.0), bits(-1.0), bits(-2.0)), bits(-2.0));
        assert_eq!(max3(Mode { immediate: 1, ..plain }, bits(3.0), bits(-1.0), bits(-4.0)), bits(4.0));
        assert_eq!(min3(plain, payload, payload, bits(5.0)), bits(5.0));
    }
}
