//! The table of floating-point arithmetic: the function for each operation and type.

use super::half::{Bf16, F16, Half, pair};
use super::soft::{Format, Value, unpack};
use super::{LaneFn, Mode, Scalar, approx, double, half, single};

/// Computation of a floating-point instruction. `a`, `b`, `c` are its source operands in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a × b`
    Mul,
    /// `a × b + c`, rounded once. Also `mad` of f32 and f64.
    Fma,
    /// `a / b`; `Mode::approx` chooses `div.approx`.
    Div,
    /// `div.full`
    DivFull,
    /// `1 / a`; `Mode::approx` chooses `rcp.approx`, for f64 `rcp.approx.ftz`.
    Rcp,
    /// `√a`; `Mode::approx` chooses `sqrt.approx`.
    Sqrt,
    /// `1 / √a`, always approximate.
    Rsqrt,
    /// `2^a`
    Ex2,
    /// `log₂ a`
    Lg2,
    /// `sin a`
    Sin,
    /// `cos a`
    Cos,
    /// `tanh a`
    Tanh,
    /// The smaller of two.
    Min,
    /// The larger of two.
    Max,
    /// The smallest of three; `.abs` if `immediate` is 1.
    Min3,
    /// The largest of three; `.abs` if `immediate` is 1.
    Max3,
    /// `|a|`
    Abs,
    /// `-a`
    Neg,
    /// The magnitude of `b` with the sign of `a`.
    CopySign,
    /// 1 if `a` has the property, otherwise 0.
    Testp(FloatProperty),
}

impl FloatOp {
    /// Number of operands.
    #[must_use]
    pub fn sources(self) -> usize {
        match self {
            Self::Fma | Self::Min3 | Self::Max3 => 3,
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::DivFull | Self::Min | Self::Max | Self::CopySign => 2,
            _ => 1,
        }
    }

    /// Floating-point operations that it counts for, on one number: a fused multiply-add is two.
    #[must_use]
    pub fn flops(self) -> u32 {
        match self {
            Self::Add | Self::Sub | Self::Mul => 1,
            Self::Fma => 2,
            _ => 0,
        }
    }
}

/// Property that `testp` checks (PTX ISA, "testp").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatProperty {
    /// Neither infinite nor NaN.
    Finite,
    /// An infinity.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Finite and not subnormal; zeros count as normal.
    Normal,
    /// Subnormal.
    Subnormal,
}

/// Whether the number encoded by `bits` has `property`.
pub fn has_property(property: FloatProperty, format: Format, bits: u64) -> bool {
    let value = unpack(format, bits);
    match property {
        FloatProperty::Finite => matches!(value, Value::Finite(_)),
        FloatProperty::Infinite => matches!(value, Value::Infinite(_)),
        FloatProperty::Number => value != Value::Nan,
        FloatProperty::NotANumber => value == Value::Nan,
        FloatProperty::Normal => matches!(value, Value::Finite(_)) && !format.is_subnormal(bits),
        FloatProperty::Subnormal => format.is_subnormal(bits),
    }
}

macro_rules! testp {
    ($property:ident, $format:expr) => {
        |_, a, _, _| u64::from(has_property(FloatProperty::$property, $format, a))
    };
}

macro_rules! testp_table {
    ($property:expr, $format:expr) => {{
        let f: LaneFn = match $property {
            FloatProperty::Finite => testp!(Finite, $format),
            FloatProperty::Infinite => testp!(Infinite, $format),
            FloatProperty::Number => testp!(Number, $format),
            FloatProperty::NotANumber => testp!(NotANumber, $format),
            FloatProperty::Normal => testp!(Normal, $format),
            FloatProperty::Subnormal => testp!(Subnormal, $format),
        };
        f
    }};
}

fn on_single(op: FloatOp) -> Option<LaneFn> {
    let f: LaneFn = match op {
        FloatOp::Add => single::add,
        FloatOp::Sub => single::sub,
        FloatOp::Mul => single::mul,
        FloatOp::Fma => single::fma,
        FloatOp::Div => |mode, a, b, c| {
            if mode.approx { approx::div(mode, a, b, c) } else { single::div(mode, a, b, c) }
        },
        FloatOp::DivFull => approx::div_full,
        FloatOp::Rcp => |mode, a, b, c| {
            if mode.approx { approx::rcp(mode, a, b, c) } else { single::rcp(mode, a, b, c) }
        },
        FloatOp::Sqrt => |mode, a, b, c| {
            if mode.approx { approx::sqrt(mode, a, b, c) } else { single::sqrt(mode, a, b, c) }
        },
        FloatOp::Rsqrt => approx::rsqrt,
        FloatOp::Ex2 => approx::ex2,
        FloatOp::Lg2 => approx::lg2,
        FloatOp::Sin => approx::sin,
        FloatOp::Cos => approx::cos,
        FloatOp::Tanh => approx::tanh,
        FloatOp::Min => single::min,
        FloatOp::Max => single::max,
        FloatOp::Min3 => single::min3,
        FloatOp::Max3 => single::max3,
        FloatOp::Abs => single::abs,
        FloatOp::Neg => single::neg,
        FloatOp::CopySign => single::copysign,
        FloatOp::Testp(property) => testp_table!(property, Format::F32),
    };
    Some(f)
}

