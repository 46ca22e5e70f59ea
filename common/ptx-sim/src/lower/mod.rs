//! [`crate::ast`] to [`crate::ir`]: names become rows and offsets, opcodes become operations, branches learn where their
//! lanes meet again.

mod cfg;
mod opcodes;

use std::collections::{HashMap, HashSet};

use crate::ast::{self, Ast, Init, Operand, Scalar, Space, Statement, Variable};
use crate::error::{SyntaxError, Unsupported};
use crate::exec::warp::{MAX_LOCAL, MAX_ROWS};
use crate::ir::*;
use crate::span::{Lines, Span};

/// A kernel as a caller sees it, and its part of shared memory.
#[derive(Debug)]
pub(crate) struct KernelPart {
    pub info: crate::KernelInfo,
    pub function: u32,
    /// Bytes of all parameters together.
    pub param_bytes: u32,
    /// Offset of each shared variable that the kernel can reach, by index.
    pub shared: HashMap<u32, u32>,
    /// The static ones, in order of their offsets.
    pub static_variables: Vec<StaticVariable>,
}

/// A `.shared` variable of fixed size, as one kernel has it.
#[derive(Clone, Debug)]
pub(crate) struct StaticVariable {
    /// Its name in the PTX.
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

/// A `.shared` variable; where it stands depends on the kernel.
#[derive(Debug, Clone)]
struct SharedVariable {
    name: String,
    bytes: u64,
    align: u64,
    /// `.extern .shared x[]`: begins where the static variables end.
    dynamic: bool,
    /// Declared at module scope; otherwise in the function of that index.
    function: Option<u32>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
enum Symbol {
    Register(Register),
    /// Index into [`Program::globals`].
    Global(u32),
    /// Index into the shared variables.
    Shared(u32),
    /// Offset in the frame's local memory and size: `.local`, and the `.param`s of functions and calls.
    Frame(u32, u32),
    /// Offset in the kernel's parameters.
    KernelParam(u32),
    Function(u32),
}

#[derive(Clone, Copy, Debug)]
enum Register {
    Predicate(P),
    Row {
        row: R,
        ty: Scalar,
    },
    /// `.v2`/`.v4`: the elements' first row; each element takes `rows_of(ty)`.
    Vector {
        row: R,
        ty: Scalar,
        count: u32,
    },
}

fn rows_of(ty: Scalar) -> u32 {
    ty.size().div_ceil(4).max(1)
}

/// Everything the lowering of one module shares.
pub(crate) struct Lowered {
    pub program: Program,
    pub kernels: Vec<KernelPart>,
}

/// Why an instruction could not be lowered.
enum Stop {
    /// The simulator does not know it.
    Unsupported(String),
    /// It is not PTX.
    Invalid(String),
}

type Lower<T> = Result<T, Stop>;

fn invalid<T>(message: impl Into<String>) -> Lower<T> {
    Err(Stop::Invalid(message.into()))
}

fn unsupported<T>(reason: impl Into<String>) -> Lower<T> {
    Err(Stop::Unsupported(reason.into()))
}

pub(crate) fn lower(ast: &Ast<'_>, source: &str) -> Result<Lowered, SyntaxError> {
    let mut module = Module {
        names: HashMap::new(),
        function_names: HashMap::new(),
        bodies: ast.functions.iter().filter(|function| function.body.is_some()).map(|function| function.name).collect(),
        shared: Vec::new(),
        program: Program::default(),
        lines: Lines::new(source),
        source,
    };
    module.program.files = ast.files.iter().map(|(index, path)| (*index, (*path).to_owned())).collect();
    for function in &ast.functions {
        let count = module.function_names.len() as u32;
        module.function_names.entry(function.name).or_insert(count);
    }
    module.program.functions = vec![Function::default(); module.function_names.len()];
    for variable in &ast.variables {
        module.declare_global(variable)?;
    }
    for variable in &ast.variables {
        module.initialise(variable, variable.name)?;
    }
    for function in &ast.functions {
        let index = module.function_names[function.name];
        if function.body.is_some() && module.program.functions[index as usize].defined {
            return Err(SyntaxError::new(Span::default(), format!("`{}` is defined twice", function.name)));
        }
        if function.body.is_some() || module.program.functions[index as usize].name.is_empty() {
            FunctionLowering::run(&mut module, index, function)?;
        }
    }
    let kernels = ast
        .functions
        .iter()
        .filter(|function| function.kernel && function.body.is_some())
        .map(|function| module.kernel(function))
        .collect::<Result<_, _>>()?;
    Ok(Lowered { program: module.program, kernels })
}

struct Module<'a> {
    names: HashMap<&'a str, Symbol>,
    function_names: HashMap<&'a str, u32>,
    /// The functions that are more than declared.
    bodies: HashSet<&'a str>,
    shared: Vec<SharedVariable>,
    program: Program,
    lines: Lines,
    source: &'a str,
}

/// Bytes a variable takes. An extent left open is that of the initialiser.
fn size_of(variable: &Variable<'_>) -> Result<u64, SyntaxError> {
    let element = u64::from(variable.ty.size()) * u64::from(variable.vector);
    let open = match variable.init.first() {
        Some(Init::List(items)) => items.len() as u64,
        Some(_) => 1,
        None => 0,
    };
    let too_large = || SyntaxError::new(variable.span, format!("`{}` is too large", variable.name));
    let mut bytes = element;
    for extent in &variable.dims {
        bytes = bytes.checked_mul(extent.unwrap_or(open)).ok_or_else(too_large)?;
    }
    if bytes > 1 << 40 { Err(too_large()) } else { Ok(bytes) }
}

fn align_of(variable: &Variable<'_>) -> u64 {
    let natural = u64::from(variable.ty.size()) * u64::from(variable.vector);
    variable.align.map_or(natural, u64::from)
}

fn align_up(value: u64, align: u64) -> u64 {
    value.next_multiple_of(align.max(1))
}

impl<'a> Module<'a> {
    fn declare_global(&mut self, variable: &Variable<'a>) -> Result<(), SyntaxError> {
        let symbol = self.new_variable(variable, None)?;
        self.names.insert(variable.name, symbol);
        Ok(())
    }

