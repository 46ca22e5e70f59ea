//! The parts of PTX text that a launch needs: its kernels, their parameters, and its constants.
//!
//! A scan for `.entry` lists, not a parser: it works on the output of any NVRTC, also where the simulator does not know every
//! instruction (PTX ISA, "Kernel and Function Directives: .entry").

use std::collections::HashMap;

/// A kernel's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, unmangled by `extern "C"`.
    pub name: String,
    /// In order.
    pub params: Vec<Param>,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Type in PTX: `u64` (a pointer too), `f32`, `b8[16]` for a struct of 16 bytes.
    pub ty: String,
    /// Size.
    pub bytes: u32,
}

/// All kernels that `ptx` defines, in order. Text that is not PTX has none.
pub(crate) fn entries(ptx: &str) -> Vec<Entry> {
    let text = without_comments(ptx);
    let mut entries: Vec<Entry> = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(".entry") {
        rest = &rest[at + ".entry".len()..];
        // `.entry name ( params ) directives { body }`, or `;` after a declaration.
        let Some(end) = rest.find(['{', ';']) else {
            break;
        };
        let head = &rest[..end];
        rest = &rest[end..];
        let (name, params) = match head.split_once('(') {
            Some((name, params)) => (name.trim(), params.split(')').next().unwrap_or_default()),
            None => (head.split_whitespace().next().unwrap_or_default(), ""),
        };
        if name.is_empty() || entries.iter().any(|entry| entry.name == name) {
            continue;
        }
        entries.push(Entry { name: name.to_owned(), params: params.split(',').filter_map(param).collect() });
    }
    entries
}

/// `.param .align 8 .b8 name[16]` or `.param .u64 .ptr .global .align 4 name`.
fn param(text: &str) -> Option<Param> {
    let text = text.trim().strip_prefix(".param")?;
    let scalar = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('.'))
        .find_map(|word| Some((word, scalar_bytes(word)?)));
    let (ty, bytes) = scalar?;
    match text.split_once('[') {
        Some((_, length)) => {
            let length: u32 = length.split(']').next()?.trim().parse().ok()?;
            Some(Param { ty: format!("{ty}[{length}]"), bytes: bytes * length })
        }
        None => Some(Param { ty: ty.to_owned(), bytes }),
    }
}

/// The integer constants that `ptx` defines, by symbol. NVRTC writes down every `constexpr int` of a file, and of each struct that
/// it has instantiated, whether a kernel needs it in memory or not: `.global .align 4 .u32 _ZN5Large2BME = 128;`.
pub(crate) fn constants(ptx: &str) -> HashMap<String, i64> {
    let constant = |line: &str| {
        let (declaration, value) = line.strip_prefix(".global ")?.split_once(" = ")?;
        let value = value.strip_suffix(';')?.parse().ok()?;
        Some((declaration.split_whitespace().next_back()?.to_owned(), value))
    };
    ptx.lines().filter_map(constant).collect()
}

/// The symbol of a constant named as in C++: `BM`, `Large::BM`, `Geometry<Large>::THREADS` (Itanium C++ ABI, 5.1 "External
/// Names").
pub(crate) fn symbol(name: &str) -> String {
    fn part(name: &str) -> String {
        match name.split_once('<') {
            Some((template, argument)) => {
                format!("{}{template}I{}E", template.len(), part(argument.trim_end_matches('>')))
            }
            None => format!("{}{name}", name.len()),
        }
    }
    if name.contains("::") {
        format!("_ZN{}E", name.split("::").map(part).collect::<String>())
    } else {
        name.to_owned()
    }
}

fn scalar_bytes(ty: &str) -> Option<u32> {
    match ty {
        "u8" | "s8" | "b8" => Some(1),
        "u16" | "s16" | "b16" | "f16" | "bf16" => Some(2),
        "u32" | "s32" | "b32" | "f32" | "f16x2" | "bf16x2" => Some(4),
        "u64" | "s64" | "b64" | "f64" => Some(8),
        "b128" => Some(16),
        _ => None,
    }
}

fn without_comments(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut rest = ptx;
    while let Some(at) = rest.find('/') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        rest = if from.starts_with("//") {
            from.find('\n').map_or("", |end| &from[end..])
        } else if from.starts_with("/*") {
            out.push(' ');
            from.find("*/").map_or("", |end| &from[end + 2..])
        } else {
            out.push('/');
            &from[1..]
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_by_their_names_in_cpp() {
        let ptx = "
.version 9.0
.global .align 4 .u32 BM = 64;
.global .align 4 .u32 _ZN5Large2BME = 128;
.global .align 4 .s32 _ZN8GeometryI5LargeE7THREADSE = -1;
.global .align 4 .b8 table[8] = {4, 0, 0, 0, 32};
.global .align 4 .u32 undefined;
.const .align 4 .u32 other = 3;
";
        let constants = constants(ptx);
        let value = |name| constants.get(&symbol(name)).copied();
        assert_eq!(value("BM"), Some(64));
        assert_eq!(value("Large::BM"), Some(128));
        assert_eq!(value("Geometry<Large>::THREADS"), Some(-1));
        assert_eq!(constants.len(), 3);
    }

    #[test]
    fn entries_are_found_among_comments_functions_and_directives() {
        let ptx = r#"
            // .entry in_a_comment(.param .u32 x)
            .version 9.0
            .target sm_90 /* .entry another() {} */
            .func (.param .b32 r) helper(.param .b32 a) { ret; }
            .visible .entry add(
                .param .u64 .ptr .global .align 4 add_param_0,
                .param .u32 add_param_1, // n
                .param .align 8 .b8 add_param_2[24]
            )
            .maxntid 256, 1, 1
            { .reg .b32 %r<3>; ret; }
            .entry bare { ret; }
            .visible .entry none()
            { ret; }
        "#;
        let entries = entries(ptx);
        let shown: Vec<_> = entries
            .iter()
            .map(|entry| {
                let params = entry.params.iter().map(|p| format!("{}:{}", p.ty, p.bytes));
                format!("{}({})", entry.name, params.collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(shown, ["add(u64:8 u32:4 b8[24]:24)", "bare()", "none()"]);
        assert_eq!(super::entries("no PTX at all / .entry"), []);
    }
}
