//! Tables of results: filled once, printed as text, Markdown, CSV or JSON. [`crate::record`] saves and compares them.
//!
//! A table declares its columns as [`ColumnSpec`]s. A [`TableBuilder`] fills rows and a [`Row`] reads them by these, never by
//! their places.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Color, Padding, Style};

use crate::json;
use crate::terminal::Terminal;
use common::device::Device;
use common::error::{Error, Result};
use common::text::{printable, printable_lines};

pub use crate::terminal::WIDTH;

/// A title, columns, rows, and notes below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows, and on which device.
    pub title: String,
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// One cell per column each. Only a [`TableBuilder`] adds rows, whose cells have their columns' names.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A column's heading and how its numbers are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The [`Column::key`], if the heading is not the key itself. In a record it is the `id`; those made before columns had keys
    /// have none.
    #[serde(rename = "id", default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The heading, with the unit: `ms`, `GB/s`.
    #[serde(rename = "name")]
    pub heading: String,
    /// Digits after the decimal point; `None` for text.
    pub decimals: Option<usize>,
    /// True if its numbers identify a row, as a size does, and are not measured. In a record it is the `key`.
    #[serde(rename = "key", default, skip_serializing_if = "std::ops::Not::not")]
    pub identifies: bool,
    /// The number at which we and a peer are level; more is ahead. `None` if the column is no such comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u16>,
    /// Characters that a line of its words has in a text table, for sentences in several columns. `None` if they stand on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u16>,
}

/// A column as a table's file declares it, once. Rows are filled and read by it, so its heading may change and its place too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The name that never changes: `tflops`.
    pub key: &'static str,
    /// The heading, with the unit: `TFLOP/s`.
    pub heading: &'static str,
    /// Digits after the decimal point; `None` for text.
    pub decimals: Option<usize>,
    /// True if its cells identify a row and are not measured.
    pub identifies: bool,
    /// The kind of device whose tables have it; `None` for both.
    pub only_on: Option<DeviceKind>,
    /// As [`Column::level`].
    pub level: Option<u16>,
    /// As [`Column::line`].
    pub line: Option<u16>,
}

/// Closer to a peer than this is neither ahead nor behind: so much differs from run to run.
const LEVEL_WITHIN: f64 = 0.01;

/// How we stand beside a peer. Terminals show it as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// We are faster.
    Ahead,
    /// The peer is.
    Behind,
}

/// Whether lines are drawn between a table's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// A frame, and lines between columns.
    Drawn,
    /// Two blanks between columns.
    Absent,
}

/// A device that has times, or one that has counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// It has a clock.
    Gpu,
    /// It counts instructions.
    Simulator,
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

impl DeviceKind {
    /// The kind of this device.
    pub fn of(device: &Device) -> DeviceKind {
        if device.is_sim() { DeviceKind::Simulator } else { DeviceKind::Gpu }
    }
}

impl Column {
    /// A column of words, whose heading is its key.
    pub fn text(heading: impl Into<String>) -> Column {
        Column { key: None, heading: heading.into(), decimals: None, identifies: false, level: None, line: None }
    }

    /// A column of numbers, whose heading is its key.
    pub fn number(heading: impl Into<String>, decimals: usize) -> Column {
        Column { decimals: Some(decimals), ..Column::text(heading) }
    }

    /// A column of whole numbers that identify a row: `n`, `KiB`, `streams`. Its heading is its key.
    pub fn identity(heading: impl Into<String>) -> Column {
        Column { identifies: true, ..Column::number(heading, 0) }
    }

    /// The same column under a heading that is its key too.
    pub fn headed(&self, heading: impl Into<String>) -> Column {
        Column { key: None, heading: heading.into(), ..self.clone() }
    }

    /// The name by which it is found.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.heading)
    }

    /// How we stand beside the peer, if this is the column of such a comparison and the two differ.
    pub fn standing(&self, cell: &Cell) -> Option<Standing> {
        let (Some(level), Cell::Number(value)) = (self.level, cell) else { return None };
        match value / f64::from(level) - 1.0 {
            gain if gain > LEVEL_WITHIN => Some(Standing::Ahead),
            gain if gain < -LEVEL_WITHIN => Some(Standing::Behind),
            _ => None,
        }
    }

    /// Whether it shows the same as a column of another run: the keys are equal or, where a record was made before columns had
    /// keys, the headings.
    pub fn is_same(&self, other: &Column) -> bool {
        self.key() == other.key() || (self.heading == other.heading && (self.key.is_none() || other.key.is_none()))
    }
}