    /// A `.global`, `.const` or `.shared` variable, of the module or of a function.
    fn new_variable(&mut self, variable: &Variable<'a>, function: Option<u32>) -> Result<Symbol, SyntaxError> {
        let bytes = size_of(variable)?;
        let align = align_of(variable);
        if variable.space == Space::Shared {
            let dynamic = variable.external;
            let name = variable.name.to_owned();
            self.shared.push(SharedVariable { name, bytes, align, dynamic, function });
            return Ok(Symbol::Shared(self.shared.len() as u32 - 1));
        }
        self.program.globals.push(Global {
            name: variable.name.to_owned(),
            bytes,
            constant: variable.space == Space::Const,
            init: Vec::new(),
            relocations: Vec::new(),
        });
        Ok(Symbol::Global(self.program.globals.len() as u32 - 1))
    }

    fn initialise(&mut self, variable: &Variable<'a>, name: &str) -> Result<(), SyntaxError> {
        let Some(Symbol::Global(index)) = self.names.get(name).copied() else { return Ok(()) };
        self.initialise_global(variable, index)
    }

    fn initialise_global(&mut self, variable: &Variable<'a>, index: u32) -> Result<(), SyntaxError> {
        let Some(init) = variable.init.first() else { return Ok(()) };
        // Extents from the inside out: how many scalars one item at each depth stands for.
        let mut spans = vec![1u64];
        if variable.vector > 1 && !variable.dims.is_empty() {
            spans.insert(0, u64::from(variable.vector));
        }
        for extent in variable.dims.iter().skip(1).rev() {
            let inner = spans[0];
            spans.insert(0, inner.saturating_mul(extent.unwrap_or(1)));
        }
        let mut writer = InitWriter { element: variable.ty, bytes: Vec::new(), relocations: Vec::new(), module: self };
        match init {
            Init::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    writer.write(item, at as u64 * spans[0], &spans[1..], variable)?;
                }
            }
            single => writer.write(single, 0, &[], variable)?,
        }
        let InitWriter { bytes, relocations, .. } = writer;
        let global = &mut self.program.globals[index as usize];
        if bytes.len() as u64 > global.bytes {
            return Err(SyntaxError::new(variable.span, format!("`{}` has too many initialisers", variable.name)));
        }
        global.init = bytes;
        global.relocations = relocations;
        Ok(())
    }

    /// The static part of shared memory: variables in order of declaration, each at its alignment; dynamic ones follow.
    fn kernel(&self, function: &ast::Function<'a>) -> Result<KernelPart, SyntaxError> {
        let index = self.function_names[function.name];
        let functions = &self.program.functions;
        let mut reaches = vec![index];
        let mut next = 0;
        while let Some(&at) = reaches.get(next) {
            let function = &functions[at as usize];
            let any = 0..functions.len() as u32;
            let callable = |at: &u32| functions[*at as usize].defined && !functions[*at as usize].kernel;
            let indirect = any.filter(|_| function.calls_indirectly).filter(callable);
            for called in function.calls.iter().copied().chain(indirect) {
                if !reaches.contains(&called) {
                    reaches.push(called);
                }
            }
            next += 1;
        }
        let used = |shared: u32| {
            reaches.iter().any(|function| {
                functions[*function as usize]
                    .constants
                    .iter()
                    .any(|constant| matches!(constant.value, ConstantValue::Shared(index, _) if index == shared))
            })
        };
        let mut shared = HashMap::new();
        let mut static_variables = Vec::new();
        let mut top = 0;
        let mut dynamic = Vec::new();
        for (at, variable) in self.shared.iter().enumerate() {
            let at = at as u32;
            if variable.function.is_some_and(|function| !reaches.contains(&function)) || !used(at) {
                continue;
            }
            if variable.dynamic {
                dynamic.push((at, variable.align));
                continue;
            }
            top = align_up(top, variable.align);
            shared.insert(at, top as u32);
            let (name, bytes) = (variable.name.clone(), variable.bytes as u32);
            static_variables.push(StaticVariable { name, offset: top as u32, bytes });
            top = top.saturating_add(variable.bytes);
        }
        let static_shared = u32::try_from(top).map_err(|_| {
            SyntaxError::new(Span::default(), format!("`{}` declares {top} bytes of shared memory", function.name))
        })?;
        for (at, align) in dynamic {
            shared.insert(at, align_up(top, align) as u32);
        }
        let mut offset = 0;
        let mut params = Vec::new();
        for param in &function.params {
            let size = size_of(param)?;
            offset = align_up(offset, align_of(param));
            let element = format!(
                "{}{}",
                param.ty.name(),
                if param.vector > 1 { format!("x{}", param.vector) } else { String::new() }
            );
            let ty = param.dims.iter().fold(element, |ty, extent| format!("{ty}[{}]", extent.unwrap_or(0)));
            params.push(crate::ParamInfo {
                name: param.name.to_owned(),
                offset: offset as u32,
                size: size as u32,
                align: align_of(param) as u32,
                ty,
            });
            offset += size;
        }
        let mut unsupported: Vec<Unsupported> =
            reaches.iter().flat_map(|function| functions[*function as usize].unsupported.clone()).collect();
        for function in
            reaches.iter().map(|function| &functions[*function as usize]).filter(|function| !function.defined)
        {
            let reason = "the function has no body in this file".to_owned();
            unsupported.push(Unsupported { line: 0, text: format!("call {}", function.name), reason });
        }
        unsupported.sort_by_key(|item| item.line);
        Ok(KernelPart {
            info: crate::KernelInfo {
                name: function.name.to_owned(),
                params,
                static_shared,
                max_threads: function.max_threads,
                required_threads: function.required_threads,
                unsupported,
            },
            function: index,
            param_bytes: offset as u32,
            shared,
            static_variables,
        })
    }
}

