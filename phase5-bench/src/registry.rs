//! Finds tables by name and makes them, starting with those that others are made from.

use std::num::NonZero;
use std::path::Path;

use bench::command;
use bench::record::{Conditions, Record};
use bench::repeats::{Spread, medians};
use bench::table::{ColumnSpec, Table, TableBuilder};
use clap::builder::{PossibleValue, PossibleValuesParser};
use common::prelude::*;

use crate::clocks::Watch;
use crate::limits::{LIMITS, Limits};
use crate::shelf::Shelf;
use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::TABLES;
use crate::{Error, Result};

/// The name that stands for all tables.
pub const ALL: &str = "all";

/// The names that [`select`] takes, for clap.
pub fn names() -> PossibleValuesParser {
    let tables = TABLES.iter().map(|spec| PossibleValue::new(spec.name).help(spec.shows));
    tables.chain([PossibleValue::new(ALL).help("every table")]).into()
}

/// The tables called `names`, in the order of the course. [`ALL`] stands for every one.
///
/// # Errors
/// [`Error::UnknownTable`].
pub fn select(names: &[String]) -> Result<Vec<&'static TableSpec>> {
    names.iter().filter(|name| *name != ALL).try_for_each(|name| find(TABLES, name).map(drop))?;
    let chosen = |spec: &&TableSpec| names.iter().any(|name| name == ALL || name == spec.name);
    Ok(TABLES.iter().filter(chosen).collect())
}

fn find<'a>(tables: &'a [TableSpec], name: &str) -> Result<&'a TableSpec> {
    let unknown =
        || Error::UnknownTable { name: name.to_owned(), known: tables.iter().map(|spec| spec.name).collect() };
    tables.iter().find(|spec| spec.name == name).ok_or_else(unknown)
}

/// `kept` with tables of `run` replacing its own, and with derived tables made anew.
///
/// # Errors
/// Same as [`Record::update`], naming `path`, and errors of the tables.
pub fn updated(mut kept: Record, run: &Record, path: &Path) -> Result<Record> {
    kept.update(run, path)?;
    let mut derived = run.clone();
    derived.tables.clear();
    for TableSpec { name, make, .. } in TABLES {
        if let Make::Derived { needs, from } = make
            && (kept.table(name).is_some() || needs.iter().all(|need| kept.table(need).is_some()))
            && run.table(name).is_none()
        {
            derived.push(*name, from(Some(&kept))?.table);
        }
    }
    kept.update(&derived, path)?;
    // A table that the record did not have comes to its place in the course; what is no table of it stays last.
    kept.tables.sort_by_key(|named| TABLES.iter().position(|spec| spec.name == named.name).unwrap_or(TABLES.len()));
    Ok(kept)
}

/// The list itself as a table.
pub fn list() -> Table {
    const NAME: ColumnSpec = ColumnSpec::text("name", "name");
    const SHOWS: ColumnSpec = ColumnSpec::text("shows", "shows");
    let mut table = TableBuilder::of("tables of `cargo run -p phase5-bench`", [NAME, SHOWS]);
    for TableSpec { name, shows, .. } in TABLES {
        table.row().set(NAME, *name).set(SHOWS, *shows).complete();
    }
    table.finish()
}

