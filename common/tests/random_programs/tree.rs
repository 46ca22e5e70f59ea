//! What a program is: a tree of statements over fixed pools of registers.
//!
//! Every register of the pools has a value from the start, every unit of text leaves the temporaries to the next, and blocks end
//! where they began: so any statement may be left out, and any block be replaced by what is in it, and a valid program remains.
//! The shrinker lives on that.

use std::fmt;

/// What a register of the pools holds. Floats keep to numbers and the canonical NaN: what makes another NaN, or may, is followed
/// by a repair. So no compiler's freedom to move or fold a NaN can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Short,
    Word,
    Long,
    Half,
    HalfPair,
    Brain,
    BrainPair,
    Single,
    Double,
    Predicate,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Long,
        Kind::Double,
        Kind::Word,
        Kind::Single,
        Kind::HalfPair,
        Kind::BrainPair,
        Kind::Predicate,
        Kind::Short,
        Kind::Half,
        Kind::Brain,
    ];

    /// The word of the table of forms, the registers' name, how many there are, and their bytes in the output.
    const fn traits(self) -> (&'static str, &'static str, u8, u32) {
        match self {
            Kind::Short => ("h", "%h", 5, 2),
            Kind::Word => ("r", "%r", 8, 4),
            Kind::Long => ("l", "%l", 5, 8),
            Kind::Half => ("f16", "%hf", 3, 2),
            Kind::HalfPair => ("f16x2", "%hp", 3, 4),
            Kind::Brain => ("bf16", "%bf", 3, 2),
            Kind::BrainPair => ("bf16x2", "%bp", 3, 4),
            Kind::Single => ("f32", "%f", 6, 4),
            Kind::Double => ("f64", "%d", 4, 8),
            Kind::Predicate => ("p", "%p", 4, 4),
        }
    }

    /// The kind that a word of the table of forms begins with, without its marks.
    pub fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub fn word(self) -> &'static str {
        self.traits().0
    }

    pub fn prefix(self) -> &'static str {
        self.traits().1
    }

    pub fn count(self) -> u8 {
        self.traits().2
    }

    pub fn bytes(self) -> u32 {
        self.traits().3
    }

    pub fn is_float(self) -> bool {
        !matches!(self, Kind::Short | Kind::Word | Kind::Long | Kind::Predicate)
    }
}

/// A register of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub Kind, pub u8);

impl Reg {
    pub fn all() -> impl Iterator<Item = Reg> {
        Kind::ALL.into_iter().flat_map(|kind| (0..kind.count()).map(move |index| Reg(kind, index)))
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.prefix(), self.1)
    }
}

/// A predicate as a lane reads it.
#[derive(Clone, Debug)]
pub struct Test {
    pub predicate: String,
    pub negated: bool,
}

impl Test {
    /// `%p1`, or `!%p1`.
    pub fn operand(&self, negated: bool) -> String {
        format!("{}{}", if self.negated != negated { "!" } else { "" }, self.predicate)
    }
}

/// What takes a warp's lanes apart, if anything does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All lanes of the warp (or of the part of it that is here) go the same way.
    Together,
    /// Each lane for itself.
    Apart,
}

#[derive(Clone, Debug)]
pub enum Stmt {
    /// Lines that belong together. `%MASK` stands for the register that names the lanes which are here.
    Unit(Vec<String>),
    /// `setup` computes what `test` reads.
    If { setup: Vec<String>, test: Test, reach: Reach, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// `setup` puts the number of rounds into `%t0`.
    Loop { setup: Vec<String>, reach: Reach, body: Vec<Stmt> },
    /// `brx.idx` by the low bits of a register; as many arms as a power of two. No instruction of several lanes in them.
    Switch { index: Reg, arms: Vec<Vec<Stmt>> },
    /// Leaves the loop whose body this stands in; only where lanes part anyhow.
    Leave(Test),
}

impl Stmt {
    pub fn blocks(&self) -> Vec<&Vec<Stmt>> {
        match self {
            Stmt::Unit(_) | Stmt::Leave(_) => Vec::new(),
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::Loop { body, .. } => vec![body],
            Stmt::Switch { arms, .. } => arms.iter().collect(),
        }
    }

