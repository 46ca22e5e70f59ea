//! The report: every table and plot of saved runs as one HTML file, which needs no other file and no network, and a folder beside
//! it with the plots as SVG and PNG, the tables as CSV and the runs as JSON.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`command`] | `phase5-bench report` |
//! | `page` | the HTML |
//! | `style.css`, `sort.js` | how it looks, and how its tables are sorted |
//!
//! Nothing in it is estimated: a run that lacks a table has no section for it.

pub mod command;
mod page;

use std::path::{Path, PathBuf};

use bench::record::{Named, Record};
use bench::table::{Cell, ColumnSpec, Table};

use crate::spec::Make;
use crate::tables::TABLES;
use crate::{Error, Result, plot, summary};

/// The shown runs, and one that they are compared with.
pub struct Report {
    /// The plots and claims of the first run come first.
    runs: Vec<Record>,
    /// The fraction of a number that counts as noise, where a spread does not state it.
    earlier: Option<(Record, Option<f64>)>,
    /// Address of the book's pages, for links from claims.
    book: Option<String>,
}

/// Paths of a saved report.
pub struct Saved {
    /// The file.
    pub html: PathBuf,
    /// The folder beside it.
    pub folder: PathBuf,
}

/// A table of a run.
struct Shown<'r> {
    name: &'r str,
    /// Contents of the table, as listed by `--list`; empty if this version of the course does not have it.
    shows: &'static str,
    /// Whether it was made from others.
    is_derived: bool,
    table: Table,
    run: &'r Record,
}

impl Report {
    /// A report of saved runs, or of the present one.
    ///
    /// # Errors
    /// [`Error::Report`] if there is no run, or one without tables, and errors of a derived table.
    pub fn new(mut runs: Vec<Record>) -> Result<Report> {
        if let Some(empty) = runs.iter().find(|run| run.tables.is_empty()) {
            return Err(Error::Report(format!("the run of {} has no tables", empty.provenance())));
        }
        if runs.is_empty() {
            return Err(Error::Report("there is no run to report".to_owned()));
        }
        runs.iter_mut().try_for_each(derive_again)?;
        Ok(Report { runs, earlier: None, book: None })
    }

    /// The same, compared with an earlier run; `noise`, a fraction of 1, counts as noise where no spread states it.
    #[must_use]
    pub fn compared_with(self, earlier: Option<Record>, noise: Option<f64>) -> Report {
        Report { earlier: earlier.map(|earlier| (earlier, noise)), ..self }
    }

    /// The same, with links to the book's pages below this address.
    #[must_use]
    pub fn linked_to(self, book: Option<String>) -> Report {
        Report { book, ..self }
    }

    /// All of it as one page.
    ///
    /// # Errors
    /// [`Error::Plot`] if a plot that has its data cannot be drawn.
    pub fn html(&self) -> Result<String> {
        page::html(self)
    }

    /// Whether a report can be written there: checked before minutes of measuring.
    ///
    /// # Errors
    /// Same as [`Record::can_be_saved`].
    pub fn can_be_saved(out: &Path) -> Result<()> {
        Ok(Record::can_be_saved(out)?)
    }

    /// Writes the page, and the folder: `report.html` and `report/`.
    ///
    /// # Errors
    /// [`common::Error::Io`] if something cannot be written, and same as [`Report::html`].
    pub fn save(&self, out: &Path) -> Result<Saved> {
        let html = self.html()?;
        let folder = folder(out)?;
        let write = |path: &Path, text: &str| std::fs::write(path, text).map_err(common::Error::io(path));
        std::fs::create_dir_all(&folder).map_err(common::Error::io(&folder))?;
        let mut taken: Vec<String> = Vec::new();
        let mut free = |name: String| {
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
            let free = free.unwrap_or(name);
            taken.push(free.clone());
            free
        };
        for run in &self.runs {
            let name = free(slug(&run.device_name));
            write(&folder.join(format!("{name}.json")), &run.to_json())?;
        }
        for shown in self.tables() {
            let name = free(slug(shown.name));
            write(&folder.join(format!("{name}.csv")), &shown.table.to_csv())?;
        }
        for (run, name) in self.plots() {
            plot::save_one(run, name, &folder)?;
        }
        // Last: whoever sees the page finds the folder whole.
        write(out, &html)?;
        Ok(Saved { html: out.to_owned(), folder })
    }

    /// The tables in the order of the course, each of every run that has it; then those unknown to the course.
    fn tables(&self) -> Vec<Shown<'_>> {
        let of = |name: &str, shows: &'static str, declared: &[ColumnSpec]| {
            let runs = self.runs.iter();
            let named = runs.filter_map(|run| Some((run, run.tables.iter().find(|named| named.name == name)?)));
            let shown = named.map(|(run, Named { name, table, .. })| {
                let mut table = table.clone();
                for column in &mut table.columns {
                    // What a record of before columns said so means is the same.
                    let spec = declared.iter().find(|spec| spec.key == column.key());
                    column.level = column.level.or(spec.and_then(|spec| spec.level));
                }
                let is_derived = TABLES.iter().any(|spec| spec.name == name && !spec.needs().is_empty());
                Shown { name, shows, is_derived, table, run }
            });
            shown.collect::<Vec<_>>()
        };
        let mut tables: Vec<Shown<'_>> =
            TABLES.iter().flat_map(|spec| of(spec.name, spec.shows, spec.columns)).collect();
        let mut others: Vec<&str> = Vec::new();
        for Named { name, .. } in self.runs.iter().flat_map(|run| &run.tables) {
            if !others.contains(&name.as_str()) && !TABLES.iter().any(|spec| spec.name == name) {
                others.push(name);
            }
        }
        tables.extend(others.into_iter().flat_map(|name| of(name, "", &[])));
        tables
    }

    /// Gain of each phase, if a run has any of it.
    fn summary(&self) -> Result<Option<Table>> {
        let with = |name: &str| self.runs.iter().filter(|run| run.table(name).is_some()).collect();
        let table = summary::tabulate(with, false)?;
        let says = table.rows().iter().flatten().any(|cell| matches!(cell, Cell::Number(_)));
        Ok(says.then_some(table))
    }

    /// The available plots, each of the first run that has it.
    fn plots(&self) -> Vec<(&Record, &'static str)> {
        let first = |name| Some((self.runs.iter().find(|run| plot::chart(run, name).is_ok())?, name));
        plot::names().filter_map(first).collect()
    }
}

/// Derived tables are made again: their contents are as new as this program.
fn derive_again(run: &mut Record) -> Result<()> {
    for spec in TABLES {
        if let Make::Derived { needs, from } = spec.make
            && needs.iter().all(|need| run.table(need).is_some())
        {
            let table = from(Some(run))?.table;
            match run.tables.iter_mut().find(|named| named.name == spec.name) {
                Some(named) => named.table = table,
                None => run.push(spec.name, table),
            }
        }
    }
    Ok(())
}

/// The folder beside a file: its name without the ending.
fn folder(out: &Path) -> Result<PathBuf> {
    let folder = out.with_extension("");
    if folder != out && out.file_name().is_some() {
        Ok(folder)
    } else {
        Err(Error::Report(format!(
            "{}: its name needs an ending, as in report.html; the name without it is the folder's",
            out.display()
        )))
    }
}

/// A name of a device or of a table for a file or an element: letters, digits and hyphens.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = name.chars().map(plain).collect();
    let parts: Vec<&str> = slug.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "unnamed".to_owned() } else { parts.join("-") }
}
