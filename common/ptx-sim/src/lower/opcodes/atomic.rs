//! Atomics and reductions on memory.

use super::emit::UNUSED;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{FloatOp, Mode, Scalar, float_op};

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn atomic(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if name == "red" && m.0.first() == Some(&"async") {
            return self.words_async(m, ops, true);
        }
        let scope = m.scope(Scope::Device);
        let order = match m.order() {
            Order::Weak => Order::Relaxed,
            order => order,
        };
        let noftz = m.flag("noftz");
        let count = m.one(|name| match name {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        });
        if let Some(space) = m.0.iter().find(|name| matches!(**name, "const" | "local" | "param")) {
            return invalid(format!("{name} has no .{space}: atomics are on global and shared memory"));
        }
        let space = m.space().unwrap_or(MemSpace::Generic);
        m.ignore_hints();
        let Some(op) = m.one(|name| {
            ["and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"].into_iter().find(|op| *op == name)
        }) else {
            return unsupported("an atomic operation of this kind");
        };
        let ty = m.ty()?;
        m.finish()?;
        let adds = op == "add";
        let is_half = matches!(ty, Scalar::F16 | Scalar::F16x2 | Scalar::Bf16 | Scalar::Bf16x2);
        if is_half && adds && !noftz {
            return invalid(format!("{name}.add of .{} needs the modifier .noftz: subnormal numbers stay", ty.name()));
        }
        if !suits(op, ty) {
            return invalid(format!("{name}.{op} has no .{}", ty.name()));
        }
        let op = atomic_op(op, ty)?;
        if name == "red" && matches!(op, AtomOp::Exch | AtomOp::Cas) {
            return invalid("red has no .exch and no .cas: what they do is of use with the old value only");
        }
        if ty.size() == 1 || ty.size() == 16 && !matches!(op, AtomOp::Exch | AtomOp::Cas) {
            return unsupported(format!("atomics of .{}", ty.name()));
        }
        let returns = name == "atom";
        if let Some(count) = count {
            return self.vector_atomic(name, space, (order, scope), (op, ty, adds), count, ops);
        }
        let result = match ops.first() {
            Some(Operand::Name("_")) => None,
            Some(d) if returns => Some(self.dst(d, ty)?),
            _ => None,
        };
        let sources = &ops[usize::from(returns).min(ops.len())..];
        let expected = if matches!(op, AtomOp::Cas) { 3 } else { 2 };
        if sources.len() < expected {
            return invalid(format!("{name} needs {} operands", expected + usize::from(returns)));
        }
        let address = self.address(&sources[0], space)?;
        let a = self.src(&sources[1], ty)?;
        let b = if matches!(op, AtomOp::Cas) { self.src(&sources[2], ty)? } else { UNUSED };
        self.emit(Op::Atomic(Box::new(Atomic {
            address,
            op,
            order,
            scope,
            flushes: ty == Scalar::F32 && adds,
            mode: Mode::default(),
            bytes: ty.size() as u8,
            result,
            more: Vec::new(),
            a,
            b,
        })));
        Ok(())
    }

    /// `atom.global.v4.f32.add`: each element on its own, all at one address.
    fn vector_atomic(
        &mut self,
        name: &str,
        space: MemSpace,
        (order, scope): (Order, Scope),
        (op, ty, adds): (AtomOp, Scalar, bool),
        count: u32,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let bytes = ty.size() * count;
        if !matches!(op, AtomOp::Float(_)) || space == MemSpace::Shared || bytes > 16 || ty == Scalar::F64 {
            return unsupported(format!("{name} of vectors of {count} .{} in this form", ty.name()));
        }
        let count = count as usize;
        let (results, address, a) = match ops {
            [d, address, a, ..] if name == "atom" => (Some(d), address, a),
            [address, a, ..] if name == "red" => (None, address, a),
            _ => return invalid(format!("{name} needs an address and a vector")),
        };
        let a = self.vector(a, ty, count, false)?;
        let results: Vec<Option<R>> = match results {
            None | Some(Operand::Name("_")) => vec![None; count],
            Some(d) => self.vector(d, ty, count, true)?.into_iter().map(Some).collect(),
        };
        let address = self.address(address, space)?;
        let mut elements = results.into_iter().zip(a);
        let Some((result, a)) = elements.next() else { return invalid("a vector has elements") };
        self.emit(Op::Atomic(Box::new(Atomic {
            address,
            op,
            order,
            scope,
            flushes: ty == Scalar::F32 && adds,
            mode: Mode::default(),
            bytes: ty.size() as u8,
            result,
            more: elements.collect(),
            a,
            b: UNUSED,
        })));
        Ok(())
    }
}

/// Whether an operation is one of values of that type (PTX ISA, "atom"): bits have no order and no sum.
fn suits(op: &str, ty: Scalar) -> bool {
    use Scalar::*;
    match op {
        "and" | "or" | "xor" => matches!(ty, B32 | B64),
        "exch" => matches!(ty, B32 | B64 | B128),
        "cas" => matches!(ty, B16 | B32 | B64 | B128),
        "inc" | "dec" => ty == U32,
        _ => matches!(ty, U32 | S32 | U64) || ty.float() || ty == S64 && op != "add",
    }
}

/// The operation of that name on elements of a type.
pub(super) fn atomic_op(name: &str, ty: Scalar) -> Lower<AtomOp> {
    let float = |op| match float_op(op, ty) {
        Some(f) => Ok(AtomOp::Float(f)),
        None => unsupported(format!("atomics of .{}", ty.name())),
    };
    Ok(match (name, ty) {
        ("add", ty) if ty.float() => float(FloatOp::Add)?,
        ("min", ty) if ty.float() => float(FloatOp::Min)?,
        ("max", ty) if ty.float() => float(FloatOp::Max)?,
        ("and", _) => AtomOp::And,
        ("or", _) => AtomOp::Or,
        ("xor", _) => AtomOp::Xor,
        ("cas", _) => AtomOp::Cas,
        ("exch", _) => AtomOp::Exch,
        ("add", _) => AtomOp::Add,
        ("inc", Scalar::U32) => AtomOp::Inc,
        ("dec", Scalar::U32) => AtomOp::Dec,
        ("min", ty) => {
            if ty.signed() {
                AtomOp::MinS
            } else {
                AtomOp::MinU
            }
        }
        ("max", ty) => {
            if ty.signed() {
                AtomOp::MaxS
            } else {
                AtomOp::MaxU
            }
        }
        (op, _) => return unsupported(format!("{op} of .{}", ty.name())),
    })
}
