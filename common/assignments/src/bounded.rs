//! Processes for kernels that someone else wrote: bounded in time, memory and output, with a folder of their own for all they leave.
//!
//! The process that starts one enforces the bounds. The started process enforces them too, somewhat later, and ends with the one that
//! started it: so none goes on if that one is stopped or gone. A compiler that it has started in its turn counts as a part of it.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::lifeline;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use tempfile::TempDir;

use crate::isolation::Isolation;

/// Interval at which a process is checked.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same, by the process itself.
const LOOK_AT_ITSELF_EVERY: Duration = Duration::from_millis(50);
/// Interval at which the processes that it has started are looked for.
const LOOK_FOR_CHILDREN_EVERY: Duration = Duration::from_millis(100);
/// Time that a process leaves to the one that started it before it enforces a bound itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// Exit codes of a process that has enforced a bound itself, before the one that started it came to look.
const OUT_OF_TIME: i32 = 124;
const OUT_OF_MEMORY: i32 = 125;

/// Tells a process its bounds: milliseconds, bytes, and its folder.
const VARIABLES: [&str; 3] = ["WARP_BOUND_MS", "WARP_BOUND_BYTES", "WARP_BOUND_FOLDER"];

/// Bounds of a process.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From its beginning to its end.
    pub time: Duration,
    /// Maximum bytes of memory.
    pub memory: u64,
    /// Maximum bytes of its standard output; what follows is cut.
    pub output: u64,
}

/// Reason why a process was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It took longer than this.
    Time(Duration),
    /// It took more bytes than these.
    Memory(u64),
    /// It was no longer wanted.
    Cancelled,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Time(time) => write!(f, "Stopped: it took more than {} s.", time.as_secs_f32()),
            Stopped::Memory(bytes) => write!(f, "Stopped: it took more than {} MiB of memory.", bytes >> 20),
            Stopped::Cancelled => f.write_str("Cancelled."),
        }
    }
}

/// A folder for the processes of one task, deleted when this is dropped, or by a process that has outlived this one.
pub struct Task {
    folder: TempDir,
    bounds: Bounds,
    isolation: Option<Isolation>,
}

impl Task {
    /// Makes the folder.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(bounds: Bounds) -> io::Result<Task> {
        Ok(Task { folder: tempfile::tempdir()?, bounds, isolation: None })
    }

    /// The same, with processes that are isolated so.
    pub fn isolated(self, isolation: Option<Isolation>) -> Task {
        Task { isolation, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command whose temporary files go into the folder: what a stopped compiler leaves goes with it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match &self.isolation {
            None => Command::new(program),
            Some(isolation) => isolation.command(program, self.folder()),
        };
        command.envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, self.folder())));
        let Bounds { time, memory, .. } = self.bounds;
        let values =
            [time.as_millis().to_string().into(), memory.to_string().into(), self.folder().as_os_str().to_owned()];
        command.envs(VARIABLES.into_iter().zip(values));
        command
    }

    /// Runs a command of this task, gives it a line to read, and returns what it prints; `Err` inside: why it was ended.
    ///
    /// # Errors
    /// If it cannot be started or watched.
    pub fn run(&self, mut command: Command, line: &str, cancelled: &AtomicBool) -> io::Result<Result<String, Stopped>> {
        lifeline::attach(&mut command);
        apart(&mut command);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Guarded(command.spawn()?);
        let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
        // Both may wait for the process. The line's end stays open: it is the lifeline.
        let line = format!("{line}\n");
        let writer = thread::Builder::new().spawn(move || {
            let mut stdin = stdin;
            let _ = stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()));
            stdin
        })?;
        let most = self.bounds.output;
        let reader = thread::Builder::new().spawn(move || {
            let mut text = Vec::new();
            let _ = stdout.map(|stdout| stdout.take(most).read_to_end(&mut text));
            text
        })?;
        let stopped = self.wait(&mut child.0, cancelled)?;
        drop(child);
        drop(writer.join());
        let text = reader.join().unwrap_or_default();
        Ok(match stopped {
            Some(stopped) => Err(stopped),
            None => Ok(String::from_utf8_lossy(&text).into_owned()),
        })
    }

    /// Waits for the end of a process; `Some` if it is to be ended.
    fn wait(&self, child: &mut Child, cancelled: &AtomicBool) -> io::Result<Option<Stopped>> {
        let (mut memory, start) = (Memory::of(Pid::from_u32(child.id())), Instant::now());
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            } else if cancelled.load(Ordering::Relaxed) {
                return Ok(Some(Stopped::Cancelled));
            } else if start.elapsed() > self.bounds.time {
                return Ok(Some(Stopped::Time(self.bounds.time)));
            } else if memory.bytes() > self.bounds.memory {
                return Ok(Some(Stopped::Memory(self.bounds.memory)));
            }
            thread::sleep(LOOK_EVERY);
        };
        Ok(match status.code() {
            Some(OUT_OF_TIME) => Some(Stopped::Time(self.bounds.time)),
            Some(OUT_OF_MEMORY) => Some(Stopped::Memory(self.bounds.memory)),
            _ => None,
        })
    }
}

