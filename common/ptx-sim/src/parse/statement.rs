//! Statements of a body: blocks, labels, instructions and their operands.

use super::{Parser, Result};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::lex::Token;
use crate::lower;
use crate::span::Span;

impl<'a> Parser<'a> {
    /// Statements up to and including the closing brace.
    pub(super) fn block(&mut self) -> Result<Vec<Statement<'a>>> {
        self.deeper()?;
        let mut statements = Vec::new();
        while !self.accept(b'}')? {
            self.allowance.charge(2 * size_of::<Statement<'_>>());
            self.allowance.check()?;
            match self.token {
                Token::End => return self.expected("`}`"),
                Token::Punct(b'{') => {
                    self.bump()?;
                    statements.push(Statement::Block(self.block()?));
                }
                Token::Punct(b'@') => statements.push(Statement::Instruction(self.instruction()?)),
                Token::Punct(b';') => {
                    self.bump()?;
                }
                Token::Word(".loc") => statements.push(self.loc()?),
                Token::Word(".pragma") => statements.extend(self.pragmas()?.map(Statement::UsedBytes)),
                Token::Word(".section") => self.section()?,
                Token::Word(".file") => {
                    self.file()?;
                }
                Token::Word(".reg" | ".global" | ".const" | ".shared" | ".local" | ".param") => {
                    statements.extend(self.variables()?.into_iter().map(Statement::Variable));
                }
                Token::Word(directive) if directive.starts_with('.') => {
                    let start = self.span;
                    if !self.newer {
                        return self.error(format!("PTX has no directive `{directive}` in a function"));
                    }
                    self.skip_past_semicolon()?;
                    let reason = format!("the directive {directive}");
                    statements.push(Statement::Refused(start.to(self.previous), reason));
                }
                Token::Word(_) => {
                    let statement = self.label_or_instruction()?;
                    statements.push(statement);
                }
                _ => return self.expected("a statement"),
            }
        }
        self.depth -= 1;
        Ok(statements)
    }

    /// Skips to the end of an unknown statement.
    pub(super) fn skip_past_semicolon(&mut self) -> Result<()> {
        while !self.accept(b';')? {
            if self.token == Token::End {
                return self.expected("`;`");
            }
            self.bump()?;
        }
        Ok(())
    }

