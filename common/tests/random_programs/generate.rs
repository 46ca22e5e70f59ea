//! Seeded programs: which statements, with which operands.
//!
//! Kept out is what PTX leaves open: a divisor 0, field positions past 255, the payload of NaN, a shuffle from a lane that is not
//! there, order among threads. Memory that several threads touch has a barrier between, or is changed only by atomics that
//! commute and is read by nobody. Instructions of several lanes name the lanes that are here, which every branch keeps track of.

use std::sync::LazyLock;

use crate::emit::{GIVES, OWN, TAKES};
use crate::forms::{BARE_PRODUCTS, BARE_SUMS, FORMS, Form};
use crate::random::Random;
use crate::tree::{Kind, Program, Reach, Reg, Region, Stmt, Test, canonical};

/// To be raised with every change of what a seed gives; the record says which it was made with.
pub const VERSION: u32 = 1;

/// Integer atomics, as `op.type`; all but the last six give the same in any order.
const ATOMICS: [&str; 22] = [
    "add.u32", "and.b32", "or.b32", "xor.b32", "min.u32", "max.u32", "min.s32", "max.s32", "add.u64", "and.b64",
    "or.b64", "xor.b64", "min.u64", "max.u64", "min.s64", "max.s64", "inc.u32", "dec.u32", "exch.b32", "exch.b64",
    "cas.b32", "cas.b64",
];
const COMMUTING: usize = 16;

/// Forms that move their operands as they are, and `cvt` to tf32, of whose NaN PTX says nothing: no stray NaN for them.
fn keeps_nan(form: &Form) -> bool {
    form.opcode.contains("tf32") || ["selp", "slct", "mov"].iter().any(|name| form.opcode.starts_with(name))
}

/// Where a statement is to stand.
#[derive(Clone, Copy)]
struct Place {
    /// All threads of the block come here together: barriers may stand here.
    block: bool,
    /// `%MASK` names the lanes that are here.
    mask: bool,
    /// In a kernel, with its memory; in a function there are registers alone.
    kernel: bool,
    depth: usize,
    loops: usize,
}

struct Generator {
    random: Random,
    seed: u64,
    functions: usize,
    bare: &'static LazyLock<Vec<Vec<Form>>>,
    /// Units that may still be made.
    left: usize,
}

/// The program of this seed.
pub fn program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let bare = if random.percent(50) { &BARE_SUMS } else { &BARE_PRODUCTS };
    let functions = random.pick(&[0, 0, 1, 2]);
    let mut generator = Generator { random, seed, functions, bare, left: 0 };
    let place = Place { block: false, mask: false, kernel: false, depth: 1, loops: 0 };
    let bodies = (0..functions).map(|_| generator.body(12, place)).collect();
    let units = 30 + generator.random.below(50);
    let body = generator.body(units, Place { block: true, mask: true, kernel: true, depth: 0, loops: 0 });
    let random = &mut generator.random;
    let block = random.pick(&[
        [32, 1],
        [64, 1],
        [96, 1],
        [33, 1],
        [50, 1],
        [100, 1],
        [16, 3],
        [8, 16],
        [7, 9],
        [20, 1],
        [128, 1],
    ]);
    Program {
        seed,
        grid: random.pick(&[[1, 1], [2, 1], [3, 1], [2, 2]]),
        block,
        functions: bodies,
        body,
        outputs: Reg::all().collect(),
        input: input(random),
        values: [4, 8, 4, 32].map(|bytes| (0..bytes).map(|_| random.bits() as u8).collect()),
    }
}

/// The buffer that kernels read, region by region.
fn input(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(Region::TOTAL);
    let words = [(Kind::Word, 4), (Kind::Single, 4), (Kind::Double, 8), (Kind::Half, 2), (Kind::Brain, 2)];
    for (kind, size) in words {
        for _ in 0..Region::of(kind).bytes as usize / size {
            let value = match kind {
                Kind::Single => random.float(8, 23),
                Kind::Double => random.float(11, 52),
                Kind::Half => random.float(5, 10),
                Kind::Brain => random.float(8, 7),
                _ => random.integer(32),
            };
            bytes.extend(&value.to_le_bytes()[..size]);
        }
    }
    bytes
}

impl Generator {
    fn body(&mut self, units: usize, place: Place) -> Vec<Stmt> {
        self.left = units;
        let mut body = Vec::new();
        while self.left > 0 {
            body.extend(self.stmts(place));
        }
        body
    }

