//! Comparisons, selection and tests.

use super::emit::{Lanewise, UNUSED};
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{Compare, FloatOp, FloatProperty, Mode, Relation, Scalar, compare, float_op};

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn selp(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ty = m.ty()?;
        m.finish()?;
        let [d, a, b, p] = ops else { return invalid("selp takes two sources and a predicate") };
        let d = self.dst(d, ty)?;
        let (a, b) = (self.src(a, ty)?, self.src(b, ty)?);
        let (p, negated) = self.predicate(p)?;
        self.emit(if ty.size() == 8 { Op::Selp64 { d, a, b, p, negated } } else { Op::Selp32 { d, a, b, p, negated } });
        Ok(())
    }

    /// `slct`: `a` where `c ≥ 0`, otherwise `b`.
    pub(super) fn slct(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ftz = m.flag("ftz");
        let ty = m.ty()?;
        let selector = m.ty()?;
        m.finish()?;
        let [d, a, b, c] = ops else { return invalid("slct takes three sources") };
        let d = self.dst(d, ty)?;
        let (a, b, c) = (self.src(a, ty)?, self.src(b, ty)?, self.src(c, selector)?);
        let Some(compare) = compare(Compare::Ge, selector) else {
            return unsupported(format!("slct with a .{} selector", selector.name()));
        };
        self.predicates += 1;
        let p = self.predicates - 1;
        let zero = self.bits(0, false);
        let result = SetResult::Predicates { p: Some(p), q: None };
        let bytes = selector.size() as u8;
        let class = Class::of(&[ty, selector]);
        let combine = None;
        self.emit(Op::SetpFull(Box::new(SetpFull { class, compare, ftz, a: c, b: zero, bytes, combine, result })));
        let negated = false;
        self.emit(if ty.size() == 8 { Op::Selp64 { d, a, b, p, negated } } else { Op::Selp32 { d, a, b, p, negated } });
        Ok(())
    }

    pub(super) fn set(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ftz = m.flag("ftz");
        let Some(cmp) = m.one(compare_named) else { return unsupported("a comparison of this kind") };
        let combine = m.bool_op();
        let to = if name == "set" { Some(m.ty()?) } else { None };
        let ty = m.ty()?;
        m.finish()?;
        if ops.len() != 3 + usize::from(combine.is_some()) {
            return invalid(format!(
                "{name} takes two sources{}",
                if combine.is_some() { " and a predicate" } else { "" }
            ));
        }
        let Some(function) = compare(cmp, ty) else {
            return unsupported(format!("{name} of .{}", ty.name()));
        };
        let (a, b) = (self.src(&ops[1], ty)?, self.src(&ops[2], ty)?);
        let combine = match combine {
            Some(op) => {
                let (p, negated) = self.predicate(&ops[3])?;
                Some((op, p, negated))
            }
            None => None,
        };
        let halves = matches!(ty, Scalar::F16x2 | Scalar::Bf16x2);
        let result = match to {
            Some(to) if halves => {
                let d = self.dst(&ops[0], Scalar::B32)?;
                match to {
                    Scalar::F16x2 => SetResult::RowPair { d, when_true: 0x3c00 },
                    Scalar::Bf16x2 => SetResult::RowPair { d, when_true: 0x3f80 },
                    Scalar::U32 | Scalar::S32 => SetResult::RowPair { d, when_true: 0xffff },
                    _ => return unsupported(format!("set.{}.{}", to.name(), ty.name())),
                }
            }
            Some(to) => {
                let when_true = match to {
                    Scalar::F32 => 0x3f80_0000,
                    Scalar::F16 => 0x3c00,
                    Scalar::Bf16 => 0x3f80,
                    Scalar::U16 | Scalar::S16 => 0xffff,
                    Scalar::U32 | Scalar::S32 => u32::MAX,
                    _ => return unsupported(format!("set.{}.{}", to.name(), ty.name())),
                };
                SetResult::Row { d: self.dst(&ops[0], to)?, when_true }
            }
            None => {
                let (p, q) = match &ops[0] {
                    Operand::Pair(p, q) => (self.predicate_or_sink(p)?, self.predicate_or_sink(q)?),
                    p => (self.predicate_or_sink(p)?, None),
                };
                if halves { SetResult::PredicatePair { p, q } } else { SetResult::Predicates { p, q } }
            }
        };
        if let (SetResult::Predicates { p: Some(d), q: None }, None, false) = (&result, &combine, ftz) {
            let d = *d;
            let hot = ordering(cmp).and_then(|cmp| {
                Some(match ty {
                    Scalar::U32 | Scalar::B32 => Op::SetpU32 { cmp, d, a, b },
                    Scalar::S32 => Op::SetpS32 { cmp, d, a, b },
                    Scalar::U64 | Scalar::B64 => Op::SetpU64 { cmp, d, a, b },
                    Scalar::S64 => Op::SetpS64 { cmp, d, a, b },
                    // `.ne` of floats is ordered: NaN differs from nothing. Rust's `!=` is not.
                    Scalar::F32 if cmp != Relation::Ne => Op::SetpF32 { cmp, d, a, b },
                    _ => return None,
                })
            });
            if let Some(op) = hot {
                self.emit(op);
                return Ok(());
            }
        }
        let bytes = ty.size() as u8;
        let class = Class::of(&[to.unwrap_or(ty), ty]);
        self.emit(Op::SetpFull(Box::new(SetpFull { class, compare: function, ftz, a, b, bytes, combine, result })));
        Ok(())
    }

    pub(super) fn testp(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let property = m.one(|name| {
            Some(match name {
                "finite" => FloatProperty::Finite,
                "infinite" => FloatProperty::Infinite,
                "number" => FloatProperty::Number,
                "notanumber" => FloatProperty::NotANumber,
                "normal" => FloatProperty::Normal,
                "subnormal" => FloatProperty::Subnormal,
                _ => return None,
            })
        });
        let Some(property) = property else { return unsupported("a property of this kind") };
        let ty = m.ty()?;
        m.finish()?;
        let Some(f) = float_op(FloatOp::Testp(property), ty) else {
            return unsupported(format!("testp of .{}", ty.name()));
        };
        let [p, a] = ops else { return invalid("testp takes one source") };
        let Some(p) = self.predicate_or_sink(p)? else { return Ok(()) };
        let a = self.src(a, ty)?;
        let held = self.temporary(false);
        let work = Work::float(FloatOp::Testp(property), ty);
        let lanewise = Lanewise { f, mode: Mode::default(), result: Scalar::B32, types: [ty; 3], work };
        self.emit(lanewise.op(held, [a, UNUSED, UNUSED]));
        self.emit(Op::RowToPred { d: p, a: held });
        Ok(())
    }
}

fn compare_named(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" => Compare::Lt,
        "le" => Compare::Le,
        "gt" => Compare::Gt,
        "ge" => Compare::Ge,
        "lo" => Compare::Lo,
        "ls" => Compare::Ls,
        "hi" => Compare::Hi,
        "hs" => Compare::Hs,
        "equ" => Compare::Equ,
        "neu" => Compare::Neu,
        "ltu" => Compare::Ltu,
        "leu" => Compare::Leu,
        "gtu" => Compare::Gtu,
        "geu" => Compare::Geu,
        "num" => Compare::Num,
        "nan" => Compare::Nan,
        _ => return None,
    })
}

/// The comparison, if all ordered types have it; for integers, the unsigned names mean the same.
fn ordering(cmp: Compare) -> Option<Relation> {
    Some(match cmp {
        Compare::Eq => Relation::Eq,
        Compare::Ne => Relation::Ne,
        Compare::Lt | Compare::Lo => Relation::Lt,
        Compare::Le | Compare::Ls => Relation::Le,
        Compare::Gt | Compare::Hi => Relation::Gt,
        Compare::Ge | Compare::Hs => Relation::Ge,
        _ => return None,
    })
}
