//! How instructions are put into the function: the operations that have an arm of their own, and all the others.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid};
use crate::scalar::{LaneFn, Mode, Scalar};

/// A source that an operation does not have.
pub(super) const UNUSED: R = R::MAX;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn plain(&mut self, m: &Modifiers<'_>, op: Op) -> Lower<()> {
        m.finish()?;
        self.emit(op);
        Ok(())
    }
    pub(super) fn together(&mut self, members: Option<R>, op: TogetherOp) -> Lower<()> {
        self.emit(Op::Together(Box::new(Together { members, op })));
        Ok(())
    }

    /// Destination and sources of an instruction with one to three `sources`.
    pub(super) fn rows(
        &mut self,
        result: Scalar,
        types: [Scalar; 3],
        sources: usize,
        ops: &[Operand<'a>],
    ) -> Lower<(R, [R; 3])> {
        if ops.len() != sources + 1 {
            return invalid(format!("a destination and {sources} sources are expected, not {} operands", ops.len()));
        }
        let d = self.dst(&ops[0], result)?;
        let mut rows = [UNUSED; 3];
        for ((row, ty), source) in rows.iter_mut().zip(types).zip(&ops[1..]) {
            *row = self.src(source, ty)?;
        }
        Ok((d, rows))
    }

    pub(super) fn emit_map(
        &mut self,
        f: LaneFn,
        mode: Mode,
        result: Scalar,
        types: [Scalar; 3],
        sources: usize,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let (d, rows) = self.rows(result, types, sources, ops)?;
        self.emit(map(f, mode, d, result, rows, types));
        Ok(())
    }
}

pub(super) fn operand<'o, 'a>(ops: &'o [Operand<'a>], at: usize) -> Lower<&'o Operand<'a>> {
    ops.get(at).map_or_else(|| invalid("an operand is missing"), Ok)
}

/// An operation without an arm of its own.
pub(super) fn map(f: LaneFn, mode: Mode, d: R, result: Scalar, sources: [R; 3], types: [Scalar; 3]) -> Op {
    Op::Map(Box::new(Map {
        f,
        mode,
        sources,
        source_bytes: types.map(|ty| ty.size() as u8),
        source_wide: types.map(|ty| ty.size() == 8),
        d,
        d_wide: result.size() == 8,
        sign_from: 0,
    }))
}
