//! Phase 5 — every comparison table of the course, by one command: `cargo run -p phase5-bench`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`tables`] | the registry, and each table in a file of its own |
//! | [`spec`] | what a table is made of and made with |
//! | [`registry`] | selects tables by name and makes them, those first that others need |
//! | [`limits`] | the most that this device can do, measured |
//! | [`torch`] | PyTorch beside our kernels, in a process of its own |
//! | [`plot`] | what was measured, drawn as SVG and PNG |
//!
//! A table's check comes before its clock: results are compared with the f64 reference, and a wrong one fails the command.
//! Numbers are measured here, or recorded on another machine and shown as such ([`common::record`]); none is estimated.

mod error;
pub mod limits;
pub mod plot;
pub mod registry;
pub mod spec;
pub mod tables;
pub mod torch;

pub use error::{Error, Result};

/// The runs kept in `records/`, for columns that the simulator has no numbers for.
///
/// # Errors
/// [`common::Error::Record`] with the file that is no record.
pub fn records() -> common::Result<Vec<common::record::Record>> {
    common::records!("nvidia-h200.json")
}

#[cfg(test)]
mod tests {
    use common::record::Named;

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
            for Named { name, table } in &record.tables {
                let text = table.to_text();
                assert!(text.lines().all(|line| line.chars().count() <= common::table::WIDTH), "{name}:\n{text}");
            }
        }
    }
}
