//! Tokens to [`crate::ast`]: the grammar of PTX ISA, "Syntax" and "Directives", as far as it occurs.

use crate::ast::*;
use crate::error::SyntaxError;
use crate::lex::{Lexer, Token};
use crate::limits::Allowance;
use crate::lower;
use crate::scalar::Scalar;
use crate::span::Span;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Maximum depth of braces, brackets and parentheses: the parser and later stages recurse.
const MAX_DEPTH: u32 = 64;
/// Maximum registers of one declaration: `%r<4000000000>` is a typing error, not a kernel.
const MAX_REGISTERS: u64 = 1 << 20;

/// Precedence of `*`: see [`Parser::operator`].
const PRODUCTS: u8 = 9;

/// Returns also the rest of the allowance.
pub(crate) fn parse(source: &str, allowance: Allowance) -> Result<(Ast<'_>, Allowance)> {
    let mut lexer = Lexer::new(source);
    let (token, span) = lexer.next()?;
    let mut parser = Parser { lexer, token, span, previous: span, depth: 0, call: false, allowance };
    let ast = parser.module()?;
    Ok((ast, parser.allowance))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    span: Span,
    previous: Span,
    depth: u32,
    /// Inside the operands of a call, where parentheses hold a list.
    call: bool,
    allowance: Allowance,
}

