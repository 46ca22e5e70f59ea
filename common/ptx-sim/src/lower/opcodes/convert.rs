//! Conversions between types.

use super::emit::{Lanewise, UNUSED};
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{Mode, Rounding, SATFINITE, Scalar, convert, pack_mode, pack_saturated};

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn cvt(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("pack") {
            return self.cvt_pack(m, ops);
        }
        let rounded = m.0.iter().any(|name| matches!(*name, "rn" | "rna" | "rz" | "rm" | "rp" | "rs"));
        let to_integral = m.0.iter().any(|name| matches!(*name, "rni" | "rzi" | "rmi" | "rpi"));
        let mut mode = Mode {
            rounding: m.rounding().unwrap_or_default(),
            to_integral,
            ftz: m.flag("ftz"),
            relu: m.flag("relu"),
            saturate: m.flag("sat"),
            ..Mode::default()
        };
        if m.flag("satfinite") {
            mode.saturate = true;
            mode.immediate |= SATFINITE;
        }
        let ty = |name: &str| Scalar::from_name(name).filter(|ty| is_convertible(*ty));
        let (Some(to), Some(from)) = (m.one(ty), m.one(ty)) else { return unsupported("a type of this conversion") };
        m.finish()?;
        check_rounding(to, from, rounded, to_integral)?;
        let pair = ops.len() == 3;
        let [d, sources @ ..] = ops else { return invalid("cvt needs operands") };
        if sources.is_empty() || sources.len() > 2 {
            return invalid("cvt takes one source, or two for a pair");
        }
        // A register may be wider than the type: the result is extended to it.
        let (d, declared) = match d {
            Operand::Name("_") => (self.temporary(to.size() == 8), to),
            _ => self.relaxed_dst(d, to)?,
        };
        let (a, a_wide) = self.relaxed_src(&sources[0], from)?;
        if !pair && mode == Mode::default() {
            let hot = match (to, from, declared.size()) {
                (Scalar::U64 | Scalar::S64, Scalar::U32, 8) if !a_wide => Some(Op::Zext64 { d, a }),
                (Scalar::U64 | Scalar::S64, Scalar::S32, 8) if !a_wide => Some(Op::Sext64 { d, a }),
                (Scalar::U32 | Scalar::S32, Scalar::U64 | Scalar::S64, 4) => Some(Op::Trunc32 { d, a }),
                (Scalar::F32, Scalar::S32, 4) if !a_wide => Some(Op::S32ToF32 { d, a }),
                (Scalar::F32, Scalar::U32, 4) if !a_wide => Some(Op::U32ToF32 { d, a }),
                _ => None,
            };
            if let Some(op) = hot {
                self.emit(op);
                return Ok(());
            }
        }
        let towards_zero = Mode { rounding: Rounding::Zero, to_integral: true, ..Mode::default() };
        if (to, from, declared.size()) == (Scalar::S32, Scalar::F32, 4) && mode == towards_zero {
            self.emit(Op::F32ToS32 { d, a });
            return Ok(());
        }
        let Some(f) = convert(to, from) else {
            return unsupported(format!("cvt of .{} to .{}", from.name(), to.name()));
        };
        let mut rows = [a, UNUSED, UNUSED];
        let mut wide = [a_wide, false, false];
        if pair {
            (rows[1], wide[1]) = self.relaxed_src(&sources[1], from)?;
        }
        let bytes = from.size() as u8;
        self.emit(Op::Map(Box::new(Map {
            f,
            mode,
            sources: rows,
            source_bytes: [bytes; 3],
            source_wide: wide,
            d,
            d_wide: declared.size() == 8,
            sign_from: if to.signed() { to.size() as u8 * 8 } else { 0 },
            integer: to.is_integer() && from.is_integer(),
            work: Work::of(Class::Conversion),
        })));
        Ok(())
    }

    fn cvt_pack(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sat");
        let to = m.one(|name| {
            let bits = name.get(1..)?.parse::<u32>().ok().filter(|bits| matches!(bits, 2 | 4 | 8 | 16))?;
            matches!(name.as_bytes()[0], b'u' | b's').then(|| (bits, name.starts_with('s')))
        });
        let Some((bits, signed)) = to else { return unsupported("cvt.pack to this type") };
        if !m.flag("s32") {
            return unsupported("cvt.pack of another type than s32");
        }
        let sources = 2 + usize::from(m.flag("b32")); // the third one's lower part follows the packed two
        m.finish()?;
        let word = Scalar::B32;
        let (mode, work) = (pack_mode(bits, signed), Work::of(Class::Conversion));
        let lanewise = Lanewise { f: pack_saturated, mode, result: word, types: [word; 3], work };
        self.emit_map(&lanewise, sources, ops)
    }
}

/// Reports a missing or impossible rounding (PTX ISA, "cvt").
fn check_rounding(to: Scalar, from: Scalar, rounded: bool, to_integral: bool) -> Lower<()> {
    let scalar = |ty| matches!(ty, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64);
    let (to_float, from_float) = (scalar(to), scalar(from));
    let names = format!("cvt of .{} to .{}", from.name(), to.name());
    let needs = |what: &str| invalid(format!("{names} needs a rounding modifier, such as {what}"));
    let has_none = || invalid(format!("{names} does not take a rounding modifier of this kind"));
    if !(to_float || to.is_integer()) || !(from_float || from.is_integer()) {
        let packs = matches!(to, Scalar::F16x2 | Scalar::Bf16x2 | Scalar::Tf32) && from == Scalar::F32;
        return if packs && !rounded { needs(".rn") } else { Ok(()) };
    }
    match (to_float, from_float) {
        (false, true) if rounded => has_none(),
        (false, true) if !to_integral => needs(".rzi"),
        (true, false) if to_integral => has_none(),
        (true, false) if !rounded => needs(".rn"),
        (false, false) if rounded || to_integral => has_none(),
        (true, true) if to.bits() < from.bits() && !rounded => needs(".rn"),
        // ptxas takes one from .bf16, where it changes nothing.
        (true, true) if to.bits() > from.bits() && rounded && from != Scalar::Bf16 => has_none(),
        (true, true) if to == from && rounded => has_none(),
        _ => Ok(()),
    }
}

/// Whether `cvt` takes the type.
fn is_convertible(ty: Scalar) -> bool {
    use Scalar::*;
    let integer = matches!(ty, U8 | S8 | U16 | S16 | U32 | S32 | U64 | S64);
    integer || matches!(ty, F16 | Bf16 | F32 | F64 | Tf32 | F16x2 | Bf16x2 | E4m3x2 | E5m2x2)
}
