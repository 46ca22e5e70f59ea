//! Seeded programs: chooses statements and their operands.
//!
//! It avoids everything that PTX leaves undefined: division by 0, field positions past 255, the payload of NaN, a shuffle from
//! an inactive lane, the order of threads. Accesses of several threads to the same memory are separated by a barrier, or are
//! commuting atomics whose cells are never read. Cross-lane instructions name the active lanes, which every branch tracks.

use crate::random_programs::emit::{GIVES, OWN, TAKES, given_checksums};
use crate::random_programs::forms::{BARE_PRODUCTS, BARE_SUMS, FORMS, Form};
use crate::random_programs::random::Random;
use crate::random_programs::tree::{Code, Kind, Program, Reg, Region, Stmt, Test, canonical, code};

/// Increase it with every change to the program of a seed; the record names its version.
pub(super) const VERSION: u32 = 2;

/// Integer atomics, as `op.type`; all but the last six give the same in any order.
const ATOMICS: [&str; 22] = [
    "add.u32", "and.b32", "or.b32", "xor.b32", "min.u32", "max.u32", "min.s32", "max.s32", "add.u64", "and.b64",
    "or.b64", "xor.b64", "min.u64", "max.u64", "min.s64", "max.s64", "inc.u32", "dec.u32", "exch.b32", "exch.b64",
    "cas.b32", "cas.b64",
];
const COMMUTING: usize = 16;

const ORDERS: [&str; 8] = ["", "", ".relaxed.gpu", ".acq_rel.gpu", ".relaxed.cta", ".cta", ".gpu", ".sys"];

const SPECIAL: [&str; 15] = [
    "laneid",
    "tid.x",
    "tid.y",
    "tid.z",
    "ntid.x",
    "ntid.y",
    "ctaid.x",
    "ctaid.y",
    "nctaid.x",
    "nctaid.y",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
];

/// Threads of a block in x and y; in most the last warp is not full, or rows cross warps.
const BLOCKS: [[u32; 2]; 11] =
    [[32, 1], [64, 1], [96, 1], [128, 1], [33, 1], [50, 1], [100, 1], [20, 1], [16, 3], [8, 16], [7, 9]];

/// The types that loads and stores move.
#[rustfmt::skip]
const IN_MEMORY: [Kind; 10] = [
    Kind::Word, Kind::Word, Kind::Long, Kind::Short, Kind::Single, Kind::Double, Kind::Half, Kind::HalfPair, Kind::Brain,
    Kind::BrainPair,
];

/// Forms that move their operands unchanged, and `cvt` to tf32, for which PTX does not define NaN: no stray NaN for
/// them.
fn keeps_nan(form: &Form) -> bool {
    form.opcode.contains("tf32") || ["selp", "slct", "mov"].iter().any(|name| form.opcode.starts_with(name))
}

/// The context of a statement.
#[derive(Clone, Copy)]
struct Place {
    /// Whether all threads of the block reach it together: barriers are allowed.
    block: bool,
    /// Whether `%MASK` names the active lanes.
    mask: bool,
    /// Whether it is in a kernel, with its memory; a function has only registers.
    kernel: bool,
    depth: usize,
    loops: usize,
}

struct Generator {
    random: Random,
    seed: u64,
    functions: usize,
    /// Forms without a rounding modifier.
    bare: &'static [Vec<Form>],
    /// Units that may still be generated.
    left: usize,
}

/// The program of this seed.
pub(super) fn program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let bare: &'static [Vec<Form>] = if random.percent(50) { &BARE_SUMS } else { &BARE_PRODUCTS };
    let functions = random.pick(&[0, 0, 1, 2]);
    let mut generator = Generator { random, seed, functions, bare, left: 0 };
    let place = Place { block: false, mask: false, kernel: false, depth: 1, loops: 0 };
    let bodies = (0..functions).map(|_| generator.body(12, place)).collect();
    let units = 30 + generator.random.below(50);
    let mut body = generator.body(units, Place { block: true, mask: true, kernel: true, depth: 0, loops: 0 });
    for function in 0..functions {
        let at = generator.random.below(body.len() + 1);
        body.insert(at, generator.call(function));
    }
    let random = &mut generator.random;
    Program {
        seed,
        grid: random.pick(&[[1, 1], [2, 1], [3, 1], [2, 2]]),
        block: random.pick(&BLOCKS),
        functions: bodies,
        body,
        outputs: Reg::all().collect(),
        checksums: true,
        input: input(random),
        values: [4, 8, 4, 32].map(|bytes| (0..bytes).map(|_| random.bits() as u8).collect()),
    }
}

