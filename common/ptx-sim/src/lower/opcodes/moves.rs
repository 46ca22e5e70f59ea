//! Moves, packing and unpacking.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::operands::special;
use crate::lower::symbols::{Lower, invalid};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn mov(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let vector = m.one(|name| match name {
            "v2" => Some(2),
            "v4" => Some(4),
            _ => None,
        });
        let ty = m.ty()?;
        m.finish()?;
        let [d, a] = ops else { return invalid("mov takes a destination and a source") };
        if ty == Scalar::Pred {
            let Some(d) = self.predicate_or_sink(d)? else { return Ok(()) };
            let op = match a {
                Operand::Int(value) => Op::PredSet { d, value: *value != 0 },
                Operand::Name(name) if special(name).is_some() => {
                    let a = self.named_value(name, 0, false)?;
                    Op::RowToPred { d, a }
                }
                _ => {
                    let (a, negated) = self.predicate(a)?;
                    Op::PredMov { d, a, negated }
                }
            };
            self.emit(op);
            return Ok(());
        }
        if let Some(count) = vector {
            return self.mov_vector(count, ty, d, a);
        }
        if ty == Scalar::B128 {
            return self.mov128(d, a);
        }
        if let Some((rows, part)) = self.vector_register(d)? {
            part_bits(ty, part, rows.len())?;
            return self.unpack(ty, part, rows.into_iter().map(Some).collect(), a);
        }
        if let Some((rows, part)) = self.vector_register(a)? {
            let bits = part_bits(ty, part, rows.len())?;
            return self.pack(ty, d, rows, bits);
        }
        match (d, a) {
            (Operand::Vector(parts), _) => {
                let part = Scalar::of_bytes(ty.size() / parts.len().max(1) as u32);
                part_bits(ty, part, parts.len())?;
                let rows = parts.iter().map(|item| match item {
                    Operand::Name("_") => Ok(None),
                    _ => self.dst(item, part).map(Some),
                });
                let rows = rows.collect::<Lower<_>>()?;
                self.unpack(ty, part, rows, a)
            }
            (_, Operand::Vector(parts)) => {
                let part = Scalar::of_bytes(ty.size() / parts.len().max(1) as u32);
                let bits = part_bits(ty, part, parts.len())?;
                let rows = parts.iter().map(|part_operand| self.src(part_operand, part)).collect::<Lower<_>>()?;
                self.pack(ty, d, rows, bits)
            }
            _ => {
                let d = self.dst(d, ty)?;
                // A special register of 32 bits goes into a wider one zero-extended, and the other way truncated.
                if let Operand::Name(name) = a
                    && let Some(register) = special(name)
                {
                    self.emit(Op::Special { d, register, wide: ty.size() == 8 });
                    return Ok(());
                }
                let a = self.src(a, ty)?;
                self.emit(if ty.size() == 8 { Op::Mov64 { d, a } } else { Op::Mov32 { d, a } });
                Ok(())
            }
        }
    }

    /// A 128-bit register is two of 64 bits, the low one first.
    fn mov128(&mut self, d: &Operand<'a>, a: &Operand<'a>) -> Lower<()> {
        if let Some((rows, part)) = self.vector_register(a)?
            && part.size() == 4
            && rows.len() == 4
        {
            let [low, high] = self.halves(d, true)?;
            for (d, parts) in [low, high].into_iter().zip(rows.chunks(2)) {
                let parts = parts.to_vec();
                self.emit(Op::Pack(Box::new(Pack { d, d_wide: true, bits: 32, parts, part_wide: false })));
            }
            return Ok(());
        }
        let from = self.halves(a, false)?;
        let to = self.halves(d, true)?;
        let held = from.map(|a| {
            let d = self.temporary(true);
            self.emit(Op::Mov64 { d, a });
            d
        });
        for (d, a) in to.into_iter().zip(held) {
            self.emit(Op::Mov64 { d, a });
        }
        Ok(())
    }

    fn mov_vector(&mut self, count: u32, ty: Scalar, d: &Operand<'a>, a: &Operand<'a>) -> Lower<()> {
        let to = self.vector(d, ty, count as usize, true)?;
        let from = self.vector(a, ty, count as usize, false)?;
        // Sources are read before destinations are written, as when both name the same registers.
        let wide = ty.size() == 8;
        let copy = |d, a| if wide { Op::Mov64 { d, a } } else { Op::Mov32 { d, a } };
        let held: Vec<R> = from
            .iter()
            .map(|a| {
                let row = self.temporary(wide);
                self.emit(copy(row, *a));
                row
            })
            .collect();
        for (d, a) in to.into_iter().zip(held) {
            self.emit(copy(d, a));
        }
        Ok(())
    }

    /// `mov.b32 d, {lo, hi}`
    fn pack(&mut self, ty: Scalar, d: &Operand<'a>, parts: Vec<R>, bits: u8) -> Lower<()> {
        let d = self.dst(d, ty)?;
        let part_wide = bits == 64;
        self.emit(Op::Pack(Box::new(Pack { d, d_wide: ty.size() == 8, bits, parts, part_wide })));
        Ok(())
    }

    /// `mov.b32 {lo, hi}, a`
    fn unpack(&mut self, ty: Scalar, part: Scalar, rows: Vec<Option<R>>, a: &Operand<'a>) -> Lower<()> {
        let bits = part.size() * 8;
        let mut a = self.src(a, ty)?;
        let wide = ty.size() == 8;
        if rows.contains(&Some(a)) {
            let held = self.temporary(wide);
            self.emit(if wide { Op::Mov64 { d: held, a } } else { Op::Mov32 { d: held, a } });
            a = held;
        }
        let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
        for (at, d) in rows.into_iter().enumerate() {
            let Some(d) = d else { continue };
            let shift = (at as u32 * bits) as u8;
            self.emit(if wide { Op::Unpack64 { d, a, shift, mask } } else { Op::Unpack32 { d, a, shift, mask } });
        }
        Ok(())
    }
}

/// Bits of each of `count` parts that make a value of type `ty`.
fn part_bits(ty: Scalar, part: Scalar, count: usize) -> Lower<u8> {
    if part.size() as usize * count != ty.size() as usize {
        return invalid(format!("{count} parts do not make a .{}", ty.name()));
    }
    Ok((part.size() * 8) as u8)
}
