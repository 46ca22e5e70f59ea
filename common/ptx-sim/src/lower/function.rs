//! A function while it is lowered: its names and registers, the code so far, and its labels.

use std::collections::{HashMap, HashSet};

use super::module::{Module, align_of, align_up, variable_bytes};
use super::symbols::{Lower, Register, Symbol, invalid};
use crate::ast::{Space, Target, Variable};
use crate::error::SyntaxError;
use crate::ir::*;
use crate::scalar::Scalar;

/// Declared results and parameters of a function, in this order.
pub(super) type Formals<'a> = [&'a [Variable<'a>]; 2];

/// Names of one `{}`: registers and variables, and labels.
#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) names: HashMap<&'a str, Symbol>,
    pub(super) labels: HashMap<&'a str, u32>,
    /// `.branchtargets` and `.calltargets`
    pub(super) targets: HashMap<&'a str, Vec<&'a str>>,
    /// `.callprototype`
    pub(super) prototypes: HashMap<&'a str, Formals<'a>>,
    /// Index in [`FunctionLowering::lists`] of each `.branchtargets` that an instruction has used.
    pub(super) lists: HashMap<&'a str, u32>,
    /// `%r<9>`, by prefix: registers that exist by number, made when first named.
    pub(super) families: HashMap<&'a str, Family>,
}

impl Scope<'_> {
    /// The declaration `%r<9>` that a name such as `%r5` belongs to: type and elements. If several fit, the first.
    fn family_of(&self, name: &str) -> Option<(Scalar, u32)> {
        let first_digit = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        // `%r1<9>` may be meant by `%r15` as well as `%r<20>`. A number has at most ten digits, without zeros in front.
        let found = (first_digit.max(name.len().saturating_sub(10))..name.len()).filter_map(|at| {
            let (prefix, number) = name.split_at(at);
            let family = self.families.get(prefix)?;
            let number: u32 = if number.len() > 1 && number.starts_with('0') { None } else { number.parse().ok() }?;
            (number < family.count).then_some(family)
        });
        found.min_by_key(|family| family.order).map(|family| (family.ty, family.vector))
    }
}

pub(super) struct Family {
    /// Number of the declaration in its scope.
    pub(super) order: u32,
    pub(super) count: u32,
    pub(super) ty: Scalar,
    pub(super) vector: u32,
}

pub(super) struct FunctionLowering<'m, 'a> {
    pub(super) module: &'m mut Module<'a>,
    pub(super) kernel: bool,
    pub(super) target: Target,
    pub(super) index: u32,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) code: Vec<Inst>,
    pub(super) places: Vec<CodePlace>,
    pub(super) place: CodePlace,
    /// Inlined calls, counted like [`CodePlace::call`].
    pub(super) calls: HashMap<InlinedCall, u32>,
    /// Inlined call for the location of each `.loc`.
    pub(super) calls_at: HashMap<(u64, u32, u32), u32>,
    /// Index of the instruction after each label; `u32::MAX` until it is reached.
    pub(super) labels: Vec<u32>,
    /// Number of register families declared.
    pub(super) families: u32,
    /// Lists of labels that `brx.idx` jumps through, each once.
    pub(super) lists: Vec<Vec<u32>>,
    /// The functions in [`Function::calls`].
    pub(super) called: HashSet<u32>,
    /// The label that `ret` goes to.
    pub(super) end: u32,
    pub(super) rows: u32,
    pub(super) predicates: u32,
    pub(super) constants: HashMap<(ConstantValue, bool), R>,
    pub(super) constant_list: Vec<Constant>,
    pub(super) local_bytes: u64,
    /// [`Function::stack`]
    pub(super) stack: Option<R>,
    /// Guard of the instruction being lowered, also for the helpers that precede it.
    pub(super) guard: Guard,
    /// [`Access::used`] of the next instruction.
    pub(super) used: u32,
    pub(super) function: Function,
}

/// The error for a name that is taken.
pub(super) fn twice(variable: &Variable<'_>) -> SyntaxError {
    SyntaxError::new(variable.span, format!("`{}` is declared twice", variable.name))
}

impl<'m, 'a> FunctionLowering<'m, 'a> {
    /// Place of a parameter or result of the function; a vector's elements have one place each.
    pub(super) fn declare_formal(&mut self, variable: &Variable<'a>) -> Result<Vec<Place>, SyntaxError> {
        self.declare(variable)?;
        match self.lookup(variable.name) {
            Some(Symbol::Frame(offset, bytes)) => Ok(vec![Place::Memory((offset, bytes))]),
            Some(Symbol::Register(Register::Predicate(predicate))) => Ok(vec![Place::Predicate(predicate)]),
            Some(Symbol::Register(Register::Row { row, ty })) => Ok(vec![Place::Row { row, wide: rows_of(ty) == 2 }]),
            Some(Symbol::Register(Register::Vector { row, ty, count })) => {
                let wide = rows_of(ty) == 2;
                Ok((0..count).map(|at| Place::Row { row: row + at * rows_of(ty), wide }).collect())
            }
            _ => Err(SyntaxError::new(variable.span, "a parameter of this kind is not possible")),
        }
    }

