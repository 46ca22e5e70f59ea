//! `cargo run -p phase1-infra [-- STEP…]`: runs the steps and prints their tables; `… -- broken [KERNEL]`: the gallery of broken
//! kernels, and who finds their mistakes; `… -- occupancy`: how many blocks of a kernel an SM holds.

use std::process::ExitCode;

use bench::command::{self, CommandArgs, SaveArgs, Shell};
use bench::gallery;
use bench::gallery::command::GalleryArgs;
use bench::record::Record;
use bench::table::{ColumnSpec, Table, TableBuilder};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind as Refusal;
use clap::{CommandFactory, Parser, Subcommand};
use common::device::SimOptions;
use common::prelude::*;
use common::progress::Progress;

use crate::broken::Twelve;
use crate::occupancy::OccupancyArgs;
use crate::{Run, STEPS, Step, records};

/// Phase 1: device, memory, transfers, launches, streams and errors, one step at a time
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase1-infra                                 every step but doctor
  cargo run -p phase1-infra -- doctor                       which of NVIDIA's libraries are here, and what is missing
  cargo run -p phase1-infra -- transfers --save today.json  run one step and save its tables
  cargo run -p phase1-infra -- broken 3                     run a broken kernel of the gallery
  cargo run -p phase1-infra -- occupancy --registers 128    blocks of a kernel that an SM holds

Exit status: 0 if all is well, 1 if something failed or a kernel of the gallery is wrong, 2 for a wrong command line.")]
struct Args {
    /// Steps to run [default: all but doctor]; doctor is not saved
    #[arg(value_name = "STEP", value_parser = step_names())]
    steps: Vec<String>,
    /// List the steps and run none
    #[arg(long, conflicts_with_all = ["steps", "save"])]
    list: bool,
    #[command(flatten)]
    save: SaveArgs,
    #[command(flatten)]
    common: CommandArgs,
    #[command(subcommand)]
    other: Option<Other>,
}

#[derive(Subcommand)]
enum Other {
    /// Twelve broken kernels: list them, or run one and report what came out
    ///
    /// The exit status is 1 unless the result is right. The simulator runs with --sanitize: it reports broken rules even where the
    /// values are right.
    Broken(GalleryArgs<Twelve>),
    /// Says how many blocks of a kernel an SM holds, what limits them, and what would admit one more
    Occupancy(OccupancyArgs),
}

fn step_names() -> PossibleValuesParser {
    STEPS.iter().map(|step| PossibleValue::new(step.name).help(step.question)).into()
}

/// The command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command.
pub fn main() -> ExitCode {
    let args: Args = command::parse();
    // The device and the format may come before `broken` and `occupancy`; the rest belongs to the steps.
    if args.other.is_some() && (!args.steps.is_empty() || args.list || args.save.save.is_some()) {
        let message =
            "steps, --list and --save do not go before `broken` and `occupancy`, which have options of their own";
        Args::command().error(Refusal::ArgumentConflict, message).exit();
    }
    let save = match &args.other {
        Some(Other::Broken(gallery)) => gallery.save(),
        Some(Other::Occupancy(_)) => None,
        None => args.save.save.as_deref(),
    };
    Shell::new(args.common.format).saving(save).run(|shell| run(&args, shell))
}

fn run(args: &Args, shell: &mut Shell) -> Result<()> {
    match &args.other {
        Some(Other::Occupancy(occupancy)) => occupancy.run(&args.common, shell),
        Some(Other::Broken(gallery)) => gallery.run(&args.common.device, gallery::sanitising(), records, shell),
        None if args.list => shell.table(&list()),
        None => run_steps(args, shell),
    }
}

fn run_steps(args: &Args, shell: &mut Shell) -> Result<()> {
    let chosen: Vec<&Step> = if args.steps.is_empty() {
        STEPS.iter().filter(|step| matches!(step.run, Run::OnDevice(_))).collect()
    } else {
        args.steps.iter().filter_map(|name| STEPS.iter().find(|step| step.name == name)).collect()
    };
    let needs_device = chosen.iter().any(|step| matches!(step.run, Run::OnDevice(_)));
    let device = needs_device.then(|| shell.open(&args.common.device, SimOptions::default())).transpose()?;
    let recorded = if device.as_ref().is_some_and(Device::is_sim) { records()? } else { Vec::new() };
    let mut record = device.as_ref().map(Record::begin);
    for (i, step) in chosen.iter().enumerate() {
        // The bar is gone when the tables come.
        let progress = Progress::new(chosen.len() as u64, step.name);
        progress.inc(i as u64);
        let tables = match (step.run, &device) {
            (Run::OnDevice(run), Some(device)) => run(device)?,
            (Run::Anywhere(run), _) => run()?,
            (Run::OnDevice(_), None) => unreachable!("a device is opened if any step needs one"),
        };
        progress.finish();
        for (name, table) in step.tables.iter().zip(tables) {
            for shown in step.shown(name, &table, &recorded) {
                shell.table(&shown)?;
            }
            if let (Run::OnDevice(_), Some(record)) = (step.run, &mut record) {
                record.push(*name, table);
            }
        }
    }
    match (record, &args.save.save) {
        (Some(record), _) => shell.save(&record)?,
        (None, Some(path)) => command::say("not saved, since no step ran on a device", path.display()),
        (None, None) => {}
    }
    Ok(())
}

fn list() -> Table {
    const STEP: ColumnSpec = ColumnSpec::text("step", "step");
    const QUESTION: ColumnSpec = ColumnSpec::text("question", "question");
    let mut table = TableBuilder::of("phase 1", [STEP, QUESTION]);
    for step in &STEPS {
        table.row().set(STEP, step.name).set(QUESTION, step.question).complete();
    }
    table.finish()
}
