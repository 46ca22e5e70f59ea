//! `cargo run -p phase5-bench`: the course's tables, measured here.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::command::{self, CommandArgs, SaveArgs, Shell};
use common::cpu;
use common::device::SimOptions;
use common::record::{Named, Record, merge};
use common::table::{Format, Table};
use media::photo::Photo;
use phase5_bench::limits::{LIMITS, Limits};
use phase5_bench::registry::{self, Runner};
use phase5_bench::spec::Context;
use phase5_bench::{Result, plot, records};

/// Measure the course's comparison tables on this machine
///
/// Each result is compared with an f64 reference before it is timed; a wrong one is an error. On a GPU times come from events.
/// The simulator has no clock: its tables show counts and the check, and times recorded on a GPU where the course has them,
/// in columns headed "recorded".
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase5-bench                                all tables
  cargo run -p phase5-bench -- --list                      list the tables
  cargo run -p phase5-bench -- layers --photo cat.jpg      one table, on your photo
  cargo run -p phase5-bench -- transfer --save today.json  save a run
  cargo run -p phase5-bench -- gemm --update today.json    measure one table again, and keep the rest of a saved run
  cargo run -p phase5-bench -- transfer --compare today.json  compare a later run with it
  cargo run -p phase5-bench -- gemm conv --plot plots      two tables and their plot

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a wrong command line.")]
struct Args {
    /// Tables to make [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the tables
    #[arg(long, conflicts_with_all = ["names", "save", "update", "compare", "photo", "plot", "quick"])]
    list: bool,
    #[command(flatten)]
    save: SaveArgs,
    /// Replace this run's tables in FILE, which --save wrote on such a device, and keep the others. Each table keeps the date and
    /// commit that it was measured at
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    update: Option<PathBuf>,
    /// Compare each number with the one in FILE, which --save wrote, and show the ratio
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Draw the results into DIR, as SVG and PNG: the roofline (gemm, conv, linear-relu), ResNet18's layers, its batches,
    /// attention. On the simulator a recorded run is drawn
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Photo for the networks, JPEG or PNG [default: one that comes with the course]
    #[arg(long, value_name = "FILE")]
    photo: Option<PathBuf>,
    /// Time each thing on the CPU once: for a first look, not for figures to keep
    #[arg(long, conflicts_with_all = ["save", "update"])]
    quick: bool,
    #[command(flatten)]
    common: CommandArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let shell = Shell::new(args.common.format).saving(args.save.save.as_deref().or(args.update.as_deref()));
    shell.going_on_if(args.plot.is_some()).run(|shell| run(&args, shell))
}

/// Makes each table, says which failed, and prints, saves and draws the others.
fn run(args: &Args, shell: &mut Shell) -> Result<()> {
    let format = args.common.format;
    if args.list {
        return Ok(shell.print(&registry::list().render(format))?);
    }
    // All that can be refused is refused before minutes of measuring.
    let specs = registry::select(&args.names)?;
    let earlier = args.compare.as_deref().map(Record::open).transpose()?;
    let photo = args.photo.as_deref().map_or_else(|| Ok(Photo::built_in()), Photo::open)?;
    if cpu::pinned_threads().build_global().is_err() {
        command::warn("the CPU's threads were started before they could be kept on their cores");
    }
    let device = shell.open(&args.common.device, SimOptions::default())?;
    let recorded = if device.is_sim() { records() } else { Ok(Vec::new()) };
    let recorded = recorded.unwrap_or_else(|error| {
        command::warn(format!("no recorded numbers are shown: {error}"));
        Vec::new()
    });

    let mut record = Record::begin(&device);
    let kept = match &args.update {
        None => None,
        Some(path) => {
            let mut kept = Record::open(path)?;
            kept.update(&record, path)?; // refuses a record of another device
            Some((kept, path))
        }
    };
    let mut context = Context::new(device, photo);
    context.quick = args.quick;
    let mut runner = Runner::new(context, recorded);
    // JSON is one document, made at the end.
    let show = |shell: &mut Shell, table: &Table| if format == Format::Json { Ok(()) } else { shell.table(table) };
    let mut comparisons = Vec::new();
    for spec in specs {
        command::say("measuring", spec.name);
        let finished = match runner.make(spec) {
            Ok(finished) => finished,
            Err(error) => {
                shell.fail(format!("table `{}`: {error}", spec.name));
                continue;
            }
        };
        for wrong in &finished.wrong {
            shell.fail(format!("table `{}`: {wrong}", spec.name));
        }
        show(shell, &merge(&finished.table, spec.name, runner.recorded()))?;
        record.push(spec.name, finished.table);
        match earlier.as_ref().map(|earlier| record.compare(earlier, spec.name)) {
            Some(Some(comparison)) => {
                show(shell, &comparison)?;
                comparisons.push(comparison);
            }
            Some(None) => command::warn(format!("the earlier run has no table `{}`", spec.name)),
            None => {}
        }
    }
    let limits = runner.limits_if_measured().map(Limits::table);
    if let Some(limits) = limits {
        show(shell, &limits)?;
        record.push(LIMITS, limits);
    }
    if format == Format::Json {
        shell.print(&json(&record, runner.recorded(), &comparisons))?;
    }
    match kept {
        None => shell.save(&record)?,
        Some((kept, path)) => shell.save(&registry::updated(kept, &record, path)?)?,
    }
    if let Some(dir) = &args.plot {
        let has_limits = |run: &&Record| run.table(LIMITS).is_some();
        let run = if runner.device().is_sim() { runner.recorded().iter().find(has_limits) } else { None };
        for path in plot::save(run.unwrap_or(&record), dir)? {
            command::say("drawn", path.display());
        }
    }
    Ok(())
}

/// The run as `--save` writes it, with recorded columns where the text has them, and the comparisons.
fn json(record: &Record, recorded: &[Record], comparisons: &[Table]) -> String {
    let mut record = record.clone();
    for Named { name, table, .. } in &mut record.tables {
        *table = merge(table, name, recorded);
    }
    record.comparisons = comparisons.to_vec();
    record.to_json()
}
