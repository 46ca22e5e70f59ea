//! Numbers and constant expressions (PTX ISA, "Constant Expressions").

use super::{Parser, Result};
use crate::ast::Operand;
use crate::error::SyntaxError;
use crate::lex::Token;

/// Precedence of `*`: see [`Parser::operator`].
const PRODUCTS: u8 = 9;

impl<'a> Parser<'a> {
    /// `+4`, `-8`, `+-8`, `+4*2`, or nothing.
    pub(super) fn signed_offset(&mut self) -> Result<i64> {
        let mut offset = 0i64;
        while matches!(self.token, Token::Punct(b'+' | b'-')) {
            let mut negative = false;
            while let Token::Punct(sign @ (b'+' | b'-')) = self.token {
                negative ^= sign == b'-';
                self.bump()?;
            }
            let Operand::Int(first) = self.unary()? else { return self.error("an offset is an integer") };
            let term = self.binary(first, PRODUCTS)? as i64;
            offset = if negative { offset.wrapping_sub(term) } else { offset.wrapping_add(term) };
        }
        Ok(offset)
    }

    /// A literal, or a constant expression of integers (PTX ISA, "Constant Expressions").
    pub(super) fn number(&mut self) -> Result<Operand<'a>> {
        self.deeper()?;
        let first = self.unary()?;
        let operand = match first {
            Operand::Int(value) => {
                let value = self.binary(value, 0)?;
                Operand::Int(self.choice(value)?)
            }
            float => float,
        };
        self.depth -= 1;
        Ok(operand)
    }

    fn unary(&mut self) -> Result<Operand<'a>> {
        let operand = match self.token {
            Token::Punct(sign @ (b'-' | b'+' | b'!' | b'~')) => {
                self.bump()?;
                self.deeper()?;
                let operand = match (sign, self.unary()?) {
                    (b'-', Operand::Int(value)) => Operand::Int(-value),
                    (b'!', Operand::Int(value)) => Operand::Int(i128::from(value == 0)),
                    (b'~', Operand::Int(value)) => Operand::Int(!value),
                    (b'-', Operand::F32(bits)) => Operand::F32(bits ^ (1 << 31)),
                    (b'-', Operand::F64(bits)) => Operand::F64(bits ^ (1 << 63)),
                    (b'+', operand) => operand,
                    _ => return self.error("this operator is for integers"),
                };
                self.depth -= 1;
                return Ok(operand);
            }
            Token::Punct(b'(') => {
                self.bump()?;
                // a cast: `(.s64) 1`
                if matches!(self.token, Token::Word(".s64" | ".u64")) {
                    self.bump()?;
                    self.expect(b')')?;
                    self.deeper()?;
                    let operand = self.unary()?;
                    self.depth -= 1;
                    return Ok(operand);
                }
                let operand = self.number()?;
                self.expect(b')')?;
                return Ok(operand);
            }
            Token::Int(value) => Operand::Int(i128::from(value)),
            Token::F32(bits) => Operand::F32(bits),
            Token::F64(bits) => Operand::F64(bits),
            _ => return self.expected("a number"),
        };
        self.bump()?;
        Ok(operand)
    }

    /// The next binary operator, with its precedence and its number of tokens.
    fn operator(&self) -> Option<(&'static str, u8, u32)> {
        let Token::Punct(first) = self.token else { return None };
        let second = self.lexer.following();
        Some(match (first, second) {
            (b'|', b'|') => ("||", 0, 2),
            (b'&', b'&') => ("&&", 1, 2),
            (b'|', _) => ("|", 2, 1),
            (b'^', _) => ("^", 3, 1),
            (b'&', _) => ("&", 4, 1),
            (b'=', b'=') => ("==", 5, 2),
            (b'!', b'=') => ("!=", 5, 2),
            (b'<', b'<') => ("<<", 7, 2),
            (b'>', b'>') => (">>", 7, 2),
            (b'<', b'=') => ("<=", 6, 2),
            (b'>', b'=') => (">=", 6, 2),
            (b'<', _) => ("<", 6, 1),
            (b'>', _) => (">", 6, 1),
            (b'+', _) => ("+", 8, 1),
            (b'-', _) => ("-", 8, 1),
            (b'*', _) => ("*", PRODUCTS, 1),
            (b'/', _) => ("/", PRODUCTS, 1),
            (b'%', _) => ("%", PRODUCTS, 1),
            _ => return None,
        })
    }

    /// The value of `left` and the operators after it, as long as their precedence is at least `weakest`.
    fn binary(&mut self, mut left: i128, weakest: u8) -> Result<i128> {
        while let Some((operator, strength, tokens)) = self.operator()
            && strength >= weakest
        {
            let span = self.span;
            for _ in 0..tokens {
                self.bump()?;
            }
            self.deeper()?;
            let Operand::Int(right) = self.unary()? else { return self.error("this operator is for integers") };
            let right = self.binary(right, strength + 1)?;
            self.depth -= 1;
            let truth = |value: bool| Some(i128::from(value));
            // 64-bit arithmetic, in a type that can tell when it overflows
            let value = match operator {
                "||" => truth(left != 0 || right != 0),
                "&&" => truth(left != 0 && right != 0),
                "|" => Some(left | right),
                "^" => Some(left ^ right),
                "&" => Some(left & right),
                "==" => truth(left == right),
                "!=" => truth(left != right),
                "<" => truth(left < right),
                "<=" => truth(left <= right),
                ">" => truth(left > right),
                ">=" => truth(left >= right),
                "<<" => Some(i128::from((left as u64) << (right as u32 & 63))),
                ">>" => Some(left >> (right as u32 & 63)),
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "/" => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            let fits = |value: &i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(value);
            let Some(value) = value.filter(fits) else {
                return Err(SyntaxError::new(span, "this constant does not fit 64 bits"));
            };
            left = value;
        }
        Ok(left)
    }

    /// `condition ? a : b`, where `condition` has been read.
    fn choice(&mut self, condition: i128) -> Result<i128> {
        if !self.accept(b'?')? {
            return Ok(condition);
        }
        let Operand::Int(yes) = self.number()? else { return self.error("a choice is between integers") };
        self.expect(b':')?;
        let Operand::Int(no) = self.number()? else { return self.error("a choice is between integers") };
        Ok(if condition != 0 { yes } else { no })
    }

    /// A constant expression whose value is an address or an index.
    pub(super) fn integer(&mut self) -> Result<i64> {
        match self.number()? {
            Operand::Int(value) => Ok(value as i64),
            _ => self.error("an integer is expected here"),
        }
    }
}
