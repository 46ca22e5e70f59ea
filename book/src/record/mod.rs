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

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bench::{
    gallery,
    ladder::columns::STEP,
    record::Record,
    table::{Cell, Column, Table},
};
use common::Device;
use phase1_infra::{Run, STEPS};
use phase2_conv_bn::report as phase2;
use phase4_fusion::{broken, report as phase4};
use phase5_bench::{
    plot::chart::Chart,
    spec::{Context, FinishedTable, Make},
    tables::TABLES,
};

use crate::session;

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

/// A parsed record, with its tables to share.
struct Opened {
    path: PathBuf,
    /// Text that it was read from.
    json: String,
    record: Record,
    tables: HashMap<String, Arc<Table>>,
    /// Tables that phase 5 derives from others, derived anew: so a change of their rules shows at once.
    derived: Mutex<HashMap<String, Arc<Table>>>,
}

impl Opened {
    /// Reads a record, or returns it if it has been read: a page uses hundreds of numbers. A file that has changed since is read
    /// again.
    fn open(path: &Path) -> Result<Arc<Opened>, RecordError> {
        static OPENED: Mutex<Option<HashMap<PathBuf, Arc<Opened>>>> = Mutex::new(None);
        let error = |source| common::Error::Io { path: path.to_owned(), source };
        let json = fs::read_to_string(path).map_err(error)?;
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if let Some(same) = opened.get(path).filter(|opened| opened.json == json) {
            return Ok(same.clone());
        }
        let record = Record::from_json(path, &json)?;
        let tables = record.tables.iter().map(|named| (named.name.clone(), Arc::new(named.table.clone()))).collect();
        let fresh = Arc::new(Opened { path: path.to_owned(), json, record, tables, derived: Mutex::default() });
        opened.insert(path.to_owned(), fresh.clone());
        Ok(fresh)
    }

    /// A table of it with its origin, if it has one of the name.
    fn table(&self, phase: &str, name: &str) -> Option<Result<Found, RecordError>> {
        let recorded = self.tables.get(name)?;
        let spec = TABLES.iter().find(|spec| phase == PHASE5 && spec.name == name);
        let table = match spec.map(|spec| &spec.make) {
            Some(Make::Derived { needs, from }) => self.derived(name, needs, *from),
            _ => self.clean(name).map(|()| recorded.clone()),
        };
        Some(table.map(|table| Found { table, caption: self.caption(name) }))
    }

    fn derived(
        &self,
        name: &str,
        needs: &[&str],
        from: fn(Option<&Record>) -> phase5_bench::Result<FinishedTable>,
    ) -> Result<Arc<Table>, RecordError> {
        needs.iter().try_for_each(|need| self.clean(need))?;
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = derived.get(name) {
            return Ok(table.clone());
        }
        let table = Arc::new(from(Some(&self.record))?.table);
        derived.insert(name.to_owned(), table.clone());
        Ok(table)
    }

    fn caption(&self, name: &str) -> String {
        let record = &self.record;
        // Saved without a GPU: what a tool said, and no measurement of any device.
        if record.simulated {
            let day = record.date.split('T').next().unwrap_or_default();
            return format!("Saved {day}, commit {}.", record.commit);
        }
        let host = match record.host_of(name) {
            "unknown" => String::new(),
            host => format!("; host {host}"),
        };
        format!("Recorded: {}{host}.", record.provenance_of(name))
    }

    /// Whether the table `name` was measured at a commit, with no file changed.
    fn clean(&self, name: &str) -> Result<(), RecordError> {
        let again = self.record.tables.iter().find(|named| named.name == name).and_then(|named| named.again.as_ref());
        let commit = again.map_or(&self.record.commit, |again| &again.commit);
        if commit.ends_with(DIRTY) {
            let place = self.path.display().to_string();
            return Err(RecordError::Dirty { name: name.to_owned(), place, commit: commit.clone() });
        }
        Ok(())
    }
}

fn no_table<'a>(name: &str, place: String, known: impl Iterator<Item = &'a str>) -> RecordError {
    RecordError::NoTable { name: name.to_owned(), place, known: known.collect::<Vec<_>>().join(", ") }
}

