//! Asynchronous copies to shared memory.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, Register, invalid, unsupported};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn cp(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.0.contains(&"bulk") {
            return self.bulk(m, ops);
        }
        if !m.flag("async") {
            return unsupported("a copy of this kind");
        }
        if m.flag("mbarrier") {
            m.flag("arrive");
            let op = MbarrierOp::ArriveWhenCopied { increments: !m.flag("noinc") };
            let space = m.space().unwrap_or(MemSpace::Generic);
            m.flag("b64");
            m.finish()?;
            return self.emit_mbarrier(operand(ops, 0)?, space, op, (Order::Release, Scope::Block));
        }
        if m.flag("commit_group") {
            return self.plain(m, Op::CpAsyncCommit);
        }
        if m.flag("wait_all") {
            return self.plain(m, Op::CpAsyncWait { n: None });
        }
        if m.flag("wait_group") {
            let Some(Operand::Int(n)) = ops.first() else { return invalid("wait_group takes a number") };
            return self.plain(m, Op::CpAsyncWait { n: Some(*n as u32) });
        }
        let past_l1 = m.0.contains(&"cg");
        m.ignore_hints();
        if m.space() != Some(MemSpace::Shared) || m.space() != Some(MemSpace::Global) {
            return unsupported("cp.async between other spaces than shared and global");
        }
        m.finish()?;
        let [dst, src, Operand::Int(bytes), rest @ ..] = ops else {
            return invalid("cp.async takes two addresses and a size");
        };
        if !matches!(bytes, 4 | 8 | 16) {
            return invalid("cp.async copies 4, 8 or 16 bytes");
        }
        if past_l1 && *bytes != 16 {
            return invalid("cp.async.cg copies 16 bytes; .ca copies fewer");
        }
        let dst = self.address(dst, MemSpace::Shared)?;
        let src = self.address(src, MemSpace::Global)?;
        let mut src_bytes = None;
        let mut ignore = None;
        for operand in rest {
            match operand {
                Operand::Name(name) if matches!(self.register_named(name)?, Some(Register::Predicate(_))) => {
                    ignore = Some(self.predicate(operand)?);
                }
                Operand::Not(_) => ignore = Some(self.predicate(operand)?),
                // a 64-bit register is a cache policy
                Operand::Name(name) if matches!(self.register_named(name)?, Some(Register::Row { ty, .. }) if ty.size() == 8) =>
                    {}
                _ => src_bytes = Some(self.src(operand, Scalar::B32)?),
            }
        }
        self.emit(Op::CpAsync(Box::new(CpAsync { dst, src, bytes: *bytes as u8, src_bytes, ignore })));
        Ok(())
    }
}
