//! Runs recorded on GPUs and kept in `records/`, for readers who have none.
//!
//! On the simulator a column of times is all dashes. If a record has that column, it stands in its place, and its heading and a
//! note say which device, day and commit the numbers are from.

use common::table::{Cell, Column, Table};

use crate::record::{Record, key};

/// File names and texts of `records/*.json`.
static EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/records.rs"));

/// The recorded runs that were built in, those of simulators left out.
///
/// # Errors
/// Which file is no record.
pub fn records() -> Result<Vec<Record>, String> {
    let read = EMBEDDED.iter().map(|(name, json)| Record::from_json(json).map_err(|e| format!("records/{name}: {e}")));
    let records = read.collect::<Result<Vec<_>, _>>()?;
    Ok(records.into_iter().filter(|record| !record.simulated).collect())
}

/// `table` with its empty columns replaced by those of the records that have the table `name`, and with rows that only a record
/// has.
pub fn merge(table: &Table, name: &str, records: &[Record]) -> Table {
    let sources: Vec<(&Record, &Table)> =
        records.iter().filter_map(|record| Some((record, record.table(name)?))).collect();
    let mut rows = table.rows.clone();
    for (_, source) in &sources {
        // A row that only the record has comes behind the one it follows there.
        let mut next = 0;
        for row in &source.rows {
            match rows.iter().position(|other| key(other, table) == key(row, source)) {
                Some(at) => next = at + 1,
                None => {
                    let texts = key(row, source).into_iter().map(Cell::from);
                    let rest = std::iter::repeat(Cell::absent("not run on this device"));
                    rows.insert(next, texts.chain(rest).take(table.columns.len()).collect());
                    next += 1;
                }
            }
        }
    }
    let mut merged = Table { columns: Vec::new(), rows: vec![Vec::new(); rows.len()], ..table.clone() };
    for (at, column) in table.columns.iter().enumerate() {
        let empty = column.decimals.is_some() && table.rows.iter().all(|row| matches!(row[at], Cell::Absent(_)));
        let found: Vec<_> = sources
            .iter()
            .filter_map(|(record, source)| {
                let from = source.columns.iter().position(|other| other.name == column.name)?;
                let has_numbers = source.rows.iter().any(|row| matches!(row[from], Cell::Number(_)));
                (empty && has_numbers).then_some((*record, *source, from))
            })
            .collect();
        if found.is_empty() {
            merged.columns.push(column.clone());
            for (row, whole) in merged.rows.iter_mut().zip(&rows) {
                row.push(whole[at].clone());
            }
        }
        for (record, source, from) in found {
            merged.columns.push(Column { name: heading(record, column), ..column.clone() });
            for (row, whole) in merged.rows.iter_mut().zip(&rows) {
                let recorded = source.rows.iter().find(|other| key(other, source) == key(whole, table));
                row.push(recorded.map_or_else(|| Cell::absent("not in the record"), |other| other[from].clone()));
            }
            merged.note(format!(
                "recorded {}: not measured here, but on {} (host: {}).",
                short_name(record),
                record.provenance(),
                record.host
            ));
        }
    }
    merged
}

/// `recorded H200 ms` for `device ms`.
fn heading(record: &Record, column: &Column) -> String {
    let quantity = column.name.strip_prefix("device ").unwrap_or(&column.name);
    format!("recorded {} {quantity}", short_name(record))
}

fn short_name(record: &Record) -> &str {
    record.device_name.strip_prefix("NVIDIA ").unwrap_or(&record.device_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Named;
    use common::Device;

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
            device_name: "NVIDIA H200".to_owned(),
            simulated: false,
            date: "2026-03-01T12:00:00Z".to_owned(),
            commit: "0123abc".to_owned(),
            tables: vec![Named { name: "layers".to_owned(), table }],
            ..Record::begin(&Device::sim())
        }
    }

    #[test]
    fn an_empty_column_gives_way_to_the_recorded_one_and_says_so() {
        let merged = merge(&here(), "layers", &[on_gpu()]);
        let names: Vec<_> = merged.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["layer", "recorded H200 ms", "lanes"]);
        assert_eq!(merged.rows[0], ["Conv2D".into(), 0.5.into(), 100.0.into()]);
        assert_eq!(merged.rows[1], ["Linear".into(), 0.25.into(), Cell::absent("not run on this device")]);
        assert_eq!(merged.rows[2], ["ReLU".into(), Cell::absent("not in the record"), 10.0.into()]);
        assert!(merged.notes[0].contains("not measured here, but on NVIDIA H200, 2026-03-01, commit 0123abc"));
    }

    #[test]
    fn measured_columns_and_other_tables_are_left_as_they_are() {
        assert_eq!(merge(&here(), "gemm", &[on_gpu()]), here());
        let mut measured = here();
        measured.rows[0][1] = 7.0.into();
        let merged = merge(&measured, "layers", &[on_gpu()]);
        assert_eq!(merged.columns, measured.columns);
        assert_eq!(merged.rows[0], measured.rows[0]);
    }

    #[test]
    fn every_record_in_the_repository_can_be_read() {
        records().unwrap();
    }
}
