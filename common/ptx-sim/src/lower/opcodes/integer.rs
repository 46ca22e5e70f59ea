//! Integer arithmetic: sums and products, with and without a carry.

use super::emit::{Lanewise, UNUSED, operand};
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, unsupported};
use crate::scalar::{CarryOp, IntOp, Mode, Scalar, carry_op, int_op};

/// The part of a product that an instruction keeps.
#[derive(Clone, Copy)]
pub(super) enum Half {
    Lo,
    Hi,
    Wide,
}

/// The operation of that name.
fn int_op_named(name: &str, half: Option<Half>) -> Option<IntOp> {
    Some(match (name, half) {
        ("add", None) => IntOp::Add,
        ("sub", None) => IntOp::Sub,
        ("mul", Some(Half::Lo)) => IntOp::MulLo,
        ("mul", Some(Half::Hi)) => IntOp::MulHi,
        ("mul", Some(Half::Wide)) => IntOp::MulWide,
        ("mad", Some(Half::Lo)) => IntOp::MadLo,
        ("mad", Some(Half::Hi)) => IntOp::MadHi,
        ("mad", Some(Half::Wide)) => IntOp::MadWide,
        ("mul24", Some(Half::Lo)) => IntOp::Mul24Lo,
        ("mul24", Some(Half::Hi)) => IntOp::Mul24Hi,
        ("mad24", Some(Half::Lo)) => IntOp::Mad24Lo,
        ("mad24", Some(Half::Hi)) => IntOp::Mad24Hi,
        ("div", None) => IntOp::Div,
        ("rem", None) => IntOp::Rem,
        ("abs", None) => IntOp::Abs,
        ("neg", None) => IntOp::Neg,
        ("min", None) => IntOp::Min,
        ("max", None) => IntOp::Max,
        ("sad", None) => IntOp::Sad,
        _ => return None,
    })
}

/// The operation of that name with a carry: `add.cc`, `addc`.
fn carry_op_named(name: &str, half: Option<Half>) -> Option<CarryOp> {
    Some(match (name, half) {
        ("add" | "addc", None) => CarryOp::Add,
        ("sub" | "subc", None) => CarryOp::Sub,
        ("mad" | "madc", Some(Half::Lo)) => CarryOp::MadLo,
        ("mad" | "madc", Some(Half::Hi)) => CarryOp::MadHi,
        _ => return None,
    })
}

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn carry(
        &mut self,
        name: &str,
        ty: Scalar,
        half: Option<Half>,
        cc: bool,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let Some(op) = carry_op_named(name, half) else { return unsupported(format!("{name} with a carry")) };
        let Some(f) = carry_op(op, ty) else {
            return unsupported(format!("{name} with a carry of .{}", ty.name()));
        };
        let d = self.dst(operand(ops, 0)?, ty)?;
        let a = self.src(operand(ops, 1)?, ty)?;
        let b = self.src(operand(ops, 2)?, ty)?;
        let c = if half.is_some() { self.src(operand(ops, 3)?, ty)? } else { UNUSED };
        self.emit(Op::Carry(Box::new(Carry {
            f,
            wide: ty.size() == 8,
            carry_in: name.ends_with('c'),
            carry_out: cc,
            d,
            a,
            b,
            c,
        })));
        Ok(())
    }

    pub(super) fn integer(
        &mut self,
        name: &str,
        ty: Scalar,
        half: Option<Half>,
        mode: Mode,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let Some(op) = int_op_named(name, half) else {
            return unsupported(format!("{name} of .{} in this form", ty.name()));
        };
        let Some(f) = int_op(op, ty) else { return unsupported(format!("{name} of .{}", ty.name())) };
        let wide = matches!(half, Some(Half::Wide));
        let result = if wide { ty.doubled() } else { ty };
        let third = if op == IntOp::Sad && ty.signed() { Scalar::of_bytes(ty.size()) } else { result };
        let lanewise = Lanewise { f, mode, result, types: [ty, ty, third], work: Work::of(Class::Integer) };
        if mode != Mode::default() {
            return self.emit_map(&lanewise, op.sources(), ops);
        }
        let (d, [a, b, c]) = self.rows(result, lanewise.types, op.sources(), ops)?;
        let hot = match (op, ty) {
            (IntOp::Add, Scalar::U32 | Scalar::S32) => Op::Add32 { d, a, b },
            (IntOp::Sub, Scalar::U32 | Scalar::S32) => Op::Sub32 { d, a, b },
            (IntOp::MulLo, Scalar::U32 | Scalar::S32) => Op::Mul32 { d, a, b },
            (IntOp::MulHi, Scalar::U32) => Op::MulHiU32 { d, a, b },
            (IntOp::MulHi, Scalar::S32) => Op::MulHiS32 { d, a, b },
            (IntOp::MadLo, Scalar::U32 | Scalar::S32) => Op::Mad32 { d, a, b, c },
            (IntOp::Min, Scalar::U32) => Op::MinU32 { d, a, b },
            (IntOp::Min, Scalar::S32) => Op::MinS32 { d, a, b },
            (IntOp::Max, Scalar::U32) => Op::MaxU32 { d, a, b },
            (IntOp::Max, Scalar::S32) => Op::MaxS32 { d, a, b },
            (IntOp::Neg, Scalar::S32) => Op::Neg32 { d, a },
            (IntOp::MulWide, Scalar::U32) => Op::MulWideU32 { d, a, b },
            (IntOp::MulWide, Scalar::S32) => Op::MulWideS32 { d, a, b },
            (IntOp::MadWide, Scalar::U32) => Op::MadWideU32 { d, a, b, c },
            (IntOp::MadWide, Scalar::S32) => Op::MadWideS32 { d, a, b, c },
            (IntOp::Add, Scalar::U64 | Scalar::S64) => Op::Add64 { d, a, b },
            (IntOp::Sub, Scalar::U64 | Scalar::S64) => Op::Sub64 { d, a, b },
            (IntOp::MulLo, Scalar::U64 | Scalar::S64) => Op::Mul64 { d, a, b },
            (IntOp::MadLo, Scalar::U64 | Scalar::S64) => Op::Mad64 { d, a, b, c },
            _ => lanewise.op(d, [a, b, c]),
        };
        self.emit(hot);
        Ok(())
    }
}
