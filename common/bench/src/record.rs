//! A run saved as JSON: its tables with device, date and commit; the comparison of two runs; and runs recorded on a GPU, kept in
//! a phase's `records/` for readers without a GPU.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::json;
use crate::repeats::Spread;
use crate::table::check::{MAX_COLUMNS, at_most, number, text};
use crate::table::{Cell, Column, Table};
use common::device::Device;
use common::error::{Error, Result};
use common::{files, provenance, replace};

/// A record's `format`; any other means a file of another program or of a later version.
const FORMAT: &str = "warp-by-warp 1";

/// Maximum bytes of a saved run, its tables, and characters of a table's name.
const MAX_FILE: u64 = 64 << 20;
const MAX_TABLES: usize = 200;
const MAX_NAME: usize = 64;

/// A run, as written by `--save`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    format: String,
    /// Name of the device in the command: `cuda:0 NVIDIA H200 (sm_90)`.
    pub device: String,
    /// The device's own name: `NVIDIA H200`.
    pub device_name: String,
    /// True if its numbers are counts of the simulator.
    pub simulated: bool,
    /// The host's processor, which CPU columns were measured on.
    pub host: String,
    /// Start of the run, in UTC: `2026-03-01T12:00:00Z`.
    pub date: String,
    /// The repository's commit, with `-dirty` if files had changed; `unknown` if there is no repository.
    pub commit: String,
    /// Tables, in the order of the run.
    pub tables: Vec<Named>,
    /// Comparisons with an earlier run, if one was given; they are shown and not saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Table>,
}

/// A table with a name, which stays the same from run to run; the title may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// `layers`.
    pub name: String,
    /// The table as measured; recorded columns of other machines are not part of it.
    pub table: Table,
    /// The run that it comes from, if it was measured again after the record's own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
    /// State of the device during the measurement, if its driver reports it. Earlier records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// Spread of repeated runs; the table then has their medians.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

impl Named {
    /// Difference between the largest and the smallest of a cell's repeated runs, and the number of runs.
    pub(crate) fn spread_of(&self, row: usize, column: usize) -> Option<(f64, usize)> {
        let spread = self.spread.as_ref()?;
        let [least, largest] = (*spread.rows.get(row)?.get(column)?)?;
        Some((largest - least, spread.runs))
    }
}

/// State of a GPU during the measurement of a table, as reported by its driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The driver, and constant limits: `driver 580.159.04 (CUDA 13.0), power limit 700 W`.
    pub driver: String,
    /// Number of readings: before, meanwhile, after.
    pub readings: usize,
    /// Clocks, power and temperature.
    pub quantities: Vec<Quantity>,
    /// Reasons that held the clocks down; empty if none did.
    pub slowed: Vec<Slowed>,
}

/// A quantity's readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// `SM clock`.
    pub name: String,
    /// `MHz`.
    pub unit: String,
    /// First reading.
    pub before: f64,
    /// Minimum.
    pub least: f64,
    /// Median.
    pub median: f64,
    /// Maximum.
    pub most: f64,
    /// Last reading.
    pub after: f64,
}

/// A reason that holds clocks down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowed {
    /// `the power cap`.
    pub reason: String,
    /// Share of the readings, in percent.
    pub percent: f64,
}

impl Conditions {
    /// In words: `SM clock 1980 MHz (345 to 1980), power 412 W (80 to 690); held down by the power cap in 12 % of 57 readings`.
    pub fn says(&self) -> String {
        let quantity = |Quantity { name, unit, least, median, most, .. }: &Quantity| {
            let range = if least == most { String::new() } else { format!(" ({least:.0} to {most:.0})") };
            format!("{name} {median:.0} {unit}{range}")
        };
        let quantities: Vec<String> = self.quantities.iter().map(quantity).collect();
        let slowed: Vec<String> =
            self.slowed.iter().map(|Slowed { reason, percent }| format!("{reason} in {percent:.0} %")).collect();
        let slowed = if slowed.is_empty() {
            format!("not held down in any of {} readings", self.readings)
        } else {
            format!("held down by {} of {} readings", slowed.join(", "), self.readings)
        };
        format!("{}; {slowed}; {}", quantities.join(", "), self.driver)
    }
}

