//! `printf` and `assert` of a kernel: the calls `vprintf` and `__assertfail` that a compiler makes of them.

use std::fmt::Write as _;

use super::builtin::{argument, set_result};
use super::context::Context;
use super::elements::read_lane;
use crate::exec::state::launch::lock;
use crate::exec::state::problem::Problem;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::{Call, MemSpace};
use crate::lanes::lanes;

/// Maximum length of a string that is read from a kernel.
const MAX_STRING: u64 = 4096;
/// Bytes of text that cost as much as an instruction to make.
const BYTES_AN_INSTRUCTION: u64 = 32;
/// Bytes that are kept until the host takes them; further output is dropped, as a GPU's buffer drops it.
const MAX_OUTPUT: usize = 16 << 20;

fn string<M: Monitor>(context: &mut Context<'_, '_, M>, lane: usize, address: u64) -> Result<String, Box<Problem>> {
    let mut bytes = Vec::new();
    for at in 0..MAX_STRING {
        let mut byte = [0];
        read_lane(context, MemSpace::Generic, lane, address + at, (0, 1), &mut byte)?;
        if byte[0] == 0 {
            break;
        }
        bytes.push(byte[0] as u8);
    }
    context.block.charged += bytes.len() as u64;
    context.launch.check_time(1 << lane)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `vprintf(format, arguments)`, for each lane in turn; returns the number of arguments, or -1.
pub(crate) fn vprintf<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    call: &Call,
    mask: u32,
) -> Result<(), Box<Problem>> {
    for lane in lanes(mask) {
        let format_address = argument(context, call, 0, lane);
        let format = string(context, lane, format_address)?;
        let arguments = argument(context, call, 1, lane);
        let room = MAX_OUTPUT.saturating_sub(lock(context.launch.output).len());
        let (text, count) = formatted(context, lane, &format, arguments, room)?;
        context.block.charged += text.len() as u64 / BYTES_AN_INSTRUCTION;
        let mut output = lock(context.launch.output);
        if output.len() + text.len() <= MAX_OUTPUT {
            output.push_str(&text);
        }
        drop(output);
        set_result(context, call, lane, count.into());
    }
    Ok(())
}

/// The arguments lie one after another, each at its own alignment: 4 bytes for an int, 8 for the rest. Text beyond `room`
/// will be dropped: it is not made, but its arguments are read.
fn formatted<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    lane: usize,
    format: &str,
    arguments: u64,
    room: usize,
) -> Result<(String, u32), Box<Problem>> {
    let mut out = String::new();
    let mut count = 0;
    let mut offset = 0;
    let mut next = |context: &mut Context<'_, '_, M>, bytes: u64| -> Result<u64, Box<Problem>> {
        offset = u64::next_multiple_of(offset, bytes);
        let mut value = [0];
        read_lane(context, MemSpace::Generic, lane, arguments + offset, (0, bytes as u8), &mut value)?;
        offset += bytes;
        count += 1;
        Ok(value[0])
    };
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let mut spec = Spec::default();
        rest = spec.flags(rest);
        if let Some(after) = rest.strip_prefix('*') {
            spec.width = next(context, 4)? as u32 as usize;
            rest = after;
        } else {
            (spec.width, rest) = number(rest);
        }
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(after) = after.strip_prefix('*') {
                spec.precision = Some(next(context, 4)? as u32 as usize);
                rest = after;
            } else {
                let (precision, after) = number(after);
                spec.precision = Some(precision);
                rest = after;
            }
        }
        let modifiers = rest.len() - rest.trim_start_matches(['l', 'h', 'z', 'j', 't', 'L']).len();
        let long = rest[..modifiers].contains(['l', 'z', 'j', 't']);
        rest = &rest[modifiers..];
        let Some(conversion) = rest.chars().next() else { break };
        rest = &rest[conversion.len_utf8()..];
        let bytes = if long { 8 } else { 4 };
        if out.len() > room {
            match conversion {
                'd' | 'i' | 'u' | 'x' | 'X' | 'o' => _ = next(context, bytes)?,
                'c' => _ = next(context, 4)?,
                'p' | 's' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => _ = next(context, 8)?,
                _ => {}
            }
            continue;
        }
        match conversion {
            'd' | 'i' => {
                let raw = next(context, bytes)?;
                let value = if long { raw as i64 } else { i64::from(raw as i32) };
                spec.number(&mut out, value < 0, &value.unsigned_abs().to_string());
            }
            'u' => {
                let value = next(context, bytes)?;
                spec.number(&mut out, false, &value.to_string());
            }
            'x' | 'X' | 'o' => {
                let value = next(context, bytes)?;
                let digits = match conversion {
                    'x' => format!("{value:x}"),
                    'X' => format!("{value:X}"),
                    _ => format!("{value:o}"),
                };
                let prefix = match (spec.alternate && value != 0, conversion) {
                    (true, 'x') => "0x",
                    (true, 'X') => "0X",
                    (true, _) => "0",
                    _ => "",
                };
                spec.number(&mut out, false, &format!("{prefix}{digits}"));
            }
            'p' => {
                let value = next(context, 8)?;
                spec.pad(&mut out, "", &format!("{value:#x}"), false);
            }
            'c' => {
                let value = next(context, 4)? as u8;
                spec.pad(&mut out, "", &char::from(value).to_string(), false);
            }
            's' => {
                let address = next(context, 8)?;
                let text = string(context, lane, address)?;
                let shown: String = text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
                spec.pad(&mut out, "", &shown, false);
            }
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => {
                let value = f64::from_bits(next(context, 8)?);
                spec.float(&mut out, value, conversion);
            }
            other => {
                let _ = write!(out, "%{other}");
            }
        }
    }
    out.push_str(rest);
    Ok((out, count))
}

