//! Parts of a page that a program writes, so that no number in the book is typed by hand.
//!
//! ```text
//! <!-- BEGIN generated: NAME ARGUMENT -->
//! …
//! <!-- END generated: NAME -->
//! ```
//! `NAME` is looked up in [`GENERATORS`]; what the argument means, if there is one, the generator says. A number within a
//! sentence has markers within its line:
//!
//! ```text
//! that is <!-- figure: phase1-infra/transfers["pinned → device" "262144" : "GB/s, events"] -->55.30<!-- /figure --> GB/s
//! ```
//! Relations between such numbers in a sentence are judged too, and a rule decides whether a prediction came true
//! ([`crate::relation`], [`crate::verdict`]):
//!
//! ```text
//! The second is faster. <!-- holds: phase2-conv-bn/gemm@sim["step=coalesced" : "sectors"] < ["step=uncoalesced"] -->
//! That is <!-- verdict: predicted 57, measured phase1-infra/transfers[…] -->as predicted<!-- /verdict -->.
//! ```
//! A relation's marker may have its own lines before or after its paragraph.
//!
//! A picture is a file of its own in `book/pictures`, which the page includes: so it is a part of the page, and takes the colours of
//! its theme, but the page stays readable.
//!
//! `cargo run -p book -- --update` rewrites the content between the markers, and the pictures; the build fails while they differ
//! from the generator's output.

use std::{
    collections::BTreeSet,
    error::Error,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use bench::gallery::{self, Gallery, Version};
use common::compile::ship;

use crate::{
    BookError,
    content::{Content, Picture, Produced},
    counters, drawing, exercise, figure, gpus, help,
    problem::Reason,
    question, record,
    record::RecordError,
    relation, simulator, verdict,
};

/// Produces one kind of generated content.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Name in the markers.
    pub name: &'static str,
    /// Content between the markers, for the workspace in the given folder and the marker's argument, which is empty if there is
    /// none. Must only depend on files of the workspace, never on the machine, or the check would fail elsewhere.
    pub produce: fn(&Path, &str) -> Produced,
}

/// All generators of the course's book.
pub const GENERATORS: &[Generator] = &[
    Generator { name: "help", produce: |_, program| help::section(program) },
    Generator { name: "diagnostic", produce: |_, argument| diagnostic(argument) },
    Generator { name: "ptx-sim", produce: |workspace, argument| Ok(simulator::content(workspace, argument)?) },
    Generator { name: "ptx", produce: |workspace, kernel| Ok(shipped(&workspace.join(kernel))?.into()) },
    Generator { name: "record", produce: |workspace, argument| Ok(record::markdown(workspace, argument)?.into()) },
    Generator { name: "plot", produce: |workspace, argument| Ok(drawing::plot::picture(workspace, argument)?.into()) },
    Generator { name: "drawing", produce: |workspace, argument| Ok(drawing::picture(workspace, argument)?.into()) },
    Generator { name: "exercise", produce: exercise::section },
    Generator { name: "exercise-picture", produce: exercise::picture },
    Generator { name: "class", produce: |workspace, _| exercise::class(workspace) },
    Generator { name: "exercises", produce: |workspace, _| exercise::table(workspace) },
    Generator { name: "question", produce: question::section },
    Generator { name: "questions", produce: |workspace, _| question::table(workspace) },
    Generator { name: "bars", produce: |workspace, argument| Ok(record::bars(workspace, argument)?.into()) },
    Generator { name: "gpus", produce: |_, _| gpus::table() },
    Generator { name: "gpus-kernels", produce: |workspace, _| gpus::kernels(workspace) },
    Generator { name: "counters", produce: |workspace, argument| Ok(counters::table(workspace, argument)?.into()) },
    Generator { name: FIGURE, produce: |workspace, argument| Ok(figure::text(workspace, argument)?.into()) },
    Generator { name: VERDICT, produce: |workspace, argument| Ok(verdict::text(workspace, argument)?.into()) },
    Generator {
        name: HOLDS,
        produce: |workspace, argument| Ok(relation::judge(workspace, argument).map(|()| String::new().into())?),
    },
];

/// The galleries of broken kernels: each by the folder of its phase, or by its command there.
const GALLERIES: [(&str, &Gallery); 3] = [
    ("phase1-infra", &phase1_infra::broken::GALLERY),
    ("phase4-fusion", &phase4_fusion::broken::GALLERY),
    ("phase4-fusion/published", &phase4_fusion::published::GALLERY),
];

