//! Computation of one lane: PTX arithmetic as pure functions over raw bits, one table per family of opcodes.
//!
//! The IEEE operations are exact in every rounding; [`soft`] defines them and LLVM's own software floating point checks
//! them. Where PTX leaves a choice to the machine, one place makes it: NaN payloads of f64 in [`double::nan`], division
//! by zero in [`int::div`], NaN as an integer in [`convert`](mod@convert), and the bits of the approximate functions,
//! which are not those of hardware, in [`approx`].
//!
//! Nothing here knows about warps, registers or memory. A [`LaneFn`] takes its operands as raw bits in the low part of
//! a `u64` (upper bits are zero) and returns raw bits the same way. The executor has vectorised arms of its own for the
//! most frequent instructions; everything else, and every test of those arms, goes through here.

pub mod approx;
pub mod compare;
pub mod convert;
pub mod double;
pub mod float;
pub mod half;
pub mod int;
pub mod single;
pub mod soft;
#[cfg(test)]
mod testing;
mod types;
pub mod video;

pub use compare::{Compare, CompareFn, Relation, compare};
pub use convert::{SATFINITE, convert, pack_mode, pack_saturated};
pub use float::{FloatOp, FloatProperty, float_op, mixed_op};
pub use int::{CarryFn, CarryOp, IntOp, PrmtMode, carry_op, int_op};
pub use types::Scalar;

/// One lane's arithmetic: `(mode, a, b, c) -> d`, all as raw zero-extended bits. Unused operands are 0.
pub type LaneFn = fn(Mode, u64, u64, u64) -> u64;

/// Rounding of a floating-point result or a conversion (PTX ISA, "Rounding Modifiers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To nearest, ties to even (`.rn`, `.rni`).
    #[default]
    Nearest,
    /// To nearest, ties away from zero (`.rna`).
    NearestAway,
    /// Towards zero (`.rz`, `.rzi`).
    Zero,
    /// Towards minus infinity (`.rm`, `.rmi`).
    Down,
    /// Towards plus infinity (`.rp`, `.rpi`).
    Up,
}

/// The modifiers of an instruction that change its arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mode {
    /// Rounding; `Nearest` where the instruction names none.
    pub rounding: Rounding,
    /// `cvt` names an integer rounding (`.rni` …): the result is rounded to an integral value.
    pub to_integral: bool,
    /// `.ftz`: f32 subnormal inputs and results become zero of the same sign.
    pub ftz: bool,
    /// `.sat` / `.satfinite`.
    pub saturate: bool,
    /// `.approx` or `.full` instead of IEEE (`div`, `sqrt`, …).
    pub approx: bool,
    /// `.relu`: negative results become +0, NaN becomes canonical NaN.
    pub relu: bool,
    /// `.NaN` of `min`/`max`: NaN if either operand is.
    pub propagate_nan: bool,
    /// `.xorsign.abs` of `min`/`max`.
    pub xorsign_abs: bool,
    /// An immediate the instruction carries: `lop3`'s table, `prmt`'s mode, `bfind.shiftamt` (1), `shf`'s wrap (1) …
    pub immediate: u32,
}
