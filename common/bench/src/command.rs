//! Shared parts of all phases' commands: their options, and one path for all output.
//!
//! Results go to standard output, table by table; `device:`, `saved:`, `warning:` and `error:` lines go to standard error. No
//! write failure ends in a panic: if the reader of the output has left, as `head` does, a run that is to be saved is finished and
//! saved, and any other one stops quietly; a full disk behind the output is an error, reported after the run is saved. Characters
//! that a terminal would obey are escaped on the way.
//!
//! ```no_run
//! use clap::Parser;
//! use bench::command::{self, CommandArgs, SaveArgs, Shell};
//! use common::device::SimOptions;
//! use bench::record::Record;
//! use bench::table::{ColumnSpec, TableBuilder};
//!
//! /// Measure something
//! #[derive(Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     save: SaveArgs,
//!     #[command(flatten)]
//!     common: CommandArgs,
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let args: Args = command::parse();
//!     Shell::new(args.common.format).saving(args.save.save.as_deref()).run(|shell| {
//!         let device = shell.open(&args.common.device, SimOptions::default())?;
//!         let mut record = Record::begin(&device);
//!         const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
//!         let table = TableBuilder::of("nothing yet", [WHAT]).finish();
//!         shell.table(&table)?;
//!         record.push("nothing", table);
//!         shell.save(&record)
//!     })
//! }
//! ```

use std::cell::Cell;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::record::Record;
use crate::table::{Format, Table, wrap};
use crate::terminal::Terminal;
use ::console::Style;
use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use common::device::{Device, DeviceArgs, DeviceGroup, SimOptions};
use common::error::{Error, Result};
use common::text::printable_lines;

pub use common::console::{error, line, say, warn};

/// The command line of this process, which a wrong one ends. If a word is no name that the command takes, but like one of its
/// subcommands, the message names that; clap itself looks for it among the names alone.
pub fn parse<A: Parser>() -> A {
    A::try_parse().unwrap_or_else(|error| with_nearest_subcommand(error, &A::command()).exit())
}

fn with_nearest_subcommand(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if error.get(ContextKind::SuggestedValue).is_none()
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidValue)
        && let Some(name) = nearest(word, command.get_subcommands().map(clap::Command::get_name))
    {
        let name = name.to_owned();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name]));
    }
    error
}

/// The name most like a word, by the measure and the threshold of clap's suggestions; `None` if none is like it.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |name: &&str| strsim::jaro(word, name);
    names.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|name| likeness(name) > 0.7)
}

/// The options of every command that runs on a device, for `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct CommandArgs {
    /// Format of the tables; json is one document
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// Where kernels run.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// The option of a command whose run can be kept, for `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SaveArgs {
    /// Save the run to FILE, with device, date and commit (from WARP_COMMIT where there is no git repository)
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// An error that can end a command.
pub trait Failure: Display {
    /// The command's exit status: 2 if the command line asked for something that does not exist, else 1.
    fn exit_status(&self) -> u8 {
        1
    }
}

impl Failure for Error {}

/// For a command that collects errors of several crates.
impl Failure for Box<dyn std::error::Error> {}

/// A command while it runs: its output, whether its run is saved, and its future exit status.
pub struct Shell {
    format: Format,
    terminal: Terminal,
    out: Box<dyn Write>,
    save: Option<PathBuf>,
    /// True if the command does more than print.
    goes_on: bool,
    tables: usize,
    /// Reason why standard output cannot be written to; nothing more is printed then.
    broken: Option<io::Error>,
    /// True if the body was told to stop, since its output is closed.
    stopped: bool,
    failed: bool,
    /// True once a device that sanitises has been opened.
    sanitizes: Cell<bool>,
    /// The exit status if nothing fails.
    otherwise: u8,
}

impl Shell {
    /// A command that prints its tables in this format.
    pub fn new(format: Format) -> Shell {
        Shell {
            format,
            terminal: Terminal::of_stdout(),
            out: Box::new(io::stdout()),
            save: None,
            goes_on: false,
            tables: 0,
            broken: None,
            stopped: false,
            failed: false,
            sanitizes: Cell::new(false),
            otherwise: 0,
        }
    }

    /// Sets the file to save the run to, if any. [`Shell::run`] refuses a path that cannot be written to.
    pub fn saving(self, path: Option<&Path>) -> Shell {
        Shell { goes_on: self.goes_on || path.is_some(), save: path.map(Path::to_owned), ..self }
    }

    /// If `goes_on`, the command finishes even if its output is closed, because it writes files too.
    pub fn going_on_if(self, goes_on: bool) -> Shell {
        Shell { goes_on: self.goes_on || goes_on, ..self }
    }