impl ColumnSpec {
    /// A column of words.
    pub const fn text(key: &'static str, heading: &'static str) -> ColumnSpec {
        ColumnSpec { key, heading, decimals: None, identifies: false, only_on: None, level: None, line: None }
    }

    /// A column of numbers.
    pub const fn number(key: &'static str, heading: &'static str, decimals: usize) -> ColumnSpec {
        ColumnSpec { decimals: Some(decimals), ..ColumnSpec::text(key, heading) }
    }

    /// A column of whole numbers that identify a row.
    pub const fn identity(key: &'static str, heading: &'static str) -> ColumnSpec {
        ColumnSpec { identifies: true, ..ColumnSpec::number(key, heading, 0) }
    }

    /// Only in tables of a GPU: a line has 100 characters, and the simulator knows nothing of it.
    pub const fn on_gpu(self) -> ColumnSpec {
        ColumnSpec { only_on: Some(DeviceKind::Gpu), ..self }
    }

    /// Only in tables of the simulator.
    pub const fn on_simulator(self) -> ColumnSpec {
        ColumnSpec { only_on: Some(DeviceKind::Simulator), ..self }
    }

    /// Numbers above `level` say that we are ahead of a peer, those below that we are behind: 100 of a percentage, 1 of a ratio.
    pub const fn level_at(self, level: u16) -> ColumnSpec {
        ColumnSpec { level: Some(level), ..self }
    }

    /// Its words stand on lines of at most `characters` in a text table.
    pub const fn in_lines_of(self, characters: u16) -> ColumnSpec {
        ColumnSpec { line: Some(characters), ..self }
    }

    /// Whether tables of this kind of device have it.
    pub fn is_on(self, kind: DeviceKind) -> bool {
        self.only_on.is_none_or(|only| only == kind)
    }
}

impl AsRef<str> for ColumnSpec {
    fn as_ref(&self) -> &str {
        self.key
    }
}

impl AsRef<str> for Column {
    fn as_ref(&self) -> &str {
        self.key()
    }
}

impl From<&ColumnSpec> for Column {
    fn from(spec: &ColumnSpec) -> Column {
        Column::from(*spec)
    }
}

impl From<ColumnSpec> for Column {
    fn from(spec: ColumnSpec) -> Column {
        let ColumnSpec { key, heading, decimals, identifies, level, line, .. } = spec;
        Column {
            key: (key != heading).then(|| key.to_owned()),
            heading: heading.to_owned(),
            decimals,
            identifies,
            level,
            line,
        }
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

    /// A number with the column's decimals, in scientific notation if they would show it as 0; a text as it is, and a dash for what is
    /// absent.
    pub fn shown(&self, column: &Column) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => number(*value, column.decimals),
            Cell::Absent(_) => "–".to_owned(),
        }
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

/// A number, or a dash with the reason.
impl From<Result<f64, String>> for Cell {
    fn from(value: Result<f64, String>) -> Cell {
        value.map_or_else(Cell::Absent, Cell::Number)
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
    /// An empty table, for tests.
    #[cfg(test)]
    pub(crate) fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        TableBuilder::of(title, columns).finish()
    }

    /// Appends a row of cells in the columns' order: tests write tables down as lists.
    #[cfg(test)]
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row of `{}`", self.title);
        self.rows.push(cells);
    }

    /// The rows: one cell per column each.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The same rows with the columns at these places, in this order.
    ///
    /// # Panics
    /// If there is no such place.
    #[must_use]
    pub fn with_columns(&self, places: &[usize]) -> Table {
        let columns = places.iter().map(|&at| self.columns[at].clone()).collect();
        let rows = self.rows.iter().map(|row| places.iter().map(|&at| row[at].clone()).collect()).collect();
        Table { columns, rows, ..self.clone() }
    }

    /// Keeps the rows that `keep` says so of.
    pub fn retain_rows(&mut self, keep: impl Fn(&[Cell]) -> bool) {
        self.rows.retain(|row| keep(row));
    }