/// The buffer that kernels read, region by region.
fn input(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(Region::TOTAL);
    for kind in [Kind::Word, Kind::Single, Kind::Double, Kind::Half, Kind::Brain] {
        for _ in 0..Region::of(kind).bytes / kind.bytes() {
            let value = match kind {
                Kind::Single => random.float(8, 23),
                Kind::Double => random.float(11, 52),
                Kind::Half => random.float(5, 10),
                Kind::Brain => random.float(8, 7),
                _ => random.integer(32),
            };
            bytes.extend(&value.to_le_bytes()[..kind.bytes() as usize]);
        }
    }
    bytes
}

impl Generator {
    fn body(&mut self, units: usize, place: Place) -> Vec<Stmt> {
        self.left = units;
        let mut body = Vec::new();
        while self.left > 0 {
            body.push(self.stmt(place));
        }
        body
    }

    fn stmt(&mut self, place: Place) -> Stmt {
        self.left = self.left.saturating_sub(1);
        let roll = self.random.below(100);
        if place.depth < 4 && self.left > 2 {
            match roll {
                0..=6 => return self.branch(place),
                7..=10 if place.loops < 2 => return self.repetition(place),
                11 => return self.switch(place),
                _ => {}
            }
        }
        match roll {
            12..=15 if place.kernel && self.functions > 0 => {
                let function = self.random.below(self.functions);
                self.call(function)
            }
            16..=23 if place.block => Stmt::Unit(self.block_unit()),
            24..=37 if place.mask => Stmt::Unit(self.warp_unit()),
            _ => Stmt::Unit(self.unit(place)),
        }
    }

    fn block(&mut self, place: Place) -> Vec<Stmt> {
        let count = 1 + self.random.below(6);
        (0..count).map(|_| self.stmt(Place { depth: place.depth + 1, ..place })).collect()
    }

    /// A number that depends on the block (and, unless all of it must agree, on the warp) into `%t0`.
    fn uniform(&mut self, block: bool) -> Code {
        let mut code = Code::new();
        code!(code, "ld.param.u32 %t0, [px]; mad.lo.u32 %t0, %blk, {:#x}, %t0;", self.random.integer(32) | 1);
        if !block {
            code!(code, "shr.u32 %t1, %lin, 5; mad.lo.u32 %t0, %t1, {:#x}, %t0;", self.random.integer(32) | 1);
        }
        code!(code, "shr.u32 %t0, %t0, {};", self.random.below(28));
        code
    }

    fn branch(&mut self, place: Place) -> Stmt {
        let apart = !place.kernel || self.random.percent(65);
        let inside = Place { block: !apart && place.block && self.random.percent(60), ..place };
        let (mut setup, mut test) = (Code::new(), self.test());
        if !apart {
            setup = self.uniform(inside.block);
            code!(setup, "and.b32 %t0, %t0, 1; setp.ne.u32 %q5, %t0, 0;");
            test = Test("%q5".to_owned());
        }
        let then = self.block(inside);
        let otherwise = if self.random.percent(50) { self.block(inside) } else { Vec::new() };
        Stmt::If { setup, test, apart, then, otherwise }
    }

    fn repetition(&mut self, place: Place) -> Stmt {
        let most = self.random.pick(&[1, 3]);
        let sort = self.random.below(if place.kernel { 3 } else { 2 });
        let apart = sort == 0;
        let block = place.block && (sort == 1 || sort == 2 && self.random.percent(60));
        let mut setup = Code::new();
        match sort {
            0 => code!(setup, "and.b32 %t0, {}, {most};", self.reg(Kind::Word)),
            1 => code!(setup, "mov.u32 %t0, {};", most + 1),
            _ => {
                setup = self.uniform(block);
                code!(setup, "and.b32 %t0, %t0, {most};");
            }
        }
        let mut body = self.block(Place { block, loops: place.loops + 1, ..place });
        if apart && self.random.percent(40) {
            body.insert(self.random.below(body.len() + 1), Stmt::Leave(self.test()));
        }
        Stmt::Loop { setup, apart, body }
    }

