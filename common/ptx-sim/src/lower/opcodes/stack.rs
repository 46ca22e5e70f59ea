//! The stack of a thread: memory that its function allocates while it runs.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid};
use crate::scalar::Scalar;

/// The minimum alignment that `alloca` guarantees, and the largest that can be asked for (PTX ISA, "alloca").
const MIN_ALIGN: i128 = 8;
const MAX_ALIGN: i128 = 1 << 23;

impl<'a> FunctionLowering<'_, 'a> {
    /// `alloca`, `stacksave`, `stackrestore`
    pub(super) fn stack(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ty = m.ty()?;
        m.finish()?;
        if !matches!(ty, Scalar::U32 | Scalar::U64) {
            return invalid(format!("{name} has the type .u32 or .u64"));
        }
        if ops.len() > if name == "alloca" { 3 } else { 1 } {
            return invalid(format!("{name} has fewer operands"));
        }
        let op = match name {
            "alloca" => {
                let align = match ops.get(2) {
                    None => MIN_ALIGN,
                    Some(Operand::Int(align @ 1..=MAX_ALIGN)) if align & (align - 1) == 0 => MIN_ALIGN.max(*align),
                    Some(_) => return invalid("the alignment of alloca is a power of two up to 2^23"),
                };
                let size = self.src(operand(ops, 1)?, ty)?;
                StackOp::Alloca { d: self.dst(operand(ops, 0)?, ty)?, size, align: align as u32 }
            }
            "stacksave" => StackOp::Save { d: self.dst(operand(ops, 0)?, ty)? },
            _ => StackOp::Restore { a: self.src(operand(ops, 0)?, ty)? },
        };
        if self.stack.is_none() {
            // A constant of its own: set when the function begins, and changed by nothing but these instructions.
            let row = self.temporary(false);
            self.constant_list.push(Constant { row, wide: false, value: ConstantValue::Bits(0) });
            self.stack = Some(row);
        }
        self.emit(Op::Stack(Stack { op, wide: ty == Scalar::U64 }));
        Ok(())
    }
}
