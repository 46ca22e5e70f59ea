//! The form of a program: a tree of statements over fixed pools of registers.
//!
//! Every register of the pools has a value from the start, temporaries carry nothing from one unit of text to the next, and
//! control leaves a block where it entered. So any statement can be removed, and any block replaced by its contents, and the
//! program stays valid. The shrinker relies on that.

use std::fmt;

/// Contents of a register of the pools. Floats are always numbers or the canonical NaN: an instruction that may produce
/// another NaN is followed by a repair. So a compiler's freedom to move or fold NaNs has no visible effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    /// The widest first, so that the output's planes are aligned.
    #[rustfmt::skip]
    pub(super) const ALL: [Kind; 10] = [
        Kind::Long, Kind::Double, Kind::Word, Kind::Single, Kind::HalfPair, Kind::BrainPair, Kind::Predicate, Kind::Short,
        Kind::Half, Kind::Brain,
    ];

    /// The word of the table of forms, the registers' name, their number, and their bytes in the output.
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

    /// The kind of a word's prefix in the table of forms, without its marks.
    pub(super) fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub(super) fn word(self) -> &'static str {
        self.traits().0
    }

    pub(super) fn prefix(self) -> &'static str {
        self.traits().1
    }

    pub(super) fn count(self) -> u8 {
        self.traits().2
    }

    pub(super) fn bytes(self) -> u32 {
        self.traits().3
    }

    pub(super) fn is_float(self) -> bool {
        !matches!(self, Kind::Short | Kind::Word | Kind::Long | Kind::Predicate)
    }
}

/// A register of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reg(pub Kind, pub u8);

impl Reg {
    pub(super) fn all() -> impl Iterator<Item = Reg> {
        Kind::ALL.into_iter().flat_map(|kind| (0..kind.count()).map(move |index| Reg(kind, index)))
    }

    /// The registers that an instruction writes, which come first among its operands.
    pub(super) fn written(instruction: &str) -> Vec<Reg> {
        let guarded = instruction.split_once(' ').filter(|_| instruction.starts_with('@'));
        let Some((opcode, operands)) = guarded.map_or(instruction, |(_, rest)| rest).split_once(' ') else {
            return Vec::new();
        };
        if ["st", "red", "bar", "cp", "call"].contains(&opcode.split('.').next().unwrap_or_default()) {
            return Vec::new();
        }
        let first = match operands.strip_prefix('{') {
            Some(list) => list.split('}').next(),
            None => operands.split(',').next(),
        };
        let named = |name: &str| Reg::all().find(|reg| reg.to_string() == name);
        first.unwrap_or_default().split([',', '|']).filter_map(|name| named(name.trim())).collect()
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.prefix(), self.1)
    }
}

/// Instructions, each with its `;`. `%MASK` stands for the register that names the active lanes.
pub(super) type Code = Vec<String>;

/// Appends instructions, written as for `format!` with a `;` after each.
macro_rules! code {
    ($code:expr, $($format:tt)*) => {{
        let text = format!($($format)*);
        $code.extend(text.split_inclusive(';').map(|instruction| instruction.trim().to_owned()));
    }};
}
pub(crate) use code;

/// A predicate as read by a lane: `%p1` or `!%p1`.
#[derive(Clone, Debug)]
pub(super) struct Test(pub String);

impl Test {
    pub(super) fn negated(&self) -> Test {
        Test(self.0.strip_prefix('!').map_or_else(|| format!("!{}", self.0), str::to_owned))
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// If `apart`, each lane takes its own path; otherwise all active lanes stay together.
#[derive(Clone, Debug)]
pub(super) enum Stmt {
    /// Instructions that belong together.
    Unit(Code),
    /// The instructions that call a function of the program.
    Call { function: usize, code: Code },
    /// `setup` computes the operands of `test`.
    If { setup: Code, test: Test, apart: bool, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// `setup` puts the number of rounds into `%t0`.
    Loop { setup: Code, apart: bool, body: Vec<Stmt> },
    /// `brx.idx` by the low bits of a register; the number of arms is a power of two. No instruction of several lanes in
    /// them.
    Switch { index: Reg, arms: Vec<Vec<Stmt>> },
    /// Leaves the enclosing loop; only where lanes diverge anyway.
    Leave(Test),
}

impl Stmt {
    pub(super) fn blocks(&self) -> Vec<&Vec<Stmt>> {
        match self {
            Stmt::Unit(_) | Stmt::Call { .. } | Stmt::Leave(_) => Vec::new(),
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::Loop { body, .. } => vec![body],
            Stmt::Switch { arms, .. } => arms.iter().collect(),
        }
    }

    pub(super) fn blocks_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::Unit(_) | Stmt::Call { .. } | Stmt::Leave(_) => Vec::new(),
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::Loop { body, .. } => vec![body],
            Stmt::Switch { arms, .. } => arms.iter_mut().collect(),
        }
    }

    /// This statement and all inside it.
    pub(super) fn size(&self) -> usize {
        1 + self.blocks().into_iter().map(|block| size(block)).sum::<usize>()
    }

    /// Whether something in it names the active lanes.
    pub(super) fn needs_mask(&self) -> bool {
        match self {
            Stmt::Unit(code) => code.iter().any(|instruction| instruction.contains("%MASK")),
            _ => self.blocks().into_iter().flatten().any(Stmt::needs_mask),
        }
    }

    fn calls(&self, number: usize) -> bool {
        match self {
            Stmt::Call { function, .. } => *function == number,
            _ => self.blocks().into_iter().flatten().any(|stmt| stmt.calls(number)),
        }
    }
}

pub(super) fn size(block: &[Stmt]) -> usize {
    block.iter().map(Stmt::size).sum()
}

/// A kernel with its functions, its launch and its inputs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub seed: u64,
    /// Blocks in x and y.
    pub grid: [u32; 2],
    /// Threads of a block in x and y.
    pub block: [u32; 2],
    pub functions: Vec<Vec<Stmt>>,
    pub body: Vec<Stmt>,
    /// The registers that are written to the output at the end.
    pub outputs: Vec<Reg>,
    /// Whether every result of a unit is added to a checksum, one for each width, and these are written too: many registers
    /// are overwritten before the end.
    pub checksums: bool,
    /// The buffer that kernels read, with the layout of [`Region`].
    pub input: Vec<u8>,
    /// The kernel's parameters by value: a word, a long, an f32 and 32 bytes.
    pub values: [Vec<u8>; 4],
}

