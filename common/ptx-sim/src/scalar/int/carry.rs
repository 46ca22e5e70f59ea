//! Arithmetic with a carry.

use super::super::{Mode, Scalar};
use super::{Word, mul_hi, mul_lo, truncate};

/// An extended-precision operation: `(carry in, a, b, c) -> (d, carry out)`. The executor passes `None` for the forms
/// that read no carry (`add.cc`) and drops the carry of those that write none (`addc`).
///
/// Hardware subtracts by adding the complement, so that the carry of a difference is set if nothing was borrowed: this
/// is visible where `addc` follows `sub.cc`, or `subc` follows `add.cc`.
pub type CarryFn = fn(Option<bool>, u64, u64, u64) -> (u64, bool);

/// The operations that have `.cc` forms (PTX ISA, "Extended-Precision Integer Arithmetic Instructions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CarryOp {
    /// `add.cc`, `addc`
    Add,
    /// `sub.cc`, `subc`: the carry is the opposite of a borrow.
    Sub,
    /// `mad.lo.cc`, `madc.lo`
    MadLo,
    /// `mad.hi.cc`, `madc.hi`
    MadHi,
}

/// The arithmetic of `op` on `ty` (32 and 64 bits); `None` if PTX has no such form.
pub fn carry_op(op: CarryOp, ty: Scalar) -> Option<CarryFn> {
    fn typed<T: Word>(op: CarryOp) -> CarryFn {
        match op {
            CarryOp::Add => |carry, a, b, _| sum::<T>(carry, a, b),
            CarryOp::Sub => |carry, a, b, _| {
                let (a, b) = (T::of(a).raw(), T::of(b).raw());
                let (first, under) = a.overflowing_sub(b);
                let (second, under_again) = first.overflowing_sub(u64::from(carry == Some(false)));
                (truncate(second, T::BITS), !(under || under_again))
            },
            CarryOp::MadLo => |carry, a, b, c| sum::<T>(carry, mul_lo::<T>(Mode::default(), a, b, 0), c),
            CarryOp::MadHi => |carry, a, b, c| sum::<T>(carry, mul_hi::<T>(Mode::default(), a, b, 0), c),
        }
    }
    fn sum<T: Word>(carry: Option<bool>, a: u64, b: u64) -> (u64, bool) {
        let sum = u128::from(T::of(a).raw()) + u128::from(T::of(b).raw()) + u128::from(carry.unwrap_or(false));
        (truncate(sum as u64, T::BITS), sum >> T::BITS != 0)
    }
    match ty {
        Scalar::U32 | Scalar::B32 => Some(typed::<u32>(op)),
        Scalar::S32 => Some(typed::<i32>(op)),
        Scalar::U64 | Scalar::B64 => Some(typed::<u64>(op)),
        Scalar::S64 => Some(typed::<i64>(op)),
        _ => None,
    }
}
