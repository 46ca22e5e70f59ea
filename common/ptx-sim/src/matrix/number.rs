//! Element types: their width, their decoding to the type of the computation, and the encoding of results.

use crate::scalar::Scalar;
use crate::scalar::half::{Bf16, F16, Half};
use crate::scalar::single::canonical;

impl Scalar {
    /// The type of that name, if matrices have such elements.
    pub(super) fn element(name: &str) -> Option<Self> {
        use Scalar::*;
        let elements = [F16, Bf16, Tf32, E4m3, E5m2, F32, F64, S8, U8, S4, U4, B1, S32];
        Self::from_name(name).filter(|ty| elements.contains(ty))
    }

    /// Number of elements handled as one: the bits of a word are never separated.
    pub(super) const fn elements_a_unit(self) -> usize {
        if matches!(self, Self::B1) { 32 } else { 1 }
    }

    /// Units in a register.
    pub(super) const fn units_a_register(self) -> usize {
        match self {
            Self::F64 => 1,
            _ => 32 / (self.bits() as usize * self.elements_a_unit()),
        }
    }

    /// Family of types: `.atype` and `.btype` of one instruction may differ within a family.
    pub(super) const fn family(self) -> Self {
        match self {
            Self::U8 => Self::S8,
            Self::U4 => Self::S4,
            Self::E5m2 => Self::E4m3,
            other => other,
        }
    }
}

/// Lowest byte: sign, 4 bits of exponent, 3 of fraction; no infinities, and NaN is all ones.
pub(super) fn e4m3(word: u64) -> f64 {
    let magnitude = match (word >> 3 & 0xf, word & 7) {
        (15, 7) => f64::NAN,
        // 2⁻⁹ is the weight of a subnormal's lowest bit.
        (0, fraction) => fraction as f64 / 512.0,
        (exponent, fraction) => f64::from_bits((exponent + 1023 - 7) << 52 | fraction << 49),
    };
    if word & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Lowest byte: the upper half of an f16.
pub(super) fn e5m2(word: u64) -> f64 {
    f16((word & 0xff) << 8)
}

/// A float without infinities and NaN, of a sign, that many bits of exponent and of fraction.
fn finite(bits: u64, exponents: u32, fractions: u32) -> f64 {
    let (exponent, fraction) = (bits >> fractions & ((1 << exponents) - 1), bits & ((1 << fractions) - 1));
    let least = 2 - (1 << (exponents - 1)) - fractions as i32;
    let hidden = u64::from(exponent > 0) << fractions;
    let magnitude = (hidden | fraction) as f64 * 2f64.powi(least + exponent.saturating_sub(1) as i32);
    if bits >> (exponents + fractions) & 1 == 0 { magnitude } else { -magnitude }
}

/// Low 6 bits.
pub(super) fn e2m3(word: u64) -> f64 {
    finite(word, 2, 3)
}

/// Low 6 bits.
pub(super) fn e3m2(word: u64) -> f64 {
    finite(word, 3, 2)
}

/// Low 4 bits.
pub(super) fn e2m1(word: u64) -> f64 {
    finite(word, 2, 1)
}

/// Lowest byte: a power of two, or NaN.
pub(super) fn ue8m0(word: u64) -> f64 {
    match word & 0xff {
        0xff => f64::NAN,
        exponent => 2f64.powi(exponent as i32 - 127),
    }
}

/// Low 16 bits.
pub(super) fn f16(word: u64) -> f64 {
    F16::widen(word & 0xffff).into()
}

/// Low 16 bits.
pub(super) fn bf16(word: u64) -> f64 {
    Bf16::widen(word & 0xffff).into()
}

/// Low 32 bits, without the 13 that tf32 lacks.
pub(super) fn tf32(word: u64) -> f64 {
    f32(word & 0xffff_e000)
}

/// Low 32 bits.
pub(super) fn f32(word: u64) -> f64 {
    f32::from_bits(word as u32).into()
}

/// Low nibble.
pub(super) fn s4(word: u64) -> i32 {
    (word as i32) << 28 >> 28
}

/// Low nibble.
pub(super) fn u4(word: u64) -> i32 {
    (word & 0xf) as i32
}

/// Lowest byte.
pub(super) fn s8(word: u64) -> i32 {
    (word as i8).into()
}

/// Lowest byte.
pub(super) fn u8(word: u64) -> i32 {
    (word as u8).into()
}

/// Rounded to nearest; NaN is canonical.
pub(super) fn to_f32(value: f64) -> u64 {
    canonical(value as f32).into()
}

/// Cut to an f32, so that a finite value below 2¹²⁸ stays finite; NaN is canonical.
pub(super) fn to_f32_towards_zero(value: f64) -> u64 {
    let near = value as f32;
    let too_far = f64::from(near.abs()) > value.abs() && value.abs() < 2f64.powi(128);
    canonical(f32::from_bits(near.to_bits() - u32::from(too_far))).into()
}

/// Rounded to nearest, once; NaN is canonical.
pub(super) fn to_f16(value: f64) -> u64 {
    /// The bits that an f64 has below those of an f32.
    const LOST: u64 = (1 << 29) - 1;
    let bits = value.to_bits();
    // The f32's last bit stands for all below it, so that only the narrowing to f16 rounds. Where an f32 would be
    // subnormal, the result is zero anyway.
    let sticky = if bits & LOST == 0 { 0 } else { LOST + 1 };
    F16::narrow(f64::from_bits(bits & !LOST | sticky) as f32)
}