/// A later run, on the same device, that a table of a record comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Again {
    /// Same as [`Record::date`].
    pub date: String,
    /// Same as [`Record::commit`].
    pub commit: String,
    /// Same as [`Record::host`].
    pub host: String,
}

impl Record {
    /// A record without tables, of this machine and moment.
    pub fn begin(device: &Device) -> Record {
        Record {
            format: FORMAT.to_owned(),
            device: device.describe(),
            device_name: device.properties().name.clone(),
            simulated: device.is_sim(),
            host: provenance::host(),
            date: provenance::date(),
            commit: provenance::commit(),
            tables: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    /// Appends a table.
    pub fn push(&mut self, name: impl Into<String>, table: Table) {
        self.push_under(name, table, None);
    }

    /// Appends a table that was measured under these conditions.
    pub fn push_under(&mut self, name: impl Into<String>, table: Table, conditions: Option<Conditions>) {
        self.tables.push(Named { name: name.into(), table, again: None, conditions, spread: None });
    }

    /// Sets the spread of the repeated runs of the table `name`, which has their medians.
    pub fn set_spread(&mut self, name: &str, spread: Option<Spread>) {
        if let Some(named) = self.tables.iter_mut().find(|named| named.name == name) {
            named.spread = spread;
        }
    }

    /// State of the device during the measurement of the table `name`, if known.
    pub fn conditions_of(&self, name: &str) -> Option<&Conditions> {
        self.tables.iter().find(|named| named.name == name)?.conditions.as_ref()
    }

    /// Replaces tables by those of the same names in a later run; each keeps its own date and commit.
    ///
    /// # Errors
    /// [`Error::Record`], naming `path`, if this record belongs to another device.
    pub fn update(&mut self, later: &Record, path: &Path) -> Result<()> {
        if self.device_name != later.device_name {
            let reason = format!("it was measured on {}, and this run on {}", self.device_name, later.device_name);
            return Err(Error::Record { path: path.to_owned(), reason });
        }
        for named in &later.tables {
            let (name, mut named) = (&named.name, named.clone());
            named.again.get_or_insert_with(|| Again {
                date: later.date.clone(),
                commit: later.commit.clone(),
                host: later.host.clone(),
            });
            match self.tables.iter_mut().find(|other| other.name == *name) {
                Some(earlier) => *earlier = named,
                None => self.tables.push(named),
            }
        }
        Ok(())
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|named| named.name == name).map(|named| &named.table)
    }

    /// Device, day and commit of its own run: `NVIDIA H200, 2026-03-01, commit 14aedc2`.
    pub fn provenance(&self) -> String {
        provenance(&self.device_name, &self.date, &self.commit)
    }

    /// Device, day and commit of the table `name`.
    pub fn provenance_of(&self, name: &str) -> String {
        match self.again(name) {
            Some(again) => provenance(&self.device_name, &again.date, &again.commit),
            None => self.provenance(),
        }
    }

    /// Device and days of those of these tables that it has: `NVIDIA H200, 2026-03-01 to 2026-03-09`. The commit is named if there
    /// is only one.
    pub fn provenance_of_all(&self, names: &[&str]) -> String {
        let present = || names.iter().filter(|name| self.table(name).is_some());
        let mut all: Vec<String> = present().map(|name| self.provenance_of(name)).collect();
        all.dedup();
        let mut days: Vec<&str> = present().map(|name| day(self.date_of(name))).collect();
        days.sort_unstable();
        match (&all[..], &days[..]) {
            ([one], _) => one.clone(),
            (_, [first, .., last]) if first != last => format!("{}, {first} to {last}", self.device_name),
            (_, [first, ..]) => format!("{}, {first}", self.device_name),
            _ => self.provenance(),
        }
    }

    /// The host's processor that the CPU columns of the table `name` were measured on.
    pub fn host_of(&self, name: &str) -> &str {
        self.again(name).map_or(&self.host, |again| &again.host)
    }

    /// Time of the table `name`'s measurement, in the format of [`Record::date`].
    pub fn date_of(&self, name: &str) -> &str {
        self.again(name).map_or(&self.date, |again| &again.date)
    }

    fn again(&self, name: &str) -> Option<&Again> {
        self.tables.iter().find(|named| named.name == name)?.again.as_ref()
    }

    /// Formats as JSON, one row per line. A number that is not finite becomes absent, since JSON has none.
    pub fn to_json(&self) -> String {
        let mut record = self.clone();
        record.tables.iter_mut().map(|named| &mut named.table).for_each(Table::drop_non_finite);
        record.comparisons.iter_mut().for_each(Table::drop_non_finite);
        json::to_string(&record) + "\n"
    }

    /// Parses the output of [`Record::to_json`]; errors name `path`.
    ///
    /// # Errors
    /// [`Error::Record`] if it is not such a record.
    pub fn from_json(path: impl AsRef<Path>, json: &str) -> Result<Record> {
        let fail = |reason| Err(Error::Record { path: path.as_ref().to_owned(), reason });
        let record: Record = match serde_json::from_str(json) {
            Ok(record) => record,
            Err(error) => return fail(format!("this is not a run saved by `--save`: {error}")),
        };
        if record.format != FORMAT {
            return fail(format!("its format is `{}`, but this program reads `{FORMAT}`", record.format));
        }
        match check(&record) {
            Ok(()) => Ok(record),
            Err(reason) => fail(reason),
        }
    }

    /// Reads a saved run.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Record`] if it is not a record.
    pub fn open(path: &Path) -> Result<Record> {
        let bytes = files::read(path, MAX_FILE).map_err(Error::io(path))?;
        Record::from_json(path, &String::from_utf8_lossy(&bytes))
    }

    /// Writes the run to a file. An earlier one is replaced only once this one is whole and on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        replace::write(path, self.to_json().as_bytes()).map_err(Error::io(path))
    }

