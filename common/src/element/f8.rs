//! [`F8E4M3`]: eight bits, of which four are the exponent.

use std::fmt;

/// A sign, 4 bits of exponent (bias 7) and 3 bits of significand: ±448 at most, 2⁻⁹ at least, NaN and no infinity (Micikevicius
/// et al., "FP8 Formats for Deep Learning", 2022; PTX's `.e4m3`).
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E4M3(u8);

// SAFETY: a `u8` inside, `repr(transparent)`; zero is the number 0.
unsafe impl bytemuck::Zeroable for F8E4M3 {}
// SAFETY: as above, and every bit pattern is a value.
unsafe impl bytemuck::Pod for F8E4M3 {}

impl F8E4M3 {
    /// The largest value, 448.
    pub const MAX: F8E4M3 = F8E4M3(0x7E);
    /// Not a number; the same bits with the sign set are another.
    pub const NAN: F8E4M3 = F8E4M3(0x7F);

    /// The value with these bits.
    pub const fn from_bits(bits: u8) -> F8E4M3 {
        F8E4M3(bits)
    }

    /// Bits of the value.
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// The nearest value, ties to even; beyond ±448, infinity included, ±448. Same as PTX's `cvt.rn.satfinite.e4m3x2`.
    pub fn from_f64(x: f64) -> F8E4M3 {
        if x.is_nan() {
            return F8E4M3::NAN;
        }
        let magnitude = x.abs().min(448.0);
        // The exponent of normal numbers begins at −6; below that, neighbours stay 2⁻⁹ apart.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-6);
        // In units of the distance between neighbours: 8 to 16, below the normal numbers 0 to 8. A normal number's 8 is not stored,
        // but added to the exponent field, which begins at 1.
        let steps = (magnitude * 2f64.powi(3 - exponent)).round_ties_even();
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        F8E4M3(sign | ((exponent + 6) * 8 + steps as i32) as u8)
    }

    /// The value, exactly.
    pub fn to_f64(self) -> f64 {
        let (exponent, steps) = (i32::from(self.0 >> 3 & 0xF), f64::from(self.0 & 7));
        let magnitude = match (self.0 & 0x7F, exponent) {
            (0x7F, _) => f64::NAN,
            (_, 0) => steps * 2f64.powi(-9),
            _ => (8.0 + steps) * 2f64.powi(exponent - 10),
        };
        if self.0 & 0x80 == 0 { magnitude } else { -magnitude }
    }
}

impl PartialEq for F8E4M3 {
    /// Compares as numbers: zeros are equal, NaNs are not.
    fn eq(&self, other: &F8E4M3) -> bool {
        self.to_f64() == other.to_f64()
    }
}

impl fmt::Debug for F8E4M3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_f64(), f)
    }
}

impl fmt::Display for F8E4M3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_f64(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of each positive code but NaN, in order, by addition alone.
    fn values() -> Vec<f64> {
        let (mut value, mut step) = (0.0, 2f64.powi(-9));
        let next = |code: u32| {
            let this = value;
            // From the second binade of normal numbers on, each has steps twice as large.
            if code >= 16 && code.is_multiple_of(8) {
                step *= 2.0;
            }
            value += step;
            this
        };
        (0..0x7F).map(next).collect()
    }

    #[test]
    fn every_code_has_its_value_and_comes_back() {
        let values = values();
        assert_eq!((values[1], values[8], values[0x38], values[0x7E]), (2f64.powi(-9), 2f64.powi(-6), 1.0, 448.0));
        for (code, value) in values.into_iter().enumerate() {
            for (code, value) in [(code as u8, value), (code as u8 | 0x80, -value)] {
                let number = F8E4M3::from_bits(code);
                assert_eq!(number.to_f64().to_bits(), value.to_bits(), "code {code:#x}");
                assert_eq!(F8E4M3::from_f64(value).to_bits(), code, "{value}");
            }
        }
        for code in [0x7F, 0xFF] {
            let nan = F8E4M3::from_bits(code);
            assert!(nan.to_f64().is_nan() && nan != nan);
        }
        assert_eq!(F8E4M3::from_f64(f64::NAN).to_bits(), 0x7F);
        assert_eq!(F8E4M3::from_f64(-f64::NAN).to_bits(), 0x7F);
        assert_eq!(F8E4M3::from_bits(0x80), F8E4M3::default());
    }

    #[test]
    fn between_two_codes_the_nearest_is_taken_and_at_the_middle_the_even_one() {
        let values = values();
        for (code, pair) in values.windows(2).enumerate() {
            let middle = (pair[0] + pair[1]) / 2.0;
            let even = code as u8 + (code as u8 & 1);
            for (x, expected) in [
                (pair[0].next_up(), code as u8),
                (middle.next_down(), code as u8),
                (middle, even),
                (middle.next_up(), code as u8 + 1),
                (pair[1].next_down(), code as u8 + 1),
            ] {
                assert_eq!(F8E4M3::from_f64(x).to_bits(), expected, "{x}");
                assert_eq!(F8E4M3::from_f64(-x).to_bits(), expected | 0x80, "-{x}");
            }
        }
        for x in [448.0f64.next_up(), 464.0, 480.0, 1e300, f64::MAX, f64::INFINITY] {
            assert_eq!(F8E4M3::from_f64(x).to_bits(), 0x7E, "{x}");
            assert_eq!(F8E4M3::from_f64(-x).to_bits(), 0xFE, "-{x}");
        }
        for x in [0.0, f64::MIN_POSITIVE, f64::from_bits(1)] {
            assert_eq!(F8E4M3::from_f64(x).to_bits(), 0);
        }
    }
}
