//! Numbers of tables and values computed from them, for [`crate::figure`], [`crate::relation`] and [`crate::verdict`].
//!
//! ```text
//! EXPRESSION  = TERM { (+ | - | * | /) TERM }                 from left to right, without precedence
//! TERM        = NUMBER | "TEXT" | ( EXPRESSION ) | CELL | (most | least | sum) CELLS
//! CELL, CELLS = [TABLE] [ "CELL"… [from "CELL"] [to "CELL"] [except "CELL"…] [: "COLUMN"] ]
//! ```
//! `TABLE` is as [`crate::record`] has it. The rows are those whose cells read so; each text is compared with every cell,
//! or as `COLUMN=CELL` with the one of that column. Of these, `from` leaves out the rows before the first that has its cell, `to` those
//! after the last, `except` those with one of its cells. A column is named by its key or its heading.
//! A table or a column that is not named is that of the term before.
//!
//! A `CELL` must be in one row; `most`, `least` and `sum` take the numbers of all, and leave out cells without one.

use std::{path::Path, sync::Arc};

use bench::table::{Cell, Column, Table};

use crate::record::{self, RecordError, Word, words};

/// Value of a term or an expression.
#[derive(Clone, Debug)]
pub struct Value {
    cell: Cell,
    column: Column,
}

impl Value {
    /// A number that is not from a table.
    fn plain(number: f64) -> Value {
        Value { cell: Cell::Number(number), column: Column::number("", 0) }
    }

    /// The number.
    ///
    /// # Errors
    /// [`RecordError::Syntax`] for texts that are not numbers, and absent cells.
    pub fn number(&self) -> Result<f64, RecordError> {
        match &self.cell {
            Cell::Number(value) => Ok(*value),
            Cell::Text(text) => {
                text.parse().map_err(|_| RecordError::Syntax(format!("`{text}` is no number to compute with")))
            }
            Cell::Absent(reason) => Err(no_value(reason)),
        }
    }

    /// The text, if it is one and not a number.
    pub fn text(&self) -> Option<&str> {
        match &self.cell {
            Cell::Text(text) if text.parse::<f64>().is_err() => Some(text),
            _ => None,
        }
    }

    /// The value as its table shows it.
    ///
    /// # Errors
    /// [`RecordError::Syntax`] for absent cells.
    pub fn shown(&self) -> Result<String, RecordError> {
        match &self.cell {
            Cell::Absent(reason) => Err(no_value(reason)),
            cell => Ok(record::text(cell, &self.column)),
        }
    }
}

fn no_value(reason: &str) -> RecordError {
    RecordError::Syntax(format!("there is no value: {reason}"))
}

/// Some rows of a table, and one column.
#[derive(Clone, Debug)]
pub struct Selection {
    table: Arc<Table>,
    rows: Vec<usize>,
    column: usize,
    cells: Vec<String>,
}

impl Selection {
    /// The value of the only row.
    fn one(&self) -> Result<Value, RecordError> {
        match self.rows[..] {
            [row] => {
                let cell = self.table.rows()[row][self.column].clone();
                Ok(Value { cell, column: self.table.columns[self.column].clone() })
            }
            _ => Err(RecordError::Rows { found: self.rows.len(), cells: self.cells.clone() }),
        }
    }

    /// The number of each row that has one, with the cells that identify the row.
    ///
    /// # Errors
    /// [`RecordError`] for texts that are not numbers, and if there is no number at all.
    pub fn numbers(&self) -> Result<Vec<(String, f64)>, RecordError> {
        let column = &self.table.columns[self.column];
        let mut found = Vec::new();
        for &row in &self.rows {
            let cells = &self.table.rows()[row];
            if matches!(cells[self.column], Cell::Absent(_)) {
                continue;
            }
            let value = Value { cell: cells[self.column].clone(), column: column.clone() };
            found.push((self.name(cells), value.number()?));
        }
        if found.is_empty() {
            return Err(RecordError::Syntax(format!(
                "column `{}` has no number in the {} rows with the cells {:?}",
                column.heading,
                self.rows.len(),
                self.cells
            )));
        }
        Ok(found)
    }

    /// Identity of a row: the cells of identifying columns, or of the first columns, up to one of numbers.
    fn name(&self, row: &[Cell]) -> String {
        let columns = &self.table.columns;
        let cells = row.iter().zip(columns);
        let is_text = |(_, column): &(&Cell, &Column)| column.decimals.is_none();
        let texts: Vec<String> = if columns.iter().any(|column| column.identifies) {
            cells.filter(|(_, column)| column.identifies).map(|(cell, column)| record::text(cell, column)).collect()
        } else {
            cells.take_while(is_text).map(|(cell, column)| record::text(cell, column)).collect()
        };
        if texts.is_empty() { record::text(&row[0], &columns[0]) } else { texts.join(", ") }
    }
}

