//! Comparisons (PTX ISA, "Comparison and Selection Instructions" and "Comparisons").

use super::Scalar;
use super::half::{Bf16, F16, Half};
use super::int::Word;
use super::single::flush;

/// A relation of two values in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Relation {
    /// Whether it holds between two values.
    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
        }
    }

    /// The relation of integers that holds where this one does not.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
        }
    }
}

/// A comparison operator. The `…u` forms are also true if an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `a = b`
    Eq,
    /// `a ≠ b`; for floating point, false if an operand is NaN.
    Ne,
    /// `a < b`
    Lt,
    /// `a ≤ b`
    Le,
    /// `a > b`
    Gt,
    /// `a ≥ b`
    Ge,
    /// `a < b`, unsigned.
    Lo,
    /// `a ≤ b`, unsigned.
    Ls,
    /// `a > b`, unsigned.
    Hi,
    /// `a ≥ b`, unsigned.
    Hs,
    /// Equal or unordered.
    Equ,
    /// Unequal or unordered.
    Neu,
    /// Less or unordered.
    Ltu,
    /// Less, equal or unordered.
    Leu,
    /// Greater or unordered.
    Gtu,
    /// Greater, equal or unordered.
    Geu,
    /// Neither operand is NaN.
    Num,
    /// Some operand is NaN.
    Nan,
}

/// `(ftz, a, b) -> a op b`. `ftz` matters to f32 and f16 only.
pub type CompareFn = fn(bool, u64, u64) -> bool;

fn signed<T: Word>(cmp: Compare) -> Option<CompareFn> {
    Some(match cmp {
        Compare::Eq => |_, a, b| T::of(a) == T::of(b),
        Compare::Ne => |_, a, b| T::of(a) != T::of(b),
        Compare::Lt => |_, a, b| T::of(a) < T::of(b),
        Compare::Le => |_, a, b| T::of(a) <= T::of(b),
        Compare::Gt => |_, a, b| T::of(a) > T::of(b),
        Compare::Ge => |_, a, b| T::of(a) >= T::of(b),
        _ => return None,
    })
}

fn unsigned<T: Word>(cmp: Compare) -> Option<CompareFn> {
    signed::<T>(match cmp {
        Compare::Lo => Compare::Lt,
        Compare::Ls => Compare::Le,
        Compare::Hi => Compare::Gt,
        Compare::Hs => Compare::Ge,
        other => other,
    })
}

fn bits<T: Word>(cmp: Compare) -> Option<CompareFn> {
    matches!(cmp, Compare::Eq | Compare::Ne).then(|| signed::<T>(cmp)).flatten()
}

/// A floating-point type to compare; every one of them fits into an f64.
trait Float {
    fn value(ftz: bool, raw: u64) -> f64;
}

struct Single;
struct Double;

impl Float for Single {
    #[inline]
    fn value(ftz: bool, raw: u64) -> f64 {
        f32::from_bits(if ftz { flush(raw as u32) } else { raw as u32 }).into()
    }
}

impl Float for Double {
    #[inline]
    fn value(_: bool, raw: u64) -> f64 {
        f64::from_bits(raw)
    }
}

impl<H: Half> Float for H {
    #[inline]
    fn value(ftz: bool, raw: u64) -> f64 {
        let flushed = ftz && H::FORMAT.is_subnormal(raw);
        if flushed { 0.0 } else { H::widen(raw).into() }
    }
}

fn unordered<F: Float>(a: u64, b: u64) -> bool {
    F::value(false, a).is_nan() || F::value(false, b).is_nan()
}

fn float<F: Float>(cmp: Compare) -> Option<CompareFn> {
    Some(match cmp {
        Compare::Eq => |ftz, a, b| F::value(ftz, a) == F::value(ftz, b),
        Compare::Ne => |ftz, a, b| F::value(ftz, a) != F::value(ftz, b) && !unordered::<F>(a, b),
        Compare::Lt => |ftz, a, b| F::value(ftz, a) < F::value(ftz, b),
        Compare::Le => |ftz, a, b| F::value(ftz, a) <= F::value(ftz, b),
        Compare::Gt => |ftz, a, b| F::value(ftz, a) > F::value(ftz, b),
        Compare::Ge => |ftz, a, b| F::value(ftz, a) >= F::value(ftz, b),
        Compare::Equ => |ftz, a, b| F::value(ftz, a) == F::value(ftz, b) || unordered::<F>(a, b),
        Compare::Neu => |ftz, a, b| F::value(ftz, a) != F::value(ftz, b),
        Compare::Ltu => |ftz, a, b| F::value(ftz, a) < F::value(ftz, b) || unordered::<F>(a, b),
        Compare::Leu => |ftz, a, b| F::value(ftz, a) <= F::value(ftz, b) || unordered::<F>(a, b),
        Compare::Gtu => |ftz, a, b| F::value(ftz, a) > F::value(ftz, b) || unordered::<F>(a, b),
        Compare::Geu => |ftz, a, b| F::value(ftz, a) >= F::value(ftz, b) || unordered::<F>(a, b),
        Compare::Num => |_, a, b| !unordered::<F>(a, b),
        Compare::Nan => |_, a, b| unordered::<F>(a, b),
        Compare::Lo | Compare::Ls | Compare::Hi | Compare::Hs => return None,
    })
}