    /// Checks that [`Record::save`] can write there, by trying it: useful before minutes of measuring.
    ///
    /// # Errors
    /// [`Error::Record`] if `path` is a directory or a read-only file, or no file can be created beside it.
    pub fn can_be_saved(path: &Path) -> Result<()> {
        let fail = |reason: &str| Err(Error::Record { path: path.to_owned(), reason: reason.to_owned() });
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match (path.is_dir(), parent.is_dir()) {
            (true, _) => fail("it is a directory, and a file's name is needed"),
            (_, false) => fail("its directory does not exist"),
            _ => replace::can_write(path).or_else(|error| fail(&format!("it cannot be written: {error}"))),
        }
    }

    /// The table of that name, with its metadata.
    pub(crate) fn named(&self, name: &str) -> Option<&Named> {
        self.tables.iter().find(|named| named.name == name)
    }

    /// The table `name` for display on another machine: marked as recorded. `None` if there is none.
    pub fn quote(&self, name: &str) -> Option<Table> {
        let mut table = self.table(name)?.clone();
        table.title = format!("recorded: {}", table.title);
        table.note(self.note(name));
        Some(table)
    }

    /// The compute capability of its GPU, (9, 0) for an H200; `None` for a simulator.
    pub fn compute_capability(&self) -> Option<(u32, u32)> {
        let digits: String = self.device.rsplit_once("sm_")?.1.chars().take_while(char::is_ascii_digit).collect();
        let number: u32 = digits.parse().ok()?;
        Some((number / 10, number % 10))
    }

    fn note(&self, name: &str) -> String {
        let conditions =
            self.conditions_of(name).map_or_else(String::new, |found| format!(" Meanwhile: {}.", found.says()));
        format!(
            "recorded {}: not measured here, but on {} (host: {}).{conditions}",
            self.short_name(),
            self.provenance_of(name),
            self.host_of(name)
        )
    }

    fn short_name(&self) -> &str {
        self.device_name.strip_prefix("NVIDIA ").unwrap_or(&self.device_name)
    }
}

