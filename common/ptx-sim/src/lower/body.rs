//! The statements of a function, one after another, and decisions that need all of them: targets of branches, and places
//! where lanes reconverge.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::cfg;
use super::function::{FunctionLowering, Scope};
use super::module::{Module, align_of, align_up, variable_bytes};
use super::symbols::{Lower, Stop, Symbol};
use crate::ast::{self, Loc, Statement};
use crate::error::SyntaxError;
use crate::ir::*;
use crate::span::Span;

impl<'m, 'a> FunctionLowering<'m, 'a> {
    pub(super) fn run(
        module: &'m mut Module<'a>,
        index: u32,
        function: &'a ast::Function<'a>,
    ) -> Result<(), SyntaxError> {
        let mut lowering = FunctionLowering {
            module,
            kernel: function.kernel,
            target: function.target,
            index,
            scopes: vec![Scope::default()],
            code: Vec::new(),
            places: Vec::new(),
            place: CodePlace::default(),
            calls: HashMap::new(),
            calls_at: HashMap::new(),
            labels: vec![u32::MAX],
            families: 0,
            lists: Vec::new(),
            called: HashSet::new(),
            end: 0,
            rows: 0,
            predicates: 0,
            constants: HashMap::new(),
            constant_list: Vec::new(),
            local_bytes: 0,
            stack: None,
            guard: Guard::default(),
            used: u32::MAX,
            function: Function { name: function.name.to_owned(), kernel: function.kernel, ..Function::default() },
        };
        if function.kernel {
            let mut offset = 0;
            for param in &function.params {
                offset = align_up(offset, align_of(param));
                lowering.name(param, Symbol::KernelParam(offset as u32))?;
                offset += variable_bytes(param)?;
                if offset > 32764 {
                    return Err(SyntaxError::new(param.span, "a kernel takes at most 32,764 bytes of parameters"));
                }
            }
        } else {
            for param in &function.params {
                let place = lowering.declare_formal(param)?;
                lowering.function.params.extend(place);
            }
            for result in &function.returns {
                let place = lowering.declare_formal(result)?;
                lowering.function.returns.extend(place);
            }
        }
        if let Some(body) = &function.body {
            lowering.function.defined = true;
            lowering.statements(body)?;
            lowering.define_label(0);
            lowering.emit(if function.kernel { Op::Exit } else { Op::Ret });
            lowering.finish()?;
        } else {
            lowering.module.program.functions[index as usize] = lowering.function;
        }
        Ok(())
    }
    fn statements(&mut self, body: &'a [Statement<'a>]) -> Result<(), SyntaxError> {
        for statement in body {
            match statement {
                Statement::Label(name, span) => {
                    let label = self.new_label();
                    if self.scope().labels.insert(name, label).is_some() {
                        return Err(SyntaxError::new(*span, format!("the label `{name}` is defined twice")));
                    }
                }
                Statement::Targets(name, targets) => {
                    self.scope().targets.insert(name, targets.clone());
                }
                _ => {}
            }
        }
        for statement in body {
            self.module.allowance.check()?;
            match statement {
                Statement::Label(name, _) => {
                    let label = self.scope().labels[name];
                    self.define_label(label);
                }
                Statement::Instruction(instruction) => {
                    self.instruction(instruction)?;
                    self.used = u32::MAX;
                }
                Statement::UsedBytes(mask) => self.used = *mask,
                Statement::Variable(variable) => self.declare(variable)?,
                Statement::Block(inner) => {
                    self.scopes.push(Scope::default());
                    self.statements(inner)?;
                    self.scopes.pop();
                }
                // line 0 is the compiler's own code: it stays with the line before it
                Statement::Loc(loc, calls) if loc.line != 0 => {
                    self.place.call = self.call_of(loc, calls);
                    self.place.loc = Some(*loc);
                }
                Statement::Prototype(name, [returns, params]) => {
                    self.scope().prototypes.insert(name, [returns, params]);
                }
                Statement::Loc(..) | Statement::Targets(..) => {}
                Statement::Refused(span, reason) => {
                    let item = self.module.unsupported(*span, reason.clone());
                    self.function.unsupported.push(item);
                }
            }
        }
        Ok(())
    }

    /// The call for which the instructions at `loc` were inlined. `inlined_at` is the location of an earlier `.loc` (PTX ISA,
    /// ".loc"), which may be in an inlined function too.
    fn call_of(&mut self, loc: &Loc, calls: &[(&'a str, u32, u32)]) -> u32 {
        let mut call = 0;
        for (path, line, column) in calls.iter().rev() {
            let at = (self.module.file_named(path), *line, *column);
            call = self.inlined(InlinedCall { at, within: call });
        }
        if let Some(at) = loc.inlined_at {
            call = self.inlined(InlinedCall { at, within: self.calls_at.get(&at).copied().unwrap_or(0) });
        }
        self.calls_at.insert((loc.file, loc.line, loc.column), call);
        call
    }

    /// Number of a call, counted like [`CodePlace::call`].
    fn inlined(&mut self, call: InlinedCall) -> u32 {
        let module = &mut *self.module;
        *self.calls.entry(call).or_insert_with(|| {
            module.allowance.charge(2 * size_of::<(InlinedCall, u32)>());
            module.program.inlined.push(call);
            module.program.inlined.len() as u32
        })
    }

    fn instruction(&mut self, instruction: &ast::Instruction<'a>) -> Result<(), SyntaxError> {
        self.place.ptx_line = self.module.lines.line(instruction.span);
        self.place.ptx_at = instruction.span.start;
        let lowered = self.guard_of(instruction).and_then(|guard| {
            self.guard = guard;
            self.opcode(instruction)
        });
        match lowered {
            Ok(()) => Ok(()),
            Err(Stop::Invalid(message)) => Err(SyntaxError::new(instruction.span, message)),
            Err(Stop::Unsupported(reason)) => {
                let item = self.module.unsupported(instruction.span, reason);
                self.function.unsupported.push(item);
                self.emit(Op::Unsupported);
                Ok(())
            }
        }
    }

    fn guard_of(&mut self, instruction: &ast::Instruction<'a>) -> Lower<Guard> {
        match instruction.guard {
            None => Ok(Guard::default()),
            Some((name, negated)) => Ok(Guard::new(self.predicate_named(name)?, negated)),
        }
    }

    /// Resolves labels, puts a [`Op::Join`] where lanes reconverge, and moves the code into the module's.
    fn finish(mut self) -> Result<(), SyntaxError> {
        if self.rows as usize > MAX_ROWS {
            let message =
                format!("`{}` has {} registers, where {MAX_ROWS} are possible", self.function.name, self.rows);
            return Err(SyntaxError::new(Span::default(), message));
        }
        for inst in &mut self.code {
            if let Op::Bra { target, .. } = &mut inst.op {
                *target = self.labels[*target as usize];
            }
        }
        for label in self.lists.iter_mut().flatten() {
            *label = self.labels[*label as usize];
        }
        let points = cfg::meeting_points(&self.code, &self.lists, &mut self.module.allowance);
        self.module.allowance.check()?;
        let mut joins: Vec<u32> = points.iter().map(|(_, meet)| *meet).filter(|meet| *meet != cfg::NONE).collect();
        joins.sort_unstable();
        joins.dedup();
        for (branch, meet) in points {
            match &mut self.code[branch].op {
                Op::Bra { join, .. } => *join = meet,
                Op::BrxIdx(brx) => brx.join = meet,
                _ => {}
            }
        }
        // A target that is a meeting point moves to its `Join`, which goes in front of the instruction.
        let base = self.module.program.code.len() as u32;
        let moved = |at: u32| match at {
            cfg::NONE => cfg::NONE,
            _ => base + at + joins.partition_point(|join| *join < at) as u32,
        };
        let lists: Vec<Arc<[u32]>> =
            self.lists.iter().map(|list| list.iter().map(|target| moved(*target)).collect()).collect();
        let mut next_join = joins.iter().peekable();
        let program = &mut self.module.program;
        for (at, (mut inst, place)) in self.code.into_iter().zip(self.places).enumerate() {
            if next_join.next_if(|join| **join == at as u32).is_some() {
                program.code.push(Inst { op: Op::Join, guard: Guard::default() });
                program.places.push(place);
            }
            match &mut inst.op {
                Op::Bra { target, join } => {
                    *target = moved(*target);
                    *join = moved(*join);
                }
                Op::BrxIdx(brx) => {
                    brx.targets = Arc::clone(&lists[brx.list as usize]);
                    brx.join = moved(brx.join);
                }
                _ => {}
            }
            program.pairs |= inst.op.is_for_pairs();
            program.code.push(inst);
            program.places.push(place);
        }
        self.function.start = base;
        self.function.end = program.code.len() as u32;
        self.function.rows = self.rows;
        self.function.predicates = self.predicates;
        self.function.constants = self.constant_list;
        self.function.stack = self.stack;
        self.function.local_bytes = align_up(self.local_bytes, 16) as u32;
        program.functions[self.index as usize] = self.function;
        Ok(())
    }
}
