//! A table as Markdown, CSV and JSON.

use std::fmt::Write;

use common::error::{Error, Result};
use common::text::{printable, printable_lines};

use super::model::{Cell, Column, Table};
use crate::json;

/// Format of a table.
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

impl Table {
    /// In the chosen format, with a line end.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => self.to_text(),
            Format::Markdown => self.to_markdown(),
            Format::Csv => self.to_csv(),
            Format::Json => self.to_json() + "\n",
        }
    }

    /// For a document. Columns without a value are left out.
    pub fn to_markdown(&self) -> String {
        self.without_empty_columns().all_to_markdown()
    }

    fn all_to_markdown(&self) -> String {
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', "<br>")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let (rows, notes) = self.shown();
        let mut out = format!("**{}**\n\n", printable(&self.title));
        out += &line(self.columns.iter().map(|column| column.heading.clone()).collect());
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

    /// For a spreadsheet (RFC 4180): headings, then rows with all digits; absent values are empty. A text that a spreadsheet would take
    /// for a formula begins with an apostrophe.
    pub fn to_csv(&self) -> String {
        let quote = |text: &str| {
            let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
            let text = if is_formula { &format!("'{text}") } else { text };
            if text.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut out = line(self.columns.iter().map(|column| quote(&column.heading)).collect());
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

    /// All contents, to be read again by [`Table::from_json`]. A number that is not finite becomes absent, since JSON has
    /// none.
    pub fn to_json(&self) -> String {
        let mut table = self.clone();
        table.drop_non_finite();
        json::to_string(&table)
    }

    /// Parses the output of [`Table::to_json`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no such table.
    pub fn from_json(json: &str) -> Result<Table> {
        let table: Table =
            serde_json::from_str(json).map_err(|error| Error::Invalid(format!("this is no saved table: {error}")))?;
        match table.check() {
            Ok(()) => Ok(table),
            Err(reason) => Err(Error::Invalid(format!("this is no saved table: {reason}"))),
        }
    }
}
