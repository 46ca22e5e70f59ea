//! Findings of each tool: runs each broken kernel as it is, under each tool of NVIDIA's `compute-sanitizer`, and on the
//! simulator.
//!
//! Each run on a GPU is a separate process of this command, so that a fault ends only its own run.

use std::env;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Broken, Gallery, Version};
use crate::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use common::progress::Progress;

const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const BUG: ColumnSpec = ColumnSpec::text("bug", "bug");
const PLAIN: ColumnSpec = ColumnSpec::text("plain run", "plain run");
const SANITIZER: ColumnSpec = ColumnSpec::text("compute-sanitizer", "compute-sanitizer");
const SIMULATOR: ColumnSpec = ColumnSpec::text("simulator", "simulator");

const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];
/// `compute-sanitizer`'s exit status if it found something; the command itself never uses it.
const FOUND: i32 = 99;
/// Time limit of a run on a GPU, which it sets itself: [`end_if_endless`].
const LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a process, including its start.
const PATIENCE: Duration = Duration::from_secs(60);

/// One row per kernel: the result of a plain run on the GPU, those of NVIDIA's tools that find something, and the simulator's
/// findings. Runs `program`, which must be a command that shows the gallery, many times; takes a few minutes. On the simulator,
/// only its own column is filled.
///
/// # Errors
/// [`Error::Io`] if `program` cannot be run; errors of [`Broken::run`].
pub fn compare(gallery: &Gallery, device: &Device, program: &Path) -> Result<Table> {
    let mut table = TableBuilder::on(device, "which tool found what", &[KERNEL, BUG, PLAIN, SANITIZER, SIMULATOR]);
    let gpu = Gpu { command: gallery.command, device: device.short_name(), program, sanitizer: sanitizer() };
    let progress = Progress::new(gallery.entries.len() as u64, "");
    for entry in gallery.entries {
        progress.set_message(entry.name);
        let [plain, tools] = if device.is_sim() {
            [Cell::absent(NO_GPU), Cell::absent(NO_GPU)]
        } else {
            // One after another, so that a race behaves as it does with nothing else on the GPU.
            [gpu.plain(entry)?, gpu.tools(entry, &mut table)?]
        };
        let row = table.row().set(KERNEL, entry.number).set(BUG, entry.title);
        row.set(PLAIN, plain).set(SANITIZER, tools).set(SIMULATOR, simulated(entry)?).complete();
        progress.inc(1);
    }
    Ok(table.finish())
}

/// The note on a dash where there is no GPU.
pub const NO_GPU: &str = "not run: this needs a GPU";
const NO_RULE: &str = "no rule is broken and the values are right: only a profiler shows the cost";

/// Findings of the simulator's sanitiser.
fn simulated(entry: &Broken) -> Result<Cell> {
    let outcome = entry.run(&super::simulator(), Version::Broken, entry.sizes[0])?;
    Ok(match outcome.kinds().as_slice() {
        [] if entry.slow => super::slow_in(entry)?.map_or_else(|| Cell::absent(NO_RULE), Cell::from),
        [] => "nothing".into(),
        kinds => kinds.join("\n").into(),
    })
}

/// Gallery, device, program and tool of a run.
struct Gpu<'a> {
    command: &'static str,
    device: String,
    program: &'a Path,
    sanitizer: Option<PathBuf>,
}

impl Gpu<'_> {
    /// The command's own verdict, in a word or two.
    fn plain(&self, entry: &Broken) -> Result<Cell> {
        let mut command = Command::new(self.program);
        let run = Run::start(command.args(self.arguments(entry)))?;
        let (status, said) = run.end().map_err(io(self.program))?;
        Ok(verdict(status, &said))
    }

    /// The tools that find something. If a tool gives no answer, the reason becomes a note of the table.
    fn tools(&self, entry: &Broken, table: &mut TableBuilder) -> Result<Cell> {
        let Some(sanitizer) = &self.sanitizer else { return Ok(Cell::absent(NO_SANITIZER)) };
        // In parallel, since each takes seconds to start.
        let runs: Vec<Run> = TOOLS
            .iter()
            .map(|tool| {
                let mut command = Command::new(sanitizer);
                command.args(["--tool", tool, "--error-exitcode", &FOUND.to_string()]);
                // The effect of a fault on later calls and on the exit status is not a finding.
                command.args(["--report-api-errors", "no", "--check-exit-code", "no", "--leak-check", "no", "--kill"]);
                Run::start(command.arg(self.program).args(self.arguments(entry)))
            })
            .collect::<Result<_>>()?;
        let ends = TOOLS.into_iter().zip(runs);
        let ends = ends.map(|(tool, run)| run.end().map(|(status, said)| (tool, status, said)).map_err(io(sanitizer)));
        Ok(found(entry.number, &ends.collect::<Result<Vec<_>>>()?, table))
    }

    fn arguments(&self, entry: &Broken) -> [&str; 4] {
        [self.command, entry.number, "--device", &self.device]
    }
}

/// The result of a plain run, from its process's exit status and output.
fn verdict(status: Option<ExitStatus>, said: &str) -> Cell {
    let verdict = said.rsplit_once("broken: ").map_or("", |(_, verdict)| verdict);
    match (status, verdict.split_once(':')) {
        (_, Some(("right", _))) => "right".into(),
        (_, Some(("wrong", _))) => "wrong".into(),
        (_, Some(("stopped", _))) => "CUDA error".into(),
        (_, Some(("hangs", _))) => "hangs".into(),
        (Some(status), _) => Cell::absent(format!("no verdict: {status}")),
        (None, _) => Cell::absent(NO_END),
    }
}