impl Program {
    pub(super) fn threads_per_block(&self) -> u32 {
        self.block[0] * self.block[1]
    }

    pub(super) fn blocks(&self) -> u32 {
        self.grid[0] * self.grid[1]
    }

    pub(super) fn threads(&self) -> u32 {
        self.blocks() * self.threads_per_block()
    }

    pub(super) fn calls(&self, function: usize) -> bool {
        self.body.iter().any(|stmt| stmt.calls(function))
    }

    /// Number of statements, including those of called functions.
    pub(super) fn size(&self) -> usize {
        let called = self.functions.iter().enumerate().filter(|(function, _)| self.calls(*function));
        size(&self.body) + called.map(|(_, body)| size(body)).sum::<usize>()
    }
}

/// A part of the input buffer with values of one kind.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub offset: u32,
    /// A power of two.
    pub bytes: u32,
}

impl Region {
    pub(super) const TOTAL: usize = 12288;

    pub(super) fn of(kind: Kind) -> Region {
        let (offset, bytes) = match kind {
            Kind::Short | Kind::Word | Kind::Long | Kind::Predicate => (0, 4096),
            Kind::Single => (4096, 2048),
            Kind::Double => (6144, 2048),
            Kind::Half | Kind::HalfPair => (8192, 2048),
            Kind::Brain | Kind::BrainPair => (10240, 2048),
        };
        Region { offset, bytes }
    }
}

/// The checksums, by the size of their addends in bytes.
pub(super) const CHECKSUMS: [(&str, u32); 3] = [("%sum64", 8), ("%sum32", 4), ("%sum16", 2)];

/// The line that adds a register to the checksum of its width. The factor is odd, so a difference is never lost.
pub(super) fn add_to_checksum(name: &str, kind: Kind) -> String {
    match (kind, kind.bytes()) {
        (Kind::Predicate, _) => format!("@{name} mad.lo.u32 %sum32, %sum32, 0x1000193, 0x5bd1e995;"),
        (_, 8) => format!("mad.lo.u64 %sum64, %sum64, 0x100000001b3, {name};"),
        (_, 4) => format!("mad.lo.u32 %sum32, %sum32, 0x1000193, {name};"),
        _ => format!("mad.lo.u16 %sum16, %sum16, 0x6255, {name};"),
    }
}

/// Code that makes a NaN in `reg` the canonical one.
pub(super) fn canonical(reg: Reg) -> Code {
    let mut code = Code::new();
    let mut repair = |ty: &str, bits: u32, nan: u64, name: &str| {
        code!(code, "setp.nan.{ty} %q7, {name}, {name}; selp.b{bits} {name}, {nan:#x}, {name}, %q7;");
    };
    match reg.0 {
        Kind::Single | Kind::Double | Kind::Half | Kind::Brain => {
            let bits = 8 * reg.0.bytes();
            repair(reg.0.word(), bits, u64::MAX >> (65 - bits), &reg.to_string());
        }
        Kind::HalfPair | Kind::BrainPair => {
            let ty = reg.0.word().trim_end_matches("x2");
            ["%w6", "%w7"].into_iter().for_each(|half| repair(ty, 16, 0x7fff, half));
            code.insert(0, format!("mov.b32 {{%w6, %w7}}, {reg};"));
            code.push(format!("mov.b32 {reg}, {{%w6, %w7}};"));
        }
        _ => {}
    }
    code
}
