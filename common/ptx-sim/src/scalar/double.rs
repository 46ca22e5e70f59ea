//! Double precision (PTX ISA, "Floating-Point Instructions"). Rounding to nearest is the host's; the directed modes
//! are computed in integers ([`super::soft`]).

use super::soft::{self, Format};
use super::{Mode, Rounding};

/// Result of an invalid operation.
pub const NAN: u64 = super::soft::F64_NAN;

const QUIET: u64 = 0x0008_0000_0000_0000;

const NEGATIVE_ZERO: u64 = 1 << 63;

/// The NaN result of an operation on `operands`: the first NaN among them, made quiet, or [`NAN`] if there is none. PTX
/// leaves the payload to the machine: the simulator's choice is made here alone.
#[inline]
pub fn nan(operands: &[u64]) -> u64 {
    operands.iter().find(|&&x| f64::from_bits(x).is_nan()).map_or(NAN, |x| x | QUIET)
}

#[inline]
fn result(x: f64, operands: &[u64]) -> u64 {
    if x.is_nan() { nan(operands) } else { x.to_bits() }
}

/// `add`
#[inline]
pub fn add(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    match mode.rounding {
        Rounding::Nearest => result(f64::from_bits(a) + f64::from_bits(b), &[a, b]),
        rounding => soft::add(Format::F64, rounding, a, b).unwrap_or_else(|| nan(&[a, b])),
    }
}

/// `sub`
#[inline]
pub fn sub(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    add(mode, a, b ^ NEGATIVE_ZERO, c)
}

/// `mul`
#[inline]
pub fn mul(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    match mode.rounding {
        Rounding::Nearest => result(f64::from_bits(a) * f64::from_bits(b), &[a, b]),
        rounding => soft::mul(Format::F64, rounding, a, b).unwrap_or_else(|| nan(&[a, b])),
    }
}

/// `fma`
#[inline]
pub fn fma(mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    match mode.rounding {
        Rounding::Nearest => result(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)), &[a, b, c]),
        rounding => soft::fma(Format::F64, rounding, a, b, c).unwrap_or_else(|| nan(&[a, b, c])),
    }
}

/// `div`
#[inline]
pub fn div(mode: Mode, a: u64, b: u64, _: u64) -> u64 {
    match mode.rounding {
        Rounding::Nearest => result(f64::from_bits(a) / f64::from_bits(b), &[a, b]),
        rounding => soft::div(Format::F64, rounding, a, b).unwrap_or_else(|| nan(&[a, b])),
    }
}

/// `rcp.rnd`
#[inline]
pub fn rcp(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    div(mode, 1f64.to_bits(), a, 0)
}

/// `sqrt`
#[inline]
pub fn sqrt(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    match mode.rounding {
        Rounding::Nearest => result(f64::from_bits(a).sqrt(), &[a]),
        rounding => soft::sqrt(Format::F64, rounding, a).unwrap_or_else(|| nan(&[a])),
    }
}

/// `abs`: hardware adds the changed operand, which makes NaN quiet.
#[inline]
pub fn abs(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    add(mode, NEGATIVE_ZERO, a & !NEGATIVE_ZERO, 0)
}

/// `neg`: hardware adds the changed operand, which makes NaN quiet.
#[inline]
pub fn neg(mode: Mode, a: u64, _: u64, _: u64) -> u64 {
    add(mode, NEGATIVE_ZERO, a ^ NEGATIVE_ZERO, 0)
}

/// The smaller of `a` and `b`, where -0 is less than +0 and a number is preferred to NaN. Of two NaNs, the second.
#[inline]
fn smaller(a: f64, b: f64) -> f64 {
    if b.is_nan() && !a.is_nan() || a < b {
        return a;
    }
    if a == b { f64::from_bits(a.to_bits() | b.to_bits()) } else { b }
}

/// `min`
#[inline]
pub fn min(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    result(smaller(f64::from_bits(a), f64::from_bits(b)), &[b])
}