    fn switch(&mut self, place: Place) -> Stmt {
        let arms = self.random.pick(&[2, 4]);
        let index = self.reg(Kind::Word);
        let inside = Place { block: false, mask: false, ..place };
        Stmt::Switch { index, arms: (0..arms).map(|_| self.block(inside)).collect() }
    }

    fn reg(&mut self, kind: Kind) -> Reg {
        Reg(kind, self.random.below(kind.count().into()) as u8)
    }

    /// Distinct registers of one kind.
    fn regs(&mut self, kind: Kind, count: usize) -> Vec<Reg> {
        let first = self.random.below(kind.count().into());
        (0..count).map(|at| Reg(kind, ((first + at) % usize::from(kind.count())) as u8)).collect()
    }

    fn test(&mut self) -> Test {
        let negation = self.random.pick(&["", "!"]);
        Test(format!("{negation}{}", self.reg(Kind::Predicate)))
    }

    fn unit(&mut self, place: Place) -> Code {
        let mut unit = match self.random.below(if place.kernel { 100 } else { 68 }) {
            0..=59 => self.form(false),
            60..=63 => self.carry_chain(),
            64..=67 => self.repack(),
            68..=72 => self.form(true),
            73..=80 => self.load_input(),
            81..=88 => self.own_access(),
            89..=91 => self.own_atomic(),
            92..=93 => self.common_atomic(),
            94 => self.float_atomic(),
            95 => self.copy_async(),
            _ => self.small_load(),
        };
        // The driver's compiler makes several instructions of these and guards only the first, so that `@false set.f32 d, …`
        // changes `d`: for such programs a GPU says nothing about PTX.
        let split = |instruction: &String| ["set.", "testp."].iter().any(|name| instruction.starts_with(name));
        if self.random.percent(12) && !unit.iter().any(split) {
            let test = self.test();
            unit.iter_mut().for_each(|instruction| *instruction = format!("@{test} {instruction}"));
        }
        unit
    }

    // Registers alone

    /// A form of the tables, rows and forms in turn. With `stray_nan` its floats come unchanged from memory, NaNs with payload
    /// among them.
    fn form(&mut self, stray_nan: bool) -> Code {
        let table: &'static [Vec<Form>] = if self.random.percent(8) { self.bare } else { &FORMS };
        let form = if self.random.percent(50) {
            let row = &table[self.random.below(table.len())];
            &row[self.random.below(row.len())]
        } else {
            let at = self.random.below(table.iter().map(Vec::len).sum());
            table.iter().flatten().nth(at).expect("below the count")
        };
        let stray_nan = stray_nan && !keeps_nan(form);
        let (mut code, mut operands, mut repair) = (Code::new(), Vec::new(), Code::new());
        for (at, word) in form.operands.iter().enumerate() {
            let kind = Kind::of_word(word).or(Kind::of_word(word.trim_end_matches(['!', '/', '8', '5'])));
            operands.push(match (*word, kind) {
                ("pp", _) => {
                    let pair = self.regs(Kind::Predicate, 2);
                    format!("{}|{}", pair[0], pair[1])
                }
                ("P", _) => self.test().to_string(),
                (_, None) => self.random.below(word[1..].parse::<usize>().expect("#N") + 1).to_string(),
                (_, Some(kind)) if at == 0 => {
                    let reg = self.reg(kind);
                    if word.ends_with('!') {
                        repair = canonical(reg);
                    }
                    reg.to_string()
                }
                (_, Some(kind)) if word.ends_with('/') => self.divisor(kind, &mut code),
                ("r8" | "r5", Some(kind)) => {
                    let (most, usual) = if word.ends_with('8') { (255, 70) } else { (31, 32) };
                    if self.random.percent(50) {
                        self.random.below(usual).to_string()
                    } else {
                        code!(code, "and.b32 %t{at}, {}, {most};", self.reg(kind));
                        format!("%t{at}")
                    }
                }
                (_, Some(kind)) if stray_nan && kind.is_float() => self.stray(kind, at, &mut code),
                (_, Some(kind)) if at > 1 && at + 1 == form.operands.len() && self.random.percent(20) => {
                    self.constant(kind, &form.opcode).unwrap_or_else(|| self.reg(kind).to_string())
                }
                (_, Some(kind)) => self.reg(kind).to_string(),
            });
        }
        code!(code, "{} {};", form.opcode, operands.join(", "));
        code.extend(repair);
        code
    }

