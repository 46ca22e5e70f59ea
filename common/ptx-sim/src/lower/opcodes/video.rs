//! The video instructions, scalar and SIMD.

use super::emit::{UNUSED, operand};
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::video::{Second, Select, Video, VideoOp};
use crate::scalar::{Relation, Scalar};

const WORD: Scalar = Scalar::B32;

/// The operation of that name without its `v` and its number of elements.
fn op_named(name: &str) -> Option<VideoOp> {
    Some(match name {
        "add" => VideoOp::Add,
        "sub" => VideoOp::Sub,
        "absdiff" => VideoOp::AbsDiff,
        "min" => VideoOp::Min,
        "max" => VideoOp::Max,
        "avrg" => VideoOp::Average,
        "set" => VideoOp::Set(Relation::Eq),
        _ => return None,
    })
}

fn compare_named(name: &str) -> Option<Relation> {
    Some(match name {
        "eq" => Relation::Eq,
        "ne" => Relation::Ne,
        "lt" => Relation::Lt,
        "le" => Relation::Le,
        "gt" => Relation::Gt,
        "ge" => Relation::Ge,
        _ => return None,
    })
}

/// Measured on an H200: with `.sat`, `.po`, a result in `.h1`, or a shift with `.min` or `.max`, hardware's results differ from
/// PTX's definition ("Scalar Video Instructions").
const NOT_AS_WRITTEN: &str =
    "a scalar video instruction with .sat, .po, a result in .h1, or .min or .max after a shift";

/// An operand and the part of it that a selector names.
fn selected<'a>(operand: &Operand<'a>) -> (bool, Operand<'a>, Option<&'a str>) {
    let (negated, name) = match operand {
        Operand::Name(name) => (false, *name),
        Operand::Negated(name) => (true, *name),
        other => return (false, other.clone(), None),
    };
    match name.rsplit_once('.') {
        Some((register, part)) if part.starts_with(['b', 'h']) && part.len() > 1 => {
            (negated, Operand::Name(register), Some(part))
        }
        _ => (negated, Operand::Name(name), None),
    }
}

fn part_of(selector: Option<&str>) -> Lower<Select> {
    match selector {
        None => Ok(Select::Word),
        Some(name) => match Select::named(name) {
            Some(part) => Ok(part),
            None => invalid(format!("`.{name}` is not a byte or a half of a register")),
        },
    }
}

