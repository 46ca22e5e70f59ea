//! IEEE arithmetic in integers, for any binary format and every rounding: the definition that the faster paths of this
//! module are tested against, and the path of operations without a faster one (f64 with directed rounding,
//! conversions).
//!
//! A finite number is `± significand × 2^exponent`. Operations produce an exact significand, or one so long that its
//! lowest bit can stand for everything below it, and [`pack`] rounds once.

use super::Rounding;

/// Result of an invalid operation on f64.
pub const F64_NAN: u64 = 0xfff8_0000_0000_0000;

/// A binary floating-point encoding: sign, exponent, fraction from the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the biased exponent.
    pub exponent_bits: u32,
    /// Stored bits of the significand.
    pub fraction_bits: u32,
    /// Encoding of the largest finite value; infinity is the next one, where the format has it.
    pub largest: u64,
    /// Whether the format has infinities.
    pub infinities: bool,
    /// Every NaN result, or `None` if the format has no NaN.
    pub nan: Option<u64>,
}

impl Format {
    /// Half precision.
    pub const F16: Format = Format::ieee(5, 10, 0x7fff);
    /// bfloat16.
    pub const BF16: Format = Format::ieee(8, 7, 0x7fff);
    /// TensorFloat-32 without the 13 zero bits that it carries in a register.
    pub const TF32: Format = Format::ieee(8, 10, 0x3ffff);
    /// Single precision.
    pub const F32: Format = Format::ieee(8, 23, 0x7fff_ffff);
    /// Double precision.
    pub const F64: Format = Format::ieee(11, 52, F64_NAN);
    /// 8 bits, wider exponent.
    pub const E5M2: Format = Format::ieee(5, 2, 0x7f);
    /// 8 bits, wider fraction: no infinities, and one NaN.
    pub const E4M3: Format = Format { largest: 0x7e, infinities: false, ..Format::ieee(4, 3, 0x7f) };
    /// 6 bits, wider exponent: finite only.
    pub const E3M2: Format = Format::finite(3, 2);
    /// 6 bits, wider fraction: finite only.
    pub const E2M3: Format = Format::finite(2, 3);
    /// 4 bits: finite only.
    pub const E2M1: Format = Format::finite(2, 1);

    const fn ieee(exponent_bits: u32, fraction_bits: u32, nan: u64) -> Format {
        let infinity = ((1 << exponent_bits) - 1) << fraction_bits;
        Format { exponent_bits, fraction_bits, largest: infinity - 1, infinities: true, nan: Some(nan) }
    }

    const fn finite(exponent_bits: u32, fraction_bits: u32) -> Format {
        let largest = (1 << (exponent_bits + fraction_bits)) - 1;
        Format { exponent_bits, fraction_bits, largest, infinities: false, nan: None }
    }

    /// The sign bit.
    #[inline]
    pub const fn sign(self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// The exponent of the lowest bit of a subnormal number.
    #[inline]
    pub const fn quantum(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1)) - self.fraction_bits as i32
    }

    /// Not zero, and below the smallest normal number.
    #[inline]
    pub const fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign() - 1);
        magnitude != 0 && magnitude >> self.fraction_bits == 0
    }
}

/// A finite number, `± significand × 2^exponent`. Zero has significand 0 and keeps its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finite {
    /// The sign.
    pub negative: bool,
    /// The integer significand.
    pub significand: u128,
    /// The power of two it is scaled by.
    pub exponent: i32,
}

/// A decoded number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not a number; the payload is dropped.
    Nan,
    /// An infinity, true for the negative one.
    Infinite(bool),
    /// Any finite number.
    Finite(Finite),
}

/// Decodes `bits`.
pub fn unpack(format: Format, bits: u64) -> Value {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    if magnitude > format.largest {
        let infinite = format.infinities && magnitude == format.largest + 1;
        return if infinite { Value::Infinite(negative) } else { Value::Nan };
    }
    let biased = (magnitude >> format.fraction_bits) as i32;
    let fraction = magnitude & ((1 << format.fraction_bits) - 1);
    let implicit = u64::from(biased != 0) << format.fraction_bits;
    Value::Finite(Finite {
        negative,
        significand: u128::from(fraction | implicit),
        exponent: format.quantum() + (biased - 1).max(0),
    })
}