    fn label_or_instruction(&mut self) -> Result<Statement<'a>> {
        let span = self.span;
        let Token::Word(name) = self.bump()? else { return self.expected("a label or an instruction") };
        if !self.accept(b':')? {
            return Ok(Statement::Instruction(self.operands(None, name, span)?));
        }
        match self.token {
            Token::Word(".branchtargets" | ".calltargets") => {
                self.bump()?;
                Ok(Statement::Targets(name, self.list(b';', |parser| parser.word("a label"))?))
            }
            Token::Word(".callprototype") => Ok(Statement::Prototype(name, self.prototype()?)),
            _ => Ok(Statement::Label(name, span)),
        }
    }

    /// `.callprototype (…) _ (…) .noreturn;`, whose semicolon is optional in ptxas.
    fn prototype(&mut self) -> Result<Signature<'a>> {
        self.bump()?;
        let returns = if self.accept(b'(')? { self.list(b')', Self::parameter)? } else { Vec::new() };
        self.word("`_`, the name of a prototype")?;
        let params = if self.accept(b'(')? { self.list(b')', Self::parameter)? } else { Vec::new() };
        loop {
            match self.token {
                Token::Word(".noreturn") => {
                    self.bump()?;
                }
                Token::Word(".abi_preserve" | ".abi_preserve_control") => {
                    self.bump()?;
                    self.unsigned("a number of registers")?;
                }
                _ => break,
            }
        }
        self.accept(b';')?;
        Ok([returns, params])
    }

    fn loc(&mut self) -> Result<Statement<'a>> {
        self.bump()?;
        let file = self.file_number()?;
        let line = self.small("a line")?;
        let column = self.small("a column")?;
        let comment = self.lexer.comment_after(self.previous);
        let mut loc = Loc { file, line, column, inlined_at: None };
        while self.accept(b',')? {
            match self.word("`function_name` or `inlined_at`")? {
                "function_name" => {
                    self.word("a label")?;
                    self.signed_offset()?;
                }
                "inlined_at" => {
                    let file = self.file_number()?;
                    loc.inlined_at = Some((file, self.small("a line")?, self.small("a column")?));
                }
                word => return Err(SyntaxError::new(self.previous, format!("`.loc` has no attribute `{word}`"))),
            }
        }
        let calls = if loc.inlined_at.is_none() { calls_in(comment) } else { Vec::new() };
        self.allowance.charge(calls.capacity() * size_of::<(&str, u32, u32)>());
        Ok(Statement::Loc(loc, calls))
    }

    fn instruction(&mut self) -> Result<Instruction<'a>> {
        let start = self.span;
        self.expect(b'@')?;
        let negated = self.accept(b'!')?;
        let guard = self.word("a predicate register")?;
        let opcode = self.word("an instruction")?;
        self.operands(Some((guard, negated)), opcode, start)
    }

    fn operands(&mut self, guard: Option<(&'a str, bool)>, opcode: &'a str, start: Span) -> Result<Instruction<'a>> {
        if !self.newer && !lower::is_instruction(opcode) {
            let mnemonic = opcode.split('.').next().unwrap_or_default();
            return Err(SyntaxError::new(start, format!("PTX has no instruction `{mnemonic}`")));
        }
        self.call = opcode.starts_with("call");
        let depth = self.depth;
        let operands = match self.list(b';', Self::operand) {
            Ok(operands) => operands,
            // What nobody here knows the meaning of may have operands of any form.
            Err(error) if !lower::knows(opcode) => {
                if self.skip_past_semicolon().is_err() {
                    return Err(error);
                }
                self.depth = depth;
                vec![Operand::Unknown]
            }
            Err(error) => return Err(error),
        };
        Ok(Instruction { guard, opcode, operands, span: start.to(self.previous) })
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        let first = self.simple_operand()?;
        if self.accept(b'|')? {
            return Ok(Operand::Pair(Box::new(first), Box::new(self.simple_operand()?)));
        }
        Ok(first)
    }

    fn simple_operand(&mut self) -> Result<Operand<'a>> {
        Ok(match self.token {
            Token::Word(name) => {
                self.bump()?;
                if self.accept(b'[')? {
                    return self.element(name);
                }
                match self.signed_offset()? {
                    0 => Operand::Name(name),
                    offset => Operand::Offset(name, offset),
                }
            }
            Token::Punct(b'-') if matches!(self.lexer.following(), b'%' | b'_' | b'$' | b'a'..=b'z' | b'A'..=b'Z') => {
                self.bump()?;
                Operand::Negated(self.word("a register")?)
            }
            Token::Punct(b'!') if !matches!(self.lexer.following(), b'0'..=b'9' | b'(' | b'!' | b'~' | b'-') => {
                self.bump()?;
                Operand::Not(self.word("a predicate register")?)
            }
            Token::Punct(b'{') => {
                self.bump()?;
                self.deeper()?;
                let items = self.list(b'}', Self::operand)?;
                self.depth -= 1;
                Operand::Vector(items)
            }
            Token::Punct(b'(') if self.call => {
                self.bump()?;
                self.deeper()?;
                let items = self.list(b')', Self::operand)?;
                self.depth -= 1;
                Operand::List(items)
            }
            Token::Punct(b'[') => {
                self.bump()?;
                self.address()?
            }
            _ => self.number()?,
        })
    }

    /// After `[`: `base+offset]`, or `base+offset, coordinates …]`.
    fn address(&mut self) -> Result<Operand<'a>> {
        let base = match self.token {
            Token::Word(name) => {
                self.bump()?;
                Some(name)
            }
            _ => None,
        };
        let offset = match (base, self.token) {
            (None, Token::Int(_) | Token::Punct(b'(')) => self.integer()?,
            _ => self.signed_offset()?,
        };
        let address = Operand::Address(base, offset);
        if !self.accept(b',')? {
            self.expect(b']')?;
            return Ok(address);
        }
        self.deeper()?;
        let mut items = vec![address];
        items.extend(self.list(b']', Self::operand)?);
        self.depth -= 1;
        Ok(Operand::Bracket(items))
    }

    /// After `array[`: `index]`, a constant, or a register with or without an offset.
    fn element(&mut self, array: &'a str) -> Result<Operand<'a>> {
        let (index, offset) = match self.token {
            Token::Word(index) => {
                self.bump()?;
                (Some(index), self.signed_offset()?)
            }
            _ => (None, self.integer()?),
        };
        self.expect(b']')?;
        Ok(Operand::Element(array, index, offset))
    }
}

/// Maximum number of nested calls that are read.
const MAX_CALLS: usize = 64;

/// The calls that an instruction was inlined for, innermost first: clang says them in a comment only, as
/// `a.h:218:10 @[ b.cu:2:21 @[ c.cu:9:5 ] ]`.
fn calls_in(comment: &str) -> Vec<(&str, u32, u32)> {
    let call = |text| {
        let mut parts = str::trim_end_matches(text, [']', ' ']).rsplitn(3, ':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some((parts.next()?.trim(), line, column))
    };
    comment.split("@[").skip(1).take(MAX_CALLS).map_while(call).collect()
}