/// Checks a run from elsewhere; `Err` is the reason why it is refused, in a sentence.
fn check(run: &Record) -> Result<(), String> {
    let facts = [&run.device, &run.device_name, &run.host, &run.date, &run.commit];
    facts.into_iter().try_for_each(|fact| text(fact))?;
    date(&run.date)?;
    at_most(run.tables.len(), MAX_TABLES, "tables")?;
    for (at, Named { name, table, again, conditions, spread }) in run.tables.iter().enumerate() {
        if !is_name(name) {
            return Err("a table's name is not made of small letters, digits and hyphens, or is too long".to_owned());
        }
        let checked = || {
            if run.tables[..at].iter().any(|other| other.name == *name) {
                return Err("there are two of them".to_owned());
            }
            table.check()?;
            again.as_ref().map_or(Ok(()), |again| date(&again.date))?;
            conditions.as_ref().map_or(Ok(()), check_conditions)?;
            let Some(spread) = spread else { return Ok(()) };
            if !spread.belongs_to(table) {
                return Err("its spread has other rows or columns".to_owned());
            }
            spread.rows.iter().flatten().flatten().flatten().try_for_each(|value| number(*value))
        };
        checked().map_err(|reason| format!("table `{name}`: {reason}"))?;
    }
    at_most(run.comparisons.len(), MAX_TABLES, "comparisons")?;
    run.comparisons.iter().try_for_each(Table::check)
}

fn check_conditions(conditions: &Conditions) -> Result<(), String> {
    at_most(conditions.quantities.len(), MAX_COLUMNS, "quantities")?;
    at_most(conditions.slowed.len(), MAX_COLUMNS, "reasons")?;
    text(&conditions.driver)?;
    for quantity in &conditions.quantities {
        text(&quantity.name)?;
        text(&quantity.unit)?;
        let values = [quantity.before, quantity.least, quantity.median, quantity.most, quantity.after];
        values.into_iter().try_for_each(number)?;
    }
    conditions.slowed.iter().try_for_each(|slowed| text(&slowed.reason).and_then(|()| number(slowed.percent)))
}

/// Whether it can be the name of a file and of an element of a page, on every system.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(plain)
}

fn date(text: &str) -> Result<(), String> {
    match humantime::parse_rfc3339(text) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(format!("`{}` is no date, such as 2026-03-01T12:00:00Z", text.chars().take(40).collect::<String>()))
        }
    }
}

fn provenance(device_name: &str, date: &str, commit: &str) -> String {
    format!("{device_name}, {}, commit {commit}", day(date))
}

/// The day of a date with its time.
fn day(date: &str) -> &str {
    date.split('T').next().unwrap_or_default()
}

/// `table` with its empty columns replaced by those of a record, and with rows that only the record has; unchanged if there is
/// nothing to replace. The record is the first of `records`, ordered by closeness, that has a number for such a column. On the
/// simulator a column of times is empty; its heading and a note then name the device, day and commit of the numbers.
pub fn merge<'r>(table: &Table, name: &str, records: impl IntoIterator<Item = &'r Record>) -> Table {
    records.into_iter().find_map(|record| filled_from(table, name, record)).unwrap_or_else(|| table.clone())
}