/// Takes `shift` bits off the end of a significand: returns the rest, and whether rounding adds one to it. A negative
/// shift only appends zeros.
fn round_off(rounding: Rounding, negative: bool, significand: u128, shift: i32) -> (u128, bool) {
    let (kept, lost, half) = match shift {
        ..=0 => (significand << -shift, 0, 1),
        1..=127 => (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)),
        // All of it, and less than half of the last place kept.
        _ => (0, u128::from(significand != 0), u128::MAX),
    };
    let up = match rounding {
        Rounding::Nearest => lost > half || lost == half && kept & 1 == 1,
        Rounding::NearestAway => lost >= half,
        Rounding::Zero => false,
        Rounding::Down => negative && lost > 0,
        Rounding::Up => !negative && lost > 0,
    };
    (kept, up)
}

/// Rounds to `format`. The lowest bit of a significand that is at least three bits longer than the format's may be
/// sticky: one for anything non-zero below it. Formats without infinities overflow to their largest value.
pub fn pack(format: Format, rounding: Rounding, value: Finite) -> u64 {
    let Finite { negative, significand, exponent } = value;
    let sign = if negative { format.sign() } else { 0 };
    if significand == 0 {
        return sign;
    }
    let leading = exponent + 127 - significand.leading_zeros() as i32;
    // The exponent of the result's lowest bit.
    let quantum = (leading - format.fraction_bits as i32).max(format.quantum());
    let (kept, up) = round_off(rounding, negative, significand, quantum - exponent);
    // The implicit bit, and a carry out of the significand, add to the exponent field.
    let magnitude = ((quantum - format.quantum()) as u64) << format.fraction_bits;
    let magnitude = magnitude + kept as u64 + u64::from(up);
    if magnitude <= format.largest {
        return sign | magnitude;
    }
    let towards_zero = match rounding {
        Rounding::Nearest | Rounding::NearestAway => false,
        Rounding::Zero => true,
        Rounding::Down => !negative,
        Rounding::Up => negative,
    };
    sign | if towards_zero || !format.infinities { format.largest } else { format.largest + 1 }
}

fn zero(format: Format, negative: bool) -> u64 {
    if negative { format.sign() } else { 0 }
}

fn infinity(format: Format, negative: bool) -> u64 {
    (format.largest + 1) | zero(format, negative)
}

/// Right shift that leaves a one in the lowest bit if it drops any.
fn shift_sticky(significand: u128, shift: u32) -> u128 {
    match shift {
        0 => significand,
        1..=127 => significand >> shift | u128::from(significand << (128 - shift) != 0),
        _ => u128::from(significand != 0),
    }
}

/// `a + b`, with a sticky lowest bit. `rounding` decides the sign of an exact zero.
fn sum(rounding: Rounding, a: Finite, b: Finite) -> Finite {
    let zero = Finite { negative: rounding == Rounding::Down, significand: 0, exponent: 0 };
    if a.significand == 0 && b.significand == 0 {
        return if a.negative == b.negative { a } else { zero };
    }
    if a.significand == 0 {
        return b;
    }
    if b.significand == 0 {
        return a;
    }
    // The leading one at bit 125: a sum still fits, and any shift that loses bits leaves enough below the result.
    let normal = |x: Finite| {
        let shift = x.significand.leading_zeros() as i32 - 2;
        Finite { significand: x.significand << shift, exponent: x.exponent - shift, ..x }
    };
    let (a, b) = (normal(a), normal(b));
    let (large, small) = if (a.exponent, a.significand) < (b.exponent, b.significand) { (b, a) } else { (a, b) };
    let aligned = shift_sticky(small.significand, (large.exponent - small.exponent) as u32);
    if large.negative == small.negative {
        return Finite { significand: large.significand + aligned, ..large };
    }
    if large.significand == aligned {
        return zero;
    }
    Finite { significand: large.significand - aligned, ..large }
}

