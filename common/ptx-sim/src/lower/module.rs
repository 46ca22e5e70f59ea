//! Shared parts of a module's functions: variables with their initial contents, and the layout of shared memory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::function::{Formals, twice};
use super::symbols::Symbol;
use crate::ast::{self, Init, Linkage, Space, Variable};
use crate::error::{SyntaxError, Unsupported};
use crate::ir::*;
use crate::limits::Allowance;
use crate::scalar::Scalar;
use crate::span::{Lines, Span};

/// A `.shared` variable; its offset depends on the kernel.
#[derive(Debug, Clone)]
pub(super) struct SharedVariable {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) align: u64,
    /// `.extern .shared x[]`: begins where the static variables end.
    pub(super) dynamic: bool,
}

/// Bytes of shared memory that CUDA reserves per block, from compute capability 8.0 on.
pub(super) const RESERVED_SHARED: u32 = 1024;

pub(super) struct Module<'a> {
    pub(super) names: HashMap<Name<'a>, Symbol>,
    /// How each variable was declared.
    pub(super) linkages: HashMap<Name<'a>, Linkage>,
    pub(super) function_names: HashMap<Name<'a>, u32>,
    /// The unit that is being lowered.
    pub(super) unit: u32,
    /// Functions that have a body.
    pub(super) bodies: HashSet<&'a str>,
    pub(super) shared: Vec<SharedVariable>,
    /// Bytes of an element of each variable.
    pub(super) elements: HashMap<&'a str, u32>,
    pub(super) program: Program,
    /// Numbers of files by the names that comments of a unit have for them.
    pub(super) named_files: HashMap<(u32, String), u64>,
    /// Numbers of files by the last part of their paths, a few each.
    pub(super) files_by_name: HashMap<String, Vec<u64>>,
    /// Names of the texts' own files.
    pub(super) texts: &'a [(String, usize)],
    pub(super) lines: Lines,
    pub(super) source: &'a str,
    pub(super) allowance: Allowance,
    /// Resources reached from the functions that a kernel calls, by those functions and whether it calls through a pointer:
    /// many kernels call the same.
    pub(super) reached: HashMap<(Vec<u32>, bool), Rc<Reach>>,
    /// Parameters and results of a function by a unit's declaration: linkers do not compare those of several.
    pub(super) formals: HashMap<(u32, u32), Formals<'a>>,
    /// The functions that a call through a pointer may mean.
    pub(super) callable: Vec<u32>,
}

/// A name of the module, and the unit that it belongs to; [`LINKED`]: all of them.
pub(super) type Name<'a> = (u32, &'a str);

const LINKED: u32 = 0;

/// The name of what is declared so.
pub(super) fn name_of(linkage: Linkage, name: &str) -> Name<'_> {
    (if linkage.linked { LINKED } else { linkage.unit }, name)
}

/// Resources used by the functions that calls lead to.
pub(super) struct Reach {
    /// Shared variables that they use, in order.
    shared: BTreeSet<u32>,
    unsupported: Arc<[Unsupported]>,
    unresolved: Arc<[String]>,
}

