//! Helpers of this module's tests: tricky operands, and LLVM's own software floating point to compare with.

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, Round};

use super::soft::Format;
use super::{Mode, Rounding};

/// The roundings of arithmetic.
pub(super) const DIRECTED: [Rounding; 4] = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up];

/// SplitMix64: reproducible, and the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A tricky number of `format`: any bits, few significant bits, magnitudes near one, near the ends of the range,
    /// specials.
    pub(super) fn number(&mut self, format: Format) -> u64 {
        let random = self.bits();
        let mask = format.sign() | (format.sign() - 1);
        let bits = random & mask;
        let fraction = (1 << format.fraction_bits) - 1;
        let one = ((1 << (format.exponent_bits - 1)) - 1) << format.fraction_bits;
        let choice = self.bits();
        let spread = choice >> 8 & 3;
        let number = match choice % 8 {
            0 | 1 => bits,
            // Long runs of zeros and ones.
            2 => bits & (format.sign() | one) | fraction & (bits << (choice >> 8 & 31)),
            3 => bits & format.sign() | one.wrapping_add(bits & fraction),
            4 => bits & (format.sign() | fraction) | (one + (spread << format.fraction_bits)),
            5 => bits & (format.sign() | fraction | (1 << format.fraction_bits)),
            6 => bits & format.sign() | format.largest.wrapping_add(1).wrapping_sub(spread << (choice >> 10 & 31)),
            _ => {
                bits & format.sign()
                    | [0, 1, one, format.largest, format.largest + 1, format.largest + 2, fraction]
                        [(choice >> 8) as usize % 7]
            }
        };
        number & mask
    }
}

pub(super) fn mode(rounding: Rounding) -> Mode {
    Mode { rounding, ..Mode::default() }
}

pub(super) fn round(rounding: Rounding) -> Round {
    match rounding {
        Rounding::Nearest => Round::NearestTiesToEven,
        Rounding::NearestAway => Round::NearestTiesToAway,
        Rounding::Zero => Round::TowardZero,
        Rounding::Down => Round::TowardNegative,
        Rounding::Up => Round::TowardPositive,
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
}

/// Result of LLVM; `None` is NaN.
pub(super) fn reference(op: Op, format: Format, rounding: Rounding, a: u64, b: u64, c: u64) -> Option<u64> {
    fn on<F: Float>(op: Op, round: Round, a: u64, b: u64, c: u64) -> Option<u64> {
        let [a, b, c] = [a, b, c].map(|x| F::from_bits(x.into()));
        let result = match op {
            Op::Add => a.add_r(b, round),
            Op::Sub => a.sub_r(b, round),
            Op::Mul => a.mul_r(b, round),
            Op::Div => a.div_r(b, round),
            Op::Fma => a.mul_add_r(b, c, round),
        };
        (!result.value.is_nan()).then(|| result.value.to_bits() as u64)
    }
    let round = round(rounding);
    match format {
        Format::F16 => on::<Half>(op, round, a, b, c),
        Format::BF16 => on::<BFloat>(op, round, a, b, c),
        Format::F32 => on::<Single>(op, round, a, b, c),
        Format::F64 => on::<Double>(op, round, a, b, c),
        _ => unreachable!("LLVM has no arithmetic on {format:?}"),
    }
}