struct InitWriter<'m, 'a> {
    element: Scalar,
    bytes: Vec<u8>,
    relocations: Vec<(u64, u8, ConstantValue)>,
    module: &'m Module<'a>,
}

impl<'a> InitWriter<'_, 'a> {
    /// Writes `item` at scalar number `at`; `spans` are the extents of nested braces.
    fn write(&mut self, item: &Init<'a>, at: u64, spans: &[u64], variable: &Variable<'a>) -> Result<(), SyntaxError> {
        let size = u64::from(self.element.size());
        let fail = |message: String| Err(SyntaxError::new(variable.span, message));
        let bits: u128 = match item {
            Init::List(items) => {
                let Some((span, rest)) = spans.split_first() else {
                    return fail(format!("the initialiser of `{}` has braces too deep", variable.name));
                };
                for (index, item) in items.iter().enumerate() {
                    self.write(item, at + index as u64 * span, rest, variable)?;
                }
                return Ok(());
            }
            Init::Int(value) => match self.element {
                Scalar::F32 => u128::from((*value as f32).to_bits()),
                Scalar::F64 => u128::from((*value as f64).to_bits()),
                _ => *value as u128,
            },
            Init::F32(bits) if self.element == Scalar::F64 => u128::from(f64::from(f32::from_bits(*bits)).to_bits()),
            Init::F32(bits) => u128::from(*bits),
            Init::F64(bits) if self.element == Scalar::F32 => u128::from((f64::from_bits(*bits) as f32).to_bits()),
            Init::F64(bits) => u128::from(*bits),
            Init::Symbol { name, offset } => {
                let value = match (self.module.names.get(name), self.module.function_names.get(name)) {
                    (Some(Symbol::Global(index)), _) => ConstantValue::Global(*index, *offset),
                    (Some(Symbol::Shared(_)), _) => {
                        return fail(format!("`{name}` is in shared memory, which has no address before a launch"));
                    }
                    (_, Some(index)) => ConstantValue::Bits(function_address(*index)),
                    _ => return fail(format!("nothing is called `{name}`")),
                };
                self.relocations.push((at * size, size as u8, value));
                0
            }
        };
        let start = (at * size) as usize;
        let end = start + size as usize;
        if end > 1 << 32 {
            return fail(format!("the initialiser of `{}` is too long", variable.name));
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(&bits.to_le_bytes()[..size as usize]);
        Ok(())
    }
}

