//! Characters to tokens.
//!
//! Opcodes, directives, registers and labels are all one kind of token, a [`Token::Word`], dots included
//! (`ld.global.v4.f32`, `.reg`, `%tid.x`, `$L__BB0_2`): the meaning of a word depends on its position, which the parser
//! knows and the lexer need not.

use crate::error::SyntaxError;
use crate::span::Span;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// An opcode, directive, register, symbol or label, with its dots.
    Word(&'a str),
    /// An integer literal; the sign is a token of its own.
    Int(u64),
    /// A floating-point literal as the bits of an f32 (`0f3F800000`).
    F32(u32),
    /// A floating-point literal as the bits of an f64 (`0d…` or decimal).
    F64(u64),
    /// A quoted string, without its quotes.
    Str(&'a str),
    /// One of `{}()[]<>,;:=+-|!@*~&^/?%`.
    Punct(u8),
    /// The end of the source.
    End,
}

pub(crate) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self { source, at: 0 }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The character right after the token that was read last.
    pub(crate) fn following(&self) -> u8 {
        self.peek(0)
    }

    /// The comment behind the token at `span`, up to the end of its line; empty if there is none.
    pub(crate) fn comment_after(&self, span: Span) -> &'a str {
        let rest = self.source[span.end as usize..].lines().next().unwrap_or_default();
        rest.trim().strip_prefix("//").unwrap_or_default()
    }

    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = &self.source.as_bytes()[self.at..];
            match rest {
                [byte, ..] if byte.is_ascii_whitespace() => self.at += 1,
                [b'/', b'/', ..] => {
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => match self.source[self.at + 2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        let span = Span::new(self.at, self.at + 2);
                        return Err(SyntaxError::new(span, "this comment is never closed"));
                    }
                },
                _ => return Ok(()),
            }
        }
    }

    /// The next token and its position.
    pub(crate) fn next(&mut self) -> Result<(Token<'a>, Span), SyntaxError> {
        self.skip_blank()?;
        let start = self.at;
        let byte = self.peek(0);
        let token = match byte {
            0 if start == self.source.len() => Token::End,
            b'0'..=b'9' => self.number()?,
            b'.' if self.peek(1).is_ascii_digit() => self.number()?,
            b'"' => {
                let rest = &self.source.as_bytes()[start + 1..];
                let mut length = 0;
                while length < rest.len() && rest[length] != b'"' {
                    length += if rest[length] == b'\\' { 2 } else { 1 };
                }
                if length >= rest.len() {
                    return Err(SyntaxError::new(Span::new(start, start + 1), "this string is never closed"));
                }
                self.at += length + 2;
                Token::Str(&self.source[start + 1..start + 1 + length])
            }
            _ if is_word_start(byte) && (byte != b'%' || is_word(self.peek(1))) => self.word(),
            _ if b"{}()[]<>,;:=+-|!@*~&^/?%".contains(&byte) => {
                self.at += 1;
                Token::Punct(byte)
            }
            _ => {
                let character = self.source[start..].chars().next().unwrap_or('\0');
                let span = Span::new(start, start + character.len_utf8());
                return Err(SyntaxError::new(span, format!("PTX has no character {character:?}")));
            }
        };
        Ok((token, Span::new(start, self.at)))
    }

    fn word(&mut self) -> Token<'a> {
        let start = self.at;
        let directive = self.peek(0) == b'.';
        self.at += 1;
        loop {
            if directive && self.peek(0) == b'.' {
                return Token::Word(&self.source[start..self.at]); // `.reg.b16` are two
            }
            if is_word(self.peek(0)) {
                self.at += 1;
            } else if self.peek(0) == b':' && self.peek(1) == b':' {
                self.at += 2; // `shared::cluster`, `.L2::128B`
            } else {
                return Token::Word(&self.source[start..self.at]);
            }
        }
    }

    fn number(&mut self) -> Result<Token<'a>, SyntaxError> {
        let start = self.at;
        while is_word(self.peek(0))
            || (matches!(self.peek(0), b'+' | b'-')
                && matches!(self.source.as_bytes()[self.at - 1], b'e' | b'E')
                && !self.source[start..].starts_with("0x"))
        {
            self.at += 1;
        }
        let text = &self.source[start..self.at];
        let error = || SyntaxError::new(Span::new(start, start + text.len()), format!("`{text}` is not a number"));
        let hex = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| error());
        let prefix = text.get(..2).unwrap_or("");
        match prefix {
            "0f" | "0F" if text.len() == 10 => return Ok(Token::F32(hex(&text[2..])? as u32)),
            "0d" | "0D" if text.len() == 18 => return Ok(Token::F64(hex(&text[2..])?)),
            _ => {}
        }
        let unsigned = text.strip_suffix('U').unwrap_or(text);
        let integer = match prefix {
            "0x" | "0X" => hex(&unsigned[2..])?,
            "0b" | "0B" => u64::from_str_radix(&unsigned[2..], 2).map_err(|_| error())?,
            _ if unsigned.contains(['.', 'e', 'E']) => {
                return text.parse().map(|value: f64| Token::F64(value.to_bits())).map_err(|_| error());
            }
            _ if unsigned.len() > 1 && unsigned.starts_with('0') => {
                u64::from_str_radix(&unsigned[1..], 8).map_err(|_| error())?
            }
            _ => unsigned.parse().map_err(|_| error())?,
        };
        Ok(Token::Int(integer))
    }
}
