//! [`crate::ast`] to [`crate::ir`]: names become rows and offsets, opcodes become operations, branches get the places
//! where their lanes reconverge.
//!
//! | file | what it does |
//! | --- | --- |
//! | `module` | variables, their contents, and the layout of shared memory |
//! | `function` | a function's names, registers and labels |
//! | `operands` | operands as rows |
//! | `opcodes` | instructions as operations, by family |
//! | `body` | the statements of a function, and its branches when all are known |
//! | `cfg` | where lanes meet again |

mod body;
mod cfg;
mod function;
mod module;
mod opcodes;
mod operands;
mod symbols;

use std::collections::{HashMap, HashSet};

use crate::ast::{Ast, Function, Linkage};
use crate::error::SyntaxError;
use crate::ir::*;
use crate::limits::Allowance;
use crate::span::Lines;
use function::FunctionLowering;
use module::{Module, name_of};
pub use opcodes::fidelity::{Fidelity, FidelityRule};
pub(crate) use opcodes::{MNEMONICS, is_instruction, knows};

/// A module, lowered.
pub(crate) struct Lowered {
    pub program: Program,
    pub kernels: Vec<KernelPart>,
    /// Host memory that reading it took, in bytes.
    pub bytes: u64,
}

/// The path of a `.file`. Compilers write bytes beyond ASCII as a backslash and an octal number, `\303\274` for ü; any other
/// backslash is part of a Windows path.
fn file_name(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.first_chunk::<3>().filter(|_| first == b'\\').and_then(|digits| {
            let text = std::str::from_utf8(digits).ok().filter(|text| text.starts_with(['2', '3']))?;
            u8::from_str_radix(text, 8).ok()
        });
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

/// `texts`: the name of each file that the source is made of, and the byte at which it begins.
pub(crate) fn lower<'a>(
    ast: &'a Ast<'a>,
    source: &'a str,
    texts: &'a [(String, usize)],
    allowance: Allowance,
) -> Result<Lowered, SyntaxError> {
    let mut module = Module {
        names: HashMap::new(),
        linkages: HashMap::new(),
        function_names: HashMap::new(),
        unit: 0,
        bodies: ast.functions.iter().filter(|function| function.body.is_some()).map(|function| function.name).collect(),
        shared: Vec::new(),
        elements: HashMap::new(),
        program: Program::default(),
        named_files: HashMap::new(),
        files_by_name: HashMap::new(),
        texts,
        lines: Lines::new(source, texts.iter().map(|(_, start)| *start)),
        source,
        allowance,
        reached: HashMap::new(),
        formals: HashMap::new(),
        callable: Vec::new(),
    };
    module.program.files = ast.files.iter().map(|(index, path)| (*index, file_name(path))).collect();
    module.index_files();
    // A unit may declare a function without the linkage that its definition has.
    let linked = ast.functions.iter().filter(|function| function.linkage.linked);
    let linked: HashSet<(u32, &str)> = linked.map(|function| (function.linkage.unit, function.name)).collect();
    // The definition of each function: of several weak ones the first, unless there is one that is not.
    let mut definitions: Vec<Option<&'a Function<'a>>> = Vec::new();
    for function in &ast.functions {
        let count = definitions.len() as u32;
        let linked = linked.contains(&(function.linkage.unit, function.name));
        let name = name_of(Linkage { linked, ..function.linkage }, function.name);
        let index = *module.function_names.entry(name).or_insert(count);
        module.formals.insert((function.linkage.unit, index), [&function.returns, &function.params]);
        definitions.resize(definitions.len().max(index as usize + 1), None);
        let known = &mut definitions[index as usize];
        match known {
            Some(known) if known.body.is_some() && function.body.is_some() => {
                if !known.linkage.weak && !function.linkage.weak {
                    let message = format!("`{}` is defined twice", function.name);
                    return Err(SyntaxError::new(module.span_of(function.name), message));
                }
                if known.linkage.weak && !function.linkage.weak {
                    *known = function;
                }
            }
            Some(known) if function.body.is_none() || known.body.is_some() => {}
            _ => *known = Some(function),
        }
    }
    module.program.functions = vec![crate::ir::Function::default(); module.function_names.len()];
    for variable in &ast.variables {
        module.declare_global(variable)?;
    }
    for variable in &ast.variables {
        module.unit = variable.linkage.unit;
        module.initialise(variable)?;
        module.allowance.check()?;
    }
    for (index, function) in (0u32..).zip(definitions.iter().copied()) {
        if let Some(function) = function {
            module.unit = function.linkage.unit;
            FunctionLowering::run(&mut module, index, function)?;
        }
    }
    let functions = (0u32..).zip(&module.program.functions);
    module.callable =
        functions.filter(|(_, function)| function.defined && !function.kernel).map(|(index, _)| index).collect();
    let kernels = definitions
        .into_iter()
        .flatten()
        .filter(|function| function.kernel && function.body.is_some())
        .map(|function| module.kernel(function))
        .collect::<Result<_, _>>()?;
    module.allowance.check()?;
    Ok(Lowered { program: module.program, kernels, bytes: module.allowance.used() })
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn bytes_beyond_ascii_are_read_from_their_octal_numbers() {
        assert_eq!(file_name(r"/home/f\303\274r \346\227\245/a.cu"), "/home/für 日/a.cu");
        for same in ["kernels/a.cu", r"C:\204\a.cu", r"C:\101\a.cu", r"C:\kernels\3", "\\", ""] {
            assert_eq!(file_name(same), same);
        }
    }
}
