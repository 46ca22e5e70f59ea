//! The approximate functions of f32 and f64 (`.approx`, `.full`).
//!
//! PTX bounds their error and fixes their special cases, not their bits: hardware interpolates in tables. Here each is
//! the f64 function, rounded to nearest, which lies within every bound, and its special cases (±0, ±∞, NaN, subnormals
//! with and without `.ftz`) are those of the manual's tables.

use super::Mode;
use super::double::nan;
use super::single::{operand, result};

/// `div.approx`: the product with a reciprocal that is flushed to zero for |b| in (2¹²⁶, 2¹²⁸), where finite / b is
/// therefore 0 and ∞ / b is NaN (PTX ISA, "div").
#[inline]
pub fn div(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    let (a, b) = (operand(mode, a), operand(mode, b));
    let huge = b.is_finite() && b.abs() > f32::from_bits((127 + 126) << 23);
    result(mode, if huge { a * 0f32.copysign(b) } else { a / b })
}

/// `div.full`: scaled, so without the gap of `div.approx`.
#[inline]
pub fn div_full(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    result(mode, operand(mode, a) / operand(mode, b))
}

#[inline]
fn unary(mode: Mode, a: u64, f: impl Fn(f64) -> f64) -> u64 {
    result(mode, f(operand(mode, a).into()) as f32)
}

/// `rcp.approx`
#[inline]
pub fn rcp(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::recip)
}

/// `sqrt.approx`
#[inline]
pub fn sqrt(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::sqrt)
}

/// `rsqrt.approx`; of ±0 it is ±∞.
#[inline]
pub fn rsqrt(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, |x| x.sqrt().recip())
}

/// `ex2.approx`
#[inline]
pub fn ex2(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::exp2)
}

/// `lg2.approx`; of ±0 it is -∞.
#[inline]
pub fn lg2(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::log2)
}

/// `sin.approx`
#[inline]
pub fn sin(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::sin)
}

/// `cos.approx`
#[inline]
pub fn cos(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::cos)
}

/// `tanh.approx`
#[inline]
pub fn tanh(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    unary(mode, a, f64::tanh)
}

/// The functions that read and write only the upper word of an f64 (PTX ISA, "rcp.approx.ftz.f64",
/// "rsqrt.approx.ftz.f64"): subnormals are zero on both sides, and so is the lower word.
#[inline]
fn upper_word(a: u64, f: impl Fn(f64) -> f64) -> u64 {
    const LOWER: u64 = 0xffff_ffff;
    let flush = |bits: u64| {
        if bits & f64::INFINITY.to_bits() == 0 { bits & (1 << 63) } else { bits }
    };
    let a = flush(a & !LOWER);
    let y = f(f64::from_bits(a));
    if y.is_nan() {
        return nan(&[a]) & !LOWER;
    }
    // To nearest; a carry out of the fraction belongs to the exponent.
    flush((y.to_bits() + (1 << 31)) & !LOWER)
}

/// `rcp.approx.ftz.f64`
#[inline]
pub fn rcp_f64(_: Mode, a: u64, _: u64, _: u64) -> u64 {
    upper_word(a, f64::recip)
}

