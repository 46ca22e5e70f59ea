//! Phase 5 — every comparison table of the course, by one command: `cargo run -p phase5-bench`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`tables`] | the registry, and each table in a file of its own |
//! | [`spec`] | what a table is made of and made with |
//! | [`registry`] | selects tables by name and makes them, those first that others need |
//! | [`shelf`] | recorded runs, the course's and those adopted; the nearest device's come first |
//! | [`doctor`] | what could not be measured here, and what would mend it |
//! | [`summary`] | the first screen: what each phase bought |
//! | [`clocks`] | clocks, power and temperature while a table is measured |
//! | [`limits`] | the most that this device can do, measured |
//! | [`torch`] | PyTorch beside our kernels, in a process of its own |
//! | [`plot`] | what was measured, drawn as SVG and PNG |
//! | [`report`] | all tables and plots as one HTML file |
//!
//! A table's check comes before its clock: results are compared with the f64 reference, and a wrong one fails the command.
//! Numbers are measured here, or recorded on another machine and shown as such ([`bench::record`]); none is estimated.

pub mod cli;
pub mod clocks;
pub mod doctor;
mod error;
pub mod limits;
pub mod merge;
pub mod plot;
pub mod registry;
pub mod report;
pub mod shelf;
pub mod spec;
pub mod summary;
pub mod tables;
pub mod torch;

pub use error::{Error, Result};

/// The runs kept in `records/`, for columns without numbers on the simulator.
///
/// # Errors
/// [`common::Error::Record`] with the file that is not a record.
pub fn records() -> common::Result<Vec<bench::record::Record>> {
    bench::records!("nvidia-h200.json", "nvidia-h100.json")
}

#[cfg(test)]
mod tests {
    use bench::compare::Quantity;
    use bench::record::{Named, merge};
    use bench::table::{Cell, Column, DeviceKind};

    use crate::limits::Limits;
    use crate::spec::Make;
    use crate::tables::TABLES;

    #[test]
    fn every_record_in_the_folder_is_built_in() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/records")).unwrap();
        let files = folder.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"));
        assert_eq!(super::records().unwrap().len(), files.count());
    }

    /// The tables of a GPU have columns that the simulator's do not.
    #[test]
    fn every_recorded_table_fits_a_terminal() {
        for record in super::records().unwrap() {
            for Named { name, table, .. } in &record.tables {
                let text = table.to_text();
                assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{name}:\n{text}");
            }
        }
    }

    /// Other tables, plots and pages find columns of a record by the keys that tables declare.
    #[test]
    fn every_recorded_table_has_the_columns_that_it_declares() {
        for record in super::records().unwrap() {
            for spec in TABLES {
                let Some(table) = record.table(spec.name) else { continue };
                let declared = spec.columns.iter().filter(|column| column.is_on(DeviceKind::Gpu));
                let recorded: Vec<&str> = table.columns.iter().map(Column::key).collect();
                assert_eq!(recorded, declared.map(|column| column.key).collect::<Vec<_>>(), "{}", spec.name);
            }
            // What takes several GPUs is a record of its own, without the tables of one.
            if Limits::of_run(&record).unwrap().is_none() {
                continue;
            }
            for spec in TABLES {
                if let Make::Derived { from, .. } = spec.make {
                    let table = from(Some(&record)).unwrap().table;
                    let unmeasured =
                        |cell: &Cell| matches!(cell, Cell::Absent(reason) if reason.contains("in this run"));
                    assert!(!table.rows().iter().flatten().any(unmeasured), "{}", table.to_text());
                }
            }
        }
    }

    /// A comparison skips columns that it does not know.
    #[test]
    fn a_comparison_knows_what_every_column_of_numbers_says() {
        for spec in TABLES {
            for column in spec.columns.iter().filter(|column| column.decimals.is_some() && !column.identifies) {
                let known = Quantity::of(&Column::from(*column));
                assert!(known.is_some(), "{}: say in bench::compare what `{}` says", spec.name, column.key);
            }
        }
    }

    #[test]
    fn every_plot_is_drawn_from_a_record() {
        let records = super::records().unwrap();
        for name in super::plot::names() {
            assert!(records.iter().any(|record| super::plot::svg(record, name).is_ok()), "{name}");
        }
    }

    /// A record saved before columns had keys can still be compared.
    #[test]
    fn a_record_without_keys_is_compared_by_its_headings() {
        for record in super::records().unwrap() {
            let mut old = record.clone();
            for column in old.tables.iter_mut().flat_map(|named| &mut named.table.columns) {
                *column = column.headed(column.heading.clone());
            }
            for Named { name, table, .. } in &record.tables {
                assert_eq!(record.compare(&old, name).unwrap().rows(), record.compare(&record, name).unwrap().rows());
                let mut empty = table.clone();
                empty.map_cells(|column, cell| match cell {
                    Cell::Number(_) if !column.identifies => Cell::absent("no clock"),
                    cell => cell.clone(),
                });
                let filled = |record| merge(&empty, name, [&record]).rows().to_vec();
                assert_eq!(filled(old.clone()), filled(record.clone()), "{name}");
            }
        }
    }
}
