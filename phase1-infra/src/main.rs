//! `cargo run -p phase1-infra [-- STEP…]`: runs the steps and prints their tables; `… -- broken [KERNEL]`: the gallery of broken
//! kernels, and who finds their mistakes.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind as Refusal;
use clap::{CommandFactory, Parser, Subcommand};
use common::prelude::*;
use common::progress::Progress;
use common::record::Record;
use common::table::{Column, Format, Table};
use phase1_infra::broken::compare::{TABLE, compare};
use phase1_infra::broken::{self, BROKEN, Broken, Version};
use phase1_infra::{Run, STEPS, Step, records};

/// Phase 1: device, memory, transfers, launches, streams and errors, one step at a time
#[derive(Parser)]
struct Args {
    /// Steps to run; all but doctor if none is named
    #[arg(value_name = "STEP", value_parser = step_names())]
    steps: Vec<String>,
    /// Only list the steps
    #[arg(long, conflicts_with_all = ["steps", "save"])]
    list: bool,
    /// Keep the run in a file, with device, date and commit (WARP_COMMIT, where there is no git repository); without doctor
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How tables are written; json is one list of tables
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(subcommand)]
    gallery: Option<Gallery>,
}

#[derive(Subcommand)]
enum Gallery {
    /// Twelve broken kernels: list them, or run one and say what came out; fails unless all is right
    ///
    /// The simulator sanitises: it reports broken rules even where the values are right.
    Broken {
        /// One of them, by number or name; a list of all if left out
        #[arg(value_name = "KERNEL", value_parser = broken_names())]
        kernel: Option<&'static Broken>,
        /// Run its repaired version
        #[arg(long, requires = "kernel")]
        repaired: bool,
        /// All of them on the simulator and, if there is a GPU, there and under NVIDIA's compute-sanitizer: who finds what?
        #[arg(long, conflicts_with = "kernel")]
        compare: bool,
        /// Keep the comparison in a file
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
    if args.gallery.is_some() && (!args.steps.is_empty() || args.list || args.save.is_some()) {
        let message = "steps, --list and --save do not go before `broken`, which has options of its own";
        Args::command().error(Refusal::ArgumentConflict, message).exit();
    }
    let outcome = run(&args, &mut io::stdout().lock());
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader, such as `head`, has seen enough.
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// False if a broken kernel was run and did not give the right result.
fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    match &args.gallery {
        Some(Gallery::Broken { kernel: Some(entry), repaired, .. }) => {
            let version = if *repaired { Version::Repaired } else { Version::Broken };
            return run_broken(entry, version, &open_for_gallery(args)?, out);
        }
        Some(Gallery::Broken { compare: true, save, .. }) => run_comparison(args, save.as_deref(), out)?,
        Some(Gallery::Broken { .. }) => Printer::new(args.format, out).print_all(vec![broken::list()])?,
        None if args.list => Printer::new(args.format, out).print_all(vec![list()])?,
        None => run_steps(args, out)?,
    }
    Ok(true)
}

/// The chosen device; the simulator sanitises, asked or not.
fn open_for_gallery(args: &Args) -> Result<Device> {
    let device = match args.device.sanitize {
        true => args.device.open()?,
        false => Device::open_with(args.device.device, broken::sanitising())?,
    };
    eprintln!("device: {}", device.describe());
    Ok(device)
}

/// Says what came of one version, and is true if it is right.
fn run_broken(entry: &Broken, version: Version, device: &Device, out: &mut impl Write) -> Result<bool> {
    let (outcome, report) = entry.report(device, version)?;
    Printer::new(Format::Text, out).write(&report)?;
    Ok(outcome.is_right())
}

/// Who finds what: here, and where it was recorded if there is no GPU here.
fn run_comparison(args: &Args, save: Option<&Path>, out: &mut impl Write) -> Result<()> {
    if let Some(path) = save {
        Record::can_be_saved(path)?;
    }
    let device = open_for_gallery(args)?;
    let mut record = Record::begin(&device);
    let program = std::env::current_exe().map_err(|source| Error::Io { path: "this program".into(), source })?;
    let table = compare(&device, &program)?;
    let recorded = if device.is_sim() { records()? } else { Vec::new() };
    let quoted = recorded.iter().filter_map(|record| record.quote(TABLE));
    Printer::new(args.format, out).print_all(std::iter::once(table.clone()).chain(quoted).collect())?;
    record.push(TABLE, table);
    match save {
        Some(path) => save_to(path, &record),
        None => Ok(()),
    }
}

fn save_to(path: &Path, record: &Record) -> Result<()> {
    record.save(path)?;
    eprintln!("saved: {}", path.display());
    Ok(())
}

fn run_steps(args: &Args, out: &mut impl Write) -> Result<()> {
    let chosen: Vec<&Step> = match args.steps.is_empty() {
        true => STEPS.iter().filter(|step| matches!(step.run, Run::OnDevice(_))).collect(),
        false => args.steps.iter().filter_map(|name| STEPS.iter().find(|step| step.name == name)).collect(),
    };
    if let Some(path) = &args.save {
        Record::can_be_saved(path)?;
    }
    let device = match chosen.iter().any(|step| matches!(step.run, Run::OnDevice(_))) {
        true => Some(args.device.open()?),
        false => None,
    };
    if let Some(device) = &device {
        eprintln!("device: {}", device.describe());
    }
    let recorded = match &device {
        Some(device) if device.is_sim() => records()?,
        _ => Vec::new(),
    };
    let mut record = device.as_ref().map(Record::begin);
    let mut printer = Printer::new(args.format, out);
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
            printer.tables(step.shown(name, &table, &recorded))?;
            if let (Run::OnDevice(_), Some(record)) = (step.run, &mut record) {
                record.push(*name, table);
            }
        }
    }
    printer.end()?;
    match (&args.save, record) {
        (Some(path), Some(record)) => save_to(path, &record)?,
        (Some(path), None) => eprintln!("not saved, since no step ran on a device: {}", path.display()),
        (None, _) => {}
    }
    Ok(())
}

fn list() -> Table {
    let mut table = Table::new("phase 1", [Column::text("step"), Column::text("question")]);
    for step in &STEPS {
        table.row([step.name.into(), step.question.into()]);
    }
    table
}

/// Writes tables as they come, with a blank line between; as JSON, the elements of one list.
struct Printer<'a, W: Write> {
    format: Format,
    out: &'a mut W,
    printed: usize,
}

impl<'a, W: Write> Printer<'a, W> {
    fn new(format: Format, out: &'a mut W) -> Printer<'a, W> {
        Printer { format, out, printed: 0 }
    }

    fn print_all(mut self, tables: Vec<Table>) -> Result<()> {
        self.tables(tables)?;
        self.end()
    }

    fn tables(&mut self, tables: Vec<Table>) -> Result<()> {
        for table in tables {
            let before = match (self.format, self.printed) {
                (Format::Json, 0) => "[\n",
                (Format::Json, _) => ",\n",
                (_, 0) => "",
                _ => "\n",
            };
            self.write(&format!("{before}{}", table.render(self.format)))?;
            self.printed += 1;
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.write(if self.format == Format::Json { "]\n" } else { "" })
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|source| Error::Io { path: "standard output".into(), source })
    }
}