/// What a function's address looks like to a kernel: an address that no memory access can use.
pub(crate) fn function_address(index: u32) -> u64 {
    crate::memory::FUNCTION_WINDOW + u64::from(index) * 16
}

/// Names of one `{}`: registers and variables, and labels.
#[derive(Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Symbol>,
    labels: HashMap<&'a str, u32>,
    /// `.branchtargets` and `.calltargets`
    targets: HashMap<&'a str, Vec<&'a str>>,
    /// `%r<9>`: registers that exist by number, made when first named.
    families: Vec<Family<'a>>,
}

struct Family<'a> {
    prefix: &'a str,
    count: u32,
    ty: Scalar,
    vector: u32,
}

struct FunctionLowering<'m, 'a> {
    module: &'m mut Module<'a>,
    kernel: bool,
    index: u32,
    scopes: Vec<Scope<'a>>,
    code: Vec<Inst>,
    places: Vec<CodePlace>,
    place: CodePlace,
    /// Instruction each label stands before; `u32::MAX` until it is reached.
    labels: Vec<u32>,
    /// The label that `ret` goes to.
    end: u32,
    rows: u32,
    predicates: u32,
    constants: HashMap<(ConstantValue, bool), R>,
    constant_list: Vec<Constant>,
    local_bytes: u64,
    /// Guard of the instruction being lowered, for the helpers it needs in front.
    guard: Guard,
    function: Function,
}