fn on_double(op: FloatOp) -> Option<LaneFn> {
    let f: LaneFn = match op {
        FloatOp::Add => double::add,
        FloatOp::Sub => double::sub,
        FloatOp::Mul => double::mul,
        FloatOp::Fma => double::fma,
        FloatOp::Div => double::div,
        FloatOp::Rcp => |mode, a, b, c| {
            if mode.approx { approx::rcp_f64(mode, a, b, c) } else { double::rcp(mode, a, b, c) }
        },
        FloatOp::Sqrt => double::sqrt,
        FloatOp::Rsqrt => approx::rsqrt_f64,
        FloatOp::Min => double::min,
        FloatOp::Max => double::max,
        FloatOp::Abs => double::abs,
        FloatOp::Neg => double::neg,
        FloatOp::CopySign => double::copysign,
        FloatOp::Testp(property) => testp_table!(property, Format::F64),
        _ => return None,
    };
    Some(f)
}

fn on_half<H: Half>(op: FloatOp) -> Option<LaneFn> {
    let f: LaneFn = match op {
        FloatOp::Add => half::add::<H>,
        FloatOp::Sub => half::sub::<H>,
        FloatOp::Mul => half::mul::<H>,
        FloatOp::Fma => half::fma::<H>,
        FloatOp::Ex2 => half::ex2::<H>,
        FloatOp::Tanh => half::tanh::<H>,
        FloatOp::Min => half::min::<H>,
        FloatOp::Max => half::max::<H>,
        FloatOp::Abs => half::abs::<H>,
        FloatOp::Neg => half::neg::<H>,
        _ => return None,
    };
    Some(f)
}

fn on_pair<H: Half>(op: FloatOp) -> Option<LaneFn> {
    let f: LaneFn = match op {
        FloatOp::Add => |mode, a, b, c| pair(half::add::<H>, mode, a, b, c),
        FloatOp::Sub => |mode, a, b, c| pair(half::sub::<H>, mode, a, b, c),
        FloatOp::Mul => |mode, a, b, c| pair(half::mul::<H>, mode, a, b, c),
        FloatOp::Fma => |mode, a, b, c| pair(half::fma::<H>, mode, a, b, c),
        FloatOp::Ex2 => |mode, a, b, c| pair(half::ex2::<H>, mode, a, b, c),
        FloatOp::Tanh => |mode, a, b, c| pair(half::tanh::<H>, mode, a, b, c),
        FloatOp::Min => |mode, a, b, c| pair(half::min::<H>, mode, a, b, c),
        FloatOp::Max => |mode, a, b, c| pair(half::max::<H>, mode, a, b, c),
        FloatOp::Abs => |mode, a, b, c| pair(half::abs::<H>, mode, a, b, c),
        FloatOp::Neg => |mode, a, b, c| pair(half::neg::<H>, mode, a, b, c),
        _ => return None,
    };
    Some(f)
}

fn widened<H: Half>(op: FloatOp) -> Option<LaneFn> {
    let f: LaneFn = match op {
        FloatOp::Add => |mode, a, b, c| single::add(mode, wide::<H>(a), b, c),
        FloatOp::Sub => |mode, a, b, c| single::sub(mode, wide::<H>(a), b, c),
        FloatOp::Fma => |mode, a, b, c| single::fma(mode, wide::<H>(a), wide::<H>(b), c),
        _ => return None,
    };
    Some(f)
}

#[inline]
fn wide<H: Half>(bits: u64) -> u64 {
    u64::from(H::widen(bits).to_bits())
}

/// The arithmetic of `op` in f32 on operands of `ty`, but for the last, which is f32 (PTX ISA, "Mixed Precision Floating-Point
/// Instructions"); `None` if PTX has no such form.
pub fn mixed_op(op: FloatOp, ty: Scalar) -> Option<LaneFn> {
    match ty {
        Scalar::F16 => widened::<F16>(op),
        Scalar::Bf16 => widened::<Bf16>(op),
        _ => None,
    }
}

#[inline]
fn both(f: LaneFn, mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    let low = |x: u64| x & 0xffff_ffff;
    f(mode, a >> 32, b >> 32, c >> 32) << 32 | f(mode, low(a), low(b), low(c))
}

