//! What the functions of a module share: its variables with their initial contents, and the layout of shared memory.

use std::collections::{HashMap, HashSet};

use super::symbols::Symbol;
use crate::ast::{self, Init, Space, Variable};
use crate::error::{SyntaxError, Unsupported};
use crate::ir::*;
use crate::scalar::Scalar;
use crate::span::{Lines, Span};

/// A `.shared` variable; where it stands depends on the kernel.
#[derive(Debug, Clone)]
pub(super) struct SharedVariable {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) align: u64,
    /// `.extern .shared x[]`: begins where the static variables end.
    pub(super) dynamic: bool,
    /// Declared at module scope; otherwise in the function of that index.
    pub(super) function: Option<u32>,
}

/// Bytes of shared memory that CUDA reserves per block, from compute capability 8.0 on.
pub(super) const RESERVED_SHARED: u32 = 1024;

pub(super) struct Module<'a> {
    pub(super) names: HashMap<&'a str, Symbol>,
    pub(super) function_names: HashMap<&'a str, u32>,
    /// The functions that are more than declared.
    pub(super) bodies: HashSet<&'a str>,
    pub(super) shared: Vec<SharedVariable>,
    /// Bytes of an element of each variable.
    pub(super) elements: HashMap<&'a str, u32>,
    pub(super) program: Program,
    /// The compute capability of `.target`, as 80.
    pub(super) target: u32,
    pub(super) lines: Lines,
    pub(super) source: &'a str,
}

/// Bytes a variable takes. An extent left open is that of the initialiser.
pub(super) fn size_of(variable: &Variable<'_>) -> Result<u64, SyntaxError> {
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
        let symbol = self.new_variable(variable, None)?;
        self.names.insert(variable.name, symbol);
        Ok(())
    }

    /// A `.global`, `.const` or `.shared` variable, of the module or of a function.
    pub(super) fn new_variable(
        &mut self,
        variable: &Variable<'a>,
        function: Option<u32>,
    ) -> Result<Symbol, SyntaxError> {
        let bytes = size_of(variable)?;
        let align = align_of(variable);
        self.elements.insert(variable.name, variable.ty.size() * variable.vector);
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

    /// The variable that stands for the reserved part of shared memory.
    pub(super) fn reserved_shared(&mut self) -> u32 {
        const NAME: &str = "reserved shared memory";
        let known = self.shared.iter().position(|variable| variable.name == NAME);
        let index = known.unwrap_or_else(|| {
            let bytes = RESERVED_SHARED.into();
            let name = NAME.to_owned();
            self.shared.push(SharedVariable { name, bytes, align: 16, dynamic: false, function: None });
            self.shared.len() - 1
        });
        index as u32
    }

    pub(super) fn initialise(&mut self, variable: &Variable<'a>, name: &str) -> Result<(), SyntaxError> {
        let Some(Symbol::Global(index)) = self.names.get(name).copied() else { return Ok(()) };
        self.initialise_global(variable, index)
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
    pub(super) fn kernel(&self, function: &ast::Function<'a>) -> Result<KernelPart, SyntaxError> {
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
            params.push(ParamInfo {
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
        // The header and, unless a cluster is said to be one block, what only clusters have.
        let blocks = function.cluster.map_or(1, |(_, shape)| shape.iter().product());
        let item = |span: Span, reason: &str| self.unsupported(span, reason.to_owned());
        unsupported.extend(function.refused.iter().map(|(span, reason)| item(*span, reason)));
        match function.cluster {
            Some((span, _)) if blocks != 1 => unsupported.push(item(span, &format!("clusters of {blocks} blocks"))),
            Some(_) => {}
            None => unsupported
                .extend(reaches.iter().flat_map(|function| functions[*function as usize].cluster_uses.clone())),
        }
        unsupported.sort_by_key(|item| item.line);
        Ok(KernelPart {
            info: KernelInfo {
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
            explicit_cluster: function.cluster.is_some(),
        })
    }

    /// What stands at `span` is not supported.
    pub(super) fn unsupported(&self, span: Span, reason: String) -> Unsupported {
        let text = &self.source[span.start as usize..span.end as usize];
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Unsupported { line: self.lines.line(span), text, reason }
    }
}

pub(super) struct InitWriter<'m, 'a> {
    element: Scalar,
    bytes: Vec<u8>,
    relocations: Vec<(u64, u8, ConstantValue)>,
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
    FUNCTION_WINDOW + u64::from(index) * 16
}