/// Makes tables, each once.
pub struct Runner {
    tables: &'static [TableSpec],
    context: Context,
    /// Runs of other machines, for numbers that this one cannot measure.
    shelf: Shelf,
    finished: Vec<(&'static str, FinishedTable)>,
    watch: Watch,
    /// Conditions of the device while tables were measured, if its driver reports them.
    conditions: Vec<(&'static str, Conditions)>,
}

impl Runner {
    /// A runner for tables made in this context.
    pub fn new(context: Context, shelf: Shelf) -> Runner {
        let watch = Watch::of(&context.device);
        Runner { tables: TABLES, context, shelf, finished: Vec::new(), watch, conditions: Vec::new() }
    }

    /// Makes a table, unless it has already been made for another one.
    ///
    /// # Errors
    /// Errors of the table, or of one that it needs.
    pub fn make(&mut self, spec: &TableSpec) -> Result<FinishedTable> {
        if let Some((_, finished)) = self.finished.iter().find(|(name, _)| *name == spec.name) {
            return Ok(finished.clone());
        }
        let finished = match spec.make {
            Make::Measured(make) => {
                let (made, conditions) = self.watch.during(|| make(&self.context));
                self.conditions.extend(conditions.map(|conditions| (spec.name, conditions)));
                made?
            }
            Make::Derived { needs, from } => {
                let mut wrong = Vec::new();
                let run = self.run_with(needs, &mut wrong)?;
                let mut finished = from(run.as_ref())?;
                finished.wrong.splice(0..0, wrong);
                finished
            }
        };
        self.finished.push((spec.name, finished.clone()));
        Ok(finished)
    }

    /// Makes a table several times, for the medians of its numbers and their spread. Derived tables are made once, from those
    /// medians.
    ///
    /// # Errors
    /// Same as [`Runner::make`].
    pub fn make_repeatedly(
        &mut self,
        spec: &TableSpec,
        runs: NonZero<usize>,
    ) -> Result<(FinishedTable, Option<Spread>)> {
        let first = self.make(spec)?;
        if spec.is_derived() {
            return Ok((first, None));
        }
        let (mut tables, mut wrong) = (vec![first.table], first.wrong);
        while tables.len() < runs.get() {
            self.finished.retain(|(name, _)| *name != spec.name);
            let again = self.make(spec)?;
            tables.push(again.table);
            wrong.extend(again.wrong.into_iter().filter(|sentence| !wrong.contains(sentence)).collect::<Vec<_>>());
        }
        let (table, spread) = medians(&tables);
        let finished = FinishedTable { table, wrong };
        self.finished.retain(|(name, _)| *name != spec.name);
        self.finished.push((spec.name, finished.clone()));
        Ok((finished, spread))
    }

    /// A run with the tables `needs`: this one on a GPU; on the simulator, which has no times, a recorded one.
    fn run_with(&mut self, needs: &[&str], wrong: &mut Vec<String>) -> Result<Option<Record>> {
        if self.context.device.is_sim() {
            let has_all = |record: &&Record| needs.iter().all(|name| record.table(name).is_some());
            return Ok(self.shelf.runs().iter().find(has_all).cloned());
        }
        let mut run = self.with_finished(needs, wrong)?;
        if let Some(limits) = self.context.limits()? {
            run.push(LIMITS, limits.table());
        }
        Ok(Some(run))
    }

    /// This run with the tables `needs`. Missing ones are made, and their errors are reported.
    fn with_finished(&mut self, needs: &[&str], wrong: &mut Vec<String>) -> Result<Record> {
        let mut run = Record::begin(&self.context.device);
        for need in needs {
            let spec = find(self.tables, need)?;
            let is_new = !self.finished.iter().any(|(name, _)| *name == spec.name);
            let finished = self.make(spec)?;
            if is_new {
                wrong.extend(finished.wrong);
            }
            run.push(spec.name, finished.table);
        }
        Ok(run)
    }

    /// This run with those tables of `needs` that can be made; for any other, the reason is among the errors.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn run_of(&mut self, needs: &[&str]) -> Result<(Record, Vec<String>)> {
        let (mut run, mut wrong) = (Record::begin(&self.context.device), Vec::new());
        for need in needs {
            let spec = find(self.tables, need)?;
            command::say("measuring", spec.name);
            match self.make(spec) {
                Ok(finished) => {
                    wrong.extend(finished.wrong.iter().map(|wrong| format!("table `{}`: {wrong}", spec.name)));
                    run.push(spec.name, finished.table);
                }
                Err(error) => wrong.push(format!("table `{}`: {error}", spec.name)),
            }
        }
        Ok((run, wrong))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.context.device
    }

    /// Starts PyTorch, for the tables to come.
    pub fn start_pytorch(&self) {
        self.context.pytorch.start();
    }

    /// Conditions of the device while a table was measured; `None` if it was not, or cannot be watched.
    pub fn conditions(&self, name: &str) -> Option<&Conditions> {
        self.conditions.iter().find(|(measured, _)| *measured == name).map(|(_, conditions)| conditions)
    }

    /// Why clocks and power are unknown.
    pub fn not_watched(&self) -> Option<&str> {
        self.watch.absent()
    }

    /// Runs of other machines, which have numbers where this one has none.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// The device's limits, if a table has needed them.
    pub fn limits_if_measured(&self) -> Option<&Limits> {
        self.context.limits_if_measured()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use media::photo::Photo;

    use super::*;

    fn names(specs: &[&TableSpec]) -> Vec<&'static str> {
        specs.iter().map(|spec| spec.name).collect()
    }

    #[test]
    fn all_is_a_name_and_names_keep_the_order_of_the_course() {
        let all = select(&[ALL.to_owned()]).unwrap();
        assert_eq!(all.len(), TABLES.len());
        assert!(all.iter().all(|spec| !spec.columns.is_empty()));
        // As they were recorded, and the course begins with copies and ends with claims.
        for record in crate::records().unwrap() {
            let recorded: Vec<&str> = record.tables.iter().map(|named| named.name.as_str()).collect();
            let mut rest = recorded.iter().filter(|name| **name != LIMITS);
            for name in names(&all).iter().filter(|name| recorded.contains(name)) {
                assert_eq!(rest.next(), Some(name), "{recorded:?}");
            }
            assert_eq!(rest.next(), None, "a recorded table that a run does not make");
        }
        assert_eq!((all[0].name, all[all.len() - 1].name), ("transfer", "claims"));
        let asked = ["layers", "transfer", "layers"].map(str::to_owned);
        assert_eq!(names(&select(&asked).unwrap()), ["transfer", "layers"]);
    }

    /// Tables promised by the course, by name.
    #[test]
    fn every_table_that_was_promised_is_there() {
        const PROMISED: [&str; 19] = [
            "transfer",
            "gemm",
            "conv",
            "layers",
            "resnet-single",
            "resnet-batch",
            "memory",
            "accuracy",
            "linear-relu",
            "autoencoder",
            "attention",
            "fusion",
            "ptx",
            "streams",
            "video",
            "claims",
            "tensor-cores",
            "precision",
            "multi-gpu",
        ];
        for name in PROMISED {
            assert_eq!(names(&select(&[name.to_owned()]).unwrap()), [name]);
        }
    }

    #[test]
    fn a_name_means_one_table_and_one_can_be_typed() {
        let mut all: Vec<&str> = TABLES.iter().map(|spec| spec.name).collect();
        let can_be_typed = |name: &&str| {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        assert!(all.iter().all(can_be_typed), "{all:?}");
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]) && !all.contains(&ALL), "{all:?}");
    }

    #[test]
    fn a_name_that_is_none_is_told_with_those_there_are() {
        let error = select(&["gemmm".to_owned()]).map(drop).unwrap_err();
        assert!(error.to_string().starts_with("no such table: `gemmm`; there are transfer, gemm, tensor-cores, conv,"));
        assert!(error.is_usage());
    }

    const fn measured(name: &'static str, make: fn(&Context) -> Result<FinishedTable>) -> TableSpec {
        TableSpec { name, shows: "", uses: &[], columns: &[], make: Make::Measured(make) }
    }

    /// A table of one number, the count of its runs, with the error `what`.
    fn counted(count: &AtomicUsize, what: &str) -> Result<FinishedTable> {
        const TIMES: ColumnSpec = ColumnSpec::number("times", "times", 0);
        let mut table = TableBuilder::of("count", [TIMES]);
        table.row().set(TIMES, count.fetch_add(1, Ordering::Relaxed) + 1).complete();
        Ok(FinishedTable { table: table.finish(), wrong: vec![what.to_owned()] })
    }

    #[test]
    fn what_a_table_needs_is_made_before_it_and_once() {
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        static SPECS: [TableSpec; 4] = [
            TableSpec {
                name: "sum",
                shows: "",
                uses: &[],
                columns: &[],
                make: Make::Derived {
                    needs: &["a", "b"],
                    from: |run| {
                        let run = run.expect("both are made");
                        assert!(run.table("a").is_some() && run.table("b").is_some() && run.table("c").is_none());
                        counted(&AtomicUsize::new(0), "sum")
                    },
                },
            },
            measured("a", |_| counted(&TIMES, "a")),
            measured("b", |_| counted(&TIMES, "b")),
            measured("c", |_| counted(&TIMES, "c")),
        ];
        let mut runner =
            Runner { tables: &SPECS, ..Runner::new(Context::new(Device::sim(), Photo::built_in()), Shelf::default()) };
        let mut wrong = Vec::new();
        let run = runner.with_finished(&["b"], &mut wrong).unwrap();
        assert_eq!(run.table("b").unwrap().rows(), [[1usize.into()]]);
        // On a simulator only a record has what a table can be derived from; here the run takes its place.
        let run = runner.with_finished(&["a", "b"], &mut wrong).unwrap();
        assert_eq!(run.table("a").unwrap().rows(), [[2usize.into()]]);
        assert_eq!(wrong, ["b", "a"], "each is told once");
        let Make::Derived { from, .. } = SPECS[0].make else { panic!() };
        assert_eq!(from(Some(&run)).unwrap().wrong, ["sum"]);
        assert_eq!(runner.make(&SPECS[1]).unwrap().table.rows(), [[2usize.into()]], "made once");
        assert_eq!(runner.make(&SPECS[3]).unwrap().table.rows(), [[3usize.into()]]);
    }

    #[test]
    fn what_tables_need_is_measured_by_others() {
        for spec in TABLES {
            for need in spec.needs() {
                let needed = find(TABLES, need).unwrap();
                assert!(matches!(needed.make, Make::Measured(_)), "{} needs {need}", spec.name);
            }
        }
    }
}
