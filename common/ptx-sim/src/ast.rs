//! PTX as written: names unresolved, opcodes as text. [`crate::lower`] gives it meaning.

use std::collections::HashMap;

use crate::span::Span;

/// A whole translation unit.
#[derive(Debug, Default)]
pub(crate) struct Ast<'a> {
    /// `.file` table: index to path.
    pub files: HashMap<u64, &'a str>,
    /// Module-scope variables.
    pub variables: Vec<Variable<'a>>,
    /// Kernels and device functions, declarations without a body included.
    pub functions: Vec<Function<'a>>,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Reg,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// A fundamental type: its name decides size and signedness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
}

impl Scalar {
    /// The type of that name, without its dot.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Size in bytes; a predicate counts as 1.
    pub fn size(self) -> u32 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }

    pub fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub fn float(self) -> bool {
        matches!(self, Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2 | Self::Tf32 | Self::F32 | Self::F64)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::B128 => "b128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::F16x2 => "f16x2",
            Self::Bf16 => "bf16",
            Self::Bf16x2 => "bf16x2",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
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
    pub init: Vec<Init<'a>>,
    /// Whether `.extern` stands before it.
    pub external: bool,
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
    },
    List(Vec<Init<'a>>),
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    pub kernel: bool,
    pub returns: Vec<Variable<'a>>,
    pub params: Vec<Variable<'a>>,
    /// `.maxntid` or `.reqntid` as a number of threads.
    pub max_threads: Option<u32>,
    /// `.reqntid`: the block's shape must be this one.
    pub required_threads: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
}

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Label(&'a str, Span),
    Instruction(Instruction<'a>),
    Variable(Variable<'a>),
    Block(Vec<Statement<'a>>),
    Loc(Loc),
    /// `name: .branchtargets L0, L1;` and `.calltargets`.
    Targets(&'a str, Vec<&'a str>),
    /// `name: .callprototype (…) _ (…);`, which says nothing that the call does not
    Prototype,
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
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)`: the arguments or results of a call
    List(Vec<Operand<'a>>),
    /// `a|b`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
}