    /// Replaces each cell by what `change` makes of its column and it.
    pub fn map_cells(&mut self, change: impl Fn(&Column, &Cell) -> Cell) {
        for row in &mut self.rows {
            for (cell, column) in row.iter_mut().zip(&self.columns) {
                *cell = change(column, cell);
            }
        }
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

    /// For a file or a pipe: as for a terminal of [`WIDTH`] columns without colours.
    pub fn to_text(&self) -> String {
        self.to_terminal(Terminal::PLAIN)
    }

    /// Laid out for a terminal: headings that would make the table wider are broken between words, no more than needed; title and
    /// notes too. If that is not enough, cells of text are as well, beside numbers. A narrow terminal gets columns without rules, and
    /// where these don't fit either, each row becomes a list. Nothing in it is for the terminal to obey but colours, if it shows them.
    pub fn to_terminal(&self, terminal: Terminal) -> String {
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
                    None => self.lists(&rows, terminal),
                }
            }
            None => {
                // A list is not a table of numbers: its sentences stay whole, for `grep`.
                let has_numbers = self.columns.iter().any(|column| column.decimals.is_some());
                let widths = [24, 20, 16, 12].into_iter().filter(|_| has_numbers);
                let mut broken = widths.map(|words| self.broken(&rows, words));
                let fits = |rows: &Vec<Vec<String>>| is_narrow(&self.frame(rows, 0, Rules::Drawn, false));
                let rows = broken.find(fits).unwrap_or_else(|| rows.clone());
                self.frame(&rows, 0, Rules::Drawn, terminal.colors) + "\n"
            }
        };
        // The rest of a sentence is indented, to tell it from the next one.
        let sentence = |text: &str| wrap(text, width - 2).replace('\n', "\n  ") + "\n";
        let notes: String = notes.iter().map(|note| sentence(note)).collect();
        format!("{}{body}{notes}", sentence(&printable(&self.title)))
    }

    /// The rows, with the words of texts of a single line on lines of at most `width` characters.
    fn broken(&self, rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
        let cell = |(text, column): (&String, &Column)| match column.decimals {
            None if !text.contains('\n') => wrap(text, width),
            _ => text.clone(),
        };
        rows.iter().map(|row| row.iter().zip(&self.columns).map(cell).collect()).collect()
    }

    /// The table with headings of at most `heading` characters a line, or as wide as their column.
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

    /// The rows one below the other: what each is about, then its numbers, each after its heading.
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

    /// For a document.
    pub fn to_markdown(&self) -> String {
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

    /// For a spreadsheet (RFC 4180): headings, then rows with all digits; absent values are empty.
    pub fn to_csv(&self) -> String {
        let quote = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
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

    /// The first row that does not have one cell per column.
    pub(crate) fn ragged(&self) -> Option<String> {
        let row = self.rows.iter().position(|row| row.len() != self.columns.len())?;
        Some(format!("row {row} has {} cells for {} columns", self.rows[row].len(), self.columns.len()))
    }

    /// A row's leading cells, up to the first column that was measured: what the row is about. (Texts after it are results, such
    /// as that of a check.)
    pub(crate) fn identity<'a>(&self, row: &'a [Cell]) -> &'a [Cell] {
        &row[..self.identity_columns().count()]
    }

    /// The row that is about the same.
    pub(crate) fn same_row(&self, identity: &[Cell]) -> Option<&Vec<Cell>> {
        self.rows.iter().find(|row| self.identity(row) == identity)
    }

    /// The columns of [`Table::identity`].
    pub(crate) fn identity_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().take_while(|column| column.identifies || column.decimals.is_none())
    }

    /// What a row is about, in words, but for what stands in the column `without`: `4096 tokens, 64 d`.
    pub fn about(&self, row: Row<'_>, without: impl AsRef<str>) -> String {
        let cells = self.identity(row.cells).iter().zip(&self.columns);
        let parts =
            cells.filter(|(_, column)| column.key() != without.as_ref()).filter_map(|(cell, column)| match cell {
                Cell::Text(text) => Some(text.clone()),
                Cell::Number(value) => Some(format!("{} {}", number(*value, column.decimals), column.heading)),
                Cell::Absent(_) => None,
            });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The place of a column.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the columns there are, if none has this key.
    pub fn column(&self, key: impl AsRef<str>) -> Result<usize> {
        let key = key.as_ref();
        self.columns.iter().position(|column| column.key() == key).ok_or_else(|| {
            let known: Vec<&str> = self.columns.iter().map(Column::key).collect();
            Error::Invalid(format!("the table `{}` has no column `{key}`; it has {}", self.title, known.join(", ")))
        })
    }

    /// The rows, whose cells are found by their columns.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { table: self, cells })
    }

    /// The first row that has all of these cells.
    ///
    /// # Errors
    /// As [`Table::column`].
    pub fn find(&self, wanted: &[(ColumnSpec, Cell)]) -> Result<Option<Row<'_>>> {
        let wanted =
            wanted.iter().map(|(column, cell)| Ok((self.column(column)?, cell))).collect::<Result<Vec<_>>>()?;
        Ok(self.iter().find(|row| wanted.iter().all(|(at, cell)| row.cells[*at] == **cell)))
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

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    cells: &'a [Cell],
}

