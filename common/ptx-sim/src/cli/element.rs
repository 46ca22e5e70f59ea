//! The types of numbers: as text, as bytes and as JSON.

use std::io::Read;
use std::path::Path;

use half::{bf16, f16};
use serde_json::{Value, json};

/// Maximum bytes of a file that is a buffer's contents.
const MAX_FILE: u64 = 4 << 30;

/// The type of a scalar or of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Element { U8, S8, U16, S16, U32, S32, U64, S64, F16, Bf16, F32, F64, B8, B16, B32, B64 }

#[rustfmt::skip]
const ELEMENTS: [(&str, Element); 16] = [
    ("u8", Element::U8), ("s8", Element::S8), ("u16", Element::U16), ("s16", Element::S16), ("u32", Element::U32), ("s32", Element::S32),
    ("u64", Element::U64), ("s64", Element::S64), ("f16", Element::F16), ("bf16", Element::Bf16), ("f32", Element::F32), ("f64", Element::F64),
    ("b8", Element::B8), ("b16", Element::B16), ("b32", Element::B32), ("b64", Element::B64),
];

impl Element {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = ELEMENTS.iter().find(|(known, _)| *known == name);
        found.map(|(_, element)| *element).ok_or_else(|| {
            let known: Vec<&str> = ELEMENTS.iter().map(|(name, _)| *name).collect();
            format!("`{name}` is not a type; the types are {}", known.join(", "))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        ELEMENTS.iter().find(|(_, element)| *element == self).map_or("", |(name, _)| name)
    }

    /// Bytes of one element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 | Self::S8 | Self::B8 => 1,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::B16 => 2,
            Self::U32 | Self::S32 | Self::F32 | Self::B32 => 4,
            Self::U64 | Self::S64 | Self::F64 | Self::B64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Number of bytes of `count` elements.
    pub(crate) fn bytes_of_count(self, count: u64) -> Result<u64, String> {
        let bytes = count.checked_mul(self.size() as u64);
        bytes.ok_or_else(|| format!("{count} elements are more than an address can tell apart"))
    }

    /// The little-endian bytes of a LIST.
    pub(crate) fn list(self, list: &str) -> Result<Vec<u8>, String> {
        if let Some(path) = list.strip_prefix('@') {
            return self.file(path.as_ref());
        }
        if list.is_empty() {
            return Err("the list is empty (a buffer of no elements is out:TYPE:0)".into());
        }
        let mut bytes = Vec::new();
        for item in list.split(',') {
            bytes.extend(self.bytes_of(item)?);
        }
        Ok(bytes)
    }

    /// The contents of a file of such elements.
    pub(crate) fn file(self, path: &Path) -> Result<Vec<u8>, String> {
        let shown = path.display();
        let failed = |error: std::io::Error| format!("cannot read `{shown}`: {error}");
        let mut bytes = Vec::new();
        let file = crate::regular(path).map_err(failed)?;
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(format!("`{shown}` has more than {} GiB", MAX_FILE >> 30));
        }
        if bytes.len() % self.size() != 0 {
            let (length, size) = (bytes.len(), self.size());
            return Err(format!("`{shown}` has {length} bytes, not a multiple of the {size} of a {}", self.name()));
        }
        Ok(bytes)
    }

    /// The little-endian bytes of a VALUE.
    pub(crate) fn bytes_of(self, text: &str) -> Result<Vec<u8>, String> {
        let bits = if self.is_float() { self.float_bits(text)? } else { self.integer_bits(text)? };
        Ok(bits.to_le_bytes()[..self.size()].to_vec())
    }

    fn integer_bits(self, text: &str) -> Result<u64, String> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
        let parsed = match digits {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => unsigned.parse::<i128>(),
        };
        // A second sign would pass `parse`.
        let starts_well = digits.unwrap_or(unsigned).starts_with(|first: char| first.is_ascii_hexdigit());
        let magnitude = match parsed {
            Ok(magnitude) if starts_well => magnitude,
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow && starts_well => i128::MAX,
            _ => return Err(format!("`{text}` is not a whole number")),
        };
        let value = if text.starts_with('-') { -magnitude } else { magnitude };
        let bits = self.size() as u32 * 8;
        let (low, high) = match self.is_signed() {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        if !(low..=high).contains(&value) {
            let advice =
                if self.is_signed() && digits.is_some() { format!("; for bits write b{bits}") } else { String::new() };
            return Err(format!("`{text}` is not a {}, which is {low} to {high}{advice}", self.name()));
        }
        Ok(value as u64)
    }

