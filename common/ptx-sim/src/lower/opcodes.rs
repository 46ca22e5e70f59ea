//! The instruction table: an opcode with its modifiers and operands becomes an [`Op`].
//!
//! Each mnemonic takes the modifiers it knows from [`Modifiers`]; what is left over is unknown, and named as such.

use super::*;
use crate::matrix::{Mma, WmmaAccess};
use crate::scalar::{
    Compare, CompareType, CvtType, FloatOp, FloatProperty, FloatType, IntOp, IntType, LaneFn, Mode, PrmtMode, Rounding,
    SATFINITE, carry_op, compare, convert, float_op, int_op,
};

/// The modifiers of an opcode that have not been taken yet, in order.
struct Modifiers<'a>(Vec<&'a str>);

impl<'a> Modifiers<'a> {
    /// Takes the modifier of that name.
    fn flag(&mut self, name: &str) -> bool {
        match self.0.iter().position(|modifier| *modifier == name) {
            Some(at) => {
                self.0.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes any of `names`, which change nothing here.
    fn ignore(&mut self, names: &[&str]) {
        self.0.retain(|modifier| !names.contains(modifier));
    }

    /// Takes the first modifier for which `value` has an answer.
    fn one<T>(&mut self, value: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, found) = self.0.iter().enumerate().find_map(|(at, modifier)| Some((at, value(modifier)?)))?;
        self.0.remove(at);
        Some(found)
    }

    /// Takes the next type.
    fn ty(&mut self) -> Lower<Scalar> {
        self.one(Scalar::from_name).map_or_else(|| unsupported("an instruction without a type"), Ok)
    }

    fn rounding(&mut self) -> Option<Rounding> {
        self.one(|name| {
            Some(match name {
                "rn" | "rni" => Rounding::Nearest,
                "rna" => Rounding::NearestAway,
                "rz" | "rzi" => Rounding::Zero,
                "rm" | "rmi" => Rounding::Down,
                "rp" | "rpi" => Rounding::Up,
                _ => return None,
            })
        })
    }

    fn finish(&self) -> Lower<()> {
        match self.0.first() {
            None => Ok(()),
            Some(modifier) => unsupported(format!("the modifier .{modifier}")),
        }
    }
}

fn int_type(ty: Scalar) -> Option<IntType> {
    Some(match ty {
        Scalar::U16 => IntType::U16,
        Scalar::S16 => IntType::S16,
        Scalar::U32 => IntType::U32,
        Scalar::S32 => IntType::S32,
        Scalar::U64 => IntType::U64,
        Scalar::S64 => IntType::S64,
        Scalar::B16 => IntType::B16,
        Scalar::B32 => IntType::B32,
        Scalar::B64 => IntType::B64,
        _ => return None,
    })
}

fn float_type(ty: Scalar) -> Option<FloatType> {
    Some(match ty {
        Scalar::F16 => FloatType::F16,
        Scalar::F16x2 => FloatType::F16x2,
        Scalar::Bf16 => FloatType::Bf16,
        Scalar::Bf16x2 => FloatType::Bf16x2,
        Scalar::F32 => FloatType::F32,
        Scalar::F64 => FloatType::F64,
        _ => return None,
    })
}

fn compare_type(ty: Scalar) -> Option<CompareType> {
    Some(match ty {
        Scalar::U16 => CompareType::U16,
        Scalar::S16 => CompareType::S16,
        Scalar::U32 => CompareType::U32,
        Scalar::S32 => CompareType::S32,
        Scalar::U64 => CompareType::U64,
        Scalar::S64 => CompareType::S64,
        Scalar::B16 => CompareType::B16,
        Scalar::B32 => CompareType::B32,
        Scalar::B64 => CompareType::B64,
        Scalar::F16 | Scalar::F16x2 => CompareType::F16,
        Scalar::Bf16 | Scalar::Bf16x2 => CompareType::Bf16,
        Scalar::F32 => CompareType::F32,
        Scalar::F64 => CompareType::F64,
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" => Compare::Lt,
        "le" => Compare::Le,
        "gt" => Compare::Gt,
        "ge" => Compare::Ge,
        "lo" => Compare::Lo,
        "ls" => Compare::Ls,
        "hi" => Compare::Hi,
        "hs" => Compare::Hs,
        "equ" => Compare::Equ,
        "neu" => Compare::Neu,
        "ltu" => Compare::Ltu,
        "leu" => Compare::Leu,
        "gtu" => Compare::Gtu,
        "geu" => Compare::Geu,
        "num" => Compare::Num,
        "nan" => Compare::Nan,
        _ => return None,
    })
}

fn bool_op(name: &str) -> Option<BoolOp> {
    Some(match name {
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        "xor" => BoolOp::Xor,
        _ => return None,
    })
}

/// The functions that a CUDA compiler declares and the device brings with it.
fn builtin(name: &str) -> Option<Callee> {
    Some(match name {
        "vprintf" => Callee::Vprintf,
        "__assertfail" => Callee::AssertFail,
        // `new` of a type that is aligned to more than 16 bytes takes the second
        "malloc" | "__cuda_syscall_aligned_malloc" => Callee::Malloc,
        "free" => Callee::Free,
        _ => return None,
    })
}

fn space_named(name: &str) -> Option<MemSpace> {
    Some(match name {
        "global" | "const" => MemSpace::Global,
        // without clusters a block's own shared memory is all of the cluster's
        "shared" | "shared::cta" | "shared::cluster" => MemSpace::Shared,
        "local" => MemSpace::Local,
        "param" | "param::entry" | "param::func" => MemSpace::Param,
        _ => return None,
    })
}

/// Cache and eviction hints, and memory scopes: without caches, and with one coherent memory, they change nothing.
fn ignore_hints(modifiers: &mut Modifiers<'_>) {
    modifiers.0.retain(|name| {
        !matches!(
            *name,
            "ca" | "cg"
                | "cs"
                | "cv"
                | "lu"
                | "wb"
                | "wt"
                | "nc"
                | "cta"
                | "cluster"
                | "gpu"
                | "sys"
                | "weak"
                | "mmio"
                | "unified"
        ) && !name.starts_with("level::")
            && !name.starts_with("L1::")
            && !name.starts_with("L2::")
    });
}

fn unsigned_of(bytes: u32) -> Scalar {
    match bytes {
        1 => Scalar::B8,
        2 => Scalar::B16,
        4 => Scalar::B32,
        8 => Scalar::B64,
        _ => Scalar::B128,
    }
}

/// A type of twice the width, for `.wide`.
fn doubled(ty: Scalar) -> Scalar {
    match ty {
        Scalar::U16 => Scalar::U32,
        Scalar::S16 => Scalar::S32,
        Scalar::U32 => Scalar::U64,
        _ => Scalar::S64,
    }
}

const UNUSED: R = R::MAX;

/// Operands that an integer instruction reads.
fn sources_of(op: IntOp) -> usize {
    match op {
        IntOp::Abs | IntOp::Neg | IntOp::Not | IntOp::Cnot | IntOp::Bfind | IntOp::Brev | IntOp::Clz | IntOp::Popc => 1,
        IntOp::MadLo
        | IntOp::MadHi
        | IntOp::MadWide
        | IntOp::Mad24Lo
        | IntOp::Mad24Hi
        | IntOp::Sad
        | IntOp::Prmt
        | IntOp::Bfe
        | IntOp::Fns => 3,
        _ => 2,
    }
}

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn opcode(&mut self, instruction: &ast::Instruction<'a>) -> Lower<()> {
        let mut parts = instruction.opcode.split('.');
        let name = parts.next().unwrap_or_default();
        let mut m = Modifiers(parts.collect());
        let m = &mut m;
        let ops = instruction.operands.as_slice();
        match name {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "abs" | "neg" | "min" | "max" | "sad" | "sqrt"
            | "rsqrt" | "rcp" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "mul24" | "mad24" | "copysign" | "addc"
            | "subc" | "madc" => self.arithmetic(name, m, ops),
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe" | "bfi"
            | "bfind" | "brev" | "clz" | "popc" | "fns" | "bmsk" | "szext" | "dp4a" | "dp2a" | "vabsdiff2"
            | "vabsdiff4" => self.bitwise(name, m, ops),
            "cvt" => self.cvt(m, ops),
            "mov" => self.mov(m, ops),
            "selp" => self.selp(m, ops),
            "slct" => self.slct(m, ops),
            "set" | "setp" => self.set(name, m, ops),
            "testp" => self.testp(m, ops),
            "ld" | "ldu" => self.load(m, ops),
            "st" => self.store(m, ops),
            "atom" | "red" => self.atomic(name, m, ops),
            "cvta" => self.cvta(m, ops),
            "isspacep" => self.isspacep(m, ops),
            "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                m.one(space_named);
                ignore_hints(m);
                m.ignore(&["L1", "L2", "tensormap"]);
                m.finish()?;
                self.emit(Op::Nop);
                Ok(())
            }
            "fence" | "membar" => {
                m.ignore(&["sc", "acq_rel", "acquire", "release"]);
                let device = ["cluster", "gpu", "sys", "gl"].into_iter().any(|scope| m.flag(scope));
                m.flag("cta");
                // Every access goes to one memory: a proxy fence has nothing left to order.
                if m.flag("proxy") {
                    m.ignore(&["alias", "async", "async::generic", "async::global", "async::shared::cta", "generic"]);
                }
                m.finish()?;
                self.emit(Op::Fence { device });
                Ok(())
            }
            "cp" => self.cp_async(m, ops),
            "bra" => self.bra(m, ops),
            "brx" => self.brx(m, ops),
            "call" => self.call(m, ops),
            "ret" => {
                m.ignore(&["uni"]);
                m.finish()?;
                if self.kernel {
                    self.emit(Op::Exit);
                } else {
                    let target = self.end;
                    self.emit(Op::Bra { target, join: cfg::NONE });
                }
                Ok(())
            }
            "exit" => self.plain(m, Op::Exit),
            "trap" => self.plain(m, Op::Trap),
            "brkpt" => self.plain(m, Op::Nop),
            "nanosleep" => {
                m.flag("u32");
                self.plain(m, Op::Nanosleep)
            }
            "pmevent" => {
                m.flag("mask");
                self.plain(m, Op::Nop)
            }
            // Programmatic dependent launch: every kernel here begins after the one before it has ended.
            "griddepcontrol" => {
                m.ignore(&["launch_dependents", "wait"]);
                self.plain(m, Op::Nop)
            }
            "setmaxnreg" => {
                m.ignore(&["inc", "dec", "sync", "aligned", "u32"]);
                self.plain(m, Op::Nop)
            }
            "bar" | "barrier" => self.barrier(name, m, ops),
            "activemask" => {
                m.flag("b32");
                m.finish()?;
                let d = self.dst(operand(ops, 0)?, Scalar::B32)?;
                self.emit(Op::Activemask { d });
                Ok(())
            }
            "shfl" => self.shfl(m, ops),
            "vote" => self.vote(m, ops),
            "match" => self.match_(m, ops),
            "redux" => self.redux(m, ops),
            "elect" => self.elect(m, ops),
            "mma" => self.mma(m, ops),
            "wmma" => self.wmma(m, ops),
            "ldmatrix" | "stmatrix" => self.ldmatrix(name, m, ops),
            _ => unsupported(format!("the instruction {name}")),
        }
    }

