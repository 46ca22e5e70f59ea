//! Records that have been read, and the tables in them.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bench::{record::Record, table::Table};
use phase5_bench::{
    spec::{FinishedTable, Make},
    tables::TABLES,
};

use super::{DIRTY, Found, PHASE5, RecordError};

/// A parsed record, with its tables to share.
pub(super) struct Opened {
    path: PathBuf,
    /// Text that it was read from.
    json: String,
    pub(super) record: Record,
    pub(super) tables: HashMap<String, Arc<Table>>,
    /// Tables that phase 5 derives from others, derived anew: so a change of their rules shows at once.
    derived: Mutex<HashMap<String, Arc<Table>>>,
}

impl Opened {
    /// Reads a record, or returns it if it has been read: a page uses hundreds of numbers. A file that has changed since is read
    /// again.
    pub(super) fn open(path: &Path) -> Result<Arc<Opened>, RecordError> {
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
    pub(super) fn table(&self, phase: &str, name: &str) -> Option<Result<Found, RecordError>> {
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
    pub(super) fn clean(&self, name: &str) -> Result<(), RecordError> {
        let again = self.record.tables.iter().find(|named| named.name == name).and_then(|named| named.again.as_ref());
        let commit = again.map_or(&self.record.commit, |again| &again.commit);
        if commit.ends_with(DIRTY) {
            let place = self.path.display().to_string();
            return Err(RecordError::Dirty { name: name.to_owned(), place, commit: commit.clone() });
        }
        Ok(())
    }
}
