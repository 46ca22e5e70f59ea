//! Arithmetic whose mnemonics integers and floats share: the type decides which of the two it is.

use super::float::float_op_named;
use super::integer::{Half, is_integer_arithmetic};
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, unsupported};
use crate::scalar::{FloatOp, Mode, Scalar};

impl<'a> FunctionLowering<'_, 'a> {
    /// False where neither integers nor floats have such an instruction.
    pub(super) fn arithmetic(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<bool> {
        let float = float_op_named(name);
        if float.is_none() && !is_integer_arithmetic(name) {
            return Ok(false);
        }
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
        m.finish()?;
        if !ty.float() {
            if cc || matches!(name, "addc" | "subc" | "madc") {
                self.carry(name, ty, half, cc, ops)?;
            } else {
                self.integer(name, ty, half, mode, ops)?;
            }
            return Ok(true);
        }
        let Some(op) = float else { return unsupported(format!("{name} of .{}", ty.name())) };
        if half.is_some() {
            return unsupported(format!("{name} of .{} with .lo, .hi or .wide", ty.name()));
        }
        let three = ops.len() == 4;
        let op = match op {
            FloatOp::Div if full => FloatOp::DivFull,
            FloatOp::Min if three => FloatOp::Min3,
            FloatOp::Max if three => FloatOp::Max3,
            op => op,
        };
        let mode = Mode { immediate: u32::from(absolute && three), ..mode };
        self.float(name, op, ty, mode, ops)?;
        Ok(true)
    }
}
