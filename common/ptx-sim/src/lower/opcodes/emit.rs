//! Emission of instructions: the operations that have an arm of their own, and all the others.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid};
use crate::scalar::{LaneFn, Mode, Scalar};

/// A source that an operation does not have.
pub(super) const UNUSED: R = R::MAX;

impl<'a> FunctionLowering<'_, 'a> {
    /// Emits an operation without operands.
    pub(super) fn plain(&mut self, m: &Modifiers<'_>, op: Op) -> Lower<()> {
        m.finish()?;
        self.emit(op);
        Ok(())
    }

    /// [`Self::plain`] of an instruction whose `modifiers` change nothing here.
    pub(super) fn plain_with(&mut self, m: &mut Modifiers<'_>, modifiers: &[&str], op: Op) -> Lower<()> {
        m.ignore(modifiers);
        self.plain(m, op)
    }

    /// Emits an operation that the lanes of `members` execute together; `None`: all live ones.
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

    /// Emits an operation without an arm of its own, with operands in their written form.
    pub(super) fn emit_map(&mut self, lanewise: &Lanewise, sources: usize, ops: &[Operand<'a>]) -> Lower<()> {
        let (d, rows) = self.rows(lanewise.result, lanewise.types, sources, ops)?;
        self.emit(lanewise.op(d, rows));
        Ok(())
    }
}

pub(super) fn operand<'o, 'a>(ops: &'o [Operand<'a>], at: usize) -> Lower<&'o Operand<'a>> {
    ops.get(at).map_or_else(|| invalid("an operand is missing"), Ok)
}

/// An operation without an arm of its own: each lane's function, and its types.
pub(super) struct Lanewise {
    pub f: LaneFn,
    pub mode: Mode,
    pub result: Scalar,
    pub types: [Scalar; 3],
    pub work: Work,
}

impl Lanewise {
    /// The operation on these rows.
    pub(super) fn op(&self, d: R, sources: [R; 3]) -> Op {
        Op::Map(Box::new(Map {
            f: self.f,
            mode: self.mode,
            sources,
            source_bytes: self.types.map(|ty| ty.size() as u8),
            source_wide: self.types.map(|ty| ty.size() == 8),
            d,
            d_wide: self.result.size() == 8,
            sign_from: 0,
            integer: !self.types.iter().chain([&self.result]).any(|ty| ty.float()),
            work: self.work,
        }))
    }
}
