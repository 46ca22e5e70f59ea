//! Tokens to [`crate::ast`]: the grammar of PTX ISA, "Syntax" and "Directives", as far as it occurs.

mod expression;
mod statement;
mod variable;

use crate::ast::*;
use crate::error::SyntaxError;
use crate::lex::{Lexer, Token};
use crate::limits::Allowance;
use crate::span::Span;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Maximum depth of braces, brackets and parentheses: the parser and later stages recurse.
const MAX_DEPTH: u32 = 64;

/// The version of PTX whose instructions and directives are all known by name.
const KNOWN_VERSION: f64 = 9.0;

/// Returns also the rest of the allowance.
pub(crate) fn parse(source: &str, allowance: Allowance) -> Result<(Ast<'_>, Allowance)> {
    let mut lexer = Lexer::new(source);
    let (token, span) = lexer.next()?;
    let mut parser = Parser {
        lexer,
        token,
        span,
        previous: span,
        depth: 0,
        call: false,
        newer: false,
        units: 0,
        target: Target::default(),
        allowance,
    };
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
    /// Whether the text is of a PTX later than [`KNOWN_VERSION`], which may have anything new.
    newer: bool,
    /// Number of `.version`s before.
    units: u32,
    target: Target,
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
                    self.units += 1;
                    match self.bump()? {
                        Token::F64(bits) => self.newer = f64::from_bits(bits) > KNOWN_VERSION,
                        Token::Int(major) => self.newer = major as f64 > KNOWN_VERSION,
                        _ => return Err(SyntaxError::new(self.previous, "`.version` needs a number such as 8.0")),
                    }
                }
                ".target" => {
                    self.bump()?;
                    let target = self.word("a target such as `sm_80`")?;
                    let number = target.trim_start_matches(|first: char| !first.is_ascii_digit());
                    let digits = number.trim_end_matches(|last: char| !last.is_ascii_digit());
                    self.target = Target {
                        capability: digits.parse().unwrap_or(u32::MAX),
                        specific: digits.len() < number.len(),
                    };
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
                ".pragma" => {
                    self.pragmas()?;
                }
                ".alias" => {
                    self.bump()?;
                    self.skip_past_semicolon()?;
                }
                _ => self.definition(&mut ast)?,
            }
        }
        Ok(ast)
    }

    /// `.file 1 "path" [, timestamp, size]`
    fn file(&mut self) -> Result<(u64, &'a str)> {
        self.bump()?;
        let index = self.file_number()?;
        let Token::Str(path) = self.token else { return self.expected("a quoted path") };
        self.bump()?;
        while self.accept(b',')? {
            self.unsigned("a number")?;
        }
        Ok((index, path))
    }

    /// The number of a file, which is one of the unit.
    fn file_number(&mut self) -> Result<u64> {
        Ok(u64::from(self.units) << 32 | u64::from(self.small("a file number")?))
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
        let mut linkage = Linkage { unit: self.units, ..Linkage::default() };
        while let Token::Word(word @ (".extern" | ".visible" | ".weak" | ".common")) = self.token {
            linkage.linked = true;
            linkage.external |= word == ".extern";
            linkage.weak |= matches!(word, ".weak" | ".common");
            self.bump()?;
        }
        match self.token {
            Token::Word(".entry") => {
                self.bump()?;
                // Kernels are called by their names alone.
                let function = self.function(true, Linkage { linked: true, ..linkage })?;
                ast.functions.push(function);
            }
            Token::Word(".func") => {
                self.bump()?;
                let function = self.function(false, linkage)?;
                ast.functions.push(function);
            }
            Token::Word(".global" | ".const" | ".shared") => {
                for mut variable in self.variables()? {
                    variable.linkage = linkage;
                    ast.variables.push(variable);
                }
            }
            _ => return self.expected("a function or a variable"),
        }
        Ok(())
    }

    fn function(&mut self, kernel: bool, linkage: Linkage) -> Result<Function<'a>> {
        while self.accept_word(".noreturn")? {}
        let returns = if !kernel && self.accept(b'(')? { self.list(b')', Self::parameter)? } else { Vec::new() };
        let name = self.word("a function name")?;
        let params = if self.accept(b'(')? { self.list(b')', Self::parameter)? } else { Vec::new() };
        let mut function = Function {
            name,
            linkage,
            target: self.target,
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
                    self.pragmas()?;
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
                    if !self.newer && !directive.starts_with(".abi_preserve") {
                        return self.error(format!("PTX has no directive `{directive}` of a function"));
                    }
                    while !matches!(self.token, Token::End | Token::Punct(b'{' | b';')) {
                        self.bump()?;
                    }
                    function.refused.push((start.to(self.previous), format!("the directive {directive}")));
                }
                _ => return self.expected("a function body or `;`"),
            }
        }
    }

    /// `.pragma "name", "name value";`, of which those that say how to compile change nothing here. Returns the mask of
    /// `used_bytes_mask`.
    fn pragmas(&mut self) -> Result<Option<u32>> {
        self.bump()?;
        let mut used = None;
        for (span, pragma) in self.list(b';', Self::string)? {
            if let Some(mask) = pragma.strip_prefix("used_bytes_mask") {
                let mask = mask.trim();
                let hexadecimal = mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X"));
                let read = hexadecimal.map_or_else(|| mask.parse(), |digits| u32::from_str_radix(digits, 16));
                let wrong = |_| SyntaxError::new(span, "`used_bytes_mask` takes a mask of 32 bits, one for each byte");
                used = Some(read.map_err(wrong)?);
            }
        }
        Ok(used)
    }

    fn string(&mut self) -> Result<(Span, &'a str)> {
        match self.bump()? {
            Token::Str(text) => Ok((self.previous, text)),
            _ => Err(SyntaxError::new(self.previous, "a quoted string is expected")),
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