/// Bytes of a variable. An omitted extent is that of the initialiser.
pub(super) fn variable_bytes(variable: &Variable<'_>) -> Result<u64, SyntaxError> {
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

pub(super) fn align_of(variable: &Variable<'_>) -> u64 {
    let natural = u64::from(variable.ty.size()) * u64::from(variable.vector);
    variable.align.map_or(natural, u64::from)
}

pub(super) fn align_up(value: u64, align: u64) -> u64 {
    value.next_multiple_of(align.max(1))
}

impl<'a> Module<'a> {
    pub(super) fn declare_global(&mut self, variable: &Variable<'a>) -> Result<(), SyntaxError> {
        let name = name_of(variable.linkage, variable.name);
        if self.function_names.contains_key(&name) {
            return Err(twice(variable));
        }
        // `.extern` says that a variable is defined elsewhere, and `.weak` that another definition will do.
        match self.linkages.get(&name) {
            Some(known) if variable.linkage.external || variable.linkage.weak && !known.external => return Ok(()),
            Some(known) if !known.external && !known.weak => return Err(twice(variable)),
            _ => {}
        }
        let symbol = self.new_variable(variable)?;
        self.names.insert(name, symbol);
        self.linkages.insert(name, variable.linkage);
        Ok(())
    }

    /// The symbol of a name in the unit that is being lowered.
    pub(super) fn symbol(&self, name: &'a str) -> Option<Symbol> {
        [self.unit, LINKED].into_iter().find_map(|unit| {
            let function = || self.function_names.get(&(unit, name)).map(|index| Symbol::Function(*index));
            self.names.get(&(unit, name)).copied().or_else(function)
        })
    }

    /// A `.global`, `.const` or `.shared` variable, of the module or of a function.
    pub(super) fn new_variable(&mut self, variable: &Variable<'a>) -> Result<Symbol, SyntaxError> {
        let bytes = variable_bytes(variable)?;
        let align = align_of(variable);
        self.elements.insert(variable.name, variable.ty.size() * variable.vector);
        if variable.space == Space::Shared {
            let dynamic = variable.linkage.external;
            let name = variable.name.to_owned();
            self.shared.push(SharedVariable { name, bytes, align, dynamic });
            return Ok(Symbol::Shared(self.shared.len() as u32 - 1));
        }
        self.allowance.charge(2 * size_of::<Global>() + variable.name.len());
        self.program.globals.push(Global {
            name: variable.name.to_owned(),
            bytes,
            constant: variable.space == Space::Const,
            managed: variable.managed,
            init: Vec::new(),
            relocations: Vec::new(),
        });
        Ok(Symbol::Global(self.program.globals.len() as u32 - 1))
    }

    /// The variable that stands for the reserved part of shared memory.
    pub(super) fn reserved_shared(&mut self) -> u32 {
        let known = self.shared.iter().position(|variable| variable.name == RESERVED_NAME);
        let index = known.unwrap_or_else(|| {
            let bytes = RESERVED_SHARED.into();
            let name = RESERVED_NAME.to_owned();
            self.shared.push(SharedVariable { name, bytes, align: 16, dynamic: false });
            self.shared.len() - 1
        });
        index as u32
    }

    /// Gives a variable of the module its first contents, unless it is one that another definition replaced.
    pub(super) fn initialise(&mut self, variable: &Variable<'a>) -> Result<(), SyntaxError> {
        let name = name_of(variable.linkage, variable.name);
        let is_it = self.linkages.get(&name).is_some_and(|linkage| linkage.unit == variable.linkage.unit);
        match self.names.get(&name) {
            Some(Symbol::Global(index)) if is_it => self.initialise_global(variable, *index),
            _ => Ok(()),
        }
    }

    pub(super) fn initialise_global(&mut self, variable: &Variable<'a>, index: u32) -> Result<(), SyntaxError> {
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
        let bytes = self.program.globals[index as usize].bytes;
        let (runs, relocations) = (Vec::new(), Vec::new());
        let mut writer = InitWriter { element: variable.ty, bytes, runs, taken: 0, relocations, module: self };
        match init {
            Init::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    writer.write(item, (at as u64).saturating_mul(spans[0]), &spans[1..], variable)?;
                }
            }
            single => writer.write(single, 0, &[], variable)?,
        }
        let InitWriter { runs, taken, relocations, .. } = writer;
        self.allowance.charge(taken);
        let global = &mut self.program.globals[index as usize];
        global.init = runs;
        global.relocations = relocations;
        Ok(())
    }

    /// Resources that `called` and the functions called from there use.
    fn reach(&mut self, called: &[u32], calls_indirectly: bool) -> Result<Rc<Reach>, SyntaxError> {
        let mut key = called.to_vec();
        key.sort_unstable();
        if let Some(known) = self.reached.get(&(key.clone(), calls_indirectly)) {
            return Ok(Rc::clone(known));
        }
        let functions = &self.program.functions;
        let mut seen = vec![false; functions.len()];
        let mut found = Vec::new();
        let mut add = |functions: &mut Vec<u32>, more: &[u32]| {
            functions.extend(more.iter().filter(|at| !std::mem::replace(&mut seen[**at as usize], true)));
        };
        let mut indirect = calls_indirectly;
        add(&mut found, called);
        if indirect {
            add(&mut found, &self.callable);
        }
        let mut next = 0;
        let mut shared = BTreeSet::new();
        let mut unsupported = Vec::new();
        while let Some(&at) = found.get(next) {
            next += 1;
            let function = &functions[at as usize];
            self.allowance.charge(size_of::<u32>());
            self.allowance.check()?;
            add(&mut found, &function.calls);
            if function.calls_indirectly && !std::mem::replace(&mut indirect, true) {
                add(&mut found, &self.callable);
            }
            shared.extend(shared_of(function));
            unsupported.extend(function.unsupported.iter().cloned());
        }
        let mut unresolved = Vec::new();
        for function in found.iter().map(|at| &functions[*at as usize]).filter(|function| !function.defined) {
            let name = function.name.clone();
            if name.trim_start_matches('_').starts_with("cuda") {
                let reason = "a function of the device runtime: kernels that launch kernels (dynamic parallelism)";
                unsupported.push(Unsupported { line: 0, text: format!("call {name}"), reason: reason.to_owned() });
            } else {
                unresolved.push(name);
            }
        }
        unsupported.sort_by_key(|item| item.line);
        let names: usize = unresolved.iter().map(|name| size_of::<String>() + name.len()).sum();
        self.allowance.charge(bytes_of(&unsupported) + names + shared.len() * 2 * size_of::<u32>());
        let reach = Rc::new(Reach { shared, unsupported: unsupported.into(), unresolved: unresolved.into() });
        self.reached.insert((key, calls_indirectly), Rc::clone(&reach));
        Ok(reach)
    }

    /// The static part of shared memory: variables in order of declaration, each at its alignment; dynamic ones follow.
    pub(super) fn kernel(&mut self, function: &ast::Function<'a>) -> Result<KernelPart, SyntaxError> {
        let index = self.function_names[&name_of(function.linkage, function.name)];
        let (calls, indirectly) = {
            let own = &self.program.functions[index as usize];
            (own.calls.clone(), own.calls_indirectly)
        };
        let reach = self.reach(&calls, indirectly)?;
        let own = &self.program.functions[index as usize];
        let mut used: Vec<u32> = shared_of(own).chain(reach.shared.iter().copied()).collect();
        used.sort_unstable();
        used.dedup();
        let mut shared = HashMap::new();
        let mut static_variables = Vec::new();
        let mut top = 0;
        let mut dynamic = Vec::new();
        for at in used {
            let variable = &self.shared[at as usize];
            self.allowance.charge(2 * size_of::<(u32, StaticVariable)>() + variable.name.len());
            self.allowance.check()?;
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
        let align = dynamic.iter().map(|(_, align)| *align).max().unwrap_or(16);
        let dynamic_base = align_up(top, align).try_into().unwrap_or(u32::MAX);
        shared.extend(dynamic.into_iter().map(|(at, _)| (at, dynamic_base)));
        let mut offset = 0;
        let mut params = Vec::new();
        for param in &function.params {
            let size = variable_bytes(param)?;
            offset = align_up(offset, align_of(param));
            let element = format!(
                "{}{}",
                param.ty.name(),
                if param.vector > 1 { format!("x{}", param.vector) } else { String::new() }
            );
            let mut ty = element;
            param.dims.iter().for_each(|extent| ty += &format!("[{}]", extent.unwrap_or(0)));
            params.push(ParamInfo {
                name: param.name.to_owned(),
                offset: offset as u32,
                size: size as u32,
                align: align_of(param) as u32,
                ty,
            });
            offset += size;
        }
        let item = |span: Span, reason: &str| self.unsupported(span, reason.to_owned());
        let constants = self.program.globals.iter().filter(|global| global.constant);
        let constant_bytes = constants.fold(0, |sum: u64, global| sum.saturating_add(global.bytes));
        let mut unsupported = own.unsupported.clone();
        unsupported.extend(function.refused.iter().map(|(span, reason)| item(*span, reason)));
        // Kernels that call the same and have nothing of the kind of their own share one list.
        let unsupported = if unsupported.is_empty() {
            Arc::clone(&reach.unsupported)
        } else {
            unsupported.extend(reach.unsupported.iter().cloned());
            unsupported.sort_by_key(|item| item.line);
            self.allowance.charge(bytes_of(&unsupported));
            unsupported.into()
        };
        self.allowance.charge(size_of::<KernelPart>() + params.len() * size_of::<ParamInfo>());
        self.allowance.check()?;
        Ok(KernelPart {
            info: KernelInfo {
                name: function.name.to_owned(),
                params,
                static_shared,
                local_bytes: own.local_bytes,
                constant_bytes,
                max_threads: function.max_threads,
                max_registers: function.max_registers,
                required_threads: function.required_threads,
                unsupported,
                unresolved: Arc::clone(&reach.unresolved),
            },
            function: index,
            param_bytes: offset as u32,
            dynamic_base,
            shared,
            static_variables,
            cluster: function.cluster,
        })
    }

    /// Number of the `.file` that ends in `path`, or a new one.
    pub(super) fn file_named(&mut self, path: &str) -> u64 {
        let key = (self.unit, path.to_owned());
        if let Some(known) = self.named_files.get(&key) {
            return *known;
        }
        let files = &mut self.program.files;
        let is_it = |number: &u64| {
            number >> 32 == u64::from(self.unit)
                && files.get(number).is_some_and(|file| Path::new(file).ends_with(path))
        };
        let alike = self.files_by_name.get(last_part(path));
        let number = alike.and_then(|numbers| numbers.iter().copied().find(is_it)).unwrap_or_else(|| {
            let number = u64::MAX - self.named_files.len() as u64;
            files.insert(number, path.to_owned());
            number
        });
        self.allowance.charge(2 * (size_of::<(String, u64)>() + path.len()));
        self.named_files.insert(key, number);
        number
    }

    /// Prepares [`Self::file_named`].
    pub(super) fn index_files(&mut self) {
        const ALIKE: usize = 16;
        let mut files: Vec<(&u64, &String)> = self.program.files.iter().collect();
        files.sort_unstable();
        for (number, file) in files {
            let numbers = self.files_by_name.entry(last_part(file).to_owned()).or_default();
            if numbers.len() < ALIKE {
                numbers.push(*number);
            }
            self.allowance.charge(2 * size_of::<(String, Vec<u64>)>() + size_of::<[u64; ALIKE]>());
        }
    }

    /// Place of a name, which is a part of the text.
    pub(super) fn span_of(&self, name: &str) -> Span {
        let start = name.as_ptr() as usize - self.source.as_ptr() as usize;
        Span::new(start, start + name.len())
    }

    /// The unsupported text at `span`, with the reason.
    pub(super) fn unsupported(&self, span: Span, reason: String) -> Unsupported {
        let text = &self.source[span.start as usize..span.end as usize];
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // An item has no file: it is in the first one unless it says so.
        let file = self.texts.partition_point(|(_, start)| *start <= span.start as usize).saturating_sub(1);
        let file = self.texts.get(file).filter(|_| file != 0);
        let reason = file.map_or(reason.clone(), |(name, _)| format!("{reason}, in {name}"));
        Unsupported { line: self.lines.line(span), text, reason }
    }
}

