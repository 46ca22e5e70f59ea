//! The sources that listings show, as pages of the rendered book: a link to a line works without a network.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use crate::{BookError, markup::escaped, read};

/// The folder of these pages in the rendered book.
pub(crate) const FOLDER: &str = "sources";

/// Sources by their names relative to the workspace, and the pages that show them.
#[derive(Clone, Debug, Default)]
pub struct Shown(BTreeMap<String, BTreeSet<String>>);

impl Shown {
    /// Records that `page` shows `file`.
    pub(crate) fn add(&mut self, file: &str, page: &str) {
        self.0.entry(file.to_owned()).or_default().insert(page.to_owned());
    }

    /// Writes a page for each source into the rendered book `output`.
    ///
    /// # Errors
    /// [`BookError::Read`] for a source, [`BookError::Write`] for its page.
    pub(crate) fn write(&self, workspace: &Path, output: &Path, repository: Option<&str>) -> Result<(), BookError> {
        for (file, pages) in &self.0 {
            let html = html(file, &read(&workspace.join(file))?, pages, repository);
            let path = output.join(address(file));
            let error = |source| BookError::Write { path: path.clone(), source };
            fs::create_dir_all(path.parent().unwrap_or(output)).and_then(|()| fs::write(&path, html)).map_err(error)?;
        }
        Ok(())
    }
}

/// The page of a source, seen from the top of the book.
pub(crate) fn address(file: &str) -> String {
    format!("{FOLDER}/{file}.html")
}

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { margin: 1rem; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
pre { font: 13px/1.5 ui-monospace, monospace; overflow-x: auto; tab-size: 4; }
[data-line]::before { content: attr(data-line); display: inline-block; width: 4ch; margin-right: 2ch; text-align: right; opacity: 0.6; }
:target { background: rgb(255 200 0 / 30%); }
@media print { pre { font-size: 8px; } }";

fn html(file: &str, source: &str, pages: &BTreeSet<String>, repository: Option<&str>) -> String {
    let up = "../".repeat(address(file).matches('/').count());
    let name = escaped(file);
    let shown: Vec<String> = pages
        .iter()
        .filter_map(|page| page.strip_suffix(".md"))
        .map(|page| format!("<a href=\"{up}{page}.html\">{page}</a>"))
        .collect();
    let there = repository.map(|url| {
        let url = escaped(url.trim_end_matches('/'));
        format!(" · <a href=\"{url}/blob/HEAD/{name}\">in the repository</a>")
    });
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{name}</title>\n\
         <style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1><code>{name}</code></h1>\n<p>Shown in {}{}</p>\n<pre>",
        shown.join(", "),
        there.unwrap_or_default()
    );
    for (number, line) in (1..).zip(source.lines()) {
        let _ = writeln!(html, "<span id=\"L{number}\" data-line=\"{number}\">{}</span>", escaped(line));
    }
    html + "</pre>\n</body>\n</html>\n"
}
