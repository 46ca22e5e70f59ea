//! `cargo run -p phase1-infra [-- STEP…]`: runs the steps and prints their tables; `… -- broken [KERNEL]`: the gallery of broken
//! kernels, and who finds their mistakes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind as Refusal;
use clap::{CommandFactory, Parser, Subcommand};
use common::command::{self, CommandArgs, SaveArgs, Shell};
use common::device::SimOptions;
use common::prelude::*;
use common::progress::Progress;
use common::record::Record;
use common::table::{ColumnSpec, Table, TableBuilder};
use phase1_infra::broken::compare::{TABLE, compare};
use phase1_infra::broken::{self, BROKEN, Broken, Version};
use phase1_infra::{Run, STEPS, Step, records};

/// Phase 1: device, memory, transfers, launches, streams and errors, one step at a time
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase1-infra                                 every step but doctor
  cargo run -p phase1-infra -- doctor                       which of NVIDIA's libraries are here, and what is missing
  cargo run -p phase1-infra -- transfers --save today.json  run one step and save its tables
  cargo run -p phase1-infra -- broken 3                     run a broken kernel of the gallery

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
    gallery: Option<Gallery>,
}

#[derive(Subcommand)]
enum Gallery {
    /// Twelve broken kernels: list them, or run one and report what came out
    ///
    /// The exit status is 1 unless the result is right. The simulator runs with --sanitize: it reports broken rules even where the
    /// values are right.
    Broken {
        /// Kernel to run, by number or name [default: list them all]
        #[arg(value_name = "KERNEL", value_parser = broken_names())]
        kernel: Option<&'static Broken>,
        /// Run the repaired version
        #[arg(long, requires = "kernel")]
        repaired: bool,
        /// Run all of them on the simulator and, if there is a GPU, on it and under NVIDIA's compute-sanitizer: who finds what?
        #[arg(long, conflicts_with = "kernel")]
        compare: bool,
        /// Save the comparison to FILE
        #[arg(long, value_name = "FILE", requires = "compare")]
        save: Option<PathBuf>,
    },
}

fn step_names() -> PossibleValuesParser {
    STEPS.iter().map(|step| PossibleValue::new(step.name).help(step.question)).into()
}

fn broken_names() -> impl TypedValueParser<Value = &'static Broken> {
    let value = |entry: &Broken| PossibleValue::new(entry.number).aliases(entry.keys()).help(entry.name);
    let names: PossibleValuesParser = BROKEN.iter().map(value).into();
    names.try_map(|name| Broken::find(&name).ok_or("not in the gallery"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    // The device and the format may come before `broken`; the rest belongs to the steps.
    if args.gallery.is_some() && (!args.steps.is_empty() || args.list || args.save.save.is_some()) {
        let message = "steps, --list and --save do not go before `broken`, which has options of its own";
        Args::command().error(Refusal::ArgumentConflict, message).exit();
    }
    let save = match &args.gallery {
        Some(Gallery::Broken { save, .. }) => save,
        None => &args.save.save,
    };
    Shell::new(args.common.format).saving(save.as_deref()).run(|shell| run(&args, shell))
}

fn run(args: &Args, shell: &mut Shell) -> Result<()> {
    match &args.gallery {
        Some(Gallery::Broken { kernel: Some(entry), repaired, .. }) => {
            let version = if *repaired { Version::Repaired } else { Version::Broken };
            run_broken(entry, version, &args.common.device, shell)
        }
        Some(Gallery::Broken { compare: true, .. }) => run_comparison(&args.common.device, shell),
        Some(Gallery::Broken { .. }) => shell.table(&broken::list()),
        None if args.list => shell.table(&list()),
        None => run_steps(args, shell),
    }
}

/// Runs one version, which is right or fails the command.
fn run_broken(entry: &Broken, version: Version, device: &DeviceArgs, shell: &mut Shell) -> Result<()> {
    let device = shell.open(device, broken::sanitising())?;
    let (outcome, report) = entry.report(&device, version)?;
    if !outcome.is_right() {
        shell.fail_quietly();
    }
    shell.print(&report)
}

/// Who finds what: here, and where it was recorded if there is no GPU here.
fn run_comparison(device: &DeviceArgs, shell: &mut Shell) -> Result<()> {
    let device = shell.open(device, broken::sanitising())?;
    let mut record = Record::begin(&device);
    let program = std::env::current_exe().map_err(|source| Error::Io { path: "this program".into(), source })?;
    let table = compare(&device, &program)?;
    shell.table(&table)?;
    let recorded = if device.is_sim() { records()? } else { Vec::new() };
    for quoted in recorded.iter().filter_map(|record| record.quote(TABLE)) {
        shell.table(&quoted)?;
    }
    record.push(TABLE, table);
    shell.save(&record)
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
