//! Tables for a terminal of 100 columns.

use common::table::Table;

/// The columns of the terminal that tables are made for.
pub const WIDTH: usize = 100;

/// The table as text. Where it would be wider than [`WIDTH`], its headings are broken at spaces and hyphens, and sentences are
/// broken anyway.
pub fn text(table: &Table) -> String {
    let mut text = table.to_text();
    if text.lines().filter(|line| is_frame(line)).any(|line| line.chars().count() > WIDTH) {
        let mut narrow = table.clone();
        for column in &mut narrow.columns {
            column.name = broken(&column.name);
        }
        text = narrow.to_text();
    }
    text.lines().map(|line| if is_frame(line) { format!("{line}\n") } else { wrap(line) }).collect()
}

/// A word a line, each in the middle.
fn broken(heading: &str) -> String {
    let words: Vec<&str> = heading.split(' ').flat_map(|word| word.split_inclusive('-')).collect();
    let width = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
    words.iter().map(|word| format!("{word:^width$}")).collect::<Vec<_>>().join("\n")
}

fn is_frame(line: &str) -> bool {
    line.starts_with(['╭', '│', '├', '╰'])
}

/// A sentence in lines of at most [`WIDTH`], where its words allow it.
fn wrap(line: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in line.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            // Indented, so that the next sentence is told from this one's rest.
            out += "\n  ";
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += width;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::table::Column;

    #[test]
    fn wide_headings_and_long_sentences_are_broken_and_narrow_tables_are_left() {
        let columns = |n: usize| (0..n).map(|i| Column::number(format!("column number {i} twenty-one"), 1));
        let mut wide = Table::new("t", columns(6));
        wide.row((0..6).map(|i| (i as f64).into()));
        wide.note("word ".repeat(60).trim_end());
        let shown = text(&wide);
        assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
        assert!(shown.contains("│ twenty- │"), "{shown}");
        assert_eq!(shown.matches("word").count(), 60);

        let mut narrow = Table::new("t", columns(2));
        narrow.row([1.0.into(), 2.0.into()]);
        assert_eq!(text(&narrow), narrow.to_text());
    }
}