    /// A divisor other than 0 and -1: odd and positive, or even.
    fn divisor(&mut self, kind: Kind, code: &mut Code) -> String {
        let bits = 8 * kind.bytes();
        let temporary = match kind {
            Kind::Short => "%w0",
            Kind::Word => "%t0",
            _ => "%u0",
        };
        let all = u64::MAX >> (64 - bits);
        let (mask, set) = self.random.pick(&[(all >> 1, 1), (all - 1, 2), (0xff, 1)]);
        code!(code, "and.b{bits} {temporary}, {}, {mask:#x};", self.reg(kind));
        code!(code, "or.b{bits} {temporary}, {temporary}, {set};");
        temporary.to_owned()
    }

    /// A float from the input, which may be any NaN, in a temporary.
    fn stray(&mut self, kind: Kind, at: usize, code: &mut Code) -> String {
        let temporary = match kind.bytes() {
            2 => format!("%w{at}"),
            4 => format!("%t{at}"),
            _ => format!("%u{at}"),
        };
        let address = self.input_address(kind, kind.bytes(), code);
        code!(code, "ld.global.b{} {temporary}, [{address}];", 8 * kind.bytes());
        temporary
    }

    /// A constant operand of the instruction's last type, if that is the operand's.
    fn constant(&mut self, kind: Kind, opcode: &str) -> Option<String> {
        if ["cvt", "dp", "vabsdiff"].iter().any(|name| opcode.starts_with(name)) {
            return None;
        }
        let (sort, bits) = opcode.rsplit('.').next()?.split_at_checked(1)?;
        let bits: u32 = bits.parse().ok().filter(|bits| *bits == 8 * kind.bytes())?;
        match (kind, sort) {
            (Kind::Single, "f") => {
                let number = self.random.float(8, 23);
                (number & 0x7fff_ffff <= 0x7f80_0000).then(|| format!("0f{number:08X}"))
            }
            (Kind::Double, "f") => {
                let number = self.random.float(11, 52);
                (number & u64::MAX >> 1 <= 0x7ff << 52).then(|| format!("0d{number:016X}"))
            }
            (Kind::Short | Kind::Word | Kind::Long, "s") => {
                Some(((self.random.integer(bits) << (64 - bits)) as i64 >> (64 - bits)).to_string())
            }
            (Kind::Short | Kind::Word | Kind::Long, _) => Some(format!("{:#x}", self.random.integer(bits))),
            _ => None,
        }
    }

    /// Sums, differences or products of several words, with their carries.
    fn carry_chain(&mut self) -> Code {
        let kind = self.random.pick(&[Kind::Word, Kind::Word, Kind::Long]);
        let ty = format!("{}{}", self.random.pick(&["u", "s"]), 8 * kind.bytes());
        let name = self.random.pick(&["add", "sub", "mad"]);
        let count = 2 + self.random.below(3);
        let mut code = Code::new();
        for at in 0..count {
            let half = if name == "mad" { self.random.pick(&[".lo", ".hi"]) } else { "" };
            let (carry_in, carry_out) = (if at > 0 { "c" } else { "" }, if at + 1 < count { ".cc" } else { "" });
            let [d, a, b, c] = [(); 4].map(|()| self.reg(kind));
            let third = if name == "mad" { format!(", {c}") } else { String::new() };
            code!(code, "{name}{carry_in}{half}{carry_out}.{ty} {d}, {a}, {b}{third};");
        }
        code
    }

