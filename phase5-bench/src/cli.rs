//! `cargo run -p phase5-bench`: the course's tables, measured here.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use bench::command::{self, CommandArgs, SaveArgs, Shell};
use bench::record::{self, Named, Record};
use bench::table::{Format, Table};
use clap::{CommandFactory, Parser, Subcommand};
use common::cpu;
use common::device::{Device, SimOptions};
use media::photo::Photo;

use crate::limits::{LIMITS, Limits};
use crate::merge::{self, MergeArgs};
use crate::registry::{self, Runner};
use crate::report::command::{ReportArgs, percent};
use crate::report::{self, Report};
use crate::shelf::{self, AdoptArgs, Shelf};
use crate::spec::Context;
use crate::{Result, doctor, plot, summary};

/// Measure the course's comparison tables on this machine
///
/// Without arguments, one screen says what each phase bought, by model, beside the fastest library. `all`, or the names of tables, measure
/// them: each result is compared with an f64 reference before it is timed; a wrong one is an error. On a GPU times come from events.
/// The simulator has no clock: its tables show counts and the check, and times recorded on a GPU where there are some, in columns
/// headed "recorded".
#[derive(Parser)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  cargo run -p phase5-bench                                one screen: what each phase bought
  cargo run -p phase5-bench -- all                         all tables
  cargo run -p phase5-bench -- --list                      list the tables
  cargo run -p phase5-bench -- layers --photo cat.jpg      one table, on your photo
  cargo run -p phase5-bench -- all --save today.json       save a run
  cargo run -p phase5-bench -- gemm --runs 5 --save today.json     save medians of 5 runs, and how far they lie apart
  cargo run -p phase5-bench -- gemm --runs 5 --compare today.json  compare a later run with it: change, or noise
  cargo run -p phase5-bench -- merge today.json later.json put tables that were measured again or apart into one record
  cargo run -p phase5-bench -- adopt today.json            keep it, to be shown where there is no GPU
  cargo run -p phase5-bench -- gemm conv --plot plots      two tables and their plot
  cargo run -p phase5-bench -- report --out report.html    a report of the recorded runs
  cargo run -p phase5-bench -- doctor                      what could not be measured here, and what would mend it

Colours: in a terminal, unless NO_COLOR is set or CLICOLOR is 0.

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a wrong command line, 3 if --compare finds
something slower."
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Tables to make: their names, or `all` [default: a summary on one screen]
    #[arg(value_name = "NAME", value_parser = registry::names())]
    names: Vec<String>,
    /// List the tables
    #[arg(long, conflicts_with_all = ["names", "save", "compare", "photo", "plot", "quick"])]
    list: bool,
    #[command(flatten)]
    save: SaveArgs,
    /// Compare each time, rate and count with the one in FILE, which --save wrote: faster, slower, within noise, or cannot tell.
    /// The exit status is 3 if something is slower, or takes more instructions or bytes
    #[arg(long, value_name = "FILE", requires = "names")]
    compare: Option<PathBuf>,
    /// With --compare, where a number is not the median of 3 runs or more on both sides: take changes of up to PERCENT as noise
    #[arg(long, value_name = "PERCENT", requires = "compare", value_parser = percent)]
    noise: Option<f64>,
    /// Measure each table N times: numbers are medians, and their spread is saved for --compare
    #[arg(long, value_name = "N", default_value = "1", requires = "names")]
    runs: NonZero<usize>,
    /// Draw the results into DIR, as SVG and PNG: the roofline (gemm, conv, linear-relu), ResNet18's layers, its batches,
    /// attention. On the simulator a recorded run is drawn
    #[arg(long, value_name = "DIR", requires = "names")]
    plot: Option<PathBuf>,
    /// Write a report of this run: one HTML file, beside it a folder of its plots and tables; with --compare, what changed
    #[arg(long, value_name = "FILE", requires = "names")]
    report: Option<PathBuf>,
    /// Photo for the networks, JPEG or PNG [default: one that comes with the course]
    #[arg(long, value_name = "FILE", requires = "names")]
    photo: Option<PathBuf>,
    /// Time each thing on the CPU once, and on the simulator take small images and 2 devices: for a first look, not for figures to keep
    #[arg(long, conflicts_with_all = ["save", "compare"], requires = "names")]
    quick: bool,
    #[command(flatten)]
    common: CommandArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Write a report of saved runs: one HTML file that works offline, beside it a folder of plots, tables and runs
    Report(ReportArgs),
    /// Say what could not be measured on this machine, table by table, and what would mend it
    Doctor,
    /// Keep a run that --save wrote on a GPU of yours: where there is no GPU, tables then show the numbers of the nearest device
    Adopt(AdoptArgs),
    /// Put the tables of runs that --save wrote into an earlier record of such a device, in place of its own
    Merge(MergeArgs),
}

/// The exit status if a comparison finds something slower.
const SLOWER: u8 = 3;