impl<'a> Row<'a> {
    /// The cell of a column.
    ///
    /// # Errors
    /// As [`Table::column`].
    pub fn cell(self, key: impl AsRef<str>) -> Result<&'a Cell> {
        Ok(&self.cells[self.table.column(key)?])
    }

    /// The number in a column; `None` if there is a dash or a text.
    ///
    /// # Errors
    /// As [`Table::column`].
    pub fn number(self, key: impl AsRef<str>) -> Result<Option<f64>> {
        Ok(if let Cell::Number(value) = self.cell(key)? { Some(*value) } else { None })
    }

    /// The text in a column; empty if there is a dash or a number.
    ///
    /// # Errors
    /// As [`Table::column`].
    pub fn text(self, key: impl AsRef<str>) -> Result<&'a str> {
        Ok(if let Cell::Text(text) = self.cell(key)? { text } else { "" })
    }
}

/// A table being filled, row by row, by the columns that it declares. One that is for another kind of device is not shown, and
/// may be set all the same.
#[derive(Debug)]
pub struct TableBuilder {
    table: Table,
    /// Keys of the columns for other kinds of devices.
    not_shown: Vec<&'static str>,
}

impl TableBuilder {
    /// An empty table for this kind of device.
    pub fn new(title: impl Into<String>, kind: DeviceKind, columns: &[ColumnSpec]) -> TableBuilder {
        let (shown, hidden): (Vec<&ColumnSpec>, Vec<&ColumnSpec>) =
            columns.iter().partition(|column| column.is_on(kind));
        TableBuilder { not_shown: hidden.iter().map(|column| column.key).collect(), ..TableBuilder::of(title, shown) }
    }

    /// An empty table for this device, which its title names: `streams on cuda:0 NVIDIA H200 (sm_90)`, `streams on the simulator`.
    pub fn on(device: &Device, what: &str, columns: &[ColumnSpec]) -> TableBuilder {
        let place = if device.is_sim() { "the simulator".to_owned() } else { device.describe() };
        TableBuilder::new(format!("{what} on {place}"), DeviceKind::of(device), columns)
    }

    /// An empty table with all of these columns, whatever the device. A [`Column`] is for a heading that only the run knows.
    pub fn of(title: impl Into<String>, columns: impl IntoIterator<Item: Into<Column>>) -> TableBuilder {
        let columns = columns.into_iter().map(Into::into).collect();
        let table = Table { title: title.into(), columns, rows: Vec::new(), notes: Vec::new() };
        TableBuilder { table, not_shown: Vec::new() }
    }

    /// Gives a column a heading that only the run knows, such as one with a library's name.
    ///
    /// # Panics
    /// If the column is not declared: that is a mistake in the program.
    pub fn heading(&mut self, column: ColumnSpec, heading: impl Into<String>) {
        if let Some(at) = self.place(column.key) {
            self.table.columns[at] = Column::from(ColumnSpec { heading: "", ..column });
            self.table.columns[at].heading = heading.into();
        }
    }