/// [`merge`] from this record, if it has anything for the table.
fn filled_from(table: &Table, name: &str, record: &Record) -> Option<Table> {
    let source = record.table(name)?;
    // A record with other keys, such as one of an earlier version of the table, has nothing to put beside these rows.
    let is_about_the_same = source.identity_columns().count() == table.identity_columns().count()
        && source.identity_columns().zip(table.identity_columns()).all(|(its, ours)| its.is_same(ours));
    if !is_about_the_same {
        return None;
    }
    let replacement = |at: usize, column: &Column| {
        if column.decimals.is_none() || table.rows.iter().any(|row| !matches!(row[at], Cell::Absent(_))) {
            return None;
        }
        let from = source.columns.iter().position(|other| other.is_same(column))?;
        source.rows.iter().any(|row| matches!(row[from], Cell::Number(_))).then_some(from)
    };
    let replacements: Vec<Option<usize>> =
        table.columns.iter().enumerate().map(|(at, column)| replacement(at, column)).collect();
    if replacements.iter().all(Option::is_none) {
        return None;
    }
    let rows = rows_of_both(table, source);
    let mut merged = Table { columns: Vec::new(), rows: vec![Vec::new(); rows.len()], ..table.clone() };
    for ((at, column), replacement) in table.columns.iter().enumerate().zip(replacements) {
        let Some(from) = replacement else {
            merged.columns.push(column.clone());
            for (row, whole) in merged.rows.iter_mut().zip(&rows) {
                row.push(whole[at].clone());
            }
            continue;
        };
        let quantity = column.heading.strip_prefix("device ").unwrap_or(&column.heading);
        merged.columns.push(column.headed(format!("recorded {} {quantity}", record.short_name())));
        for (row, whole) in merged.rows.iter_mut().zip(&rows) {
            let recorded = source.same_row(table.identity(whole));
            row.push(recorded.map_or_else(|| Cell::absent("not in the record"), |other| other[from].clone()));
        }
    }
    merged.note(record.note(name));
    Some(merged)
}

/// The rows of `table`, and those that only the source has, each after its predecessor there.
fn rows_of_both(table: &Table, source: &Table) -> Vec<Vec<Cell>> {
    let mut rows = table.rows.clone();
    let mut next = 0;
    for row in &source.rows {
        let key = source.identity(row);
        match rows.iter().position(|other| table.identity(other) == key) {
            Some(at) => next = at + 1,
            None => {
                // After the rows that only this machine has at that place, such as its own largest size.
                while rows.get(next).is_some_and(|other| source.same_row(table.identity(other)).is_none()) {
                    next += 1;
                }
                let rest = std::iter::repeat(Cell::absent("not run on this device"));
                rows.insert(next, key.iter().cloned().chain(rest).take(table.columns.len()).collect());
                next += 1;
            }
        }
    }
    rows
}

/// The recorded runs among `files`, given by name and text, without those of simulators, since this machine has a simulator.
///
/// # Errors
/// [`Error::Record`] with the file that is not a record.
pub fn recorded(files: &[(&str, &str)]) -> Result<Vec<Record>> {
    let records = files.iter().map(|(name, json)| Record::from_json(name, json)).collect::<Result<Vec<_>>>()?;
    Ok(records.into_iter().filter(|record| !record.simulated).collect())
}