/// `max`
#[inline]
pub fn max(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    result(-smaller(-f64::from_bits(a), -f64::from_bits(b)), &[b])
}

/// `copysign`: the sign of `a` on the magnitude of `b`, bit for bit.
#[inline]
pub fn copysign(_: Mode, a: u64, b: u64, _: u64) -> u64 {
    a & NEGATIVE_ZERO | b & !NEGATIVE_ZERO
}

#[cfg(test)]
mod tests {
    use super::super::LaneFn;
    use super::super::testing::{DIRECTED, Op, Random, mode, reference};
    use super::*;

    #[test]
    fn arithmetic_agrees_with_llvm_in_every_rounding() {
        let mut random = Random(5);
        let operations: [(Op, LaneFn); 5] =
            [(Op::Add, add), (Op::Sub, sub), (Op::Mul, mul), (Op::Div, div), (Op::Fma, fma)];
        for round in 0..100_000 {
            let [a, b, c] = [(); 3].map(|()| random.number(Format::F64));
            let product = f64::from_bits(a) * f64::from_bits(b);
            let c = if round % 4 == 0 { (-product).to_bits() ^ (round >> 2 & 3) } else { c };
            for rounding in DIRECTED {
                for (op, f) in operations {
                    let ours = f(mode(rounding), a, b, c);
                    match reference(op, Format::F64, rounding, a, b, c) {
                        Some(theirs) => {
                            assert_eq!(ours, theirs, "{op:?} {rounding:?} {a:#x} {b:#x} {c:#x}")
                        }
                        None => assert!(f64::from_bits(ours).is_nan(), "{op:?} {rounding:?} {a:#x} {b:#x} {c:#x}"),
                    }
                }
            }
        }
    }

    #[test]
    fn nan_is_quieted_or_invented() {
        let signalling = 0x7ff0_0000_0000_1234;
        let (infinity, zero) = (f64::INFINITY.to_bits(), 0);
        for rounding in DIRECTED {
            let mode = mode(rounding);
            assert_eq!(add(mode, zero, signalling, 0), signalling | QUIET);
            assert_eq!(fma(mode, zero, infinity, signalling), signalling | QUIET);
            assert_eq!(mul(mode, zero, infinity, 0), NAN);
            assert_eq!(sub(mode, infinity, infinity, 0), NAN);
            assert_eq!(sqrt(mode, (-4f64).to_bits(), 0, 0), NAN);
            assert_eq!(div(mode, zero, zero, 0), NAN);
        }
    }

    #[test]
    fn signs_change_without_rounding() {
        for x in [0.0, -0.0, 1.5, -1.5, 5e-324, f64::NEG_INFINITY] {
            assert_eq!(neg(Mode::default(), x.to_bits(), 0, 0), (-x).to_bits());
            assert_eq!(abs(Mode::default(), x.to_bits(), 0, 0), x.abs().to_bits());
            assert_eq!(copysign(Mode::default(), (-1f64).to_bits(), x.to_bits(), 0), (-x.abs()).to_bits());
        }
        assert_eq!(neg(Mode::default(), 0x7ff0_0000_0000_0001, 0, 0), 0xfff8_0000_0000_0001);
    }

    #[test]
    fn minimum_and_maximum_order_zeros_and_prefer_numbers() {
        let plain = Mode::default();
        let bits = f64::to_bits;
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert_eq!(min(plain, bits(a), bits(b), 0), bits(-0.0));
            assert_eq!(max(plain, bits(a), bits(b), 0), bits(0.0));
        }
        for f in [min, max] {
            assert_eq!(f(plain, NAN, bits(-2.0), 0), bits(-2.0));
            assert_eq!(f(plain, bits(-2.0), NAN, 0), bits(-2.0));
            assert!(f64::from_bits(f(plain, NAN, NAN, 0)).is_nan());
        }
        assert_eq!(min(plain, bits(3.0), bits(-1.0), 0), bits(-1.0));
        assert_eq!(max(plain, bits(3.0), bits(-1.0), 0), bits(3.0));
    }
}