/// The comparison `cmp` of two operands of `ty`, for a pair of one half; `None` if PTX has no such form.
pub fn compare(cmp: Compare, ty: Scalar) -> Option<CompareFn> {
    match ty {
        Scalar::U16 => unsigned::<u16>(cmp),
        Scalar::S16 => signed::<i16>(cmp),
        Scalar::U32 => unsigned::<u32>(cmp),
        Scalar::S32 => signed::<i32>(cmp),
        Scalar::U64 => unsigned::<u64>(cmp),
        Scalar::S64 => signed::<i64>(cmp),
        Scalar::B16 => bits::<u16>(cmp),
        Scalar::B32 => bits::<u32>(cmp),
        Scalar::B64 => bits::<u64>(cmp),
        Scalar::F16 | Scalar::F16x2 => float::<F16>(cmp),
        Scalar::Bf16 | Scalar::Bf16x2 => float::<Bf16>(cmp),
        Scalar::F32 => float::<Single>(cmp),
        Scalar::F64 => float::<Double>(cmp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compare; 18] = [
        Compare::Eq,
        Compare::Ne,
        Compare::Lt,
        Compare::Le,
        Compare::Gt,
        Compare::Ge,
        Compare::Lo,
        Compare::Ls,
        Compare::Hi,
        Compare::Hs,
        Compare::Equ,
        Compare::Neu,
        Compare::Ltu,
        Compare::Leu,
        Compare::Gtu,
        Compare::Geu,
        Compare::Num,
        Compare::Nan,
    ];

    /// For each operator of floating-point operands: less, equal, greater, unordered (PTX ISA, "Floating Point
    /// Comparisons").
    fn truth(cmp: Compare) -> Option<[bool; 4]> {
        let row = |bits: u8| Some([bits & 8 != 0, bits & 4 != 0, bits & 2 != 0, bits & 1 != 0]);
        match cmp {
            Compare::Eq => row(0b0100),
            Compare::Ne => row(0b1010),
            Compare::Lt => row(0b1000),
            Compare::Le => row(0b1100),
            Compare::Gt => row(0b0010),
            Compare::Ge => row(0b0110),
            Compare::Equ => row(0b0101),
            Compare::Neu => row(0b1011),
            Compare::Ltu => row(0b1001),
            Compare::Leu => row(0b1101),
            Compare::Gtu => row(0b0011),
            Compare::Geu => row(0b0111),
            Compare::Num => row(0b1110),
            Compare::Nan => row(0b0001),
            _ => None,
        }
    }

    #[test]
    fn floats_follow_the_table() {
        // 1 < 2, -0 = +0, 2 > 1, and NaN on either side.
        let rows: [(Scalar, [u64; 5]); 4] = [
            (Scalar::F16, [0x3c00, 0x4000, 0x8000, 0, 0x7e00]),
            (Scalar::Bf16, [0x3f80, 0x4000, 0x8000, 0, 0x7fc0]),
            (Scalar::F32, [0x3f80_0000, 0x4000_0000, 0x8000_0000, 0, 0x7fff_ffff]),
            (Scalar::F64, [0x3ff0 << 48, 0x4000 << 48, 0x8000 << 48, 0, 0x7ff8 << 48]),
        ];
        for (ty, [one, two, minus_zero, zero, nan]) in rows {
            for cmp in ALL {
                let f = compare(cmp, ty);
                let Some([less, equal, greater, unordered]) = truth(cmp) else {
                    assert!(f.is_none(), "{cmp:?} {ty:?}");
                    continue;
                };
                let f = f.expect("a form that PTX has");
                assert_eq!(f(false, one, two), less, "{cmp:?} {ty:?}");
                assert_eq!(f(false, minus_zero, zero), equal, "{cmp:?} {ty:?}");
                assert_eq!(f(false, two, one), greater, "{cmp:?} {ty:?}");
                assert_eq!(f(false, nan, one), unordered, "{cmp:?} {ty:?}");
                assert_eq!(f(false, one, nan), unordered, "{cmp:?} {ty:?}");
                assert_eq!(f(false, nan, nan), unordered, "{cmp:?} {ty:?}");
            }
        }
    }

    #[test]
    fn flushed_operands_compare_as_zeros() {
        let less = compare(Compare::Lt, Scalar::F32).expect("lt.f32");
        assert!(less(false, 0, 1));
        assert!(!less(true, 0, 1));
        let less = compare(Compare::Lt, Scalar::F16).expect("lt.f16");
        assert!(less(false, 0x8001, 0));
        assert!(!less(true, 0x8001, 0));
    }

    #[test]
    fn integers_compare_by_their_signedness() {
        let minus_one = 0xffff;
        for cmp in ALL {
            let unsigned = compare(cmp, Scalar::U16);
            let signed = compare(cmp, Scalar::S16);
            match cmp {
                Compare::Lt | Compare::Le => {
                    assert!(!unsigned.expect("u16")(false, minus_one, 1));
                    assert!(signed.expect("s16")(false, minus_one, 1));
                }
                Compare::Gt | Compare::Ge => {
                    assert!(unsigned.expect("u16")(false, minus_one, 1));
                    assert!(!signed.expect("s16")(false, minus_one, 1));
                }
                Compare::Lo | Compare::Ls => {
                    assert!(!unsigned.expect("u16")(false, minus_one, 1));
                    assert!(signed.is_none());
                }
                Compare::Hi | Compare::Hs => {
                    assert!(unsigned.expect("u16")(false, minus_one, 1));
                    assert!(signed.is_none());
                }
                Compare::Eq | Compare::Ne => {
                    assert_eq!(unsigned.expect("u16")(false, 7, 7), cmp == Compare::Eq);
                    assert_eq!(signed.expect("s16")(false, 7, 8), cmp == Compare::Ne);
                }
                _ => assert!(unsigned.is_none() && signed.is_none()),
            }
            let bits = compare(cmp, Scalar::B64);
            assert_eq!(bits.is_some(), matches!(cmp, Compare::Eq | Compare::Ne));
        }
    }
}
