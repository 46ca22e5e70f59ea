//! Filling a table, row by row.

use common::device::Device;

use super::model::{Cell, Column, ColumnSpec, DeviceKind, Table};

/// A table being filled, row by row, by the columns that it declares. A column for another kind of device is not shown, but
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

    /// An empty table with all of these columns, whatever the device. A [`Column`] is for a heading known only at run time.
    pub fn of(title: impl Into<String>, columns: impl IntoIterator<Item: Into<Column>>) -> TableBuilder {
        let columns = columns.into_iter().map(Into::into).collect();
        let table = Table { title: title.into(), columns, rows: Vec::new(), notes: Vec::new() };
        TableBuilder { table, not_shown: Vec::new() }
    }

    /// Gives a column a heading known only at run time, such as one with a library's name.
    ///
    /// # Panics
    /// If the column is not declared: that is a bug in the program.
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

    /// Appends a sentence about a column, if this kind of device has it.
    pub fn note_on(&mut self, column: ColumnSpec, note: impl Into<String>) {
        if self.place(column.key).is_some() {
            self.note(note);
        }
    }

    /// The table.
    pub fn finish(self) -> Table {
        self.table
    }

    /// Index of a declared column; `None` if it is for another kind of device.
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
    /// If the table does not declare the column: that is a bug in the program.
    pub fn set(mut self, column: impl AsRef<str>, cell: impl Into<Cell>) -> Self {
        if let Some(at) = self.builder.place(column.as_ref()) {
            self.cells[at] = Some(cell.into());
        }
        self
    }

    /// Sets several cells, like [`RowBuilder::set`].
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
    /// If one is not: that is a bug in the program.
    pub fn complete(self) {
        let table = &self.builder.table;
        let missing = self.cells.iter().zip(&table.columns).find(|(cell, _)| cell.is_none());
        if let Some((_, column)) = missing {
            panic!("a row of the table `{}` has no `{}`", table.title, column.key());
        }
        self.finish("");
    }
}

#[cfg(test)]
impl Table {
    /// An empty table, for tests.
    pub(crate) fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        TableBuilder::of(title, columns).finish()
    }

    /// Appends a row of cells in the columns' order: tests write tables down as lists.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row of `{}`", self.title);
        self.rows.push(cells);
    }
}