/// The digits of `.b3210`, lowest element first; all must be below `limit`.
fn digits(selector: &str, letter: char, limit: u8) -> Lower<Vec<u8>> {
    let numbers = selector.strip_prefix(letter).unwrap_or_default().bytes().rev().map(|digit| digit.wrapping_sub(b'0'));
    let numbers: Vec<u8> = numbers.collect();
    if numbers.is_empty() || numbers.iter().any(|number| *number >= limit) {
        return invalid(format!("`.{selector}` does not select elements of a register"));
    }
    Ok(numbers)
}

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn video(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let stem = name.strip_prefix('v').unwrap_or(name);
        if let Some(op) = stem.strip_suffix(['2', '4']).and_then(op_named) {
            return self.video_simd(op, if stem.ends_with('2') { 2 } else { 4 }, m, ops);
        }
        self.video_scalar(stem, op_named(stem), m, ops)
    }

    /// Whether the result, a and b have a sign; a comparison's result has none.
    fn video_types(&mut self, m: &mut Modifiers<'_>, compares: bool) -> Lower<[bool; 3]> {
        let d = if compares { false } else { m.ty()?.signed() };
        Ok([d, m.ty()?.signed(), m.ty()?.signed()])
    }

    fn emit_video(&mut self, video: Video, d: &Operand<'a>, sources: [Option<&Operand<'a>>; 3]) -> Lower<()> {
        let mut rows = [UNUSED; 3];
        for (row, source) in rows.iter_mut().zip(sources) {
            if let Some(source) = source {
                *row = self.src(source, WORD)?;
            }
        }
        let d = self.dst(d, WORD)?;
        self.emit(Op::Video(Box::new(VideoInst { video, d, sources: rows })));
        Ok(())
    }

    fn video_scalar(
        &mut self,
        name: &str,
        op: Option<VideoOp>,
        m: &mut Modifiers<'_>,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let op = match op {
            Some(VideoOp::Set(_)) => match m.one(compare_named) {
                Some(compare) => VideoOp::Set(compare),
                None => return unsupported("a comparison of this kind"),
            },
            Some(op) => op,
            None => {
                let wrap = m.flag("wrap");
                m.flag("clamp");
                if name == "shl" { VideoOp::Shl { wrap } } else { VideoOp::Shr { wrap } }
            }
        };
        let mut signed = self.video_types(m, matches!(op, VideoOp::Set(_)))?;
        if matches!(op, VideoOp::Set(_)) {
            signed[0] = signed[1]; // which decides how the second operation compares
        }
        let saturate = m.flag("sat");
        let second = m.one(|name| {
            Some(match name {
                "add" => Second::Add,
                "min" => Second::Min,
                "max" => Second::Max,
                _ => return None,
            })
        });
        m.finish()?;
        let (_, d, d_part) = selected(operand(ops, 0)?);
        let (_, a, a_part) = selected(operand(ops, 1)?);
        let (_, b, b_part) = selected(operand(ops, 2)?);
        let second = match (second, d_part) {
            (Some(second), None) => second,
            (None, Some(part)) => Second::Merge(part_of(Some(part))?),
            (None, None) => Second::None,
            (Some(_), Some(_)) => return invalid("a result that is a part of c has no second operation"),
        };
        let shift = matches!(op, VideoOp::Shl { .. } | VideoOp::Shr { .. });
        if saturate || d_part == Some("h1") || shift && matches!(second, Second::Min | Second::Max) {
            return unsupported(NOT_AS_WRITTEN);
        }
        let select = [part_of(a_part)?, part_of(b_part)?];
        let c = match (second, ops.get(3)) {
            (Second::None, None) => None,
            (Second::None, Some(_)) => return invalid("two sources are expected"),
            (_, Some(c)) => Some(c),
            (_, None) => return invalid("a third source is expected"),
        };
        self.emit_video(Video::Scalar { op, signed, saturate, select, second }, &d, [Some(&a), Some(&b), c])
    }

    pub(super) fn video_mad(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let [_, a_signed, b_signed] = self.video_types(m, false)?;
        let saturate = m.flag("sat");
        let plus_one = m.flag("po");
        let scale = m.one(|name| match name {
            "shr7" => Some(7),
            "shr15" => Some(15),
            _ => None,
        });
        m.finish()?;
        let [d, a, b, c] = ops else { return invalid("vmad takes three sources") };
        if saturate || plus_one {
            return unsupported(NOT_AS_WRITTEN);
        }
        let (a_negated, a, a_part) = selected(a);
        let (b_negated, b, b_part) = selected(b);
        let (c_negated, c, _) = selected(c);
        let negate = [a_negated != b_negated, c_negated];
        let video = Video::Mad {
            signed: [a_signed, b_signed],
            saturate,
            select: [part_of(a_part)?, part_of(b_part)?],
            negate,
            plus_one,
            scale: scale.unwrap_or(0),
        };
        self.emit_video(video, d, [Some(&a), Some(&b), Some(&c)])
    }

    fn video_simd(&mut self, op: VideoOp, count: u8, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let op = match op {
            VideoOp::Set(_) => match m.one(compare_named) {
                Some(compare) => VideoOp::Set(compare),
                None => return unsupported("a comparison of this kind"),
            },
            op => op,
        };
        let signed = self.video_types(m, matches!(op, VideoOp::Set(_)))?;
        let saturate = m.flag("sat");
        let add = m.flag("add");
        m.finish()?;
        let letter = if count == 2 { 'h' } else { 'b' };
        let [d, a, b, c] = ops else { return invalid("a SIMD video instruction takes three sources") };
        let (_, d, d_part) = selected(d);
        let (_, a, a_part) = selected(a);
        let (_, b, b_part) = selected(b);
        let mask = match d_part {
            None => (1 << count) - 1,
            Some(part) => digits(part, letter, count)?.iter().fold(0, |mask, at| mask | 1 << at),
        };
        let mut select = [[0, 1, 2, 3], [count, count + 1, count + 2, count + 3]];
        for (select, part) in select.iter_mut().zip([a_part, b_part]) {
            if let Some(part) = part {
                let numbers = digits(part, letter, 2 * count)?;
                if numbers.len() != usize::from(count) {
                    return invalid(format!("`.{part}` does not select {count} elements"));
                }
                select[..numbers.len()].copy_from_slice(&numbers);
            }
        }
        let video = Video::Simd { op, count, signed, saturate, select, mask, add };
        self.emit_video(video, &d, [Some(&a), Some(&b), Some(c)])
    }
}
