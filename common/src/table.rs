//! Tables of results: filled once, printed as text, Markdown, CSV or JSON. [`crate::record`] saves and compares them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Style};

use crate::error::{Error, Result};
use crate::json;
use crate::text::{printable, printable_lines};

/// The columns of the terminal that tables are made for.
pub const WIDTH: usize = 100;

/// A title, columns, rows, and notes below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows, and on which device.
    pub title: String,
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// Each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A column's heading and how its numbers are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The heading, with the unit: `ms`, `GB/s`.
    pub name: String,
    /// Digits behind the point; `None` for text.
    pub decimals: Option<usize>,
    /// True if its numbers say what a row is about, such as a size, and are not measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub key: bool,
}

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words.
    Text(String),
    /// A measured or counted number, in the column's unit.
    Number(f64),
    /// A dash; the reason becomes a note.
    Absent(String),
}

/// How a table is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For the terminal.
    #[default]
    Text,
    /// For a document.
    Markdown,
    /// For a spreadsheet: full precision, notes left out.
    Csv,
    /// Everything, to be read again.
    Json,
}

impl Column {
    /// A column of words.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), decimals: None, key: false }
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>, decimals: usize) -> Column {
        Column { name: name.into(), decimals: Some(decimals), key: false }
    }

    /// A column of whole numbers that say what a row is about: `n`, `KiB`, `streams`.
    pub fn key(name: impl Into<String>) -> Column {
        Column { key: true, ..Column::number(name, 0) }
    }
}

impl Cell {
    /// A dash with a reason.
    pub fn absent(reason: impl Into<String>) -> Cell {
        Cell::Absent(reason.into())
    }

    /// The number, or a dash with a reason.
    pub fn or_absent(value: Option<f64>, reason: impl Into<String>) -> Cell {
        value.map_or_else(|| Cell::absent(reason), Cell::Number)
    }

