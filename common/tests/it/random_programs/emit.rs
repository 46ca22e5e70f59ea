//! From the tree to PTX text and to the arguments of a launch.

use crate::random_programs::tree::{
    CHECKSUMS, Code, Kind, Program, Reg, Region, Stmt, add_to_checksum, canonical, code,
};
use instruction_cases::ArgSpec;

/// Bytes of private memory per thread in each of global, shared and local memory.
pub(super) const OWN: u32 = 64;

/// Bytes of cells that all threads change by atomics: for the whole grid, and for each block.
pub(super) const CELLS: u32 = 256;

/// A device function's parameters and the registers that it returns, packed into 56 bytes, followed by its checksums.
pub(super) const TAKES: [Reg; 4] = [Reg(Kind::Word, 0), Reg(Kind::Long, 0), Reg(Kind::Single, 0), Reg(Kind::Double, 0)];
pub(super) const GIVES: [(Reg, u32); 7] = [
    (Reg(Kind::Word, 0), 0),
    (Reg(Kind::HalfPair, 0), 4),
    (Reg(Kind::Long, 0), 8),
    (Reg(Kind::Single, 0), 16),
    (Reg(Kind::BrainPair, 0), 20),
    (Reg(Kind::Double, 0), 24),
    (Reg(Kind::Word, 1), 32),
];
const GIVEN_CHECKSUMS: u32 = 40;

/// After a call: the function's checksums, added to the caller's.
pub(super) fn given_checksums() -> [String; 3] {
    let add = |temporary: &str, kind: Kind, offset: u32| {
        let load = format!("ld.param.b{} {temporary}, [gives+{}];", 8 * kind.bytes(), GIVEN_CHECKSUMS + offset);
        format!("{load} {}", add_to_checksum(temporary, kind))
    };
    [add("%u0", Kind::Long, 0), add("%t0", Kind::Word, 8), add("%w0", Kind::Short, 12)]
}

const HEAD: &str = ".version 8.1\n.target sm_90\n.address_size 64\n";

impl Program {
    pub(super) fn kernel_name(&self) -> String {
        format!("k{}", self.seed)
    }

    /// A module with only this kernel.
    pub(super) fn ptx(&self) -> String {
        module(std::slice::from_ref(self))
    }

    /// The kernel's arguments: input, output, the threads' memory, cells, and the values.
    pub(super) fn args(&self) -> Vec<ArgSpec> {
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

/// Output: local memory, shared memory, checksums, then the registers, each in its own plane.
fn bytes_per_thread() -> u32 {
    2 * OWN + 16 + Reg::all().map(|reg| reg.0.bytes()).sum::<u32>()
}

/// A module with these kernels.
pub(super) fn module(programs: &[Program]) -> String {
    programs.iter().fold(HEAD.to_owned(), |text, program| text + &kernel(program))
}

#[derive(Default)]
struct Emitter {
    text: String,
    checksums: bool,
    labels: usize,
    loops: usize,
}

/// Context of a statement.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The register `%mN` with the mask of the active lanes.
    mask: usize,
    /// The end of the loop around it.
    end: Option<&'a str>,
    /// Set if cross-lane instructions follow in that loop, so that its mask must be kept.
    masked: bool,
}

const START: Place<'static> = Place { mask: 0, end: None, masked: false };

/// Appends one line, written as for `format!`.
macro_rules! line {
    ($emitter:expr, $($format:tt)*) => {
        $emitter.line(&format!($($format)*))
    };
}

impl Emitter {
    fn line(&mut self, line: &str) {
        self.text.extend(["    ", line, "\n"]);
    }