/// The [`recorded`] runs of the calling crate, built in: `records!("nvidia-h200.json")` reads `records/nvidia-h200.json` of it.
#[macro_export]
macro_rules! records {
    ($($name:literal),* $(,)?) => {
        $crate::record::recorded(&[$((
            concat!("records/", $name),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/records/", $name)),
        )),*])
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        let mut table = Table::new("layers", [Column::text("layer"), Column::number("ms", 2), Column::text("check")]);
        table.row(["Conv2D".into(), 2.0.into(), "ok".into()]);
        table.row(["ReLU".into(), Cell::absent("no clock"), "ok".into()]);
        table.row(["total".into(), 4.0.into(), "ok".into()]);
        let mut record = Record { device_name: "NVIDIA H200".to_owned(), ..Record::begin(&Device::sim()) };
        record.push("layers", table);
        record
    }

    fn read(json: &str) -> Result<Record> {
        Record::from_json("run.json", json)
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let record = sample();
        assert_eq!(read(&record.to_json()).unwrap(), record);
        assert!(humantime::parse_rfc3339(&record.date).is_ok());
        assert!(!record.commit.is_empty() && record.simulated);
    }

    #[test]
    fn tables_of_several_days_say_from_when_to_when() {
        let mut record = Record { date: "2026-03-09T10:00:00Z".to_owned(), commit: "14aedc2".to_owned(), ..sample() };
        record.push("gemm", Table::new("gemm", [Column::number("ms", 2)]));
        assert_eq!(record.provenance_of_all(&["layers", "gemm"]), "NVIDIA H200, 2026-03-09, commit 14aedc2");
        let again =
            |date: &str| Some(Again { date: date.to_owned(), commit: "5f0c9d1".to_owned(), host: String::new() });
        record.tables[1].again = again("2026-03-01T23:59:59Z");
        assert_eq!(record.provenance_of_all(&["layers", "gemm"]), "NVIDIA H200, 2026-03-01 to 2026-03-09");
        record.tables[1].again = again("2026-03-09T11:00:00Z");
        assert_eq!(record.provenance_of_all(&["layers", "gemm"]), "NVIDIA H200, 2026-03-09");
        assert_eq!(record.provenance_of_all(&["gemm"]), "NVIDIA H200, 2026-03-09, commit 5f0c9d1");
    }

    #[test]
    fn conditions_come_back_are_said_and_need_not_be_there() {
        let quantity = |name: &str, unit: &str, [before, least, median, most, after]: [f64; 5]| {
            let (name, unit) = (name.to_owned(), unit.to_owned());
            Quantity { name, unit, before, least, median, most, after }
        };
        let mut conditions = Conditions {
            driver: "driver 580.1 (CUDA 13.0)".to_owned(),
            readings: 50,
            quantities: vec![
                quantity("SM clock", "MHz", [345.0, 345.0, 1980.0, 1980.0, 1965.0]),
                quantity("memory clock", "MHz", [2619.0; 5]),
            ],
            slowed: vec![Slowed { reason: "the power cap".to_owned(), percent: 12.0 }],
        };
        let mut record = sample();
        assert!(!record.to_json().contains("conditions"), "as records were before");
        record.tables[0].conditions = Some(conditions.clone());
        assert_eq!(read(&record.to_json()).unwrap(), record);
        let says = "SM clock 1980 MHz (345 to 1980), memory clock 2619 MHz; \
                    held down by the power cap in 12 % of 50 readings; driver 580.1 (CUDA 13.0)";
        assert_eq!(conditions.says(), says);
        assert!(record.quote("layers").unwrap().notes[0].ends_with(&format!(" Meanwhile: {says}.")));
        conditions.slowed.clear();
        assert!(conditions.says().contains("; not held down in any of 50 readings; "));
        // A table that is measured again has the later run's.
        let mut kept = sample();
        kept.update(&record, Path::new("run.json")).unwrap();
        assert_eq!(kept.conditions_of("layers"), record.conditions_of("layers"));
    }

    #[test]
    fn numbers_that_json_does_not_have_become_absent() {
        let mut record = sample();
        record.tables[0].table.rows[0][1] = f64::NAN.into();
        let read = read(&record.to_json()).unwrap();
        assert_eq!(read.tables[0].table.rows[0][1], Cell::absent("the value was NaN"));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let error = |json: &str| read(json).unwrap_err().to_string();
        for rubbish in ["", "not JSON", "{}", "[]", r#"{"format": "warp-by-warp 1"}"#] {
            assert!(error(rubbish).starts_with("run.json: this is not a run saved by `--save`"), "{}", error(rubbish));
        }
        assert_eq!(
            error(&sample().to_json().replace(FORMAT, "warp-by-warp 99")),
            "run.json: its format is `warp-by-warp 99`, but this program reads `warp-by-warp 1`"
        );
        let mut ragged = sample();
        ragged.tables[0].table.rows[1].pop();
        assert_eq!(error(&ragged.to_json()), "run.json: table `layers`: row 1 has 2 cells for 3 columns");
    }

    #[test]
    fn a_record_is_saved_and_opened_and_a_place_without_a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        Record::can_be_saved(&path).unwrap();
        sample().save(&path).unwrap();
        assert_eq!(Record::open(&path).unwrap().tables, sample().tables);
        assert!(matches!(Record::open(&dir.path().join("other.json")), Err(Error::Io { .. })));
        for path in [dir.path(), &dir.path().join("no/run.json")] {
            assert!(matches!(Record::can_be_saved(path), Err(Error::Record { .. })));
        }
    }

    fn here() -> Table {
        let columns = [Column::text("layer"), Column::number("device ms", 3), Column::number("lanes", 0)];
        let mut table = Table::new("layers", columns);
        table.row(["Conv2D".into(), Cell::absent("no clock"), 100.0.into()]);
        table.row(["ReLU".into(), Cell::absent("no clock"), 10.0.into()]);
        table
    }

    fn on_gpu() -> Record {
        let mut table = here();
        table.rows[0] = vec!["Conv2D".into(), 0.5.into(), Cell::absent("no counts")];
        table.rows[1] = vec!["Linear".into(), 0.25.into(), Cell::absent("no counts")];
        Record {
            simulated: false,
            date: "2026-03-01T12:00:00Z".to_owned(),
            commit: "0123abc".to_owned(),
            tables: vec![Named { name: "layers".to_owned(), table, again: None, conditions: None, spread: None }],
            ..sample()
        }
    }

    #[test]
    fn an_empty_column_gives_way_to_the_recorded_one_and_says_so() {
        let merged = merge(&here(), "layers", [&on_gpu()]);
        let names: Vec<_> = merged.columns.iter().map(|column| column.heading.as_str()).collect();
        assert_eq!(names, ["layer", "recorded H200 ms", "lanes"]);
        assert_eq!(merged.rows[0], ["Conv2D".into(), 0.5.into(), 100.0.into()]);
        assert_eq!(merged.rows[1], ["ReLU".into(), Cell::absent("not in the record"), 10.0.into()]);
        assert_eq!(merged.rows[2], ["Linear".into(), 0.25.into(), Cell::absent("not run on this device")]);
        assert!(merged.notes[0].contains("not measured here, but on NVIDIA H200, 2026-03-01, commit 0123abc"));
    }

    #[test]
    fn a_record_of_a_table_with_other_rows_is_left_alone() {
        let mut record = on_gpu();
        record.tables[0].table.columns[0].heading = "operation".to_owned();
        assert_eq!(merge(&here(), "layers", [&record]), here());
    }

    #[test]
    fn rows_of_one_name_are_told_apart_by_their_key_columns() {
        let table = |sizes: [usize; 2], ms: [Cell; 2]| {
            let mut table =
                Table::new("copies", [Column::text("path"), Column::identity("KiB"), Column::number("ms", 1)]);
            for (size, ms) in sizes.into_iter().zip(ms) {
                table.row(["up".into(), size.into(), ms]);
            }
            table
        };
        let mut gpu = Record { tables: Vec::new(), ..on_gpu() };
        gpu.push("copies", table([64, 1024], [1.0.into(), 2.0.into()]));
        let here = table([4, 64], [Cell::absent("no clock"), Cell::absent("no clock")]);
        let merged = merge(&here, "copies", [&gpu]);
        let row = |size: usize, ms: Cell| vec![Cell::from("up"), size.into(), ms];
        assert_eq!(
            merged.rows,
            [row(4, Cell::absent("not in the record")), row(64, 1.0.into()), row(1024, 2.0.into())]
        );
    }

    #[test]
    fn measured_columns_and_other_tables_are_left_as_they_are() {
        assert_eq!(merge(&here(), "gemm", [&on_gpu()]), here());
        let mut measured = here();
        measured.rows[0][1] = 7.0.into();
        assert_eq!(merge(&measured, "layers", [&on_gpu()]), measured);
    }

    #[test]
    fn a_quoted_table_says_where_it_is_from() {
        let quoted = on_gpu().quote("layers").unwrap();
        assert_eq!(quoted.title, "recorded: layers");
        assert!(quoted.notes[0].starts_with("recorded H200: not measured here"), "{:?}", quoted.notes);
        assert_eq!(on_gpu().quote("gemm"), None);
    }

    #[test]
    fn recorded_runs_of_a_simulator_are_left_out_and_rubbish_is_named() {
        let (gpu, sim) = (on_gpu().to_json(), sample().to_json());
        assert_eq!(recorded(&[("a.json", &gpu), ("b.json", &sim)]).unwrap(), [on_gpu()]);
        assert!(recorded(&[("c.json", "{}")]).unwrap_err().to_string().starts_with("c.json: this is not a run"));
    }
}
