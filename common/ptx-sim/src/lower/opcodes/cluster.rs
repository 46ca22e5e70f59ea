//! Addresses within a cluster, and clusters that do not begin any more.

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

    /// `clusterlaunchcontrol.try_cancel`: asks for a cluster that has not begun. `query_cancel`: what the answer says.
    pub(super) fn cluster_launch_control(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["b128"]);
        if m.flag("try_cancel") {
            let is_whole = m.flag("async") && m.flag("mbarrier::complete_tx::bytes");
            let multicast = m.flag("multicast::cluster::all").then_some(Multicast::All);
            m.space();
            m.finish()?;
            let ([to, barrier], true) = (ops, is_whole) else {
                return invalid("try_cancel.async takes an address, and an mbarrier for .mbarrier::complete_tx::bytes");
            };
            let shared = self.address(to, MemSpace::Cluster)?;
            let barrier = Some(self.address(barrier, MemSpace::Cluster)?);
            let (route, shape) = (Route::SharedToShared, BulkShape::Response);
            let bulk = Bulk { route, shared, other: shared, shape, barrier, pair: false, multicast, reduction: None };
            self.emit(Op::Bulk(Box::new(bulk)));
            return Ok(());
        }
        let wants_all = m.flag("get_first_ctaid");
        let axis = m.one(|name| name.strip_prefix("get_first_ctaid::").and_then(|axis| "xyz".find(axis)));
        let asks = m.flag("is_canceled");
        m.ignore(&["query_cancel", "pred", "v4", "b32"]);
        m.finish()?;
        let [d, response] = ops else { return invalid("query_cancel takes a destination and a response") };
        let halves = self.halves(response, false)?;
        let word = |lowering: &mut Self, at: usize, d: R| {
            lowering.emit(Op::Unpack64 { d, a: halves[at / 2], shift: at as u8 % 2 * 32, mask: u32::MAX });
        };
        match (d, axis) {
            (_, Some(axis)) if !asks && !wants_all => {
                let d = self.dst(d, Scalar::B32)?;
                word(self, axis, d);
            }
            (Operand::Vector(items), None) if wants_all && !asks && items.len() == 4 => {
                for (at, item) in items.iter().enumerate().filter(|(_, item)| !matches!(item, Operand::Name("_"))) {
                    let d = self.dst(item, Scalar::B32)?;
                    word(self, at, d);
                }
            }
            (d, None) if asks && !wants_all => {
                let Operand::Name(d) = d else { return invalid("is_canceled.pred writes a predicate") };
                let (held, d) = (self.temporary(false), self.predicate_named(d)?);
                word(self, 3, held);
                self.emit(Op::RowToPred { d, a: held });
            }
            _ => {
                return invalid(
                    "query_cancel is .is_canceled.pred, .get_first_ctaid.v4 or .get_first_ctaid::x, ::y or ::z",
                );
            }
        }
        Ok(())
    }
}