    /// One statement, or several that belong together.
    fn stmts(&mut self, place: Place) -> Vec<Stmt> {
        self.left = self.left.saturating_sub(1);
        if place.depth < 4 && self.left > 2 {
            match self.random.below(100) {
                0..=6 => return vec![self.branch(place)],
                7..=10 if place.loops < 2 => return vec![self.repetition(place)],
                11 => return vec![self.switch(place)],
                _ => {}
            }
        }
        vec![Stmt::Unit(self.unit(place))]
    }

    fn block(&mut self, place: Place) -> Vec<Stmt> {
        let count = 1 + self.random.below(6);
        let place = Place { depth: place.depth + 1, ..place };
        (0..count).flat_map(|_| self.stmts(place)).collect()
    }

    /// A number that depends on the block (and, unless all of it must agree, on the warp) into `%t0`.
    fn uniform(&mut self, block: bool) -> Vec<String> {
        let mut lines = vec!["ld.param.u32 %t0, [px];".to_owned()];
        lines.push(format!("mad.lo.u32 %t0, %blk, {:#x}, %t0;", self.random.integer(32) | 1));
        if !block {
            lines.push("shr.u32 %t1, %lin, 5;".to_owned());
            lines.push(format!("mad.lo.u32 %t0, %t1, {:#x}, %t0;", self.random.integer(32) | 1));
        }
        lines.push(format!("shr.u32 %t0, %t0, {};", self.random.below(28)));
        lines
    }

    fn branch(&mut self, place: Place) -> Stmt {
        let together = place.kernel && self.random.percent(35);
        let (setup, test, reach, inside) = if together {
            let block = place.block && self.random.percent(60);
            let mut setup = self.uniform(block);
            setup.extend(["and.b32 %t0, %t0, 1;".to_owned(), "setp.ne.u32 %q5, %t0, 0;".to_owned()]);
            let test = Test { predicate: "%q5".to_owned(), negated: self.random.percent(50) };
            (setup, test, Reach::Together, Place { block, ..place })
        } else {
            (Vec::new(), self.test(), Reach::Apart, Place { block: false, ..place })
        };
        let then = self.block(inside);
        let otherwise = if self.random.percent(50) { self.block(inside) } else { Vec::new() };
        Stmt::If { setup, test, reach, then, otherwise }
    }