/// Maker of tables on the simulator: a step of phase 1, a part of another phase's report, a gallery, or a table of phase 5.
struct Maker {
    phase: &'static str,
    tables: &'static [&'static str],
    run: Box<dyn Fn() -> Result<Vec<Table>, RecordError>>,
}

/// All makers with the same output on every machine.
fn makers() -> impl Iterator<Item = Maker> {
    let steps = STEPS.iter().filter_map(|step| match step.run {
        Run::OnDevice(run) => {
            let run = Box::new(move || Ok(run(&Device::sim())?));
            Some(Maker { phase: "phase1-infra", tables: step.tables, run })
        }
        Run::Anywhere(_) => None,
    });
    let phases = [("phase2-conv-bn", phase2::PARTS), ("phase4-fusion", phase4::PARTS)];
    let parts = phases.into_iter().flat_map(|(phase, parts)| {
        parts.iter().map(move |part| {
            let run = Box::new(|| Ok((part.run)(&Device::sim_with(bench::parts::simulator()))?.tables));
            Maker { phase, tables: part.tables, run }
        })
    });
    let run = Box::new(|| Ok(vec![gallery::orders::orders(&broken::GALLERY)?]));
    let orders = Maker { phase: "phase4-fusion", tables: &["orders"], run };
    let measured = TABLES.iter().filter_map(|spec| match spec.make {
        Make::Measured(run) => {
            let run = Box::new(move || Ok(vec![run(&Context::simulator())?.table]));
            Some(Maker { phase: PHASE5, tables: std::slice::from_ref(&spec.name), run })
        }
        Make::Derived { .. } => None,
    });
    steps.chain(parts).chain([orders]).chain(measured)
}