    fn plain(&mut self, m: &Modifiers<'_>, op: Op) -> Lower<()> {
        m.finish()?;
        self.emit(op);
        Ok(())
    }

    // Arithmetic

    fn arithmetic(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let rounding = m.rounding();
        let mut mode = Mode {
            rounding: rounding.unwrap_or_default(),
            ftz: m.flag("ftz"),
            saturate: m.flag("sat"),
            approx: m.flag("approx"),
            relu: m.flag("relu"),
            propagate_nan: m.flag("NaN"),
            xorsign_abs: m.flag("xorsign"),
            ..Mode::default()
        };
        let absolute = m.flag("abs");
        let full = m.flag("full");
        let cc = m.flag("cc");
        let half = m.one(|name| match name {
            "lo" => Some(Half::Lo),
            "hi" => Some(Half::Hi),
            "wide" => Some(Half::Wide),
            _ => None,
        });
        // `add{.rnd}.f32.f16`: mixed precision
        let ty = m.one(|name| match name {
            "u16x2" => Some(ArithmeticType::U16x2),
            "s16x2" => Some(ArithmeticType::S16x2),
            "f32x2" => Some(ArithmeticType::F32x2),
            _ => Scalar::from_name(name).map(ArithmeticType::Scalar),
        });
        let Some(ty) = ty else { return unsupported("an instruction without a type") };
        m.finish()?;
        let three = ops.len() == 4;
        if let ArithmeticType::Scalar(ty) = ty
            && !ty.float()
        {
            if cc || matches!(name, "addc" | "subc" | "madc") {
                return self.carry(name, ty, half, cc, ops);
            }
            return self.integer(name, ty, half, mode, ops);
        }
        let (ty, register) = match ty {
            ArithmeticType::U16x2 => return self.packed(name, IntType::U16x2, mode, ops),
            ArithmeticType::S16x2 => return self.packed(name, IntType::S16x2, mode, ops),
            ArithmeticType::F32x2 => (Some(FloatType::F32x2), Scalar::B64),
            ArithmeticType::Scalar(ty) => (float_type(ty), ty),
        };
        let Some(ty) = ty else { return unsupported(format!("{name} of .{}", register.name())) };
        if half.is_some() {
            return unsupported(format!("{name} of .{} with .lo, .hi or .wide", register.name()));
        }
        let op = match name {
            "add" => FloatOp::Add,
            "sub" => FloatOp::Sub,
            "mul" => FloatOp::Mul,
            "fma" | "mad" => FloatOp::Fma,
            "div" if full => FloatOp::DivFull,
            "div" => FloatOp::Div,
            "rcp" => FloatOp::Rcp,
            "sqrt" => FloatOp::Sqrt,
            "rsqrt" => FloatOp::Rsqrt,
            "ex2" => FloatOp::Ex2,
            "lg2" => FloatOp::Lg2,
            "sin" => FloatOp::Sin,
            "cos" => FloatOp::Cos,
            "tanh" => FloatOp::Tanh,
            "min" if three => FloatOp::Min3,
            "max" if three => FloatOp::Max3,
            "min" => FloatOp::Min,
            "max" => FloatOp::Max,
            "abs" => FloatOp::Abs,
            "neg" => FloatOp::Neg,
            "copysign" => FloatOp::CopySign,
            _ => return unsupported(format!("{name} of .{}", register.name())),
        };
        mode.immediate = u32::from(absolute && three);
        let Some(f) = float_op(op, ty) else { return unsupported(format!("{name} of .{}", register.name())) };
        let d = self.dst(operand(ops, 0)?, register)?;
        let mut rows = [UNUSED; 3];
        if ops.len() > 4 {
            return invalid(format!("{name} has too many operands"));
        }
        for (row, source) in rows.iter_mut().zip(&ops[1..]) {
            *row = self.src(source, register)?;
        }
        let [a, b, c] = rows;
        let sources = ops.len() - 1;
        let expected = match op {
            FloatOp::Fma | FloatOp::Min3 | FloatOp::Max3 => 3,
            FloatOp::Add
            | FloatOp::Sub
            | FloatOp::Mul
            | FloatOp::Div
            | FloatOp::DivFull
            | FloatOp::Min
            | FloatOp::Max
            | FloatOp::CopySign => 2,
            _ => 1,
        };
        if sources != expected {
            return invalid(format!("{name} takes {expected} sources, not {sources}"));
        }
        // What is left of the mode decides whether an instruction has an arm of its own.
        let ftz = mode.ftz;
        let simple = Mode { ftz: false, ..mode } == Mode::default();
        let plain = simple && !ftz;
        let half = match op {
            FloatOp::Add => Some(HalfOp::Add),
            FloatOp::Sub => Some(HalfOp::Sub),
            FloatOp::Mul => Some(HalfOp::Mul),
            FloatOp::Fma => Some(HalfOp::Fma),
            _ => None,
        };
        let format = match ty {
            FloatType::F16 => Some((false, false)),
            FloatType::F16x2 => Some((false, true)),
            FloatType::Bf16 => Some((true, false)),
            FloatType::Bf16x2 => Some((true, true)),
            _ => None,
        };
        if plain && let (Some(op), Some((bfloat, packed))) = (half, format) {
            self.emit(Op::HalfMath { op, d, a, b, c, bfloat, packed });
            return Ok(());
        }
        self.emit(match (op, ty) {
            (FloatOp::Add, FloatType::F32) if simple => Op::AddF32 { d, a, b, ftz },
            (FloatOp::Sub, FloatType::F32) if simple => Op::SubF32 { d, a, b, ftz },
            (FloatOp::Mul, FloatType::F32) if simple => Op::MulF32 { d, a, b, ftz },
            (FloatOp::Fma, FloatType::F32) if simple => Op::FmaF32 { d, a, b, c, ftz },
            (FloatOp::Div, FloatType::F32) if plain => Op::DivF32 { d, a, b },
            (FloatOp::Sqrt, FloatType::F32) if plain => Op::SqrtF32 { d, a },
            (FloatOp::Min, FloatType::F32) if simple => Op::MinF32 { d, a, b, ftz },
            (FloatOp::Max, FloatType::F32) if simple => Op::MaxF32 { d, a, b, ftz },
            (FloatOp::Add, FloatType::F64) if plain => Op::AddF64 { d, a, b },
            (FloatOp::Sub, FloatType::F64) if plain => Op::SubF64 { d, a, b },
            (FloatOp::Mul, FloatType::F64) if plain => Op::MulF64 { d, a, b },
            (FloatOp::Fma, FloatType::F64) if plain => Op::FmaF64 { d, a, b, c },
            _ => map(f, mode, d, register, rows, [register; 3]),
        });
        Ok(())
    }