/// Reads expressions from the front of a text.
pub struct Reader<'a> {
    workspace: &'a Path,
    /// Unread text, without spaces before it.
    rest: &'a str,
    /// The table of the previous term.
    table: Option<Arc<Table>>,
    /// The column of the previous term, as named there.
    column: Option<&'a str>,
}

impl<'a> Reader<'a> {
    /// A reader of `text`, with the tables of the workspace in that folder.
    pub fn new(workspace: &'a Path, text: &'a str) -> Reader<'a> {
        Reader { workspace, rest: text.trim(), table: None, column: None }
    }

    /// Unread text, without spaces before it.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    /// Whether the text continues with `word`, which is then read. A word of letters ends where no letter follows.
    pub fn takes(&mut self, word: &str) -> bool {
        let Some(after) = self.rest.strip_prefix(word) else { return false };
        let is_word = word.ends_with(|c: char| c.is_ascii_alphabetic());
        if is_word && after.starts_with(|c: char| c.is_ascii_alphanumeric() || "_-/".contains(c)) {
            return false;
        }
        self.rest = after.trim_start();
        true
    }

    /// The next expression, and whether it was computed: if not, it is a cell as its table shows it.
    ///
    /// # Errors
    /// [`RecordError`] for malformed terms, unknown tables, rows and columns, and cells without a number.
    pub fn expression(&mut self) -> Result<(Value, bool), RecordError> {
        let mut value = self.term()?;
        let mut computed = false;
        while let Some(operator) = ['+', '-', '*', '/'].into_iter().find(|operator| self.rest.starts_with(*operator)) {
            self.rest = self.rest[1..].trim_start();
            let other = self.term()?;
            value = Value::plain(apply(operator, value.number()?, other.number()?)?);
            computed = true;
        }
        Ok((value, computed))
    }

    fn term(&mut self) -> Result<Value, RecordError> {
        if self.takes("(") {
            let (value, _) = self.expression()?;
            return if self.takes(")") {
                Ok(Value::plain(value.number()?))
            } else {
                Err(RecordError::Syntax(format!("`)` must stand before `{}`", self.rest)))
            };
        }
        if let Some(text) = self.rest.strip_prefix('"') {
            let unclosed = || RecordError::Syntax(format!("`\"{text}` has no closing quotation mark"));
            let (text, after) = text.split_once('"').ok_or_else(unclosed)?;
            self.rest = after.trim_start();
            return Ok(Value { cell: Cell::Text(text.to_owned()), column: Column::text("") });
        }
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest[sign..].find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (number, after) = self.rest.split_at(digits.map_or(self.rest.len(), |digits| sign + digits));
        if let Ok(number) = number.parse() {
            self.rest = after.trim_start();
            return Ok(Value::plain(number));
        }
        let combine: Option<fn(f64, f64) -> f64> = match () {
            () if self.takes("most") => Some(f64::max),
            () if self.takes("least") => Some(f64::min),
            () if self.takes("sum") => Some(|a, b| a + b),
            () => None,
        };
        let selection = self.selection()?;
        let Some(combine) = combine else { return selection.one() };
        let numbers = selection.numbers()?.into_iter().map(|(_, number)| number);
        let cell = numbers.reduce(combine).map(Cell::Number);
        let cell = cell.unwrap_or_else(|| Cell::absent("no row has a number"));
        Ok(Value { cell, column: selection.table.columns[selection.column].clone() })
    }

    /// The next `TABLE[…]`.
    ///
    /// # Errors
    /// Same as [`Reader::expression`].
    pub fn selection(&mut self) -> Result<Selection, RecordError> {
        let text = self.rest;
        let malformed = || RecordError::Syntax(format!("`{text}` does not begin with TABLE[\"CELL\" : \"COLUMN\"]"));
        let (name, after) = text.split_once('[').ok_or_else(malformed)?;
        let (place, rest) = after.split_once("\"]").ok_or_else(malformed)?;
        // The quotation mark that ended it.
        let place = words(&after[..=place.len()])?;
        let (rows, column) = match &place[..] {
            [rows @ .., Word::Bare(":"), Word::Quoted(column)] => (rows, Some(*column)),
            rows => (rows, None),
        };
        let table = match name.trim() {
            "" => self.table.clone().ok_or_else(malformed)?,
            name if name.contains(' ') => return Err(malformed()),
            name => record::find(self.workspace, name)?.table,
        };
        let column = column.or(self.column).ok_or_else(malformed)?;
        let at = record::column(&table, column)?;

        let (mut all, mut from, mut to, mut except) = (Vec::new(), None, None, Vec::new());
        let mut words = rows.iter();
        let mut excepting = false;
        while let Some(word) = words.next() {
            match word {
                Word::Quoted(text) if excepting => except.push(*text),
                Word::Quoted(text) => all.push(*text),
                Word::Bare("except") => excepting = true,
                Word::Bare(end @ ("from" | "to")) => {
                    let Some(Word::Quoted(text)) = words.next() else { return Err(malformed()) };
                    *(if *end == "from" { &mut from } else { &mut to }) = Some(*text);
                }
                Word::Bare(_) => return Err(malformed()),
            }
        }
        let has = |row: usize, text: &str| record::has(&table, &table.rows()[row], text);
        let mut rows: Vec<usize> = (0..table.rows().len()).collect();
        rows.retain(|&row| all.iter().all(|text| has(row, text)));
        let absent = |text: &str| RecordError::Rows {
            found: 0,
            cells: all.iter().copied().chain([text]).map(str::to_owned).collect(),
        };
        if let Some(text) = from {
            let first = rows.iter().position(|&row| has(row, text)).ok_or_else(|| absent(text))?;
            rows.drain(..first);
        }
        if let Some(text) = to {
            let last = rows.iter().rposition(|&row| has(row, text)).ok_or_else(|| absent(text))?;
            rows.truncate(last + 1);
        }
        for text in except {
            let before = rows.len();
            rows.retain(|&row| !has(row, text));
            if rows.len() == before {
                return Err(absent(text));
            }
        }
        self.rest = rest.trim_start();
        self.table = Some(table.clone());
        self.column = Some(column);
        let cells = all.into_iter().chain(from).chain(to).map(str::to_owned).collect();
        Ok(Selection { table, rows, column: at, cells })
    }
}

