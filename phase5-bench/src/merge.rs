//! `phase5-bench merge`: tables of runs that were saved apart, in one record.

use std::path::{Path, PathBuf};

use common::command;
use common::record::{Named, Record};

use crate::limits::LIMITS;
use crate::spec::Make;
use crate::tables::TABLES;
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
    /// Take these tables alone, separated by commas [default: all that were measured in the runs]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tables: Vec<String>,
}

/// Puts the tables of the runs in the record in place of its own, and says which. Each keeps the date and commit that it was measured at;
/// those that are derived from others are made anew.
///
/// # Errors
/// [`Error::UnknownTable`]; [`Error::Merge`] for a table that is derived, or that no run has, and for a run without any; if a file is no
/// record, of another device, or cannot be written.
pub fn command(MergeArgs { record: path, runs, tables }: &MergeArgs) -> Result<()> {
    let known: Vec<String> = tables.iter().filter(|name| *name != LIMITS).cloned().collect();
    if let Some(derived) = registry::select(&known)?.into_iter().find(|spec| is_derived(spec.name)) {
        let reason = format!("`{}` is made of other tables; merge those", derived.name);
        return Err(Error::Merge { path: path.clone(), reason });
    }
    let mut record = Record::open(path)?;
    let mut missing = tables.clone();
    for run in runs {
        let later = chosen(run, tables)?;
        record = registry::updated(record, &later, path)?;
        let names: Vec<&str> = later.tables.iter().map(|named| named.name.as_str()).collect();
        missing.retain(|name| !names.contains(&name.as_str()));
        command::say("merged", format!("{}, from {}", names.join(", "), run.display()));
    }
    if !missing.is_empty() {
        return Err(Error::Merge { path: path.clone(), reason: format!("no run has {}", missing.join(", ")) });
    }
    record.save(path)?;
    command::say("saved", path.display());
    Ok(())
}

/// The run with the tables that are asked for, or all that were measured.
fn chosen(path: &Path, tables: &[String]) -> Result<Record> {
    let mut run = Record::open(path)?;
    run.tables.retain(|Named { name, .. }| !is_derived(name) && (tables.is_empty() || tables.contains(name)));
    match run.tables.is_empty() {
        false => Ok(run),
        true => Err(Error::Merge { path: path.to_owned(), reason: "it has none of the tables".to_owned() }),
    }
}

/// Whether the table is made of others.
fn is_derived(name: &str) -> bool {
    TABLES.iter().any(|spec| spec.name == name && matches!(spec.make, Make::Derived { .. }))
}
