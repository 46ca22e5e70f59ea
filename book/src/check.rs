//! The rules that all pages keep.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{
    BookError, formula,
    generated::{self, Workshop},
    glossary, include, outline,
    outline::{Outline, Place, line_at},
    parallel::in_parallel,
    paths::resolve,
    problem::{Problem, Reason, SUMMARY},
    read,
    rerun::Kernel,
    route::{self, Routes},
};

/// Result of [`check`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By page and line; empty for a sound book.
    pub problems: Vec<Problem>,
    /// Number of pages, without the table of contents.
    pub pages: usize,
    /// Every file that belongs to the book or should, and the folders of the pages: the paths to watch for changes.
    pub files: BTreeSet<PathBuf>,
}

/// The Markdown files below `pages`, relative to it and with `/`, sorted.
///
/// # Errors
/// [`BookError::Read`].
pub fn pages_below(pages: &Path) -> Result<Vec<String>, BookError> {
    let files = files_below(pages)?;
    Ok(files.into_iter().filter(|file| file.ends_with(".md")).collect())
}

/// Applies every rule to the pages of the workshop.
///
/// # Errors
/// [`BookError::Read`] if a page can't be read.
pub fn check(workshop: &Workshop) -> Result<Report, BookError> {
    let pages = &workshop.pages;
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
    let judge = |(page, text): &(&&str, &String)| judge(page, text, &files, &outlines, workshop);
    let pages_and_texts: Vec<(&&str, &String)> = texts.iter().collect();
    let mut shown = BTreeSet::new();
    let mut listed = BTreeSet::from([SUMMARY.to_owned()]);
    for judged in in_parallel(&pages_and_texts, judge) {
        report.problems.extend(judged.problems);
        report.files.extend(judged.files);
        shown.extend(judged.shown);
        listed.extend(judged.listed);
    }
    let orphan = |&&page: &&&str| !listed.contains(page);
    report.problems.extend(texts.keys().filter(orphan).map(|&page| Problem {
        page: page.to_owned(),
        line: 1,
        reason: Reason::Orphan,
    }));
    // The pages that are not made show some too.
    let pictures = if workshop.made.is_none() { workshop.pictures()? } else { BTreeSet::new() };
    report.problems.extend(pictures.difference(&shown).map(|picture| Problem {
        page: picture.clone(),
        line: 1,
        reason: Reason::PictureNotShown,
    }));
    if let Some(routes) = Routes::read(workshop)? {
        report.problems.extend(routes.problems(|page| texts.get(page).cloned()));
    }
    report.problems.sort_by(|a, b| (&a.page, a.line).cmp(&(&b.page, b.line)));
    Ok(report)
}

/// Results of the rules for a page.
#[derive(Default)]
struct Judged {
    problems: Vec<Problem>,
    /// Files that it includes.
    files: BTreeSet<PathBuf>,
    /// Names of its pictures.
    shown: BTreeSet<String>,
    /// Pages that the table of contents links to.
    listed: BTreeSet<String>,
}

fn judge(
    page: &str,
    text: &str,
    files: &BTreeSet<String>,
    outlines: &BTreeMap<&str, Outline>,
    workshop: &Workshop,
) -> Judged {
    let outline = &outlines[page];
    let mut judged = Judged::default();
    let mut found: Vec<(usize, Reason)> = Vec::new();
    for helper in include::helpers(text) {
        if let Err(reason) = check_helper(&helper, &workshop.pages.join(page), &mut judged.files) {
            found.push((helper.line, reason));
        }
    }
    for Place { line, text: target } in &outline.links {
        match check_link(target, page, files, outlines) {
            Ok(Some(target)) if page == SUMMARY => {
                judged.listed.insert(target);
            }
            Ok(_) => {}
            Err(reason) => found.push((*line, reason)),
        }
    }
    let undefined = |label: &Place| (label.line, Reason::UndefinedLabel(label.text.clone()));
    found.extend(outline.undefined_labels.iter().map(undefined));
    found.extend(generated::stale(page, text, workshop, &mut judged.shown));
    found.extend(formula::broken(text));
    if page == glossary::PAGE {
        found.extend(glossary::repeated(text));
    }
    if is_chapter(page) {
        found.extend(missing_parts(page, text, outline));
    }
    if page.rsplit('/').next() == Some("README.md") {
        found.push((1, Reason::Readme));
    }
    if !outline.has_body {
        found.push((1, Reason::Empty));
    }
    let problem = |(line, reason)| Problem { page: page.to_owned(), line, reason };
    judged.problems = found.into_iter().map(problem).collect();
    judged
}

fn check_helper(helper: &include::Helper<'_>, page: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), Reason> {
    match helper.name {
        "title" | glossary::INDEX | route::MAP | route::WEEKS => return Ok(()),
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
    include::check_anchor(file, &source, anchor)?;
    // How an author writes it, without the way up.
    let name = file.trim_start_matches("../");
    Kernel::of(name, &source).map(|_| ()).map_err(Reason::NoCommand)
}

/// Whether a page belongs to the course, rather than to the reference: those of the phases and of the patterns.
fn is_chapter(page: &str) -> bool {
    page.starts_with("phase") || page.starts_with("patterns/")
}

/// Missing parts of a chapter: those that every chapter has, and the rest of those that it has begun. A part's first page measures nothing,
/// so it need not ask for a prediction.
fn missing_parts(page: &str, text: &str, outline: &Outline) -> Vec<(usize, Reason)> {
    let headings = &outline.headings;
    let offset_of = |at: usize| headings.get(at).map_or(text.len(), |heading| heading.offset);
    // Line and text of a section.
    let section = |title: &str| {
        let at = headings.iter().position(|heading| heading.title == title)?;
        Some((line_at(text, offset_of(at)), &text[offset_of(at)..offset_of(at + 1)]))
    };
    let items = |text: &str, is_item: fn(&str) -> bool| text.lines().filter(|line| is_item(line)).count();
    let is_numbered = |line: &str| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());

    let head = &text[..offset_of(1)];
    let opening = head.split("\n\n").nth(1).unwrap_or_default();
    let mut lacks = Vec::new();
    if !(opening.starts_with("*You know: ") && opening.ends_with(".*")) {
        lacks.push((1, "its opening, as in `*You know: how to count.*`"));
    }
    if !head.contains('?') {
        lacks.push((1, "a question before its first section"));
    }
    if !page.ends_with("/index.md") && section("Your prediction").is_none() {
        lacks.push((1, "`Your prediction`, a section that asks for the reader's"));
    }
    if let Some((line, section)) = section("Three takeaways")
        && items(section, |line| line.starts_with("- ")) != 3
    {
        lacks.push((line, "three takeaways, each a line that begins with `- `"));
    }
    match section("Check yourself").map(|(line, section)| (line, section.split_once("<details"))) {
        None => {}
        Some((line, None)) => lacks.push((line, "answers to `Check yourself`, folded in `<details>`")),
        Some((line, Some((questions, answers)))) => {
            let (questions, answers) = (items(questions, is_numbered), items(answers, is_numbered));
            if questions == 0 || questions != answers {
                lacks.push((line, "an answer to each question, by the same number"));
            }
        }
    }
    lacks.into_iter().map(|(line, part)| (line, Reason::LacksPart(part))).collect()
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

fn with_folder(file: PathBuf) -> impl Iterator<Item = PathBuf> {
    let folder = file.parent().map(Path::to_owned);
    folder.into_iter().chain([file])
}

pub(crate) fn files_below(root: &Path) -> Result<BTreeSet<String>, BookError> {
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