/// `a × b + c`, rounded once. `None` is NaN, here and below.
pub fn fma(format: Format, rounding: Rounding, a: u64, b: u64, c: u64) -> Option<u64> {
    let c = unpack(format, c);
    let product = match (unpack(format, a), unpack(format, b)) {
        (Value::Nan, _) | (_, Value::Nan) => return None,
        (Value::Infinite(sign), Value::Infinite(other)) => Value::Infinite(sign != other),
        (Value::Infinite(sign), Value::Finite(x)) | (Value::Finite(x), Value::Infinite(sign)) => {
            if x.significand == 0 {
                return None;
            }
            Value::Infinite(sign != x.negative)
        }
        (Value::Finite(a), Value::Finite(b)) => Value::Finite(product(a, b)),
    };
    match (product, c) {
        (Value::Nan, _) | (_, Value::Nan) => None,
        (Value::Infinite(sign), Value::Infinite(other)) if sign != other => None,
        (Value::Infinite(sign), _) | (_, Value::Infinite(sign)) => Some(infinity(format, sign)),
        (Value::Finite(product), Value::Finite(c)) => Some(pack(format, rounding, sum(rounding, product, c))),
    }
}

fn product(a: Finite, b: Finite) -> Finite {
    Finite {
        negative: a.negative != b.negative,
        significand: a.significand * b.significand,
        exponent: a.exponent + b.exponent,
    }
}

/// `a + b`
pub fn add(format: Format, rounding: Rounding, a: u64, b: u64) -> Option<u64> {
    match (unpack(format, a), unpack(format, b)) {
        (Value::Nan, _) | (_, Value::Nan) => None,
        (Value::Infinite(sign), Value::Infinite(other)) if sign != other => None,
        (Value::Infinite(sign), _) | (_, Value::Infinite(sign)) => Some(infinity(format, sign)),
        (Value::Finite(a), Value::Finite(b)) => Some(pack(format, rounding, sum(rounding, a, b))),
    }
}

/// `a × b`
pub fn mul(format: Format, rounding: Rounding, a: u64, b: u64) -> Option<u64> {
    match (unpack(format, a), unpack(format, b)) {
        (Value::Finite(a), Value::Finite(b)) => Some(pack(format, rounding, product(a, b))),
        // No rounding from here on, and adding zero changes no infinity.
        _ => fma(format, rounding, a, b, 0),
    }
}

/// `a / b`
pub fn div(format: Format, rounding: Rounding, a: u64, b: u64) -> Option<u64> {
    let (a, b) = match (unpack(format, a), unpack(format, b)) {
        (Value::Nan, _) | (_, Value::Nan) | (Value::Infinite(_), Value::Infinite(_)) => {
            return None;
        }
        (Value::Infinite(sign), Value::Finite(b)) => {
            return Some(infinity(format, sign != b.negative));
        }
        (Value::Finite(a), Value::Infinite(sign)) => {
            return Some(if sign != a.negative { format.sign() } else { 0 });
        }
        (Value::Finite(a), Value::Finite(b)) => (a, b),
    };
    let negative = a.negative != b.negative;
    if b.significand == 0 {
        return (a.significand != 0).then(|| infinity(format, negative));
    }
    // A dividend of 127 bits over a divisor of 53 leaves at least 74, then the sticky bit.
    let shift = (a.significand.leading_zeros() as i32 - 1).min(126);
    let dividend = a.significand << shift;
    let quotient = dividend / b.significand;
    let significand = quotient | u128::from(!dividend.is_multiple_of(b.significand));
    Some(pack(format, rounding, Finite { negative, significand, exponent: a.exponent - shift - b.exponent }))
}

/// `√a`
pub fn sqrt(format: Format, rounding: Rounding, a: u64) -> Option<u64> {
    let a = match unpack(format, a) {
        Value::Finite(a) if a.significand == 0 => return Some(zero(format, a.negative)),
        Value::Finite(a) if !a.negative => a,
        Value::Infinite(false) => return Some(infinity(format, false)),
        _ => return None,
    };
    // An even exponent, and a radicand of 126 or 127 bits: the root has 63 or 64, enough for 53 and a sticky bit.
    let shift = a.significand.leading_zeros() as i32 - 1;
    let shift = shift - ((a.exponent - shift) & 1);
    let radicand = a.significand << shift;
    let root = radicand.isqrt();
    let significand = root | u128::from(root * root != radicand);
    Some(pack(format, rounding, Finite { negative: false, significand, exponent: (a.exponent - shift) / 2 }))
}