/// `rsqrt.approx.f64`, refined to full precision; with `.ftz`, the upper word only.
#[inline]
pub fn rsqrt_f64(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    let rsqrt = |x: f64| x.sqrt().recip();
    if mode.ftz {
        return upper_word(a, rsqrt);
    }
    let y = rsqrt(f64::from_bits(a));
    if y.is_nan() { nan(&[a]) } else { y.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::super::LaneFn;
    use super::*;

    const NAN: f32 = f32::NAN;
    const INFINITY: f32 = f32::INFINITY;
    /// A subnormal number, 2⁻¹⁴⁰.
    const TINY: f32 = f32::from_bits(1 << 9);

    /// Checks `f` on rows of `(input, plain, with .ftz)`, bit for bit.
    fn table(f: LaneFn, rows: &[(f32, f32, f32)]) {
        for &(x, plain, flushed) in rows {
            for (ftz, expected) in [(false, plain), (true, flushed)] {
                let y = f(Mode { ftz, ..Mode::default() }, x.to_bits().into(), 0, 0) as u32;
                let expected = super::super::single::canonical(expected);
                assert_eq!(y, expected, "{x:e}, ftz {ftz}: {:e}", f32::from_bits(y));
            }
        }
    }

    #[test]
    fn special_cases_are_those_of_the_manual() {
        let both = |x: f32, y: f32| (x, y, y);
        let huge = f32::from_bits((127 + 127) << 23);
        table(
            rcp,
            &[
                both(-INFINITY, -0.0),
                both(-0.0, -INFINITY),
                both(0.0, INFINITY),
                both(INFINITY, 0.0),
                both(NAN, NAN),
                // 1 / 2⁻¹⁴⁰ overflows.
                both(TINY, INFINITY),
                both(-TINY, -INFINITY),
                (huge, f32::MIN_POSITIVE / 2.0, 0.0),
                (-huge, -f32::MIN_POSITIVE / 2.0, -0.0),
                both(4.0, 0.25),
            ],
        );
        let root = f32::from_bits((127 - 70) << 23);
        table(
            sqrt,
            &[
                both(-INFINITY, NAN),
                both(-1.0, NAN),
                (-TINY, NAN, -0.0),
                both(-0.0, -0.0),
                both(0.0, 0.0),
                (TINY, root, 0.0),
                both(INFINITY, INFINITY),
                both(NAN, NAN),
            ],
        );
        table(
            rsqrt,
            &[
                both(-INFINITY, NAN),
                both(-1.0, NAN),
                (-TINY, NAN, -INFINITY),
                both(-0.0, -INFINITY),
                both(0.0, INFINITY),
                (TINY, 1.0 / root, INFINITY),
                both(INFINITY, 0.0),
                both(NAN, NAN),
                both(16.0, 0.25),
            ],
        );
        table(
            sin,
            &[
                both(-INFINITY, NAN),
                both(INFINITY, NAN),
                both(NAN, NAN),
                both(-0.0, -0.0),
                both(0.0, 0.0),
                (TINY, TINY, 0.0),
                (-TINY, -TINY, -0.0),
            ],
        );
        table(
            cos,
            &[
                both(-INFINITY, NAN),
                both(INFINITY, NAN),
                both(NAN, NAN),
                both(-0.0, 1.0),
                both(0.0, 1.0),
                both(TINY, 1.0),
            ],
        );
        table(
            lg2,
            &[
                both(-INFINITY, NAN),
                both(-1.0, NAN),
                (-TINY, NAN, -INFINITY),
                both(-0.0, -INFINITY),
                both(0.0, -INFINITY),
                (TINY, -140.0, -INFINITY),
                both(INFINITY, INFINITY),
                both(NAN, NAN),
                both(8.0, 3.0),
            ],
        );
        table(
            ex2,
            &[
                both(-INFINITY, 0.0),
                both(-0.0, 1.0),
                both(0.0, 1.0),
                both(TINY, 1.0),
                both(-TINY, 1.0),
                both(INFINITY, INFINITY),
                both(NAN, NAN),
                (-140.0, TINY, 0.0),
                both(-151.0, 0.0),
                both(128.0, INFINITY),
                both(-3.0, 0.125),
            ],
        );
        for (x, y) in [(-INFINITY, -1.0), (-0.0, -0.0), (0.0, 0.0), (TINY, TINY), (INFINITY, 1.0), (NAN, NAN)] {
            let tanh = tanh(Mode::default(), x.to_bits().into(), 0, 0);
            assert_eq!(tanh as u32, super::super::single::canonical(y));
        }
    }

    #[test]
    fn division_has_a_gap_only_where_the_reciprocal_is_flushed() {
        let divide = |f: LaneFn, a: f32, b: f32| {
            f32::from_bits(f(Mode::default(), a.to_bits().into(), b.to_bits().into(), 0) as u32)
        };
        let huge = f32::from_bits((127 + 126) << 23);
        let above = huge.next_up();
        assert_eq!(divide(div, 1e38, huge), 1e38 / huge);
        assert_eq!(divide(div, 1e38, above), 0.0);
        assert!(divide(div, -1e38, above).is_sign_negative());
        assert!(divide(div, INFINITY, above).is_nan());
        assert_eq!(divide(div_full, 1e38, above), 1e38 / above);
        assert_eq!(divide(div_full, INFINITY, above), INFINITY);
        assert_eq!(divide(div, 1.0, 0.0), INFINITY);
        assert_eq!(divide(div, -1.0, INFINITY).to_bits(), (-0f32).to_bits());
        assert!(divide(div, 0.0, 0.0).is_nan());
    }

    #[test]
    fn the_upper_word_functions_leave_the_lower_word_zero() {
        for x in [3.0, -7.25, 1e300, 1e-300, f64::MIN_POSITIVE] {
            let y = rcp_f64(Mode::default(), f64::to_bits(x), 0, 0);
            assert_eq!(y & 0xffff_ffff, 0);
            assert!((f64::from_bits(y) * x - 1.0).abs() < 2f64.powi(-20), "{x:e}");
        }
        let ftz = Mode { ftz: true, ..Mode::default() };
        for (x, reciprocal, root) in [
            (0.0, f64::INFINITY, f64::INFINITY),
            (-0.0, -f64::INFINITY, -f64::INFINITY),
            (5e-324, f64::INFINITY, f64::INFINITY),
            (-5e-324, -f64::INFINITY, -f64::INFINITY),
            (f64::INFINITY, 0.0, 0.0),
        ] {
            assert_eq!(rcp_f64(ftz, x.to_bits(), 0, 0), reciprocal.to_bits(), "{x:e}");
            assert_eq!(rsqrt_f64(ftz, x.to_bits(), 0, 0), root.to_bits(), "{x:e}");
        }
        // The reciprocal of the largest number is subnormal.
        assert_eq!(rcp_f64(ftz, f64::MIN.to_bits(), 0, 0), (-0f64).to_bits());
        assert!(f64::from_bits(rsqrt_f64(ftz, (-1f64).to_bits(), 0, 0)).is_nan());
        assert_eq!(rsqrt_f64(Mode::default(), 16f64.to_bits(), 0, 0), 0.25f64.to_bits());
    }
}
