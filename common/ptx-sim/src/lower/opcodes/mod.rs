//! Instructions become operations, a file for each family.
//!
//! A family takes the modifiers that it understands from [`Modifiers`], which reports the rest, and emits an operation
//! of its own ([`Op`](crate::ir::Op)) where there is one, otherwise a [`Map`](crate::ir::Map) of the function of
//! [`crate::scalar`].

mod arithmetic;
mod async_copy;
mod atomic;
mod bits;
mod bulk;
mod cluster;
mod compare;
mod control;
mod convert;
mod emit;
pub(crate) mod fidelity;
mod float;
mod integer;
mod matrix;
mod mbarrier;
mod memory;
mod modifiers;
mod moves;
mod stack;
mod targets;
mod tcgen05;
mod texture;
mod video;
mod warp;

use super::function::FunctionLowering;
use super::symbols::{Lower, unsupported};
use crate::ast;
use crate::ir::Op;
use modifiers::Modifiers;

/// Lists every mnemonic, once, with what lowers it.
macro_rules! mnemonics {
    (($self:ident, $name:ident, $m:ident, $ops:ident) $( $($mnemonic:literal)|+ => $call:expr, )*) => {
        /// The mnemonics that are known, in at least one form.
        pub(crate) const MNEMONICS: &[&str] = &[$($($mnemonic),+),*];

        impl<'a> FunctionLowering<'_, 'a> {
            /// Lowers an instruction.
            pub(super) fn opcode(&mut $self, instruction: &ast::Instruction<'a>) -> Lower<()> {
                let mut parts = instruction.opcode.split('.');
                let $name = parts.next().unwrap_or_default();
                let $m = &mut Modifiers(parts.collect());
                let $ops = instruction.operands.as_slice();
                $m.check()?;
                targets::check($name, $m, $self.target)?;
                match $name {
                    $( $($mnemonic)|+ => $call, )*
                    _ => unsupported(format!("the instruction {}", $name)),
                }
            }
        }
    };
}

mnemonics! {
    (self, name, m, ops)

    // Arithmetic
    "abs" | "add" | "addc" | "copysign" | "cos" | "div" | "ex2" | "fma" | "lg2" | "mad" | "mad24" | "madc" | "max" | "min"
        | "mul" | "mul24" | "neg" | "rcp" | "rem" | "rsqrt" | "sad" | "sin" | "sqrt" | "sub" | "subc" | "tanh"
        => self.arithmetic(name, m, ops),
    "and" | "bfe" | "bfind" | "bmsk" | "brev" | "clz" | "cnot" | "fns" | "not" | "or" | "popc" | "prmt" | "shl" | "shr"
        | "szext" | "xor" => self.bitwise(name, m, ops),
    "bfi" => self.bit_field_insert(m, ops),
    "dp2a" | "dp4a" => self.dot_product(name, m, ops),
    "lop3" => self.lop3(m, ops),
    "shf" => self.funnel_shift(m, ops),
    "vabsdiff" | "vabsdiff2" | "vabsdiff4" | "vadd" | "vadd2" | "vadd4" | "vavrg2" | "vavrg4" | "vmax" | "vmax2" | "vmax4"
        | "vmin" | "vmin2" | "vmin4" | "vset" | "vset2" | "vset4" | "vshl" | "vshr" | "vsub" | "vsub2" | "vsub4"
        => self.video(name, m, ops),
    "vmad" => self.video_mad(m, ops),
    "cvt" => self.cvt(m, ops),
    "mov" => self.mov(m, ops),
    "selp" => self.selp(m, ops),
    "set" | "setp" => self.set(name, m, ops),
    "slct" => self.slct(m, ops),
    "testp" => self.testp(m, ops),

    // Memory
    "ld" | "ldu" => self.load(m, ops),
    "st" => self.store(m, ops),
    "atom" | "red" => self.atomic(name, m, ops),
    "cp" => self.cp(m, ops),
    "tensormap" => self.tensor_map(m, ops),
    "createpolicy" => self.create_policy(m, ops),
    "cvta" => self.cvta(m, ops),
    "isspacep" => self.isspacep(m, ops),
    "getctarank" => self.rank_of(m, ops),
    "mapa" => self.mapa(m, ops),
    "alloca" | "stackrestore" | "stacksave" => self.stack(name, m, ops),
    "applypriority" | "discard" | "prefetch" | "prefetchu" => self.hint(m),
    "istypep" => self.istypep(m, ops),
    "suld" | "sured" | "sust" => self.surface(name, m, ops),
    "suq" | "txq" => self.object_query(name, m, ops),
    "tex" => self.tex(m, ops),
    "tld4" => self.tld4(m, ops),

    // Threads together
    "activemask" => self.activemask(m, ops),
    "bar" | "barrier" => self.barrier(name, m, ops),
    "clusterlaunchcontrol" => self.cluster_launch_control(m, ops),
    "elect" => self.elect(m, ops),
    "fence" | "membar" => self.fence(m),
    "match" => self.match_lanes(m, ops),
    "mbarrier" => self.mbarrier(m, ops),
    "redux" => self.redux(m, ops),
    "setmaxnreg" => self.setmaxnreg(m, ops),
    "shfl" => self.shfl(m, ops),
    "vote" => self.vote(m, ops),

    // Matrices
    "ldmatrix" | "stmatrix" => self.ldmatrix(name, m, ops),
    "mma" => self.mma(m, ops),
    "movmatrix" => self.movmatrix(m, ops),
    "tcgen05" => self.tcgen05(m, ops),
    "wgmma" => self.wgmma(m, ops),
    "wmma" => self.wmma(m, ops),

    // Control
    "bra" => self.bra(m, ops),
    "brx" => self.brx(m, ops),
    "call" => self.call(m, ops),
    "exit" | "ret" | "trap" => self.end(name, m, ops),
    "brkpt" => self.plain(m, Op::Nop),
    "nanosleep" => self.plain_with(m, &["u32"], Op::Nanosleep),
    "pmevent" => self.plain_with(m, &["mask"], Op::Nop),
    // Programmatic dependent launch: every kernel here begins after the one before it has ended.
    "griddepcontrol" => self.plain_with(m, &["launch_dependents", "wait"], Op::Nop),
}