    /// Begins a row. It is appended when it is [finished](RowBuilder::finish).
    pub fn row(&mut self) -> RowBuilder<'_> {
        RowBuilder { cells: vec![None; self.table.columns.len()], builder: self }
    }

    /// Appends a sentence below the table, once.
    pub fn note(&mut self, note: impl Into<String>) {
        self.table.note(note);
    }

    /// The table.
    pub fn finish(self) -> Table {
        self.table
    }

    /// The place of a declared column; `None` if it is for another kind of device.
    fn place(&self, key: &str) -> Option<usize> {
        let at = self.table.columns.iter().position(|shown| shown.key() == key);
        let is_declared = at.is_some() || self.not_shown.contains(&key);
        assert!(is_declared, "the table `{}` declares no column `{key}`", self.table.title);
        at
    }
}

/// A row being filled: its cells by their columns, in any order.
#[must_use = "a row is appended when it is finished"]
pub struct RowBuilder<'a> {
    builder: &'a mut TableBuilder,
    cells: Vec<Option<Cell>>,
}

impl RowBuilder<'_> {
    /// Sets the cell of a column.
    ///
    /// # Panics
    /// If the table does not declare the column: that is a mistake in the program.
    pub fn set(mut self, column: impl AsRef<str>, cell: impl Into<Cell>) -> Self {
        if let Some(at) = self.builder.place(column.as_ref()) {
            self.cells[at] = Some(cell.into());
        }
        self
    }

    /// Sets several cells, as [`RowBuilder::set`].
    pub fn set_all(self, cells: impl IntoIterator<Item = (impl AsRef<str>, Cell)>) -> Self {
        cells.into_iter().fold(self, |row, (column, cell)| row.set(column, cell))
    }

    /// Appends the row. A cell that was not set is absent, for this reason.
    pub fn finish(self, reason: &str) {
        let cells = self.cells.into_iter().map(|cell| cell.unwrap_or_else(|| Cell::absent(reason)));
        self.builder.table.rows.push(cells.collect());
    }

    /// Appends the row, whose cells are all set.
    ///
    /// # Panics
    /// If one is not: that is a mistake in the program.
    pub fn complete(self) {
        let table = &self.builder.table;
        let missing = self.cells.iter().zip(&table.columns).find(|(cell, _)| cell.is_none());
        if let Some((_, column)) = missing {
            panic!("a row of the table `{}` has no `{}`", table.title, column.key());
        }
        self.finish("");
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
            assert!(!shown.chars().any(|c| c != '\n' && common::text::is_control(c)), "{shown:?}");
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
    fn sentences_stand_on_short_lines_in_text_alone() {
        const WHY: ColumnSpec = ColumnSpec::text("why", "why").in_lines_of(8);
        let mut table = TableBuilder::of("t", [WHY]);
        table.row().set(WHY, "one two three").complete();
        let table = table.finish();
        assert!(table.to_text().contains("│ one two │\n│ three   │"), "{}", table.to_text());
        assert!(table.to_csv().contains("one two three"), "{}", table.to_csv());
        assert!(table.to_markdown().contains("| one two three |"), "{}", table.to_markdown());
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
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
    fn texts_in_cells_are_broken_where_headings_do_not_make_room() {
        let texts = (0..5).map(|i| Column::text(format!("{i}")));
        let mut wide = Table::new("wide", texts.chain([Column::number("ms", 1)]));
        wide.row((0..5).map(|_| "a text of five words".into()).chain([1.0.into()]));
        let shown = wide.to_text();
        assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
        assert!(shown.contains("│ a text of five │"), "{shown}");
        assert_eq!(shown.matches("words").count(), 5, "{shown}");
    }

    const AHEAD: ColumnSpec = ColumnSpec::number("of_peer", "% of cuBLAS", 1).level_at(100);

    fn beside_a_peer() -> Table {
        let mut builder = TableBuilder::of("gemm\u{1b}[2J", [STEP, AHEAD]);
        for (step, of_peer) in [("tuned", 123.45), ("naive\u{1b}[2J", 1.0), ("cuBLAS", 100.0), ("level", 100.9)] {
            builder.row().set(STEP, step).set(AHEAD, of_peer).complete();
        }
        builder.finish()
    }

    #[test]
    fn ahead_and_behind_are_coloured_where_colours_are_shown_and_nothing_else_reaches_the_terminal() {
        let plain = beside_a_peer().to_text();
        assert!(!plain.contains('\u{1b}'), "{plain}");
        for width in [WIDTH, 24] {
            let shown = beside_a_peer().to_terminal(Terminal { width, colors: true });
            let (green, red) = ("\u{1b}[32m", "\u{1b}[31m");
            assert_eq!((shown.matches(green).count(), shown.matches(red).count()), (1, 1), "{shown:?}");
            let of = |color: &str| shown.lines().find(|line| line.contains(color)).unwrap();
            assert!(of(green).contains("123.5") && of(red).contains("1.0"), "{shown:?}");
            // Without the colours it is the plain one: they change no width.
            let without =
                [green, red, "\u{1b}[39m", "\u{1b}[0m"].iter().fold(shown, |text, code| text.replace(code, ""));
            assert!(!without.contains('\u{1b}'), "{without:?}");
            assert_eq!(without, beside_a_peer().to_terminal(Terminal { width, colors: false }));
        }
    }

    #[test]
    fn a_row_becomes_a_list_where_a_terminal_is_too_narrow_for_the_table() {
        let columns =
            [Column::text("model"), Column::number("naive, ms", 2), Column::number("tuned, ms", 2), Column::text("by")];
        let mut table = Table::new("what each phase bought, in milliseconds", columns);
        table.row(["ResNet18".into(), 12.5.into(), 1.25.into(), "".into()]);
        table.row(["a model of a name that is longer than a line".into(), 3.0.into(), Cell::absent("why"), "x".into()]);
        let narrow = table.to_terminal(Terminal { width: 30, colors: false });
        assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
        assert_eq!(
            narrow,
            "what each phase bought, in\n  milliseconds\nResNet18\n  naive, ms 12.50,\n  tuned, ms 1.25\na model of a name that is\n\
             longer than a line\n  naive, ms 3.00, tuned, ms –,\n  by x\n– why\n"
        );
        assert!(table.to_terminal(Terminal { width: 80, colors: false }).contains('│'));
        // In between, without rules, and with words on lines of their own.
        assert_eq!(
            table.to_terminal(Terminal { width: 48, colors: false }),
            "what each phase bought, in milliseconds\n        model           naive, ms  tuned, ms  by\n\
             ResNet18                    12.50       1.25\na model of a name that       3.00          –  x\nis longer than a line\n– why\n"
        );
    }

    #[test]
    fn a_command_to_type_stays_on_a_line_of_its_own() {
        let mut table =
            Table::new("doctor", [Column::text("component"), Column::text("version"), Column::text("advice")]);
        table.row(["cuBLAS".into(), "absent".into(), "no row to compare with\n$ pip install 'nvidia-cublas'".into()]);
        table.row(["NVRTC".into(), "13.0".into(), "libnvrtc.so.13".into()]);
        assert_eq!(
            table.to_terminal(Terminal { width: 24, colors: false }),
            "doctor\ncuBLAS\n  absent\n    no row to compare\n    with\n    $ pip install 'nvidia-cublas'\nNVRTC\n  13.0, libnvrtc.so.13\n"
        );
    }

    #[test]
    fn a_row_is_about_what_stands_before_its_first_measured_number() {
        let columns = [Column::text("path"), Column::identity("KiB"), Column::number("ms", 1), Column::text("check")];
        let mut table = Table::new("t", columns);
        table.row(["up".into(), 64usize.into(), 1.0.into(), "ok".into()]);
        assert_eq!(table.identity(&table.rows[0]), ["up".into(), 64usize.into()]);
        assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    }

    const STEP: ColumnSpec = ColumnSpec::text("step", "step");
    const BATCH: ColumnSpec = ColumnSpec::identity("batch", "batch");
    const RATE: ColumnSpec = ColumnSpec::number("tflops", "TFLOP/s", 2).on_gpu();
    const LANES: ColumnSpec = ColumnSpec::number("lanes", "lanes per product", 1).on_simulator();
    const UNKNOWN: ColumnSpec = ColumnSpec::number("ms", "TFLOP/s", 2);

    fn built(kind: DeviceKind) -> Table {
        let mut builder = TableBuilder::new("t", kind, &[STEP, BATCH, RATE, LANES]);
        builder.row().set(LANES, 7.0).set(RATE, 1.5).set(BATCH, 4usize).set(STEP, "tiled").finish("not measured");
        builder.row().set(STEP, "naive").finish("not measured");
        builder.finish()
    }

    #[test]
    fn rows_are_filled_and_read_by_the_keys_of_their_columns() {
        let (gpu, simulated) = (built(DeviceKind::Gpu), built(DeviceKind::Simulator));
        assert_eq!(gpu.rows[0], ["tiled".into(), 4usize.into(), 1.5.into()]);
        assert_eq!(simulated.rows[0], ["tiled".into(), 4usize.into(), 7.0.into()]);
        assert_eq!(gpu.rows[1][1..], [Cell::absent("not measured"), Cell::absent("not measured")]);
        let row = gpu.find(&[(STEP, "tiled".into()), (BATCH, 4usize.into())]).unwrap().unwrap();
        assert_eq!((row.number(RATE).unwrap(), row.text(STEP).unwrap()), (Some(1.5), "tiled"));
        assert!(gpu.find(&[(STEP, "tiled".into()), (BATCH, 5usize.into())]).unwrap().is_none());
        assert_eq!(gpu.iter().nth(1).unwrap().number(RATE).unwrap(), None);
        let error = row.number(LANES).unwrap_err().to_string();
        assert_eq!(error, "the table `t` has no column `lanes`; it has step, batch, tflops");
        // A heading is no key.
        assert!(row.number("TFLOP/s").is_err() && gpu.find(&[(UNKNOWN, 1.0.into())]).is_err());
    }

    #[test]
    #[should_panic(expected = "a row of the table `t` has no `tflops`")]
    fn a_row_that_lacks_a_cell_is_not_complete() {
        let mut builder = TableBuilder::of("t", [STEP, BATCH, RATE]);
        builder.row().set(BATCH, 4usize).set(STEP, "tiled").complete();
    }

    #[test]
    fn columns_are_chosen_and_rows_and_cells_left_out_or_changed() {
        let mut table = built(DeviceKind::Gpu).with_columns(&[2, 0]);
        let keys: Vec<&str> = table.columns.iter().map(Column::key).collect();
        assert_eq!((keys, &table.rows()[0][..]), (vec!["tflops", "step"], &[1.5.into(), "tiled".into()][..]));
        table.retain_rows(|row| row[1] == "naive".into());
        table.map_cells(|column, cell| if column.key() == "step" { "first".into() } else { cell.clone() });
        assert_eq!(table.rows(), [[Cell::absent("not measured"), "first".into()]]);
    }

    #[test]
    fn a_heading_that_only_the_run_knows_is_a_key_too() {
        let columns = [Column::from(STEP), Column::number("4 Welford", 1)];
        let mut builder = TableBuilder::of("t", columns.clone());
        builder.row().set(&columns[1], 2.0).set(STEP, "a").complete();
        assert_eq!(builder.finish().rows, [["a".into(), 2.0.into()]]);
    }

    #[test]
    #[should_panic(expected = "the table `t` declares no column `ms`")]
    fn a_column_that_no_table_declares_is_an_error_at_once() {
        let mut builder = TableBuilder::new("t", DeviceKind::Gpu, &[STEP, RATE]);
        builder.row().set(UNKNOWN, 1.0).finish("");
    }

    #[test]
    fn a_column_is_the_same_under_another_heading_and_one_without_a_key_by_its_heading() {
        let mut builder = TableBuilder::new("t", DeviceKind::Gpu, &[STEP, RATE]);
        builder.heading(RATE, "10¹² operations per second");
        let table = Table::from_json(&builder.finish().to_json()).unwrap();
        let [step, renamed] = &table.columns[..] else { panic!() };
        assert_eq!((renamed.key(), &*renamed.heading), ("tflops", "10¹² operations per second"));
        assert!(renamed.is_same(&RATE.into()) && !renamed.is_same(step));
        let old = Column::number("TFLOP/s", 2);
        assert!(old.is_same(&RATE.into()) && Column::from(RATE).is_same(&old) && !old.is_same(renamed));
        assert!(!Column::from(UNKNOWN).is_same(&RATE.into()), "two keys under one heading");
    }
}
