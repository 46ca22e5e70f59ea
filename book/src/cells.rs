//! Where a browser may break the lines of a table's cells: a row's short name stays on one line, and a path or a counter's long name
//! may break after its slashes and underscores, so that it doesn't push the next columns off the page. Sentences that a record broke for a
//! terminal's width run on; what it lists, one word to a line, stays a list.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::{
    formula::WITH_MATH,
    markup::{edited, escaped},
};

/// Length of a row's name that is not broken, in characters.
const SHORT: usize = 18;

/// Length of a word that may be broken, in characters.
const LONG: usize = 28;

/// The page, with those places marked.
pub(crate) fn broken(markdown: &str) -> String {
    let mut edits = Vec::new();
    // The column, and the first cell's parts and letters.
    let mut column = None;
    let (mut name, mut letters) = (Vec::new(), 0);
    let mut line = String::new();
    for (event, range) in Parser::new_ext(markdown, WITH_MATH).into_offset_iter() {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => column = Some(0),
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => column = None,
            Event::End(TagEnd::TableCell) => {
                if column == Some(0) && letters <= SHORT {
                    edits.append(&mut name);
                }
                (name, letters) = (Vec::new(), 0);
                line.clear();
                column = column.map(|column| column + 1);
            }
            Event::Text(text) if column.is_some() => {
                letters += text.chars().count();
                line.push_str(&text);
                let source = &markdown[range.clone()];
                if text.chars().count() > LONG && text.contains('/') && !text.contains(' ') {
                    edits.push((range, source.replace('/', "/<wbr>")));
                } else if column == Some(0) && source.contains(' ') {
                    name.push((range, source.replace(' ', "\u{a0}")));
                }
            }
            Event::Code(code) if column.is_some() => {
                letters += code.chars().count();
                if code.chars().count() > LONG && !code.contains(' ') {
                    edits.push((range, breakable(&code)));
                }
            }
            Event::InlineHtml(tag) if column.is_some() && &*tag == "<br>" => {
                if line.contains(' ') || line.ends_with(',') {
                    edits.push((range, " ".to_owned()));
                }
                line.clear();
            }
            _ => {}
        }
    }
    edited(markdown, edits)
}

/// Code that breaks after slashes, dots and underscores.
fn breakable(code: &str) -> String {
    let mut html = "<code>".to_owned();
    for part in code.split_inclusive(['/', '.', '_']) {
        // A double underscore is one place.
        if html.ends_with(['/', '.']) || (html.ends_with('_') && part != "_") {
            html.push_str("<wbr>");
        }
        html.push_str(&escaped(part).replace('|', "&#124;"));
    }
    html + "</code>"
}

#[cfg(test)]
mod tests {
    use super::broken;

    const RULE: &str = "| --- | --- |";

    fn row(cells: &str) -> String {
        let page = broken(&format!("1 and 2\n\n| a b | c d |\n{RULE}\n{cells}\n"));
        page.lines().nth(4).unwrap().to_owned()
    }

    #[test]
    fn only_a_rows_short_name_stays_on_one_line() {
        assert_eq!(row("| 3 shared tile | two words |"), "| 3\u{a0}shared\u{a0}tile | two words |");
        assert_eq!(row("| [3 tiles](a.md) | x |"), "| [3\u{a0}tiles](a.md) | x |");
        let long = "| a name of more than eighteen letters | x |";
        assert_eq!(row(long), long);
        assert!(broken("1 and 2\n\na | b").starts_with("1 and 2\n\na | b"));
    }

    #[test]
    fn broken_sentences_run_on_and_lists_stay() {
        assert_eq!(row("| a | the product, not<br>the fusion |"), "| a | the product, not the fusion |");
        assert_eq!(row("| a | HMMA.16816.F32 12,<br>LDSM 2 |"), "| a | HMMA.16816.F32 12, LDSM 2 |");
        let list = "| a | copy-in-flight<br>unawaited-copy |";
        assert_eq!(row(list), list);
    }

    #[test]
    fn long_words_break_after_slashes_and_underscores() {
        assert_eq!(
            row("| Samples/3_CUDA_Features/a/async_copy.cu:136 | x |"),
            "| Samples/<wbr>3_CUDA_Features/<wbr>a/<wbr>async_copy.cu:136 | x |"
        );
        assert_eq!(
            row("| a | `smsp__inst_executed_op_shared.sum` |"),
            "| a | <code>smsp__<wbr>inst_<wbr>executed_<wbr>op_<wbr>shared.<wbr>sum</code> |"
        );
        assert_eq!(row("| a | `short_code` |"), "| a | `short_code` |");
    }
}