    fn float_bits(self, text: &str) -> Result<u64, String> {
        let bits = self.size() * 8;
        let prefixes: &[&str] = match self {
            Self::F32 => &["0x", "0X", "0f", "0F"],
            Self::F64 => &["0x", "0X", "0d", "0D"],
            _ => &["0x", "0X"],
        };
        if let Some(digits) = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            let value = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
            return match value {
                Some(value) if bits == 64 || value >> bits == 0 => Ok(value),
                _ => Err(format!("`{text}` is not {bits} bits in hexadecimal")),
            };
        }
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        let (raw, finite) = match self {
            Self::F16 => (u64::from(f16::from_f64(value).to_bits()), f16::from_f64(value).is_finite()),
            Self::Bf16 => (u64::from(bf16::from_f64(value).to_bits()), bf16::from_f64(value).is_finite()),
            // from the text, so that it is rounded once
            Self::F32 => {
                let value: f32 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
                (u64::from(value.to_bits()), value.is_finite())
            }
            _ => (value.to_bits(), value.is_finite()),
        };
        let written_infinite = !text.contains(|digit: char| digit.is_ascii_digit());
        if !finite && !written_infinite {
            return Err(format!("`{text}` is too large for {} (infinity is written inf)", self.name()));
        }
        Ok(raw)
    }

    /// The elements of a buffer's bytes, as raw bits.
    pub(crate) fn elements(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes.chunks_exact(self.size()).map(|chunk| {
            let mut raw = [0; 8];
            raw[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(raw)
        })
    }

    /// A float as a f64, exactly.
    fn value(self, bits: u64) -> f64 {
        match self {
            Self::F16 => f16::from_bits(bits as u16).to_f64(),
            Self::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        }
    }

    /// An element as the nearest f64.
    pub(crate) fn number(self, bits: u64) -> f64 {
        if self.is_float() { self.value(bits) } else { self.integer(bits) as f64 }
    }

    fn integer(self, bits: u64) -> i128 {
        match self {
            Self::S8 => i128::from(bits as i8),
            Self::S16 => i128::from(bits as i16),
            Self::S32 => i128::from(bits as i32),
            Self::S64 => i128::from(bits as i64),
            _ => i128::from(bits),
        }
    }

    /// An element as text that reads back to the same bits (any NaN as `nan`).
    pub(crate) fn text(self, bits: u64) -> String {
        let digits = self.size() * 2;
        match self {
            Self::B8 | Self::B16 | Self::B32 | Self::B64 => format!("{bits:#0width$x}", width = digits + 2),
            _ if self.is_float() => self.float_text(bits),
            _ => self.integer(bits).to_string(),
        }
    }

    fn float_text(self, bits: u64) -> String {
        let value = self.value(bits);
        if value.is_nan() {
            return "nan".into();
        }
        if value.is_infinite() {
            return if value < 0.0 { "-inf" } else { "inf" }.into();
        }
        let written_out = value == 0.0 || (1e-5..1e16).contains(&value.abs());
        // The standard library's digits are the fewest that read back. Of a half they are those of the same value as an f32:
        // fewer would do for a half, but are another number to a reader that has none.
        match (self, written_out) {
            (Self::F64, true) => value.to_string(),
            (Self::F64, false) => format!("{value:e}"),
            (_, true) => (value as f32).to_string(),
            (_, false) => format!("{:e}", value as f32),
        }
    }

    /// An element as JSON, which has no NaN and no infinity: those are strings.
    pub(crate) fn json(self, bits: u64) -> Value {
        if !self.is_float() {
            return if self.is_signed() { json!(self.integer(bits) as i64) } else { json!(bits) };
        }
        let text = self.float_text(bits);
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => json!(value),
            _ => json!(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_the_fewest_digits_that_read_back() {
        for (element, value, text) in [
            (Element::F32, "0.1", "0.1"),
            (Element::F32, "1", "1"),
            (Element::F32, "-0", "-0"),
            (Element::F32, "16777216", "16777216"),
            (Element::F32, "0x00000001", "1e-45"),
            (Element::F32, "0x7f7fffff", "3.4028235e38"),
            (Element::F64, "0.1", "0.1"),
            (Element::F64, "5e-324", "5e-324"),
            (Element::F64, "0.30000000000000004", "0.30000000000000004"),
            (Element::F16, "0.1", "0.099975586"),
            (Element::F16, "16384", "16384"),
            (Element::F16, "65504", "65504"),
            (Element::Bf16, "16384", "16384"),
            (Element::Bf16, "3.14", "3.140625"),
            (Element::F32, "-inf", "-inf"),
            (Element::F32, "nan", "nan"),
        ] {
            let bits = element.float_bits(value).unwrap();
            assert_eq!(element.text(bits), text);
        }
        for bits in (0..=u16::MAX).map(u64::from) {
            for element in [Element::F16, Element::Bf16] {
                let value = element.value(bits) as f32;
                if !value.is_nan() {
                    let text = element.text(bits);
                    assert_eq!(element.float_bits(&text), Ok(bits));
                    assert_eq!(text.parse(), Ok(value));
                }
            }
        }
    }
}
