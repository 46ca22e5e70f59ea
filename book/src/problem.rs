//! Problems of the book's pages, and their messages.

use std::fmt::Write as _;

/// The table of contents, relative to the pages' folder.
pub(crate) const SUMMARY: &str = "SUMMARY.md";

/// Error in a line of a page.
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
        /// The requested anchor.
        anchor: String,
        /// The known anchors, separated by commas.
        known: String,
    },
    /// An anchor is opened but not closed.
    #[error("`{file}` opens `ANCHOR: {anchor}` but has no `ANCHOR_END: {anchor}` after it")]
    UnclosedAnchor {
        /// As written in the page.
        file: String,
        /// The requested anchor.
        anchor: String,
    },
    /// Two places in the file bear the anchor's name.
    #[error("`{file}` has more than one `ANCHOR: {anchor}`")]
    RepeatedAnchor {
        /// As written in the page.
        file: String,
        /// The requested anchor.
        anchor: String,
    },
    /// Nothing stands between an anchor and its end.
    #[error("`ANCHOR: {anchor}` in `{file}` encloses no lines")]
    EmptyAnchor {
        /// As written in the page.
        file: String,
        /// The requested anchor.
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
    /// A kernel for which the book can't tell the reader how to run it.
    #[error("no command runs `{0}`: write `// run: PART`, `// run: test FILE` or `// run: broken NUMBER` in its head")]
    NoCommand(String),
    /// A formula that is not LaTeX, or uses what is not supported.
    #[error("cannot render the formula `{latex}`: {error}")]
    Formula {
        /// Formula without its dollars.
        latex: String,
        /// The reason.
        error: String,
    },
    /// Two rows of the glossary for one term.
    #[error("the glossary has `{0}` twice: tell them apart in parentheses, as in `stage (of a pipeline)`")]
    RepeatedTerm(String),
    /// A helper that the checker doesn't know.
    #[error("`{{{{#{0}}}}}` is not used in this book: `include`, `title` and `concepts` are")]
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
        /// Text after `#`.
        fragment: String,
    },
    /// A reference-style link without its definition.
    #[error("`[…][{0}]` has no definition `[{0}]: …`")]
    UndefinedLabel(String),
    /// A chapter in the table of contents without a page.
    #[error("a chapter without a page: list it when it is written")]
    Draft,
    /// A page that the table of contents doesn't list.
    #[error("not listed in {SUMMARY}, so no reader will find it")]
    Orphan,
    /// mdBook renames `README.md` to `index.html` but not the links to it.
    #[error("mdBook would rename this page and not the links to it: call it index.md")]
    Readme,
    /// A page with headings only.
    #[error("an empty page")]
    Empty,
    /// A chapter of the course without something that every chapter has.
    #[error("the chapter lacks {0}")]
    LacksPart(&'static str),
    /// Generated content that is out of date with its source.
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
    /// A relation that does not hold.
    #[error("`{relation}` is false: {values}")]
    False {
        /// As written.
        relation: String,
        /// Both sides.
        values: String,
    },
    /// A relation that cannot be judged: it is malformed, or names something that does not exist.
    #[error("cannot judge `{relation}`: {error}")]
    NotJudged {
        /// As written.
        relation: String,
        /// The reason.
        error: String,
    },
    /// A relation on a line of its own within a paragraph.
    #[error("this marker would split its paragraph: put it at the end of a line, or before or after the paragraph")]
    SplitsParagraph,
    /// A marker in a table whose text would end a cell.
    #[error("a `|` in a marker ends its cell, and the row shows the marker's text: name the column by its key")]
    SplitsRow,
    /// A verdict on a prediction that was typed in.
    #[error(
        "`as predicted` by hand: use `verdict: predicted …, measured …`, or state what came true in a `holds: …` beside it"
    )]
    Unjudged,
    /// A comment that is not a marker.
    #[error("`{0}` is no marker within a line: figure:, verdict: and holds: are, each with its end in the same line")]
    UnknownMarker(String),
    /// A number's marker where Markdown would take the line for HTML.
    #[error("`{0}` begins its line, so that Markdown would show the line as written: let a word come first")]
    FigureBeginsLine(String),
    /// A generated picture on a page whose source shows it to others than this book's readers.
    #[error("`{0}` makes a picture, which only pages of the book can show")]
    PictureOutsideBook(String),
    /// A page whose opening links to one that the reader has not met.
    #[error("`You know:` links to `{0}`, which is not before this page in the table of contents")]
    ComesLater(String),
    /// A page of the weekend that needs one which is not a part of it.
    #[error("`You know:` links to `{0}`, which is not a part of the weekend as this page is")]
    NotOnWeekend(String),
    /// A weekend that takes longer than it may.
    #[error("the weekend takes {minutes} minutes: more than {hours} hours")]
    LongWeekend {
        /// Sum of its pages.
        minutes: usize,
        /// Its bound.
        hours: usize,
    },
    /// A file in the folder of generated pictures that no page shows.
    #[error("no page shows this picture: delete it")]
    PictureNotShown,
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

/// A broken rule and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{page}:{line}: {reason}")]
pub struct Problem {
    /// The page, relative to the pages' folder, or the source, relative to the workspace; with `/`.
    pub page: String,
    /// 1-based.
    pub line: usize,
    /// The reason.
    pub reason: Reason,
}

/// Problems as the command prints them: a count, then one per line.
pub fn listing(problems: &[Problem]) -> String {
    let s = if problems.len() == 1 { "" } else { "s" };
    let mut text = format!("{} problem{s} in the book's pages", problems.len());
    for problem in problems {
        // Writing to a String can't fail.
        let _ = write!(text, "\n  {problem}");
    }
    text
}
