//! Half precision and bfloat16, alone and in pairs (PTX ISA, "Half Precision Floating-Point Instructions"). Every
//! result is an f32 first, exact or rounded to odd, and then rounded once.

use super::single::{extremum, sum_to_odd, sum_to_odd_f32, unit};
use super::soft::Format;
use super::{LaneFn, Mode};

/// One of the two 16-bit formats. Bits come and go in the low 16 bits.
pub trait Half {
    /// The encoding.
    const FORMAT: Format;
    /// Threshold of `.ftz`: halfway from the greatest fraction below the least normal number to that number, so that a result
    /// that would round up to it, with an unbounded exponent, is kept.
    const FLUSHED_BELOW: f32;
    /// Exact value. NaN stays NaN, of any payload.
    fn widen(bits: u64) -> f32;
    /// Rounds to nearest even; NaN is canonical, 0x7fff.
    fn narrow(x: f32) -> u64;
    /// `a × b + c` of widened numbers, rounded to odd.
    fn fused(a: f32, b: f32, c: f32) -> f32;
}

/// IEEE half precision.
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// bfloat16: the upper half of an f32.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

impl Half for F16 {
    const FORMAT: Format = Format::F16;
    const FLUSHED_BELOW: f32 = (1.0 - 1.0 / 4096.0) / 16384.0;

    #[inline(always)]
    fn widen(bits: u64) -> f32 {
        let bits = bits as u32;
        // The exponent moves from bias 15 to 127 by a multiplication, which normalises subnormals too.
        let scaled = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(scaled.to_bits() | special | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(x: f32) -> u64 {
        let sign = x.to_bits() >> 16 & 0x8000;
        let magnitude = x.to_bits() & 0x7fff_ffff;
        // 2⁻¹⁴ and up: move the bias, then round away 13 bits. A carry may reach infinity.
        let odd = magnitude >> 13 & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
        // Below: in [½, 1) an f32's last bit is 2⁻²⁴, which is that of subnormal halves.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let bits = if magnitude < 0x3880_0000 { subnormal } else { normal };
        let bits = if magnitude >= 0x4780_0000 { 0x7c00 } else { bits };
        u64::from(if magnitude > 0x7f80_0000 { 0x7fff } else { sign | bits })
    }

    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> f32 {
        // The product is exact: 22 bits, from 2⁻⁴⁸ to 2³².
        sum_to_odd_f32(a * b, c)
    }
}

impl Half for Bf16 {
    const FORMAT: Format = Format::BF16;
    const FLUSHED_BELOW: f32 = f32::MIN_POSITIVE - f32::MIN_POSITIVE / 512.0;

    #[inline(always)]
    fn widen(bits: u64) -> f32 {
        f32::from_bits((bits as u32) << 16)
    }

    #[inline(always)]
    fn narrow(x: f32) -> u64 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        u64::from(if x.is_nan() { 0x7fff } else { rounded })
    }

    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> f32 {
        // The product has the exponents of two f32: f64 holds it.
        narrow_to_odd(sum_to_odd(f64::from(a) * f64::from(b), f64::from(c)))
    }
}

/// Rounds an f64, whose last bit may be sticky, to the f32 whose last bit then is.
#[inline(always)]
fn narrow_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    let neighbour = bits.wrapping_add(if x.abs() > back.abs() { 1 } else { u32::MAX });
    let inexact = (back - x).abs() > 0.0;
    f32::from_bits(if inexact & (bits & 1 == 0) { neighbour } else { bits })
}

#[inline(always)]
fn flush<H: Half>(mode: Mode, bits: u64) -> u64 {
    if mode.ftz && H::FORMAT.is_subnormal(bits) { bits & 0x8000 } else { bits }
}

/// An operand, after `.ftz`.
#[inline(always)]
pub fn operand<H: Half>(mode: Mode, raw: u64) -> f32 {
    H::widen(flush::<H>(mode, raw))
}

/// A result, from an f32 whose last bit may be sticky: `.sat`, `.relu`, `.ftz`, rounding to nearest, canonical NaN. As in IEEE
/// 754 with tininess detected after rounding, `.ftz` looks at the result with an unbounded exponent.
#[inline(always)]
pub fn result<H: Half>(mode: Mode, x: f32) -> u64 {
    // Zero and one are representable, so clamping before rounding is clamping after it.
    let x = if mode.relu && x <= 0.0 { 0.0 } else { x };
    let x = if mode.saturate { unit(x) } else { x };
    let x = if mode.ftz && x.abs() < H::FLUSHED_BELOW { 0.0f32.copysign(x) } else { x };
    H::narrow(x)
}

/// `add`
#[inline(always)]
pub fn add<H: Half>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    result::<H>(mode, H::fused(operand::<H>(mode, a), 1.0, operand::<H>(mode, b)))
}

