//! Code that a page takes from the course's sources: `{{#include PATH:ANCHOR}}`.
//!
//! In the source, `ANCHOR: name` and `ANCHOR_END: name` in comments enclose the lines. Line numbers are refused, since
//! they go wrong silently at the next edit.

use crate::problem::Reason;

/// One `{{#…}}` helper of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper<'a> {
    /// 1-based line in the page.
    pub line: usize,
    /// `include`, `title`, ….
    pub name: &'a str,
    /// Text after the name.
    pub argument: &'a str,
}

/// The helpers of a page, as mdBook would find them: in code blocks too, but not after a backslash.
pub fn helpers(markdown: &str) -> Vec<Helper<'_>> {
    let mut found = Vec::new();
    for (n, text) in markdown.lines().enumerate() {
        let mut rest = text;
        while let Some(open) = rest.find("{{") {
            let (before, after) = (&rest[..open], &rest[open + 2..]);
            // mdBook's escape reaches to the last `}}` of the line.
            if before.ends_with('\\') && after.starts_with('#') {
                break;
            }
            rest = after;
            let Some((body, tail)) = after.split_once("}}") else {
                break;
            };
            if let Some(helper) = body.trim_start().strip_prefix('#') {
                let (name, argument) = helper.split_once(char::is_whitespace).unwrap_or((helper, ""));
                found.push(Helper { line: n + 1, name, argument: argument.trim() });
                rest = tail;
            }
        }
    }
    found
}

/// Splits an include's argument into file and anchor (`None`: the whole file).
///
/// # Errors
/// [`Reason::LineNumbers`] for every line-number form.
pub fn file_and_anchor(argument: &str) -> Result<(&str, Option<&str>), Reason> {
    match argument.split_once(':') {
        None => Ok((argument, None)),
        Some((_, part)) if part.is_empty() || part.starts_with(|c: char| c == ':' || c.is_ascii_digit()) => {
            Err(Reason::LineNumbers(argument.to_owned()))
        }
        Some((file, anchor)) => Ok((file, Some(anchor))),
    }
}

/// Checks that `anchor` (`None`: the whole file) can be taken from `source`, the content of `file`.
///
/// # Errors
/// The anchor's error.
pub fn check_anchor(file: &str, source: &str, anchor: Option<&str>) -> Result<(), Reason> {
    let starts: Vec<&str> = source.lines().filter_map(|line| marker(line, "ANCHOR:")).collect();
    let file = file.to_owned();
    let Some(anchor) = anchor else {
        // mdBook removes anchor comments only from what it takes by anchor.
        return if starts.is_empty() { Ok(()) } else { Err(Reason::AnchorsWouldShow { file }) };
    };
    let name = anchor.to_owned();
    match starts.iter().filter(|&&start| start == anchor).count() {
        0 => {
            let known = starts.join(", ");
            return Err(Reason::MissingAnchor { file, anchor: name, known });
        }
        1 => {}
        _ => return Err(Reason::RepeatedAnchor { file, anchor: name }),
    }
    let mut inside = source.lines().skip_while(|line| marker(line, "ANCHOR:") != Some(anchor)).skip(1);
    let mut empty = true;
    loop {
        match inside.next() {
            None => return Err(Reason::UnclosedAnchor { file, anchor: name }),
            Some(line) if marker(line, "ANCHOR_END:") == Some(anchor) => break,
            Some(line) => {
                let comment_only = marker(line, "ANCHOR:").or(marker(line, "ANCHOR_END:")).is_some();
                empty &= comment_only || line.trim().is_empty();
            }
        }
    }
    if empty { Err(Reason::EmptyAnchor { file, anchor: name }) } else { Ok(()) }
}

/// Lines that [`check_anchor`] accepts, as mdBook shows them: each with its 1-based number in the source.
pub fn shown_lines<'a>(source: &'a str, anchor: Option<&str>) -> Vec<(usize, &'a str)> {
    let numbered = (1..).zip(source.lines());
    let Some(anchor) = anchor else { return numbered.collect() };
    let is_marker = |line| marker(line, "ANCHOR:").or(marker(line, "ANCHOR_END:")).is_some();
    numbered
        .skip_while(|(_, line)| marker(line, "ANCHOR:") != Some(anchor))
        .take_while(|(_, line)| marker(line, "ANCHOR_END:") != Some(anchor))
        .filter(|(_, line)| !is_marker(line))
        .collect()
}

/// The name after `keyword` in a line of source.
fn marker<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let name = line.split_once(keyword)?.1.trim_start();
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_found_with_their_lines_and_escapes_are_left() {
        let page = "{{#title T}}\n```cpp\n{{#include a.cu:k}}\n```\n\\{{#include b.cu}}\n{{ #include c.cu }} {{x}}\n";
        let found: Vec<_> = helpers(page).into_iter().map(|h| (h.line, h.name, h.argument)).collect();
        assert_eq!(found, [(1, "title", "T"), (3, "include", "a.cu:k"), (6, "include", "c.cu")]);
    }

    #[test]
    fn every_line_number_form_is_refused() {
        for argument in ["a.cu:5", "a.cu:5:9", "a.cu::9", "a.cu:5:", "a.cu:"] {
            assert!(matches!(file_and_anchor(argument), Err(Reason::LineNumbers(_))), "{argument}");
        }
        assert_eq!(file_and_anchor("a.cu:k5").ok(), Some(("a.cu", Some("k5"))));
        assert_eq!(file_and_anchor("a.cu").ok(), Some(("a.cu", None)));
    }

    #[test]
    fn an_anchor_must_exist_once_end_and_hold_something() {
        let good = "// ANCHOR: k\n// ANCHOR: inner\nint x;\n// ANCHOR_END: inner\n// ANCHOR_END: k\n";
        assert_eq!(check_anchor("a.cu", good, Some("k")), Ok(()));
        assert_eq!(check_anchor("a.cu", "int x;\n", None), Ok(()));

        let file = || "a.cu".to_owned();
        let anchor = || "k".to_owned();
        let missing = |known: &str| Reason::MissingAnchor { file: file(), anchor: anchor(), known: known.to_owned() };
        let cases = [
            ("int x;\n", missing("")),
            ("// ANCHOR: kernel\nint x;\n// ANCHOR_END: kernel\n", missing("kernel")),
            (
                "// ANCHOR: k\nint x;\n// ANCHOR_END: kernel\n",
                Reason::UnclosedAnchor { file: file(), anchor: anchor() },
            ),
            (
                "// ANCHOR: k\n\n// ANCHOR: j\n// ANCHOR_END: j\n// ANCHOR_END: k\n",
                Reason::EmptyAnchor { file: file(), anchor: anchor() },
            ),
            (&good.repeat(2), Reason::RepeatedAnchor { file: file(), anchor: anchor() }),
        ];
        for (source, reason) in cases {
            assert_eq!(check_anchor("a.cu", source, Some("k")), Err(reason), "{source}");
        }
        assert_eq!(check_anchor("a.cu", good, None), Err(Reason::AnchorsWouldShow { file: file() }));
    }
}
