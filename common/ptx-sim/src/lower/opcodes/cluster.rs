//! Addresses within a cluster, which has one block here ([`Module::kernel`](crate::lower::module::Module) refuses others):
//! the shared memory of a cluster is the block's own, and the block's rank is 0.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    /// False where the mnemonic is none of this family.
    pub(super) fn cluster(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<bool> {
        match name {
            "mapa" => self.mapa(m, ops)?,
            "getctarank" => {
                m.space();
                m.ty()?;
                m.finish()?;
                let d = self.dst(operand(ops, 0)?, Scalar::U32)?;
                let a = self.bits(0, false);
                self.emit(Op::Mov32 { d, a });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The address that stands for `a` in the block of that rank: of one block, the same.
    fn mapa(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.space();
        let ty = m.ty()?;
        m.finish()?;
        let [d, a, rank] = ops else { return invalid("mapa takes an address and a rank") };
        self.src(rank, Scalar::U32)?;
        let d = self.dst(d, ty)?;
        let a = self.src(a, ty)?;
        self.emit(if ty.size() == 8 { Op::Mov64 { d, a } } else { Op::Mov32 { d, a } });
        Ok(())
    }
}