    /// The number of a result; what a device does not support is a dash with its reason, other errors stay errors.
    ///
    /// # Errors
    /// Those of `result` that are not [`Error::Unsupported`].
    pub fn from_result(result: Result<f64>) -> Result<Cell> {
        match result {
            Ok(value) => Ok(Cell::Number(value)),
            Err(error) if error.is_unsupported() => Ok(Cell::absent(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(value)
    }
}

impl From<f32> for Cell {
    fn from(value: f32) -> Cell {
        Cell::Number(value.into())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Cell {
        Cell::Number(value as f64)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Cell {
        Cell::Number(value as f64)
    }
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        Table { title: title.into(), columns: columns.into_iter().collect(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has not one cell a column: that is a mistake in the program.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Table {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row of `{}`", self.title);
        self.rows.push(cells);
        self
    }

    /// Appends a sentence below the table, once.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Table {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        self
    }

    /// In the chosen format, with a line end.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => self.to_text(),
            Format::Markdown => self.to_markdown(),
            Format::Csv => self.to_csv(),
            Format::Json => self.to_json() + "\n",
        }
    }

    /// For a terminal of [`WIDTH`] columns: headings that would make the table wider are broken between words, no more than
    /// needed; title and notes too. Cells stay as they are.
    pub fn to_text(&self) -> String {
        let (rows, notes) = self.shown();
        let mut frame = self.frame(&rows, WIDTH);
        for heading in [32, 24, 16, 12, 8, 0] {
            if frame.lines().all(|line| line.chars().count() <= WIDTH) {
                break;
            }
            frame = self.frame(&rows, heading);
        }
        // The rest of a sentence is indented, to tell it from the next one.
        let sentence = |text: &str| wrap(text, WIDTH - 2).replace('\n', "\n  ") + "\n";
        let notes: String = notes.iter().map(|note| sentence(note)).collect();
        format!("{}{frame}\n{notes}", sentence(&printable(&self.title)))
    }

    /// The table with headings of at most `heading` characters a line, or as wide as their column.
    fn frame(&self, rows: &[Vec<String>], heading: usize) -> String {
        let mut builder = Builder::default();
        builder.push_record(self.columns.iter().enumerate().map(|(at, column)| {
            let lines = rows.iter().flat_map(|row| row[at].lines());
            let widest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
            centred(&wrap(&column.name, heading.max(widest)))
        }));
        for row in rows {
            builder.push_record(row);
        }
        let mut table = builder.build();
        table.with(Style::rounded());
        for (i, column) in self.columns.iter().enumerate() {
            if column.decimals.is_some() {
                table.modify(Columns::one(i), Alignment::right());
            }
        }
        table.modify(Rows::first(), Alignment::center());
        table.to_string()
    }

    /// For a document.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', "<br>")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let (rows, notes) = self.shown();
        let mut out = format!("**{}**\n\n", printable(&self.title));
        out += &line(self.columns.iter().map(|column| column.name.clone()).collect());
        let rule = |column: &Column| {
            if column.decimals.is_some() { "---:" } else { "---" }
        };
        out += &line(self.columns.iter().map(|column| rule(column).to_owned()).collect());
        for row in rows {
            out += &line(row);
        }
        for note in notes {
            let _ = write!(out, "\n{note}\n");
        }
        out
    }

    /// For a spreadsheet (RFC 4180): headings, then rows with all digits; absent values are empty.
    pub fn to_csv(&self) -> String {
        let quote = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut out = line(self.columns.iter().map(|column| quote(&column.name)).collect());
        for row in &self.rows {
            out += &line(
                row.iter()
                    .map(|cell| match cell {
                        Cell::Text(text) => quote(&printable_lines(text)),
                        Cell::Number(value) => value.to_string(),
                        Cell::Absent(_) => String::new(),
                    })
                    .collect(),
            );
        }
        out
    }

    /// Everything, to be read again by [`Table::from_json`]. A number that is not finite becomes absent, since JSON has none.
    pub fn to_json(&self) -> String {
        let mut table = self.clone();
        table.drop_non_finite();
        json::to_string(&table)
    }

    /// Reads what [`Table::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no such table.
    pub fn from_json(json: &str) -> Result<Table> {
        let table: Table =
            serde_json::from_str(json).map_err(|error| Error::Invalid(format!("this is no saved table: {error}")))?;
        match table.ragged() {
            None => Ok(table),
            Some(ragged) => Err(Error::Invalid(format!("this is no saved table: {ragged}"))),
        }
    }

    /// JSON has no numbers that are not finite: they become absent.
    pub(crate) fn drop_non_finite(&mut self) {
        for cell in self.rows.iter_mut().flatten() {
            if let Cell::Number(value) = cell
                && !value.is_finite()
            {
                *cell = Cell::absent(format!("the value was {value}"));
            }
        }
    }

    /// The first row that has not one cell a column.
    pub(crate) fn ragged(&self) -> Option<String> {
        let row = self.rows.iter().position(|row| row.len() != self.columns.len())?;
        Some(format!("row {row} has {} cells for {} columns", self.rows[row].len(), self.columns.len()))
    }

    /// A row's leading cells, up to the first column that was measured: what the row is about. (Texts behind that are results,
    /// such as that of a check.)
    pub(crate) fn key<'a>(&self, row: &'a [Cell]) -> &'a [Cell] {
        &row[..self.key_names().len()]
    }

    /// The headings above [`Table::key`].
    pub(crate) fn key_names(&self) -> Vec<&str> {
        let about = |column: &&Column| column.key || column.decimals.is_none();
        self.columns.iter().take_while(about).map(|column| column.name.as_str()).collect()
    }

    /// The cells as texts, and the notes with the reasons of what is absent. One reason is given plainly; several are numbered,
    /// and each dash says which is its own.
    fn shown(&self) -> (Vec<Vec<String>>, Vec<String>) {
        let mut reasons: Vec<&str> = Vec::new();
        for cell in self.rows.iter().flatten() {
            if let Cell::Absent(reason) = cell
                && !reasons.contains(&reason.as_str())
            {
                reasons.push(reason);
            }
        }
        let text = |cell: &Cell, column: &Column| match cell {
            Cell::Text(text) => printable_lines(text).into_owned(),
            Cell::Number(value) => number(*value, column.decimals),
            Cell::Absent(reason) => match reasons.iter().position(|r| r == reason) {
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

/// Each line in the middle of the widest.
fn centred(lines: &str) -> String {
    let width = lines.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    lines.lines().map(|line| format!("{line:^width$}")).collect::<Vec<_>>().join("\n")
}

/// `text` in lines of at most `width` characters where its words allow, as for a cell of a table. Line ends stay.
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

/// With the column's decimals; a value that they would show as 0, and none at all, in scientific notation.
pub(crate) fn number(value: f64, decimals: Option<usize>) -> String {
    match decimals {
        None if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value}"),
        None => format!("{value:.4e}"),
        Some(decimals) => {
            let smallest = 0.5 * 10f64.powi(-(decimals as i32));
            match value != 0.0 && value.abs() < smallest {
                true => format!("{value:.1e}"),
                false => format!("{value:.decimals$}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new("gemm on sim", [Column::text("step"), Column::number("ms", 2)]);
        table.row(["naive, 1".into(), 12.345.into()]);
        table.row(["tiled | 2".into(), Cell::absent("no clock")]);
        table.row(["tiny".into(), 1e-7.into()]);
        table.note("warm L2");
        table
    }

    #[test]
    fn text_aligns_and_explains_dashes() {
        let text = sample().to_text();
        assert_eq!(
            text,
            "gemm on sim\n\
             ╭───────────┬────────╮\n\
             │   step    │   ms   │\n\
             ├───────────┼────────┤\n\
             │ naive, 1  │  12.35 │\n\
             │ tiled | 2 │      – │\n\
             │ tiny      │ 1.0e-7 │\n\
             ╰───────────┴────────╯\n\
             – no clock\nwarm L2\n"
        );
    }

    #[test]
    fn markdown_csv_and_several_reasons() {
        let mut table = sample();
        table.row(["x".into(), Cell::absent("no cuDNN")]);
        assert_eq!(
            table.to_markdown(),
            "**gemm on sim**\n\n| step | ms |\n| --- | ---: |\n| naive, 1 | 12.35 |\n| tiled \\| 2 | – [1] |\n\
             | tiny | 1.0e-7 |\n| x | – [2] |\n\n[1] no clock\n\n[2] no cuDNN\n\nwarm L2\n"
        );
        assert_eq!(table.to_csv(), "step,ms\n\"naive, 1\",12.345\ntiled | 2,\ntiny,0.0000001\nx,\n");
    }

    #[test]
    fn no_format_lets_a_name_reach_the_terminal_raw() {
        let hostile = "a\u{1b}[2J\u{202e}\u{9b}.jpg";
        let mut table = Table::new(hostile, [Column::text("photo"), Column::number("ms", 2)]);
        table.row([hostile.into(), Cell::absent(hostile)]);
        table.note(hostile);
        for format in [Format::Text, Format::Markdown, Format::Csv, Format::Json] {
            let shown = table.render(format);
            assert!(!shown.chars().any(|c| c != '\n' && crate::text::is_control(c)), "{shown:?}");
            let escape =
                if format == Format::Json { r"a\u001b[2J\u202e\u009b.jpg" } else { r"a\u{1b}[2J\u{202e}\u{9b}.jpg" };
            let times = if format == Format::Csv { 1 } else { 4 };
            assert_eq!(shown.matches(escape).count(), times, "{shown}");
        }
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    }

    #[test]
    fn json_round_trips_and_rubbish_is_refused() {
        let mut table = sample();
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
        table.row(["nan".into(), f64::NAN.into()]);
        let read = Table::from_json(&table.to_json()).unwrap();
        assert_eq!(read.rows[3][1], Cell::absent("the value was NaN"));
        for rubbish in ["", "{}", "[1, 2]", r#"{"title":"","columns":[],"rows":[[{"number":1}]],"notes":[]}"#] {
            let error = Table::from_json(rubbish).unwrap_err().to_string();
            assert!(error.starts_with("this is no saved table"), "{error}");
        }
    }

    #[test]
    fn long_lines_are_wrapped_and_short_ones_left_alone() {
        assert_eq!(wrap("one two three\n  a   b\n", 8), "one two\nthree\n  a   b");
        assert_eq!(wrap("  alpha beta", 8), "  alpha\n  beta");
        assert_eq!(wrap("unbreakable!", 4), "unbreakable!");
        assert_eq!(wrap("", 4), "");
    }

    #[test]
    fn wide_headings_and_long_sentences_are_broken() {
        let columns = (0..6).map(|i| Column::number(format!("column number {i} of twenty"), 1));
        let mut wide = Table::new("title ".repeat(30).trim_end(), columns);
        wide.row((0..6).map(|i| f64::from(i).into()));
        wide.note("word ".repeat(60).trim_end());
        let shown = wide.to_text();
        assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
        assert!(shown.contains("│   twenty    │"), "{shown}");
        assert_eq!((shown.matches("title").count(), shown.matches("word").count()), (30, 60));
    }

    #[test]
    fn a_row_is_about_what_stands_before_its_first_measured_number() {
        let columns = [Column::text("path"), Column::key("KiB"), Column::number("ms", 1), Column::text("check")];
        let mut table = Table::new("t", columns);
        table.row(["up".into(), 64usize.into(), 1.0.into(), "ok".into()]);
        assert_eq!(table.key(&table.rows[0]), ["up".into(), 64usize.into()]);
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    }
}
