//! Logic, shifts, bit fields, and the products of packed bytes.

use super::emit::{Lanewise, operand};
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{IntOp, LaneFn, Mode, PrmtMode, Scalar, int_op};

const WORD: Scalar = Scalar::B32;

/// An operation of this family.
fn lanewise(f: LaneFn, immediate: u32, result: Scalar, types: [Scalar; 3]) -> Lanewise {
    Lanewise { f, mode: Mode { immediate, ..Mode::default() }, result, types, work: Work::of(Class::Integer) }
}

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn lop3(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        match m.bool_op() {
            None => {}
            Some(BoolOp::Xor) => return invalid("lop3 combines its result with a predicate by .or and .and only"),
            Some(op) => return self.lop3_with_predicate(op, m, ops),
        }
        m.ty()?;
        m.finish()?;
        let Some(Operand::Int(table)) = ops.get(4) else { return invalid("lop3 needs a table of 8 bits") };
        if ops.len() != 5 {
            return invalid("lop3 takes three sources and a table");
        }
        let (d, [a, b, c]) = self.rows(WORD, [WORD; 3], 3, &ops[..4])?;
        self.emit(Op::Lop3 { d, a, b, c, table: *table as u8 });
        Ok(())
    }

    /// `lop3.or.b32 d|p, a, b, c, table, q`: p = (d ≠ 0) or q.
    fn lop3_with_predicate(&mut self, op: BoolOp, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ty()?;
        m.finish()?;
        let [Operand::Pair(d, p), a, b, c, Operand::Int(table), q] = ops else {
            return invalid("lop3 with a predicate result takes d|p, three sources, a table and a predicate");
        };
        let [a, b, c] = [self.src(a, WORD)?, self.src(b, WORD)?, self.src(c, WORD)?];
        let (q, not_b) = self.predicate(q)?;
        let d = self.dst(d, WORD)?;
        self.emit(Op::Lop3 { d, a, b, c, table: *table as u8 });
        if let Some(p) = self.predicate_or_sink(p)? {
            self.predicates += 1;
            let held = self.predicates - 1;
            self.emit(Op::RowToPred { d: held, a: d });
            self.emit(Op::PredLogic { op, d: p, a: held, b: q, not_a: false, not_b });
        }
        Ok(())
    }

    pub(super) fn funnel_shift(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let op = m.one(|name| match name {
            "l" => Some(IntOp::ShfL),
            "r" => Some(IntOp::ShfR),
            _ => None,
        });
        let Some(op) = op else { return unsupported("shf without a direction") };
        let wrap = u32::from(m.flag("wrap"));
        m.flag("clamp");
        m.ty()?;
        m.finish()?;
        let Some(f) = int_op(op, WORD) else { return unsupported("shf") };
        self.emit_map(&lanewise(f, wrap, WORD, [WORD; 3]), op.sources(), ops)
    }

    pub(super) fn dot_product(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let high = m.flag("hi");
        m.flag("lo");
        let (a_signed, b_signed) = (m.ty()?.signed(), m.ty()?.signed());
        m.finish()?;
        let op =
            if name == "dp4a" { IntOp::Dp4a { a_signed, b_signed } } else { IntOp::Dp2a { high, a_signed, b_signed } };
        let ty = if a_signed || b_signed { Scalar::S32 } else { Scalar::U32 };
        let Some(f) = int_op(op, ty) else { return unsupported(name) };
        self.emit_map(&lanewise(f, 0, WORD, [WORD; 3]), op.sources(), ops)
    }

    /// `bfi` has four sources: position and length share the third of its operation.
    pub(super) fn bit_field_insert(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ty = m.ty()?;
        m.finish()?;
        let (Some(f), [d, a, b, at, length]) = (int_op(IntOp::Bfi, ty), ops) else {
            return invalid("bfi takes four sources");
        };
        let field = self.temporary(true);
        let parts = vec![self.src(at, WORD)?, self.src(length, WORD)?];
        self.emit(Op::Pack(Box::new(Pack { d: field, d_wide: true, bits: 32, parts, part_wide: false })));
        let d = self.dst(d, ty)?;
        let rows = [self.src(a, ty)?, self.src(b, ty)?, field];
        self.emit(lanewise(f, 0, ty, [ty, ty, Scalar::B64]).op(d, rows));
        Ok(())
    }

    pub(super) fn bitwise(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let op = match name {
            "and" => IntOp::And,
            "or" => IntOp::Or,
            "xor" => IntOp::Xor,
            "not" => IntOp::Not,
            "cnot" => IntOp::Cnot,
            "shl" => IntOp::Shl,
            "shr" => IntOp::Shr,
            "prmt" => IntOp::Prmt,
            "bfe" => IntOp::Bfe,
            "bfind" => IntOp::Bfind,
            "brev" => IntOp::Brev,
            "clz" => IntOp::Clz,
            "popc" => IntOp::Popc,
            "fns" => IntOp::Fns,
            "bmsk" => IntOp::Bmsk,
            "szext" => IntOp::Szext,
            _ => return unsupported(format!("the instruction {name}")),
        };
        let immediate = match op {
            IntOp::Prmt => m.one(prmt_mode).unwrap_or_default() as u32,
            IntOp::Bfind => u32::from(m.flag("shiftamt")),
            IntOp::Bmsk | IntOp::Szext => {
                m.flag("clamp");
                u32::from(m.flag("wrap"))
            }
            _ => 0,
        };
        let ty = m.ty()?;
        m.finish()?;
        if ty == Scalar::Pred {
            return self.predicate_logic(name, op, ops);
        }
        let (result, types) = match op {
            IntOp::Shl | IntOp::Shr | IntOp::Bfe => (ty, [ty, WORD, WORD]),
            IntOp::Bfind | IntOp::Clz | IntOp::Popc => (WORD, [ty; 3]),
            IntOp::Fns | IntOp::Bmsk | IntOp::Szext => (WORD, [WORD; 3]),
            _ => (ty, [ty; 3]),
        };
        let Some(f) = int_op(op, ty) else { return unsupported(format!("{name} of .{}", ty.name())) };
        let (d, rows) = self.rows(result, types, op.sources(), ops)?;
        let [a, b, _] = rows;
        self.emit(match (op, ty.size(), ty.signed()) {
            (IntOp::And, 4, _) => Op::And32 { d, a, b },
            (IntOp::Or, 4, _) => Op::Or32 { d, a, b },
            (IntOp::Xor, 4, _) => Op::Xor32 { d, a, b },
            (IntOp::Not, 4, _) => Op::Not32 { d, a },
            (IntOp::Shl, 4, _) => Op::Shl32 { d, a, b },
            (IntOp::Shr, 4, false) => Op::ShrU32 { d, a, b },
            (IntOp::Shr, 4, true) => Op::ShrS32 { d, a, b },
            (IntOp::And, 8, _) => Op::And64 { d, a, b },
            (IntOp::Or, 8, _) => Op::Or64 { d, a, b },
            (IntOp::Xor, 8, _) => Op::Xor64 { d, a, b },
            (IntOp::Not, 8, _) => Op::Not64 { d, a },
            (IntOp::Shl, 8, _) => Op::Shl64 { d, a, b },
            (IntOp::Shr, 8, false) => Op::ShrU64 { d, a, b },
            (IntOp::Shr, 8, true) => Op::ShrS64 { d, a, b },
            _ => lanewise(f, immediate, result, types).op(d, rows),
        });
        Ok(())
    }

    fn predicate_logic(&mut self, name: &str, op: IntOp, ops: &[Operand<'a>]) -> Lower<()> {
        let Some(d) = self.predicate_or_sink(operand(ops, 0)?)? else { return Ok(()) };
        let (a, not_a) = self.predicate(operand(ops, 1)?)?;
        let op = match op {
            IntOp::Not => {
                self.emit(Op::PredMov { d, a, negated: !not_a });
                return Ok(());
            }
            IntOp::And => BoolOp::And,
            IntOp::Or => BoolOp::Or,
            IntOp::Xor => BoolOp::Xor,
            _ => return unsupported(format!("{name} of predicates")),
        };
        let (b, not_b) = self.predicate(operand(ops, 2)?)?;
        self.emit(Op::PredLogic { op, d, a, b, not_a, not_b });
        Ok(())
    }
}

fn prmt_mode(name: &str) -> Option<PrmtMode> {
    Some(match name {
        "f4e" => PrmtMode::Forward4,
        "b4e" => PrmtMode::Backward4,
        "rc8" => PrmtMode::Replicate8,
        "ecl" => PrmtMode::EdgeLeft,
        "ecr" => PrmtMode::EdgeRight,
        "rc16" => PrmtMode::Replicate16,
        _ => return None,
    })
}