/// The file's name at the end of a path.
fn last_part(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The shared variables that a function uses.
fn shared_of(function: &Function) -> impl Iterator<Item = u32> {
    function.constants.iter().filter_map(|constant| match constant.value {
        ConstantValue::Shared(index, _) => Some(index),
        _ => None,
    })
}

/// Bytes of host memory of the items, including an allocator's overhead for each of their texts.
fn bytes_of(items: &[Unsupported]) -> usize {
    let text = |text: &str| (text.len() + 8).next_multiple_of(16).max(32);
    items.iter().map(|item| size_of::<Unsupported>() + text(&item.text) + text(&item.reason)).sum()
}

pub(super) struct InitWriter<'m, 'a> {
    element: Scalar,
    /// Bytes of the variable.
    bytes: u64,
    /// Contiguous contents, so that a few values far apart take no more memory than their own.
    runs: Vec<(u64, Vec<u8>)>,
    /// Maximum host memory that they take.
    taken: usize,
    relocations: Vec<Relocation>,
    module: &'m Module<'a>,
}

impl<'a> InitWriter<'_, 'a> {
    /// Writes `item` at scalar number `at`; `spans` are the extents of nested braces.
    pub(super) fn write(
        &mut self,
        item: &Init<'a>,
        at: u64,
        spans: &[u64],
        variable: &Variable<'a>,
    ) -> Result<(), SyntaxError> {
        let size = u64::from(self.element.size());
        let start = at.saturating_mul(size);
        let fail = |message: String| Err(SyntaxError::new(variable.span, message));
        if !matches!(item, Init::List(_)) && start.checked_add(size).is_none_or(|end| end > self.bytes) {
            return fail(format!("`{}` has too many initialisers", variable.name));
        }
        let bits: u128 = match item {
            Init::List(items) => {
                let Some((span, rest)) = spans.split_first() else {
                    return fail(format!("the initialiser of `{}` has braces too deep", variable.name));
                };
                for (index, item) in items.iter().enumerate() {
                    self.write(item, at.saturating_add((index as u64).saturating_mul(*span)), rest, variable)?;
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
            Init::Symbol { name, offset, byte } => {
                let value = match self.module.symbol(name) {
                    Some(Symbol::Global(index)) => ConstantValue::Global(index, *offset),
                    Some(Symbol::Shared(_)) => {
                        return fail(format!("`{name}` is in shared memory, which has no address before a launch"));
                    }
                    Some(Symbol::Function(index)) => {
                        ConstantValue::Bits(function_address(index).wrapping_add(*offset as u64))
                    }
                    _ => return fail(format!("nothing is called `{name}`")),
                };
                self.relocations.push(Relocation { at: start, bytes: size as u8, byte: *byte, value });
                0
            }
        };
        let bytes = bits.to_le_bytes();
        let bytes = &bytes[..size as usize];
        match self.runs.last_mut() {
            Some((first, run)) if *first + run.len() as u64 == start => run.extend_from_slice(bytes),
            _ => self.runs.push((start, bytes.to_vec())),
        }
        self.taken += 2 * bytes.len() + size_of::<(u64, Vec<u8>)>();
        Ok(())
    }
}

/// Address of a function in a kernel: one that no memory access can use.
pub(crate) fn function_address(index: u32) -> u64 {
    FUNCTION_WINDOW + u64::from(index) * FUNCTION_BYTES
}
