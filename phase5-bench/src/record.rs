//! A run saved as JSON: its tables with device, date and commit; and the comparison of two.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use common::prelude::*;
use common::table::{Cell, Column, Table};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What a record's `format` says; another one is another program's file, or a later version's.
const FORMAT: &str = "phase5-bench 1";

/// A run, as `--save` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub(crate) format: String,
    /// Which device, as the command names it: `cuda:0 NVIDIA H200 (sm_90)`.
    pub device: String,
    /// The device's own name: `NVIDIA H200`.
    pub device_name: String,
    /// True if its numbers are counts of the simulator.
    pub simulated: bool,
    /// The host's processor, which the CPU columns were measured on.
    pub host: String,
    /// When it began, in UTC: `2026-03-01T12:00:00Z`.
    pub date: String,
    /// The repository's commit, with `-dirty` if files had changed; `unknown` where there is no repository.
    pub commit: String,
    /// In the order of the course.
    pub tables: Vec<Named>,
    /// With an earlier run, if one was asked for; they are shown and not saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Table>,
}

/// A table with its name on the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// `layers`.
    pub name: String,
    /// As measured; recorded columns of other machines are not part of it.
    pub table: Table,
}

impl Record {
    /// A record without tables, of this machine and moment.
    pub fn begin(device: &Device) -> Record {
        Record {
            format: FORMAT.to_owned(),
            device: device.describe(),
            device_name: device.properties().name.clone(),
            simulated: device.is_sim(),
            host: host(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            commit: commit(),
            tables: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|named| named.name == name).map(|named| &named.table)
    }

    /// Where and when: `NVIDIA H200, 2026-03-01, commit 14aedc2`.
    pub fn provenance(&self) -> String {
        let day = self.date.split('T').next().unwrap_or_default();
        format!("{}, {day}, commit {}", self.device_name, self.commit)
    }

    /// As JSON. A number that is not finite becomes absent, since JSON has none.
    pub fn to_json(&self) -> String {
        let mut record = self.clone();
        let tables = record.tables.iter_mut().map(|named| &mut named.table).chain(&mut record.comparisons);
        for cell in tables.flat_map(|table| table.rows.iter_mut().flatten()) {
            if let Cell::Number(value) = cell
                && !value.is_finite()
            {
                *cell = Cell::absent(format!("the value was {value}"));
            }
        }
        serde_json::to_string_pretty(&record).expect("strings and finite numbers are valid JSON") + "\n"
    }

    /// Reads what [`Record::to_json`] wrote.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn from_json(json: &str) -> Result<Record, String> {
        let record: Record = serde_json::from_str(json)
            .map_err(|error| format!("this is no run saved by `phase5-bench --save`: {error}"))?;
        if record.format != FORMAT {
            return Err(format!("its format is `{}`, this program reads `{FORMAT}`", record.format));
        }
        for Named { name, table } in &record.tables {
            if let Some(row) = table.rows.iter().position(|row| row.len() != table.columns.len()) {
                let (cells, columns) = (table.rows[row].len(), table.columns.len());
                return Err(format!("row {row} of its table `{name}` has {cells} cells for {columns} columns"));
            }
        }
        Ok(record)
    }

    /// Reads a saved run.
    ///
    /// # Errors
    /// [`Error::Record`] if the file cannot be read or is no such record.
    pub fn open(path: &Path) -> Result<Record> {
        let fail = |reason| Error::Record { path: path.to_owned(), reason };
        let json = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Record::from_json(&json).map_err(fail)
    }

    /// Writes the run to a file.
    ///
    /// # Errors
    /// [`Error::Record`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_json())
            .map_err(|error| Error::Record { path: path.to_owned(), reason: error.to_string() })
    }

    /// The table `name` of this run beside that of an earlier one: each number now, then, and the ratio. `None` if the earlier
    /// run has no such table.
    pub fn compare(&self, earlier: &Record, name: &str) -> Option<Table> {
        let (now, before) = (self.table(name)?, earlier.table(name)?);
        let columns = [
            Column::text("row"),
            Column::text("what"),
            Column::number("now", 3),
            Column::number("before", 3),
            Column::number("now / before", 3),
        ];
        let mut table = Table::new(format!("{name}, compared with an earlier run"), columns);
        for row in &now.rows {
            let then = before.rows.iter().find(|other| key(other, before) == key(row, now));
            for (cell, column) in row.iter().zip(&now.columns).filter(|(_, column)| column.decimals.is_some()) {
                let at = before.columns.iter().position(|other| other.name == column.name);
                let then = match then.zip(at) {
                    Some((then, at)) => then[at].clone(),
                    None => Cell::absent("not in the earlier run"),
                };
                let ratio = match (cell, &then) {
                    (Cell::Absent(_), Cell::Absent(_)) => continue,
                    (Cell::Number(now), Cell::Number(then)) if *then != 0.0 => Cell::Number(now / then),
                    (Cell::Number(_), Cell::Number(_)) => Cell::absent("it was 0"),
                    _ => Cell::absent("not in both runs"),
                };
                table.row([key(row, now).join(" ").into(), column.name.as_str().into(), cell.clone(), then, ratio]);
            }
        }
        table.note(format!("now: {}; host: {}", self.provenance(), self.host));
        table.note(format!("before: {}; host: {}", earlier.provenance(), earlier.host));
        Some(table)
    }
}