    /// Registers put together or taken apart.
    fn repack(&mut self) -> Code {
        let (whole, part, count) = self.random.pick(&[
            (Kind::Word, Kind::Short, 2),
            (Kind::Long, Kind::Word, 2),
            (Kind::Long, Kind::Short, 4),
            (Kind::HalfPair, Kind::Half, 2),
            (Kind::BrainPair, Kind::Brain, 2),
            (Kind::Double, Kind::Word, 2),
        ]);
        let (bits, whole) = (8 * whole.bytes(), self.reg(whole));
        if self.random.percent(50) {
            return vec![format!("mov.b{bits} {}, {whole};", vector(&self.regs(part, count)).1)];
        }
        let parts: Vec<Reg> = (0..count).map(|_| self.reg(part)).collect();
        let mut code = vec![format!("mov.b{bits} {whole}, {};", vector(&parts).1)];
        code.extend(canonical(whole));
        code
    }

    // Memory

    /// An address in the input's region of `kind`, of `bytes` bytes, by way of `%u0`.
    fn input_address(&mut self, kind: Kind, bytes: u32, code: &mut Code) -> String {
        let region = Region::of(kind);
        code!(code, "and.b32 %t7, {}, {};", self.reg(Kind::Word), region.bytes - bytes);
        code!(code, "cvt.u64.u32 %u0, %t7; add.u64 %u0, %in, %u0;");
        format!("%u0+{}", region.offset)
    }

    /// A load from the input, of one to four numbers.
    fn load_input(&mut self) -> Code {
        let kind = self.random.pick(&IN_MEMORY);
        let spaces =
            ["", ".global", ".global.nc", ".global.ca", ".global.cg", ".volatile.global", ".relaxed.gpu.global"];
        let space = self.random.pick(&spaces);
        let (ty, size, count) = self.memory_type(kind);
        let mut code = Code::new();
        let address = self.input_address(kind, size * count, &mut code);
        code.extend(self.load(space, ty, kind, count, &address));
        code
    }

    /// A type in memory for a register of this kind, its bytes, and the numbers of elements of an access. Integers may be
    /// narrower than their registers.
    fn memory_type(&mut self, kind: Kind) -> (&'static str, u32, u32) {
        let types: &[(&str, u32)] = match kind {
            Kind::Short => &[("b16", 2), ("u16", 2), ("u8", 1), ("s8", 1)],
            Kind::Word => &[("b32", 4), ("u32", 4), ("s32", 4), ("u16", 2), ("s16", 2), ("u8", 1), ("s8", 1)],
            Kind::Long => &[("b64", 8), ("u64", 8), ("u32", 4), ("s32", 4), ("u16", 2), ("s16", 2), ("s8", 1)],
            Kind::Single => &[("f32", 4), ("b32", 4)],
            Kind::Double => &[("f64", 8), ("b64", 8)],
            Kind::Half | Kind::Brain => &[("b16", 2)],
            _ => &[("b32", 4)],
        };
        let (ty, size) = self.random.pick(types);
        let count = self.random.pick(&[1, 1, 1, 2, 4]);
        (ty, size, if u32::from(kind.count()) < count || size * count > 16 { 1 } else { count })
    }

    fn load(&mut self, space: &str, ty: &str, kind: Kind, count: u32, address: &str) -> Code {
        let regs = self.regs(kind, count as usize);
        let (suffix, list) = vector(&regs);
        let mut code = vec![format!("ld{space}{suffix}.{ty} {list}, [{address}];")];
        code.extend(regs.into_iter().flat_map(canonical));
        code
    }

