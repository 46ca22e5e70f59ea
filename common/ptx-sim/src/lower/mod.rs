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

use std::collections::HashMap;

use crate::ast::Ast;
use crate::error::SyntaxError;
use crate::ir::*;
use crate::limits::Allowance;
use crate::span::{Lines, Span};
use function::FunctionLowering;
use module::Module;
pub use opcodes::fidelity::{Fidelity, FidelityRule};
pub(crate) use opcodes::{MNEMONICS, knows};

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

pub(crate) fn lower(ast: &Ast<'_>, source: &str, allowance: Allowance) -> Result<Lowered, SyntaxError> {
    let mut module = Module {
        names: HashMap::new(),
        function_names: HashMap::new(),
        bodies: ast.functions.iter().filter(|function| function.body.is_some()).map(|function| function.name).collect(),
        shared: Vec::new(),
        elements: HashMap::new(),
        program: Program::default(),
        target: ast.target,
        lines: Lines::new(source),
        source,
        allowance,
        reached: HashMap::new(),
        callable: Vec::new(),
    };
    module.program.files = ast.files.iter().map(|(index, path)| (*index, file_name(path))).collect();
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
        module.allowance.check()?;
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
    let functions = (0u32..).zip(&module.program.functions);
    module.callable =
        functions.filter(|(_, function)| function.defined && !function.kernel).map(|(index, _)| index).collect();
    let kernels = ast
        .functions
        .iter()
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