/// `sub`
#[inline(always)]
pub fn sub<H: Half>(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    add::<H>(mode, a, b ^ 0x8000, c)
}

/// `mul`
#[inline(always)]
pub fn mul<H: Half>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    // Adding -0 changes nothing, not even the sign of zero.
    result::<H>(mode, H::fused(operand::<H>(mode, a), operand::<H>(mode, b), -0.0))
}

/// `fma`
#[inline(always)]
pub fn fma<H: Half>(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    result::<H>(mode, H::fused(operand::<H>(mode, a), operand::<H>(mode, b), operand::<H>(mode, c)))
}

/// `abs`: hardware does an addition, so NaN becomes canonical.
#[inline]
pub fn abs<H: Half>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    result::<H>(mode, operand::<H>(mode, a).abs())
}

/// `neg`: hardware does an addition, so NaN becomes canonical.
#[inline]
pub fn neg<H: Half>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    result::<H>(mode, -operand::<H>(mode, a))
}

#[inline(always)]
fn either<H: Half>(mode: Mode, largest: bool, a: u64, b: u64) -> u64 {
    let (a, b) = (H::widen(flush::<H>(mode, a)), H::widen(flush::<H>(mode, b)));
    H::narrow(extremum(mode, largest, a, b))
}

/// `min`
#[inline(always)]
pub fn min<H: Half>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    either::<H>(mode, false, a, b)
}

/// `max`
#[inline(always)]
pub fn max<H: Half>(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    either::<H>(mode, true, a, b)
}

#[inline]
fn approximate<H: Half>(mode: Mode, a: u64, f: impl Fn(f64) -> f64) -> u64 {
    result::<H>(mode, narrow_to_odd(f(operand::<H>(mode, a).into())))
}

/// `ex2.approx`
#[inline]
pub fn ex2<H: Half>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    approximate::<H>(mode, a, f64::exp2)
}

/// `tanh.approx`
#[inline]
pub fn tanh<H: Half>(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    approximate::<H>(mode, a, f64::tanh)
}