/// Diagnostic of the simulator for the broken kernel with that number or name: `07` of the first gallery, `phase4-fusion/07` of
/// that one.
fn diagnostic(wanted: &str) -> Produced {
    let (gallery, kernel) = wanted.rsplit_once('/').unwrap_or((GALLERIES[0].0, wanted));
    let (_, shown) = GALLERIES.iter().find(|(name, _)| *name == gallery).ok_or_else(|| {
        let known = GALLERIES.map(|(name, _)| name).join(", ");
        format!("no gallery `{gallery}`; there are: {known}")
    })?;
    let entry = shown.find(kernel).ok_or_else(|| format!("no broken kernel `{kernel}` in the gallery {gallery}"))?;
    let (_, report) = entry.report(&gallery::simulator(), Version::Broken)?;
    Ok(format!("```text\n{}\n```", report.trim_end()).into())
}

/// The PTX that is shipped for a kernel.
fn shipped(kernel: &Path) -> common::Result<String> {
    Ok(format!("```text\n{}\n```", ship::read(kernel)?.trim_end()))
}

/// Inputs of generated parts.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// Generators that markers can name.
    pub generators: &'static [Generator],
    /// Where generators look for records and sources.
    pub workspace: PathBuf,
    /// The folder of the pages; that of the pictures is next to it.
    pub pages: PathBuf,
    /// Words of which a page's path must have one to have its generated parts made; `None`: all pages.
    pub made: Option<Vec<String>>,
}

/// The folder of the generated pictures, next to that of the pages.
const PICTURES: &str = "pictures";

impl Workshop {
    /// Whether the generated parts of `page` are made.
    pub fn makes(&self, page: &str) -> bool {
        self.made.as_ref().is_none_or(|words| words.iter().any(|word| page.contains(word.as_str())))
    }

    /// The files in the folder of pictures, as `pictures/NAME`.
    ///
    /// # Errors
    /// [`BookError::Read`] if there is one that cannot be listed.
    pub fn pictures(&self) -> Result<BTreeSet<String>, BookError> {
        let folder = self.picture("");
        let error = |source| BookError::Read { path: folder.clone(), source };
        if !folder.is_dir() {
            return Ok(BTreeSet::new());
        }
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.map(|entry| format!("{PICTURES}/{}", entry.file_name().to_string_lossy())).map_err(error)
        };
        fs::read_dir(&folder).map_err(error)?.map(name).collect()
    }

    fn picture(&self, name: &str) -> PathBuf {
        self.pages.with_file_name(PICTURES).join(name)
    }

    /// Content between the markers of a region of `page`, `None` if the current content is right; and the file of the picture
    /// that it includes.
    fn content(&self, page: &str, region: &Region<'_>) -> Result<(Option<String>, Option<PictureFile>), Reason> {
        let name = region.name;
        let generator = self.generators.iter().find(|generator| generator.name == name);
        let generator = generator.ok_or_else(|| Reason::UnknownGenerator(name.to_owned()))?;
        let content = (generator.produce)(&self.workspace, region.argument);
        let failed = |error: Box<dyn Error + Send + Sync>| {
            let (title, error_text) = (region.title(), error.to_string());
            match error.downcast_ref() {
                Some(RecordError::False(values)) => Reason::False { relation: title, values: values.clone() },
                _ if name == HOLDS => Reason::NotJudged { relation: title, error: error_text },
                _ => Reason::GeneratorFailed { name: title, error: error_text },
            }
        };
        match content.map_err(failed)? {
            Content::Text(text) if name == VERDICT && region.argument != verdict::ASKS_RULE && is_in_book(page) => {
                Ok((Some(format!("[{text}]({}{})", "../".repeat(page.matches('/').count()), verdict::RULE)), None))
            }
            Content::Text(text) => Ok((Some(text), None)),
            Content::Kept(picture) => {
                let kept = |name: String| {
                    let file = format!("{name}.svg");
                    let path = self.picture(&file);
                    let svg = fs::read_to_string(&path).unwrap_or_default();
                    PictureFile { path, name: format!("{PICTURES}/{file}"), svg }
                };
                Ok((None, picture.map(kept)))
            }
            // The README is shown as it is, without includes.
            Content::Picture(_) if page == crate::README => Err(Reason::PictureOutsideBook(region.title())),
            Content::Picture(Picture { name, class, svg, caption, folded }) => {
                // An empty line would end the block of HTML.
                let svg: String =
                    svg.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("{line}\n")).collect();
                let file = format!("{name}.svg");
                let up = "../".repeat(1 + page.matches('/').count());
                let include = format!("{{{{#include {up}{PICTURES}/{file}}}}}");
                let figure =
                    format!("<figure class=\"{class}\">\n{include}\n<figcaption>{caption}</figcaption>\n</figure>");
                let text = match folded {
                    None => figure,
                    Some(summary) => format!("<details><summary>{summary}</summary>\n\n{figure}\n\n</details>"),
                };
                let picture = PictureFile { path: self.picture(&file), name: format!("{PICTURES}/{file}"), svg };
                Ok((Some(text), Some(picture)))
            }
        }
    }
}

