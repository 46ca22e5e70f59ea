//! The parts of a table: title, columns, rows of cells, notes; and how they are found.

use common::device::Device;
use common::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// A title, columns, rows, and notes below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Contents, and device.
    pub title: String,
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// One cell per column each. Only a [`TableBuilder`] adds rows, whose cells have their columns' names.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A column's heading and the format of its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved")]
pub struct Column {
    /// The [`Column::key`], if the heading is not the key itself. Records made before columns had keys have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The heading, with the unit: `ms`, `GB/s`.
    #[serde(rename = "name")]
    pub heading: String,
    /// Digits after the decimal point; `None` for text.
    pub decimals: Option<usize>,
    /// True if its numbers identify a row, as a size does, and are not measured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub identifies: bool,
    /// The number at which we and a peer are level; more is ahead. `None` if the column is no such comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u16>,
    /// Line length of its words in a text table, in characters, for sentences in several columns. `None` if they stand on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u16>,
}

/// A column as a record has it. In earlier ones the key is called `id`, and `key` says whether it identifies a row.
#[derive(Deserialize)]
struct Saved {
    id: Option<String>,
    key: Option<Key>,
    name: String,
    decimals: Option<usize>,
    #[serde(default)]
    identifies: bool,
    level: Option<u16>,
    line: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Key {
    Name(String),
    Identifies(bool),
}

impl From<Saved> for Column {
    fn from(saved: Saved) -> Column {
        let Saved { id, key, name: heading, decimals, identifies, level, line } = saved;
        let (key, identifies) = match key {
            Some(Key::Name(name)) => (Some(name), identifies),
            Some(Key::Identifies(identifies)) => (id, identifies),
            None => (id, identifies),
        };
        Column { key, heading, decimals, identifies, level, line }
    }
}

/// A column, declared once in a table's file. Rows are filled and read by it, so its heading and its position may change.
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
    /// Same as [`Column::level`].
    pub level: Option<u16>,
    /// Same as [`Column::line`].
    pub line: Option<u16>,
}

/// Relative distance from a peer that is neither ahead nor behind: such differences occur from run to run.
const LEVEL_WITHIN: f64 = 0.01;

/// Our position relative to a peer. Terminals show it as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// We are faster.
    Ahead,
    /// The peer is faster.
    Behind,
}

/// Kind of device: with times or with counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// It has a clock.
    Gpu,
    /// It counts instructions.
    Simulator,
}

/// Contents of a table's cell.
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

    /// Key of the column.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.heading)
    }

    /// Our position relative to the peer, if this is the column of such a comparison and the two differ.
    pub fn standing(&self, cell: &Cell) -> Option<Standing> {
        let (Some(level), Cell::Number(value)) = (self.level, cell) else { return None };
        match value / f64::from(level) - 1.0 {
            gain if gain > LEVEL_WITHIN => Some(Standing::Ahead),
            gain if gain < -LEVEL_WITHIN => Some(Standing::Behind),
            _ => None,
        }
    }

    /// Whether it shows the same as a column of another run: the keys are equal or, if a record was made before columns had
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

    /// Only in tables of a GPU: a line has 100 characters, and the simulator has no value for it.
    pub const fn on_gpu(self) -> ColumnSpec {
        ColumnSpec { only_on: Some(DeviceKind::Gpu), ..self }
    }

    /// Only in tables of the simulator.
    pub const fn on_simulator(self) -> ColumnSpec {
        ColumnSpec { only_on: Some(DeviceKind::Simulator), ..self }
    }

    /// Numbers above `level` mean that we are ahead of a peer, those below that we are behind: 100 of a percentage, 1 of a
    /// ratio.
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

    /// A number with the column's decimals, in scientific notation if they would show it as 0; a text unchanged, and a dash for an
    /// absent cell.
    pub fn shown(&self, column: &Column) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => number(*value, column.decimals),
            Cell::Absent(_) => "–".to_owned(),
        }
    }

    /// The number of a result; an unsupported operation is a dash with its reason, other errors stay errors.
    ///
    /// # Errors
    /// Errors of `result` other than [`Error::Unsupported`].
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
    /// The rows: one cell per column each.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The same rows with the columns at these indices, in this order.
    ///
    /// # Panics
    /// If there is no such index.
    #[must_use]
    pub fn with_columns(&self, places: &[usize]) -> Table {
        let columns = places.iter().map(|&at| self.columns[at].clone()).collect();
        let rows = self.rows.iter().map(|row| places.iter().map(|&at| row[at].clone()).collect()).collect();
        Table { columns, rows, ..self.clone() }
    }

    /// Keeps the rows for which `keep` returns true.
    pub fn retain_rows(&mut self, keep: impl Fn(&[Cell]) -> bool) {
        self.rows.retain(|row| keep(row));
    }

    /// Replaces each cell by the result of `change` for its column and it.
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

    /// Makes numbers that are not finite absent: JSON has none.
    pub(crate) fn drop_non_finite(&mut self) {
        for cell in self.rows.iter_mut().flatten() {
            if let Cell::Number(value) = cell
                && !value.is_finite()
            {
                *cell = Cell::absent(format!("the value was {value}"));
            }
        }
    }

    /// A row's leading cells, up to the first measured column: the identity of the row. (Texts after it are results, such as
    /// that of a check.)
    pub(crate) fn identity<'a>(&self, row: &'a [Cell]) -> &'a [Cell] {
        &row[..self.identity_columns().count()]
    }

    /// The row with the same identity.
    pub(crate) fn same_row(&self, identity: &[Cell]) -> Option<&Vec<Cell>> {
        self.rows.iter().find(|row| self.identity(row) == identity)
    }

    /// The columns of [`Table::identity`].
    pub(crate) fn identity_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().take_while(|column| column.identifies || column.decimals.is_none())
    }

    /// Identity of a row, in words, without the column `without`: `4096 tokens, 64 d`.
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

    /// Index of a column.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the existing columns, if none has this key.
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
    /// Same as [`Table::column`].
    pub fn find(&self, wanted: &[(ColumnSpec, Cell)]) -> Result<Option<Row<'_>>> {
        let wanted =
            wanted.iter().map(|(column, cell)| Ok((self.column(column)?, cell))).collect::<Result<Vec<_>>>()?;
        Ok(self.iter().find(|row| wanted.iter().all(|(at, cell)| row.cells[*at] == **cell)))
    }
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub(super) table: &'a Table,
    cells: &'a [Cell],
}

impl<'a> Row<'a> {
    /// The cell of a column.
    ///
    /// # Errors
    /// Same as [`Table::column`].
    pub fn cell(self, key: impl AsRef<str>) -> Result<&'a Cell> {
        Ok(&self.cells[self.table.column(key)?])
    }

    /// The number in a column; `None` if there is a dash or a text.
    ///
    /// # Errors
    /// Same as [`Table::column`].
    pub fn number(self, key: impl AsRef<str>) -> Result<Option<f64>> {
        Ok(if let Cell::Number(value) = self.cell(key)? { Some(*value) } else { None })
    }

    /// The text in a column; empty if there is a dash or a number.
    ///
    /// # Errors
    /// Same as [`Table::column`].
    pub fn text(self, key: impl AsRef<str>) -> Result<&'a str> {
        Ok(if let Cell::Text(text) = self.cell(key)? { text } else { "" })
    }
}

/// Formats with the column's decimals; in scientific notation if they would show the value as 0, or if there are none.
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
