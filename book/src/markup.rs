//! Small edits of Markdown and HTML that several modules make.

use std::ops::Range;

/// The text with its parts replaced, which don't overlap.
pub(crate) fn edited(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    for (range, replacement) in edits {
        result.push_str(&text[at..range.start]);
        result.push_str(&replacement);
        at = range.end;
    }
    result + &text[at..]
}

/// Text between tags or in an attribute.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