    /// Runs the command, and reports the error that ended it: its exit status is 0 only if nothing failed.
    pub fn run<E: Failure + From<Error>>(mut self, body: impl FnOnce(&mut Shell) -> Result<(), E>) -> ExitCode {
        let place = self.save.as_deref().map_or(Ok(()), Record::can_be_saved);
        let outcome = place.map_err(E::from).and_then(|()| body(&mut self));
        if self.format == Format::Json && self.tables > 0 {
            self.write("]\n");
        }
        let mut status = if self.failed { 1 } else { self.otherwise };
        // The body ends with an error of ours if it was stopped.
        if let Err(error) = outcome
            && !self.stopped
        {
            status = error.exit_status();
            self::error(error);
        }
        if let Some(source) = self.broken
            && source.kind() != ErrorKind::BrokenPipe
        {
            self::error(Error::Io { path: STDOUT.into(), source });
            status = status.max(1);
        }
        if self.sanitizes.get() && status == 0 {
            say("sanitiser", "nothing found");
        }
        ExitCode::from(status)
    }

    /// Opens the chosen device and names it on stderr. A simulator has the options given, or sanitises if that is asked
    /// for.
    ///
    /// # Errors
    /// Errors of [`Device::open_with`] and [`DeviceArgs::open`].
    pub fn open(&self, args: &DeviceArgs, simulator: SimOptions) -> Result<Device> {
        let simulator = SimOptions { prints: true, ..simulator };
        let device = if args.sanitize { args.open()? } else { Device::open_with(args.device, simulator)? };
        self.sanitizes.set(args.sanitize);
        say("device", device.describe());
        Ok(device)
    }

    /// Opens the chosen devices, `limit` of them at most, and names them on stderr.
    ///
    /// # Errors
    /// Errors of [`DeviceArgs::open_group`].
    pub fn open_group(&self, args: &DeviceArgs, limit: Option<usize>) -> Result<DeviceGroup> {
        let group = args.open_group(limit)?;
        say("devices", group.describe());
        Ok(group)
    }

    /// Prints a table, with an empty line before all but the first; as JSON, tables are the elements of one list.
    ///
    /// # Errors
    /// [`Error::Io`] if the output is closed and the command has nothing else to do: return it.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        let before = match (self.format, self.tables) {
            (Format::Json, 0) => "[\n",
            (Format::Json, _) => ",\n",
            (_, 0) => "",
            _ => "\n",
        };
        self.tables += 1;
        match self.format {
            // It has no characters but its own that a terminal obeys: colours.
            Format::Text => self.write_raw(&format!("{before}{}", table.to_terminal(self.terminal))),
            format => self.write(&format!("{before}{}", table.render(format))),
        }
        self.unless_closed()
    }

    /// Terminal that the output is laid out for.
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// Prints a text as it is, in every format: JSON that is one document, or the answer of a command without tables.
    ///
    /// # Errors
    /// Same as [`Shell::table`].
    pub fn print(&mut self, text: &str) -> Result<()> {
        self.write(text);
        self.unless_closed()
    }

    /// [`Shell::print`] in lines that fit the terminal, if their words allow.
    ///
    /// # Errors
    /// Same as [`Shell::table`].
    pub fn print_wrapped(&mut self, text: &str) -> Result<()> {
        self.print(&(wrap(text, self.terminal.width) + "\n"))
    }

    /// Prints pieces of text, each in its style if the output shows colours.
    ///
    /// # Errors
    /// Same as [`Shell::table`].
    pub fn print_styled(&mut self, pieces: impl IntoIterator<Item = (Style, impl AsRef<str>)>) -> Result<()> {
        for (style, text) in pieces {
            let text = printable_lines(text.as_ref());
            if self.terminal.colors {
                self.write_raw(&style.force_styling(true).apply_to(text).to_string());
            } else {
                self.write_raw(&text);
            }
        }
        self.unless_closed()
    }

    /// An error if the output is closed and the command has nothing else to do.
    fn unless_closed(&mut self) -> Result<()> {
        match &self.broken {
            Some(error) if !self.goes_on => {
                self.stopped = true;
                Err(Error::Io { path: STDOUT.into(), source: error.kind().into() })
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, text: &str) {
        self.write_raw(&printable_lines(text));
    }

    fn write_raw(&mut self, text: &str) {
        if self.broken.is_none() {
            self.broken = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).err();
        }
    }

    /// Reports a failure, and goes on; the exit status will be 1, and nothing is saved.
    pub fn fail(&mut self, message: impl Display) {
        self.failed = true;
        error(message);
    }

    /// Ends with exit status 1 unless something worse happens; for a command that has described the failure on standard output.
    pub fn fail_quietly(&mut self) {
        self.failed = true;
    }

    /// Ends with this exit status if nothing fails: for results that are no failure, but that scripts ask for.
    pub fn end_with(&mut self, status: u8) {
        self.otherwise = status;
    }

    /// Saves the run if that was asked for and nothing in it failed.
    ///
    /// # Errors
    /// Errors of [`Record::save`].
    pub fn save(&self, record: &Record) -> Result<()> {
        let Some(path) = &self.save else { return Ok(()) };
        let part = part(path);
        if self.failed {
            say("not saved, since something failed", path.display());
            if part.exists() {
                say("measured before that", part.display());
            }
            return Ok(());
        }
        record.save(path)?;
        let _ = std::fs::remove_file(part);
        say("saved", path.display());
        Ok(())
    }

    /// Saves what a run has so far to a file of its own beside that of [`Shell::save`], if that was asked for and nothing has failed:
    /// a run that is interrupted leaves it there.
    ///
    /// # Errors
    /// Errors of [`Record::save`].
    pub fn save_part(&self, record: &Record) -> Result<()> {
        match &self.save {
            Some(path) if !self.failed => record.save(&part(path)),
            _ => Ok(()),
        }
    }
}