impl<'a> Parser<'a> {
    fn bump(&mut self) -> Result<Token<'a>> {
        let token = self.token;
        self.previous = self.span;
        (self.token, self.span) = self.lexer.next()?;
        Ok(token)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(SyntaxError::new(self.span, message))
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.token {
            Token::Word(word) => format!("`{word}`"),
            Token::Punct(byte) => format!("`{}`", byte as char),
            Token::End => "the end of the file".into(),
            Token::Str(_) => "a string".into(),
            Token::Int(_) | Token::F32(_) | Token::F64(_) => "a number".into(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn at(&self, punct: u8) -> bool {
        self.token == Token::Punct(punct)
    }

    fn accept(&mut self, punct: u8) -> Result<bool> {
        let found = self.at(punct);
        if found {
            self.bump()?;
        }
        Ok(found)
    }

    fn expect(&mut self, punct: u8) -> Result<()> {
        if self.accept(punct)? { Ok(()) } else { self.expected(&format!("`{}`", punct as char)) }
    }

    fn accept_word(&mut self, word: &str) -> Result<bool> {
        let found = self.token == Token::Word(word);
        if found {
            self.bump()?;
        }
        Ok(found)
    }

    fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.token {
            Token::Word(word) => {
                self.bump()?;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn unsigned(&mut self, what: &str) -> Result<u64> {
        match self.token {
            Token::Int(value) => {
                self.bump()?;
                Ok(value)
            }
            _ => self.expected(what),
        }
    }

    fn small(&mut self, what: &str) -> Result<u32> {
        let span = self.span;
        let value = self.unsigned(what)?;
        u32::try_from(value).map_err(|_| SyntaxError::new(span, format!("{what} {value} is too large")))
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.error("nested too deeply") } else { Ok(()) }
    }

    /// Items of `parse` separated by commas, up to and including `close`.
    fn list<T>(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.accept(close)? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            self.allowance.charge(2 * size_of::<T>()); // a growing vector takes up to twice its items
            self.allowance.check()?;
            if !self.accept(b',')? {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    fn module(&mut self) -> Result<Ast<'a>> {
        let mut ast = Ast::default();
        if self.token != Token::Word(".version") {
            return self.expected("`.version`, with which every PTX file begins");
        }
        while self.token != Token::End {
            self.allowance.charge(2 * size_of::<Function<'_>>());
            self.allowance.check()?;
            let Token::Word(word) = self.token else { return self.expected("a directive") };
            match word {
                ".version" => {
                    self.bump()?;
                    match self.bump()? {
                        Token::F64(_) | Token::Int(_) => {}
                        _ => return Err(SyntaxError::new(self.previous, "`.version` needs a number such as 8.0")),
                    }
                }
                ".target" => {
                    self.bump()?;
                    let target = self.word("a target such as `sm_80`")?;
                    let number = target.trim_start_matches(|first: char| !first.is_ascii_digit());
                    let digits = number.trim_end_matches(|last: char| !last.is_ascii_digit());
                    ast.target = digits.parse().unwrap_or(u32::MAX);
                    while self.accept(b',')? {
                        self.word("a target option")?;
                    }
                }
                ".address_size" => {
                    self.bump()?;
                    let span = self.span;
                    if self.unsigned("32 or 64")? != 64 {
                        return Err(SyntaxError::new(span, "only 64-bit addresses are supported"));
                    }
                }
                ".file" => {
                    let (index, path) = self.file()?;
                    ast.files.insert(index, path);
                }
                ".section" => self.section()?,
                ".alias" | ".pragma" => {
                    while !self.accept(b';')? {
                        if self.token == Token::End {
                            return self.expected("`;`");
                        }
                        self.bump()?;
                    }
                }
                _ => self.definition(&mut ast)?,
            }
        }
        Ok(ast)
    }

    /// `.file 1 "path" [, timestamp, size]`
    fn file(&mut self) -> Result<(u64, &'a str)> {
        self.bump()?;
        let index = self.unsigned("a file number")?;
        let Token::Str(path) = self.token else { return self.expected("a quoted path") };
        self.bump()?;
        while self.accept(b',')? {
            self.unsigned("a number")?;
        }
        Ok((index, path))
    }

    /// Debugging sections are bytes for a debugger: skipped entirely.
    fn section(&mut self) -> Result<()> {
        self.bump()?;
        self.word("a section name")?;
        self.expect(b'{')?;
        while !self.accept(b'}')? {
            if self.token == Token::End {
                return self.expected("`}`");
            }
            self.bump()?;
        }
        Ok(())
    }

    /// A function or a module-scope variable, after its linkage directives.
    fn definition(&mut self, ast: &mut Ast<'a>) -> Result<()> {
        let mut external = false;
        loop {
            match self.token {
                Token::Word(".extern") => external = true,
                Token::Word(".visible" | ".weak" | ".common") => {}
                _ => break,
            }
            self.bump()?;
        }
        match self.token {
            Token::Word(".entry") => {
                self.bump()?;
                let function = self.function(true)?;
                ast.functions.push(function);
            }
            Token::Word(".func") => {
                self.bump()?;
                let function = self.function(false)?;
                ast.functions.push(function);
            }
            Token::Word(".global" | ".const" | ".shared") => {
                for mut variable in self.variables()? {
                    variable.external = external;
                    ast.variables.push(variable);
                }
            }
            _ => return self.expected("a function or a variable"),
        }
        Ok(())
    }

    fn function(&mut self, kernel: bool) -> Result<Function<'a>> {
        while self.accept_word(".noreturn")? {}
        let returns = if !kernel && self.accept(b'(')? { self.list(b')', Self::parameter)? } else { Vec::new() };
        let name = self.word("a function name")?;
        let params = if self.accept(b'(')? { self.list(b')', Self::parameter)? } else { Vec::new() };
        let mut function = Function {
            name,
            kernel,
            returns,
            params,
            max_threads: None,
            max_registers: None,
            required_threads: None,
            cluster: None,
            refused: Vec::new(),
            body: None,
        };
        loop {
            match self.token {
                Token::Word(directive @ (".maxntid" | ".reqntid")) => {
                    self.bump()?;
                    let mut shape = [1; 3];
                    shape[0] = self.small("a number of threads")?;
                    for extent in &mut shape[1..] {
                        if !self.accept(b',')? {
                            break;
                        }
                        *extent = self.small("a number of threads")?;
                    }
                    function.max_threads = Some(shape.iter().fold(1, |product: u32, n| product.saturating_mul(*n)));
                    if directive == ".reqntid" {
                        function.required_threads = Some(shape);
                    }
                }
                Token::Word(".maxnreg") => {
                    self.bump()?;
                    function.max_registers = Some(self.small("a number of registers")?);
                }
                Token::Word(".minnctapersm" | ".maxnctapersm" | ".local_maxnreg") => {
                    self.bump()?;
                    self.unsigned("a number")?;
                }
                Token::Word(".reqnctapercluster") => {
                    self.bump()?;
                    let mut shape = [1; 3];
                    shape[0] = self.small("a number of blocks")?;
                    for extent in &mut shape[1..] {
                        if !self.accept(b',')? {
                            break;
                        }
                        *extent = self.small("a number of blocks")?;
                    }
                    function.cluster = Some(shape);
                }
                Token::Word(".maxclusterrank") => {
                    self.bump()?;
                    self.small("a number of blocks")?;
                }
                Token::Word(".blocksareclusters") => {
                    let reason = "a grid that counts clusters instead of blocks".to_owned();
                    function.refused.push((self.span, reason));
                    self.bump()?;
                }
                Token::Word(".noreturn" | ".explicitcluster") => {
                    self.bump()?;
                }
                Token::Word(".unified") => {
                    self.bump()?;
                    self.expect(b'(')?;
                    self.list(b')', |parser| parser.unsigned("a number"))?;
                }
                Token::Word(".pragma") => {
                    self.pragma()?;
                }
                Token::Punct(b';') => {
                    self.bump()?;
                    return Ok(function);
                }
                Token::Punct(b'{') => {
                    self.bump()?;
                    function.body = Some(self.block()?);
                    return Ok(function);
                }
                Token::Word(directive) if directive.starts_with('.') && !is_definition(directive) => {
                    let start = self.span;
                    while !matches!(self.token, Token::End | Token::Punct(b'{' | b';')) {
                        self.bump()?;
                    }
                    function.refused.push((start.to(self.previous), format!("the directive {directive}")));
                }
                _ => return self.expected("a function body or `;`"),
            }
        }
    }

    fn pragma(&mut self) -> Result<()> {
        self.bump()?;
        while !self.accept(b';')? {
            match self.bump()? {
                Token::Str(_) | Token::Punct(b',') => {}
                _ => return Err(SyntaxError::new(self.previous, "`.pragma` takes quoted strings")),
            }
        }
        Ok(())
    }

    fn parameter(&mut self) -> Result<Variable<'a>> {
        let Token::Word(space @ (".param" | ".reg")) = self.token else {
            return self.expected("`.param` or `.reg`");
        };
        self.bump()?;
        self.declarator(if space == ".reg" { Space::Reg } else { Space::Param }, None)
    }

    /// One declaration, which may name several variables: `.reg .f32 a, b;`
    fn variables(&mut self) -> Result<Vec<Variable<'a>>> {
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
        let mut opaque = false;
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
        Ok(Variable { space, name, ty, vector, count, dims, align, init, external: false, span })
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

    /// `+4`, `-8`, `+-8`, `+4*2`, or nothing.
    fn signed_offset(&mut self) -> Result<i64> {
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
    fn number(&mut self) -> Result<Operand<'a>> {
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

    /// Statements up to and including the closing brace.
    fn block(&mut self) -> Result<Vec<Statement<'a>>> {
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
                Token::Word(".loc") => statements.push(Statement::Loc(self.loc()?)),
                Token::Word(".pragma") => self.pragma()?,
                Token::Word(".section") => self.section()?,
                Token::Word(".file") => {
                    self.file()?;
                }
                Token::Word(".reg" | ".global" | ".const" | ".shared" | ".local" | ".param") => {
                    statements.extend(self.variables()?.into_iter().map(Statement::Variable));
                }
                Token::Word(directive) if directive.starts_with('.') => {
                    let start = self.span;
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
    fn skip_past_semicolon(&mut self) -> Result<()> {
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
            Token::Word(".callprototype") => {
                self.prototype()?;
                Ok(Statement::Prototype)
            }
            _ => Ok(Statement::Label(name, span)),
        }
    }

    /// `.callprototype (…) _ (…) .noreturn;`, whose semicolon is optional in ptxas.
    fn prototype(&mut self) -> Result<()> {
        self.bump()?;
        if self.accept(b'(')? {
            self.list(b')', Self::parameter)?;
        }
        self.word("`_`, the name of a prototype")?;
        if self.accept(b'(')? {
            self.list(b')', Self::parameter)?;
        }
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
        Ok(())
    }

    fn loc(&mut self) -> Result<Loc> {
        self.bump()?;
        let file = self.unsigned("a file number")?;
        let line = self.small("a line")?;
        let column = self.small("a column")?;
        let mut loc = Loc { file, line, column, inlined_at: None };
        while self.accept(b',')? {
            match self.word("`function_name` or `inlined_at`")? {
                "function_name" => {
                    self.word("a label")?;
                    self.signed_offset()?;
                }
                "inlined_at" => {
                    let file = self.unsigned("a file number")?;
                    loc.inlined_at = Some((file, self.small("a line")?, self.small("a column")?));
                }
                word => return Err(SyntaxError::new(self.previous, format!("`.loc` has no attribute `{word}`"))),
            }
        }
        Ok(loc)
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

    /// A constant expression whose value is an address or an index.
    fn integer(&mut self) -> Result<i64> {
        match self.number()? {
            Operand::Int(value) => Ok(value as i64),
            _ => self.error("an integer is expected here"),
        }
    }
}

/// Whether the directive begins a variable or a function rather than being an attribute of one.
fn is_definition(directive: &str) -> bool {
    matches!(
        directive,
        ".entry" | ".func" | ".global" | ".const" | ".shared" | ".visible" | ".extern" | ".weak" | ".common"
    )
}