/// A table that the simulator fills. Each maker runs once per process.
fn simulated(phase: &str, name: &str) -> Result<Arc<Table>, RecordError> {
    type Made = Arc<Mutex<HashMap<&'static str, Arc<Table>>>>;
    // By the maker's phase and its first table, each with a lock of its own: pages are made side by side.
    static KNOWN: Mutex<BTreeMap<(&str, &str), Made>> = Mutex::new(BTreeMap::new());
    let of_phase = || makers().filter(|maker| maker.phase == phase);
    let Some(maker) = of_phase().find(|maker| maker.tables.contains(&name)) else {
        let known = of_phase().flat_map(|maker| maker.tables);
        return Err(no_table(name, format!("{phase} on the simulator"), known.copied()));
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let made = known.entry((maker.phase, maker.tables[0])).or_default().clone();
    drop(known);
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_empty() {
        made.extend(maker.tables.iter().copied().zip((maker.run)()?.into_iter().map(Arc::new)));
    }
    let missing = || no_table(name, format!("what is made on {}", Device::sim().describe()), [].into_iter());
    made.get(name).cloned().ok_or_else(missing)
}

/// Content between the markers of `record ARGUMENT`.
///
/// # Errors
/// Same as [`find`], and for unknown columns and rows.
pub fn markdown(workspace: &Path, argument: &str) -> Result<String, RecordError> {
    let request = Request::parse(argument)?;
    let Found { table, caption } = find(workspace, &request.table)?;
    let shown = request.apply(&table)?;
    let (body, notes) = if request.list {
        (list(&shown), shown.notes.clone())
    } else {
        // Title, table and notes have an empty line between them.
        let markdown = shown.to_markdown();
        let mut parts = markdown.split("\n\n").skip(1);
        let body = parts.next().unwrap_or_default().to_owned();
        (body, parts.map(|note| note.trim().to_owned()).collect())
    };
    // Below a terminal's table each note has lines of its own; here they are sentences of one paragraph.
    let sentence = |note: String| if note.ends_with('.') { note } else { note + "." };
    let caption = std::iter::once(caption).chain(notes.into_iter().map(sentence)).collect::<Vec<_>>().join(" ");
    let body = body.trim_end();
    Ok(format!("<figure class=\"record\">\n\n{body}\n\n<figcaption>{}</figcaption>\n</figure>", escape(&caption)))
}

/// Content between the markers of `bars ARGUMENT`: the same argument as that of `record`, with two columns, the name of a row and
/// a number that is not negative. A bar for each row, as text: for the README, which shows no pictures.
///
/// # Errors
/// Same as [`markdown`], and [`RecordError::Syntax`] for other columns.
pub fn bars(workspace: &Path, argument: &str) -> Result<String, RecordError> {
    let request = Request::parse(argument)?;
    let Found { table, caption } = find(workspace, &request.table)?;
    let shown = request.apply(&table)?;
    let [_, number] = shown.columns.as_slice() else {
        return Err(RecordError::Syntax("bars have two columns: a name and a number".to_owned()));
    };
    let (heading, decimals) = (&number.heading, number.decimals.unwrap_or(0));
    let rows = shown.rows().iter().map(|row| match row.as_slice() {
        [Cell::Text(name), Cell::Number(number)] if *number >= 0.0 => Ok((name.as_str(), *number)),
        _ => Err(RecordError::Syntax(format!("a row has no name or no number in `{heading}`"))),
    });
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let name_width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let number_width = format!("{most:.decimals$}").len();
    let mut text = format!("```text\n{:name_width$}  {heading}\n", "");
    for (name, number) in rows {
        let bar = bar(if most > 0.0 { number / most } else { 0.0 });
        text.push_str(format!("{name:name_width$}  {number:number_width$.decimals$} {bar}").trim_end());
        text.push('\n');
    }
    Ok(format!("{text}```\n\n{caption}"))
}

/// A share of the longest bar, in eighths of a letter.
fn bar(share: f64) -> String {
    const LONGEST: f64 = 40.0;
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * LONGEST * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// Data of phase 5's plot of this name, drawn from `table`, and the table's origin.
///
/// # Errors
/// [`RecordError::Common`] if there is no such record, [`RecordError::Phase5`] if there is no plot of the name, or no data for it
/// in the record.
pub fn chart(workspace: &Path, name: &str, table: &str) -> Result<(Chart, String), RecordError> {
    let file = |machine: &str| workspace.join(PHASE5).join("records").join(machine).with_extension("json");
    let records = MACHINES.iter().map(|machine| Opened::open(&file(machine))).collect::<Result<Vec<_>, _>>()?;
    let opened = records.iter().find(|opened| opened.tables.contains_key(table)).unwrap_or(&records[0]);
    opened.clean(table)?;
    let caption = escape(&format!("Recorded: {}.", opened.record.provenance_of(table)));
    Ok((phase5_bench::plot::chart(&opened.record, name)?, caption))
}

fn list(table: &Table) -> String {
    let mut out = String::new();
    for row in table.rows() {
        let mut texts: Vec<String> = row.iter().zip(&table.columns).map(|(cell, column)| text(cell, column)).collect();
        let last = texts.pop().unwrap_or_default();
        let head = texts.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        out += &format!("{}\n\n```text\n{last}\n```\n\n", head.collect::<Vec<_>>().join(" · "));
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

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
struct Request {
    table: String,
    list: bool,
    without_notes: bool,
    columns: Vec<String>,
    only: Vec<String>,
    rows: Vec<String>,
    code: Vec<String>,
}

impl Request {
    fn parse(argument: &str) -> Result<Request, RecordError> {
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

    fn apply(&self, table: &Table) -> Result<Table, RecordError> {
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

#[cfg(test)]
mod tests {
    use bench::table::{ColumnSpec, TableBuilder};

    use super::*;

    fn workspace() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        const PATH: ColumnSpec = ColumnSpec::text("path", "path");
        const KIB: ColumnSpec = ColumnSpec::number("KiB", "KiB", 0);
        const RATE: ColumnSpec = ColumnSpec::number("GB/s", "GB/s", 2);
        let mut table = TableBuilder::of("transfers", [PATH, KIB, RATE]);
        table.row().set(PATH, "up | down").set(KIB, 64usize).set(RATE, 12.345).complete();
        table.row().set(PATH, "up").set(KIB, 128usize).finish("no clock");
        table.note("a < b");
        let mut record = Record::begin(&Device::sim());
        record.push("transfers", table.finish());
        record.device_name = "NVIDIA H200".into();
        record.simulated = false;
        record.host = "CPU".into();
        record.date = "2026-01-02T03:04:05Z".into();
        record.commit = "abc".into();
        fs::create_dir_all(folder.path().join("p/records")).unwrap();
        fs::write(folder.path().join("p/records/nvidia-h200.json"), record.to_json()).unwrap();
        folder
    }

    #[test]
    fn a_recorded_table_is_shown_with_its_origin() {
        let folder = workspace();
        let caption = "Recorded: NVIDIA H200, 2026-01-02, commit abc; host CPU.";
        assert_eq!(
            markdown(folder.path(), "p/transfers").unwrap(),
            format!(
                "<figure class=\"record\">\n\n| path | KiB | GB/s |\n| --- | ---: | ---: |\n| up \\| down | 64 | 12.35 |\n\
                 | up | 128 | – |\n\n<figcaption>{caption} – no clock. a &lt; b.</figcaption>\n</figure>"
            )
        );
        assert_eq!(
            markdown(folder.path(), r#"p/transfers columns "GB/s" "path" rows "64""#).unwrap(),
            format!(
                "<figure class=\"record\">\n\n| GB/s | path |\n| ---: | --- |\n| 12.35 | up \\| down |\n\n\
                 <figcaption>{caption} a &lt; b.</figcaption>\n</figure>"
            )
        );
        assert!(
            markdown(folder.path(), r#"p/transfers without notes rows "64" code "path""#)
                .unwrap()
                .ends_with(&format!("| `up \\| down` | 64 | 12.35 |\n\n<figcaption>{caption}</figcaption>\n</figure>"))
        );
        assert_eq!(
            markdown(folder.path(), r#"p/transfers as list columns "KiB" "path" rows "up""#).unwrap(),
            format!(
                "<figure class=\"record\">\n\n128\n\n```text\nup\n```\n\n\
                 <figcaption>{caption} a &lt; b.</figcaption>\n</figure>"
            )
        );
        let only = markdown(folder.path(), r#"p/transfers columns "KiB" only "path=up" rows "64" "128""#);
        assert_eq!(only.unwrap_err().to_string(), "0 rows have the cells [\"path=up\", \"64\"], exactly one must");
        let only = markdown(folder.path(), r#"p/transfers columns "KiB" only "path=up""#).unwrap();
        assert!(only.contains("| KiB |\n| ---: |\n| 128 |\n\n"), "{only}");
    }

    #[test]
    fn a_step_is_found_by_its_name_too() {
        let mut builder = TableBuilder::of("t", [STEP, ColumnSpec::text("idea", "idea")]);
        builder.row().set("step", "3 shared tile").set("idea", "4 tiles").complete();
        let table = builder.finish();
        let has = |wanted| has(&table, &table.rows()[0], wanted);
        assert!(has("step=3 shared tile") && has("step=shared tile") && has("3 shared tile"));
        assert!(!has("step=tile") && !has("shared tile") && !has("idea=tiles") && !has("step=4 shared tile"));
    }

    #[test]
    fn what_a_tool_said_is_no_measurement_of_a_device() {
        let folder = workspace();
        let records = folder.path().join("p/records");
        let saved = fs::read_to_string(records.join("nvidia-h200.json")).unwrap();
        fs::write(records.join("transfers.json"), saved.replace("\"simulated\": false", "\"simulated\": true"))
            .unwrap();
        assert_eq!(find(folder.path(), "p/transfers").unwrap().caption, "Saved 2026-01-02, commit abc.");
    }

    #[test]
    fn a_table_that_was_measured_by_itself_has_its_own_record() {
        let folder = workspace();
        let records = folder.path().join("p/records");
        fs::rename(records.join("nvidia-h200.json"), records.join("nvidia-h200-transfers.json")).unwrap();
        assert_eq!(find(folder.path(), "p/transfers").unwrap().table.rows().len(), 2);
        assert!(find(folder.path(), "p/streams").is_err());
    }

    #[test]
    fn what_was_measured_at_no_commit_is_not_shown_unless_another_machine_has_it() {
        let folder = workspace();
        let records = folder.path().join("p/records");
        let saved = fs::read_to_string(records.join("nvidia-h200.json")).unwrap();
        fs::write(records.join("nvidia-h200.json"), saved.replace("\"abc\"", "\"abc-dirty\"")).unwrap();
        let error = find(folder.path(), "p/transfers").err().unwrap().to_string();
        assert!(error.ends_with("is from commit abc-dirty: measure it again from a clean checkout"), "{error}");
        fs::write(records.join("nvidia-h100.json"), saved.replace("H200", "H100")).unwrap();
        let found = find(folder.path(), "p/transfers").unwrap();
        assert!(found.caption.starts_with("Recorded: NVIDIA H100, 2026-01-02, commit abc;"), "{}", found.caption);
    }

    #[test]
    fn a_derived_table_is_made_anew_and_from_clean_tables_only() {
        let name = "phase5-bench/records/nvidia-h200.json";
        let mut record = Record::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let of = |record: &mut Record, name: &str, change: fn(&mut bench::record::Named)| {
            change(record.tables.iter_mut().find(|named| named.name == name).unwrap());
        };
        of(&mut record, "claims", |claims| claims.table.title = "stale".to_owned());
        fs::write(&path, record.to_json()).unwrap();
        assert_eq!(find(folder.path(), "phase5-bench/claims").unwrap().table.title, "claims, measured again");
        of(&mut record, "layers", |layers| {
            let host = String::new();
            layers.again = Some(bench::record::Again { date: String::new(), commit: "abc-dirty".to_owned(), host });
        });
        fs::write(&path, record.to_json()).unwrap();
        let error = find(folder.path(), "phase5-bench/claims").err().unwrap().to_string();
        assert!(error.starts_with("table `layers`") && error.contains("commit abc-dirty"), "{error}");
        assert!(find(folder.path(), "phase5-bench/gemm").is_ok());
    }

    #[test]
    fn a_record_that_changed_is_read_again() {
        let folder = workspace();
        assert_eq!(markdown(folder.path(), "p/transfers").unwrap().matches("commit abc").count(), 1);
        let path = folder.path().join("p/records/nvidia-h200.json");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"abc\"", "\"xyz\"")).unwrap();
        assert_eq!(markdown(folder.path(), "p/transfers").unwrap().matches("commit xyz").count(), 1);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let folder = workspace();
        let error = |argument: &str| markdown(folder.path(), argument).unwrap_err().to_string();
        assert!(error("q/transfers").contains("nvidia-h200.json"), "{}", error("q/transfers"));
        assert!(error("p/streams").contains("no table `streams`") && error("p/streams").ends_with("it has: transfers"));
        assert_eq!(error(r#"p/transfers columns "ms""#), "no column `ms`; there are: path, KiB, GB/s");
        assert_eq!(error(r#"p/transfers rows "65""#), "0 rows have the cells [\"65\"], exactly one must");
        assert!(error("").starts_with("which table?"));
        assert!(error("transfers").starts_with("`transfers` is no table"));
        assert!(error("p/transfers columns ms").starts_with("`ms` is not understood"));
        assert!(error("p/transfers columns \"ms").ends_with("has no closing quotation mark"));
        assert!(error("phase1-infra/vector-sub@sim").contains("it has: device-query, memory"));
        fs::write(folder.path().join("p/records/nvidia-h200.json"), "{}").unwrap();
        assert!(error("p/transfers").contains("nvidia-h200.json"), "{}", error("p/transfers"));
    }

    #[test]
    fn the_simulator_counts_for_the_book() {
        let table = find(Path::new("."), "phase1-infra/launch-overhead@sim").unwrap().table;
        let at = column(&table, "instructions per launch").unwrap();
        assert!(table.rows().iter().all(|row| row[at] == Cell::Number(1.0)), "{table:?}");
        let timeline = find(Path::new("."), "phase1-infra/streams-timeline-3@sim").unwrap().table;
        assert!(timeline.title.starts_with("timeline"), "{timeline:?}");
    }
}