    /// `add.u16x2`, `min.s16x2` …
    fn packed(&mut self, name: &str, ty: IntType, mode: Mode, ops: &[Operand<'a>]) -> Lower<()> {
        let op = match name {
            "add" => IntOp::Add,
            "sub" => IntOp::Sub,
            "min" => IntOp::Min,
            "max" => IntOp::Max,
            "neg" => IntOp::Neg,
            _ => return unsupported(format!("{name} of pairs of halves")),
        };
        let Some(f) = int_op(op, ty) else { return unsupported(format!("{name} of pairs of halves")) };
        self.emit_map(f, mode, Scalar::B32, [Scalar::B32; 3], sources_of(op), ops)
    }

    fn carry(&mut self, name: &str, ty: Scalar, half: Option<Half>, cc: bool, ops: &[Operand<'a>]) -> Lower<()> {
        use crate::scalar::CarryOp;
        let op = match (name.trim_end_matches('c'), half) {
            ("add", None) => CarryOp::Add,
            ("sub", None) => CarryOp::Sub,
            ("mad", Some(Half::Lo)) => CarryOp::MadLo,
            ("mad", Some(Half::Hi)) => CarryOp::MadHi,
            _ => return unsupported(format!("{name} with a carry")),
        };
        let Some(f) = int_type(ty).and_then(|ty| carry_op(op, ty)) else {
            return unsupported(format!("{name} with a carry of .{}", ty.name()));
        };
        let d = self.dst(operand(ops, 0)?, ty)?;
        let a = self.src(operand(ops, 1)?, ty)?;
        let b = self.src(operand(ops, 2)?, ty)?;
        let c = if half.is_some() { self.src(operand(ops, 3)?, ty)? } else { UNUSED };
        self.emit(Op::Carry(Box::new(Carry {
            f,
            wide: ty.size() == 8,
            carry_in: name.ends_with('c'),
            carry_out: cc,
            d,
            a,
            b,
            c,
        })));
        Ok(())
    }

    fn integer(&mut self, name: &str, ty: Scalar, half: Option<Half>, mode: Mode, ops: &[Operand<'a>]) -> Lower<()> {
        let op = match (name, half) {
            ("add", None) => IntOp::Add,
            ("sub", None) => IntOp::Sub,
            ("mul", Some(Half::Lo)) => IntOp::MulLo,
            ("mul", Some(Half::Hi)) => IntOp::MulHi,
            ("mul", Some(Half::Wide)) => IntOp::MulWide,
            ("mad", Some(Half::Lo)) => IntOp::MadLo,
            ("mad", Some(Half::Hi)) => IntOp::MadHi,
            ("mad", Some(Half::Wide)) => IntOp::MadWide,
            ("mul24", Some(Half::Lo)) => IntOp::Mul24Lo,
            ("mul24", Some(Half::Hi)) => IntOp::Mul24Hi,
            ("mad24", Some(Half::Lo)) => IntOp::Mad24Lo,
            ("mad24", Some(Half::Hi)) => IntOp::Mad24Hi,
            ("div", None) => IntOp::Div,
            ("rem", None) => IntOp::Rem,
            ("abs", None) => IntOp::Abs,
            ("neg", None) => IntOp::Neg,
            ("min", None) => IntOp::Min,
            ("max", None) => IntOp::Max,
            ("sad", None) => IntOp::Sad,
            _ => return unsupported(format!("{name} of .{} in this form", ty.name())),
        };
        let Some(f) = int_type(ty).and_then(|ty| int_op(op, ty)) else {
            return unsupported(format!("{name} of .{}", ty.name()));
        };
        let wide = matches!(half, Some(Half::Wide));
        let result = if wide { doubled(ty) } else { ty };
        let third = if op == IntOp::Sad && ty.signed() { unsigned_of(ty.size()) } else { result };
        if mode != Mode::default() {
            return self.emit_map(f, mode, result, [ty, ty, third], sources_of(op), ops);
        }
        let (d, [a, b, c]) = self.rows(result, [ty, ty, third], sources_of(op), ops)?;
        let hot = match (op, ty) {
            (IntOp::Add, Scalar::U32 | Scalar::S32) => Op::Add32 { d, a, b },
            (IntOp::Sub, Scalar::U32 | Scalar::S32) => Op::Sub32 { d, a, b },
            (IntOp::MulLo, Scalar::U32 | Scalar::S32) => Op::Mul32 { d, a, b },
            (IntOp::MulHi, Scalar::U32) => Op::MulHiU32 { d, a, b },
            (IntOp::MulHi, Scalar::S32) => Op::MulHiS32 { d, a, b },
            (IntOp::MadLo, Scalar::U32 | Scalar::S32) => Op::Mad32 { d, a, b, c },
            (IntOp::Min, Scalar::U32) => Op::MinU32 { d, a, b },
            (IntOp::Min, Scalar::S32) => Op::MinS32 { d, a, b },
            (IntOp::Max, Scalar::U32) => Op::MaxU32 { d, a, b },
            (IntOp::Max, Scalar::S32) => Op::MaxS32 { d, a, b },
            (IntOp::Neg, Scalar::S32) => Op::Neg32 { d, a },
            (IntOp::MulWide, Scalar::U32) => Op::MulWideU32 { d, a, b },
            (IntOp::MulWide, Scalar::S32) => Op::MulWideS32 { d, a, b },
            (IntOp::MadWide, Scalar::U32) => Op::MadWideU32 { d, a, b, c },
            (IntOp::MadWide, Scalar::S32) => Op::MadWideS32 { d, a, b, c },
            (IntOp::Add, Scalar::U64 | Scalar::S64) => Op::Add64 { d, a, b },
            (IntOp::Sub, Scalar::U64 | Scalar::S64) => Op::Sub64 { d, a, b },
            (IntOp::MulLo, Scalar::U64 | Scalar::S64) => Op::Mul64 { d, a, b },
            (IntOp::MadLo, Scalar::U64 | Scalar::S64) => Op::Mad64 { d, a, b, c },
            _ => map(f, mode, d, result, [a, b, c], [ty, ty, third]),
        };
        self.emit(hot);
        Ok(())
    }

    /// Destination and sources of an instruction with one to three `sources`.
    fn rows(&mut self, result: Scalar, types: [Scalar; 3], sources: usize, ops: &[Operand<'a>]) -> Lower<(R, [R; 3])> {
        if ops.len() != sources + 1 {
            return invalid(format!("a destination and {sources} sources are expected, not {} operands", ops.len()));
        }
        let d = self.dst(&ops[0], result)?;
        let mut rows = [UNUSED; 3];
        for ((row, ty), source) in rows.iter_mut().zip(types).zip(&ops[1..]) {
            *row = self.src(source, ty)?;
        }
        Ok((d, rows))
    }

    fn emit_map(
        &mut self,
        f: LaneFn,
        mode: Mode,
        result: Scalar,
        types: [Scalar; 3],
        sources: usize,
        ops: &[Operand<'a>],
    ) -> Lower<()> {
        let (d, rows) = self.rows(result, types, sources, ops)?;
        self.emit(map(f, mode, d, result, rows, types));
        Ok(())
    }

    fn bitwise(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let mut mode = Mode::default();
        match name {
            "lop3" => {
                if m.0.iter().any(|name| bool_op(name).is_some()) {
                    return unsupported("lop3 with a predicate result");
                }
                let _ = m.ty()?;
                m.finish()?;
                let Some(Operand::Int(table)) = ops.get(4) else { return invalid("lop3 needs a table of 8 bits") };
                if ops.len() != 5 {
                    return invalid("lop3 takes three sources and a table");
                }
                let (d, [a, b, c]) = self.rows(Scalar::B32, [Scalar::B32; 3], 3, &ops[..4])?;
                self.emit(Op::Lop3 { d, a, b, c, table: *table as u8 });
                return Ok(());
            }
            "shf" => {
                let left = match m.one(|name| matches!(name, "l" | "r").then_some(name == "l")) {
                    Some(left) => left,
                    None => return unsupported("shf without a direction"),
                };
                mode.immediate = u32::from(m.flag("wrap"));
                m.flag("clamp");
                let _ = m.ty()?;
                m.finish()?;
                let Some(f) = int_op(if left { IntOp::ShfL } else { IntOp::ShfR }, IntType::B32) else {
                    return unsupported("shf");
                };
                return self.emit_map(f, mode, Scalar::B32, [Scalar::B32, Scalar::B32, Scalar::U32], 3, ops);
            }
            "dp4a" | "dp2a" => {
                let high = m.flag("hi");
                m.flag("lo");
                let a = m.ty()?;
                let b = m.ty()?;
                m.finish()?;
                let (a_signed, b_signed) = (a.signed(), b.signed());
                let op = if name == "dp4a" {
                    IntOp::Dp4a { a_signed, b_signed }
                } else {
                    IntOp::Dp2a { high, a_signed, b_signed }
                };
                let ty = if a_signed || b_signed { IntType::S32 } else { IntType::U32 };
                let Some(f) = int_op(op, ty) else { return unsupported(name) };
                return self.emit_map(f, mode, Scalar::B32, [Scalar::B32; 3], 3, ops);
            }
            // Of the video instructions, the ones that NVRTC emits, in the types that it emits.
            "vabsdiff2" | "vabsdiff4" => {
                let types = [m.ty()?, m.ty()?, m.ty()?];
                let sum = m.flag("add");
                m.finish()?;
                let op = IntOp::AbsDiffPacked { halves: name == "vabsdiff2", sum };
                match int_op(op, IntType::U32) {
                    Some(f) if types == [Scalar::U32; 3] => {
                        return self.emit_map(f, mode, Scalar::B32, [Scalar::B32; 3], 3, ops);
                    }
                    _ => return unsupported(format!("{name} of signed elements")),
                }
            }
            _ => {}
        }
        if name == "prmt" {
            mode.immediate = m
                .one(|name| {
                    Some(match name {
                        "f4e" => PrmtMode::Forward4,
                        "b4e" => PrmtMode::Backward4,
                        "rc8" => PrmtMode::Replicate8,
                        "ecl" => PrmtMode::EdgeLeft,
                        "ecr" => PrmtMode::EdgeRight,
                        "rc16" => PrmtMode::Replicate16,
                        _ => return None,
                    })
                })
                .unwrap_or_default() as u32;
        }
        if name == "bfind" {
            mode.immediate = u32::from(m.flag("shiftamt"));
        }
        if matches!(name, "bmsk" | "szext") {
            mode.immediate = u32::from(m.flag("wrap"));
            m.flag("clamp");
        }
        let ty = m.ty()?;
        m.finish()?;
        if ty == Scalar::Pred {
            return self.predicate_logic(name, ops);
        }
        let word = Scalar::B32;
        let (op, result, types) = match name {
            "and" => (IntOp::And, ty, [ty; 3]),
            "or" => (IntOp::Or, ty, [ty; 3]),
            "xor" => (IntOp::Xor, ty, [ty; 3]),
            "not" => (IntOp::Not, ty, [ty; 3]),
            "cnot" => (IntOp::Cnot, ty, [ty; 3]),
            "shl" => (IntOp::Shl, ty, [ty, word, word]),
            "shr" => (IntOp::Shr, ty, [ty, word, word]),
            "prmt" => (IntOp::Prmt, ty, [ty; 3]),
            "bfe" => (IntOp::Bfe, ty, [ty, word, word]),
            "bfind" => (IntOp::Bfind, word, [ty; 3]),
            "brev" => (IntOp::Brev, ty, [ty; 3]),
            "clz" => (IntOp::Clz, word, [ty; 3]),
            "popc" => (IntOp::Popc, word, [ty; 3]),
            "fns" => (IntOp::Fns, word, [word; 3]),
            "bmsk" => (IntOp::Bmsk, word, [word; 3]),
            "szext" => (IntOp::Szext, word, [word; 3]),
            "bfi" => {
                // four sources: position and length share the third
                let (Some(f), [d, a, b, at, length]) = (int_type(ty).and_then(|ty| int_op(IntOp::Bfi, ty)), ops) else {
                    return invalid("bfi takes four sources");
                };
                let field = self.temporary(true);
                let parts = vec![self.src(at, word)?, self.src(length, word)?];
                self.emit(Op::Pack(Box::new(Pack { d: field, d_wide: true, bits: 32, parts, part_wide: false })));
                let d = self.dst(d, ty)?;
                let rows = [self.src(a, ty)?, self.src(b, ty)?, field];
                self.emit(map(f, mode, d, ty, rows, [ty, ty, Scalar::B64]));
                return Ok(());
            }
            _ => return unsupported(name),
        };
        let Some(f) = int_type(ty).and_then(|ty| int_op(op, ty)) else {
            return unsupported(format!("{name} of .{}", ty.name()));
        };
        let (d, rows) = self.rows(result, types, sources_of(op), ops)?;
        let [a, b, _] = rows;
        let hot = match (op, ty.size(), ty.signed()) {
            (IntOp::And, 4, _) => Op::And32 { d, a, b },
            (IntOp::Or, 4, _) => Op::Or32 { d, a, b },
            (IntOp::Xor, 4, _) => Op::Xor32 { d, a, b },
            (IntOp::Not, 4, _) => Op::Not32 { d, a },
            (IntOp::Shl, 4, _) => Op::Shl32 { d, a, b },
            (IntOp::Shr, 4, false) => Op::ShrU32 { d, a, b },
            (IntOp::Shr, 4, true) => Op::ShrS32 { d, a, b },
            (IntOp::And, 8, _) => Op::And64 { d, a, b },
            (IntOp::Or, 8, _) => Op::Or64 { d, a, b },
            (IntOp::Xor, 8, _) => Op::Xor64 { d, a, b },
            (IntOp::Not, 8, _) => Op::Not64 { d, a },
            (IntOp::Shl, 8, _) => Op::Shl64 { d, a, b },
            (IntOp::Shr, 8, false) => Op::ShrU64 { d, a, b },
            (IntOp::Shr, 8, true) => Op::ShrS64 { d, a, b },
            _ => map(f, mode, d, result, rows, types),
        };
        self.emit(hot);
        Ok(())
    }

    fn predicate_logic(&mut self, name: &str, ops: &[Operand<'a>]) -> Lower<()> {
        let Some(d) = self.predicate_or_sink(operand(ops, 0)?)? else { return Ok(()) };
        let (a, not_a) = self.predicate(operand(ops, 1)?)?;
        if name == "not" {
            self.emit(Op::PredMov { d, a, negated: !not_a });
            return Ok(());
        }
        let Some(op) = bool_op(name) else { return unsupported(format!("{name} of predicates")) };
        let (b, not_b) = self.predicate(operand(ops, 2)?)?;
        self.emit(Op::PredLogic { op, d, a, b, not_a, not_b });
        Ok(())
    }

    // Conversions and moves

    fn cvt(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("pack") {
            return self.cvt_pack(m, ops);
        }
        let to_integral = m.0.iter().any(|name| matches!(*name, "rni" | "rzi" | "rmi" | "rpi"));
        let mut mode = Mode {
            rounding: m.rounding().unwrap_or_default(),
            to_integral,
            ftz: m.flag("ftz"),
            relu: m.flag("relu"),
            saturate: m.flag("sat"),
            ..Mode::default()
        };
        if m.flag("satfinite") {
            mode.saturate = true;
            mode.immediate |= SATFINITE;
        }
        let ty = |name: &str| {
            Some(match name {
                "u8" => (CvtType::U8, Scalar::U8),
                "s8" => (CvtType::S8, Scalar::S8),
                "u16" => (CvtType::U16, Scalar::U16),
                "s16" => (CvtType::S16, Scalar::S16),
                "u32" => (CvtType::U32, Scalar::U32),
                "s32" => (CvtType::S32, Scalar::S32),
                "u64" => (CvtType::U64, Scalar::U64),
                "s64" => (CvtType::S64, Scalar::S64),
                "f16" => (CvtType::F16, Scalar::F16),
                "bf16" => (CvtType::Bf16, Scalar::Bf16),
                "f32" => (CvtType::F32, Scalar::F32),
                "f64" => (CvtType::F64, Scalar::F64),
                "tf32" => (CvtType::Tf32, Scalar::B32),
                "f16x2" => (CvtType::F16x2, Scalar::F16x2),
                "bf16x2" => (CvtType::Bf16x2, Scalar::Bf16x2),
                "e4m3x2" => (CvtType::E4m3x2, Scalar::B16),
                "e5m2x2" => (CvtType::E5m2x2, Scalar::B16),
                _ => return None,
            })
        };
        let (Some(to), Some(from)) = (m.one(ty), m.one(ty)) else { return unsupported("a type of this conversion") };
        m.finish()?;
        let pair = ops.len() == 3;
        let [d, sources @ ..] = ops else { return invalid("cvt needs operands") };
        if sources.is_empty() || sources.len() > 2 {
            return invalid("cvt takes one source, or two for a pair");
        }
        // A register may be wider than the type: the result is extended to it.
        let (d, declared) = match d {
            Operand::Name("_") => (self.temporary(to.1.size() == 8), to.1),
            _ => self.any_register(d)?,
        };
        if declared.size() < to.1.size() {
            return invalid(format!("a .{} register cannot hold .{}", declared.name(), to.1.name()));
        }
        let (a, a_wide) = self.relaxed_src(&sources[0], from.1)?;
        if !pair && mode == Mode::default() {
            let hot = match (to.0, from.0, declared.size()) {
                (CvtType::U64 | CvtType::S64, CvtType::U32, 8) if !a_wide => Some(Op::Zext64 { d, a }),
                (CvtType::U64 | CvtType::S64, CvtType::S32, 8) if !a_wide => Some(Op::Sext64 { d, a }),
                (CvtType::U32 | CvtType::S32, CvtType::U64 | CvtType::S64, 4) => Some(Op::Trunc32 { d, a }),
                (CvtType::F32, CvtType::S32, 4) if !a_wide => Some(Op::S32ToF32 { d, a }),
                (CvtType::F32, CvtType::U32, 4) if !a_wide => Some(Op::U32ToF32 { d, a }),
                _ => None,
            };
            if let Some(op) = hot {
                self.emit(op);
                return Ok(());
            }
        }
        let towards_zero = Mode { rounding: Rounding::Zero, to_integral: true, ..Mode::default() };
        if (to.0, from.0, declared.size()) == (CvtType::S32, CvtType::F32, 4) && mode == towards_zero {
            self.emit(Op::F32ToS32 { d, a });
            return Ok(());
        }
        let Some(f) = convert(to.0, from.0) else {
            return unsupported(format!("cvt of .{} to .{}", from.1.name(), to.1.name()));
        };
        let mut rows = [a, UNUSED, UNUSED];
        let mut wide = [a_wide, false, false];
        if pair {
            (rows[1], wide[1]) = self.relaxed_src(&sources[1], from.1)?;
        }
        let bytes = from.1.size() as u8;
        self.emit(Op::Map(Box::new(Map {
            f,
            mode,
            sources: rows,
            source_bytes: [bytes; 3],
            source_wide: wide,
            d,
            d_wide: declared.size() == 8,
            sign_from: if to.1.signed() { to.1.size() as u8 * 8 } else { 0 },
        })));
        Ok(())
    }

    fn cvt_pack(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sat");
        let to = m.one(|name| {
            let bits = name.get(1..)?.parse::<u32>().ok().filter(|bits| matches!(bits, 2 | 4 | 8 | 16))?;
            matches!(name.as_bytes()[0], b'u' | b's').then(|| (bits, name.starts_with('s')))
        });
        let Some((bits, signed)) = to else { return unsupported("cvt.pack to this type") };
        if !m.flag("s32") {
            return unsupported("cvt.pack of another type than s32");
        }
        let sources = 2 + usize::from(m.flag("b32")); // the third one's lower part follows the packed two
        m.finish()?;
        let word = Scalar::B32;
        let mode = crate::scalar::pack_mode(bits, signed);
        self.emit_map(crate::scalar::pack_saturated, mode, word, [word; 3], sources, ops)
    }

    fn mov(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let vector = m.one(|name| match name {
            "v2" => Some(2),
            "v4" => Some(4),
            _ => None,
        });
        let ty = m.ty()?;
        m.finish()?;
        let [d, a] = ops else { return invalid("mov takes a destination and a source") };
        if ty == Scalar::Pred {
            let Some(d) = self.predicate_or_sink(d)? else { return Ok(()) };
            let op = match a {
                Operand::Int(value) => Op::PredSet { d, value: *value != 0 },
                _ => {
                    let (a, negated) = self.predicate(a)?;
                    Op::PredMov { d, a, negated }
                }
            };
            self.emit(op);
            return Ok(());
        }
        if let Some(count) = vector {
            return self.mov_vector(count, ty, d, a);
        }
        if ty == Scalar::B128 {
            return self.mov128(d, a);
        }
        match (d, a) {
            (Operand::Vector(parts), _) => self.unpack(ty, parts, a),
            (_, Operand::Vector(parts)) => {
                let bits = (ty.size() * 8 / parts.len().max(1) as u32) as u8;
                let part = unsigned_of(u32::from(bits) / 8);
                if usize::from(bits) * parts.len() != ty.size() as usize * 8 || bits < 8 {
                    return invalid(format!("{} parts do not make a .{}", parts.len(), ty.name()));
                }
                let rows = parts.iter().map(|part_operand| self.src(part_operand, part)).collect::<Lower<_>>()?;
                let d = self.dst(d, ty)?;
                let part_wide = bits == 64;
                self.emit(Op::Pack(Box::new(Pack { d, d_wide: ty.size() == 8, bits, parts: rows, part_wide })));
                Ok(())
            }
            _ => {
                let d = self.dst(d, ty)?;
                // A special register of 32 bits goes into a wider one zero-extended, and the other way truncated.
                if let Operand::Name(name) = a
                    && let Some(what) = special(name)
                {
                    self.emit(Op::Special { d, what, wide: ty.size() == 8 });
                    return Ok(());
                }
                let a = self.src(a, ty)?;
                self.emit(if ty.size() == 8 { Op::Mov64 { d, a } } else { Op::Mov32 { d, a } });
                Ok(())
            }
        }
    }

    /// A 128-bit register is two of 64 bits, the low one first.
    fn mov128(&mut self, d: &Operand<'a>, a: &Operand<'a>) -> Lower<()> {
        let from = self.halves(a, false)?;
        let to = self.halves(d, true)?;
        let held = from.map(|a| {
            let d = self.temporary(true);
            self.emit(Op::Mov64 { d, a });
            d
        });
        for (d, a) in to.into_iter().zip(held) {
            self.emit(Op::Mov64 { d, a });
        }
        Ok(())
    }

    fn halves(&mut self, operand: &Operand<'a>, write: bool) -> Lower<[R; 2]> {
        match operand {
            Operand::Vector(_) => match self.vector(operand, Scalar::B64, 2, write)?[..] {
                [low, high] => Ok([low, high]),
                _ => invalid("128 bits are two registers of 64"),
            },
            _ => {
                let (row, ty) = self.any_register(operand)?;
                self.same_size(ty, Scalar::B128)?;
                Ok([row, row + 2])
            }
        }
    }

    fn mov_vector(&mut self, count: u32, ty: Scalar, d: &Operand<'a>, a: &Operand<'a>) -> Lower<()> {
        let to = self.vector(d, ty, count as usize, true)?;
        let from = self.vector(a, ty, count as usize, false)?;
        // Sources are read before destinations are written, as when both name the same registers.
        let wide = ty.size() == 8;
        let copy = |d, a| if wide { Op::Mov64 { d, a } } else { Op::Mov32 { d, a } };
        let held: Vec<R> = from
            .iter()
            .map(|a| {
                let row = self.temporary(wide);
                self.emit(copy(row, *a));
                row
            })
            .collect();
        for (d, a) in to.into_iter().zip(held) {
            self.emit(copy(d, a));
        }
        Ok(())
    }

    /// The rows of `{a, b, …}` or of a vector register; a scalar where `count` is 1.
    fn vector(&mut self, operand: &Operand<'a>, ty: Scalar, count: usize, write: bool) -> Lower<Vec<R>> {
        let one = |lowering: &mut Self, item: &Operand<'a>| {
            if write { lowering.dst(item, ty) } else { lowering.src(item, ty) }
        };
        match operand {
            Operand::Vector(items) if items.len() == count => items.iter().map(|item| one(self, item)).collect(),
            Operand::Vector(items) => invalid(format!("{count} elements are expected, not {}", items.len())),
            Operand::Name(name) => match self.register_named(name)? {
                Some(Register::Vector { row, ty: declared, count: elements }) if elements as usize == count => {
                    self.same_size(declared, ty)?;
                    Ok((0..elements).map(|at| row + at * rows_of(declared)).collect())
                }
                _ if count == 1 => Ok(vec![one(self, operand)?]),
                _ => invalid(format!("`{name}` is not a vector of {count}")),
            },
            _ if count == 1 => Ok(vec![one(self, operand)?]),
            _ => invalid("a vector is expected"),
        }
    }

    /// `mov.b32 {lo, hi}, a`
    fn unpack(&mut self, ty: Scalar, parts: &[Operand<'a>], a: &Operand<'a>) -> Lower<()> {
        let bits = ty.size() * 8 / parts.len().max(1) as u32;
        if bits < 8 || bits as usize * parts.len() != ty.size() as usize * 8 {
            return invalid(format!("a .{} does not have {} parts", ty.name(), parts.len()));
        }
        let part = unsigned_of(bits / 8);
        let mut a = self.src(a, ty)?;
        let rows: Vec<Option<R>> = parts
            .iter()
            .map(|item| match item {
                Operand::Name("_") => Ok(None),
                _ => self.dst(item, part).map(Some),
            })
            .collect::<Lower<_>>()?;
        let wide = ty.size() == 8;
        if rows.contains(&Some(a)) {
            let held = self.temporary(wide);
            self.emit(if wide { Op::Mov64 { d: held, a } } else { Op::Mov32 { d: held, a } });
            a = held;
        }
        let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
        for (at, d) in rows.into_iter().enumerate() {
            let Some(d) = d else { continue };
            let shift = (at as u32 * bits) as u8;
            self.emit(if wide { Op::Unpack64 { d, a, shift, mask } } else { Op::Unpack32 { d, a, shift, mask } });
        }
        Ok(())
    }

    // Selection and comparison

    fn selp(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ty = m.ty()?;
        m.finish()?;
        let [d, a, b, p] = ops else { return invalid("selp takes two sources and a predicate") };
        let d = self.dst(d, ty)?;
        let (a, b) = (self.src(a, ty)?, self.src(b, ty)?);
        let (p, negated) = self.predicate(p)?;
        self.emit(if ty.size() == 8 { Op::Selp64 { d, a, b, p, negated } } else { Op::Selp32 { d, a, b, p, negated } });
        Ok(())
    }

    /// `slct`: `a` where `c ≥ 0`, otherwise `b`.
    fn slct(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ftz = m.flag("ftz");
        let ty = m.ty()?;
        let selector = m.ty()?;
        m.finish()?;
        let [d, a, b, c] = ops else { return invalid("slct takes three sources") };
        let d = self.dst(d, ty)?;
        let (a, b, c) = (self.src(a, ty)?, self.src(b, ty)?, self.src(c, selector)?);
        let Some(compare) = compare_type(selector).and_then(|ty| compare(Compare::Ge, ty)) else {
            return unsupported(format!("slct with a .{} selector", selector.name()));
        };
        self.predicates += 1;
        let p = self.predicates - 1;
        let zero = self.bits(0, false);
        let result = SetResult::Predicates { p: Some(p), q: None };
        let bytes = selector.size() as u8;
        self.emit(Op::SetpFull(Box::new(SetpFull { compare, ftz, a: c, b: zero, bytes, combine: None, result })));
        let negated = false;
        self.emit(if ty.size() == 8 { Op::Selp64 { d, a, b, p, negated } } else { Op::Selp32 { d, a, b, p, negated } });
        Ok(())
    }

    fn set(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let ftz = m.flag("ftz");
        let Some(cmp) = m.one(comparison) else { return unsupported("a comparison of this kind") };
        let combine = m.one(bool_op);
        let to = if name == "set" { Some(m.ty()?) } else { None };
        let ty = m.ty()?;
        m.finish()?;
        if ops.len() != 3 + usize::from(combine.is_some()) {
            return invalid(format!(
                "{name} takes two sources{}",
                if combine.is_some() { " and a predicate" } else { "" }
            ));
        }
        let Some(function) = compare_type(ty).and_then(|ty| compare(cmp, ty)) else {
            return unsupported(format!("{name} of .{}", ty.name()));
        };
        let (a, b) = (self.src(&ops[1], ty)?, self.src(&ops[2], ty)?);
        let combine = match combine {
            Some(op) => {
                let (p, negated) = self.predicate(&ops[3])?;
                Some((op, p, negated))
            }
            None => None,
        };
        let halves = matches!(ty, Scalar::F16x2 | Scalar::Bf16x2);
        let result = match to {
            Some(to) if halves => {
                let d = self.dst(&ops[0], Scalar::B32)?;
                match to {
                    Scalar::F16x2 => SetResult::RowPair { d, when_true: 0x3c00 },
                    Scalar::Bf16x2 => SetResult::RowPair { d, when_true: 0x3f80 },
                    _ => return unsupported(format!("set.{}.{}", to.name(), ty.name())),
                }
            }
            Some(to) => {
                let when_true = match to {
                    Scalar::F32 => 0x3f80_0000,
                    Scalar::F16 => 0x3c00,
                    Scalar::Bf16 => 0x3f80,
                    Scalar::U16 | Scalar::S16 => 0xffff,
                    Scalar::U32 | Scalar::S32 => u32::MAX,
                    _ => return unsupported(format!("set.{}.{}", to.name(), ty.name())),
                };
                SetResult::Row { d: self.dst(&ops[0], to)?, when_true }
            }
            None => {
                let (p, q) = match &ops[0] {
                    Operand::Pair(p, q) => (self.predicate_or_sink(p)?, self.predicate_or_sink(q)?),
                    p => (self.predicate_or_sink(p)?, None),
                };
                if halves { SetResult::PredicatePair { p, q } } else { SetResult::Predicates { p, q } }
            }
        };
        if let (SetResult::Predicates { p: Some(d), q: None }, None, false) = (&result, &combine, ftz) {
            use Compare as C;
            let cmp = match cmp {
                C::Eq => Some(Cmp::Eq),
                C::Ne => Some(Cmp::Ne),
                C::Lt | C::Lo => Some(Cmp::Lt),
                C::Le | C::Ls => Some(Cmp::Le),
                C::Gt | C::Hi => Some(Cmp::Gt),
                C::Ge | C::Hs => Some(Cmp::Ge),
                _ => None,
            };
            let ty = match ty {
                Scalar::U32 | Scalar::B32 => Some(CmpType::U32),
                Scalar::S32 => Some(CmpType::S32),
                Scalar::U64 | Scalar::B64 => Some(CmpType::U64),
                Scalar::S64 => Some(CmpType::S64),
                Scalar::F32 => Some(CmpType::F32),
                _ => None,
            };
            if let (Some(cmp), Some(ty)) = (cmp, ty) {
                // `.ne` of floats is ordered: NaN differs from nothing. Rust's `!=` is not.
                if !(ty == CmpType::F32 && cmp == Cmp::Ne) {
                    self.emit(Op::Setp { ty, cmp, d: *d, a, b });
                    return Ok(());
                }
            }
        }
        let bytes = ty.size() as u8;
        self.emit(Op::SetpFull(Box::new(SetpFull { compare: function, ftz, a, b, bytes, combine, result })));
        Ok(())
    }

    fn testp(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let property = m.one(|name| {
            Some(match name {
                "finite" => FloatProperty::Finite,
                "infinite" => FloatProperty::Infinite,
                "number" => FloatProperty::Number,
                "notanumber" => FloatProperty::NotANumber,
                "normal" => FloatProperty::Normal,
                "subnormal" => FloatProperty::Subnormal,
                _ => return None,
            })
        });
        let Some(property) = property else { return unsupported("a property of this kind") };
        let ty = m.ty()?;
        m.finish()?;
        let Some(f) = float_type(ty).and_then(|ty| float_op(FloatOp::Testp(property), ty)) else {
            return unsupported(format!("testp of .{}", ty.name()));
        };
        let [p, a] = ops else { return invalid("testp takes one source") };
        let Some(p) = self.predicate_or_sink(p)? else { return Ok(()) };
        let a = self.src(a, ty)?;
        let held = self.temporary(false);
        self.emit(map(f, Mode::default(), held, Scalar::B32, [a, UNUSED, UNUSED], [ty; 3]));
        self.emit(Op::RowToPred { d: p, a: held });
        Ok(())
    }

    // Memory

    fn order(&self, m: &mut Modifiers<'_>) -> Order {
        let named = m.one(|name| {
            Some(match name {
                "acquire" => Order::Acquire,
                "release" => Order::Release,
                "acq_rel" => Order::AcquireRelease,
                "relaxed" | "volatile" => Order::Relaxed,
                _ => return None,
            })
        });
        named.unwrap_or(Order::Weak)
    }

    fn access(
        &mut self,
        m: &mut Modifiers<'_>,
        address: &Operand<'a>,
        data: &Operand<'a>,
        load: bool,
    ) -> Lower<Access> {
        let order = self.order(m);
        let space = m.one(space_named).unwrap_or(MemSpace::Generic);
        ignore_hints(m);
        let count = m
            .one(|name| match name {
                "v2" => Some(2u8),
                "v4" => Some(4),
                "v8" => Some(8),
                _ => None,
            })
            .unwrap_or(1);
        let ty = m.ty()?;
        m.finish()?;
        if matches!(ty, Scalar::Pred) {
            return unsupported("memory of predicates");
        }
        if ty == Scalar::B128 {
            if count != 1 {
                return unsupported("vectors of 128-bit registers");
            }
            let address = self.address(address, space)?;
            let [low, high] = self.halves(data, load)?;
            let mut rows = [R::MAX; 8];
            rows[..2].copy_from_slice(&[low, high]);
            return Ok(Access { address, bytes: 8, count: 2, rows, wide: true, signed: false, narrow: false, order });
        }
        let address = self.address(address, space)?;
        let mut rows = [R::MAX; 8];
        let items: Vec<&Operand<'a>> = match data {
            Operand::Vector(items) => items.iter().collect(),
            item => vec![item],
        };
        let vector_register = match data {
            Operand::Name(name) if count > 1 => self.register_named(name)?,
            _ => None,
        };
        let mut wide = None;
        let mut narrow = false;
        if let Some(Register::Vector { row, ty: declared, count: elements }) = vector_register {
            if elements != u32::from(count) {
                return invalid("the vector register has another number of elements");
            }
            for at in 0..elements {
                rows[at as usize] = row + at * rows_of(declared);
            }
            wide = Some(declared.size() == 8);
            narrow = declared.size() == 2;
        } else {
            if items.len() != usize::from(count) {
                return invalid(format!("{count} elements are expected, not {}", items.len()));
            }
            for (row, item) in rows.iter_mut().zip(items) {
                if load && matches!(item, Operand::Name("_")) {
                    continue;
                }
                let (found, is_wide) = if load {
                    let (found, declared) = self.any_register(item)?;
                    if declared.size() < ty.size() {
                        return invalid(format!("a .{} register cannot hold .{}", declared.name(), ty.name()));
                    }
                    narrow = declared.size() == 2;
                    (found, declared.size() == 8)
                } else {
                    self.relaxed_src(item, ty)?
                };
                if wide.is_some_and(|wide| wide != is_wide) {
                    return invalid("the elements' registers differ in size");
                }
                wide = Some(is_wide);
                *row = found;
            }
        }
        Ok(Access {
            address,
            bytes: ty.size() as u8,
            count,
            rows,
            wide: wide.unwrap_or(ty.size() == 8),
            signed: ty.signed(),
            narrow,
            order,
        })
    }

    fn load(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        // a fourth operand is a cache policy
        let access = self.access(m, operand(ops, 1)?, operand(ops, 0)?, true)?;
        self.emit(Op::Load(Box::new(access)));
        Ok(())
    }

    fn store(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let access = self.access(m, operand(ops, 0)?, operand(ops, 1)?, false)?;
        self.emit(Op::Store(Box::new(access)));
        Ok(())
    }

    fn atomic(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let order = match self.order(m) {
            Order::Weak => Order::Relaxed,
            order => order,
        };
        m.flag("noftz");
        let space = m.one(space_named).unwrap_or(MemSpace::Generic);
        ignore_hints(m);
        let Some(op) = m.one(|name| {
            ["and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"].into_iter().find(|op| *op == name)
        }) else {
            return unsupported("an atomic operation of this kind");
        };
        let ty = m.ty()?;
        m.finish()?;
        let adds = op == "add";
        let float = |op| match float_type(ty).and_then(|ty| float_op(op, ty)) {
            Some(f) => Ok(AtomOp::Float(f)),
            None => unsupported(format!("atomics of .{}", ty.name())),
        };
        let op = match (op, ty) {
            ("add", ty) if ty.float() => float(FloatOp::Add)?,
            ("min", ty) if ty.float() => float(FloatOp::Min)?,
            ("max", ty) if ty.float() => float(FloatOp::Max)?,
            ("and", _) => AtomOp::And,
            ("or", _) => AtomOp::Or,
            ("xor", _) => AtomOp::Xor,
            ("cas", _) => AtomOp::Cas,
            ("exch", _) => AtomOp::Exch,
            ("add", _) => AtomOp::Add,
            ("inc", Scalar::U32) => AtomOp::Inc,
            ("dec", Scalar::U32) => AtomOp::Dec,
            ("min", ty) => {
                if ty.signed() {
                    AtomOp::MinS
                } else {
                    AtomOp::MinU
                }
            }
            ("max", ty) => {
                if ty.signed() {
                    AtomOp::MaxS
                } else {
                    AtomOp::MaxU
                }
            }
            (op, _) => return unsupported(format!("{op} of .{}", ty.name())),
        };
        if ty.size() == 1 || ty.size() == 16 && !matches!(op, AtomOp::Exch | AtomOp::Cas) {
            return unsupported(format!("atomics of .{}", ty.name()));
        }
        let returns = name == "atom";
        let result = match ops.first() {
            Some(Operand::Name("_")) => None,
            Some(d) if returns => Some(self.dst(d, ty)?),
            _ => None,
        };
        let sources = &ops[usize::from(returns).min(ops.len())..];
        let expected = if matches!(op, AtomOp::Cas) { 3 } else { 2 };
        if sources.len() < expected {
            return invalid(format!("{name} needs {} operands", expected + usize::from(returns)));
        }
        let address = self.address(&sources[0], space)?;
        let a = self.src(&sources[1], ty)?;
        let b = if matches!(op, AtomOp::Cas) { self.src(&sources[2], ty)? } else { UNUSED };
        self.emit(Op::Atomic(Box::new(Atomic {
            address,
            op,
            order,
            flushes: ty == Scalar::F32 && adds,
            mode: Mode::default(),
            bytes: ty.size() as u8,
            result,
            a,
            b,
        })));
        Ok(())
    }

    fn cvta(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let to = m.flag("to");
        let Some(space) = m.one(space_named) else { return unsupported("cvta of this state space") };
        let ty = m.ty()?;
        m.finish()?;
        let [d, a] = ops else { return invalid("cvta takes a destination and a source") };
        let d = self.dst(d, ty)?;
        let a = self.src(a, ty)?;
        let window = crate::memory::window(self.param_space(space));
        let delta = if to { window.wrapping_neg() } else { window };
        self.emit(Op::Cvta { d, a, wide: ty.size() == 8, delta });
        Ok(())
    }

    fn isspacep(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let constant = m.flag("const");
        let space = if constant { Some(MemSpace::Global) } else { m.one(space_named) };
        let Some(space) = space else { return unsupported("isspacep of this state space") };
        m.finish()?;
        let [p, a] = ops else { return invalid("isspacep takes a predicate and an address") };
        let Some(d) = self.predicate_or_sink(p)? else { return Ok(()) };
        let (a, wide) = match a {
            Operand::Name(_) => {
                let (row, ty) = self.any_register(a)?;
                (row, ty.size() == 8)
            }
            _ => (self.value(a, Scalar::B64)?, true),
        };
        self.emit(Op::IsSpace { d, a, wide, space, constant });
        Ok(())
    }

    fn cp_async(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if !m.flag("async") || m.0.first() == Some(&"bulk") || m.0.first() == Some(&"mbarrier") {
            return unsupported("this form of cp");
        }
        if m.flag("commit_group") {
            return self.plain(m, Op::CpAsyncCommit);
        }
        if m.flag("wait_all") {
            return self.plain(m, Op::CpAsyncWait { n: None });
        }
        if m.flag("wait_group") {
            let Some(Operand::Int(n)) = ops.first() else { return invalid("wait_group takes a number") };
            return self.plain(m, Op::CpAsyncWait { n: Some(*n as u32) });
        }
        ignore_hints(m);
        if m.one(space_named) != Some(MemSpace::Shared) || m.one(space_named) != Some(MemSpace::Global) {
            return unsupported("cp.async between other spaces than shared and global");
        }
        m.finish()?;
        let [dst, src, Operand::Int(bytes), rest @ ..] = ops else {
            return invalid("cp.async takes two addresses and a size");
        };
        if !matches!(bytes, 4 | 8 | 16) {
            return invalid("cp.async copies 4, 8 or 16 bytes");
        }
        let dst = self.address(dst, MemSpace::Shared)?;
        let src = self.address(src, MemSpace::Global)?;
        let mut src_bytes = None;
        let mut ignore = None;
        for operand in rest {
            match operand {
                Operand::Name(name) if matches!(self.register_named(name)?, Some(Register::Predicate(_))) => {
                    ignore = Some(self.predicate(operand)?);
                }
                Operand::Not(_) => ignore = Some(self.predicate(operand)?),
                // a 64-bit register is a cache policy
                Operand::Name(name) if matches!(self.register_named(name)?, Some(Register::Row { ty, .. }) if ty.size() == 8) =>
                    {}
                _ => src_bytes = Some(self.src(operand, Scalar::B32)?),
            }
        }
        self.emit(Op::CpAsync(Box::new(CpAsync { dst, src, bytes: *bytes as u8, src_bytes, ignore })));
        Ok(())
    }

    // Control

    fn bra(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["uni"]);
        m.finish()?;
        let [Operand::Name(name)] = ops else { return invalid("bra takes a label") };
        let target = self.label(name)?;
        self.emit(Op::Bra { target, join: cfg::NONE });
        Ok(())
    }

    fn brx(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["uni", "idx"]);
        m.finish()?;
        let [index, list] = ops else { return invalid("brx.idx takes an index and a list of labels") };
        let index = self.src(index, Scalar::U32)?;
        let names: Vec<&'a str> = match list {
            Operand::Name(name) => self.targets(name)?,
            _ => return invalid("brx.idx takes the name of a list of labels"),
        };
        let targets = names.into_iter().map(|name| self.label(name)).collect::<Lower<Vec<_>>>()?;
        if self.guard.predicate().is_some() {
            // `@p brx` becomes `@!p bra past; brx`, so that a block's last instruction decides alone.
            let past = self.new_label();
            let guard = self.guard;
            self.guard = Guard(guard.0 ^ 1);
            self.emit(Op::Bra { target: past, join: cfg::NONE });
            self.guard = Guard::default();
            self.emit(Op::BrxIdx(Box::new(BrxIdx { index, targets, join: cfg::NONE })));
            self.define_label(past);
            return Ok(());
        }
        self.emit(Op::BrxIdx(Box::new(BrxIdx { index, targets, join: cfg::NONE })));
        Ok(())
    }

    fn call(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["uni"]);
        m.finish()?;
        let (results, rest) = match ops {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let (callee, args) = match rest {
            [Operand::Name(name)] => (*name, &[][..]),
            [Operand::Name(name), Operand::List(args), ..] => (*name, args.as_slice()),
            [Operand::Name(name), Operand::Name(_)] => (*name, &[][..]), // an indirect call without arguments
            _ => return invalid("call takes a function"),
        };
        let callee = match self.lookup(callee) {
            Some(Symbol::Function(index)) => match builtin(callee) {
                Some(builtin) if !self.module.bodies.contains(callee) => builtin,
                _ => {
                    if !self.function.calls.contains(&index) {
                        self.function.calls.push(index);
                    }
                    Callee::Function(index)
                }
            },
            Some(Symbol::Register(Register::Row { row, ty })) if ty.size() == 8 => {
                self.function.calls_indirectly = true;
                Callee::Indirect(row)
            }
            _ => return invalid(format!("`{callee}` is not a function")),
        };
        let results = results.iter().map(|result| self.place_of(result, true)).collect::<Lower<_>>()?;
        let args = args.iter().map(|arg| self.place_of(arg, false)).collect::<Lower<_>>()?;
        let op = Op::Call(Box::new(Call { callee, args, results }));
        if self.guard.predicate().is_some() {
            let past = self.new_label();
            self.guard = Guard(self.guard.0 ^ 1);
            self.emit(Op::Bra { target: past, join: cfg::NONE });
            self.guard = Guard::default();
            self.emit(op);
            self.define_label(past);
        } else {
            self.emit(op);
        }
        Ok(())
    }

    /// Where an argument or result of a call lives in this frame.
    fn place_of(&mut self, operand: &Operand<'a>, write: bool) -> Lower<Place> {
        match operand {
            Operand::Name(name) => {
                if let Some(Symbol::Frame(offset, bytes)) = self.lookup(name) {
                    return Ok(Place::Memory((offset, bytes)));
                }
                match self.register_named(name)? {
                    Some(Register::Row { row, ty }) => Ok(Place::Row { row, wide: ty.size() == 8 }),
                    Some(Register::Predicate(predicate)) => Ok(Place::Predicate(predicate)),
                    _ => invalid(format!("`{name}` cannot be passed to a call")),
                }
            }
            _ if !write => Ok(Place::Row { row: self.value(operand, Scalar::B32)?, wide: false }),
            _ => invalid("a result of a call is a register or a parameter"),
        }
    }

    fn barrier(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("cta");
        let aligned = m.flag("aligned") || name == "bar";
        if m.flag("warp") {
            m.flag("sync");
            m.finish()?;
            let members = Some(self.src(operand(ops, 0)?, Scalar::B32)?);
            self.emit(Op::Together(Box::new(Together { members, op: TogetherOp::Sync })));
            return Ok(());
        }
        if m.flag("cluster") {
            m.ignore(&["acquire", "release", "relaxed"]);
            if m.flag("arrive") {
                return self.plain(m, Op::Nop); // the wait that follows counts
            }
            m.flag("wait");
            m.finish()?;
            let id = self.bits(crate::exec::CLUSTER_BARRIER.into(), false);
            let kind = BarrierKind::Sync;
            let barrier = Barrier { kind, id, aligned, cluster: true, count: None, source: None, d: None, p: None };
            self.emit(Op::Barrier(Box::new(barrier)));
            return Ok(());
        }
        let kind = if m.flag("sync") {
            BarrierKind::Sync
        } else if m.flag("arrive") {
            BarrierKind::Arrive
        } else if m.flag("red") {
            match m.one(|name| {
                Some(match name {
                    "and" => BarrierKind::RedAnd,
                    "or" => BarrierKind::RedOr,
                    "popc" => BarrierKind::RedPopc,
                    _ => return None,
                })
            }) {
                Some(kind) => kind,
                None => return unsupported("a reduction of this kind"),
            }
        } else {
            return unsupported(format!("{name} of this kind"));
        };
        m.ignore(&["pred", "u32"]);
        m.finish()?;
        let (id, source, d, p) = (UNUSED, None, None, None);
        let mut barrier = Barrier { kind, id, aligned, cluster: false, count: None, source, d, p };
        let mut rest = ops;
        if matches!(kind, BarrierKind::RedAnd | BarrierKind::RedOr | BarrierKind::RedPopc) {
            let [d, middle @ .., source] = ops else { return invalid("bar.red takes a destination and a predicate") };
            if kind == BarrierKind::RedPopc {
                barrier.d = Some(self.dst(d, Scalar::B32)?);
            } else {
                barrier.p = self.predicate_or_sink(d)?;
            }
            barrier.source = Some(self.predicate(source)?);
            rest = middle;
        }
        barrier.id = self.src(operand(rest, 0)?, Scalar::B32)?;
        if let Some(count) = rest.get(1) {
            barrier.count = Some(self.src(count, Scalar::B32)?);
        } else if kind == BarrierKind::Arrive {
            return invalid("bar.arrive needs a number of threads");
        }
        self.emit(Op::Barrier(Box::new(barrier)));
        Ok(())
    }

    // Lanes together

    fn together(&mut self, members: Option<R>, op: TogetherOp) -> Lower<()> {
        self.emit(Op::Together(Box::new(Together { members, op })));
        Ok(())
    }

    fn shfl(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let sync = m.flag("sync");
        let mode = m.one(|name| {
            Some(match name {
                "up" => ShflMode::Up,
                "down" => ShflMode::Down,
                "bfly" => ShflMode::Bfly,
                "idx" => ShflMode::Idx,
                _ => return None,
            })
        });
        let Some(mode) = mode else { return unsupported("shfl of this kind") };
        m.flag("b32");
        m.finish()?;
        if !sync {
            return unsupported("shfl without .sync, which PTX 6.0 replaced");
        }
        let [d, a, b, c, members] = ops else { return invalid("shfl.sync takes four sources") };
        let (d, valid) = match d {
            Operand::Pair(d, p) => (self.dst(d, Scalar::B32)?, self.predicate_or_sink(p)?),
            d => (self.dst(d, Scalar::B32)?, None),
        };
        let word = Scalar::B32;
        let (a, b, c) = (self.src(a, word)?, self.src(b, word)?, self.src(c, word)?);
        let members = self.src(members, word)?;
        self.together(Some(members), TogetherOp::Shfl { mode, d, valid, a, b, c })
    }

    fn vote(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let sync = m.flag("sync");
        let mode = m.one(|name| {
            Some(match name {
                "all" => VoteMode::All,
                "any" => VoteMode::Any,
                "uni" => VoteMode::Uni,
                "ballot" => VoteMode::Ballot,
                _ => return None,
            })
        });
        let Some(mode) = mode else { return unsupported("vote of this kind") };
        m.ignore(&["pred", "b32"]);
        m.finish()?;
        if !sync {
            return unsupported("vote without .sync, which PTX 6.0 replaced");
        }
        let [d, a, members] = ops else { return invalid("vote.sync takes a predicate and a mask") };
        let (a, negated) = self.predicate(a)?;
        let members = self.src(members, Scalar::B32)?;
        if mode == VoteMode::Ballot {
            let d = self.dst(d, Scalar::B32)?;
            return self.together(Some(members), TogetherOp::Vote { mode, d, a, negated });
        }
        let p = self.predicate_or_sink(d)?;
        let held = self.temporary(false);
        self.together(Some(members), TogetherOp::Vote { mode, d: held, a, negated })?;
        if let Some(p) = p {
            self.emit(Op::RowToPred { d: p, a: held });
        }
        Ok(())
    }

    fn match_(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sync");
        let all = m.flag("all");
        let any = m.flag("any");
        let ty = m.ty()?;
        m.finish()?;
        if all == any {
            return unsupported("match of this kind");
        }
        let [d, a, members] = ops else { return invalid("match.sync takes a value and a mask") };
        let wide = ty.size() == 8;
        let a = self.src(a, ty)?;
        let members = self.src(members, Scalar::B32)?;
        let op = match d {
            Operand::Pair(d, p) if all => {
                let d = self.dst(d, Scalar::B32)?;
                TogetherOp::MatchAll { d, all: self.predicate_or_sink(p)?, a, wide }
            }
            d if all => TogetherOp::MatchAll { d: self.dst(d, Scalar::B32)?, all: None, a, wide },
            d => TogetherOp::MatchAny { d: self.dst(d, Scalar::B32)?, a, wide },
        };
        self.together(Some(members), op)
    }

    fn redux(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sync");
        let Some(op) = m.one(|name| ["add", "min", "max", "and", "or", "xor"].into_iter().find(|op| *op == name))
        else {
            return unsupported("redux of this kind");
        };
        let ty = m.ty()?;
        m.finish()?;
        if ty.float() {
            return unsupported(format!("redux of .{}", ty.name()));
        }
        let op = match (op, ty.signed()) {
            ("add", _) => ReduxOp::Add,
            ("min", true) => ReduxOp::MinS,
            ("min", false) => ReduxOp::MinU,
            ("max", true) => ReduxOp::MaxS,
            ("max", false) => ReduxOp::MaxU,
            ("and", _) => ReduxOp::And,
            ("or", _) => ReduxOp::Or,
            _ => ReduxOp::Xor,
        };
        let [d, a, members] = ops else { return invalid("redux.sync takes a value and a mask") };
        let d = self.dst(d, ty)?;
        let a = self.src(a, ty)?;
        let members = self.src(members, Scalar::B32)?;
        self.together(Some(members), TogetherOp::Redux { op, d, a })
    }

    fn elect(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("sync");
        m.finish()?;
        let [Operand::Pair(d, p), members] = ops else { return invalid("elect.sync takes d|p and a mask") };
        let d = match d.as_ref() {
            Operand::Name("_") => None,
            d => Some(self.dst(d, Scalar::B32)?),
        };
        let Some(elected) = self.predicate_or_sink(p)? else { return invalid("elect.sync needs its predicate") };
        let members = self.src(members, Scalar::B32)?;
        self.together(Some(members), TogetherOp::Elect { d, elected })
    }

    /// The registers of a fragment, and whether they are 64-bit ones.
    fn fragment(&mut self, operand: &Operand<'a>, count: usize, write: bool) -> Lower<(Vec<R>, bool)> {
        let items: &[Operand<'a>] = match operand {
            Operand::Vector(items) => items,
            item => std::slice::from_ref(item),
        };
        if items.len() != count {
            return invalid(format!("this fragment has {count} registers, not {}", items.len()));
        }
        let mut wide = false;
        let mut rows = Vec::with_capacity(count);
        for item in items {
            if !matches!(item, Operand::Name(_)) && !write {
                rows.push(self.value(item, Scalar::B32)?);
                continue;
            }
            let (row, ty) = self.any_register(item)?;
            wide = ty.size() == 8;
            rows.push(row);
        }
        Ok((rows, wide))
    }

    fn mma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let mma = Mma::parse_mma(&m.0).map_err(Stop::Unsupported)?;
        self.mma_with(mma, ops)
    }

    fn mma_with(&mut self, mma: Mma, ops: &[Operand<'a>]) -> Lower<()> {
        let [d, a, b, c] = ops else { return invalid("mma takes three fragments") };
        let [nd, na, nb, nc] = mma.registers();
        let (a, wide_a) = self.fragment(a, na, false)?;
        let (b, wide_b) = self.fragment(b, nb, false)?;
        let (c, wide_c) = self.fragment(c, nc, false)?;
        let (d, wide_d) = self.fragment(d, nd, true)?;
        let wide = [wide_d, wide_a, wide_b, wide_c];
        self.together(None, TogetherOp::Mma(Box::new(MmaOp { mma, wide, d, a, b, c })))
    }

    fn wmma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("mma") {
            let mma = Mma::parse_wmma(&m.0).map_err(Stop::Unsupported)?;
            return self.mma_with(mma, ops);
        }
        let load = m.0.first() == Some(&"load");
        let space = m.one(space_named).unwrap_or(MemSpace::Generic);
        let access = WmmaAccess::parse(&m.0).map_err(Stop::Unsupported)?;
        let (registers, address, stride) = match ops {
            [registers, address, rest @ ..] if load => (registers, address, rest.first()),
            [address, registers, rest @ ..] => (registers, address, rest.first()),
            _ => return invalid("wmma.load and wmma.store take a fragment and an address"),
        };
        let (rows, wide) = self.fragment(registers, access.registers(), load)?;
        let address = self.address(address, space)?;
        let stride = match stride {
            Some(stride) => Some(self.src(stride, Scalar::B32)?),
            None => None,
        };
        let memory = Box::new(WmmaMemory { access, address, wide, rows, stride });
        self.together(None, if load { TogetherOp::WmmaLoad(memory) } else { TogetherOp::WmmaStore(memory) })
    }

    fn ldmatrix(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["sync", "aligned", "m8n8", "b16"]);
        let transposed = m.flag("trans");
        let count = m.one(|name| {
            Some(match name {
                "x1" => 1,
                "x2" => 2,
                "x4" => 4,
                _ => return None,
            })
        });
        let space = m.one(space_named).unwrap_or(MemSpace::Generic);
        m.finish()?;
        let Some(count) = count else { return unsupported(format!("{name} without .x1, .x2 or .x4")) };
        let load = name == "ldmatrix";
        let (registers, address) = match ops {
            [registers, address] if load => (registers, address),
            [address, registers] => (registers, address),
            _ => return invalid(format!("{name} takes registers and an address")),
        };
        let (rows, _) = self.fragment(registers, count, load)?;
        let address = self.address(address, space)?;
        let moves = Box::new(MatrixMove { address, rows, transposed });
        self.together(None, if load { TogetherOp::LdMatrix(moves) } else { TogetherOp::StMatrix(moves) })
    }
}

#[derive(Clone, Copy)]
enum Half {
    Lo,
    Hi,
    Wide,
}

enum ArithmeticType {
    Scalar(Scalar),
    U16x2,
    S16x2,
    F32x2,
}

fn operand<'o, 'a>(ops: &'o [Operand<'a>], at: usize) -> Lower<&'o Operand<'a>> {
    ops.get(at).map_or_else(|| invalid("an operand is missing"), Ok)
}

/// An operation without an arm of its own.
fn map(f: LaneFn, mode: Mode, d: R, result: Scalar, sources: [R; 3], types: [Scalar; 3]) -> Op {
    Op::Map(Box::new(Map {
        f,
        mode,
        sources,
        source_bytes: types.map(|ty| ty.size() as u8),
        source_wide: types.map(|ty| ty.size() == 8),
        d,
        d_wide: result.size() == 8,
        sign_from: 0,
    }))
}
