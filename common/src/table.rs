//! Tables of results: filled once, printed as text, Markdown, CSV or JSON, saved and compared.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Style};

use crate::error::{Error, Result};

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
        Column { name: name.into(), decimals: None }
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>, decimals: usize) -> Column {
        Column { name: name.into(), decimals: Some(decimals) }
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

    /// For the terminal.
    pub fn to_text(&self) -> String {
        let mut builder = Builder::default();
        builder.push_record(self.columns.iter().map(|column| column.name.clone()));
        let (rows, notes) = self.shown();
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
        let mut out = format!("{}\n{table}\n", self.title);
        for note in notes {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    /// For a document.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', "<br>")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let (rows, notes) = self.shown();
        let mut out = format!("**{}**\n\n", self.title);
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
                        Cell::Text(text) => quote(text),
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
        for cell in table.rows.iter_mut().flatten() {
            if let Cell::Number(value) = cell
                && !value.is_finite()
            {
                *cell = Cell::absent(format!("the value was {value}"));
            }
        }
        serde_json::to_string_pretty(&table).expect("strings and finite numbers are valid JSON")
    }

    /// Reads what [`Table::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no such table.
    pub fn from_json(json: &str) -> Result<Table> {
        let table: Table =
            serde_json::from_str(json).map_err(|error| Error::Invalid(format!("this is no saved table: {error}")))?;
        match table.rows.iter().position(|row| row.len() != table.columns.len()) {
            None => Ok(table),
            Some(row) => Err(Error::Invalid(format!(
                "this is no saved table: row {row} has {} cells for {} columns",
                table.rows[row].len(),
                table.columns.len()
            ))),
        }
    }

    /// This table beside an earlier one: for each number, what it was and by how many percent it has changed. Rows are matched
    /// by their texts, columns by their headings.
    pub fn compare(&self, earlier: &Table) -> Table {
        let key = |row: &[Cell]| -> Vec<String> {
            let texts = row.iter().filter_map(|cell| match cell {
                Cell::Text(text) => Some(text.clone()),
                _ => None,
            });
            texts.collect()
        };
        let column_in = |table: &Table, name: &str| table.columns.iter().position(|c| c.name == name);
        let mut columns = Vec::new();
        for column in &self.columns {
            columns.push(column.clone());
            if column.decimals.is_some() {
                columns.push(Column { name: format!("{} before", column.name), ..column.clone() });
                columns.push(Column::number("change %", 1));
            }
        }
        let mut table = Table::new(format!("{}, compared with {}", self.title, earlier.title), columns);
        for row in &self.rows {
            let before = earlier.rows.iter().find(|candidate| key(candidate) == key(row));
            let mut cells = Vec::new();
            for (cell, column) in row.iter().zip(&self.columns) {
                cells.push(cell.clone());
                if column.decimals.is_none() {
                    continue;
                }
                let then = before.zip(column_in(earlier, &column.name)).map(|(row, at)| row[at].clone());
                let change = match (cell, &then) {
                    (Cell::Number(now), Some(Cell::Number(then))) if *then != 0.0 => {
                        Cell::Number((now / then - 1.0) * 100.0)
                    }
                    _ => Cell::absent("not in both runs"),
                };
                cells.push(then.unwrap_or_else(|| Cell::absent("not in both runs")));
                cells.push(change);
            }
            table.rows.push(cells);
        }
        for note in self.notes.iter().chain(&earlier.notes) {
            table.note(note.clone());
        }
        table
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
            Cell::Text(text) => text.clone(),
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
        (rows, notes)
    }
}

/// With the column's decimals; a value that they would show as 0, and none at all, in scientific notation.
fn number(value: f64, decimals: Option<usize>) -> String {
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
    fn comparison_matches_rows_by_their_texts() {
        let mut now = sample();
        now.rows.swap(0, 1);
        now.rows[1][1] = Cell::Number(24.69);
        let compared = now.compare(&sample());
        assert_eq!(compared.columns.len(), 4);
        assert_eq!(compared.rows[1][2], Cell::Number(12.345));
        let Cell::Number(change) = compared.rows[1][3] else { panic!("no change") };
        assert!((change - 100.0).abs() < 1e-9);
        assert!(matches!(compared.rows[0][3], Cell::Absent(_)));
    }
}
