//! Branches, calls, the end of threads, and barriers of the block.

use super::emit::{UNUSED, operand};
use super::modifiers::Modifiers;
use crate::ast::{Operand, Variable};
use crate::ir::*;
use crate::lower::cfg;
use crate::lower::function::{Formals, FunctionLowering};
use crate::lower::module::variable_bytes;
use crate::lower::symbols::{Lower, Register, Symbol, invalid, unsupported};
use crate::memory::plural;
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    /// `ret`, `exit`, `trap`
    pub(super) fn end(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if !ops.is_empty() {
            return invalid(format!("{name} takes no operands"));
        }
        let target = self.end;
        let op = match name {
            "trap" => Op::Trap,
            "exit" => Op::Exit,
            _ => {
                m.ignore(&["uni"]);
                if self.kernel { Op::Exit } else { Op::Bra { target, join: cfg::NONE } }
            }
        };
        self.plain(m, op)
    }

    pub(super) fn setmaxnreg(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let increases = m.flag("inc");
        m.ignore(&["dec", "sync", "aligned", "u32"]);
        let count = match ops.first() {
            Some(Operand::Int(count @ 24..=256)) if count % 8 == 0 => *count as u32,
            _ => return invalid("setmaxnreg takes a multiple of 8 from 24 to 256"),
        };
        self.plain(m, Op::SetRegisters { count, increases })
    }

    pub(super) fn bra(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["uni"]);
        m.finish()?;
        let [Operand::Name(name)] = ops else { return invalid("bra takes a label") };
        let target = self.label(name)?;
        self.emit(Op::Bra { target, join: cfg::NONE });
        Ok(())
    }

    pub(super) fn brx(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["uni", "idx"]);
        m.finish()?;
        let [index, list] = ops else { return invalid("brx.idx takes an index and a list of labels") };
        let index = self.src(index, Scalar::U32)?;
        let list = match list {
            Operand::Name(name) => self.targets(name)?,
            _ => return invalid("brx.idx takes the name of a list of labels"),
        };
        let op = Op::BrxIdx(Box::new(BrxIdx { index, list, targets: [].into(), join: cfg::NONE }));
        if self.guard.predicate().is_some() {
            // `@p brx` becomes `@!p bra past; brx`, so that a block's last instruction decides alone.
            let past = self.new_label();
            let guard = self.guard;
            self.guard = Guard(guard.0 ^ 1);
            self.emit(Op::Bra { target: past, join: cfg::NONE });
            self.guard = Guard::default();
            self.emit(op);
            self.define_label(past);
            return Ok(());
        }
        self.emit(op);
        Ok(())
    }

    pub(super) fn call(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
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
        let (callee, formals) = match self.lookup(callee) {
            Some(Symbol::Function(index)) => {
                let formals = self.module.formals.get(&(self.module.unit, index)).copied();
                match builtin(callee) {
                    Some(builtin) if !self.module.bodies.contains(callee) => (builtin, formals),
                    _ => {
                        if self.called.insert(index) {
                            self.function.calls.push(index);
                        }
                        (Callee::Function(index), formals)
                    }
                }
            }
            Some(Symbol::Register(Register::Row { row, ty })) if ty.size() == 8 => {
                self.function.calls_indirectly = true;
                (Callee::Indirect(row), rest.last().and_then(|prototype| self.prototype(prototype)))
            }
            _ => return invalid(format!("`{callee}` is not a function")),
        };
        let [returns, params] = formals.map_or([None; 2], |formals| formals.map(Some));
        let results = self.places_of(results, returns, true)?;
        let args = self.places_of(args, params, false)?;
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

    /// The prototype of that name.
    fn prototype(&self, name: &Operand<'a>) -> Option<Formals<'a>> {
        let Operand::Name(name) = name else { return None };
        self.scopes.iter().rev().find_map(|scope| scope.prototypes.get(name).copied())
    }

    /// Places of a call's arguments or results in this frame; a vector's elements have one place each. `formals`: what the
    /// function, or the prototype of the call, declares.
    fn places_of(
        &mut self,
        operands: &[Operand<'a>],
        formals: Option<&[Variable<'a>]>,
        write: bool,
    ) -> Lower<Vec<Place>> {
        let what = if write { "result" } else { "argument" };
        // The last one of a variadic function is an array without a size, and may be left out.
        let is_open = |formal: &Variable<'_>| formal.dims.first() == Some(&None);
        if let Some(formals) = formals
            && formals.len() != operands.len()
            && !formals.last().is_some_and(is_open)
        {
            let (given, declared) = (operands.len(), formals.len());
            return invalid(format!("the number of {what}s of the call is {given}, where {declared} are declared"));
        }
        let mut places = Vec::with_capacity(operands.len());
        for (at, operand) in operands.iter().enumerate() {
            let formal = formals.and_then(|formals| formals.get(at));
            let before = places.len();
            match self.vector_register(operand)? {
                Some((rows, ty)) => {
                    let wide = rows_of(ty) == 2;
                    places.extend(rows.into_iter().map(|row| Place::Row { row, wide }));
                }
                None => places.push(self.place_of(operand, formal.map_or(Scalar::B32, |formal| formal.ty), write)?),
            }
            let Some(declared) = formal.and_then(|formal| variable_bytes(formal).ok()) else { continue };
            let given = places[before..].iter().map(|place| u64::from(place.bytes())).sum();
            // Registers and constants of fewer bytes are in rows of 4.
            let in_memory = matches!(places[before..], [Place::Memory(_)]);
            let fits = given == declared || !in_memory && given == declared.next_multiple_of(4);
            if !fits && !formal.is_some_and(is_open) && !matches!(operand, Operand::Name("_")) {
                let (given, declared) = (plural(given), plural(declared));
                return invalid(format!("{what} {} of the call has {given}, where {declared} are declared", at + 1));
            }
        }
        Ok(places)
    }

    /// Place of a call's argument or result in this frame; `ty`: of a constant.
    fn place_of(&mut self, operand: &Operand<'a>, ty: Scalar, write: bool) -> Lower<Place> {
        match operand {
            // A result that nobody wants: no bytes of it.
            Operand::Name("_") if write => Ok(Place::Memory((0, 0))),
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
            _ if !write => Ok(Place::Row { row: self.value(operand, ty)?, wide: rows_of(ty) == 2 }),
            _ => invalid("a result of a call is a register or a parameter"),
        }
    }

    pub(super) fn barrier(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.flag("cta");
        let aligned = m.flag("aligned") || name == "bar";
        if m.flag("warp") {
            m.flag("sync");
            m.finish()?;
            let members = Some(self.src(operand(ops, 0)?, Scalar::B32)?);
            return self.together(members, TogetherOp::Sync);
        }
        if m.flag("cluster") {
            let releases = !m.flag("relaxed");
            m.ignore(&["acquire", "release"]);
            if m.flag("arrive") {
                return self.plain(m, Op::ClusterArrive { releases });
            }
            m.flag("wait");
            return self.plain(m, Op::ClusterWait);
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
        let mut barrier = Barrier { kind, id, aligned, count: None, source, d, p };
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
        if let Some(Operand::Int(16..)) = rest.first() {
            return invalid("a block has barriers 0 to 15");
        }
        if let Some(Operand::Int(count)) = rest.get(1)
            && count % 32 != 0
        {
            return invalid("a barrier waits for whole warps: a number of threads is a multiple of 32");
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
}

/// The functions that a CUDA compiler declares and the device provides.
pub(super) fn builtin(name: &str) -> Option<Callee> {
    Some(match name {
        "vprintf" => Callee::Vprintf,
        "__assertfail" => Callee::AssertFail,
        // `new` of a type that is aligned to more than 16 bytes takes the second
        "malloc" | "__cuda_syscall_aligned_malloc" => Callee::Malloc,
        "free" => Callee::Free,
        _ => return None,
    })
}