fn number(text: &str) -> (usize, &str) {
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    (text[..digits].parse().unwrap_or(0), &text[digits..])
}

/// One conversion of a format string.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn flags<'t>(&mut self, mut text: &'t str) -> &'t str {
        loop {
            match text.as_bytes().first() {
                Some(b'-') => self.left = true,
                Some(b'+') => self.plus = true,
                Some(b' ') => self.space = true,
                Some(b'#') => self.alternate = true,
                Some(b'0') => self.zero = true,
                _ => return text,
            }
            text = &text[1..];
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn number(&self, out: &mut String, negative: bool, digits: &str) {
        let zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let digits = format!("{}{digits}", "0".repeat(zeros.min(MAX_STRING as usize)));
        self.pad(out, self.sign(negative), &digits, self.zero && self.precision.is_none());
    }

    fn pad(&self, out: &mut String, sign: &str, body: &str, zero: bool) {
        let missing = self.width.min(MAX_STRING as usize).saturating_sub(sign.len() + body.chars().count());
        let fill = |with: &str| with.repeat(missing);
        if self.left {
            let _ = write!(out, "{sign}{body}{}", fill(" "));
        } else if zero {
            let _ = write!(out, "{sign}{}{body}", fill("0"));
        } else {
            let _ = write!(out, "{}{sign}{body}", fill(" "));
        }
    }

    fn float(&self, out: &mut String, value: f64, conversion: char) {
        let upper = conversion.is_ascii_uppercase();
        let magnitude = value.abs();
        let precision = self.precision.unwrap_or(6).min(MAX_STRING as usize);
        let body = match conversion.to_ascii_lowercase() {
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => "inf".into(),
            'f' => format!("{magnitude:.precision$}"),
            'e' => exponent(&format!("{magnitude:.precision$e}")),
            'g' => general(magnitude, precision.max(1), self.alternate),
            _ => hexadecimal(magnitude),
        };
        let body = if upper { body.to_uppercase() } else { body };
        self.pad(out, self.sign(value.is_sign_negative() && !value.is_nan()), &body, self.zero && value.is_finite());
    }
}

/// Rust writes `1e5`, C `1e+05`.
fn exponent(text: &str) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

fn general(value: f64, precision: usize, keep_zeros: bool) -> String {
    let scientific = format!("{value:.*e}", precision - 1);
    let power: i32 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let strip = |text: String| {
        let strips = text.contains('.') && !keep_zeros;
        if strips { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    if power < -4 || power >= precision as i32 {
        let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        exponent(&format!("{}e{power}", strip(mantissa.to_owned())))
    } else {
        strip(format!("{value:.*}", (precision as i32 - 1 - power).max(0) as usize))
    }
}

/// `%a`, with all digits of the value.
fn hexadecimal(value: f64) -> String {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let power = (bits >> 52) as i32 & 0x7ff;
    let digits = format!("{fraction:013x}").trim_end_matches('0').to_owned();
    let point = if digits.is_empty() { "" } else { "." };
    match power {
        0 if fraction == 0 => "0x0p+0".into(),
        0 => format!("0x0{point}{digits}p-1022"),
        _ => format!("0x1{point}{digits}p{:+}", power - 1023),
    }
}

/// `__assertfail(message, file, line, function, charSize)`
pub(crate) fn assertion<M: Monitor>(context: &mut Context<'_, '_, M>, call: &Call, mask: u32) -> Box<Problem> {
    let lane = mask.trailing_zeros() as usize;
    let mut text = |at: usize| {
        let address = argument(context, call, at, lane);
        string(context, lane, address).unwrap_or_else(|_| "?".into())
    };
    let (condition, file, function) = (text(0), text(1), text(3));
    let line = argument(context, call, 2, lane) as u32;
    Problem::new(FaultKind::Assertion, mask, format!("assertion `{condition}` failed"))
        .note(format!("in {function} at {file}:{line}"))
}
