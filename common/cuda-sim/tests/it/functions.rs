//! The README's table of functions, which follows from the sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- BEGIN functions -->\n";
const END: &str = "<!-- END functions -->";

/// Names of the API's functions in a chapter: of those that it defines, or lists as unsupported.
fn names(source: &str, prefix: &str) -> BTreeSet<String> {
    let words = source.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let mut before = "";
    let mut names = BTreeSet::new();
    let is_list = source.contains("unsupported! {");
    for word in words.filter(|word| !word.is_empty()) {
        // Names that a macro gives a function besides its own are its versions.
        let is_name =
            word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()));
        if is_name && (before == "fn" || is_list) {
            names.insert(word.split("_v").next().unwrap_or(word).to_owned());
        }
        before = word;
    }
    names
}

fn table(folder: &Path, prefix: &str) -> String {
    let mut chapters: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    chapters.sort_by_key(|path| (path.ends_with("unsupported.rs"), path.clone()));
    let mut table = "| chapter | functions |\n| --- | --- |\n".to_owned();
    for path in chapters {
        let names = names(&std::fs::read_to_string(&path).unwrap(), prefix);
        let chapter = path.file_stem().unwrap().to_str().unwrap().replace('_', " ");
        let chapter = if chapter == "unsupported" { "**not supported**".to_owned() } else { chapter };
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
            writeln!(table, "| {chapter} | {} |", names.join(" ")).unwrap();
        }
    }
    table
}

/// `UPDATE_README=1` writes it.
#[test]
fn the_readme_has_every_function() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [driver, runtime] =
        [("driver", "cu"), ("runtime", "cuda")].map(|(api, prefix)| table(&root.join("src").join(api), prefix));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (now, after) = rest.split_once(END).unwrap();
    let new = format!("\n### Driver API\n\n{driver}\n### Runtime API\n\n{runtime}\n");
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(root.join("README.md"), format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
        return;
    }
    assert!(now == new, "UPDATE_README=1 cargo test -p cuda-sim --test it functions::");
}
