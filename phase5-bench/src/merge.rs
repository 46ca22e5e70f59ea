//! `phase5-bench merge`: tables of separately saved runs, in one record.

use std::fs::File;
use std::path::{Path, PathBuf};

use bench::command;
use bench::record::{Named, Record};
use common::compile;

use crate::limits::LIMITS;
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

/// Replaces tables of the record by those of the runs, and prints which. Each keeps the date and commit of its measurement;
/// derived tables are made anew.
///
/// # Errors
/// [`Error::UnknownTable`]; [`Error::Merge`] for a table that is derived, or that no run has, and for a run without any;
/// if a file is not a record, of another device, or cannot be written.
pub fn command(MergeArgs { record: path, runs, tables }: &MergeArgs) -> Result<()> {
    let known: Vec<String> = tables.iter().filter(|name| *name != LIMITS).cloned().collect();
    if let Some(derived) = registry::select(&known)?.into_iter().find(|spec| spec.is_derived()) {
        let reason = format!("`{}` is made of other tables; merge those", derived.name);
        return Err(Error::Merge { path: path.clone(), reason });
    }
    let _alone = alone()?;
    let mut record = Record::open(path)?;
    let later = runs.iter().map(|run| chosen(run, tables)).collect::<Result<Vec<_>>>()?;
    let in_no_run = |name: &&String| later.iter().all(|run| run.table(name).is_none());
    if let Some(missing) = tables.iter().find(in_no_run) {
        return Err(Error::Merge { path: path.clone(), reason: format!("no run has {missing}") });
    }
    for run in &later {
        record = registry::updated(record, run, path)?;
    }
    record.save(path)?;
    for (file, run) in runs.iter().zip(&later) {
        let names: Vec<&str> = run.tables.iter().map(|named| named.name.as_str()).collect();
        command::say("merged", format!("{}, from {}", names.join(", "), file.display()));
    }
    command::say("saved", path.display());
    Ok(())
}

/// Waits until no other merge of this account runs: two that read the same record would each lose what the other puts into it.
fn alone() -> Result<Option<File>> {
    // Without a folder of its own an account has no place to wait at.
    let Some(directory) = compile::directory() else { return Ok(None) };
    let path = directory.join("merge.lock");
    let locked = || {
        std::fs::create_dir_all(&directory)?;
        let file = File::options().write(true).create(true).truncate(false).open(&path)?;
        file.lock()?;
        Ok(Some(file))
    };
    Ok(locked().map_err(common::Error::io(&path))?)
}

/// The run with the requested tables, or all measured ones.
fn chosen(path: &Path, tables: &[String]) -> Result<Record> {
    let mut run = Record::open(path)?;
    let is_derived = |name: &str| TABLES.iter().any(|spec| spec.name == name && spec.is_derived());
    run.tables.retain(|Named { name, .. }| !is_derived(name) && (tables.is_empty() || tables.contains(name)));
    if run.tables.is_empty() {
        return Err(Error::Merge { path: path.to_owned(), reason: "it has none of the tables".to_owned() });
    }
    Ok(run)
}