/// A picture and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// Path on disk.
    pub path: PathBuf,
    /// Name next to the pages' folder.
    name: String,
    /// The content.
    pub svg: String,
}

impl PictureFile {
    fn is_in_step(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|there| same_lines(&there, &self.svg))
    }
}

/// A page whose generated parts are up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// The page.
    pub text: String,
    /// The pictures of the page whose files are out of date or absent.
    pub pictures: Vec<PictureFile>,
}

/// The generator of numbers within a sentence.
const FIGURE: &str = "figure";
/// The one of verdicts on predictions.
const VERDICT: &str = "verdict";
/// The marker that judges a relation, and makes nothing.
const HOLDS: &str = "holds";

/// Start and end of an HTML comment.
const COMMENT: [&str; 2] = ["<!--", "-->"];

/// One pair of markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// 1-based line of the first marker.
    pub line: usize,
    /// The generator.
    pub name: &'a str,
    /// Text after its name.
    pub argument: &'a str,
    /// Byte range of the content.
    pub body: Range<usize>,
    /// Whether it is a part of one line.
    inline: bool,
}

/// Finds the marked parts of a page, in order.
///
/// # Errors
/// Line and reason of the first marker without a partner.
pub fn regions(markdown: &str) -> Result<Vec<Region<'_>>, (usize, Reason)> {
    let mut found = Vec::new();
    let mut open: Option<Region<'_>> = None;
    let mut offset = 0;
    for (n, text) in markdown.split_inclusive('\n').enumerate() {
        let line = n + 1;
        let next = offset + text.len();
        if let Some(begun) = marker(text, "BEGIN") {
            let (name, argument) = begun.split_once(char::is_whitespace).unwrap_or((begun, ""));
            let region = Region { line, name, argument: argument.trim(), body: next..next, inline: false };
            if let Some(before) = open.replace(region) {
                return Err((before.line, Reason::UnpairedMarker(before.name.to_owned())));
            }
        } else if let Some(name) = marker(text, "END") {
            let unpaired = || (line, Reason::UnpairedMarker(name.to_owned()));
            let mut region = open.take().filter(|begun| begun.name == name).ok_or_else(unpaired)?;
            region.body.end = offset;
            found.push(region);
        } else {
            within(text, line, offset, &mut found)?;
        }
        offset = next;
    }
    match open {
        Some(begun) => Err((begun.line, Reason::UnpairedMarker(begun.name.to_owned()))),
        None => Ok(found),
    }
}

/// Finds the markers within a line that begins at `offset`: numbers, verdicts and relations.
fn within<'a>(text: &'a str, line: usize, offset: usize, found: &mut Vec<Region<'a>>) -> Result<(), (usize, Reason)> {
    let [begins, ends] = COMMENT;
    let mut at = 0;
    while let Some(begin) = text[at..].find(begins).map(|begin| at + begin) {
        let inner = begin + begins.len();
        let unknown = |written: &str| (line, Reason::UnknownMarker(written.trim().to_owned()));
        let length = text[inner..].find(ends).ok_or_else(|| unknown(&text[inner..]))?;
        let written = &text[inner..inner + length];
        at = inner + length + ends.len();
        let (name, argument) = written.split_once(':').ok_or_else(|| unknown(written))?;
        let name = [FIGURE, VERDICT, HOLDS].into_iter().find(|known| *known == name.trim());
        let (name, argument) = (name.ok_or_else(|| unknown(written))?, argument.trim());
        let mut body = offset + at..offset + at;
        if name != HOLDS {
            // Markdown takes such a line for a block of HTML and shows the rest of it as written.
            if !without_comments(&text[..begin]).contains(|c: char| c.is_alphabetic() || c == '|') {
                return Err((line, Reason::FigureBeginsLine(format!("{name}: {argument}"))));
            }
            let end = format!("{begins} /{name} {ends}");
            let Some(length) = text[at..].find(&end) else {
                return Err((line, Reason::UnpairedMarker(name.to_owned())));
            };
            body.end += length;
            at += length + end.len();
        }
        found.push(Region { line, name, argument, body, inline: true });
    }
    Ok(())
}