/// The command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command.
pub fn main() -> ExitCode {
    let args: Args = command::parse();
    let shell = Shell::new(args.common.format).saving(args.save.save.as_deref());
    shell.going_on_if(args.plot.is_some() || args.report.is_some()).run(|shell| match &args.command {
        Some(Command::Report(report)) => report::command::run(report),
        Some(Command::Doctor) => doctor::run(&args.common.device, shell),
        Some(Command::Adopt(adopt)) => shelf::command(adopt),
        Some(Command::Merge(args)) => merge::command(args),
        None => run(&args, shell),
    })
}

/// The recorded runs shown where this device has no numbers: a simulator has no times.
fn shelf_for(device: &Device) -> Shelf {
    let shelf = if device.is_sim() { Shelf::open() } else { Ok(Shelf::default()) };
    shelf.unwrap_or_else(|error| {
        command::warn(format!("no recorded numbers are shown: {error}"));
        Shelf::default()
    })
}

/// The first screen.
fn summarise(args: &Args, shell: &mut Shell) -> Result<()> {
    let device = shell.open(&args.common.device, SimOptions::default())?;
    let shelf = shelf_for(&device);
    let mut runner = Runner::new(Context::of_summary(device, Photo::built_in()), shelf);
    let screen = summary::screen(&mut runner)?;
    for wrong in &screen.wrong {
        shell.fail(wrong);
    }
    for table in &screen.tables {
        shell.table(table)?;
    }
    Ok(shell.save(&screen.run)?)
}

/// Makes each table, reports which failed, and prints, saves and draws the others.
fn run(args: &Args, shell: &mut Shell) -> Result<()> {
    let format = args.common.format;
    if args.list {
        return Ok(shell.table(&registry::list())?);
    }
    if args.names.is_empty() {
        return summarise(args, shell);
    }
    // All that can be refused is refused before minutes of measuring.
    let specs = registry::select(&args.names)?;
    args.report.as_deref().map(Report::can_be_saved).transpose()?;
    let earlier = args.compare.as_deref().map(Record::open).transpose()?;
    let photo = args.photo.as_deref().map_or_else(|| Ok(Photo::built_in()), Photo::open)?;
    if cpu::pinned_threads().build_global().is_err() {
        command::warn("the CPU's threads were started before they could be kept on their cores");
    }
    let device = shell.open(&args.common.device, SimOptions::default())?;
    let shelf = shelf_for(&device);

    let mut record = Record::begin(&device);
    let mut context = Context::new(device, photo);
    context.quick = args.quick;
    let mut runner = Runner::new(context, shelf);
    if let Some(reason) = runner.not_watched().filter(|_| runner.device().is_cuda()) {
        command::warn(format!("clocks, power and temperature are not recorded: {reason}"));
    }
    // JSON is one document, made at the end.
    let show = |shell: &mut Shell, table: &Table| if format == Format::Json { Ok(()) } else { shell.table(table) };
    let mut comparisons = Vec::new();
    for spec in specs {
        command::say("measuring", spec.name);
        let (finished, spread) = match runner.make_repeatedly(spec, args.runs) {
            Ok(made) => made,
            Err(error) => {
                shell.fail(format!("table `{}`: {error}", spec.name));
                continue;
            }
        };
        for wrong in &finished.wrong {
            shell.fail(format!("table `{}`: {wrong}", spec.name));
        }
        show(shell, &record::merge(&finished.table, spec.name, runner.shelf().with_table(spec.name)))?;
        let conditions = runner.conditions(spec.name).cloned();
        if let Some(conditions) = &conditions {
            command::say("meanwhile", conditions.says());
        }
        record.push_under(spec.name, finished.table, conditions);
        record.set_spread(spec.name, spread);
        shell.save_part(&record)?;
        let Some(earlier) = &earlier else { continue };
        match record.changes(earlier, spec.name, args.noise) {
            Some(changes) => {
                if changes.iter().any(|change| change.verdict.is_worse()) {
                    shell.end_with(SLOWER);
                }
                let comparison = record.table_of_changes(earlier, spec.name, &changes);
                show(shell, &comparison)?;
                comparisons.push(comparison);
            }
            None => command::warn(format!("the earlier run has no table `{}`", spec.name)),
        }
    }
    let limits = runner.limits_if_measured().map(Limits::table);
    if let Some(limits) = limits {
        show(shell, &limits)?;
        record.push(LIMITS, limits);
    }
    if format == Format::Json {
        shell.print(&json(&record, runner.shelf(), &comparisons))?;
    }
    shell.save(&record)?;
    if let Some(dir) = &args.plot {
        let has_limits = |run: &&Record| run.table(LIMITS).is_some();
        let run = if runner.device().is_sim() { runner.shelf().runs().iter().find(has_limits) } else { None };
        for path in plot::save(run.unwrap_or(&record), dir)? {
            command::say("drawn", path.display());
        }
    }
    if let Some(out) = &args.report {
        report::command::say(&Report::new(vec![record])?.compared_with(earlier, args.noise).save(out)?);
    }
    Ok(())
}

/// The run as `--save` writes it, with recorded columns where the text has them, and the comparisons.
fn json(record: &Record, shelf: &Shelf, comparisons: &[Table]) -> String {
    let mut record = record.clone();
    for Named { name, table, .. } in &mut record.tables {
        *table = record::merge(table, name, shelf.with_table(name));
    }
    record.comparisons = comparisons.to_vec();
    record.to_json()
}
