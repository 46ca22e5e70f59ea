//! Barriers that are objects in shared memory.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn mbarrier(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let Some(action) = m.one(|name| {
            let actions = [
                "init",
                "inval",
                "arrive",
                "arrive_drop",
                "test_wait",
                "try_wait",
                "pending_count",
                "expect_tx",
                "complete_tx",
            ];
            actions.into_iter().find(|action| *action == name)
        }) else {
            return unsupported("an mbarrier instruction of this kind");
        };
        let expects = m.flag("expect_tx");
        let parity = m.flag("parity");
        let no_complete = m.flag("noComplete");
        let order = m.order();
        let scope = m.scope(Scope::Block);
        let space = m.space().unwrap_or(MemSpace::Generic);
        m.ignore_hints();
        m.flag("b64");
        m.finish()?;
        let (address, op, order) = match action {
            "pending_count" => return self.pending_count(ops),
            "init" => {
                let [address, count] = ops else { return invalid("mbarrier.init takes an address and a count") };
                (address, MbarrierOp::Init { count: self.src(count, Scalar::U32)? }, Order::Weak)
            }
            "expect_tx" | "complete_tx" => {
                let [address, bytes] = ops else {
                    return invalid(format!("mbarrier.{action} takes an address and a number of bytes"));
                };
                let bytes = self.src(bytes, Scalar::U32)?;
                (address, MbarrierOp::Transactions { bytes, complete: action == "complete_tx" }, Order::Relaxed)
            }
            "inval" => (operand(ops, 0)?, MbarrierOp::Inval, Order::Weak),
            "arrive" | "arrive_drop" => {
                let (d, address, count) = match ops {
                    // PTX ISA 9.0: without a state
                    [address @ Operand::Address(..)] => (&Operand::Name("_"), address, None),
                    [address @ Operand::Address(..), count] => (&Operand::Name("_"), address, Some(count)),
                    [d, address] => (d, address, None),
                    [d, address, count] => (d, address, Some(count)),
                    _ => return invalid(format!("mbarrier.{action} takes a state, an address and a count")),
                };
                let d = match d {
                    Operand::Name("_") => None,
                    d => Some(self.dst(d, Scalar::B64)?),
                };
                let count = count.map(|count| self.src(count, Scalar::U32)).transpose()?;
                let (count, expect) = match (expects, count) {
                    (false, count) => (count, None),
                    (true, Some(bytes)) => (None, Some(bytes)),
                    (true, None) => return invalid("mbarrier.arrive.expect_tx takes a number of bytes"),
                };
                let drop = action == "arrive_drop";
                let order = if order == Order::Relaxed { order } else { Order::Release };
                (address, MbarrierOp::Arrive { d, count, drop, no_complete, expect }, order)
            }
            _ => {
                let [p, address, phase, ..] = ops else {
                    return invalid(format!("mbarrier.{action} takes a predicate, an address and a phase"));
                };
                let p = self.predicate_or_sink(p)?;
                let phase = if parity {
                    MbarrierPhase::Parity(self.src(phase, Scalar::U32)?)
                } else {
                    MbarrierPhase::State(self.src(phase, Scalar::B64)?)
                };
                let order = if order == Order::Relaxed { order } else { Order::Acquire };
                (address, MbarrierOp::Wait { p, phase }, order)
            }
        };
        self.emit_mbarrier(address, space, op, (order, scope))
    }

    pub(super) fn emit_mbarrier(
        &mut self,
        address: &Operand<'a>,
        space: MemSpace,
        op: MbarrierOp,
        (order, scope): (Order, Scope),
    ) -> Lower<()> {
        let anywhere = matches!(op, MbarrierOp::Arrive { d: None, .. } | MbarrierOp::Transactions { .. });
        if space == MemSpace::Cluster && !anywhere {
            return invalid("an mbarrier of another block takes arrivals without a state, and transactions");
        }
        let address = self.address(address, space)?;
        self.emit(Op::Mbarrier(Box::new(Mbarrier { address, op, order, scope })));
        Ok(())
    }

    /// `mbarrier.pending_count`: the arrivals missing in a state, from its low bits.
    fn pending_count(&mut self, ops: &[Operand<'a>]) -> Lower<()> {
        let [d, state] = ops else { return invalid("mbarrier.pending_count takes a state") };
        let a = self.src(state, Scalar::B64)?;
        let d = self.dst(d, Scalar::U32)?;
        self.emit(Op::Unpack64 { d, a, shift: 0, mask: MBARRIER_COUNTS });
        Ok(())
    }
}
