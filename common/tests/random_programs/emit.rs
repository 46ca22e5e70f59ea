//! From the tree to PTX text and to the arguments of a launch.

use crate::instruction_cases::ArgSpec;
use crate::tree::{Kind, Program, Reach, Reg, Region, Stmt, canonical};

/// Bytes that each thread has for itself in global, shared and local memory.
pub const OWN: u32 = 64;

/// Bytes of cells that all threads change by atomics: of the whole grid, and of each block.
pub const CELLS: u32 = 256;

/// What a device function takes and gives; it gives its first registers, packed into 40 bytes.
pub const TAKES: [Reg; 4] = [Reg(Kind::Word, 0), Reg(Kind::Long, 0), Reg(Kind::Single, 0), Reg(Kind::Double, 0)];
pub const GIVES: [(Reg, u32); 7] = [
    (Reg(Kind::Word, 0), 0),
    (Reg(Kind::HalfPair, 0), 4),
    (Reg(Kind::Long, 0), 8),
    (Reg(Kind::Single, 0), 16),
    (Reg(Kind::BrainPair, 0), 20),
    (Reg(Kind::Double, 0), 24),
    (Reg(Kind::Word, 1), 32),
];

const HEAD: &str = ".version 8.1\n.target sm_90\n.address_size 64\n";

impl Program {
    pub fn kernel_name(&self) -> String {
        format!("k{}", self.seed)
    }

    /// A module with this kernel alone.
    pub fn ptx(&self) -> String {
        module(std::slice::from_ref(self))
    }

    /// The kernel's arguments: input, output, memory of each thread, cells, and the values.
    pub fn args(&self) -> Vec<ArgSpec> {
        let filled = |bytes: u32| self.input.iter().copied().cycle().take(bytes as usize).collect();
        let mut args = vec![
            ArgSpec::In(self.input.clone()),
            ArgSpec::Out((self.threads() * bytes_per_thread()) as usize),
            ArgSpec::InOut(filled(self.threads() * OWN)),
            ArgSpec::InOut(filled(CELLS + self.blocks() * CELLS)),
        ];
        args.extend(self.values.iter().cloned().map(ArgSpec::Value));
        args
    }
}

/// Output: local memory, shared memory, then the registers, each with a plane of its own.
fn bytes_per_thread() -> u32 {
    2 * OWN + Reg::all().map(|reg| reg.0.bytes()).sum::<u32>()
}

/// A module with these kernels.
pub fn module(programs: &[Program]) -> String {
    programs.iter().fold(HEAD.to_owned(), |text, program| text + &kernel(program))
}

#[derive(Default)]
struct Emitter {
    text: String,
    labels: usize,
    loops: usize,
}

/// Where a statement stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The register `%mN` that names the lanes which are here.
    mask: usize,
    /// The end of the loop around it.
    end: Option<&'a str>,
    /// Instructions of several lanes follow in that loop, so its mask must be kept.
    masked: bool,
}