/// The tools that find something in kernel `number`, from the exit status and output of each tool's process.
fn found(number: &str, ends: &[(&str, Option<ExitStatus>, String)], table: &mut TableBuilder) -> Cell {
    let (mut finders, mut hanging) = (Vec::new(), Vec::new());
    for (tool, status, said) in ends {
        match status.map(|status| (status, status.code())) {
            // What the tool makes of the end of such a process is not a finding.
            _ if said.contains(ENDLESS) => hanging.push(*tool),
            Some((_, Some(FOUND))) => finders.push(*tool),
            // The command's own exit status: the values are right, or not.
            Some((_, Some(0 | 1))) => {}
            Some((status, _)) => table.note(format!("{tool} gave no answer for {number}: {status}")),
            None => table.note(format!("{tool} gave no answer for {number}: {NO_END}")),
        }
    }
    if hanging.len() == ends.len() {
        return "hangs".into();
    }
    if !hanging.is_empty() {
        table.note(format!("{number} {ENDLESS} under {}", hanging.join(", ")));
    }
    if finders.is_empty() { "–".into() } else { finders.join("\n").into() }
}

/// A running process, and its output.
struct Run {
    child: Child,
    /// A file, not a pipe: a tool's own child would keep a pipe open if the tool had to be killed.
    output: File,
}

impl Run {
    fn start(command: &mut Command) -> Result<Run> {
        let program = PathBuf::from(command.get_program());
        let output = tempfile::tempfile().map_err(io(&env::temp_dir()))?;
        let stdout = output.try_clone().map_err(io(&env::temp_dir()))?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
        Ok(Run { child: command.spawn().map_err(io(&program))?, output })
    }

    /// The process's exit status and output; no status if it had to be killed.
    fn end(mut self) -> std::io::Result<(Option<ExitStatus>, String)> {
        let status = wait(&mut self.child)?;
        let mut said = Vec::new();
        self.output.rewind()?;
        self.output.read_to_end(&mut said)?;
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }
}

/// Ends this process with the verdict `hangs` if it still runs after [`LIMIT`]: a kernel on a GPU that waits for ever can't be
/// stopped otherwise. A tool that started the process then ends too.
pub(super) fn end_if_endless(entry: &Broken, version: Version) {
    let verdict = format!("{} {}, {version}: hangs: {ENDLESS}\n", entry.number, entry.name);
    thread::spawn(move || {
        thread::sleep(LIMIT);
        let mut stdout = std::io::stdout();
        // Whether anybody reads it or not, this is the end.
        let _ = stdout.write_all(verdict.as_bytes()).and_then(|()| stdout.flush());
        // Not `exit`, which would let the driver wait for the kernel.
        std::process::abort();
    });
}

const ENDLESS: &str = "did not end within 30 s";
const NO_END: &str = "no end within 60 s";
const NO_SANITIZER: &str =
    "compute-sanitizer, part of the CUDA toolkit, is neither in PATH nor under CUDA_PATH or /usr/local/cuda";

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// Exit status of the process; `None` if it had to be killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The path of NVIDIA's tool, if it is installed.
fn sanitizer() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    // On Windows the program has its own directory, and `bin` holds a script that calls it.
    let installed = toolkits
        .chain(["/usr/local/cuda".into()])
        .flat_map(|toolkit| ["bin", "compute-sanitizer"].map(|directory| toolkit.join(directory)));
    let file = format!("compute-sanitizer{}", env::consts::EXE_SUFFIX);
    env::split_paths(&path).chain(installed).map(|directory| directory.join(&file)).find(|path| path.is_file())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// The exit status of a process that exits with this number.
    fn exit(status: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(status << 8))
    }

    #[test]
    fn a_run_is_what_its_last_line_says() {
        let said = |said: &str| verdict(exit(1), said);
        assert_eq!(verdict(exit(0), "03 ring, broken: right: 5 values\n"), "right".into());
        assert_eq!(said("03 ring, broken: wrong: 1 of 2 values are wrong\n"), "wrong".into());
        assert_eq!(said("03 ring, broken: stopped: an illegal address\n"), "CUDA error".into());
        assert_eq!(verdict(Some(ExitStatus::from_raw(6)), "03 ring, broken: hangs: no end\n"), "hangs".into());
        assert_eq!(said(""), Cell::absent("no verdict: exit status: 1"));
        assert_eq!(verdict(None, ""), Cell::absent(NO_END));
    }

    #[test]
    fn tools_find_something_or_not_or_give_no_answer() {
        let of = |ends: [(Option<ExitStatus>, &str); 4]| {
            let mut table = TableBuilder::of("", [KERNEL]);
            let ends = TOOLS.into_iter().zip(ends).map(|(tool, (status, said))| (tool, status, said.to_owned()));
            let cell = found("08", &ends.collect::<Vec<_>>(), &mut table);
            (cell, table.finish().notes.join("; "))
        };
        let (silent, finds) = ((exit(1), ""), (exit(FOUND), ""));
        let aborted = Some(ExitStatus::from_raw(6));
        assert_eq!(of([silent, (exit(0), ""), silent, silent]), ("–".into(), String::new()));
        assert_eq!(of([finds, silent, finds, silent]), ("memcheck\ninitcheck".into(), String::new()));
        assert_eq!(of([(None, ""), finds, silent, silent]).1, "memcheck gave no answer for 08: no end within 60 s");
        // A tool may report that its process was aborted, as it reports findings.
        let hangs = (exit(FOUND), "08 stage, broken: hangs: did not end within 30 s\n");
        assert_eq!(of([hangs; 4]), ("hangs".into(), String::new()));
        let note = "08 did not end within 30 s under memcheck, initcheck".to_owned();
        assert_eq!(of([hangs, finds, (aborted, hangs.1), silent]), ("racecheck".into(), note));
    }
}
