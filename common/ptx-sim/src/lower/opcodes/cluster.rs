//! Addresses within a cluster.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn mapa(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.space();
        let ty = m.ty()?;
        m.finish()?;
        let [d, a, rank] = ops else { return invalid("mapa takes an address and a rank") };
        let rank = self.src(rank, Scalar::U32)?;
        let d = self.dst(d, ty)?;
        let a = self.src(a, ty)?;
        self.emit(Op::MapShared { d, a, rank, wide: ty.size() == 8 });
        Ok(())
    }

    pub(super) fn rank_of(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.space();
        let ty = m.ty()?;
        m.finish()?;
        let d = self.dst(operand(ops, 0)?, Scalar::U32)?;
        let a = self.src(operand(ops, 1)?, ty)?;
        self.emit(Op::RankOf { d, a, wide: ty.size() == 8 });
        Ok(())
    }
}
