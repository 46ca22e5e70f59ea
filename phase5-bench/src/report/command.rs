//! `phase5-bench report`: the report of saved runs, or of those that come with the course.

use std::path::PathBuf;

use bench::command;
use bench::record::Record;

use super::{Report, Saved};
use crate::shelf::Shelf;
use crate::{Result, records};

/// The options of `phase5-bench report`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// File to write; plots, tables and runs go into the folder of its name without the ending
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// A run to report, which --save wrote; repeat it for several machines [default: those adopted, and those of the course]
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// A run to compare them with, which --save wrote
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// With --compare, where a number is not the median of 3 runs or more on both sides: take changes of up to PERCENT as noise
    #[arg(long, value_name = "PERCENT", requires = "compare", value_parser = percent)]
    noise: Option<f64>,
    /// Address of the built book, for links from claims to its pages
    #[arg(long, value_name = "ADDRESS")]
    book: Option<String>,
}

/// Writes the report, and prints where.
///
/// # Errors
/// Errors of reading and writing, and same as [`Report::new`].
pub fn run(args: &ReportArgs) -> Result<()> {
    Report::can_be_saved(&args.out)?;
    let runs = if args.from.is_empty() {
        recorded()?
    } else {
        args.from.iter().map(|path| Record::open(path)).collect::<common::Result<_>>()?
    };
    let earlier = args.compare.as_deref().map(Record::open).transpose()?;
    let report = Report::new(runs)?.compared_with(earlier, args.noise).linked_to(args.book.clone());
    say(&report.save(&args.out)?);
    Ok(())
}

/// A percentage, as a fraction of 1.
///
/// # Errors
/// A description of the expected text.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a number from 0 to below 100".to_owned()),
    }
}

/// The runs that come with the course, after the adopted ones.
fn recorded() -> Result<Vec<Record>> {
    let (shelf, course) = (Shelf::open()?, records()?);
    let adopted = shelf.runs().iter().filter(|run| !course.contains(run)).cloned();
    Ok(adopted.chain(course.iter().cloned()).collect())
}

/// Prints where a report is.
pub fn say(Saved { html, folder }: &Saved) {
    command::say("report", html.display());
    command::say("plots, tables and runs", folder.display());
}
