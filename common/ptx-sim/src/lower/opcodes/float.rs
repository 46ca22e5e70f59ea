//! Floating-point arithmetic.

use super::emit::Lanewise;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{FloatOp, Mode, Scalar, float_op, mixed_op};

/// The operation of that name.
pub(super) fn float_op_named(name: &str) -> Option<FloatOp> {
    Some(match name {
        "add" => FloatOp::Add,
        "sub" => FloatOp::Sub,
        "mul" => FloatOp::Mul,
        "fma" | "mad" => FloatOp::Fma,
        "div" => FloatOp::Div,
        "rcp" => FloatOp::Rcp,
        "sqrt" => FloatOp::Sqrt,
        "rsqrt" => FloatOp::Rsqrt,
        "ex2" => FloatOp::Ex2,
        "lg2" => FloatOp::Lg2,
        "sin" => FloatOp::Sin,
        "cos" => FloatOp::Cos,
        "tanh" => FloatOp::Tanh,
        "min" => FloatOp::Min,
        "max" => FloatOp::Max,
        "abs" => FloatOp::Abs,
        "neg" => FloatOp::Neg,
        "copysign" => FloatOp::CopySign,
        _ => return None,
    })
}

/// The operation, if it has an arm of its own for halves and their pairs.
fn half_op(op: FloatOp) -> Option<HalfOp> {
    Some(match op {
        FloatOp::Add => HalfOp::Add,
        FloatOp::Sub => HalfOp::Sub,
        FloatOp::Mul => HalfOp::Mul,
        FloatOp::Fma => HalfOp::Fma,
        _ => return None,
    })
}

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn float(&mut self, name: &str, op: FloatOp, ty: Scalar, mode: Mode, ops: &[Operand<'a>]) -> Lower<()> {
        let Some(f) = float_op(op, ty) else { return unsupported(format!("{name} of .{}", ty.name())) };
        let (d, rows) = self.rows(ty, [ty; 3], op.sources(), ops)?;
        let [a, b, c] = rows;
        // What is left of the mode decides whether an instruction has an arm of its own.
        let ftz = mode.ftz;
        let simple = Mode { ftz: false, ..mode } == Mode::default();
        let plain = simple && !ftz;
        let format = match ty {
            Scalar::F16 => Some((false, false)),
            Scalar::F16x2 => Some((false, true)),
            Scalar::Bf16 => Some((true, false)),
            Scalar::Bf16x2 => Some((true, true)),
            _ => None,
        };
        if plain && let (Some(op), Some((bfloat, packed))) = (half_op(op), format) {
            self.emit(Op::HalfMath(HalfMath { op, d, a, b, c, bfloat, packed }));
            return Ok(());
        }
        self.emit(match (op, ty) {
            (FloatOp::Add, Scalar::F32) if simple => Op::AddF32 { d, a, b, ftz },
            (FloatOp::Sub, Scalar::F32) if simple => Op::SubF32 { d, a, b, ftz },
            (FloatOp::Mul, Scalar::F32) if simple => Op::MulF32 { d, a, b, ftz },
            (FloatOp::Fma, Scalar::F32) if simple => Op::FmaF32 { d, a, b, c, ftz },
            (FloatOp::Div, Scalar::F32) if plain => Op::DivF32 { d, a, b },
            (FloatOp::Sqrt, Scalar::F32) if plain => Op::SqrtF32 { d, a },
            (FloatOp::Min, Scalar::F32) if simple => Op::MinF32 { d, a, b, ftz },
            (FloatOp::Max, Scalar::F32) if simple => Op::MaxF32 { d, a, b, ftz },
            (FloatOp::Add, Scalar::F64) if plain => Op::AddF64 { d, a, b },
            (FloatOp::Sub, Scalar::F64) if plain => Op::SubF64 { d, a, b },
            (FloatOp::Mul, Scalar::F64) if plain => Op::MulF64 { d, a, b },
            (FloatOp::Fma, Scalar::F64) if plain => Op::FmaF64 { d, a, b, c },
            _ => Lanewise { f, mode, result: ty, types: [ty; 3], work: Work::float(op, ty) }.op(d, rows),
        });
        Ok(())
    }

    /// An operation in f32 on operands of type `narrow`, but for the last, which is f32.
    pub(super) fn mixed(
        &mut self,
        name: &str,
        op: FloatOp,
        narrow: Scalar,
        mode: Mode,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let Some(f) = mixed_op(op, narrow).filter(|_| name != "mad") else {
            return invalid(format!("PTX has no {name} of .f32 and .{}", narrow.name()));
        };
        if mode != (Mode { rounding: mode.rounding, saturate: mode.saturate, ..Mode::default() }) {
            return invalid(format!("{name} of .f32 and .{} takes a rounding and .sat alone", narrow.name()));
        }
        let types = if op == FloatOp::Fma { [narrow, narrow, Scalar::F32] } else { [narrow, Scalar::F32, Scalar::F32] };
        let lanewise = Lanewise { f, mode, result: Scalar::F32, types, work: Work::float(op, Scalar::F32) };
        self.emit_map(&lanewise, op.sources(), ops)
    }
}
