//! Arithmetic with mnemonics that integers and floats share: the type decides.

use super::float::float_op_named;
use super::integer::Half;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{FloatOp, Mode, Scalar};

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn arithmetic(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let rounding = m.rounding();
        let mode = Mode {
            rounding: rounding.unwrap_or_default(),
            ftz: m.flag("ftz"),
            saturate: m.flag("sat"),
            approx: m.flag("approx"),
            relu: m.flag("relu"),
            propagate_nan: m.flag("NaN"),
            xorsign_abs: m.flag("xorsign"),
            ..Mode::default()
        };
        let absolute = m.flag("abs");
        let full = m.flag("full");
        let cc = m.flag("cc");
        let half = m.one(|name| match name {
            "lo" => Some(Half::Lo),
            "hi" => Some(Half::Hi),
            "wide" => Some(Half::Wide),
            _ => None,
        });
        let ty = m.one(|name| {
            let packed = |ty: &Scalar| matches!(ty, Scalar::U16x2 | Scalar::S16x2 | Scalar::F32x2);
            Scalar::from_name(name).filter(|ty| ty.is_declared() || packed(ty))
        });
        let Some(ty) = ty else { return unsupported("an instruction without a type") };
        // Of `.f32.f16`: the type of all operands but the last.
        let narrow = m.one(|name| {
            Scalar::from_name(name).filter(|of| ty == Scalar::F32 && matches!(of, Scalar::F16 | Scalar::Bf16))
        });
        m.finish()?;
        let sums = matches!(name, "add" | "sub" | "mul" | "fma" | "mad");
        let divides = matches!(name, "div" | "rcp" | "sqrt");
        let approximates = divides || matches!(name, "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh");
        let saturates = if ty.float() {
            sums && ty != Scalar::F64
        } else {
            matches!(name, "add" | "sub" | "mad" | "mad24") && ty == Scalar::S32
        };
        let half_floats = [Scalar::F16, Scalar::F16x2, Scalar::Bf16, Scalar::Bf16x2];
        let clamps = !ty.float() || name == "fma" && half_floats.contains(&ty);
        let flushes = ty.float() && (ty != Scalar::F64 || matches!(name, "rcp" | "rsqrt"));
        for (given, takes, modifier) in [
            (rounding.is_some(), ty.float() && (sums || divides), "rounding modifier"),
            (mode.ftz, flushes, "modifier .ftz"),
            (mode.saturate, saturates, "modifier .sat"),
            (mode.approx, ty.float() && approximates, "modifier .approx"),
            (mode.relu, clamps, "modifier .relu"),
        ] {
            if given && !takes {
                return invalid(format!("{name} of .{} takes no {modifier}", ty.name()));
            }
        }
        if !ty.float() {
            return if cc || matches!(name, "addc" | "subc" | "madc") {
                self.carry(name, ty, half, cc, ops)
            } else {
                self.integer(name, ty, half, mode, ops)
            };
        }
        let Some(op) = float_op_named(name) else { return unsupported(format!("{name} of .{}", ty.name())) };
        if half.is_some() {
            return unsupported(format!("{name} of .{} with .lo, .hi or .wide", ty.name()));
        }
        if let Some(what) = missing(op, ty, rounding.is_some(), mode.approx, full) {
            return invalid(format!("{name} of .{} needs {what}", ty.name()));
        }
        if let Some(narrow) = narrow {
            return self.mixed(name, op, narrow, mode, ops);
        }
        let three = ops.len() == 4;
        let op = match op {
            FloatOp::Div if full => FloatOp::DivFull,
            FloatOp::Min if three => FloatOp::Min3,
            FloatOp::Max if three => FloatOp::Max3,
            op => op,
        };
        let mode = Mode { immediate: u32::from(absolute && three), ..mode };
        self.float(name, op, ty, mode, ops)
    }
}

/// The missing modifier that PTX requires.
fn missing(op: FloatOp, ty: Scalar, rounded: bool, approx: bool, full: bool) -> Option<&'static str> {
    match op {
        FloatOp::Fma if !rounded => Some("a rounding modifier, such as .rn"),
        FloatOp::Div if !(rounded || approx || full) => Some("a rounding modifier, such as .rn, or .approx"),
        FloatOp::Rcp | FloatOp::Sqrt if !(rounded || approx) => Some("a rounding modifier, such as .rn, or .approx"),
        FloatOp::Rsqrt | FloatOp::Ex2 | FloatOp::Lg2 | FloatOp::Sin | FloatOp::Cos | FloatOp::Tanh
            if !approx && ty != Scalar::F64 =>
        {
            Some("the modifier .approx")
        }
        FloatOp::Rsqrt if !approx => Some("the modifier .approx"),
        _ => None,
    }
}