/// The visible part of a line.
fn without_comments(line: &str) -> String {
    let [begins, ends] = COMMENT;
    let mut parts = line.split(begins);
    let first = parts.next().unwrap_or_default();
    parts.fold(first.to_owned(), |shown, part| shown + part.split_once(ends).map_or("", |(_, after)| after))
}

/// The lines whose markers would split a paragraph: relations on lines of their own, with text before and after. Markdown takes such a line
/// for a block of HTML.
fn splitting(markdown: &str) -> impl Iterator<Item = (usize, Reason)> {
    let is_marker = |line: &str| line.trim_start().starts_with(COMMENT[0]) && without_comments(line).trim().is_empty();
    let (mut text_before, mut markers) = (false, None);
    let lines = (1..).zip(markdown.lines());
    lines.filter_map(move |(at, line)| {
        let is_relation = is_marker(line) && line.contains(HOLDS) && marker(line, "BEGIN").is_none();
        if is_relation {
            markers = markers.or(text_before.then_some(at));
            return None;
        }
        text_before = !line.trim().is_empty() && !is_marker(line);
        let first = markers.take()?;
        text_before.then_some((first, Reason::SplitsParagraph))
    })
}

/// The rows of tables with a marker that would be cut in two: Markdown ends a cell at each `|`, even in a comment.
fn splitting_rows(markdown: &str) -> impl Iterator<Item = (usize, Reason)> {
    let [begins, ends] = COMMENT;
    let cuts = move |line: &str| {
        line.trim_start().starts_with('|')
            && line
                .split(begins)
                .skip(1)
                .any(|part| part.split(ends).next().is_some_and(|comment| comment.contains('|')))
    };
    (1..).zip(markdown.lines()).filter(move |(_, line)| cuts(line)).map(|(at, _)| (at, Reason::SplitsRow))
}

/// Whether a verdict on a page can link to the rule: the README is shown elsewhere.
fn is_in_book(page: &str) -> bool {
    page != crate::README
}

/// A page, called `page` relative to the pages' folder, with every marked part produced anew.
///
/// # Errors
/// Line and reason of the first bad marker, unknown name or failing generator.
pub fn refresh(page: &str, markdown: &str, workshop: &Workshop) -> Result<Fresh, (usize, Reason)> {
    let mut fresh = Fresh { text: String::with_capacity(markdown.len()), pictures: Vec::new() };
    let mut copied = 0;
    // What is false stays so: it is for the author to mend.
    for region in regions(markdown)?.into_iter().filter(|region| region.name != HOLDS) {
        let (content, picture) = workshop.content(page, &region).map_err(|reason| (region.line, reason))?;
        fresh.pictures.extend(picture.filter(|picture| !picture.is_in_step()));
        let text = &mut fresh.text;
        text.push_str(&markdown[copied..region.body.start]);
        // Untouched if in step, so that a checkout with CRLF line ends stays as it is.
        let there = &markdown[region.body.clone()];
        match content.filter(|content| !same_lines(there, content)) {
            None => text.push_str(there),
            Some(content) => {
                text.push_str(content.trim_end());
                if !region.inline {
                    text.push('\n');
                }
            }
        }
        copied = region.body.end;
    }
    fresh.text.push_str(&markdown[copied..]);
    Ok(fresh)
}

/// Lines and reasons of the outdated parts of a page; `shown` collects the names of its pictures.
pub fn stale(page: &str, markdown: &str, workshop: &Workshop, shown: &mut BTreeSet<String>) -> Vec<(usize, Reason)> {
    let regions = match regions(markdown) {
        Ok(regions) => regions,
        Err(problem) => return vec![problem],
    };
    let made = workshop.makes(page);
    let judge = |region: Region<'_>| match workshop.content(page, &region) {
        Ok((content, picture)) => {
            let in_step = content.is_none_or(|content| same_lines(&markdown[region.body.clone()], &content))
                && picture.as_ref().is_none_or(PictureFile::is_in_step);
            shown.extend(picture.map(|picture| picture.name));
            (!in_step).then(|| (region.line, Reason::Stale(region.title())))
        }
        Err(reason) => Some((region.line, reason)),
    };
    let mut problems: Vec<(usize, Reason)> = regions.into_iter().filter(|_| made).filter_map(judge).collect();
    problems.extend(splitting(markdown).chain(splitting_rows(markdown)).chain(unjudged(markdown)));
    problems
}