/// The file of an unfinished run: `today.json.part`.
fn part(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

/// Name of standard output in messages.
const STDOUT: &str = "standard output";

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::table::Column;

    #[test]
    fn a_word_like_a_subcommand_names_it() {
        let part = clap::Arg::new("part").value_parser(["gemm"]);
        let command = clap::Command::new("phase").arg(part).subcommand(clap::Command::new("broken"));
        let said = |word| {
            let refused = command.clone().try_get_matches_from(["phase", word]).unwrap_err();
            with_nearest_subcommand(refused, &command).to_string()
        };
        assert!(said("brokn").contains("a similar subcommand exists: 'broken'"), "{}", said("brokn"));
        assert!(said("gem").contains("a similar value exists: 'gemm'"), "{}", said("gem"));
        assert!(!said("gem").contains("subcommand") && !said("softmax").contains("similar"));
    }

    /// Accepts this number of bytes, then fails.
    #[derive(Clone)]
    struct Sink {
        written: Arc<Mutex<String>>,
        room: usize,
        then: ErrorKind,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.written.lock().unwrap();
            if written.len() + bytes.len() > self.room {
                return Err(self.then.into());
            }
            written.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shell(format: Format, room: usize, then: ErrorKind) -> (Shell, Arc<Mutex<String>>) {
        let written = Arc::default();
        let sink = Sink { written: Arc::clone(&written), room, then };
        (Shell { out: Box::new(sink), terminal: Terminal::PLAIN, ..Shell::new(format) }, written)
    }

    fn table() -> Table {
        let mut table = Table::new("t", [Column::text("name")]);
        table.row(["a\u{1b}[2J".into()]);
        table
    }

    fn is_success(code: ExitCode) -> bool {
        code == ExitCode::SUCCESS
    }

    #[test]
    fn json_is_one_document_even_if_the_run_fails() {
        for fails in [false, true] {
            let (shell, written) = shell(Format::Json, usize::MAX, ErrorKind::Other);
            let code = shell.run(|shell| {
                shell.table(&table())?;
                shell.table(&table())?;
                if fails { Err(Error::Invalid("planned".to_owned())) } else { Ok(()) }
            });
            assert_eq!(is_success(code), !fails);
            let tables: Vec<Table> = serde_json::from_str(&written.lock().unwrap()).unwrap();
            assert_eq!(tables, [table(), table()]);
        }
    }

    #[test]
    fn other_formats_have_an_empty_line_between_tables_and_nothing_raw() {
        let (shell, written) = shell(Format::Csv, usize::MAX, ErrorKind::Other);
        let code = shell.run(|shell| {
            shell.table(&table())?;
            shell.table(&table())?;
            shell.print("b\u{9b}\n")
        });
        assert!(is_success(code));
        assert_eq!(*written.lock().unwrap(), "name\na\\u{1b}[2J\n\nname\na\\u{1b}[2J\nb\\u{9b}\n");
    }

    #[test]
    fn a_run_that_nobody_reads_stops_unless_it_is_saved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        for (then, success) in [(ErrorKind::BrokenPipe, true), (ErrorKind::StorageFull, false)] {
            for save in [None, Some(path.as_path())] {
                let (shell, written) = shell(Format::Text, 0, then);
                let mut finished = false;
                let code = shell.saving(save).run(|shell| {
                    shell.table(&table())?;
                    finished = true;
                    shell.save(&Record::begin(&Device::sim()))
                });
                assert_eq!((finished, is_success(code)), (save.is_some(), success), "{then} {save:?}");
                assert_eq!(*written.lock().unwrap(), "");
            }
            Record::open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_failed_is_not_saved_and_no_early_end_hides_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        let (shell, _) = shell(Format::Text, 0, ErrorKind::BrokenPipe);
        let code = shell.saving(Some(&path)).run(|shell| {
            shell.save_part(&Record::begin(&Device::sim()))?;
            shell.fail("a planned mistake");
            shell.table(&table())?;
            shell.save(&Record::begin(&Device::sim()))
        });
        assert!(!is_success(code) && !path.exists());
        let part = dir.path().join("run.json.part");
        Record::open(&part).unwrap();
        let (shell, _) = self::shell(Format::Text, usize::MAX, ErrorKind::Other);
        let run = Record::begin(&Device::sim());
        assert!(is_success(
            shell.saving(Some(&path)).run(|shell| shell.save_part(&run).and_then(|()| shell.save(&run)))
        ));
        assert!(path.exists() && !part.exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_refused_before_anything_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let (shell, _) = shell(Format::Text, 0, ErrorKind::BrokenPipe);
        let code = shell.saving(Some(dir.path())).run(|_| -> Result<()> { unreachable!("it was not refused") });
        assert!(!is_success(code));
    }
}
