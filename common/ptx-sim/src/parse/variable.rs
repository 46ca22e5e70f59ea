//! Variables and parameters, with their initialisers.

use super::{Parser, Result};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::lex::Token;
use crate::scalar::Scalar;

/// Maximum registers of one declaration: `%r<4000000000>` is a typing error, not a kernel.
const MAX_REGISTERS: u64 = 1 << 20;

impl<'a> Parser<'a> {
    pub(super) fn parameter(&mut self) -> Result<Variable<'a>> {
        let Token::Word(space @ (".param" | ".reg")) = self.token else {
            return self.expected("`.param` or `.reg`");
        };
        self.bump()?;
        self.declarator(if space == ".reg" { Space::Reg } else { Space::Param }, None)
    }

    /// One declaration, which may name several variables: `.reg .f32 a, b;`
    pub(super) fn variables(&mut self) -> Result<Vec<Variable<'a>>> {
        let space = match self.word("a state space")? {
            ".reg" => Space::Reg,
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            word => return Err(SyntaxError::new(self.previous, format!("`{word}` is not a state space"))),
        };
        let first = self.declarator(space, None)?;
        let like = (first.ty, first.vector, first.align);
        let mut variables = vec![first];
        while self.accept(b',')? {
            variables.push(self.declarator(space, Some(like))?);
            self.allowance.charge(2 * size_of::<Variable<'_>>());
            self.allowance.check()?;
        }
        self.expect(b';')?;
        Ok(variables)
    }

    /// Type, alignment, name, extents and initialiser; for a name after a comma, type, vector length and alignment are those
    /// of `like`.
    fn declarator(&mut self, space: Space, like: Option<(Scalar, u32, Option<u32>)>) -> Result<Variable<'a>> {
        let start = self.span;
        let mut align = like.and_then(|(.., align)| align);
        let mut vector = like.map_or(1, |(_, vector, _)| vector);
        let mut ty = like.map(|(ty, ..)| ty);
        let (mut opaque, mut managed) = (false, false);
        while let Token::Word(word) = self.token {
            let Some(directive) = word.strip_prefix('.') else { break };
            self.bump()?;
            match directive {
                "align" => {
                    let span = self.span;
                    let bytes = self.small("an alignment")?;
                    if !bytes.is_power_of_two() || bytes > 1 << 20 {
                        return Err(SyntaxError::new(span, "an alignment is a power of two"));
                    }
                    align = Some(bytes);
                }
                "v2" => vector = 2,
                "v4" => vector = 4,
                "v8" => vector = 8,
                // `.ptr.global.align 16` of a kernel parameter: a hint about what it points to
                "ptr" => {
                    while let Token::Word(".global" | ".const" | ".shared" | ".local" | ".align") = self.token {
                        if self.bump()? == Token::Word(".align") {
                            self.unsigned("an alignment")?;
                        }
                    }
                }
                "attribute" => {
                    // `.attribute(.managed, .unified(1, 2))`
                    self.expect(b'(')?;
                    let mut open = 1;
                    while open != 0 {
                        match self.bump()? {
                            Token::Punct(b'(') => open += 1,
                            Token::Punct(b')') => open -= 1,
                            Token::Word(".managed") => managed = true,
                            Token::End => return self.expected("`)`"),
                            _ => {}
                        }
                    }
                }
                // handles, whose contents the driver sets
                "texref" | "samplerref" | "surfref" => {
                    ty = Some(Scalar::B64);
                    opaque = true;
                }
                _ => match Scalar::declared(directive) {
                    Some(scalar) => ty = Some(scalar),
                    None => return Err(SyntaxError::new(self.previous, format!("`{word}` is not a type"))),
                },
            }
        }
        let Some(ty) = ty else { return self.expected("a type") };
        let name = self.word("a name")?;
        let mut count = None;
        if self.accept(b'<')? {
            let span = self.span;
            let registers = self.unsigned("a number of registers")?;
            if registers > MAX_REGISTERS {
                return Err(SyntaxError::new(span, format!("{registers} registers are too many")));
            }
            count = Some(registers as u32);
            self.expect(b'>')?;
        }
        let mut dims = Vec::new();
        while self.accept(b'[')? {
            dims.push(if self.at(b']') { None } else { Some(self.unsigned("an array extent")?) });
            self.allowance.charge(2 * size_of::<Option<u64>>());
            self.expect(b']')?;
        }
        if opaque && space != Space::Param {
            // `= { addr_mode_0 = wrap, … }`, in a syntax of its own
            while !matches!(self.token, Token::Punct(b';') | Token::End) {
                self.bump()?;
            }
        }
        let init = if self.accept(b'=')? { vec![self.init()?] } else { Vec::new() };
        let span = start.to(self.previous);
        Ok(Variable { space, name, ty, vector, count, dims, align, managed, init, linkage: Linkage::default(), span })
    }

    fn init(&mut self) -> Result<Init<'a>> {
        match self.token {
            Token::Punct(b'{') => {
                self.bump()?;
                self.deeper()?;
                let items = self.list(b'}', Self::init)?;
                self.depth -= 1;
                Ok(Init::List(items))
            }
            Token::Word(_) => self.init_symbol(0),
            _ => Ok(match self.number()? {
                // `0xff00(symbol)`: one byte of an address
                Operand::Int(mask) if self.accept(b'(')? => {
                    let Some(byte) = (0..8).find(|byte| mask == 0xff << (8 * byte)) else {
                        return self.error("a mask chooses one byte of an address");
                    };
                    let symbol = self.init_symbol(byte)?;
                    self.expect(b')')?;
                    symbol
                }
                Operand::Int(value) => Init::Int(value),
                Operand::F32(bits) => Init::F32(bits),
                Operand::F64(bits) => Init::F64(bits),
                _ => return self.expected("a value"),
            }),
        }
    }

    /// The address of a symbol, from a byte of it on: `symbol+4`, `generic(symbol+4)`.
    fn init_symbol(&mut self, byte: u8) -> Result<Init<'a>> {
        let first = self.word("a symbol")?;
        if first != "generic" {
            return Ok(Init::Symbol { name: first, offset: self.signed_offset()?, byte });
        }
        self.expect(b'(')?;
        let name = self.word("a symbol")?;
        let inner = self.signed_offset()?;
        self.expect(b')')?;
        let outer = self.signed_offset()?;
        Ok(Init::Symbol { name, offset: inner.wrapping_add(outer), byte })
    }
}
