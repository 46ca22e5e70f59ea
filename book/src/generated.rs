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
//! `cargo run -p book -- --update` rewrites what stands between the markers; the build fails while it differs from what the
//! generator produces.

use std::{error::Error, ops::Range, path::Path};

use phase1_infra::broken::{self, Broken, Version};

use crate::{check::Reason, cli, figure, record, simulator};

/// Produces one kind of generated content.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The name in the markers.
    pub name: &'static str,
    /// Markdown for the workspace in the given folder and the marker's argument, which is empty if there is none. Must
    /// depend on files of the workspace only, never on the machine, or the check would fail elsewhere.
    pub produce: fn(&Path, &str) -> Produced,
}

/// Markdown, or why there is none.
pub type Produced = Result<String, Box<dyn Error + Send + Sync>>;

/// All generators of the course's book.
pub const GENERATORS: &[Generator] = &[
    Generator { name: "book-help", produce: |_, _| Ok(format!("```text\n{}\n```", cli::help().trim_end())) },
    Generator { name: "diagnostic", produce: |_, argument| diagnostic(argument) },
    Generator { name: "ptx-sim", produce: |workspace, argument| Ok(simulator::markdown(workspace, argument)?) },
    Generator { name: "record", produce: |workspace, argument| Ok(record::markdown(workspace, argument)?) },
    Generator { name: "plot", produce: |workspace, argument| Ok(record::plot(workspace, argument)?) },
    Generator { name: FIGURE, produce: |workspace, argument| Ok(figure::text(workspace, argument)?) },
];

/// What the simulator says of the broken kernel with that number or name.
fn diagnostic(wanted: &str) -> Produced {
    let entry = Broken::find(wanted).ok_or_else(|| format!("no broken kernel `{wanted}` in the gallery"))?;
    let (_, report) = entry.report(&broken::simulator(), Version::Broken)?;
    Ok(format!("```text\n{}\n```", report.trim_end()))
}

/// The generator of numbers within a sentence.
const FIGURE: &str = "figure";
/// The end of such a number.
const FIGURE_END: &str = "<!-- /figure -->";

/// One pair of markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// 1-based line of the first marker.
    pub line: usize,
    /// The generator.
    pub name: &'a str,
    /// What follows its name.
    pub argument: &'a str,
    /// Byte range of what is between them.
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
            figures(text, line, offset, &mut found)?;
        }
        offset = next;
    }
    match open {
        Some(begun) => Err((begun.line, Reason::UnpairedMarker(begun.name.to_owned()))),
        None => Ok(found),
    }
}

/// Finds the numbers within a line that begins at `offset`.
fn figures<'a>(text: &'a str, line: usize, offset: usize, found: &mut Vec<Region<'a>>) -> Result<(), (usize, Reason)> {
    let mut at = 0;
    while let Some(begin) = text[at..].find("<!--").map(|begin| at + begin) {
        let inner = begin + "<!--".len();
        let Some(length) = text[inner..].find("-->") else { break };
        at = inner + length + "-->".len();
        let Some(argument) = text[inner..inner + length].trim().strip_prefix("figure:") else { continue };
        let argument = argument.trim();
        // Markdown takes such a line for a block of HTML and shows the rest of it as written.
        if !text[..begin].contains(char::is_alphabetic) && !text[..begin].contains('|') {
            return Err((line, Reason::FigureBeginsLine(argument.to_owned())));
        }
        let Some(end) = text[at..].find(FIGURE_END).map(|end| at + end) else {
            return Err((line, Reason::UnpairedMarker(FIGURE.to_owned())));
        };
        found.push(Region { line, name: FIGURE, argument, body: offset + at..offset + end, inline: true });
        at = end + FIGURE_END.len();
    }
    Ok(())
}

/// The page with every marked part produced anew.
///
/// # Errors
/// Line and reason of the first bad marker, unknown name or failing generator.
pub fn refresh(markdown: &str, generators: &[Generator], workspace: &Path) -> Result<String, (usize, Reason)> {
    let mut fresh = String::with_capacity(markdown.len());
    let mut copied = 0;
    for region in regions(markdown)? {
        let content = content(&region, generators, workspace).map_err(|reason| (region.line, reason))?;
        fresh.push_str(&markdown[copied..region.body.start]);
        // Untouched if in step, so that a checkout with CRLF line ends stays as it is.
        if same_lines(&markdown[region.body.clone()], &content) {
            fresh.push_str(&markdown[region.body.clone()]);
        } else {
            fresh.push_str(content.trim_end());
            if !region.inline {
                fresh.push('\n');
            }
        }
        copied = region.body.end;
    }
    fresh.push_str(&markdown[copied..]);
    Ok(fresh)
}

/// Lines and reasons of the parts of a page that are out of step.
pub fn stale(markdown: &str, generators: &[Generator], workspace: &Path) -> Vec<(usize, Reason)> {
    let regions = match regions(markdown) {
        Ok(regions) => regions,
        Err(problem) => return vec![problem],
    };
    let judge = |region: Region<'_>| match content(&region, generators, workspace) {
        Ok(content) if same_lines(&markdown[region.body.clone()], &content) => None,
        Ok(_) => Some((region.line, Reason::Stale(region.title()))),
        Err(reason) => Some((region.line, reason)),
    };
    regions.into_iter().filter_map(judge).collect()
}

impl Region<'_> {
    /// As problems call it.
    fn title(&self) -> String {
        format!("{} {}", self.name, self.argument).trim_end().to_owned()
    }
}

fn content(region: &Region<'_>, generators: &[Generator], workspace: &Path) -> Result<String, Reason> {
    let name = region.name;
    let generator = generators
        .iter()
        .find(|generator| generator.name == name)
        .ok_or_else(|| Reason::UnknownGenerator(name.to_owned()))?;
    (generator.produce)(workspace, region.argument)
        .map_err(|error| Reason::GeneratorFailed { name: region.title(), error: error.to_string() })
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
        Generator { name: "two", produce: |_, _| Ok("1\n2".into()) },
        Generator { name: "broken", produce: |_, _| Err("no record".into()) },
    ];

    fn page(name: &str, body: &str) -> String {
        format!("text\n<!-- BEGIN generated: {name} -->\n{body}<!-- END generated: {name} -->\nmore\n")
    }

    #[test]
    fn refreshing_replaces_only_what_is_between_the_markers_and_is_stable() {
        let fresh = |text: &str| refresh(text, TABLE, Path::new("."));
        assert_eq!(fresh(&page("two", "old\n")), Ok(page("two", "1\n2\n")));
        assert_eq!(fresh(&page("two", "1\n2\n")), Ok(page("two", "1\n2\n")));
        assert_eq!(fresh("no markers\n"), Ok("no markers\n".to_owned()));
    }

    #[test]
    fn a_checkout_with_crlf_is_in_step() {
        let windows = page("two", "1\n2\n").replace('\n', "\r\n");
        assert_eq!(stale(&windows, TABLE, Path::new(".")), []);
        assert_eq!(refresh(&windows, TABLE, Path::new(".")), Ok(windows.clone()));
    }

    #[test]
    fn stale_unknown_failing_and_unpaired_parts_are_problems() {
        let reasons = |text: &str| stale(text, TABLE, Path::new("."));
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
