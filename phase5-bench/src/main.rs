//! `cargo run -p phase5-bench`: the course's tables, measured here.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::device::DeviceArgs;
use common::record::{Named, Record, merge};
use common::table::{Format, Table};
use media::photo::Photo;
use phase5_bench::limits::{LIMITS, Limits};
use phase5_bench::registry::{self, Runner};
use phase5_bench::{Result, plot, records};

/// Measure the course's comparison tables on this machine
///
/// Each result is compared with an f64 reference before it is timed; a wrong one is an error. On a GPU times come from events.
/// The simulator has no clock: its tables show counts and the check, and times recorded on a GPU where the course has them,
/// under a heading that says so.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase5-bench                                all tables that are here
  cargo run -p phase5-bench -- --list                      what tables there are
  cargo run -p phase5-bench -- layers --photo cat.jpg      one table, on your photo
  cargo run -p phase5-bench -- transfer --save today.json  keep a run,
  cargo run -p phase5-bench -- transfer --compare today.json  and compare a later one with it
  cargo run -p phase5-bench -- gemm conv --plot plots      two tables, and their plot

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a command line that asks for what there is not.")]
struct Args {
    /// The tables to make; all that are here if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Say which tables there are, and when those arrive that are not here yet
    #[arg(long, conflicts_with_all = ["names", "save", "compare", "photo", "plot"])]
    list: bool,
    /// How tables are written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Keep the run in a file, with device, date and commit (WARP_COMMIT, where there is no git repository)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Show beside each number what it was in a run that --save kept, and the ratio
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Draw what was measured into this directory, as SVG and PNG: the roofline (gemm, conv, linear-relu), ResNet18's layers,
    /// its batches, attention. On the simulator it is a recorded run
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// The photo that networks look at, JPEG or PNG; one comes with the course
    #[arg(long, value_name = "FILE")]
    photo: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// True if every table was made and every check passed.
fn run(args: &Args) -> Result<bool> {
    if args.list {
        print!("{}", registry::list().render(args.format));
        return Ok(true);
    }
    // All that can be refused is refused before minutes of measuring.
    let specs = registry::select(&args.names)?;
    let earlier = args.compare.as_deref().map(Record::open).transpose()?;
    if let Some(path) = &args.save {
        Record::can_be_saved(path)?;
    }
    let photo = args.photo.as_deref().map_or_else(|| Ok(Photo::built_in()), Photo::open)?;
    let device = args.device.open()?;
    eprintln!("device: {}", device.describe());
    let recorded = match device.is_sim() {
        true => records().unwrap_or_else(|error| {
            eprintln!("warning: no recorded numbers are shown: {error}");
            Vec::new()
        }),
        false => Vec::new(),
    };

    let mut record = Record::begin(&device);
    let mut runner = Runner::new(device, photo, recorded);
    let mut printer = Printer { format: args.format, first: true };
    let (mut all_well, mut comparisons) = (true, Vec::new());
    for spec in specs {
        eprintln!("measuring: {}", spec.name);
        let finished = match runner.make(spec) {
            Ok(finished) => finished,
            Err(error) => {
                eprintln!("error: table `{}`: {error}", spec.name);
                all_well = false;
                continue;
            }
        };
        for wrong in &finished.wrong {
            eprintln!("error: table `{}`: {wrong}", spec.name);
            all_well = false;
        }
        printer.print(&merge(&finished.table, spec.name, runner.recorded()));
        record.push(spec.name, finished.table);
        match earlier.as_ref().map(|earlier| record.compare(earlier, spec.name)) {
            Some(Some(comparison)) => {
                printer.print(&comparison);
                comparisons.push(comparison);
            }
            Some(None) => eprintln!("the earlier run has no table `{}`", spec.name),
            None => {}
        }
    }
    let limits = runner.limits_if_measured().map(Limits::table);
    if let Some(limits) = limits {
        printer.print(&limits);
        record.push(LIMITS, limits);
    }
    if args.format == Format::Json {
        print!("{}", json(&record, runner.recorded(), &comparisons));
    }
    if let Some(path) = &args.save {
        match all_well {
            true => {
                record.save(path)?;
                eprintln!("saved: {}", path.display());
            }
            false => eprintln!("not saved, since something failed: {}", path.display()),
        }
    }
    if let Some(dir) = &args.plot {
        let has_limits = |run: &&Record| run.table(LIMITS).is_some();
        let run = if runner.device().is_sim() { runner.recorded().iter().find(has_limits) } else { None };
        for path in plot::save(run.unwrap_or(&record), dir)? {
            eprintln!("drawn: {}", path.display());
        }
    }
    Ok(all_well)
}

/// Prints tables as they are finished, with an empty line between; JSON waits for the end, to be one document.
struct Printer {
    format: Format,
    first: bool,
}

impl Printer {
    fn print(&mut self, table: &Table) {
        if self.format == Format::Json {
            return;
        }
        if !std::mem::take(&mut self.first) {
            println!();
        }
        print!("{}", table.render(self.format));
    }
}

/// The run as `--save` writes it, with recorded columns where the text has them, and the comparisons.
fn json(record: &Record, recorded: &[Record], comparisons: &[Table]) -> String {
    let mut record = record.clone();
    for Named { name, table } in &mut record.tables {
        *table = merge(table, name, recorded);
    }
    record.comparisons = comparisons.to_vec();
    record.to_json()
}