    pub(super) fn declare(&mut self, variable: &Variable<'a>) -> Result<(), SyntaxError> {
        let symbol = match variable.space {
            Space::Reg => {
                if let Some(count) = variable.count {
                    let (ty, vector) = (variable.ty, variable.vector);
                    self.families += 1;
                    let family = Family { order: self.families, count, ty, vector };
                    if self.scope().families.insert(variable.name, family).is_some() {
                        return Err(twice(variable));
                    }
                    return Ok(());
                }
                Symbol::Register(self.new_register(variable.name, variable.ty, variable.vector))
            }
            Space::Local | Space::Param => {
                let bytes = variable_bytes(variable)?;
                self.module.elements.insert(variable.name, variable.ty.size() * variable.vector);
                self.local_bytes = align_up(self.local_bytes, align_of(variable));
                let offset = self.local_bytes;
                self.local_bytes += bytes;
                if self.local_bytes > MAX_LOCAL {
                    let message = format!("a thread's frame is limited to {MAX_LOCAL} bytes");
                    return Err(SyntaxError::new(variable.span, message));
                }
                Symbol::Frame(offset as u32, bytes as u32)
            }
            Space::Global | Space::Const | Space::Shared => {
                let symbol = self.module.new_variable(variable)?;
                if let Symbol::Global(index) = symbol {
                    self.module.initialise_global(variable, index)?;
                }
                symbol
            }
        };
        self.name(variable, symbol)
    }

    /// Gives a variable its name, which nothing else in the same braces may have.
    pub(super) fn name(&mut self, variable: &Variable<'a>, symbol: Symbol) -> Result<(), SyntaxError> {
        let (name, scope) = (variable.name, self.scope());
        let taken = scope.labels.contains_key(name) || scope.family_of(name).is_some();
        if scope.names.insert(name, symbol).is_some() || taken { Err(twice(variable)) } else { Ok(()) }
    }

    pub(super) fn new_register(&mut self, name: &'a str, ty: Scalar, vector: u32) -> Register {
        let name = self.module.span_of(name);
        let at = if ty == Scalar::Pred { self.predicates } else { self.rows };
        let named = if ty == Scalar::Pred { &mut self.function.named_predicates } else { &mut self.function.registers };
        named.push(NamedRegister { name, ty, at, count: vector });
        if ty == Scalar::Pred {
            self.predicates += 1;
            return Register::Predicate(self.predicates - 1);
        }
        let row = self.rows;
        self.rows += rows_of(ty) * vector;
        if vector > 1 { Register::Vector { row, ty, count: vector } } else { Register::Row { row, ty } }
    }

    /// A fresh register for an intermediate value.
    pub(super) fn temporary(&mut self, wide: bool) -> R {
        let row = self.rows;
        self.rows += if wide { 2 } else { 1 };
        row
    }

    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    pub(super) fn lookup(&mut self, name: &'a str) -> Option<Symbol> {
        for depth in (0..self.scopes.len()).rev() {
            if let Some(symbol) = self.scopes[depth].names.get(name) {
                return Some(*symbol);
            }
            if let Some((ty, vector)) = self.scopes[depth].family_of(name) {
                let symbol = Symbol::Register(self.new_register(name, ty, vector));
                self.scopes[depth].names.insert(name, symbol);
                return Some(symbol);
            }
        }
        self.module.symbol(name)
    }
    pub(super) fn emit(&mut self, op: Op) {
        self.module.allowance.charge(2 * (size_of::<Inst>() + size_of::<CodePlace>() + 64)); // 64: what an operation boxes
        self.code.push(Inst { op, guard: self.guard });
        self.places.push(self.place);
    }

    /// Emits an operation for every active lane, whatever the instruction's guard.
    pub(super) fn emit_unguarded(&mut self, op: Op) {
        self.module.allowance.charge(2 * (size_of::<Inst>() + size_of::<CodePlace>() + 64)); // 64: what an operation boxes
        self.code.push(Inst { op, guard: Guard::default() });
        self.places.push(self.place);
    }

    pub(super) fn new_label(&mut self) -> u32 {
        self.labels.push(u32::MAX);
        self.labels.len() as u32 - 1
    }

    pub(super) fn define_label(&mut self, label: u32) {
        self.labels[label as usize] = self.code.len() as u32;
        self.guard = Guard::default();
    }

    pub(super) fn label(&self, name: &str) -> Lower<u32> {
        match self.scopes.iter().rev().find_map(|scope| scope.labels.get(name)) {
            Some(label) => Ok(*label),
            None => invalid(format!("there is no label `{name}` here")),
        }
    }

    /// Index in [`Self::lists`] of the list of labels with that name; its labels are resolved in the list's own scope.
    pub(super) fn targets(&mut self, name: &'a str) -> Lower<u32> {
        let Some(depth) = self.scopes.iter().rposition(|scope| scope.targets.contains_key(name)) else {
            return invalid(format!("there is no list of targets `{name}` here"));
        };
        if let Some(known) = self.scopes[depth].lists.get(name) {
            return Ok(*known);
        }
        let mut labels = Vec::new();
        for target in &self.scopes[depth].targets[name] {
            match self.scopes[..=depth].iter().rev().find_map(|scope| scope.labels.get(target)) {
                Some(label) => labels.push(*label),
                None => return invalid(format!("there is no label `{target}` here")),
            }
        }
        self.module.allowance.charge(4 * labels.len() * size_of::<u32>());
        self.lists.push(labels);
        let list = self.lists.len() as u32 - 1;
        self.scopes[depth].lists.insert(name, list);
        Ok(list)
    }
}