    fn repetition(&mut self, place: Place) -> Stmt {
        let rounds = self.random.pick(&[1, 3]);
        let mut inside = Place { block: false, loops: place.loops + 1, ..place };
        let (setup, reach) = match self.random.below(if place.kernel { 3 } else { 2 }) {
            0 => (vec![format!("and.b32 %t0, {}, {rounds};", self.reg(Kind::Word))], Reach::Apart),
            1 => {
                inside.block = place.block;
                (vec![format!("mov.u32 %t0, {};", rounds + 1)], Reach::Together)
            }
            _ => {
                inside.block = place.block && self.random.percent(60);
                let mut setup = self.uniform(inside.block);
                setup.push(format!("and.b32 %t0, %t0, {rounds};"));
                (setup, Reach::Together)
            }
        };
        let mut body = self.block(inside);
        if reach == Reach::Apart && self.random.percent(40) {
            let at = self.random.below(body.len() + 1);
            body.insert(at, Stmt::Leave(self.test()));
        }
        Stmt::Loop { setup, reach, body }
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

    /// Different registers of one kind.
    fn regs(&mut self, kind: Kind, count: usize) -> Vec<Reg> {
        let first = self.random.below(kind.count().into());
        (0..count).map(|at| Reg(kind, ((first + at) % usize::from(kind.count())) as u8)).collect()
    }

    fn test(&mut self) -> Test {
        Test { predicate: self.reg(Kind::Predicate).to_string(), negated: self.random.percent(50) }
    }

    fn unit(&mut self, place: Place) -> Vec<String> {
        if place.block && self.random.percent(8) {
            return self.block_unit();
        }
        if place.mask && self.random.percent(14) {
            return self.warp_unit();
        }
        let mut unit = match self.random.below(if place.kernel { 100 } else { 68 }) {
            0..=59 => self.form_unit(false),
            60..=63 => self.carry_chain(),
            64..=67 => self.repack(),
            68..=72 => self.form_unit(true),
            73..=80 => self.load_input(),
            81..=88 => self.own_access(),
            89..=91 => self.own_atomic(),
            92..=93 => self.shared_red(),
            94 => self.float_atomic(),
            95 => self.copy_async(),
            96..=97 => self.small_load(),
            _ if self.functions > 0 => return self.call(),
            _ => self.form_unit(false),
        };
        if self.random.percent(12) {
            let test = self.test();
            unit.iter_mut().for_each(|line| *line = format!("@{} {line}", test.operand(false)));
        }
        unit
    }

    // Registers alone

    fn form_unit(&mut self, stray_nan: bool) -> Vec<String> {
        let table: &'static [Vec<Form>] = if self.random.percent(8) { self.bare } else { &FORMS };
        let form = if self.random.percent(50) {
            let row = &table[self.random.below(table.len())];
            &row[self.random.below(row.len())]
        } else {
            let forms: usize = table.iter().map(Vec::len).sum();
            let at = self.random.below(forms);
            table.iter().flatten().nth(at).expect("below the count")
        };
        self.instance(form, stray_nan && !keeps_nan(form))
    }

    /// `form` with operands. With `stray_nan` its floats come from memory as they are, NaNs with payload among them.
    fn instance(&mut self, form: &Form, stray_nan: bool) -> Vec<String> {
        let (mut lines, mut operands, mut repair) = (Vec::new(), Vec::new(), Vec::new());
        let last = form.operands.len() - 1;
        for (at, word) in form.operands.iter().enumerate() {
            let plain = word.trim_end_matches(['!', '/', '8', '5']);
            let kind = Kind::of_word(word).or(Kind::of_word(plain));
            operands.push(match (*word, kind) {
                ("pp", _) => {
                    let pair = self.regs(Kind::Predicate, 2);
                    format!("{}|{}", pair[0], pair[1])
                }
                ("P", _) => self.test().operand(false),
                (_, None) => self.random.below(word[1..].parse::<usize>().expect("#N") + 1).to_string(),
                (_, Some(kind)) if at == 0 => {
                    let reg = self.reg(kind);
                    if word.ends_with('!') {
                        repair = canonical(reg);
                    }
                    reg.to_string()
                }
                (_, Some(kind)) if word.ends_with('/') => self.divisor(kind, &mut lines),
                (_, Some(kind)) if *word != kind.word() => {
                    let bits = if word.ends_with('8') { 255 } else { 31 };
                    if self.random.percent(50) {
                        self.random.below(if bits == 255 { 70 } else { 32 }).to_string()
                    } else {
                        lines.push(format!("and.b32 %t{at}, {}, {bits};", self.reg(kind)));
                        format!("%t{at}")
                    }
                }
                (_, Some(kind)) if stray_nan && kind.is_float() => self.stray(kind, at, &mut lines),
                (_, Some(kind)) if at == last && last > 1 && self.random.percent(20) => {
                    self.constant(kind, &form.opcode).unwrap_or_else(|| self.reg(kind).to_string())
                }
                (_, Some(kind)) => self.reg(kind).to_string(),
            });
        }
        lines.push(format!("{} {};", form.opcode, operands.join(", ")));
        lines.extend(repair);
        lines
    }

    /// A divisor other than 0 and -1: odd and positive, or even.
    fn divisor(&mut self, kind: Kind, lines: &mut Vec<String>) -> String {
        let (bits, temporary) = match kind {
            Kind::Short => (16, "%w0"),
            Kind::Word => (32, "%t0"),
            _ => (64, "%u0"),
        };
        let (mask, set) = self.random.pick(&[(u64::MAX >> 1, 1), (u64::MAX << 1, 2), (0xff, 1)]);
        let mask = mask >> if mask == u64::MAX >> 1 { 64 - bits } else { 0 } & u64::MAX >> (64 - bits);
        lines.push(format!("and.b{bits} {temporary}, {}, {mask:#x};", self.reg(kind)));
        lines.push(format!("or.b{bits} {temporary}, {temporary}, {set};"));
        temporary.to_owned()
    }

    /// A float from the input, which may be any NaN, in a temporary.
    fn stray(&mut self, kind: Kind, at: usize, lines: &mut Vec<String>) -> String {
        let Region { offset, bytes } = Region::of(kind);
        let temporary = match kind.bytes() {
            2 => format!("%w{at}"),
            4 => format!("%t{at}"),
            _ => format!("%u{at}"),
        };
        lines.push(format!("and.b32 %t7, {}, {};", self.reg(Kind::Word), bytes - kind.bytes()));
        lines.push("cvt.u64.u32 %u0, %t7;".to_owned());
        lines.push("add.u64 %u0, %in, %u0;".to_owned());
        lines.push(format!("ld.global.b{} {temporary}, [%u0+{offset}];", 8 * kind.bytes()));
        temporary
    }

    /// A constant operand of the instruction's last type, if that is the operand's.
    fn constant(&mut self, kind: Kind, opcode: &str) -> Option<String> {
        if ["cvt", "dp", "vabsdiff"].iter().any(|name| opcode.starts_with(name)) {
            return None;
        }
        let (sort, bits) = opcode.rsplit('.').next()?.split_at_checked(1)?;
        let bits: u32 = bits.parse().ok().filter(|bits| *bits == 8 * kind.bytes())?;
        let number = |bits: u64, infinity: u64| (bits & !(1 << 63) <= infinity).then_some(bits);
        match (kind, sort) {
            (Kind::Single, "f") => {
                number(self.random.float(8, 23) << 32, 0xff << 55).map(|bits| format!("0f{:08X}", bits >> 32))
            }
            (Kind::Double, "f") => number(self.random.float(11, 52), 0x7ff << 52).map(|bits| format!("0d{bits:016X}")),
            (Kind::Short | Kind::Word | Kind::Long, "s") => {
                Some(((self.random.integer(bits) << (64 - bits)) as i64 >> (64 - bits)).to_string())
            }
            (Kind::Short | Kind::Word | Kind::Long, _) => Some(format!("{:#x}", self.random.integer(bits))),
            _ => None,
        }
    }

    /// Sums, differences or products of several words, with their carries.
    fn carry_chain(&mut self) -> Vec<String> {
        let (kind, bits) = self.random.pick(&[(Kind::Word, "32"), (Kind::Word, "32"), (Kind::Long, "64")]);
        let ty = format!("{}{bits}", self.random.pick(&['u', 's']));
        let product = self.random.percent(35);
        let name = if product { "mad" } else { self.random.pick(&["add", "sub"]) };
        let count = 2 + self.random.below(3);
        let links = (0..count).map(|at| {
            let half = if product { self.random.pick(&[".lo", ".hi"]) } else { "" };
            let carry_in = if at > 0 { "c" } else { "" };
            let carry_out = if at + 1 < count { ".cc" } else { "" };
            let sources: Vec<String> = (0..2 + usize::from(product)).map(|_| self.reg(kind).to_string()).collect();
            format!("{name}{carry_in}{half}{carry_out}.{ty} {}, {};", self.reg(kind), sources.join(", "))
        });
        links.collect()
    }

    /// Registers put together or taken apart.
    fn repack(&mut self) -> Vec<String> {
        let (whole, part, count) = self.random.pick(&[
            (Kind::Word, Kind::Short, 2),
            (Kind::Long, Kind::Word, 2),
            (Kind::Long, Kind::Short, 4),
            (Kind::HalfPair, Kind::Half, 2),
            (Kind::BrainPair, Kind::Brain, 2),
            (Kind::Double, Kind::Word, 2),
        ]);
        let bits = 8 * whole.bytes();
        let names = |regs: &[Reg]| regs.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        if self.random.percent(50) {
            let (d, parts): (_, Vec<Reg>) = (self.reg(whole), (0..count).map(|_| self.reg(part)).collect());
            let mut lines = vec![format!("mov.b{bits} {d}, {{{}}};", names(&parts))];
            if whole == Kind::Double {
                lines.extend(canonical(d));
            }
            return lines;
        }
        vec![format!("mov.b{bits} {{{}}}, {};", names(&self.regs(part, count)), self.reg(whole))]
    }

    // Memory

    /// A load from the input, of one to four numbers.
    fn load_input(&mut self) -> Vec<String> {
        let kind = self.random.pick(&[
            Kind::Word,
            Kind::Long,
            Kind::Short,
            Kind::Single,
            Kind::Double,
            Kind::Half,
            Kind::HalfPair,
            Kind::Brain,
            Kind::BrainPair,
        ]);
        let Region { offset, bytes } = Region::of(kind);
        let space = self.random.pick(&[
            ".global",
            ".global",
            ".global.nc",
            ".global.ca",
            ".global.cg",
            ".volatile.global",
            ".relaxed.gpu.global",
            "",
        ]);
        let (ty, size) = self.memory_type(kind);
        let count = self.vector(kind, size);
        let mut lines = vec![format!("and.b32 %t0, {}, {};", self.reg(Kind::Word), bytes - size * count)];
        lines.push("cvt.u64.u32 %u0, %t0;".to_owned());
        lines.push("add.u64 %u0, %in, %u0;".to_owned());
        lines.extend(self.load(space, ty, kind, count, &format!("%u0+{offset}")));
        lines
    }

    /// A type that memory holds for a register of this kind, and its bytes: integers may be narrower than their registers.
    fn memory_type(&mut self, kind: Kind) -> (&'static str, u32) {
        let types: &[(&str, u32)] = match kind {
            Kind::Short => &[("b16", 2), ("u16", 2), ("u8", 1), ("s8", 1)],
            Kind::Word => &[("b32", 4), ("u32", 4), ("s32", 4), ("u16", 2), ("s16", 2), ("u8", 1), ("s8", 1)],
            Kind::Long => &[("b64", 8), ("u64", 8), ("u32", 4), ("s32", 4), ("u16", 2), ("s16", 2), ("s8", 1)],
            Kind::Single => &[("f32", 4), ("b32", 4)],
            Kind::Double => &[("f64", 8), ("b64", 8)],
            _ if kind.bytes() == 2 => &[("b16", 2)],
            _ => &[("b32", 4)],
        };
        self.random.pick(types)
    }

    /// How many numbers of so many bytes an access takes.
    fn vector(&mut self, kind: Kind, size: u32) -> u32 {
        let count = self.random.pick(&[1, 1, 1, 2, 4]);
        if u32::from(kind.count()) < count || size * count > 16 { 1 } else { count }
    }

    fn load(&mut self, space: &str, ty: &str, kind: Kind, count: u32, address: &str) -> Vec<String> {
        let regs = self.regs(kind, count as usize);
        let (vector, list) = vector_operand(&regs);
        let mut lines = vec![format!("ld{space}{vector}.{ty} {list}, [{address}];")];
        lines.extend(regs.into_iter().flat_map(canonical));
        lines
    }

    /// The lines that find a place of `bytes` bytes in this thread's own memory; the space and the address.
    fn own_place(&mut self, spaces: &[&'static str], bytes: u32) -> (Vec<String>, &'static str, String) {
        let space = self.random.pick(spaces);
        let base = match space {
            "global" => "%scratch",
            "shared" => "%slot",
            _ => "own_local",
        };
        let modifier = match space {
            "global" => ".global",
            "shared" => ".shared",
            _ => ".local",
        };
        if self.random.percent(40) {
            let at = self.random.below((OWN / bytes) as usize) as u32 * bytes;
            return (Vec::new(), modifier, format!("{base}+{at}"));
        }
        let mut lines = vec![format!("and.b32 %t0, {}, {};", self.reg(Kind::Word), OWN - bytes)];
        if space == "shared" {
            lines.push("add.u32 %t0, %slot, %t0;".to_owned());
            if self.random.percent(60) {
                return (lines, modifier, "%t0".to_owned());
            }
            lines.push("cvt.u64.u32 %u0, %t0;".to_owned());
        } else {
            lines.push("cvt.u64.u32 %u0, %t0;".to_owned());
            lines.push(format!("mov.u64 %u1, {base};"));
            lines.push("add.u64 %u0, %u1, %u0;".to_owned());
        }
        if self.random.percent(60) {
            return (lines, modifier, "%u0".to_owned());
        }
        lines.push(format!("cvta.{space}.u64 %u0, %u0;"));
        (lines, "", "%u0".to_owned())
    }

    /// A load or store in this thread's own memory.
    fn own_access(&mut self) -> Vec<String> {
        let kind = self.random.pick(&[
            Kind::Word,
            Kind::Word,
            Kind::Long,
            Kind::Short,
            Kind::Single,
            Kind::Double,
            Kind::Half,
            Kind::HalfPair,
            Kind::Brain,
            Kind::BrainPair,
        ]);
        let (ty, size) = self.memory_type(kind);
        let count = self.vector(kind, size);
        let (mut lines, space, address) = self.own_place(&["global", "shared", "local"], size * count);
        if self.random.percent(50) {
            lines.extend(self.load(space, ty, kind, count, &address));
        } else {
            let regs: Vec<Reg> = (0..count).map(|_| self.reg(kind)).collect();
            let (vector, list) = vector_operand(&regs);
            lines.push(format!("st{space}{vector}.{ty} [{address}], {list};"));
        }
        lines
    }

    /// An atomic in this thread's own memory: nobody else is there, so what it gives is known.
    fn own_atomic(&mut self) -> Vec<String> {
        let op = self.random.pick(&ATOMICS);
        let kind = if op.ends_with("64") { Kind::Long } else { Kind::Word };
        let (mut lines, space, address) = self.own_place(&["global", "shared"], kind.bytes());
        let order = self.random.pick(&["", "", ".relaxed.gpu", ".acq_rel.gpu", ".relaxed.cta", ".cta", ".gpu", ".sys"]);
        let third = if op.starts_with("cas") { format!(", {}", self.reg(kind)) } else { String::new() };
        lines.push(format!("atom{order}{space}.{op} {}, [{address}], {}{third};", self.reg(kind), self.reg(kind)));
        lines
    }

    /// An atomic of floats in this thread's own memory. The cell gets a number first and a repaired one afterwards.
    fn float_atomic(&mut self) -> Vec<String> {
        let (op, kind) = self.random.pick(&[
            ("add.f32", Kind::Single),
            ("add.f64", Kind::Double),
            ("add.noftz.f16", Kind::Half),
            ("add.noftz.f16x2", Kind::HalfPair),
            ("add.noftz.bf16", Kind::Brain),
            ("add.noftz.bf16x2", Kind::BrainPair),
        ]);
        let bits = 8 * kind.bytes();
        let spaces: &[&str] =
            if bits == 16 || kind.bytes() == 4 && kind != Kind::Single { &["global"] } else { &["global", "shared"] };
        let (mut lines, space, address) = self.own_place(spaces, kind.bytes());
        let (d, sum) = (self.reg(kind), self.reg(kind));
        lines.push(format!("st{space}.b{bits} [{address}], {};", self.reg(kind)));
        lines.push(format!("atom{space}.{op} {d}, [{address}], {};", self.reg(kind)));
        lines.push(format!("ld{space}.b{bits} {sum}, [{address}];"));
        lines.extend(canonical(sum));
        lines.push(format!("st{space}.b{bits} [{address}], {sum};"));
        lines
    }

    /// An atomic in a cell that all threads of the block or grid change by the same operation.
    fn shared_red(&mut self) -> Vec<String> {
        let number = self.random.below(COMMUTING);
        let op = ATOMICS[number];
        let kind = if op.ends_with("64") { Kind::Long } else { Kind::Word };
        let mut lines = vec![format!("and.b32 %t0, {}, {};", self.reg(Kind::Word), 16 - kind.bytes())];
        let global = self.random.percent(50);
        if global {
            lines.push("cvt.u64.u32 %u0, %t0;".to_owned());
            lines.push("add.u64 %u0, %cells, %u0;".to_owned());
        } else {
            lines.push("mov.u32 %t1, block_cells;".to_owned());
            lines.push("add.u32 %t0, %t1, %t0;".to_owned());
        }
        let (space, address) = if global { ("global", "%u0") } else { ("shared", "%t0") };
        let call =
            if self.random.percent(70) { format!("red.{space}.{op} ") } else { format!("atom.{space}.{op} _, ") };
        lines.push(format!("{call}[{address}+{}], {};", 16 * number, self.reg(kind)));
        lines
    }

    /// From the input to this thread's shared memory by `cp.async`. The fence is between it and what the thread did there before.
    fn copy_async(&mut self) -> Vec<String> {
        let bytes = self.random.pick(&[4, 8, 16]);
        let mut lines = vec![format!("and.b32 %t0, {}, {};", self.reg(Kind::Word), 2048 - bytes)];
        lines.push("cvt.u64.u32 %u0, %t0;".to_owned());
        lines.push("add.u64 %u0, %in, %u0;".to_owned());
        let at = self.random.below((OWN / bytes) as usize) as u32 * bytes;
        let cache = if bytes == 16 { self.random.pick(&["ca", "cg"]) } else { "ca" };
        lines.push("membar.cta;".to_owned());
        lines.push(format!("cp.async.{cache}.shared.global [%slot+{at}], [%u0], {bytes};"));
        if self.random.percent(50) {
            lines.push("cp.async.wait_all;".to_owned());
        } else {
            lines.extend(["cp.async.commit_group;".to_owned(), "cp.async.wait_group 0;".to_owned()]);
        }
        lines
    }

    /// A constant, a parameter, or a special register.
    fn small_load(&mut self) -> Vec<String> {
        let kind = self.random.pick(&[Kind::Word, Kind::Long, Kind::Short, Kind::Single]);
        let (ty, size) = self.memory_type(kind);
        match self.random.below(3) {
            0 => {
                let mut lines = vec![format!("and.b32 %t0, {}, {};", self.reg(Kind::Word), 64 - size)];
                lines.push("cvt.u64.u32 %u0, %t0;".to_owned());
                lines.push(format!("mov.u64 %u1, constants{};", self.seed));
                lines.push("add.u64 %u0, %u0, %u1;".to_owned());
                lines.extend(self.load(".const", ty, kind, 1, "%u0"));
                lines
            }
            1 => {
                let count = self.vector(kind, size);
                let at = self.random.below((32 / (size * count)) as usize) as u32 * size * count;
                let (name, at) = if size * count == 8 && kind == Kind::Long { ("py", 0) } else { ("pblob", at) };
                self.load(".param", ty, kind, count, &format!("{name}+{at}"))
            }
            _ => {
                let special = self.random.pick(&[
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
                ]);
                vec![format!("mov.u32 {}, %{special};", self.reg(Kind::Word))]
            }
        }
    }

    fn call(&mut self) -> Vec<String> {
        let function = format!("f{}_{}", self.seed, self.random.below(self.functions));
        let mut lines = vec!["{".to_owned(), ".param .align 8 .b8 gives[40];".to_owned()];
        for (at, reg) in TAKES.into_iter().enumerate() {
            let bits = 8 * reg.0.bytes();
            lines.push(format!(".param .b{bits} take{at};"));
            lines.push(format!("st.param.b{bits} [take{at}], {};", self.reg(reg.0)));
        }
        lines.push(format!("call (gives), {function}, (take0, take1, take2, take3);"));
        for (reg, offset) in GIVES {
            lines.push(format!("ld.param.b{} {}, [gives+{offset}];", 8 * reg.0.bytes(), self.reg(reg.0)));
        }
        lines.push("}".to_owned());
        lines
    }

    // Several lanes

    fn warp_unit(&mut self) -> Vec<String> {
        let test = self.test().operand(false);
        let [d, a] = [self.reg(Kind::Word), self.reg(Kind::Word)];
        let p = self.reg(Kind::Predicate);
        match self.random.below(12) {
            0..=4 => self.shuffle(),
            5 => vec![format!("vote.sync.{}.pred {p}, {test}, %MASK;", self.random.pick(&["all", "any", "uni"]))],
            6 => vec![format!("vote.sync.ballot.b32 {d}, {test}, %MASK;")],
            7 => {
                let (kind, temporary) = self.random.pick(&[(Kind::Word, "%t0"), (Kind::Long, "%u0")]);
                let bits = 8 * kind.bytes();
                let few = format!("and.b{bits} {temporary}, {}, {};", self.reg(kind), self.random.pick(&[0, 1, 3, 7]));
                let found = match self.random.percent(50) {
                    true => format!("match.any.sync.b{bits} {d}, {temporary}, %MASK;"),
                    false => format!("match.all.sync.b{bits} {d}|{p}, {temporary}, %MASK;"),
                };
                vec![few, found]
            }
            8 | 9 => {
                let op = self.random.pick(&[
                    "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32",
                ]);
                vec![format!("redux.sync.{op} {d}, {a}, %MASK;")]
            }
            // Which lanes are active together is the machine's choice, but only among those that are here.
            10 => vec!["activemask.b32 %t0;".to_owned(), format!("or.b32 {d}, %t0, %MASK;")],
            _ => {
                let at = 4 * self.random.below(OWN as usize / 4);
                let mut lines = vec![format!("st.shared.b32 [%slot+{at}], {a};"), "bar.warp.sync %MASK;".to_owned()];
                lines.push(format!("and.b32 %t1, {}, 31;", self.reg(Kind::Word)));
                lines.extend(is_here("%t1"));
                lines.push("selp.b32 %t1, %t1, %lane, %q1;".to_owned());
                lines.push("sub.s32 %t1, %t1, %lane;".to_owned());
                lines.push(format!("mad.lo.s32 %t1, %t1, {OWN}, %slot;"));
                lines.push(format!("ld.shared.b32 {d}, [%t1+{at}];"));
                lines.push("bar.warp.sync %MASK;".to_owned());
                lines
            }
        }
    }

    /// A shuffle. What comes from a lane that is not here is undefined: then the destination stays as it was.
    fn shuffle(&mut self) -> Vec<String> {
        let mode = self.random.pick(&["up", "down", "bfly", "idx"]);
        let kind = self.random.pick(&[Kind::Word, Kind::Word, Kind::Single, Kind::HalfPair, Kind::BrainPair]);
        let (d, a, b) = (self.reg(kind), self.reg(kind), self.reg(Kind::Word));
        let any = [self.random.below(32), self.random.below(32)];
        let segments = self.random.pick(&[0, 0, 0, 0x10, 0x18, 0x1c, 0x1e, any[0]]);
        let clamp = self.random.pick(&[if mode == "up" { 0 } else { 31 }, any[1]]);
        let source = if self.random.percent(40) { self.random.below(32).to_string() } else { b.to_string() };
        let mut lines = vec![
            format!("shfl.sync.{mode}.b32 %t2|%q0, {a}, {source}, {:#x}, %MASK;", segments << 8 | clamp),
            format!("mov.u32 %t1, {source};"),
            "and.b32 %t1, %t1, 31;".to_owned(),
        ];
        match mode {
            "up" => lines.push("sub.u32 %t1, %lane, %t1;".to_owned()),
            "down" => lines.push("add.u32 %t1, %lane, %t1;".to_owned()),
            "bfly" => lines.push("xor.b32 %t1, %lane, %t1;".to_owned()),
            _ => {
                lines.push(format!("and.b32 %t1, %t1, {};", 31 & !segments));
                lines.push(format!("and.b32 %t3, %lane, {segments};"));
                lines.push("or.b32 %t1, %t1, %t3;".to_owned());
            }
        }
        lines.push("selp.b32 %t1, %t1, %lane, %q0;".to_owned());
        lines.extend(is_here("%t1"));
        lines.push(format!("selp.b32 {d}, %t2, {d}, %q1;"));
        lines.push(format!("mov.pred {}, %q0;", self.reg(Kind::Predicate)));
        lines
    }

    fn block_unit(&mut self) -> Vec<String> {
        let number = self.random.below(4);
        let [d, a] = [self.reg(Kind::Word), self.reg(Kind::Word)];
        let (p, test) = (self.reg(Kind::Predicate), self.test().operand(false));
        match self.random.below(6) {
            0 => vec![format!("bar.red.popc.u32 {d}, {number}, {test};")],
            1 => vec![format!("bar.red.{}.pred {p}, {number}, {test};", self.random.pick(&["and", "or"]))],
            // Each thread reads what another has written.
            _ => {
                let barrier = self.random.pick(&["bar.sync", "barrier.sync", "barrier.cta.sync.aligned"]);
                let wide = self.random.percent(30);
                let (d, a) = if wide { (self.reg(Kind::Long), self.reg(Kind::Long)) } else { (d, a) };
                let bytes = d.0.bytes();
                let at = bytes * self.random.below((OWN / bytes) as usize) as u32;
                vec![
                    format!("st.shared.b{} [%slot+{at}], {a};", 8 * bytes),
                    format!("{barrier} {number};"),
                    format!("rem.u32 %t0, {}, %threads;", self.reg(Kind::Word)),
                    "mov.u32 %t1, own_shared;".to_owned(),
                    format!("mad.lo.u32 %t0, %t0, {OWN}, %t1;"),
                    format!("ld.shared.b{} {d}, [%t0+{at}];", 8 * bytes),
                    format!("{barrier} {number};"),
                ]
            }
        }
    }
}

/// `%q1` says whether the lane that `register` names is here.
fn is_here(register: &str) -> [String; 3] {
    [
        format!("shr.u32 %t0, %MASK, {register};"),
        "and.b32 %t0, %t0, 1;".to_owned(),
        "setp.ne.u32 %q1, %t0, 0;".to_owned(),
    ]
}

/// `.v2` and `{a, b}`, or nothing and `a`.
fn vector_operand(regs: &[Reg]) -> (String, String) {
    match regs {
        [reg] => (String::new(), reg.to_string()),
        regs => {
            let names: Vec<String> = regs.iter().map(Reg::to_string).collect();
            (format!(".v{}", regs.len()), format!("{{{}}}", names.join(", ")))
        }
    }
}