fn apply(operator: char, a: f64, b: f64) -> Result<f64, RecordError> {
    match operator {
        '+' => Ok(a + b),
        '-' => Ok(a - b),
        '*' => Ok(a * b),
        _ if b == 0.0 => Err(RecordError::Syntax("a division by 0".to_owned())),
        _ => Ok(a / b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<f64, String> {
        let mut reader = Reader::new(Path::new("."), text);
        let (value, _) = reader.expression().map_err(|error| error.to_string())?;
        assert_eq!(reader.rest(), "", "{text}");
        value.number().map_err(|error| error.to_string())
    }

    /// Its first rows are of n = 1, 255, 256 and 257; 1 and 257 leave 255 threads idle.
    const TABLE: &str = "phase1-infra/vector-add@sim";

    #[test]
    fn terms_that_name_no_table_or_column_take_those_of_the_term_before() {
        assert_eq!(number(&format!(r#"{TABLE}["n=1" : "idle threads"] - ["n=257"]"#)), Ok(0.0));
        assert_eq!(number(&format!(r#"{TABLE}["n=257" : "idle threads"] + ["n=257" : "n"]"#)), Ok(512.0));
        assert_eq!(number("2 * (1 + 3) - -1"), Ok(9.0));
        let error = number("[\"n=1\" : \"n\"]").unwrap_err();
        assert!(error.contains("does not begin with TABLE"), "{error}");
        assert!(number(&format!(r#"{TABLE}["n=1"]"#)).unwrap_err().contains("does not begin with TABLE"));
    }

    #[test]
    fn rows_are_chosen_by_cells_ends_and_exceptions() {
        assert_eq!(number(&format!(r#"sum {TABLE}[from "n=1" to "n=257" except "n=257" : "n"] - ["n=1"]"#)), Ok(511.0));
        assert_eq!(number(&format!(r#"most {TABLE}[to "n=257" : "n"]"#)), Ok(257.0));
        assert_eq!(number(&format!(r#"least {TABLE}["256" : "n"]"#)), Ok(256.0));
        for (text, expected) in [
            (r#"[from "n=2" : "n"]"#, "0 rows have the cells [\"n=2\"]"),
            (r#"[except "n=2" : "n"]"#, "0 rows have the cells [\"n=2\"]"),
            (r#"[from : "n"]"#, "does not begin with"),
            (r#"["n=2" : "n"]"#, "column `n` has no number in the 0 rows"),
        ] {
            let error = number(&format!("least {TABLE}{text}")).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
