//! Bounds of a table read from a file: it may be a stranger's, and is drawn, printed and written under its own names.

use super::model::{Cell, Table};

/// Maximum numbers of a table's columns and rows, and of its notes.
pub(crate) const MAX_COLUMNS: usize = 200;
const MAX_ROWS: usize = 20_000;
const MAX_NOTES: usize = 200;
/// Maximum bytes of a text.
const MAX_TEXT: usize = 16 << 10;
/// Maximum number of decimals: an f64 has no more digits.
const MAX_DECIMALS: usize = 17;
/// Maximum length of the lines of a column, in characters.
const MAX_LINE: u16 = 1000;
/// Numbers other than 0 lie between these: no measurement is beyond, and sums and quotients of such numbers stay finite.
const NUMBERS: [f64; 2] = [1e-60, 1e60];

impl Table {
    /// Checks a table from elsewhere.
    ///
    /// # Errors
    /// The reason why it is refused, in a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        at_most(self.columns.len(), MAX_COLUMNS, "columns")?;
        at_most(self.rows().len(), MAX_ROWS, "rows")?;
        at_most(self.notes.len(), MAX_NOTES, "notes")?;
        self.notes.iter().chain([&self.title]).try_for_each(|words| text(words))?;
        for (at, column) in self.columns.iter().enumerate() {
            text(column.key())?;
            text(&column.heading)?;
            if self.columns[..at].iter().any(|other| other.key() == column.key()) {
                return Err(format!("two columns have the key `{}`", column.key()));
            }
            at_most(column.decimals.unwrap_or(0), MAX_DECIMALS, "decimals")?;
            if column.line.is_some_and(|line| !(1..=MAX_LINE).contains(&line)) {
                return Err(format!("the lines of `{}` have no characters, or too many", column.key()));
            }
        }
        if let Some(row) = self.rows().iter().position(|row| row.len() != self.columns.len()) {
            return Err(format!("row {row} has {} cells for {} columns", self.rows()[row].len(), self.columns.len()));
        }
        self.rows().iter().flatten().try_for_each(|cell| match cell {
            Cell::Text(words) | Cell::Absent(words) => text(words),
            Cell::Number(value) => number(*value),
        })
    }
}

/// Refuses more things than `most`.
pub(crate) fn at_most(count: usize, most: usize, things: &str) -> Result<(), String> {
    if count > most { Err(format!("{count} {things}; {most} are the most")) } else { Ok(()) }
}

/// Refuses a text that is too long.
pub(crate) fn text(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT { Err(format!("a text of {} bytes; {MAX_TEXT} are the most", text.len())) } else { Ok(()) }
}

/// Refuses a number that no measurement has.
pub(crate) fn number(value: f64) -> Result<(), String> {
    let [least, most] = NUMBERS;
    if value == 0.0 || (least..=most).contains(&value.abs()) {
        Ok(())
    } else {
        Err(format!("{value:e} is no measurement: numbers are 0, or between {least:e} and {most:e}"))
    }
}
