//! PTX as written: names unresolved, opcodes as text. [`crate::lower`] gives it meaning.

use std::collections::HashMap;

use crate::scalar::Scalar;
use crate::span::Span;

/// The translation units of a text, each of which begins with `.version`.
#[derive(Debug, Default)]
pub(crate) struct Ast<'a> {
    /// `.file` table: index, with the unit's number in its upper half, to path.
    pub files: HashMap<u64, &'a str>,
    /// Module-scope variables.
    pub variables: Vec<Variable<'a>>,
    /// Kernels and device functions, declarations without a body included.
    pub functions: Vec<Function<'a>>,
}

/// The unit that a name is declared in, and whether other units see it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Linkage {
    pub unit: u32,
    /// `.visible`, `.extern`, `.weak` or `.common`
    pub linked: bool,
    /// `.extern`: it is defined elsewhere.
    pub external: bool,
    /// `.weak` or `.common`: one of several definitions.
    pub weak: bool,
}

/// `.target sm_90a`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    /// Compute capability, such as 90.
    pub capability: u32,
    /// Whether it ends in a letter: the code is for this architecture, or family of them, alone.
    pub specific: bool,
}

/// Space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Reg,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// A variable, a register set (`%r<9>`) or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub space: Space,
    pub name: &'a str,
    pub ty: Scalar,
    /// Elements of a `.v2`/`.v4` vector; 1 for a scalar.
    pub vector: u32,
    /// `%r<9>`: how many registers `%r0 … %r8` the declaration makes.
    pub count: Option<u32>,
    /// Array extents, outermost first; `None` stands for `[]`.
    pub dims: Vec<Option<u64>>,
    pub align: Option<u32>,
    /// `.attribute(.managed)`
    pub managed: bool,
    pub init: Vec<Init<'a>>,
    pub linkage: Linkage,
    pub span: Span,
}

/// One element of an initialiser, nested braces flattened by [`crate::lower`] with the extents of the array.
#[derive(Clone, Debug)]
pub(crate) enum Init<'a> {
    Int(i128),
    F32(u32),
    F64(u64),
    /// A symbol's address plus an offset. `generic(sym)` is the same: a variable has one address, generic or not.
    Symbol {
        name: &'a str,
        offset: i64,
        /// The byte of the address that the element begins with.
        byte: u8,
    },
    List(Vec<Init<'a>>),
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    pub linkage: Linkage,
    pub target: Target,
    pub kernel: bool,
    pub returns: Vec<Variable<'a>>,
    pub params: Vec<Variable<'a>>,
    /// `.maxntid` or `.reqntid` as a number of threads.
    pub max_threads: Option<u32>,
    /// `.reqntid`: the block's shape must be this one.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxnreg`: registers of each thread.
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`: blocks of a cluster along each axis.
    pub cluster: Option<[u32; 3]>,
    /// Directives that ask for features that the simulator does not have, with their names.
    pub refused: Vec<(Span, String)>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
}

/// Results and parameters of a function, in this order.
pub(crate) type Signature<'a> = [Vec<Variable<'a>>; 2];

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Label(&'a str, Span),
    Instruction(Instruction<'a>),
    Variable(Variable<'a>),
    Block(Vec<Statement<'a>>),
    /// With the calls that it was inlined for, innermost first, where only a comment says so.
    Loc(Loc, Vec<(&'a str, u32, u32)>),
    /// `.pragma "used_bytes_mask 0xff"`: the bytes that the program uses of what the next instruction loads.
    UsedBytes(u32),
    /// `name: .branchtargets L0, L1;` and `.calltargets`.
    Targets(&'a str, Vec<&'a str>),
    /// `name: .callprototype (…) _ (…);`
    Prototype(&'a str, Signature<'a>),
    /// A directive that the simulator does not know, and the unknown part of it.
    Refused(Span, String),
}

/// A `.loc` directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loc {
    pub file: u64,
    pub line: u32,
    pub column: u32,
    /// The call that was inlined here.
    pub inlined_at: Option<(u64, u32, u32)>,
}

#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    /// `@%p` or `@!%p` (true).
    pub guard: Option<(&'a str, bool)>,
    pub opcode: &'a str,
    pub operands: Vec<Operand<'a>>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    /// A register, symbol, label or special register; `_` too.
    Name(&'a str),
    /// `!%p`
    Not(&'a str),
    /// `sym+4`, as a value
    Offset(&'a str, i64),
    Int(i128),
    F32(u32),
    F64(u64),
    /// `[base+offset]`; `base` may be a register, a symbol or absent.
    Address(Option<&'a str>, i64),
    /// `array[index+offset]`, the same as `[array+index+offset]`; `index` may be absent.
    Element(&'a str, Option<&'a str>, i64),
    /// `[a, b, …]`: a texture or surface with its coordinates, an address with those of a tile.
    Bracket(Vec<Operand<'a>>),
    /// `-%r`
    Negated(&'a str),
    /// Operands of an instruction that the simulator does not know, in a syntax that it does not know either.
    Unknown,
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)`: the arguments or results of a call
    List(Vec<Operand<'a>>),
    /// `a|b`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
}