    /// Finds a place of `bytes` bytes in this thread's own memory: the space as a modifier, and the address.
    fn own_place(&mut self, spaces: &[&'static str], bytes: u32, code: &mut Code) -> (&'static str, String) {
        let space = self.random.pick(spaces);
        let base = match space {
            ".global" => "%scratch",
            ".shared" => "%slot",
            _ => "own_local",
        };
        if self.random.percent(40) {
            return (space, format!("{base}+{}", self.random.below((OWN / bytes) as usize) as u32 * bytes));
        }
        code!(code, "and.b32 %t0, {}, {};", self.reg(Kind::Word), OWN - bytes);
        let specific = self.random.percent(60);
        if space == ".shared" {
            code!(code, "add.u32 %t0, %slot, %t0;");
            if specific && self.random.percent(50) {
                return (space, "%t0".to_owned());
            }
            code!(code, "cvt.u64.u32 %u0, %t0;");
        } else {
            code!(code, "cvt.u64.u32 %u0, %t0; mov.u64 %u1, {base}; add.u64 %u0, %u1, %u0;");
        }
        if !specific {
            code!(code, "cvta{space}.u64 %u0, %u0;");
        }
        (if specific { space } else { "" }, "%u0".to_owned())
    }

    /// A load or store in this thread's own memory.
    fn own_access(&mut self) -> Code {
        let kind = self.random.pick(&IN_MEMORY);
        let (ty, size, count) = self.memory_type(kind);
        let mut code = Code::new();
        let (space, address) = self.own_place(&[".global", ".shared", ".local"], size * count, &mut code);
        if self.random.percent(50) {
            code.extend(self.load(space, ty, kind, count, &address));
        } else {
            let regs: Vec<Reg> = (0..count).map(|_| self.reg(kind)).collect();
            let (suffix, list) = vector(&regs);
            code!(code, "st{space}{suffix}.{ty} [{address}], {list};");
        }
        code
    }

    /// An atomic in this thread's own memory: no other thread uses it, so its result is known.
    fn own_atomic(&mut self) -> Code {
        let (op, order) = (self.random.pick(&ATOMICS), self.random.pick(&ORDERS));
        let kind = if op.ends_with("64") { Kind::Long } else { Kind::Word };
        let mut code = Code::new();
        let (space, address) = self.own_place(&[".global", ".shared"], kind.bytes(), &mut code);
        let [d, a, b] = [(); 3].map(|()| self.reg(kind));
        let third = if op.starts_with("cas") { format!(", {b}") } else { String::new() };
        code!(code, "atom{order}{space}.{op} {d}, [{address}], {a}{third};");
        code
    }

    /// An atomic of floats in this thread's own memory. The cell gets a number first and a repaired one afterwards.
    fn float_atomic(&mut self) -> Code {
        let (op, kind, spaces) = self.random.pick::<(_, _, &[&str])>(&[
            ("add.f32", Kind::Single, &[".global", ".shared"]),
            ("add.f64", Kind::Double, &[".global", ".shared"]),
            ("add.noftz.f16", Kind::Half, &[".global"]),
            ("add.noftz.f16x2", Kind::HalfPair, &[".global"]),
            ("add.noftz.bf16", Kind::Brain, &[".global"]),
            ("add.noftz.bf16x2", Kind::BrainPair, &[".global"]),
        ]);
        let (bits, regs, a, b) = (8 * kind.bytes(), self.regs(kind, 2), self.reg(kind), self.reg(kind));
        let (d, sum) = (regs[0], regs[1]);
        let mut code = Code::new();
        let (space, address) = self.own_place(spaces, kind.bytes(), &mut code);
        code!(code, "st{space}.b{bits} [{address}], {a}; atom{space}.{op} {d}, [{address}], {b};");
        code!(code, "ld{space}.b{bits} {sum}, [{address}];");
        code.extend(canonical(sum));
        code!(code, "st{space}.b{bits} [{address}], {sum};");
        code
    }

    /// An atomic in a cell that all threads of the block or grid change by the same operation.
    fn common_atomic(&mut self) -> Code {
        let number = self.random.below(COMMUTING);
        let op = ATOMICS[number];
        let kind = if op.ends_with("64") { Kind::Long } else { Kind::Word };
        let mut code = Code::new();
        code!(code, "and.b32 %t0, {}, {};", self.reg(Kind::Word), 16 - kind.bytes());
        let (space, address) = self.random.pick(&[("global", "%u0"), ("shared", "%t0")]);
        if space == "global" {
            code!(code, "cvt.u64.u32 %u0, %t0; add.u64 %u0, %cells, %u0;");
        } else {
            code!(code, "mov.u32 %t1, block_cells; add.u32 %t0, %t1, %t0;");
        }
        let (name, nothing) = self.random.pick(&[("red", ""), ("red", ""), ("atom", "_, ")]);
        code!(code, "{name}.{space}.{op} {nothing}[{address}+{}], {};", 16 * number, self.reg(kind));
        code
    }

    /// From the input to this thread's shared memory by `cp.async`. The fence separates it from the thread's earlier work there.
    fn copy_async(&mut self) -> Code {
        let (bytes, cache) = self.random.pick(&[(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")]);
        let to = self.random.below((OWN / bytes) as usize) as u32 * bytes;
        let mut code = Code::new();
        let address = self.input_address(Kind::Word, bytes, &mut code);
        code!(code, "membar.cta; cp.async.{cache}.shared.global [%slot+{to}], [{address}], {bytes};");
        code!(code, "{}", self.random.pick(&["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"]));
        code
    }

    /// A constant, a parameter, or a special register.
    fn small_load(&mut self) -> Code {
        let kind = self.random.pick(&[Kind::Word, Kind::Long, Kind::Short, Kind::Single]);
        let (ty, size, count) = self.memory_type(kind);
        let mut code = Code::new();
        match self.random.below(3) {
            0 => {
                code!(code, "and.b32 %t0, {}, {};", self.reg(Kind::Word), 64 - size);
                code!(code, "cvt.u64.u32 %u0, %t0; mov.u64 %u1, constants{}; add.u64 %u0, %u0, %u1;", self.seed);
                code.extend(self.load(".const", ty, kind, 1, "%u0"));
            }
            1 => {
                let at = self.random.below((32 / (size * count)) as usize) as u32 * size * count;
                let address = if ty == "u64" { "py".to_owned() } else { format!("pblob+{at}") };
                code.extend(self.load(".param", ty, kind, if ty == "u64" { 1 } else { count }, &address));
            }
            _ => code!(code, "mov.u32 {}, %{};", self.reg(Kind::Word), self.random.pick(&SPECIAL)),
        }
        code
    }

    fn call(&mut self, function: usize) -> Stmt {
        let mut code = Code::new();
        code!(code, "{{ .param .align 8 .b8 gives[56];");
        for (at, Reg(kind, _)) in TAKES.into_iter().enumerate() {
            let bits = 8 * kind.bytes();
            code!(code, ".param .b{bits} take{at}; st.param.b{bits} [take{at}], {};", self.reg(kind));
        }
        code!(code, "call (gives), f{}_{function}, (take0, take1, take2, take3);", self.seed);
        for (Reg(kind, _), offset) in GIVES {
            code!(code, "ld.param.b{} {}, [gives+{offset}];", 8 * kind.bytes(), self.reg(kind));
        }
        code.extend(given_checksums());
        code.push("}".to_owned());
        Stmt::Call { function, code }
    }

    // Several lanes

    fn warp_unit(&mut self) -> Code {
        let test = self.test();
        let [d, a, b] = [(); 3].map(|()| self.reg(Kind::Word));
        let p = self.reg(Kind::Predicate);
        let mut code = Code::new();
        match self.random.below(12) {
            0..=4 => return self.shuffle(),
            5 => code!(code, "vote.sync.{}.pred {p}, {test}, %MASK;", self.random.pick(&["all", "any", "uni"])),
            6 => code!(code, "vote.sync.ballot.b32 {d}, {test}, %MASK;"),
            7 => {
                let (kind, few) = self.random.pick(&[(Kind::Word, "%t0"), (Kind::Long, "%u0")]);
                let bits = 8 * kind.bytes();
                code!(code, "and.b{bits} {few}, {}, {};", self.reg(kind), self.random.pick(&[0, 1, 3, 7]));
                if self.random.percent(50) {
                    code!(code, "match.any.sync.b{bits} {d}, {few}, %MASK;")
                } else {
                    code!(code, "match.all.sync.b{bits} {d}|{p}, {few}, %MASK;")
                }
            }
            8 | 9 => {
                let ops =
                    ["add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"];
                code!(code, "redux.sync.{} {d}, {a}, %MASK;", self.random.pick(&ops));
            }
            // Which lanes are active together is the machine's choice, but only among those that are here.
            10 => code!(code, "activemask.b32 %t0; or.b32 {d}, %t0, %MASK;"),
            // Each lane reads what another has written.
            _ => {
                let at = 4 * self.random.below(OWN as usize / 4);
                code!(code, "st.shared.b32 [%slot+{at}], {a}; bar.warp.sync %MASK; and.b32 %t1, {b}, 31; {IS_HERE}");
                code!(code, "selp.b32 %t1, %t1, %lane, %q1; sub.s32 %t1, %t1, %lane;");
                code!(code, "mad.lo.s32 %t1, %t1, {OWN}, %slot; ld.shared.b32 {d}, [%t1+{at}]; bar.warp.sync %MASK;");
            }
        }
        code
    }

    /// A shuffle. A value from an inactive lane is undefined: then the destination is unchanged.
    fn shuffle(&mut self) -> Code {
        let mode = self.random.pick(&["up", "down", "bfly", "idx"]);
        let kind = self.random.pick(&[Kind::Word, Kind::Word, Kind::Single, Kind::HalfPair, Kind::BrainPair]);
        let (d, a, b, p) = (self.reg(kind), self.reg(kind), self.reg(Kind::Word), self.reg(Kind::Predicate));
        let any = [(); 3].map(|()| self.random.below(32));
        let segments = self.random.pick(&[0, 0, 0, 0x10, 0x18, 0x1c, 0x1e, any[0]]);
        let clamp = self.random.pick(&[if mode == "up" { 0 } else { 31 }, any[1]]);
        let offset = if self.random.percent(40) { any[2].to_string() } else { b.to_string() };
        let mut code = Code::new();
        code!(code, "shfl.sync.{mode}.b32 %t2|%q0, {a}, {offset}, {:#x}, %MASK;", segments << 8 | clamp);
        code!(code, "mov.u32 %t1, {offset}; and.b32 %t1, %t1, 31;");
        match mode {
            "up" => code!(code, "sub.u32 %t1, %lane, %t1;"),
            "down" => code!(code, "add.u32 %t1, %lane, %t1;"),
            "bfly" => code!(code, "xor.b32 %t1, %lane, %t1;"),
            _ => {
                code!(code, "and.b32 %t1, %t1, {}; and.b32 %t3, %lane, {segments};", 31 & !segments);
                code!(code, "or.b32 %t1, %t1, %t3;");
            }
        }
        code!(code, "selp.b32 %t1, %t1, %lane, %q0; {IS_HERE} selp.b32 {d}, %t2, {d}, %q1; mov.pred {p}, %q0;");
        code
    }

    fn block_unit(&mut self) -> Code {
        let (number, test) = (self.random.below(4), self.test());
        let mut code = Code::new();
        match self.random.below(6) {
            0 => code!(code, "bar.red.popc.u32 {}, {number}, {test};", self.reg(Kind::Word)),
            1 => {
                let op = self.random.pick(&["and", "or"]);
                code!(code, "bar.red.{op}.pred {}, {number}, {test};", self.reg(Kind::Predicate));
            }
            // Each thread reads what another has written.
            _ => {
                let barrier = self.random.pick(&["bar.sync", "barrier.sync", "barrier.cta.sync.aligned"]);
                let kind = self.random.pick(&[Kind::Word, Kind::Word, Kind::Long]);
                let (d, a, other, bytes) = (self.reg(kind), self.reg(kind), self.reg(Kind::Word), kind.bytes());
                let (bits, at) = (8 * bytes, bytes * self.random.below((OWN / bytes) as usize) as u32);
                code!(code, "st.shared.b{bits} [%slot+{at}], {a}; {barrier} {number};");
                code!(code, "rem.u32 %t0, {other}, %threads; mov.u32 %t1, own_shared;");
                code!(code, "mad.lo.u32 %t0, %t0, {OWN}, %t1; ld.shared.b{bits} {d}, [%t0+{at}]; {barrier} {number};");
            }
        }
        code
    }
}

/// `%q1` says whether the lane that `%t1` names is active.
const IS_HERE: &str = "shr.u32 %t0, %MASK, %t1; and.b32 %t0, %t0, 1; setp.ne.u32 %q1, %t0, 0;";

/// `.v2` and `{a, b}`, or nothing and `a`.
fn vector(regs: &[Reg]) -> (String, String) {
    match regs {
        [reg] => (String::new(), reg.to_string()),
        regs => {
            let names: Vec<String> = regs.iter().map(Reg::to_string).collect();
            (format!(".v{}", regs.len()), format!("{{{}}}", names.join(", ")))
        }
    }
}
