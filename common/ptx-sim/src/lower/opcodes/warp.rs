//! Instructions that the lanes of a warp execute together, except those for matrices.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{FloatOp, Mode, Scalar, float_op};

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn activemask(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("b32");
        m.finish()?;
        let d = self.dst(operand(ops, 0)?, Scalar::B32)?;
        self.emit(Op::Activemask { d });
        Ok(())
    }

    pub(super) fn shfl(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let sync = m.flag("sync");
        let mode = m.one(|name| {
            Some(match name {
                "up" => ShflMode::Up,
                "down" => ShflMode::Down,
                "bfly" => ShflMode::Bfly,
                "idx" => ShflMode::Idx,
                _ => return None,
            })
        });
        let Some(mode) = mode else { return unsupported("shfl of this kind") };
        m.flag("b32");
        m.finish()?;
        if !sync {
            return unsupported("shfl without .sync, which PTX 6.0 replaced");
        }
        let [d, a, b, c, members] = ops else { return invalid("shfl.sync takes four sources") };
        let (d, valid) = match d {
            Operand::Pair(d, p) => (self.dst(d, Scalar::B32)?, self.predicate_or_sink(p)?),
            d => (self.dst(d, Scalar::B32)?, None),
        };
        let word = Scalar::B32;
        let (a, b, c) = (self.src(a, word)?, self.src(b, word)?, self.src(c, word)?);
        let members = self.src(members, word)?;
        self.together(Some(members), TogetherOp::Shfl { mode, d, valid, a, b, c })
    }

    pub(super) fn vote(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let sync = m.flag("sync");
        let mode = m.one(|name| {
            Some(match name {
                "all" => VoteMode::All,
                "any" => VoteMode::Any,
                "uni" => VoteMode::Uni,
                "ballot" => VoteMode::Ballot,
                _ => return None,
            })
        });
        let Some(mode) = mode else { return unsupported("vote of this kind") };
        m.ignore(&["pred", "b32"]);
        m.finish()?;
        if !sync {
            return unsupported("vote without .sync, which PTX 6.0 replaced");
        }
        let [d, a, members] = ops else { return invalid("vote.sync takes a predicate and a mask") };
        let (a, negated) = self.predicate(a)?;
        let members = self.src(members, Scalar::B32)?;
        if mode == VoteMode::Ballot {
            let d = self.dst(d, Scalar::B32)?;
            return self.together(Some(members), TogetherOp::Vote { mode, d, a, negated });
        }
        let p = self.predicate_or_sink(d)?;
        let held = self.temporary(false);
        self.together(Some(members), TogetherOp::Vote { mode, d: held, a, negated })?;
        if let Some(p) = p {
            self.emit(Op::RowToPred { d: p, a: held });
        }
        Ok(())
    }

    pub(super) fn match_lanes(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sync");
        let all = m.flag("all");
        let any = m.flag("any");
        let ty = m.ty()?;
        m.finish()?;
        if all == any {
            return unsupported("match of this kind");
        }
        let [d, a, members] = ops else { return invalid("match.sync takes a value and a mask") };
        let wide = ty.size() == 8;
        let a = self.src(a, ty)?;
        let members = self.src(members, Scalar::B32)?;
        let op = match d {
            Operand::Pair(d, p) if all => {
                let d = self.dst(d, Scalar::B32)?;
                TogetherOp::MatchAll { d, all: self.predicate_or_sink(p)?, a, wide }
            }
            d if all => TogetherOp::MatchAll { d: self.dst(d, Scalar::B32)?, all: None, a, wide },
            d => TogetherOp::MatchAny { d: self.dst(d, Scalar::B32)?, a, wide },
        };
        self.together(Some(members), op)
    }

    pub(super) fn redux(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sync");
        let Some(op) = m.one(|name| ["add", "min", "max", "and", "or", "xor"].into_iter().find(|op| *op == name))
        else {
            return unsupported("redux of this kind");
        };
        let ty = m.ty()?;
        let (abs, propagate_nan) = (m.flag("abs"), m.flag("NaN"));
        m.finish()?;
        let float = match (op, ty) {
            ("min", Scalar::F32) => float_op(FloatOp::Min, ty),
            ("max", Scalar::F32) => float_op(FloatOp::Max, ty),
            _ if ty.float() || abs || propagate_nan => {
                return unsupported(format!("redux of .{} in this form", ty.name()));
            }
            _ => None,
        };
        let mode = Mode { propagate_nan, ..Mode::default() };
        let op = match (float, op, ty.signed()) {
            (Some(f), ..) => ReduxOp::Float { f, max: op == "max", mode, abs },
            (_, "add", _) => ReduxOp::Add,
            (_, "min", true) => ReduxOp::MinS,
            (_, "min", false) => ReduxOp::MinU,
            (_, "max", true) => ReduxOp::MaxS,
            (_, "max", false) => ReduxOp::MaxU,
            (_, "and", _) => ReduxOp::And,
            (_, "or", _) => ReduxOp::Or,
            _ => ReduxOp::Xor,
        };
        let [d, a, members] = ops else { return invalid("redux.sync takes a value and a mask") };
        let d = self.dst(d, ty)?;
        let a = self.src(a, ty)?;
        let members = self.src(members, Scalar::B32)?;
        self.together(Some(members), TogetherOp::Redux { op, d, a })
    }

    pub(super) fn elect(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sync");
        m.finish()?;
        let [Operand::Pair(d, p), members] = ops else { return invalid("elect.sync takes d|p and a mask") };
        let d = match d.as_ref() {
            Operand::Name("_") => None,
            d => Some(self.dst(d, Scalar::B32)?),
        };
        let Some(elected) = self.predicate_or_sink(p)? else { return invalid("elect.sync needs its predicate") };
        let members = self.src(members, Scalar::B32)?;
        self.together(Some(members), TogetherOp::Elect { d, elected })
    }
}