/// The arithmetic of `op` on `ty`; `None` if PTX has no such form.
pub fn float_op(op: FloatOp, ty: Scalar) -> Option<LaneFn> {
    match ty {
        Scalar::F32 => on_single(op),
        Scalar::F64 => on_double(op),
        Scalar::F16 => on_half::<F16>(op),
        Scalar::Bf16 => on_half::<Bf16>(op),
        Scalar::F16x2 => on_pair::<F16>(op),
        Scalar::Bf16x2 => on_pair::<Bf16>(op),
        Scalar::F32x2 => match op {
            FloatOp::Add => Some(|mode, a, b, c| both(single::add, mode, a, b, c)),
            FloatOp::Sub => Some(|mode, a, b, c| both(single::sub, mode, a, b, c)),
            FloatOp::Mul => Some(|mode, a, b, c| both(single::mul, mode, a, b, c)),
            FloatOp::Fma => Some(|mode, a, b, c| both(single::fma, mode, a, b, c)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(op: FloatOp, ty: Scalar, mode: Mode, operands: [u64; 3]) -> u64 {
        let f = float_op(op, ty).unwrap_or_else(|| panic!("no {op:?} of {ty:?}"));
        f(mode, operands[0], operands[1], operands[2])
    }

    #[test]
    fn properties_partition_the_numbers() {
        use FloatProperty::*;
        // Zero, subnormal, normal, infinity, NaN.
        let examples = [0x8000_0000, 0x0000_0001, 0xbf80_0000, 0xff80_0000, 0x7f80_0001];
        for (property, expected) in [
            (Finite, [1, 1, 1, 0, 0]),
            (Infinite, [0, 0, 0, 1, 0]),
            (Number, [1, 1, 1, 1, 0]),
            (NotANumber, [0, 0, 0, 0, 1]),
            (Normal, [1, 0, 1, 0, 0]),
            (Subnormal, [0, 1, 0, 0, 0]),
        ] {
            for (bits, expected) in examples.into_iter().zip(expected) {
                let found = run(FloatOp::Testp(property), Scalar::F32, Mode::default(), [bits, 0, 0]);
                assert_eq!(found, expected, "{property:?} {bits:#x}");
                let wide = f32::from_bits(bits as u32);
                if property != Normal && property != Subnormal {
                    let found =
                        run(FloatOp::Testp(property), Scalar::F64, Mode::default(), [f64::from(wide).to_bits(), 0, 0]);
                    assert_eq!(found, expected, "{property:?} {wide:e}");
                }
            }
        }
    }

    #[test]
    fn packed_types_compute_each_part() {
        let one_two = 0x3f80_0000_4000_0000;
        assert_eq!(run(FloatOp::Fma, Scalar::F32x2, Mode::default(), [one_two; 3]), 0x4000_0000_40c0_0000);
        let one_two = 0x3f80_4000;
        assert_eq!(run(FloatOp::Fma, Scalar::Bf16x2, Mode::default(), [one_two; 3]), 0x4000_40c0);
        assert_eq!(run(FloatOp::Neg, Scalar::F16x2, Mode::default(), [0x3c00_0000, 0, 0]), 0xbc00_8000);
    }

    #[test]
    fn approximation_is_chosen_by_the_mode() {
        let approx = Mode { approx: true, ..Mode::default() };
        // In the gap of the approximate division.
        let operands = [0x7e80_0000, 0x7f00_0000, 0];
        assert_eq!(run(FloatOp::Div, Scalar::F32, approx, operands), 0);
        assert_eq!(run(FloatOp::Div, Scalar::F32, Mode::default(), operands), 0x3f00_0000);
        assert_eq!(run(FloatOp::DivFull, Scalar::F32, approx, operands), 0x3f00_0000);
        let third = run(FloatOp::Rcp, Scalar::F64, approx, [3f64.to_bits(), 0, 0]);
        assert_eq!(third & 0xffff_ffff, 0);
        assert_eq!(run(FloatOp::Rcp, Scalar::F64, Mode::default(), [3f64.to_bits(), 0, 0]), (1.0 / 3f64).to_bits());
    }

    #[test]
    fn forms_that_ptx_lacks_are_refused() {
        assert!(float_op(FloatOp::Div, Scalar::F16).is_none());
        assert!(float_op(FloatOp::Sin, Scalar::F64).is_none());
        assert!(float_op(FloatOp::Tanh, Scalar::F64).is_none());
        assert!(float_op(FloatOp::Min, Scalar::F32x2).is_none());
        assert!(float_op(FloatOp::CopySign, Scalar::Bf16).is_none());
        assert!(mixed_op(FloatOp::Mul, Scalar::F16).is_none());
    }
}