    pub fn blocks_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::Unit(_) | Stmt::Leave(_) => Vec::new(),
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::Loop { body, .. } => vec![body],
            Stmt::Switch { arms, .. } => arms.iter_mut().collect(),
        }
    }

    /// This statement and all inside it.
    pub fn size(&self) -> usize {
        1 + self.blocks().into_iter().map(|block| size(block)).sum::<usize>()
    }

    /// Something in it names the lanes that are here.
    pub fn needs_mask(&self) -> bool {
        match self {
            Stmt::Unit(lines) => lines.iter().any(|line| line.contains("%MASK")),
            _ => self.blocks().into_iter().flatten().any(Stmt::needs_mask),
        }
    }
}

pub fn size(block: &[Stmt]) -> usize {
    block.iter().map(Stmt::size).sum()
}

/// A kernel with its functions, its launch and its inputs.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    /// Blocks in x and y.
    pub grid: [u32; 2],
    /// Threads of a block in x and y.
    pub block: [u32; 2],
    pub functions: Vec<Vec<Stmt>>,
    pub body: Vec<Stmt>,
    /// The registers that are written to the output at the end.
    pub outputs: Vec<Reg>,
    /// The buffer that kernels read, laid out as [`Region`] says.
    pub input: Vec<u8>,
    /// The kernel's parameters by value: a word, a long, an f32 and 32 bytes.
    pub values: [Vec<u8>; 4],
}

impl Program {
    pub fn threads_per_block(&self) -> u32 {
        self.block[0] * self.block[1]
    }

    pub fn blocks(&self) -> u32 {
        self.grid[0] * self.grid[1]
    }

    pub fn threads(&self) -> u32 {
        self.blocks() * self.threads_per_block()
    }

    pub fn size(&self) -> usize {
        size(&self.body) + self.functions.iter().map(|body| size(body)).sum::<usize>()
    }
}

/// A part of the input buffer with values of one sort.
#[derive(Clone, Copy)]
pub struct Region {
    pub offset: u32,
    /// A power of two.
    pub bytes: u32,
}

impl Region {
    pub const TOTAL: usize = 5120;

    pub fn of(kind: Kind) -> Region {
        let (offset, bytes) = match kind {
            Kind::Short | Kind::Word | Kind::Long | Kind::Predicate => (0, 2048),
            Kind::Single => (2048, 1024),
            Kind::Double => (3072, 1024),
            Kind::Half | Kind::HalfPair => (4096, 512),
            Kind::Brain | Kind::BrainPair => (4608, 512),
        };
        Region { offset, bytes }
    }
}

/// The lines that make a NaN in `reg` the canonical one.
pub fn canonical(reg: Reg) -> Vec<String> {
    let scalar = |ty: &str, bits: &str, nan: &str, name: &str| {
        vec![format!("setp.nan.{ty} %q7, {name}, {name};"), format!("selp.{bits} {name}, {nan}, {name}, %q7;")]
    };
    let pair = |ty: &str| {
        let mut lines = vec![format!("mov.b32 {{%w6, %w7}}, {reg};")];
        lines.extend(["%w6", "%w7"].into_iter().flat_map(|half| scalar(ty, "b16", "0x7fff", half)));
        lines.push(format!("mov.b32 {reg}, {{%w6, %w7}};"));
        lines
    };
    match reg.0 {
        Kind::Single => scalar("f32", "b32", "0x7fffffff", &reg.to_string()),
        Kind::Double => scalar("f64", "b64", "0x7fffffffffffffff", &reg.to_string()),
        Kind::Half => scalar("f16", "b16", "0x7fff", &reg.to_string()),
        Kind::Brain => scalar("bf16", "b16", "0x7fff", &reg.to_string()),
        Kind::HalfPair => pair("f16"),
        Kind::BrainPair => pair("bf16"),
        _ => Vec::new(),
    }
}