/// Mnemonics of PTX 9.0 that run in no form.
const REFUSED: &[&str] = &["multimem"];

/// Whether an opcode's mnemonic is known, in at least one form.
pub(crate) fn knows(opcode: &str) -> bool {
    MNEMONICS.contains(&mnemonic(opcode))
}

/// Whether PTX 9.0 has an opcode's mnemonic.
pub(crate) fn is_instruction(opcode: &str) -> bool {
    knows(opcode) || REFUSED.contains(&mnemonic(opcode))
}

fn mnemonic(opcode: &str) -> &str {
    opcode.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::ir::{Class, Op, Work};

    /// The work of the last operation that an instruction becomes.
    fn work_of(instruction: &str) -> Work {
        let registers = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<9>; .reg .f64 %fd<9>;";
        let source = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a) {{ {registers}\n{instruction}\n$L: ret; }}"
        );
        let allowance = crate::limits::Allowance::new(Default::default());
        let (ast, allowance) =
            crate::parse::parse(&source, allowance).unwrap_or_else(|error| panic!("{instruction}: {error:?}"));
        let program = crate::lower::lower(&ast, &source, &[], allowance)
            .unwrap_or_else(|error| panic!("{instruction}: {error:?}"))
            .program;
        let line = |(_, place): &(_, &crate::ir::CodePlace)| place.ptx_line == 5;
        let mut lowered = program.code.iter().zip(&program.places).filter(line).map(|(inst, _)| &inst.op);
        let last = lowered.next_back().expect(instruction);
        assert!(!matches!(last, Op::Unsupported), "{instruction}");
        last.facts().work
    }

    #[test]
    fn instructions_have_a_class_and_operations() {
        let list = |prefix: &str, count: usize| {
            let names: Vec<_> = (1..=count).map(|at| format!("%{prefix}{at}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let product = |shape: &str, [d, a, b, c]: [(&str, usize); 4]| {
            let [d, a, b, c] = [d, a, b, c].map(|(prefix, count)| list(prefix, count));
            format!("{shape} {d}, {a}, {b}, {c};")
        };
        let owned = |text: &str| text.to_owned();
        for (text, class, flops) in [
            (owned("fma.rn.f32 %f1, %f2, %f3, %f4;"), Class::F32, 2),
            (owned("add.f32 %f1, %f2, %f3;"), Class::F32, 1),
            (owned("add.sat.f32 %f1, %f2, %f3;"), Class::F32, 1),
            (owned("fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;"), Class::F32, 4),
            (owned("@%p1 mul.rn.f64 %fd1, %fd2, %fd3;"), Class::F64, 1),
            (owned("fma.rz.f64 %fd1, %fd2, %fd3, %fd4;"), Class::F64, 2),
            (owned("fma.rn.f16x2 %r1, %r2, %r3, %r4;"), Class::F16, 4),
            (owned("fma.rn.relu.f16x2 %r1, %r2, %r3, %r4;"), Class::F16, 4),
            (owned("{ add.bf16 %h1, %h2, %h3; }"), Class::F16, 1),
            (owned("@!%p2\tdiv.approx.f32 %f1, %f2, %f3;"), Class::F32, 0),
            (owned("ex2.approx.ftz.f32 %f1, %f2;"), Class::F32, 0),
            (owned("min.f32 %f1, %f2, %f3;"), Class::F32, 0),
            (owned("setp.lt.f32 %p1, %f1, %f2;"), Class::F32, 0),
            (owned("setp.lt.and.f64 %p1, %fd1, %fd2, %p2;"), Class::F64, 0),
            (owned("set.lt.u32.f32 %r1, %f1, %f2;"), Class::F32, 0),
            (owned("setp.lt.s32 %p1, %r1, %r2;"), Class::Integer, 0),
            (owned("mad.lo.s32 %r1, %r2, %r3, %r4;"), Class::Integer, 0),
            (owned("add.cc.u32 %r1, %r2, %r3;"), Class::Integer, 0),
            (owned("@!%p2 and.b32 %r1, %r2, %r3;"), Class::Integer, 0),
            (owned("bfi.b32 %r1, %r2, %r3, 4, 8;"), Class::Integer, 0),
            (owned("and.pred %p1, %p2, %p3;"), Class::Other, 0),
            (owned("selp.f32 %f1, %f2, %f3, %p1;"), Class::Other, 0),
            (owned("mov.b64 {%r1, %r2}, %rd1;"), Class::Other, 0),
            (owned("cvt.rn.f32.s32 %f1, %r1;"), Class::Conversion, 0),
            (owned("cvt.rn.f16.f32 %h1, %f1;"), Class::Conversion, 0),
            (owned("ld.param.u64 %rd1, [a];"), Class::Other, 0),
            (owned("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];"), Class::Memory, 0),
            (owned("atom.global.add.f32 %f1, [%rd1], %f2;"), Class::Memory, 0),
            (owned("cp.async.commit_group;"), Class::Memory, 0),
            (format!("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {}, [%r20];", list("r", 8)), Class::Memory, 0),
            (
                product("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", [("f", 8), ("r", 8), ("r", 8), ("f", 8)]),
                Class::Tensor,
                256,
            ),
            (
                product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [("f", 4), ("r", 4), ("r", 2), ("f", 4)]),
                Class::Tensor,
                128,
            ),
            (
                product(
                    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
                    [("fd", 2), ("fd", 1), ("fd", 1), ("fd", 2)],
                ),
                Class::Tensor,
                16,
            ),
            (
                product("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", [("f", 8), ("r", 2), ("r", 2), ("f", 8)]),
                Class::Tensor,
                64,
            ),
            (
                product("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", [("r", 4), ("r", 4), ("r", 2), ("r", 4)]),
                Class::Tensor,
                0,
            ),
            (owned("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;"), Class::Communication, 0),
            (owned("bar.sync 0;"), Class::Barrier, 0),
            (owned("bar.warp.sync -1;"), Class::Barrier, 0),
            (owned("membar.gl;"), Class::Barrier, 0),
            (owned("@%p1 bra $L;"), Class::Control, 0),
            (owned("ret;"), Class::Control, 0),
        ] {
            assert_eq!(work_of(&text), Work { class, flops }, "{text}");
        }
    }
}