/// The lines that state by hand that something came out as predicted, in paragraphs without a relation that is judged.
fn unjudged(markdown: &str) -> Vec<(usize, Reason)> {
    let mut found = Vec::new();
    let (mut said, mut is_judged, mut in_code) = (Vec::new(), false, false);
    let end = format!("{} /{VERDICT} {}", COMMENT[0], COMMENT[1]);
    for (line, text) in (1..).zip(markdown.lines().chain([""])) {
        if text.trim().is_empty() {
            if !is_judged {
                found.extend(said.iter().map(|&line| (line, Reason::Unjudged)));
            }
            (said, is_judged) = (Vec::new(), false);
            continue;
        }
        in_code ^= text.trim_start().starts_with("```");
        is_judged |= text.contains(&format!("{} {HOLDS}:", COMMENT[0]));
        is_judged |= text.contains(&format!("{} {VERDICT}: {}", COMMENT[0], verdict::ASKS_RULE));
        // What the verdicts say themselves is not by hand.
        let by_hand = text.split(&end).map(|part| part.split(&format!("{} {VERDICT}:", COMMENT[0])).next());
        let by_hand: String = by_hand.flatten().collect();
        let is_heading = text.starts_with('#');
        if !in_code && !is_heading && verdict::says_it_came_true(&by_hand) {
            said.push(line);
        }
    }
    found
}

impl Region<'_> {
    /// Whether it is a part of one line.
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }

    /// Name in problems.
    fn title(&self) -> String {
        let colon = if self.inline && self.name == HOLDS { ":" } else { "" };
        format!("{}{colon} {}", self.name, self.argument).trim_end().to_owned()
    }
}

fn same_lines(a: &str, b: &str) -> bool {
    a.trim_end().lines().eq(b.trim_end().lines())
}

/// The name in `<!-- KIND generated: NAME -->`, if the line is that marker.
fn marker<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let inner = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    Some(inner.strip_prefix(kind)?.trim_start().strip_prefix("generated:")?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Generator] = &[
        Generator { name: "two", produce: |_, _| Ok("1\n2".to_owned().into()) },
        Generator { name: "broken", produce: |_, _| Err("no record".into()) },
    ];

    fn workshop() -> Workshop {
        Workshop { generators: TABLE, workspace: PathBuf::from("."), pages: PathBuf::from("no/pages"), made: None }
    }

    fn judged(text: &str) -> Vec<(usize, Reason)> {
        stale("page.md", text, &workshop(), &mut BTreeSet::new())
    }

    fn page(name: &str, body: &str) -> String {
        format!("text\n<!-- BEGIN generated: {name} -->\n{body}<!-- END generated: {name} -->\nmore\n")
    }

    #[test]
    fn refreshing_replaces_only_what_is_between_the_markers_and_is_stable() {
        let fresh = |text: &str| refresh("page.md", text, &workshop()).map(|fresh| fresh.text);
        assert_eq!(fresh(&page("two", "old\n")), Ok(page("two", "1\n2\n")));
        assert_eq!(fresh(&page("two", "1\n2\n")), Ok(page("two", "1\n2\n")));
        assert_eq!(fresh("no markers\n"), Ok("no markers\n".to_owned()));
    }

    #[test]
    fn a_checkout_with_crlf_is_in_step() {
        let windows = page("two", "1\n2\n").replace('\n', "\r\n");
        assert_eq!(judged(&windows), []);
        assert_eq!(refresh("page.md", &windows, &workshop()).unwrap().text, windows);
    }

    #[test]
    fn stale_unknown_failing_and_unpaired_parts_are_problems() {
        let reasons = judged;
        assert_eq!(reasons(&page("two", "1\n3\n")), [(2, Reason::Stale("two".into()))]);
        assert_eq!(reasons(&page("three", "")), [(2, Reason::UnknownGenerator("three".into()))]);
        assert!(
            matches!(&reasons(&page("broken", ""))[..], [(2, Reason::GeneratorFailed { error, .. })] if error == "no record")
        );
        for text in [
            "<!-- BEGIN generated: two -->\n",
            "<!-- END generated: two -->\n",
            "<!-- BEGIN generated: two -->\n<!-- END generated: one -->\n",
            "<!-- BEGIN generated: two -->\n<!-- BEGIN generated: two -->\n<!-- END generated: two -->\n",
        ] {
            assert!(matches!(&reasons(text)[..], [(_, Reason::UnpairedMarker(_))]), "{text}");
        }
    }
}