/// Applies `f` to both halves of packed operands.
#[inline]
pub fn pair(f: LaneFn, mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let half = |shift: u32| f(mode, a >> shift & 0xffff, b >> shift & 0xffff, c >> shift & 0xffff);
    half(16) << 16 | half(0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Op, Random, reference};
    use super::super::{LaneFn, Rounding, soft};
    use super::*;

    const PLAIN: Mode = Mode {
        rounding: Rounding::Nearest,
        to_integral: false,
        ftz: false,
        saturate: false,
        approx: false,
        relu: false,
        propagate_nan: false,
        xorsign_abs: false,
        immediate: 0,
    };

    fn f16(x: f32) -> u64 {
        ::half::f16::from_f32(x).to_bits().into()
    }

    #[test]
    fn widening_is_that_of_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (F16::widen(bits.into()), ::half::f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
            let (ours, theirs) = (Bf16::widen(bits.into()), ::half::bf16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        fn check<H: Half>(x: f32) {
            let exact = match soft::unpack(Format::F32, x.to_bits().into()) {
                soft::Value::Finite(value) => soft::pack(H::FORMAT, Rounding::Nearest, value),
                soft::Value::Infinite(negative) => (H::FORMAT.largest + 1) | if negative { 0x8000 } else { 0 },
                soft::Value::Nan => 0x7fff,
            };
            assert_eq!(H::narrow(x), exact, "{x:e} to {:?}", H::FORMAT);
        }
        // All exponents, with the bits that decide about rounding: each half, its midpoint, and what is next to them.
        for bits in 0..=u16::MAX {
            for x in [F16::widen(bits.into()), Bf16::widen(bits.into())] {
                for offset in [0, 1, 2, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001] {
                    let near = f32::from_bits(x.to_bits().wrapping_add(offset));
                    check::<F16>(near);
                    check::<Bf16>(near);
                }
            }
        }
        let mut random = Random(6);
        for _ in 0..1_000_000 {
            let x = f32::from_bits(random.bits() as u32);
            check::<F16>(x);
            check::<Bf16>(x);
        }
    }

    #[test]
    fn arithmetic_agrees_with_llvm() {
        fn check<H: Half>(seed: u64) {
            let mut random = Random(seed);
            let operations: [(Op, LaneFn); 4] =
                [(Op::Add, add::<H>), (Op::Sub, sub::<H>), (Op::Mul, mul::<H>), (Op::Fma, fma::<H>)];
            for round in 0..400_000 {
                let [a, b, c] = [(); 3].map(|()| random.number(H::FORMAT));
                let c = if round % 4 == 0 { mul::<H>(PLAIN, a, b, 0) ^ 0x8000 ^ (round >> 2 & 3) } else { c };
                for (op, f) in operations {
                    let theirs = reference(op, H::FORMAT, Rounding::Nearest, a, b, c).unwrap_or(0x7fff);
                    assert_eq!(f(PLAIN, a, b, c), theirs, "{op:?} {:?} {a:#x} {b:#x} {c:#x}", H::FORMAT);
                }
            }
        }
        check::<F16>(7);
        check::<Bf16>(8);
    }

    #[test]
    fn modifiers_flush_saturate_and_rectify() {
        let [ftz, saturate, relu] =
            [Mode { ftz: true, ..PLAIN }, Mode { saturate: true, ..PLAIN }, Mode { relu: true, ..PLAIN }];
        // The smallest normal half less the smallest subnormal.
        assert_eq!(sub::<F16>(PLAIN, 0x0400, 0x0001, 0), 0x03ff);
        assert_eq!(sub::<F16>(ftz, 0x0400, 0x0001, 0), 0x0400);
        assert_eq!(mul::<F16>(ftz, 0x8400, f16(0.5), 0), 0x8000);
        assert_eq!(add::<F16>(saturate, f16(3.0), f16(0.0), 0), f16(1.0));
        assert_eq!(add::<F16>(saturate, 0x7e00, 0, 0), 0);
        assert_eq!(fma::<F16>(relu, f16(-3.0), f16(2.0), f16(1.0)), 0);
        assert_eq!(fma::<F16>(relu, 0x7e01, f16(2.0), f16(1.0)), 0x7fff);
        assert_eq!(fma::<F16>(relu, 0x8000, f16(1.0), 0x8000), 0);
        assert_eq!(neg::<F16>(PLAIN, 0x7c01, 0, 0), 0x7fff);
        assert_eq!(abs::<Bf16>(PLAIN, 0xbf80, 0, 0), 0x3f80);
    }

    #[test]
    fn pairs_keep_to_their_halves() {
        let a = f16(1.5) << 16 | f16(-2.0);
        let b = f16(0.5) << 16 | 0x7e00;
        assert_eq!(pair(add::<F16>, PLAIN, a, b, 0), f16(2.0) << 16 | 0x7fff);
        assert_eq!(pair(max::<F16>, PLAIN, a, b, 0), f16(1.5) << 16 | f16(-2.0));
        assert_eq!(pair(min::<F16>, Mode { propagate_nan: true, ..PLAIN }, a, b, 0), f16(0.5) << 16 | 0x7fff);
    }

    #[test]
    fn extremes_agree_on_all_pairs_of_interest() {
        let interesting = [0, 0x8000, 1, 0x8001, 0x3c00, 0xbc00, 0x7bff, 0x7c00, 0xfc00];
        for a in interesting {
            for b in interesting {
                let order = |x: u64| ::half::f16::from_bits(x as u16).to_f32();
                // Rust's total order of numbers is the IEEE one that PTX asks for: -0 below +0.
                let least = if order(a).total_cmp(&order(b)).is_lt() { a } else { b };
                assert_eq!(min::<F16>(PLAIN, a, b, 0), least);
                assert_eq!(max::<F16>(PLAIN, a, b, 0), a ^ b ^ least);
            }
            assert_eq!(min::<F16>(PLAIN, a, 0x7c01, 0), a);
            assert_eq!(max::<F16>(PLAIN, 0xfe00, a, 0), a);
        }
    }

    #[test]
    fn special_cases_of_the_approximate_functions() {
        // PTX ISA, "Half Precision Floating Point Instructions: ex2", "tanh": the tables of special inputs.
        for (x, y) in
            [(0xfc00, 0), (0, f16(1.0)), (0x8000, f16(1.0)), (0x8001, f16(1.0)), (0x7c00, 0x7c00), (0x7e00, 0x7fff)]
        {
            assert_eq!(ex2::<F16>(PLAIN, x, 0, 0), y, "{x:#x}");
        }
        for (x, y) in [(0xfc00, f16(-1.0)), (0, 0), (0x8000, 0x8000), (3, 3), (0x7c00, f16(1.0)), (0x7e00, 0x7fff)] {
            assert_eq!(tanh::<F16>(PLAIN, x, 0, 0), y, "{x:#x}");
        }
        let ftz = Mode { ftz: true, ..PLAIN };
        // 2⁻¹³⁰ is subnormal as a bfloat16.
        assert_eq!(ex2::<Bf16>(ftz, 0xc302, 0, 0), 0);
        assert_eq!(ex2::<Bf16>(PLAIN, 0xc302, 0, 0), 0x0008);
        assert_eq!(ex2::<F16>(PLAIN, f16(3.0), 0, 0), f16(8.0));
    }
}
