//! Text from outside (names of files, photos, tensors) made safe to show.

use std::borrow::Cow;

/// `text` on one line, with every character that a terminal would obey rather than show written as an escape: a file called
/// `a<ESC>[2J.jpg` becomes `a\u{1b}[2J.jpg`. Everything else is unchanged, and text without such characters is not copied.
///
/// Escapes control characters (C0, DEL and C1), the line and paragraph separators, and the overrides of text direction that can
/// make a name read as another one.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_control)
}

/// [`printable`] for text of several lines, such as an error with a compiler's log or a table: line ends and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_control(character) && !matches!(character, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_escaped(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal obeys the character instead of showing it.
pub fn is_control(character: char) -> bool {
    // U+2028 and U+2029 separate lines; the rest are the bidirectional embeddings, overrides and isolates (Unicode UAX 9).
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_the_rest_is_not_copied() {
        let hostile = "a\u{1b}]0;owned\u{7}\r\n\t\u{7f}\u{9b}2J\u{202e}gpj\u{2066}\u{2028}.png";
        assert_eq!(printable(hostile), r"a\u{1b}]0;owned\u{7}\r\n\t\u{7f}\u{9b}2J\u{202e}gpj\u{2066}\u{2028}.png");
        let lines = printable_lines(hostile);
        assert!(lines.starts_with("a\\u{1b}]0;owned\\u{7}\\r\n\t\\u{7f}"), "{lines}");
        for plain in ["", r"C:\photos\ä→日本 👩‍💻.jpg", "שלום"] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }
}
