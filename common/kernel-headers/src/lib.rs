//! The part of `common::kernel_source!` that reads files while it is expanded: a kernel, the headers that it includes, and its PTX.
//!
//! A program embeds them for use without its sources. In a checkout it reads the files, so Cargo does not build a crate again
//! when a kernel changes, as it would for `include_str!`; an optimised build (`--release`) is meant to be taken away, and embeds
//! them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro::{TokenStream, TokenTree};

/// `kernel_headers!("kernels", "NAME")`: the headers that `kernels/NAME.cu` of the calling crate includes with quotes, straight or
/// through others, as a `&[(&str, &str)]` of names, as they stand in the `#include`, and texts. All names are relative to the
/// kernel's directory. A header that does not exist is left out: compiling the kernel reports it.
#[proc_macro]
pub fn kernel_headers(input: TokenStream) -> TokenStream {
    let mut words = Vec::new();
    literals(input, &mut words);
    let pairs: String = match words.as_slice() {
        [dir, name] => {
            let headers = headers(&root().join(dir), name);
            headers.iter().map(|(name, path)| format!("({name:?}, {}), ", embedded(path))).collect()
        }
        _ => "::core::compile_error!(\"expected a directory and a name\")".to_owned(),
    };
    format!("&[{pairs}]").parse().unwrap_or_default()
}

/// `kernel_text!("kernels", "NAME", ".cu")`: the text of a file of the calling crate, as a `&str`. The last word ends the file's name.
#[proc_macro]
pub fn kernel_text(input: TokenStream) -> TokenStream {
    let mut words = Vec::new();
    literals(input, &mut words);
    let ending = words.pop().unwrap_or_default();
    let path = words.iter().fold(root(), |path, word| path.join(word));
    embedded(&format!("{}{ending}", path.display())).parse().unwrap_or_default()
}

/// The calling crate's folder.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default().into()
}

/// An expression for a file's text. `include_str!` tells Cargo to build again when the file changes; a literal does not.
fn embedded(path: &str) -> String {
    let Ok(text) = std::fs::read_to_string(path) else {
        return format!("::core::compile_error!({:?})", format!("cannot read {path}"));
    };
    format!(
        "{{ #[cfg(debug_assertions)] const TEXT: &str = {text:?}; \
         #[cfg(not(debug_assertions))] const TEXT: &str = ::core::include_str!({path:?}); TEXT }}"
    )
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
