//! Inside each crate of the workspace, the modules at its root form no cycle: an imported module does not import its importer,
//! directly or through others. Read from the sources as text, without their tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use common::compile::ship::workspace_root;

/// The source files below a crate's `src`, by path from there with forward slashes.
type Sources = BTreeMap<String, String>;

/// Each module, its imports, and a file that has each.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_crate_has_a_circle_of_imports() {
    let root = workspace_root(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let crates = crates(&root);
    assert!(crates.len() >= 9, "{crates:?}");
    for dir in crates {
        let imports = imports(&sources(&dir.join("src")));
        if let Some(circle) = circle(&imports) {
            panic!("{}: modules import each other in a circle:\n{circle}", dir.display());
        }
    }
}

#[test]
fn a_circle_is_found_with_the_files_that_tie_it() {
    let sources =
        |files: &[(&str, &str)]| files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    let lib = "mod a;\npub mod b;\nmod c;\npub use b::Thing;\npub mod prelude {\n    pub use crate::{c::*};\n}\n";
    let circle_of = |a: &str, b: &str, c: &str| {
        let files: Sources =
            sources(&[("lib.rs", lib), ("a.rs", a), ("b/mod.rs", "mod inner;\n"), ("b/inner.rs", b), ("c.rs", c)]);
        circle(&imports(&files))
    };
    for (a, b, c) in [
        ("use crate::b::Thing;", "use crate::c;", "use crate::a::X;"),
        ("use crate::Thing;", "fn f() { super::super::c::g() }", "use super::a;"),
        ("use crate::{c, text::{b, d}};", "", "use crate::{\n    text,\n    a::{self, Y},\n};"),
        ("use crate::prelude::*;", "", "type T = crate::a::X;"),
    ] {
        let found = circle_of(a, b, c).unwrap();
        assert!(found.contains("a imports") && found.contains("c imports a (c.rs)"), "{found}");
    }
    for c in [
        "// use crate::a;",
        "macro_rules! m { () => { $crate::a::f() } }",
        "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
        "use super::c;",
        "use other_crate::a;",
    ] {
        assert_eq!(circle_of("use crate::b::Thing;", "use crate::c; use super::Thing;", c), None, "{c}");
    }
}

/// The members of the workspace, below its root.
fn crates(root: &Path) -> Vec<PathBuf> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    members
        .split(',')
        .map(|member| member.trim().trim_matches('"'))
        .filter(|member| !member.is_empty())
        .map(|member| root.join(member))
        .collect()
}

fn sources(src: &Path) -> Sources {
    let (mut sources, mut pending) = (Sources::new(), vec![src.to_owned()]);
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(src).unwrap().to_string_lossy().replace('\\', "/");
                sources.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    sources
}

/// The module at the crate's root that a file belongs to, and the depth of its own module below the root. Commands are crates of
/// their own.
fn place(file: &str) -> Option<(&str, usize)> {
    let path = file.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let root = path.split('/').next()?;
    (!["lib", "main", "bin"].contains(&root)).then(|| (root, path.split('/').count()))
}

fn imports(sources: &Sources) -> Imports {
    let lib = sources.get("lib.rs").map(|text| code(text)).unwrap_or_default();
    let modules: BTreeSet<&str> = sources.keys().filter_map(|file| Some(place(file)?.0)).collect();
    // What `crate::NAME` means, where NAME is no module with a file: the modules that its definition in `lib.rs` names.
    let meaning = |name: &str| -> BTreeSet<&str> {
        if let Some(&module) = modules.get(name) {
            return BTreeSet::from([module]);
        }
        let inline = lib.split_once(&format!("pub mod {name} {{")).and_then(|(_, rest)| rest.split_once("\n}"));
        let named: BTreeSet<String> = match inline {
            Some((body, _)) => names_below(body, "crate::").collect(),
            None => {
                let uses = lib.split(';').filter_map(|item| item.trim().strip_prefix("pub use "));
                let exports = uses.filter(|item| words(item).skip(1).any(|word| word == name));
                exports.filter_map(|item| words(item).next()).map(str::to_owned).collect()
            }
        };
        named.iter().filter_map(|name| modules.get(name.as_str()).copied()).collect()
    };
    let mut imports = Imports::new();
    for (file, text) in sources {
        let Some((module, depth)) = place(file) else { continue };
        let text = code(text);
        let by_super = "super::".repeat(depth);
        for name in names_below(&text, "crate::").chain(names_below(&text, &by_super)) {
            for other in meaning(&name).into_iter().filter(|&other| other != module) {
                imports.entry(module.to_owned()).or_default().entry(other.to_owned()).or_insert_with(|| file.clone());
            }
        }
    }
    imports
}

/// The text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).flat_map(|line| [line, "\n"]).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The first name of each path that follows `prefix`; of all paths if braces follow.
fn names_below<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = String> + 'a {
    // `$crate::…` is what a macro names where it is used.
    let inside_a_path = |c: char| c.is_alphanumeric() || "_:$".contains(c);
    text.match_indices(prefix).filter(move |(at, _)| !text[..*at].ends_with(inside_a_path)).flat_map(move |(at, _)| {
        let rest = &text[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            return words(rest).next().map(str::to_owned).into_iter().collect::<Vec<_>>();
        };
        let (mut depth, mut begins, mut names) = (1, true, Vec::new());
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                _ if begins && c.is_alphabetic() => {
                    names.extend(words(&group[at..]).next().map(str::to_owned));
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        names
    })
}

/// A cycle, if there is one: a line for each step of it.
fn circle(imports: &Imports) -> Option<String> {
    let mut rest = imports.clone();
    // Whoever imports nothing that is left is on no circle.
    loop {
        let left: BTreeSet<String> = rest.keys().cloned().collect();
        let before = rest.len();
        rest.retain(|_, others| others.keys().any(|other| left.contains(other)));
        if rest.len() == before {
            break;
        }
    }
    let mut path = vec![rest.keys().next()?.clone()];
    loop {
        let (next, _) = rest[path.last()?].iter().find(|(other, _)| rest.contains_key(*other))?;
        if let Some(begin) = path.iter().position(|module| module == next) {
            path.drain(..begin);
            path.push(next.clone());
            break;
        }
        path.push(next.clone());
    }
    let steps =
        path.windows(2).map(|step| format!("    {} imports {} ({})\n", step[0], step[1], rest[&step[0]][&step[1]]));
    Some(steps.collect())
}
