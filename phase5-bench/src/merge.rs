//! `phase5-bench merge`: tables of runs that were saved apart, in one record.

use std::path::{Path, PathBuf};

use common::command;
use common::record::Record;

use crate::{Error, Result, registry};

/// The options of `phase5-bench merge`.
#[derive(Clone, Debug, clap::Args)]
pub struct MergeArgs {
    /// The record, which --save wrote; its tables are replaced
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// Later runs on such a device, in the order of their dates
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Take these tables alone, separated by commas [default: all that the runs have]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tables: Vec<String>,
}

/// Puts the tables of the runs in the record in place of its own, and says which. Each keeps the date and commit that it was measured at;
/// those that are derived from others are made anew.
///
/// # Errors
/// [`Error::UnknownTable`]; [`Error::Merge`] for a run without any of the tables; if a file is no record, of another device, or cannot be
/// written.
pub fn command(MergeArgs { record: path, runs, tables }: &MergeArgs) -> Result<()> {
    registry::select(tables)?;
    let mut record = Record::open(path)?;
    for run in runs {
        let later = chosen(run, tables)?;
        record = registry::updated(record, &later, path)?;
        let names: Vec<&str> = later.tables.iter().map(|named| named.name.as_str()).collect();
        command::say("merged", format!("{}, from {}", names.join(", "), run.display()));
    }
    record.save(path)?;
    command::say("saved", path.display());
    Ok(())
}

/// The run with the tables that are asked for, or all.
fn chosen(path: &Path, tables: &[String]) -> Result<Record> {
    let mut run = Record::open(path)?;
    run.tables.retain(|named| tables.is_empty() || tables.contains(&named.name));
    match run.tables.is_empty() {
        false => Ok(run),
        true => Err(Error::Merge { path: path.to_owned(), tables: tables.to_vec() }),
    }
}
