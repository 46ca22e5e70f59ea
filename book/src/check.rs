//! The rules that all pages keep, and what is said when one doesn't.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    BookError,
    generated::{self, Generator},
    include, outline,
    outline::{Outline, Place},
    read,
};

/// The table of contents, relative to the pages' folder.
const SUMMARY: &str = "SUMMARY.md";

/// What is wrong with a line of a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// An include names a file that can't be read.
    #[error("cannot include `{file}`: {error}")]
    MissingFile {
        /// As written in the page.
        file: String,
        /// The system's reason.
        error: String,
    },
    /// An include names an anchor that the file lacks.
    #[error("`{file}` has no `ANCHOR: {anchor}` {there}", there = anchors_there(.known))]
    MissingAnchor {
        /// As written in the page.
        file: String,
        /// The anchor asked for.
        anchor: String,
        /// The anchors there are, separated by commas.
        known: String,
    },
    /// An anchor is opened but not closed.
    #[error("`{file}` opens `ANCHOR: {anchor}` but has no `ANCHOR_END: {anchor}` after it")]
    UnclosedAnchor {
        /// As written in the page.
        file: String,
        /// The anchor asked for.
        anchor: String,
    },
    /// Two places in the file bear the anchor's name.
    #[error("`{file}` has more than one `ANCHOR: {anchor}`")]
    RepeatedAnchor {
        /// As written in the page.
        file: String,
        /// The anchor asked for.
        anchor: String,
    },
    /// Nothing stands between an anchor and its end.
    #[error("`ANCHOR: {anchor}` in `{file}` encloses no lines")]
    EmptyAnchor {
        /// As written in the page.
        file: String,
        /// The anchor asked for.
        anchor: String,
    },
    /// A whole file is included although it has anchor comments, which the reader would see.
    #[error("`{file}` has ANCHOR comments, which would show: include it by anchor")]
    AnchorsWouldShow {
        /// As written in the page.
        file: String,
    },
    /// An include by line numbers.
    #[error("`{0}` includes by line numbers, which drift at the next edit: use an anchor")]
    LineNumbers(String),
    /// Markdown is included, whose links and headings would go unchecked.
    #[error("`{0}` is Markdown: write it in the page, where its links are checked")]
    IncludedMarkdown(String),
    /// A helper that the checker doesn't know.
    #[error("`{{{{#{0}}}}}` is not used in this book: `include` and `title` are")]
    UnknownHelper(String),
    /// A link to a page or file that is not in the book.
    #[error("link to `{0}`: no such file in the book{hint}", hint = html_hint(.0))]
    MissingTarget(String),
    /// A link that leaves the pages' folder, so that it breaks once rendered.
    #[error("link to `{0}` leaves the book: readers of the rendered pages can't follow it")]
    LeavesBook(String),
    /// A link to a heading or id that its page lacks.
    #[error("link to `{target}`: {page} has no heading or id `{fragment}`")]
    MissingHeading {
        /// As written in the page.
        target: String,
        /// The page it leads to.
        page: String,
        /// What follows `#`.
        fragment: String,
    },
    /// A reference-style link without its definition.
    #[error("`[…][{0}]` has no definition `[{0}]: …`")]
    UndefinedLabel(String),
    /// A chapter in the table of contents without a page.
    #[error("a chapter without a page: list it when it is written")]
    Draft,
    /// A page that the table of contents doesn't list.
    #[error("not listed in {SUMMARY}, so nobody will find it")]
    Orphan,
    /// mdBook renames `README.md` to `index.html` but not the links to it.
    #[error("mdBook would rename this page and not the links to it: call it index.md")]
    Readme,
    /// A page with headings only.
    #[error("an empty page")]
    Empty,
    /// Generated content that its source has outrun.
    #[error("generated part `{0}` is out of date: run `cargo run -p book -- --update`")]
    Stale(String),
    /// A marker with a name that no generator bears.
    #[error("no generator is called `{0}`: see GENERATORS in book/src/generated.rs")]
    UnknownGenerator(String),
    /// A generator that could not produce its content.
    #[error("cannot generate `{name}`: {error}")]
    GeneratorFailed {
        /// The generator.
        name: String,
        /// Its reason.
        error: String,
    },
    /// A number's marker where Markdown would take the line for HTML.
    #[error("`figure: {0}` begins its line, so that Markdown would show the line as written: let a word come first")]
    FigureBeginsLine(String),
    /// A marker of generated content without its partner.
    #[error("generated part `{0}` lacks its BEGIN or END marker")]
    UnpairedMarker(String),
}

fn anchors_there(known: &str) -> String {
    match known {
        "" => "(it has no anchors)".to_owned(),
        known => format!("(it has: {known})"),
    }
}

fn html_hint(target: &str) -> &'static str {
    if target.contains(".html") { " (link to the page's .md file)" } else { "" }
}

/// A broken rule and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{page}:{line}: {reason}")]
pub struct Problem {
    /// The page, relative to the pages' folder, with `/`.
    pub page: String,
    /// 1-based.
    pub line: usize,
    /// What is wrong.
    pub reason: Reason,
}

/// What [`check`] found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By page and line; empty for a sound book.
    pub problems: Vec<Problem>,
    /// How many pages there are, the table of contents not counted.
    pub pages: usize,
    /// Every file that the book is made of or should be, and the folders of the pages: what to watch for changes.
    pub files: BTreeSet<PathBuf>,
}

/// Problems as the command prints them: one a line after a count.
pub fn listing(problems: &[Problem]) -> String {
    let s = if problems.len() == 1 { "" } else { "s" };
    let mut text = format!("{} problem{s} in the book's pages", problems.len());
    for problem in problems {
        // Writing to a String can't fail.
        let _ = write!(text, "\n  {problem}");
    }
    text
}