/// Keeps a terminal's Ctrl-C from a process: the one that started it ends, and then it does, and takes its folder along.
fn apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    {
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
        std::os::windows::process::CommandExt::creation_flags(command, CREATE_NEW_PROCESS_GROUP);
    }
}

/// The memory of a process, and of those that it has started.
struct Memory {
    family: Vec<Pid>,
    system: System,
    looked_at: Instant,
}

impl Memory {
    fn of(pid: Pid) -> Memory {
        Memory { family: vec![pid], system: System::new(), looked_at: Instant::now() }
    }

    fn bytes(&mut self) -> u64 {
        if self.looked_at.elapsed() > LOOK_FOR_CHILDREN_EVERY {
            self.family = family(self.family[0], &mut System::new());
            self.looked_at = Instant::now();
        }
        let memory = ProcessRefreshKind::nothing().with_memory();
        self.system.refresh_processes_specifics(ProcessesToUpdate::Some(&self.family), true, memory);
        self.family.iter().filter_map(|pid| self.system.process(*pid)).map(|process| process.memory()).sum()
    }
}

/// A process, and those that it has started: a compiler, and isolated, it is a child of the tool.
fn family(pid: Pid, system: &mut System) -> Vec<Pid> {
    // On Linux, tasks are the threads of a process.
    let kind = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        let children = system.processes().values().filter(|process| process.parent() == Some(parent));
        family.extend(children.map(|child| child.pid()));
        at += 1;
    }
    family
}

/// Ends the processes that a process has started.
fn end_children(pid: Pid) {
    let mut system = System::new();
    for child in &family(pid, &mut system)[1..] {
        system.process(*child).map(|child| child.kill());
    }
}

/// A process that is ended when this is dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            end_children(Pid::from_u32(self.0.id()));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The started process's side: reads the line that it was given. From now on it ends with the process that started it, and by its
/// bounds.
///
/// # Errors
/// If there is no whole line, so that the process that started this one is gone; the folder goes as well.
pub fn receive() -> io::Result<String> {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let [time, memory, folder] = VARIABLES.map(std::env::var_os);
    if !line.ends_with('\n') {
        remove(folder.map(PathBuf::from));
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let number = |value: Option<std::ffi::OsString>| value?.to_str()?.parse::<u64>().ok();
    if let (Some(time), Some(memory)) = (number(time), number(memory)) {
        enforce(Duration::from_millis(time) + PATIENCE, memory + memory / 8);
    }
    lifeline::watch(input, || {
        let _ = sysinfo::get_current_pid().map(end_children);
        remove(folder.map(PathBuf::from));
    });
    Ok(line)
}

/// Ends this process at these bounds.
fn enforce(time: Duration, most: u64) {
    let Ok(pid) = sysinfo::get_current_pid() else { return };
    thread::spawn(move || {
        let (mut memory, start) = (Memory::of(pid), Instant::now());
        let code = loop {
            if start.elapsed() > time {
                break OUT_OF_TIME;
            } else if memory.bytes() > most {
                break OUT_OF_MEMORY;
            }
            thread::sleep(LOOK_AT_ITSELF_EVERY);
        };
        end_children(pid);
        process::exit(code);
    });
}

/// Deletes the folder of a task whose parent is gone.
fn remove(folder: Option<PathBuf>) {
    let Some(folder) = folder else { return };
    // A folder that a process is in stays on some systems.
    let _ = folder.parent().map(std::env::set_current_dir);
    // A compiler that still runs may add a file meanwhile.
    for _ in 0..20 {
        if fs::remove_dir_all(&folder).is_ok() {
            break;
        }
        thread::sleep(LOOK_AT_ITSELF_EVERY);
    }
}