/// The texts before a row's first number: what the row is about. (Texts behind are results, such as that of a check.)
pub(crate) fn key<'a>(row: &'a [Cell], table: &Table) -> Vec<&'a str> {
    row.iter()
        .zip(&table.columns)
        .take_while(|(_, column)| column.decimals.is_none())
        .filter_map(|(cell, _)| match cell {
            Cell::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// `git describe` of the sources this was built from; `WARP_COMMIT` says it where the sources came without a repository.
fn commit() -> String {
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output();
    let described = git.ok().filter(|output| output.status.success()).and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    });
    described
        .or_else(|| std::env::var("WARP_COMMIT").ok().filter(|commit| !commit.is_empty()))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The processor's name, where Linux tells it, and how many threads it runs at once.
fn host() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    format!("{}, {threads} threads", name.as_deref().unwrap_or(std::env::consts::ARCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        let mut table = Table::new("layers", [Column::text("layer"), Column::number("ms", 2), Column::text("check")]);
        table.row(["Conv2D".into(), 2.0.into(), "ok".into()]);
        table.row(["ReLU".into(), Cell::absent("no clock"), "ok".into()]);
        table.row(["total".into(), 4.0.into(), "ok".into()]);
        Record {
            device_name: "NVIDIA H200".to_owned(),
            tables: vec![Named { name: "layers".to_owned(), table }],
            ..Record::begin(&Device::sim())
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let record = sample();
        assert_eq!(Record::from_json(&record.to_json()).unwrap(), record);
        assert!(humantime::parse_rfc3339(&record.date).is_ok());
        assert!(!record.commit.is_empty() && record.simulated);
    }

    #[test]
    fn numbers_that_json_has_not_become_absent() {
        let mut record = sample();
        record.tables[0].table.rows[0][1] = f64::NAN.into();
        let read = Record::from_json(&record.to_json()).unwrap();
        assert_eq!(read.tables[0].table.rows[0][1], Cell::absent("the value was NaN"));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for rubbish in ["", "not JSON", "{}", "[]", r#"{"format": "phase5-bench 1"}"#] {
            let error = Record::from_json(rubbish).unwrap_err();
            assert!(error.starts_with("this is no run saved by `phase5-bench --save`"), "{error}");
        }
        let later = sample().to_json().replace(FORMAT, "phase5-bench 99");
        assert_eq!(
            Record::from_json(&later).unwrap_err(),
            "its format is `phase5-bench 99`, this program reads `phase5-bench 1`"
        );
        let mut ragged = sample();
        ragged.tables[0].table.rows[1].pop();
        assert_eq!(
            Record::from_json(&ragged.to_json()).unwrap_err(),
            "row 1 of its table `layers` has 2 cells for 3 columns"
        );
    }

    #[test]
    fn comparison_finds_rows_by_name_though_their_check_has_changed() {
        let (mut now, earlier) = (sample(), sample());
        let rows = &mut now.tables[0].table.rows;
        rows[0][1] = 3.0.into();
        rows[0][2] = "WRONG".into();
        rows.swap(0, 2);
        rows.push(vec!["Linear".into(), 1.0.into(), "ok".into()]);
        let table = now.compare(&earlier, "layers").unwrap();
        let rows: Vec<_> = table.rows.iter().map(|row| (row[0].clone(), row[2..].to_vec())).collect();
        // ReLU has no number in either run, so it is left out.
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0], ("total".into(), vec![4.0.into(), 4.0.into(), 1.0.into()]));
        assert_eq!(rows[1], ("Conv2D".into(), vec![3.0.into(), 2.0.into(), 1.5.into()]));
        assert_eq!(rows[2].0, "Linear".into());
        assert!(matches!(rows[2].1[1..], [Cell::Absent(_), Cell::Absent(_)]));
        assert!(now.compare(&earlier, "gemm").is_none());
    }
}
