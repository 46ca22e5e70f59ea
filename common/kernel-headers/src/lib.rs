//! The part of `common::kernel_source!` that must read a file while it is expanded: which headers a kernel includes.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro::{TokenStream, TokenTree};

/// `kernel_headers!("kernels", "NAME")`: the headers that `kernels/NAME.cu` of the calling crate includes with quotes, straight or
/// through others, as a `&[(&str, &str)]` of names, as they stand in the `#include`, and texts. All names are relative to the
/// kernel's directory. A header that does not exist is left out: compiling the kernel reports it.
#[proc_macro]
pub fn kernel_headers(input: TokenStream) -> TokenStream {
    let mut words = Vec::new();
    literals(input, &mut words);
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let pairs: String = match words.as_slice() {
        [dir, name] => headers(&Path::new(&root).join(dir), name).iter().map(|(name, path)| pair(name, path)).collect(),
        _ => "::core::compile_error!(\"expected a directory and a name\")".to_owned(),
    };
    format!("&[{pairs}]").parse().unwrap_or_default()
}

/// One element of the list. `include_str!` also tells Cargo to build again when the header changes.
fn pair(name: &str, path: &str) -> String {
    format!("({name:?}, ::core::include_str!({path:?})), ")
}

/// The string literals; a macro that passes on a literal wraps it in a group without delimiters.
fn literals(input: TokenStream, words: &mut Vec<String>) {
    for token in input {
        match token {
            TokenTree::Group(group) => literals(group.stream(), words),
            TokenTree::Literal(literal) => words.push(literal.to_string().trim_matches('"').to_owned()),
            _ => {}
        }
    }
}

/// The headers of `dir/name.cu`: name and path of each.
fn headers(dir: &Path, name: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![dir.join(name).with_extension("cu")];
    while let Some(path) = pending.pop() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix('#') else { continue };
            let Some(rest) = rest.trim_start().strip_prefix("include") else { continue };
            let Some((header, _)) = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
                continue;
            };
            let path = dir.join(header);
            if path.is_file() && found.insert(header.to_owned(), path.to_string_lossy().into_owned()).is_none() {
                pending.push(path);
            }
        }
    }
    found
}