    fn code(&mut self, code: &[String], mask: usize) {
        let checksums = self.checksums;
        for instruction in code.iter().filter(|instruction| checksums || !instruction.contains("%sum")) {
            self.line(&instruction.replace("%MASK", &format!("%m{mask}")));
        }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn block(&mut self, block: &[Stmt], place: Place<'_>) {
        block.iter().for_each(|stmt| self.stmt(stmt, place));
    }

    fn stmt(&mut self, stmt: &Stmt, place: Place<'_>) {
        let outer = place.mask;
        match stmt {
            Stmt::Unit(code) | Stmt::Call { code, .. } => {
                self.code(code, outer);
                let mut written: Vec<Reg> = Vec::new();
                for reg in code.iter().flat_map(|instruction| Reg::written(instruction)) {
                    if self.checksums && !written.contains(&reg) {
                        self.line(&add_to_checksum(&reg.to_string(), reg.0));
                        written.push(reg);
                    }
                }
            }
            Stmt::If { setup, test, apart, then, otherwise } => {
                let (other, join) = (self.label(), self.label());
                let (masked, uni) = (*apart && stmt.needs_mask(), if *apart { "" } else { ".uni" });
                let mask = outer + usize::from(masked);
                self.code(setup, outer);
                if masked {
                    line!(self, "vote.sync.ballot.b32 %m{mask}, {test}, %m{outer};");
                }
                line!(self, "@{} bra{uni} {};", test.negated(), if otherwise.is_empty() { &join } else { &other });
                self.block(then, Place { mask, ..place });
                if !otherwise.is_empty() {
                    line!(self, "bra{uni} {join};");
                    line!(self, "{other}:");
                    if masked {
                        // These lanes voted too: their result is the mask of the others.
                        line!(self, "xor.b32 %m{mask}, %m{mask}, %m{outer};");
                    }
                    self.block(otherwise, Place { mask, ..place });
                }
                self.join(&join, masked, outer);
            }
            Stmt::Loop { setup, apart, body } => {
                let (head, end, rounds) = (self.label(), self.label(), format!("%n{}", self.loops));
                let masked = *apart && stmt.needs_mask();
                let mask = outer + usize::from(masked);
                self.code(setup, outer);
                line!(self, "mov.b32 {rounds}, %t0;");
                if masked {
                    line!(self, "mov.b32 %m{mask}, %m{outer};");
                }
                line!(self, "{head}:");
                line!(self, "setp.ne.u32 %q6, {rounds}, 0;");
                if masked {
                    line!(self, "vote.sync.ballot.b32 %m{mask}, %q6, %m{mask};");
                }
                line!(self, "@!%q6 bra{} {end};", if *apart { "" } else { ".uni" });
                line!(self, "sub.u32 {rounds}, {rounds}, 1;");
                self.loops += 1;
                self.block(body, Place { mask, end: Some(&end), masked });
                self.loops -= 1;
                line!(self, "bra.uni {head};");
                self.join(&end, masked, outer);
            }
            Stmt::Switch { index, arms } => {
                let join = self.label();
                let labels: Vec<String> = arms.iter().map(|_| self.label()).collect();
                line!(self, "and.b32 %t0, {index}, {};", arms.len() - 1);
                line!(self, "{join}_list: .branchtargets {};", labels.join(", "));
                line!(self, "brx.idx %t0, {join}_list;");
                for (label, arm) in labels.iter().zip(arms) {
                    line!(self, "{label}:");
                    self.block(arm, place);
                    line!(self, "bra {join};");
                }
                self.join(&join, false, outer);
            }
            Stmt::Leave(test) => {
                let Some(end) = place.end else { return };
                if place.masked {
                    line!(self, "vote.sync.ballot.b32 %m{outer}, {}, %m{outer};", test.negated());
                }
                line!(self, "@{test} bra {end};");
            }
        }
    }

    /// Label at which the lanes of `%mN` reconverge; they wait for each other if their masks differ.
    fn join(&mut self, label: &str, masked: bool, mask: usize) {
        line!(self, "{label}:");
        if masked {
            line!(self, "bar.warp.sync %m{mask};");
        }
    }
}

const DECLARATIONS: &str = "    .reg .b32 %t<8>, %m<8>, %n<8>, %sum32, %lin, %threads, %blk, %gtid, %lane, %slot;
    .reg .b64 %u<4>, %start, %sum64, %in, %out, %scratch, %cells;
    .reg .b16 %w<8>, %sum16;
    .reg .pred %q<8>;
";

const CLEAR_CHECKSUMS: &str = "    mov.b64 %sum64, 0; mov.b32 %sum32, 0; mov.b16 %sum16, 0;\n";

/// The thread's position: its number in the block and in the grid, its lane, the lanes of its warp, and where it starts
/// reading.
const POSITION: &str = "    mov.u32 %t0, %tid.x; mov.u32 %t1, %tid.y; mov.u32 %t2, %ntid.x; mov.u32 %t3, %ntid.y;
    mad.lo.u32 %lin, %t1, %t2, %t0; mul.lo.u32 %threads, %t2, %t3;
    mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ctaid.y; mov.u32 %t2, %nctaid.x;
    mad.lo.u32 %blk, %t1, %t2, %t0; mad.lo.u32 %gtid, %blk, %threads, %lin; mov.u32 %lane, %laneid;
    and.b32 %t0, %lin, 0xffffffe0; sub.u32 %t0, %threads, %t0; min.u32 %t0, %t0, 32;
    mov.u32 %t1, 1; shl.b32 %m0, %t1, %t0; sub.u32 %m0, %m0, 1;
    mul.lo.u32 %t0, %gtid, 40; and.b32 %t0, %t0, 1016; cvt.u64.u32 %start, %t0; add.u64 %start, %in, %start;
";

/// The block's first thread moves all words of `block_cells` by `step`, between `[%t1]` in shared and `[%u0]` in global memory.
fn move_cells(label: &str, step: &str) -> String {
    format!(
        "    setp.ne.u32 %q0, %lin, 0; @%q0 bra {label}_END;
    mov.u32 %t0, 0; mov.u32 %t1, block_cells;
{label}:
    {step}
    add.u32 %t1, %t1, 4; add.u64 %u0, %u0, 4; add.u32 %t0, %t0, 4;
    setp.lt.u32 %q0, %t0, {CELLS}; @%q0 bra {label};
{label}_END:
"
    )
}

/// Whether the text names this register, not just one with the same prefix.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !text[at + name.len()..].starts_with(|next: char| next.is_ascii_alphanumeric()))
}

fn kernel(program: &Program) -> String {
    let called = (0..program.functions.len()).filter(|index| program.calls(*index));
    let functions: String = called.map(|index| function(program, index)).collect();
    let mut body = Emitter { checksums: program.checksums, ..Emitter::default() };
    body.block(&program.body, START);
    let body = body.text;
    let used = |reg: &Reg| program.outputs.contains(reg) || names(&body, &reg.to_string());
    let [shared, local, cells] = [names(&body, "%slot"), names(&body, "own_local"), names(&body, "block_cells")];

    let mut out = Emitter::default();
    if body.contains("constants") {
        let words = program.input[..64].chunks_exact(4);
        let words = words.map(|word| format!("{:#x}", u32::from_le_bytes(word.try_into().expect("4 bytes"))));
        let words = words.collect::<Vec<_>>().join(", ");
        out.text += &format!(".const .align 16 .b32 constants{}[16] = {{{words}}};\n", program.seed);
    }
    out.text += &functions;
    out.text += &format!(".visible .entry {}(\n", program.kernel_name());
    out.text += "    .param .u64 pin, .param .u64 pout, .param .u64 pscratch, .param .u64 pcells,\n";
    out.text += "    .param .b32 px, .param .b64 py, .param .b32 pz, .param .align 16 .b8 pblob[32])\n{\n";
    out.text += DECLARATIONS;
    out.text += &pools();
    for name in ["in", "out", "scratch", "cells"] {
        line!(out, "ld.param.u64 %{name}, [p{name}]; cvta.to.global.u64 %{name}, %{name};");
    }
    out.text += POSITION;
    line!(out, "mad.wide.u32 %scratch, %gtid, {OWN}, %scratch;");
    if shared {
        line!(out, ".shared .align 16 .b8 own_shared[{}];", program.threads_per_block() * OWN);
        line!(out, "mov.u32 %slot, own_shared; mad.lo.u32 %slot, %lin, {OWN}, %slot;");
    }
    if local {
        line!(out, ".local .align 16 .b8 own_local[{OWN}];");
    }
    let own = [("shared", "%slot", shared), ("local", "own_local", local)];
    // Four words at a time: 16 bytes of each of these memories.
    let parts = |used: bool| (0..OWN).step_by(16).filter(move |_| used);
    for (space, address, used) in own {
        for part in parts(used) {
            line!(out, "ld.global.v4.b32 {{%t0, %t1, %t2, %t3}}, [%in+{part}];");
            line!(out, "xor.b32 %t1, %t1, %gtid;");
            line!(out, "st.{space}.v4.b32 [{address}+{part}], {{%t0, %t1, %t2, %t3}};");
        }
    }
    if cells {
        line!(out, ".shared .align 16 .b8 block_cells[{CELLS}];");
        line!(out, "mov.b64 %u0, %in;");
        out.text += &move_cells("FILL", "ld.global.b32 %t2, [%u0]; st.shared.b32 [%t1], %t2;");
        line!(out, "bar.sync 0;");
    }
    for (number, reg) in Reg::all().enumerate().filter(|(_, reg)| used(reg)) {
        out.code(&initial(reg, number as u32), 0);
    }
    if program.checksums {
        out.text += CLEAR_CHECKSUMS;
    }
    out.text += &body;
    if cells {
        // The grid's cells come first, then those of each block.
        line!(out, "bar.sync 0; mad.wide.u32 %u0, %blk, {CELLS}, %cells;");
        out.text += &move_cells("FLUSH", &format!("ld.shared.b32 %t2, [%t1]; st.global.b32 [%u0+{CELLS}], %t2;"));
    }

    let threads = program.threads();
    let mut plane = 0;
    for (space, address, used) in own {
        for part in parts(used) {
            line!(out, "ld.{space}.v4.b32 {{%t0, %t1, %t2, %t3}}, [{address}+{part}];");
            line!(out, "mad.wide.u32 %u0, %gtid, {OWN}, %out;");
            line!(out, "st.global.v4.b32 [%u0+{}], {{%t0, %t1, %t2, %t3}};", plane * threads + part);
        }
        plane += OWN;
    }
    let checksums = CHECKSUMS.into_iter().map(|(name, bytes)| (name.to_owned(), bytes, program.checksums));
    let registers = Reg::all().map(|reg| (reg.to_string(), reg.0.bytes(), program.outputs.contains(&reg)));
    for (mut name, bytes, written) in checksums.chain([(String::new(), 2, false)]).chain(registers) {
        if written {
            line!(out, "mad.wide.u32 %u0, %gtid, {bytes}, %out;");
            if name.starts_with(Kind::Predicate.prefix()) {
                line!(out, "selp.u32 %t0, 1, 0, {name};");
                name = "%t0".to_owned();
            }
            line!(out, "st.global.b{} [%u0+{}], {name};", 8 * bytes, plane * threads);
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

/// The initial value of a kernel's register, from a position in the input that depends on the thread.
fn initial(reg: Reg, number: u32) -> Code {
    let place = format!("%start+{}", Region::of(reg.0).offset + 24 * number % 1024);
    let mut code = Code::new();
    if reg.0 == Kind::Predicate {
        code!(code, "ld.global.b32 %t0, [{place}]; and.b32 %t0, %t0, 1; setp.ne.u32 {reg}, %t0, 0;");
    } else {
        code!(code, "ld.global.b{} {reg}, [{place}];", 8 * reg.0.bytes());
        code.extend(canonical(reg));
    }
    code
}

/// A device function: the pools start with its arguments and values computed from them.
fn function(program: &Program, index: usize) -> String {
    let mut out = Emitter { checksums: program.checksums, ..Emitter::default() };
    out.text += &format!(".func (.param .align 8 .b8 gives[56]) f{}_{index}(", program.seed);
    out.text += ".param .b32 take0, .param .b64 take1, .param .b32 take2, .param .b64 take3)\n{\n";
    out.text += DECLARATIONS;
    out.text += &pools();
    for (at, reg) in TAKES.into_iter().enumerate() {
        line!(out, "ld.param.b{} {reg}, [take{at}];", 8 * reg.0.bytes());
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
    if program.checksums {
        out.text += CLEAR_CHECKSUMS;
    }
    out.block(&program.functions[index], START);
    for (reg, offset) in GIVES {
        line!(out, "st.param.b{} [gives+{offset}], {reg};", 8 * reg.0.bytes());
    }
    let mut offset = GIVEN_CHECKSUMS;
    for (name, bytes) in CHECKSUMS.into_iter().filter(|_| program.checksums) {
        line!(out, "st.param.b{} [gives+{offset}], {name};", 8 * bytes);
        offset += bytes;
    }
    out.text += "    ret;\n}\n";
    out.text
}
