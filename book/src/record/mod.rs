//! Tables that were measured on a GPU, or counted on the simulator, as parts of a page.
//!
//! ```text
//! record PHASE/TABLE[@sim] [as list] [without notes] [columns "NAME"…] [only "CELL"…] [rows "CELL"…] [code "NAME"…]
//! ```
//! `PHASE/TABLE`, where PHASE may be any folder, is the table of that name in `PHASE/records/nvidia-h200.json`, or in
//! `nvidia-h200-TABLE.json` there if it was measured by itself; what is not there may be in those of `nvidia-h100`, and
//! `PHASE/TABLE@nvidia-h100` asks for these alone. With `@sim`, the step of phase 1, the part of another phase's
//! report, the gallery of phase 4 (`orders`) or the table of phase 5 is run on the simulator: its counts are the same on every
//! machine. What a tool says, without any device, is in
//! `PHASE/records/TABLE.json`; where a part has several such tables, `TABLE` and `TABLE-…`, all are there.
//!
//! `PHASE/TABLE` may also be a profiler's session, `PHASE/records/MACHINE-TABLE.csv` ([`crate::session`]).
//!
//! Tables that phase 5 derives from others are derived anew from the record. Measurements at a commit that ends in `-dirty` are
//! not shown: no one can repeat them.
//!
//! A column is named by its key or its heading, a step by its title or its name (`step=naive`). Columns are shown in the order
//! named; a row is shown if one of its cells reads as one of those named, or as `COLUMN=CELL` for a cell of that column. `only`
//! leaves the rows that have all of its cells. A list shows each row's last text as a block of its own, for texts of several
//! lines. Columns of code, such as drawings, keep one width for each letter.

mod opened;
mod selection;
mod shown;
mod simulated;
#[cfg(test)]
mod tests;

use std::{fs, path::Path, sync::Arc};

use bench::table::Table;

use crate::session;
use opened::Opened;
use simulated::simulated;

pub use selection::{Word, column, has, text, words};
pub use shown::{bars, chart, markdown};

/// The phase whose tables may be derived from others.
const PHASE5: &str = "phase5-bench";

/// Suffix of a record's commit if files had changed since.
const DIRTY: &str = "-dirty";

/// Machines of the book's measurements. The first has most of them.
const MACHINES: [&str; 2] = ["nvidia-h200", "nvidia-h100"];

/// Why a table or a number can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A record, or the simulator, has no such table.
    #[error("no table `{name}` in {place}; it has: {known}")]
    NoTable {
        /// As requested.
        name: String,
        /// Searched place.
        place: String,
        /// Known names.
        known: String,
    },
    /// A table has no such column.
    #[error("no column `{name}`; there are: {known}")]
    NoColumn {
        /// As requested.
        name: String,
        /// Known names.
        known: String,
    },
    /// The selection did not match exactly one row.
    #[error("{found} rows have the cells {cells:?}, exactly one must")]
    Rows {
        /// Number of them.
        found: usize,
        /// As requested.
        cells: Vec<String>,
    },
    /// The record can't be read, or a step failed on the simulator.
    #[error(transparent)]
    Common(#[from] common::Error),
    /// A record can't be drawn, or a table of phase 5 could not be made.
    #[error(transparent)]
    Phase5(#[from] phase5_bench::Error),
    /// A table was measured with uncommitted files, so that nobody can repeat it.
    #[error("table `{name}` in {place} is from commit {commit}: measure it again from a clean checkout")]
    Dirty {
        /// As requested.
        name: String,
        /// Its place.
        place: String,
        /// Recorded commit.
        commit: String,
    },
    /// A relation does not hold; both sides.
    #[error("false: {0}")]
    False(String),
    /// The marker's argument is malformed.
    #[error("{0}")]
    Syntax(String),
}

/// A table and its origin.
pub struct Found {
    /// The table as recorded, counted, or derived from recorded ones.
    pub table: Arc<Table>,
    /// `Recorded: NVIDIA H200, …`
    pub caption: String,
}

/// The table `PHASE/TABLE[@sim]`.
///
/// # Errors
/// See the variants of [`RecordError`].
pub fn find(workspace: &Path, name: &str) -> Result<Found, RecordError> {
    let Some((phase, table)) = name.rsplit_once('/') else {
        return Err(RecordError::Syntax(format!("`{name}` is no table: write PHASE/TABLE or PHASE/TABLE@sim")));
    };
    if let Some(table) = table.strip_suffix("@sim") {
        return Ok(Found { table: simulated(phase, table)?, caption: "On the simulator.".to_owned() });
    }
    let file = |name: &str| workspace.join(phase).join("records").join(name).with_extension("json");
    // The part's, if it has several tables: `sass-ladders` is in `sass.json`.
    let part = table.split_once('-').map_or(table, |(part, _)| part);
    let asked = MACHINES.iter().find_map(|machine| Some((table.strip_suffix(machine)?.strip_suffix('@')?, *machine)));
    let (table, machines) = match &asked {
        Some((table, machine)) => (*table, std::slice::from_ref(machine)),
        None => (table, &MACHINES[..]),
    };
    let sessions = machines.iter().map(|machine| file(&format!("{machine}-{table}")).with_extension("csv"));
    if let Some(path) = sessions.into_iter().find(|path| path.is_file()) {
        return of_session(&path, table);
    }
    let by_itself = machines.iter().map(|machine| file(&format!("{machine}-{table}")));
    let own = by_itself.chain([file(table), file(part)]).find(|path| path.is_file());
    let of_all = || machines.iter().map(|machine| file(machine)).filter(|path| path.is_file());
    let mut records = own.map_or_else(|| of_all().collect(), |path| vec![path]);
    if records.is_empty() {
        records.push(file(machines[0])); // whose absence is told
    }
    let (mut known, mut failed) = (Vec::new(), None);
    for path in &records {
        let opened = Opened::open(path)?;
        match opened.table(phase, table) {
            Some(Ok(found)) => return Ok(found),
            // Another machine's may be clean.
            Some(Err(error)) => failed = failed.or(Some(error)),
            None => known.extend(opened.record.tables.iter().map(|named| named.name.clone())),
        }
    }
    let absent = || no_table(table, records[0].display().to_string(), known.iter().map(String::as_str));
    Err(failed.unwrap_or_else(absent))
}

/// Session written by a profiler.
fn of_session(path: &Path, name: &str) -> Result<Found, RecordError> {
    let error = |source| common::Error::Io { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(error)?;
    let place = path.display().to_string();
    let session = session::read(name, &text).map_err(|error| RecordError::Syntax(format!("{place}: {error}")))?;
    if session.commit.ends_with(DIRTY) {
        return Err(RecordError::Dirty { name: name.to_owned(), place, commit: session.commit });
    }
    Ok(Found { table: Arc::new(session.table), caption: session.caption })
}

fn no_table<'a>(name: &str, place: String, known: impl Iterator<Item = &'a str>) -> RecordError {
    RecordError::NoTable { name: name.to_owned(), place, known: known.collect::<Vec<_>>().join(", ") }
}