/// Rounds `value` to a multiple of one.
pub fn round_to_integral(rounding: Rounding, value: Finite) -> Finite {
    let Finite { negative, significand, exponent } = value;
    if exponent >= 0 {
        return value;
    }
    let (kept, up) = round_off(rounding, negative, significand, -exponent);
    Finite { negative, significand: kept + u128::from(up), exponent: 0 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{DIRECTED, Op, Random, reference};
    use super::*;

    #[test]
    fn arithmetic_agrees_with_llvm_in_every_format_and_rounding() {
        let mut random = Random(1);
        for format in [Format::F16, Format::BF16, Format::F32, Format::F64] {
            for _ in 0..100_000 {
                let [a, b, c] = [(); 3].map(|()| random.number(format));
                for rounding in DIRECTED {
                    let agree = |op: Op, ours: Option<u64>| {
                        let theirs = reference(op, format, rounding, a, b, c);
                        assert_eq!(ours, theirs, "{op:?} {format:?} {rounding:?} {a:#x} {b:#x} {c:#x}");
                    };
                    agree(Op::Add, add(format, rounding, a, b));
                    agree(Op::Mul, mul(format, rounding, a, b));
                    agree(Op::Div, div(format, rounding, a, b));
                    agree(Op::Fma, fma(format, rounding, a, b, c));
                }
            }
        }
    }

    #[test]
    fn roots_are_the_nearest_on_their_side() {
        let mut random = Random(2);
        for _ in 0..300_000 {
            let a = random.number(Format::F64) & !Format::F64.sign();
            let x = f64::from_bits(a);
            let Some(near) = sqrt(Format::F64, Rounding::Nearest, a) else {
                assert!(x.is_nan());
                continue;
            };
            assert_eq!(f64::from_bits(near), x.sqrt(), "{x:e}");
            let down = sqrt(Format::F64, Rounding::Down, a).expect("a root");
            let up = sqrt(Format::F64, Rounding::Up, a).expect("a root");
            assert_eq!(sqrt(Format::F64, Rounding::Zero, a), Some(down));
            // The residual is exact, and says on which side of the root its rounding lies.
            let scaled = if x < 1e-200 { x * 2f64.powi(300) } else { x };
            let root = scaled.sqrt();
            if scaled.is_infinite() || scaled > 1e300 {
                continue;
            }
            let residual = root.mul_add(-root, scaled);
            assert_eq!(up - down, u64::from(residual != 0.0), "{x:e}");
            assert_eq!(near, if residual < 0.0 { up } else { down }, "{x:e}");
        }
        for rounding in DIRECTED {
            assert_eq!(sqrt(Format::F64, rounding, 1 << 63), Some(1 << 63));
            assert_eq!(sqrt(Format::F64, rounding, (-1f64).to_bits()), None);
            assert_eq!(sqrt(Format::F32, rounding, u64::from(f32::NEG_INFINITY.to_bits())), None);
        }
    }

    #[test]
    fn every_small_number_survives_a_round_trip() {
        let formats = [Format::E5M2, Format::E4M3, Format::E3M2, Format::E2M3, Format::E2M1, Format::F16, Format::BF16];
        for format in formats {
            for bits in 0..format.sign() * 2 {
                if let Value::Finite(x) = unpack(format, bits) {
                    for rounding in DIRECTED {
                        assert_eq!(pack(format, rounding, x), bits, "{format:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_are_those_of_the_manual() {
        let value = |format: Format| match unpack(format, format.largest) {
            Value::Finite(x) => x.significand as f64 * 2f64.powi(x.exponent),
            other => panic!("{other:?}"),
        };
        assert_eq!(value(Format::F16), 65504.0);
        assert_eq!(value(Format::E5M2), 57344.0);
        assert_eq!(value(Format::E4M3), 448.0);
        assert_eq!(value(Format::E3M2), 28.0);
        assert_eq!(value(Format::E2M3), 7.5);
        assert_eq!(value(Format::E2M1), 6.0);
    }
}