impl Emitter {
    fn line(&mut self, line: &str) {
        self.text.push_str("    ");
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn lines(&mut self, lines: &[String], mask: usize) {
        for line in lines {
            self.line(&line.replace("%MASK", &format!("%m{mask}")));
        }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn block(&mut self, block: &[Stmt], place: Place<'_>) {
        for stmt in block {
            self.stmt(stmt, place);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, place: Place<'_>) {
        let mask = place.mask;
        let masked = stmt.needs_mask();
        match stmt {
            Stmt::Unit(lines) => self.lines(lines, mask),
            Stmt::If { setup, test, reach, then, otherwise } => {
                let (other, join) = (self.label(), self.label());
                let apart = *reach == Reach::Apart;
                let inside = Place { mask: mask + usize::from(apart && masked), ..place };
                self.lines(setup, mask);
                if apart && masked {
                    self.line(&format!("vote.sync.ballot.b32 %m{}, {}, %m{mask};", mask + 1, test.operand(false)));
                }
                let (guard, uni) = (test.operand(true), if apart { "" } else { ".uni" });
                self.line(&format!("@{guard} bra{uni} {};", if otherwise.is_empty() { &join } else { &other }));
                self.block(then, inside);
                if !otherwise.is_empty() {
                    self.line(&format!("bra{uni} {join};"));
                    self.line(&format!("{other}:"));
                    if apart && masked {
                        // These lanes voted too: what they know is the mask of the others.
                        self.line(&format!("xor.b32 %m{0}, %m{0}, %m{mask};", mask + 1));
                    }
                    self.block(otherwise, inside);
                }
                self.line(&format!("{join}:"));
                if apart && masked {
                    self.line(&format!("bar.warp.sync %m{mask};"));
                }
            }
            Stmt::Loop { setup, reach, body } => {
                let (head, end, rounds) = (self.label(), self.label(), format!("%n{}", self.loops));
                let apart = *reach == Reach::Apart;
                let inside = Place { mask: mask + usize::from(apart && masked), end: Some(&end), masked };
                self.lines(setup, mask);
                self.line(&format!("mov.b32 {rounds}, %t0;"));
                if apart && masked {
                    self.line(&format!("mov.b32 %m{}, %m{mask};", mask + 1));
                }
                self.line(&format!("{head}:"));
                self.line(&format!("setp.ne.u32 %q6, {rounds}, 0;"));
                if apart && masked {
                    self.line(&format!("vote.sync.ballot.b32 %m{0}, %q6, %m{0};", mask + 1));
                }
                self.line(&format!("@!%q6 bra{} {end};", if apart { "" } else { ".uni" }));
                self.line(&format!("sub.u32 {rounds}, {rounds}, 1;"));
                self.loops += 1;
                self.block(body, inside);
                self.loops -= 1;
                self.line(&format!("bra.uni {head};"));
                self.line(&format!("{end}:"));
                if apart && masked {
                    self.line(&format!("bar.warp.sync %m{mask};"));
                }
            }
            Stmt::Switch { index, arms } => {
                let join = self.label();
                let labels: Vec<String> = arms.iter().map(|_| self.label()).collect();
                self.line(&format!("and.b32 %t0, {index}, {};", arms.len() - 1));
                self.line(&format!("{join}_list: .branchtargets {};", labels.join(", ")));
                self.line(&format!("brx.idx %t0, {join}_list;"));
                for (label, arm) in labels.iter().zip(arms) {
                    self.line(&format!("{label}:"));
                    self.block(arm, place);
                    self.line(&format!("bra {join};"));
                }
                self.line(&format!("{join}:"));
            }
            Stmt::Leave(test) => {
                let Some(end) = place.end else { return };
                if place.masked {
                    self.line(&format!("vote.sync.ballot.b32 %m{mask}, {}, %m{mask};", test.operand(true)));
                }
                self.line(&format!("@{} bra {end};", test.operand(false)));
            }
        }
    }
}

const DECLARATIONS: &str = "    .reg .b32 %t<8>, %m<8>, %n<8>, %lin, %threads, %blk, %gtid, %lane, %slot;
    .reg .b64 %u<4>, %start, %in, %out, %scratch, %cells;
    .reg .b16 %w<8>;
    .reg .pred %q<8>;
";

/// Where the thread is: its number in the block and in the grid, its lane, the lanes of its warp, and where it begins to read.
const POSITION: &str = "    mov.u32 %t0, %tid.x;
    mov.u32 %t1, %tid.y;
    mov.u32 %t2, %ntid.x;
    mov.u32 %t3, %ntid.y;
    mad.lo.u32 %lin, %t1, %t2, %t0;
    mul.lo.u32 %threads, %t2, %t3;
    mov.u32 %t0, %ctaid.x;
    mov.u32 %t1, %ctaid.y;
    mov.u32 %t2, %nctaid.x;
    mad.lo.u32 %blk, %t1, %t2, %t0;
    mad.lo.u32 %gtid, %blk, %threads, %lin;
    mov.u32 %lane, %laneid;
    and.b32 %t0, %lin, 0xffffffe0;
    sub.u32 %t0, %threads, %t0;
    min.u32 %t0, %t0, 32;
    mov.u32 %t1, 1;
    shl.b32 %m0, %t1, %t0;
    sub.u32 %m0, %m0, 1;
    mul.lo.u32 %t0, %gtid, 40;
    and.b32 %t0, %t0, 248;
    cvt.u64.u32 %start, %t0;
    add.u64 %start, %in, %start;
";

/// `block_cells` in shared memory, filled by the block's first thread; the barrier is passed by all.
const FILL_CELLS: &str = "    setp.ne.u32 %q0, %lin, 0;
    @%q0 bra FILLED;
    mov.u32 %t0, 0;
    mov.u32 %t1, block_cells;
    mov.b64 %u0, %in;
FILL:
    ld.global.b32 %t2, [%u0];
    st.shared.b32 [%t1], %t2;
    add.u32 %t1, %t1, 4;
    add.u64 %u0, %u0, 4;
    add.u32 %t0, %t0, 4;
    setp.lt.u32 %q0, %t0, 256;
    @%q0 bra FILL;
FILLED:
    bar.sync 0;
";

/// What the block's cells hold at the end, after those of the grid and the blocks before.
const FLUSH_CELLS: &str = "    bar.sync 0;
    setp.ne.u32 %q0, %lin, 0;
    @%q0 bra FLUSHED;
    mov.u32 %t0, 0;
    mov.u32 %t1, block_cells;
    mad.wide.u32 %u0, %blk, 256, %cells;
FLUSH:
    ld.shared.b32 %t2, [%t1];
    st.global.b32 [%u0+256], %t2;
    add.u32 %t1, %t1, 4;
    add.u64 %u0, %u0, 4;
    add.u32 %t0, %t0, 4;
    setp.lt.u32 %q0, %t0, 256;
    @%q0 bra FLUSH;
FLUSHED:
";

/// The text names this register, not merely one that begins alike.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !text[at + name.len()..].starts_with(|next: char| next.is_ascii_alphanumeric()))
}

fn kernel(program: &Program) -> String {
    let functions: String = (0..program.functions.len()).map(|index| function(program, index)).collect();
    let mut body = Emitter::default();
    body.block(&program.body, Place { mask: 0, end: None, masked: false });
    let body = body.text;
    let used = |reg: &Reg| program.outputs.contains(reg) || names(&body, &reg.to_string());
    let [shared, local, cells] = [names(&body, "%slot"), names(&body, "own_local"), names(&body, "block_cells")];

    let mut out = Emitter::default();
    if body.contains("constants") {
        let words =
            program.input[..64].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        let words: Vec<String> = words.map(|word| format!("{word:#x}")).collect();
        out.text += &format!(".const .align 16 .b32 constants{}[16] = {{{}}};\n", program.seed, words.join(", "));
    }
    out.text += &functions;
    out.text += &format!(".visible .entry {}(\n", program.kernel_name());
    out.text += "    .param .u64 pin, .param .u64 pout, .param .u64 pscratch, .param .u64 pcells,\n";
    out.text += "    .param .b32 px, .param .b64 py, .param .b32 pz, .param .align 16 .b8 pblob[32])\n{\n";
    out.text += DECLARATIONS;
    out.text += &pools();
    if shared {
        out.line(&format!(".shared .align 16 .b8 own_shared[{}];", program.threads_per_block() * OWN));
    }
    if cells {
        out.line(&format!(".shared .align 16 .b8 block_cells[{CELLS}];"));
    }
    if local {
        out.line(&format!(".local .align 16 .b8 own_local[{OWN}];"));
    }
    for name in ["in", "out", "scratch", "cells"] {
        out.line(&format!("ld.param.u64 %{name}, [p{name}];"));
        out.line(&format!("cvta.to.global.u64 %{name}, %{name};"));
    }
    out.text += POSITION;
    out.line(&format!("mad.wide.u32 %scratch, %gtid, {OWN}, %scratch;"));
    if shared {
        out.line("mov.u32 %slot, own_shared;");
        out.line(&format!("mad.lo.u32 %slot, %lin, {OWN}, %slot;"));
    }
    for (at, (space, address)) in [("shared", "%slot"), ("local", "own_local")].into_iter().enumerate() {
        if [shared, local][at] {
            for part in (0..OWN).step_by(16) {
                let from = 1024 * at as u32 + part;
                out.line(&format!("ld.global.v4.b32 {{%t0, %t1, %t2, %t3}}, [%in+{from}];"));
                out.line("xor.b32 %t1, %t1, %gtid;");
                out.line(&format!("st.{space}.v4.b32 [{address}+{part}], {{%t0, %t1, %t2, %t3}};"));
            }
        }
    }
    if cells {
        out.text += FILL_CELLS;
    }
    for (number, reg) in Reg::all().enumerate().filter(|(_, reg)| used(reg)) {
        out.lines(&initial(reg, number as u32), 0);
    }
    out.text += &body;
    if cells {
        out.text += FLUSH_CELLS;
    }

    let threads = program.threads();
    for (at, (space, address)) in [("local", "own_local"), ("shared", "%slot")].into_iter().enumerate() {
        if [local, shared][at] {
            out.line(&format!("mad.wide.u32 %u0, %gtid, {OWN}, %out;"));
            for part in (0..OWN).step_by(16) {
                let to = threads * OWN * at as u32 + part;
                out.line(&format!("ld.{space}.v4.b32 {{%t0, %t1, %t2, %t3}}, [{address}+{part}];"));
                out.line(&format!("st.global.v4.b32 [%u0+{to}], {{%t0, %t1, %t2, %t3}};"));
            }
        }
    }
    let mut plane = 2 * OWN;
    for reg in Reg::all() {
        let bytes = reg.0.bytes();
        if program.outputs.contains(&reg) {
            out.line(&format!("mad.wide.u32 %u0, %gtid, {bytes}, %out;"));
            let mut name = reg.to_string();
            if reg.0 == Kind::Predicate {
                out.line(&format!("selp.u32 %t0, 1, 0, {name};"));
                name = "%t0".to_owned();
            }
            out.line(&format!("st.global.b{} [%u0+{}], {name};", 8 * bytes, plane * threads));
        }
        plane += bytes;
    }
    out.text += "    ret;\n}\n";
    out.text
}

/// The declarations of the pools.
fn pools() -> String {
    let declare = |kind: Kind| {
        let ty = match kind {
            Kind::Predicate => "pred".to_owned(),
            _ => format!("b{}", 8 * kind.bytes()),
        };
        format!("    .reg .{ty} {}<{}>;\n", kind.prefix(), kind.count())
    };
    Kind::ALL.into_iter().map(declare).collect()
}

/// The first value of a kernel's register, from a place of the input that depends on the thread.
fn initial(reg: Reg, number: u32) -> Vec<String> {
    let place = format!("%start+{}", Region::of(reg.0).offset + 24 * number % 256);
    if reg.0 == Kind::Predicate {
        let load = format!("ld.global.b32 %t0, [{place}];");
        return vec![load, "and.b32 %t0, %t0, 1;".to_owned(), format!("setp.ne.u32 {reg}, %t0, 0;")];
    }
    let mut lines = vec![format!("ld.global.b{} {reg}, [{place}];", 8 * reg.0.bytes())];
    lines.extend(canonical(reg));
    lines
}

/// A device function: the pools begin with its arguments and with what is made of them.
fn function(program: &Program, index: usize) -> String {
    let mut out = Emitter::default();
    out.text += &format!(".func (.param .align 8 .b8 gives[40]) f{}_{index}(", program.seed);
    out.text += ".param .b32 take0, .param .b64 take1, .param .b32 take2, .param .b64 take3)\n{\n";
    out.text += DECLARATIONS;
    out.text += &pools();
    for (at, reg) in TAKES.into_iter().enumerate() {
        out.line(&format!("ld.param.b{} {reg}, [take{at}];", 8 * reg.0.bytes()));
    }
    for reg in Reg::all().filter(|reg| !TAKES.contains(reg)) {
        let Reg(kind, at) = reg;
        let (odd, before) = (0x85eb_ca6bu32.rotate_left(at.into()) | 1, at.saturating_sub(1));
        out.line(&match kind {
            Kind::Word => format!("mad.lo.u32 {reg}, %r0, {odd}, {at};"),
            Kind::Long => format!("mad.lo.u64 {reg}, %l0, {odd}, {at};"),
            Kind::Short => format!("cvt.u16.u32 {reg}, %r{at};"),
            Kind::Single => format!("add.rn.f32 {reg}, %f{before}, 0f3F800000;"),
            Kind::Double => format!("cvt.rn.f64.s64 {reg}, %l{at};"),
            Kind::Half => format!("cvt.rn.f16.f32 {reg}, %f{at};"),
            Kind::Brain => format!("cvt.rn.bf16.f32 {reg}, %f{at};"),
            Kind::HalfPair => format!("cvt.rn.f16x2.f32 {reg}, %f{at}, %f0;"),
            Kind::BrainPair => format!("cvt.rn.bf16x2.f32 {reg}, %f{at}, %f0;"),
            Kind::Predicate => format!("setp.lt.s32 {reg}, %r{at}, %r{};", at + 1),
        });
    }
    out.block(&program.functions[index], Place { mask: 0, end: None, masked: false });
    for (reg, offset) in GIVES {
        out.line(&format!("st.param.b{} [gives+{offset}], {reg};", 8 * reg.0.bytes()));
    }
    out.text += "    ret;\n}\n";
    out.text
}
