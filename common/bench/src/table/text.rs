//! A table for the terminal.

use common::text::{printable, printable_lines};
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Color, Padding, Style};

use super::model::{Cell, Column, Standing, Table, number};
use crate::terminal::{Terminal, WIDTH};

/// Whether lines are drawn between a table's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// A frame, and lines between columns.
    Drawn,
    /// Two blanks between columns.
    Absent,
}

impl Table {
    /// For a file or a pipe: the layout of a terminal of [`WIDTH`] columns without colours.
    pub fn to_text(&self) -> String {
        self.to_terminal(Terminal::PLAIN)
    }

    /// Laid out for a terminal: headings that would make the table wider are broken between words, no more than needed; title and
    /// notes too. If that is not enough, cells of text are as well, beside numbers. A narrow terminal gets columns without rules; if
    /// these don't fit either, what rows share stands above them, and at last each row becomes a list. Columns without a value are
    /// left out. It contains no control sequences except colours, if the terminal shows them.
    pub fn to_terminal(&self, terminal: Terminal) -> String {
        self.without_empty_columns().all_to_terminal(terminal)
    }

    fn all_to_terminal(&self, terminal: Terminal) -> String {
        let (mut rows, notes) = self.shown();
        for (text, column) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&self.columns)) {
            if let Some(line) = column.line {
                *text = wrap(text, line.into());
            }
        }
        let width = terminal.width;
        let is_narrow = |text: &str| text.lines().all(|line| line.chars().count() <= width);
        let fits = |heading: &usize| is_narrow(&self.frame(&rows, *heading, Rules::Drawn, false));
        let body = match [width, 32, 24, 16, 12, 8, 0].into_iter().find(fits) {
            Some(heading) => self.frame(&rows, heading, Rules::Drawn, terminal.colors) + "\n",
            None if width < WIDTH => {
                let broken = [width, 24, 16].map(|words| self.broken(&rows, words));
                let layouts = broken.iter().flat_map(|rows| [12, 8, 6, 0].map(|heading| (rows, heading)));
                let fits = |(rows, heading): &(&Vec<Vec<String>>, usize)| {
                    is_narrow(&self.frame(rows, *heading, Rules::Absent, false))
                };
                match layouts.into_iter().find(fits) {
                    Some((rows, heading)) => self.frame(rows, heading, Rules::Absent, terminal.colors) + "\n",
                    None => match self.in_sections() {
                        Some(table) => return table.all_to_terminal(terminal),
                        None => self.lists(&rows, terminal),
                    },
                }
            }
            None => {
                // A list is not a table of numbers: its sentences stay whole, for `grep`.
                let has_numbers = self.columns.iter().any(|column| column.decimals.is_some());
                let broken = [24, 20, 16, 12].map(|words| self.broken(&rows, words));
                let layouts = [Rules::Drawn, Rules::Absent].into_iter().filter(|_| has_numbers);
                let mut layouts = layouts.flat_map(|rules| broken.iter().map(move |rows| (rows, rules)));
                let fits = |(rows, rules): &(&Vec<Vec<String>>, Rules)| is_narrow(&self.frame(rows, 0, *rules, false));
                let (rows, rules) = layouts.find(fits).unwrap_or((&rows, Rules::Drawn));
                self.frame(rows, 0, rules, terminal.colors) + "\n"
            }
        };
        // The rest of a sentence is indented, to tell it from the next one.
        let sentence = |text: &str| wrap(text, width - 2).replace('\n', "\n  ") + "\n";
        let notes: String = notes.iter().map(|note| sentence(note)).collect();
        format!("{}{body}{notes}", sentence(&printable(&self.title)))
    }

    /// The same table where what several rows share, all of their identity but its last column, stands above these rows.
    fn in_sections(&self) -> Option<Table> {
        let last = self.identity_columns().count().checked_sub(1).filter(|last| *last > 0)?;
        let sections: Vec<&[Vec<Cell>]> = self.rows.chunk_by(|row, next| row[..last] == next[..last]).collect();
        if self.columns[last].decimals.is_some() || sections.len() * 2 > self.rows.len() {
            return None;
        }
        let name = |(cell, column): (&Cell, &Column)| match column.decimals {
            Some(_) => format!("{} {}", column.heading, cell.shown(column)),
            None => cell.shown(column),
        };
        let row = |about: String, cells: Vec<Cell>| [Cell::Text(about)].into_iter().chain(cells).collect::<Vec<Cell>>();
        let mut rows = Vec::new();
        for section in sections {
            let names: Vec<String> = section[0][..last].iter().zip(&self.columns).map(name).collect();
            rows.push(row(names.join(", "), vec!["".into(); self.columns.len() - last - 1]));
            let about = |cell: &Cell| format!("  {}", cell.shown(&self.columns[last]));
            rows.extend(section.iter().map(|cells| row(about(&cells[last]), cells[last + 1..].to_vec())));
        }
        Some(Table { columns: self.columns[last..].to_vec(), rows, ..self.clone() })
    }

    /// The rows, with the words of texts of a single line on lines of at most `width` characters.
    fn broken(&self, rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
        let cell = |(text, column): (&String, &Column)| match column.decimals {
            None if !text.contains('\n') => wrap(text, width),
            _ => text.clone(),
        };
        rows.iter().map(|row| row.iter().zip(&self.columns).map(cell).collect()).collect()
    }

    /// The table with headings of at most `heading` characters per line, or as wide as their column.
    fn frame(&self, rows: &[Vec<String>], heading: usize, rules: Rules, colors: bool) -> String {
        let mut builder = Builder::default();
        builder.push_record(self.columns.iter().enumerate().map(|(at, column)| {
            let lines = rows.iter().flat_map(|row| row[at].lines());
            let widest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
            centred(&wrap(&printable_lines(&column.heading), heading.max(widest)))
        }));
        for row in rows {
            builder.push_record(row);
        }
        let mut table = builder.build();
        match rules {
            Rules::Drawn => table.with(Style::rounded()),
            Rules::Absent => table.with(Style::blank()).with(Padding::new(0, 1, 0, 0)),
        };
        for (i, column) in self.columns.iter().enumerate() {
            if column.decimals.is_some() {
                table.modify(Columns::one(i), Alignment::right());
            }
            if !colors || column.level.is_none() {
                continue;
            }
            for (j, row) in self.rows.iter().enumerate() {
                match column.standing(&row[i]) {
                    Some(Standing::Ahead) => table.modify((j + 1, i), Color::FG_GREEN),
                    Some(Standing::Behind) => table.modify((j + 1, i), Color::FG_RED),
                    None => &mut table,
                };
            }
        }
        table.modify(Rows::first(), Alignment::center());
        match rules {
            Rules::Drawn => table.to_string(),
            Rules::Absent => table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The rows one below the other: the identity of each, then its numbers, each after its heading.
    fn lists(&self, rows: &[Vec<String>], terminal: Terminal) -> String {
        // Where nothing is measured, the first column says what a row is about, and the others need no headings.
        let has_numbers = self.columns.iter().any(|column| column.decimals.is_some());
        let about = if has_numbers { self.identity_columns().count() } else { 1.min(self.columns.len()) };
        let mut out = String::new();
        for (cells, texts) in self.rows.iter().zip(rows) {
            let title = texts[..about].iter().map(|text| text.replace('\n', " ")).filter(|text| !text.is_empty());
            out += &(wrap(&title.collect::<Vec<_>>().join(", "), terminal.width) + "\n");
            let mut line = String::new();
            let mut room = 0;
            for (at, text) in texts.iter().enumerate().skip(about).filter(|(_, text)| !text.is_empty()) {
                let column = &self.columns[at];
                // A report, or a command to type, is of no use as a run of words.
                if text.lines().count() > 2 || text.lines().any(|line| line.starts_with("$ ")) {
                    if !line.is_empty() {
                        out += &(std::mem::take(&mut line) + "\n");
                        room = 0;
                    }
                    if has_numbers {
                        out += &(wrap(&format!("  {}:", printable(&column.heading)), terminal.width) + "\n");
                    }
                    for part in text.lines() {
                        let part =
                            if part.starts_with("$ ") { part.to_owned() } else { wrap(part, terminal.width - 4) };
                        out += &format!("    {}\n", part.replace('\n', "\n    "));
                    }
                    continue;
                }
                let text = text.replace('\n', " ");
                let item = if has_numbers { format!("{} {text}", printable(&column.heading)) } else { text };
                let long = item.chars().count();
                if !line.is_empty() && long + 2 <= room {
                    line += ", ";
                    room -= long + 2;
                } else {
                    if !line.is_empty() {
                        line += ",";
                        out += &(line + "\n");
                    }
                    line = "  ".to_owned();
                    // A comma may follow.
                    room = (terminal.width - 3).saturating_sub(long);
                }
                line += &match column.standing(&cells[at]).filter(|_| terminal.colors) {
                    Some(Standing::Ahead) => ::console::style(item).green().force_styling(true).to_string(),
                    Some(Standing::Behind) => ::console::style(item).red().force_styling(true).to_string(),
                    None => wrap(&item, terminal.width - 4).replace('\n', "\n    "),
                };
            }
            if !line.is_empty() {
                out += &(line + "\n");
            }
        }
        out
    }

    /// The same table without the measured columns that have no value in any row, and so without the reasons of their dashes. One of
    /// dashes alone stays as it is.
    pub(super) fn without_empty_columns(&self) -> Table {
        let is_empty = |cell: &Cell| match cell {
            Cell::Absent(_) => true,
            Cell::Text(text) => text.is_empty(),
            Cell::Number(_) => false,
        };
        let identity = self.identity_columns().count();
        let has_value = |at: usize| at < identity || self.rows.iter().any(|row| !is_empty(&row[at]));
        let kept: Vec<usize> = (0..self.columns.len()).filter(|&at| has_value(at)).collect();
        if kept.len() > identity { self.with_columns(&kept) } else { self.clone() }
    }

    /// The cells as texts, and the notes with the reasons of absent ones. One reason is given plainly; several are numbered,
    /// and each dash has the number of its own.
    pub(super) fn shown(&self) -> (Vec<Vec<String>>, Vec<String>) {
        let mut reasons: Vec<&str> = Vec::new();
        for cell in self.rows.iter().flatten() {
            if let Cell::Absent(reason) = cell
                && !reasons.contains(&cause(reason))
            {
                reasons.push(cause(reason));
            }
        }
        let text = |cell: &Cell, column: &Column| match cell {
            Cell::Text(text) => printable_lines(text).into_owned(),
            Cell::Number(value) => number(*value, column.decimals),
            Cell::Absent(reason) => match reasons.iter().position(|known| *known == cause(reason)) {
                Some(i) if reasons.len() > 1 => format!("– [{}]", i + 1),
                _ => "–".to_owned(),
            },
        };
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().zip(&self.columns).map(|(cell, column)| text(cell, column)).collect())
            .collect();
        let mut notes: Vec<String> = match reasons.as_slice() {
            [reason] => vec![format!("– {reason}")],
            _ => (1..).zip(&reasons).map(|(i, reason)| format!("[{i}] {reason}")).collect(),
        };
        notes.extend(self.notes.iter().cloned());
        let notes = notes.iter().map(|note| printable_lines(note).into_owned()).collect();
        (rows, notes)
    }
}

/// A reason without what is not possible, and where ([`common::Error::Unsupported`]): the row and the title say that. So rows that
/// differ in it alone share a note.
fn cause(reason: &str) -> &str {
    let after = reason.split_once(" is not possible on ").and_then(|(_, rest)| rest.split_once(": "));
    after.map_or(reason, |(_, cause)| cause)
}

/// Each line in the middle of the widest.
fn centred(lines: &str) -> String {
    let width = lines.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    lines.lines().map(|line| format!("{line:^width$}")).collect::<Vec<_>>().join("\n")
}

/// `text` in lines of at most `width` characters if its words allow, as for a cell of a table. Line ends stay.
pub fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    for (i, line) in text.trim_end().lines().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if line.chars().count() <= width {
            // As it is: in a diagnostic, spaces are the drawing.
            out += line;
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut column = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if column == 0 {
                out += indent;
                column = indent.chars().count();
            } else if column + 1 + length > width {
                out.push('\n');
                out += indent;
                column = indent.chars().count();
            } else {
                out.push(' ');
                column += 1;
            }
            out += word;
            column += length;
        }
    }
    out
}