impl<'m, 'a> FunctionLowering<'m, 'a> {
    fn run(module: &'m mut Module<'a>, index: u32, function: &ast::Function<'a>) -> Result<(), SyntaxError> {
        let mut lowering = FunctionLowering {
            module,
            kernel: function.kernel,
            index,
            scopes: vec![Scope::default()],
            code: Vec::new(),
            places: Vec::new(),
            place: CodePlace::default(),
            labels: vec![u32::MAX],
            end: 0,
            rows: 0,
            predicates: 0,
            constants: HashMap::new(),
            constant_list: Vec::new(),
            local_bytes: 0,
            guard: Guard::default(),
            function: Function { name: function.name.to_owned(), kernel: function.kernel, ..Function::default() },
        };
        if function.kernel {
            let mut offset = 0;
            for param in &function.params {
                offset = align_up(offset, align_of(param));
                lowering.scopes[0].names.insert(param.name, Symbol::KernelParam(offset as u32));
                offset += size_of(param)?;
                if offset > 32764 {
                    return Err(SyntaxError::new(param.span, "a kernel takes at most 32,764 bytes of parameters"));
                }
            }
        } else {
            for param in &function.params {
                let place = lowering.declare_formal(param)?;
                lowering.function.params.push(place);
            }
            for result in &function.returns {
                let place = lowering.declare_formal(result)?;
                lowering.function.returns.push(place);
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

    fn declare_formal(&mut self, variable: &Variable<'a>) -> Result<Place, SyntaxError> {
        self.declare(variable)?;
        match self.lookup(variable.name) {
            Some(Symbol::Frame(offset, bytes)) => Ok(Place::Memory((offset, bytes))),
            Some(Symbol::Register(Register::Predicate(predicate))) => Ok(Place::Predicate(predicate)),
            Some(Symbol::Register(Register::Row { row, ty })) => Ok(Place::Row { row, wide: rows_of(ty) == 2 }),
            _ => Err(SyntaxError::new(variable.span, "a parameter of this kind is not possible")),
        }
    }

    fn declare(&mut self, variable: &Variable<'a>) -> Result<(), SyntaxError> {
        let symbol = match variable.space {
            Space::Reg => {
                if let Some(count) = variable.count {
                    let family = Family { prefix: variable.name, count, ty: variable.ty, vector: variable.vector };
                    self.scope().families.push(family);
                    return Ok(());
                }
                Symbol::Register(self.new_register(variable.name, variable.ty, variable.vector))
            }
            Space::Local | Space::Param => {
                let bytes = size_of(variable)?;
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
                let symbol = self.module.new_variable(variable, Some(self.index))?;
                if let Symbol::Global(index) = symbol {
                    self.module.initialise_global(variable, index)?;
                }
                symbol
            }
        };
        self.scope().names.insert(variable.name, symbol);
        Ok(())
    }

    fn new_register(&mut self, name: &'a str, ty: Scalar, vector: u32) -> Register {
        let start = name.as_ptr() as usize - self.module.source.as_ptr() as usize; // names are parts of the source
        let name = Span::new(start, start + name.len());
        let at = if ty == Scalar::Pred { self.predicates } else { self.rows };
        self.function.registers.push(NamedRegister { name, ty, at, count: vector });
        if ty == Scalar::Pred {
            self.predicates += 1;
            return Register::Predicate(self.predicates - 1);
        }
        let row = self.rows;
        self.rows += rows_of(ty) * vector;
        if vector > 1 { Register::Vector { row, ty, count: vector } } else { Register::Row { row, ty } }
    }

    /// A fresh register for an intermediate value.
    fn temporary(&mut self, wide: bool) -> R {
        let row = self.rows;
        self.rows += if wide { 2 } else { 1 };
        row
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn lookup(&mut self, name: &'a str) -> Option<Symbol> {
        for depth in (0..self.scopes.len()).rev() {
            if let Some(symbol) = self.scopes[depth].names.get(name) {
                return Some(*symbol);
            }
            let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
            let found = self.scopes[depth].families.iter().find_map(|family| {
                let number = name.strip_prefix(family.prefix)?;
                // `%r` and `%rd` both begin `%rd1`: what follows the prefix has to be the number, without zeros in front
                let number = (family.prefix.len() >= digits && (number == "0" || !number.starts_with('0')))
                    .then(|| number.parse::<u32>().ok())??;
                (number < family.count).then_some((family.ty, family.vector))
            });
            if let Some((ty, vector)) = found {
                let symbol = Symbol::Register(self.new_register(name, ty, vector));
                self.scopes[depth].names.insert(name, symbol);
                return Some(symbol);
            }
        }
        let module = &self.module;
        module
            .names
            .get(name)
            .copied()
            .or_else(|| module.function_names.get(name).map(|index| Symbol::Function(*index)))
    }

    fn statements(&mut self, body: &[Statement<'a>]) -> Result<(), SyntaxError> {
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
            match statement {
                Statement::Label(name, _) => {
                    let label = self.scope().labels[name];
                    self.define_label(label);
                }
                Statement::Instruction(instruction) => self.instruction(instruction)?,
                Statement::Variable(variable) => self.declare(variable)?,
                Statement::Block(inner) => {
                    self.scopes.push(Scope::default());
                    self.statements(inner)?;
                    self.scopes.pop();
                }
                // line 0 is the compiler's own code: it stays with the line before it
                Statement::Loc(loc) if loc.line != 0 => self.place.loc = Some(*loc),
                Statement::Loc(_) | Statement::Targets(..) | Statement::Prototype => {}
            }
        }
        Ok(())
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
                let span = instruction.span;
                let text = &self.module.source[span.start as usize..span.end as usize];
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                self.function.unsupported.push(Unsupported { line: self.place.ptx_line, text, reason });
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

    fn emit(&mut self, op: Op) {
        self.code.push(Inst { op, guard: self.guard });
        self.places.push(self.place);
    }

    /// Emits something that must happen in every active lane, whatever the instruction's guard.
    fn emit_unguarded(&mut self, op: Op) {
        self.code.push(Inst { op, guard: Guard::default() });
        self.places.push(self.place);
    }

    fn new_label(&mut self) -> u32 {
        self.labels.push(u32::MAX);
        self.labels.len() as u32 - 1
    }

    fn define_label(&mut self, label: u32) {
        self.labels[label as usize] = self.code.len() as u32;
        self.guard = Guard::default();
    }

    fn label(&self, name: &str) -> Lower<u32> {
        match self.scopes.iter().rev().find_map(|scope| scope.labels.get(name)) {
            Some(label) => Ok(*label),
            None => invalid(format!("there is no label `{name}` here")),
        }
    }

    fn targets(&self, name: &str) -> Lower<Vec<&'a str>> {
        match self.scopes.iter().rev().find_map(|scope| scope.targets.get(name)) {
            Some(targets) => Ok(targets.clone()),
            None => invalid(format!("there is no list of targets `{name}` here")),
        }
    }

    /// Resolves labels, puts a [`Op::Join`] where lanes meet again, and moves the code into the module's.
    fn finish(mut self) -> Result<(), SyntaxError> {
        if self.rows as usize > MAX_ROWS {
            let message =
                format!("`{}` has {} registers, where {MAX_ROWS} are possible", self.function.name, self.rows);
            return Err(SyntaxError::new(Span::default(), message));
        }
        for inst in &mut self.code {
            match &mut inst.op {
                Op::Bra { target, .. } => *target = self.labels[*target as usize],
                Op::BrxIdx(brx) => {
                    brx.targets.iter_mut().for_each(|target| *target = self.labels[*target as usize]);
                }
                _ => {}
            }
        }
        let points = cfg::meeting_points(&self.code);
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
                    brx.targets.iter_mut().for_each(|target| *target = moved(*target));
                    brx.join = moved(brx.join);
                }
                _ => {}
            }
            program.code.push(inst);
            program.places.push(place);
        }
        self.function.start = base;
        self.function.end = program.code.len() as u32;
        self.function.rows = self.rows;
        self.function.predicates = self.predicates;
        self.function.constants = self.constant_list;
        self.function.local_bytes = align_up(self.local_bytes, 16) as u32;
        program.functions[self.index as usize] = self.function;
        Ok(())
    }

    // Operands

    fn constant(&mut self, value: ConstantValue, wide: bool) -> R {
        if let Some(row) = self.constants.get(&(value, wide)) {
            return *row;
        }
        let row = self.temporary(wide);
        self.constants.insert((value, wide), row);
        self.constant_list.push(Constant { row, wide, value });
        row
    }

    fn bits(&mut self, value: u64, wide: bool) -> R {
        self.constant(ConstantValue::Bits(value), wide)
    }

    fn register_named(&mut self, name: &'a str) -> Lower<Option<Register>> {
        if let Some((vector, element)) = name.rsplit_once('.') {
            let Some(Symbol::Register(Register::Vector { row, ty, count })) = self.lookup(vector) else {
                return Ok(None);
            };
            let index = match element {
                "x" | "r" => 0,
                "y" | "g" => 1,
                "z" | "b" => 2,
                "w" | "a" => 3,
                _ => return invalid(format!("`{name}`: a vector has elements x, y, z and w")),
            };
            if index >= count {
                return invalid(format!("`{vector}` has {count} elements"));
            }
            return Ok(Some(Register::Row { row: row + index * rows_of(ty), ty }));
        }
        Ok(match self.lookup(name) {
            Some(Symbol::Register(register)) => Some(register),
            _ => None,
        })
    }

    fn predicate_named(&mut self, name: &'a str) -> Lower<P> {
        match self.register_named(name)? {
            Some(Register::Predicate(predicate)) => Ok(predicate),
            Some(_) => invalid(format!("`{name}` is not a predicate")),
            None => invalid(format!("there is no register `{name}`")),
        }
    }

    /// A source predicate: a register, negated or not, or a constant 0 or 1.
    fn predicate(&mut self, operand: &Operand<'a>) -> Lower<(P, bool)> {
        match operand {
            Operand::Name(name) => Ok((self.predicate_named(name)?, false)),
            Operand::Not(name) => Ok((self.predicate_named(name)?, true)),
            Operand::Int(value) => {
                self.predicates += 1;
                let d = self.predicates - 1;
                self.emit_unguarded(Op::PredSet { d, value: *value != 0 });
                Ok((d, false))
            }
            _ => invalid("a predicate is expected"),
        }
    }

    /// A destination predicate; `None` for the sink `_`.
    fn predicate_or_sink(&mut self, operand: &Operand<'a>) -> Lower<Option<P>> {
        match operand {
            Operand::Name("_") => Ok(None),
            Operand::Name(name) => self.predicate_named(name).map(Some),
            _ => invalid("a predicate register is expected"),
        }
    }

    /// A register of any type: its row and declared type.
    fn any_register(&mut self, operand: &Operand<'a>) -> Lower<(R, Scalar)> {
        let Operand::Name(name) = operand else { return invalid("a register is expected here") };
        match self.register_named(name)? {
            Some(Register::Row { row, ty }) => Ok((row, ty)),
            Some(Register::Predicate(_)) => invalid(format!("`{name}` is a predicate")),
            Some(Register::Vector { .. }) => invalid(format!("`{name}` is a vector")),
            None => invalid(format!("there is no register `{name}`")),
        }
    }

    /// The destination register of a value of type `ty`; the sink `_` is a register nobody reads.
    fn dst(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<R> {
        if matches!(operand, Operand::Name("_")) {
            return Ok(self.temporary(rows_of(ty) == 2));
        }
        let (row, declared) = self.any_register(operand)?;
        self.same_size(declared, ty)?;
        Ok(row)
    }

    fn same_size(&self, declared: Scalar, ty: Scalar) -> Lower<()> {
        if declared.size() == ty.size() {
            return Ok(());
        }
        invalid(format!("a .{} register cannot hold the instruction's .{}", declared.name(), ty.name()))
    }

    /// A source of type `ty`: a register, an immediate, a special register or an address.
    fn src(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<R> {
        if let Operand::Name(name) = operand
            && let Some(Register::Row { row, ty: declared }) = self.register_named(name)?
        {
            self.same_size(declared, ty)?;
            return Ok(row);
        }
        self.value(operand, ty)
    }

    /// Like [`Self::src`], for instructions that take a register wider than their type (`cvt`, `st`).
    /// Returns the row and whether it is a 64-bit one.
    fn relaxed_src(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<(R, bool)> {
        if let Operand::Name(name) = operand
            && let Some(Register::Row { row, ty: declared }) = self.register_named(name)?
        {
            if declared.size() < ty.size() {
                return invalid(format!("`{name}` is narrower than .{}", ty.name()));
            }
            return Ok((row, declared.size() == 8));
        }
        Ok((self.value(operand, ty)?, rows_of(ty) == 2))
    }

    /// A source that is not a register of the function.
    fn value(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<R> {
        if ty == Scalar::B128 {
            return invalid("a value of 128 bits has to be in a register");
        }
        let wide = rows_of(ty) == 2;
        let mask = if ty.size() >= 8 { u64::MAX } else { (1 << (ty.size() * 8)) - 1 };
        let bits = match operand {
            Operand::Int(value) => match ty {
                Scalar::F32 => u64::from((*value as f32).to_bits()),
                Scalar::F64 => (*value as f64).to_bits(),
                _ => *value as u64 & mask,
            },
            Operand::F32(bits) if ty == Scalar::F64 => f64::from(f32::from_bits(*bits)).to_bits(),
            Operand::F32(bits) => u64::from(*bits),
            Operand::F64(bits) if matches!(ty, Scalar::F32 | Scalar::B32) => {
                u64::from((f64::from_bits(*bits) as f32).to_bits())
            }
            Operand::F64(bits) => *bits,
            Operand::Name("WARP_SZ") => 32,
            Operand::Name(name) => return self.named_value(name, 0, wide),
            Operand::Offset(name, offset) => return self.named_value(name, *offset, wide),
            _ => return invalid("a register or a value is expected here"),
        };
        Ok(self.bits(bits, wide))
    }

    /// A special register, or the address of a variable or function.
    fn named_value(&mut self, name: &'a str, offset: i64, wide: bool) -> Lower<R> {
        if let Some(what) = special(name) {
            let d = self.temporary(wide);
            self.emit_unguarded(Op::Special { d, what, wide });
            return Ok(d);
        }
        match self.lookup(name) {
            Some(Symbol::Global(index)) => Ok(self.constant(ConstantValue::Global(index, offset), wide)),
            Some(Symbol::Shared(index)) => Ok(self.constant(ConstantValue::Shared(index, offset), wide)),
            Some(Symbol::Function(index)) => Ok(self.bits(function_address(index), wide)),
            Some(Symbol::KernelParam(at)) => Ok(self.bits(u64::from(at).wrapping_add(offset as u64), wide)),
            Some(Symbol::Frame(at, _)) => {
                let d = self.temporary(wide);
                self.emit_unguarded(Op::FrameAddress { d, offset: (i64::from(at) + offset) as u32, wide });
                Ok(d)
            }
            Some(Symbol::Register(Register::Predicate(_))) => {
                invalid(format!("`{name}` is a predicate, and a value is expected"))
            }
            Some(Symbol::Register(_)) => invalid(format!("`{name}` cannot be used here")),
            None if name.starts_with('%') => {
                if name.contains('.') || !name.ends_with(|last: char| last.is_ascii_digit()) {
                    return unsupported(format!("the special register {name}"));
                }
                invalid(format!("there is no register `{name}`"))
            }
            None => invalid(format!("nothing is called `{name}`")),
        }
    }

    /// A device function's parameters are part of its frame; a kernel's have a space of their own.
    fn param_space(&self, space: MemSpace) -> MemSpace {
        if space == MemSpace::Param && !self.kernel { MemSpace::Local } else { space }
    }

    /// `[base + offset]` in `space`.
    fn address(&mut self, operand: &Operand<'a>, space: MemSpace) -> Lower<Address> {
        let Operand::Address(base, offset) = operand else { return invalid("an address in brackets is expected") };
        let offset = *offset;
        let Some(name) = base else { return Ok(Address { space, base: Base::None, offset }) };
        if let Some(Register::Row { row, ty }) = self.register_named(name)? {
            let base = match ty.size() {
                4 => Base::Row32(row),
                8 => Base::Row64(row),
                _ => return invalid(format!("`{name}` cannot hold an address")),
            };
            return Ok(Address { space: self.param_space(space), base, offset });
        }
        let generic = space == MemSpace::Generic;
        Ok(match self.lookup(name) {
            // An unqualified access to a variable means that variable's space.
            Some(Symbol::Shared(index)) if generic || space == MemSpace::Shared => {
                let row = self.constant(ConstantValue::Shared(index, 0), true);
                Address { space: MemSpace::Shared, base: Base::Row64(row), offset }
            }
            Some(Symbol::Global(index)) if generic || space == MemSpace::Global => {
                let row = self.constant(ConstantValue::Global(index, 0), true);
                Address { space: MemSpace::Global, base: Base::Row64(row), offset }
            }
            Some(Symbol::Frame(at, _)) if generic || matches!(space, MemSpace::Local | MemSpace::Param) => {
                Address { space: MemSpace::Local, base: Base::Frame, offset: offset + i64::from(at) }
            }
            Some(Symbol::KernelParam(at)) if generic || space == MemSpace::Param => {
                Address { space: MemSpace::Param, base: Base::None, offset: offset + i64::from(at) }
            }
            Some(_) => return invalid(format!("`{name}` is not in the instruction's state space")),
            None => return invalid(format!("nothing is called `{name}`")),
        })
    }
}

/// The special register of that name.
fn special(name: &str) -> Option<Special> {
    let (base, element) = match name.rsplit_once('.') {
        Some((base, "x")) => (base, 0),
        Some((base, "y")) => (base, 1),
        Some((base, "z")) => (base, 2),
        Some((base, "w")) => (base, 3),
        _ => (name, 0),
    };
    Some(match base {
        "%tid" => Special::Tid(element),
        "%ntid" => Special::Ntid(element),
        "%ctaid" => Special::Ctaid(element),
        "%nctaid" => Special::Nctaid(element),
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NWarpId,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NSmId,
        "%gridid" => Special::GridId,
        "%clock" => Special::Clock,
        "%clock_hi" => Special::ClockHi,
        "%clock64" => Special::Clock64,
        "%globaltimer" => Special::GlobalTimer,
        "%globaltimer_lo" => Special::GlobalTimerLo,
        "%globaltimer_hi" => Special::GlobalTimerHi,
        "%dynamic_smem_size" => Special::DynamicSharedSize,
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalSharedSize,
        // A launch without clusters: each block is a cluster of its own.
        "%clusterid" => Special::Ctaid(element),
        "%nclusterid" => Special::Nctaid(element),
        "%cluster_ctaid" => Special::Fixed(0),
        "%cluster_nctaid" => Special::Fixed(u32::from(element < 3)),
        "%cluster_ctarank" | "%is_explicit_cluster" | "%reserved_smem_offset_begin" | "%current_graph_exec" => {
            Special::Fixed(0)
        }
        "%cluster_nctarank" => Special::Fixed(1),
        _ if base.strip_prefix("%envreg").is_some_and(|number| number.parse::<u8>().is_ok()) => Special::Fixed(0),
        _ => return None,
    })
}
