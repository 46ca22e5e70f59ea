//! Names of symbols as CUDA C++ has them.

use cpp_demangle::{DemangleOptions, Symbol};

/// Characters of a kernel's name that a title shows. A template's arguments may fill pages.
const MAX_KERNEL_NAME: usize = 100;

/// A symbol as declared in the source, with types and parameters: `void scale<float>(float*)` for `_Z5scaleIfEvPT_`.
#[must_use]
pub fn demangled(name: &str) -> String {
    written(name, &DemangleOptions::new())
}

/// A kernel's name as written in the source, without parameters, for titles and tables: `scale<float>` for
/// `_Z5scaleIfEvPT_`; cut after 100 characters.
#[must_use]
pub fn kernel_name(name: &str) -> String {
    let name = written(name, &DemangleOptions::new().no_params().no_return_type());
    match name.char_indices().nth(MAX_KERNEL_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

fn written(name: &str, options: &DemangleOptions) -> String {
    let symbol = Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle_with_options(options).ok()).unwrap_or_else(|| name.to_owned())
}

/// The name that a variable of a function has in CUDA C++: `tile` for `_ZZ6reduceE4tile`.
pub(crate) fn variable_name(name: &str) -> &str {
    let digits = |at: usize| name[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
    let names = |at: &usize| {
        let count = digits(*at);
        (1..=count).any(|count| name[at - count..*at].parse() == Ok(name.len() - at))
    };
    let found = name.starts_with("_ZZ").then(|| (1..name.len()).find(names)).flatten();
    found.map_or(name, |at| &name[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_a_kernel_as_its_source_does() {
        assert_eq!(kernel_name("_Z5scaleIfEvPT_f"), "scale<float>");
        assert_eq!(kernel_name("_Z3addPKfS0_Pfi"), "add");
        assert_eq!(kernel_name("add_f32"), "add_f32");
        assert_eq!(demangled("_Z5scaleIfEvPT_f"), "void scale<float>(float*, float)");
        let long = format!("_Z200{}v", "a".repeat(200));
        assert_eq!(kernel_name(&long), format!("{}…", "a".repeat(100)));
    }
}