/// The Markdown files below `pages`, relative to it and with `/`, sorted.
///
/// # Errors
/// [`BookError::Read`].
pub fn pages_below(pages: &Path) -> Result<Vec<String>, BookError> {
    let files = files_below(pages)?;
    Ok(files.into_iter().filter(|file| file.ends_with(".md")).collect())
}

/// Applies every rule to the pages below `pages`; generators read from `workspace`.
///
/// # Errors
/// [`BookError::Read`] if a page can't be read.
pub fn check(pages: &Path, workspace: &Path, generators: &[Generator]) -> Result<Report, BookError> {
    let files = files_below(pages)?;
    let mut texts = BTreeMap::new();
    for page in files.iter().filter(|file| file.ends_with(".md")) {
        texts.insert(page.as_str(), read(&pages.join(page))?);
    }
    let outlines: BTreeMap<&str, Outline> = texts.iter().map(|(&page, text)| (page, outline::outline(text))).collect();

    let mut report = Report {
        pages: texts.keys().filter(|&&page| page != SUMMARY).count(),
        files: files.iter().flat_map(|file| with_folder(pages.join(file))).collect(),
        ..Report::default()
    };
    let mut listed = BTreeSet::from([SUMMARY.to_owned()]);
    for (&page, text) in &texts {
        let outline = &outlines[page];
        let mut found: Vec<(usize, Reason)> = Vec::new();
        for helper in include::helpers(text) {
            if let Err(reason) = check_helper(&helper, &pages.join(page), &mut report.files) {
                found.push((helper.line, reason));
            }
        }
        for Place { line, text: target } in &outline.links {
            match check_link(target, page, &files, &outlines) {
                Ok(Some(target)) if page == SUMMARY => {
                    listed.insert(target);
                }
                Ok(_) => {}
                Err(reason) => found.push((*line, reason)),
            }
        }
        let undefined = |label: &Place| (label.line, Reason::UndefinedLabel(label.text.clone()));
        found.extend(outline.undefined_labels.iter().map(undefined));
        found.extend(generated::stale(text, generators, workspace));
        if page.rsplit('/').next() == Some("README.md") {
            found.push((1, Reason::Readme));
        }
        if !outline.has_body {
            found.push((1, Reason::Empty));
        }
        let problem = |(line, reason)| Problem { page: page.to_owned(), line, reason };
        report.problems.extend(found.into_iter().map(problem));
    }
    let orphan = |&&page: &&&str| !listed.contains(page);
    report.problems.extend(texts.keys().filter(orphan).map(|&page| Problem {
        page: page.to_owned(),
        line: 1,
        reason: Reason::Orphan,
    }));
    report.problems.sort_by(|a, b| (&a.page, a.line).cmp(&(&b.page, b.line)));
    Ok(report)
}

fn check_helper(helper: &include::Helper<'_>, page: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), Reason> {
    match helper.name {
        "title" => return Ok(()),
        "include" => {}
        other => return Err(Reason::UnknownHelper(other.to_owned())),
    }
    let (file, anchor) = include::file_and_anchor(helper.argument)?;
    if file.ends_with(".md") {
        return Err(Reason::IncludedMarkdown(file.to_owned()));
    }
    let path = page.parent().unwrap_or(page).join(file);
    let source = fs::read_to_string(&path);
    files.insert(path);
    let source = source.map_err(|error| Reason::MissingFile { file: file.to_owned(), error: error.to_string() })?;
    include::check_anchor(file, &source, anchor)
}

/// Checks one link of `page` and returns the page that it leads to, if it leads to one.
fn check_link(
    target: &str,
    page: &str,
    files: &BTreeSet<String>,
    outlines: &BTreeMap<&str, Outline>,
) -> Result<Option<String>, Reason> {
    if has_scheme(target) {
        return Ok(None);
    }
    if target.is_empty() {
        return Err(if page == SUMMARY { Reason::Draft } else { Reason::MissingTarget(String::new()) });
    }
    let (path, fragment) = match target.split_once('#') {
        Some((path, fragment)) => (path, Some(fragment)),
        None => (target, None),
    };
    let file = if path.is_empty() {
        page.to_owned()
    } else {
        resolve(page, path).ok_or_else(|| Reason::LeavesBook(target.to_owned()))?
    };
    // Names are compared with the listing, not asked of the disk: case counts on every system.
    if !files.contains(&file) {
        return Err(Reason::MissingTarget(target.to_owned()));
    }
    let Some(outline) = outlines.get(file.as_str()) else {
        return Ok(None);
    };
    match fragment {
        Some(fragment) if !outline.ids.contains(fragment) => {
            Err(Reason::MissingHeading { target: target.to_owned(), fragment: fragment.to_owned(), page: file })
        }
        _ => Ok(Some(file)),
    }
}

/// Whether a link starts with `https:`, `mailto:` or the like.
fn has_scheme(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    })
}

/// `path` seen from `page`, both with `/` and relative to the pages' folder; `None` if it leaves that folder.
fn resolve(page: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn with_folder(file: PathBuf) -> impl Iterator<Item = PathBuf> {
    let folder = file.parent().map(Path::to_owned);
    folder.into_iter().chain([file])
}

fn files_below(root: &Path) -> Result<BTreeSet<String>, BookError> {
    let mut files = BTreeSet::new();
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let error = |source| BookError::Read { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Editors' lock files and the like.
            if name.starts_with('.') {
                continue;
            }
            let name = format!("{prefix}{name}");
            if entry.file_type().map_err(error)?.is_dir() {
                folders.push((entry.path(), format!("{name}/")));
            } else {
                files.insert(name);
            }
        }
    }
    Ok(files)
}
