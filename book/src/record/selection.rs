//! Parts of a table that an argument selects: columns, rows, cells.

use bench::{
    ladder::columns::STEP,
    table::{Cell, Column, Table},
};

use super::RecordError;

/// A cell as shown in tables and sentences; empty if it is absent.
pub fn text(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(value) => format!("{value:.*}", column.decimals.unwrap_or_default()),
        Cell::Absent(_) => String::new(),
    }
}

/// The column with that key or, as pages may use it too, that heading.
///
/// # Errors
/// [`RecordError::NoColumn`].
pub fn column(table: &Table, name: &str) -> Result<usize, RecordError> {
    let by_key = table.columns.iter().position(|column| column.key() == name);
    let by_heading = || table.columns.iter().position(|column| column.heading == name);
    by_key.or_else(by_heading).ok_or_else(|| {
        let known = table.columns.iter().map(|column| column.heading.as_str()).collect::<Vec<_>>().join(", ");
        RecordError::NoColumn { name: name.to_owned(), known }
    })
}

/// Whether a cell of the row reads so; `COLUMN=TEXT` checks only one column. Line ends count as spaces. In a column of steps, the
/// name is enough: `step=naive` is `1 naive`, and stays so when steps are numbered anew.
pub fn has(table: &Table, row: &[Cell], wanted: &str) -> bool {
    let in_column = wanted.split_once('=').and_then(|(name, text)| Some((column(table, name).ok()?, text)));
    let (only, wanted) = in_column.map_or((None, wanted), |(at, text)| (Some(at), text));
    let by_name = only.is_some_and(|at| table.columns[at].key() == STEP.key);
    let reads = |text: String| {
        let name = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is = |text: &str| text.split_whitespace().eq(wanted.split_whitespace());
        is(&text) || by_name && name.starts_with(' ') && is(name)
    };
    let mut cells = row.iter().zip(&table.columns).enumerate();
    cells.any(|(at, (cell, column))| only.is_none_or(|only| only == at) && reads(text(cell, column)))
}

/// A parsed argument.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) table: String,
    pub(super) list: bool,
    without_notes: bool,
    columns: Vec<String>,
    only: Vec<String>,
    rows: Vec<String>,
    code: Vec<String>,
}

impl Request {
    pub(super) fn parse(argument: &str) -> Result<Request, RecordError> {
        let mut words = words(argument)?.into_iter();
        let mut request = Request::default();
        match words.next() {
            Some(Word::Bare(table) | Word::Quoted(table)) => request.table = table.to_owned(),
            None => return Err(RecordError::Syntax("which table? Write PHASE/TABLE".to_owned())),
        }
        let mut open: Option<&mut Vec<String>> = None;
        while let Some(word) = words.next() {
            match (word, &mut open) {
                (Word::Quoted(text), Some(open)) => open.push(text.to_owned()),
                (Word::Bare("columns"), _) => open = Some(&mut request.columns),
                (Word::Bare("only"), _) => open = Some(&mut request.only),
                (Word::Bare("rows"), _) => open = Some(&mut request.rows),
                (Word::Bare("code"), _) => open = Some(&mut request.code),
                (Word::Bare("without"), _) if words.next() == Some(Word::Bare("notes")) => request.without_notes = true,
                (Word::Bare("as"), _) if words.next() == Some(Word::Bare("list")) => request.list = true,
                (Word::Bare(text) | Word::Quoted(text), _) => {
                    let expected = "`as list`, `without notes`, `columns`, `only`, `rows` or `code` with \"…\"";
                    return Err(RecordError::Syntax(format!(
                        "`{text}` is not understood: {expected} may follow a table"
                    )));
                }
            }
        }
        Ok(request)
    }

    pub(super) fn apply(&self, table: &Table) -> Result<Table, RecordError> {
        let columns: Vec<usize> = match self.columns.as_slice() {
            [] => (0..table.columns.len()).collect(),
            names => names.iter().map(|name| column(table, name)).collect::<Result<_, _>>()?,
        };
        let left = |row: &[Cell]| self.only.iter().all(|text| has(table, row, text));
        for wanted in &self.rows {
            if !table.rows().iter().any(|row| left(row) && has(table, row, wanted)) {
                let cells = self.only.iter().chain([wanted]).cloned().collect();
                return Err(RecordError::Rows { found: 0, cells });
            }
        }
        if !self.only.is_empty() && !table.rows().iter().any(|row| left(row)) {
            return Err(RecordError::Rows { found: 0, cells: self.only.clone() });
        }
        let key = |name: &String| Ok(table.columns[column(table, name)?].key());
        let code: Vec<&str> = self.code.iter().map(key).collect::<Result<_, RecordError>>()?;
        let wanted = |row: &[Cell]| self.rows.is_empty() || self.rows.iter().any(|text| has(table, row, text));
        let mut shown = table.clone();
        shown.retain_rows(|row| left(row) && wanted(row));
        shown.map_cells(|column, cell| match cell {
            Cell::Text(text) if code.contains(&column.key()) => format!("`{text}`").into(),
            cell => cell.clone(),
        });
        if self.without_notes {
            shown.notes.clear();
        }
        Ok(shown.with_columns(&columns))
    }
}

/// A part of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// Up to the next space.
    Bare(&'a str),
    /// Between quotation marks.
    Quoted(&'a str),
}

/// Splits at spaces, except between quotation marks.
///
/// # Errors
/// [`RecordError::Syntax`] for a mark without its partner.
pub fn words(text: &str) -> Result<Vec<Word<'_>>, RecordError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (quoted, after) = quoted
                    .split_once('"')
                    .ok_or_else(|| RecordError::Syntax(format!("`\"{quoted}` has no closing quotation mark")))?;
                (Word::Quoted(quoted), after)
            }
            None => {
                let (bare, after) = rest.split_at(rest.find([' ', '"']).unwrap_or(rest.len()));
                (Word::Bare(bare), after)
            }
        };
        found.push(word);
        rest = after.trim_start();
    }
    Ok(found)
}
