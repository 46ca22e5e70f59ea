//! Which tool finds what: runs each broken kernel as it is, under each tool of NVIDIA's `compute-sanitizer`, and on the
//! simulator.
//!
//! Each run on a GPU is a separate process of this command, so that a fault ends only its own run.

use std::env;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::prelude::*;
use common::progress::Progress;
use common::table::{Cell, ColumnSpec, Table, TableBuilder};

use super::{BROKEN, Broken, Version};

/// The table's name in a record.
pub const TABLE: &str = "broken";

const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const BUG: ColumnSpec = ColumnSpec::text("bug", "bug");
const PLAIN: ColumnSpec = ColumnSpec::text("plain run", "plain run");
const SANITIZER: ColumnSpec = ColumnSpec::text("compute-sanitizer", "compute-sanitizer");
const SIMULATOR: ColumnSpec = ColumnSpec::text("simulator", "simulator");

const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];
/// `compute-sanitizer`'s exit status if it found something; the command itself never uses it.
const FOUND: i32 = 99;
/// Time limit of a run.
const PATIENCE: Duration = Duration::from_secs(60);

/// One row per kernel: the result of a plain run on the GPU, which of NVIDIA's tools find something, and what the simulator
/// finds. Runs `program`, which must be this crate's command, many times; takes a few minutes. On the simulator, only its own
/// column is filled.
///
/// # Errors
/// [`Error::Io`] if `program` cannot be run; as [`Broken::run`].
pub fn compare(device: &Device, program: &Path) -> Result<Table> {
    let mut table = crate::table("which tool found what", device, &[KERNEL, BUG, PLAIN, SANITIZER, SIMULATOR]);
    let gpu = Gpu { device: device.short_name(), program, sanitizer: sanitizer() };
    let progress = Progress::new(BROKEN.len() as u64, "");
    for entry in &BROKEN {
        progress.set_message(entry.name);
        let [plain, tools] = match device.is_sim() {
            true => [Cell::absent(NO_GPU), Cell::absent(NO_GPU)],
            // One after another, so that a race behaves as it does with nothing else on the GPU.
            false => [gpu.plain(entry)?, gpu.tools(entry, &mut table)?],
        };
        let row = table.row().set(KERNEL, entry.number).set(BUG, entry.title);
        row.set(PLAIN, plain).set(SANITIZER, tools).set(SIMULATOR, simulated(entry)?).complete();
        progress.inc(1);
    }
    Ok(table.finish())
}

const NO_GPU: &str = "not run: this needs a GPU";
const NO_RULE: &str = "no rule is broken and the values are right: only a profiler shows the cost";

/// What the simulator's sanitiser finds.
fn simulated(entry: &Broken) -> Result<Cell> {
    let outcome = entry.run(&super::simulator(), Version::Broken, entry.sizes[0])?;
    Ok(match outcome.kinds().as_slice() {
        [] => super::slow_in(entry)?.map_or_else(|| Cell::absent(NO_RULE), Cell::from),
        kinds => kinds.join("\n").into(),
    })
}

/// What to run, on which device and with which tool.
struct Gpu<'a> {
    device: String,
    program: &'a Path,
    sanitizer: Option<PathBuf>,
}

impl Gpu<'_> {
    /// The command's own verdict, in a word or two.
    fn plain(&self, entry: &Broken) -> Result<Cell> {
        let mut command = Command::new(self.program);
        let mut child = self.spawn(command.args(self.arguments(entry)).stdout(Stdio::piped()))?;
        let status = wait(&mut child).map_err(io(self.program))?;
        let mut said = String::new();
        // A process that did not end has no verdict, and may still hold the other end of the pipe.
        if let (Some(_), Some(mut stdout)) = (status, child.stdout.take()) {
            stdout.read_to_string(&mut said).map_err(io(self.program))?;
        }
        let verdict = said.rsplit_once("broken: ").map_or("", |(_, verdict)| verdict);
        Ok(match (status, verdict.split_once(':')) {
            (None, _) => Cell::absent(NO_END),
            (_, Some(("right", _))) => "right".into(),
            (_, Some(("wrong", _))) => "wrong".into(),
            (_, Some(("stopped", _))) => "CUDA error".into(),
            (Some(status), _) => Cell::absent(format!("no verdict: {status}")),
        })
    }

    /// The tools that find something. If a tool gives no answer, the reason becomes a note of the table.
    fn tools(&self, entry: &Broken, table: &mut TableBuilder) -> Result<Cell> {
        let Some(sanitizer) = &self.sanitizer else { return Ok(Cell::absent(NO_SANITIZER)) };
        // In parallel, since each takes seconds to start.
        let children: Vec<Child> = TOOLS
            .iter()
            .map(|tool| {
                let mut command = Command::new(sanitizer);
                command.args(["--tool", tool, "--error-exitcode", &FOUND.to_string()]);
                // The effect of a fault on later calls and on the exit status is not a finding.
                command.args(["--report-api-errors", "no", "--check-exit-code", "no", "--leak-check", "no", "--kill"]);
                command.arg(self.program).args(self.arguments(entry)).stdout(Stdio::null());
                self.spawn(&mut command)
            })
            .collect::<Result<_>>()?;
        let mut finders = String::new();
        for (tool, mut child) in TOOLS.iter().zip(children) {
            match wait(&mut child).map_err(io(sanitizer))?.map(|status| (status, status.code())) {
                Some((_, Some(FOUND))) => {
                    let _ = write!(finders, "{}{tool}", if finders.is_empty() { "" } else { "\n" });
                }
                // The command's own exit status: the values are right, or not.
                Some((_, Some(0 | 1))) => {}
                Some((status, _)) => table.note(format!("{tool} gave no answer for {}: {status}", entry.number)),
                None => table.note(format!("{tool} gave no answer for {}: {NO_END}", entry.number)),
            }
        }
        Ok(if finders.is_empty() { "–".into() } else { finders.into() })
    }

    fn arguments(&self, entry: &Broken) -> [&str; 4] {
        ["broken", entry.number, "--device", &self.device]
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let program = PathBuf::from(command.get_program());
        command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map_err(io(&program))
    }
}

const NO_END: &str = "did not end within 60 s";
const NO_SANITIZER: &str =
    "compute-sanitizer, part of the CUDA toolkit, is neither in PATH nor under CUDA_PATH or /usr/local/cuda";

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// How the process ended; `None` if it had to be killed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_fills_its_own_column_and_says_what_the_others_take() {
        let table = compare(&super::super::simulator(), Path::new("not run")).unwrap();
        assert_eq!(table.rows().len(), BROKEN.len());
        for (row, entry) in table.rows().iter().zip(&BROKEN) {
            assert_eq!(row[..2], [entry.number.into(), entry.title.into()]);
            assert_eq!(row[2..4], [Cell::absent(NO_GPU), Cell::absent(NO_GPU)]);
            assert!(!matches!(row[4], Cell::Absent(_)), "{}", entry.name);
        }
        let text = table.to_text();
        assert!(text.lines().all(|line| line.chars().count() <= common::table::WIDTH), "{text}");
    }
}
