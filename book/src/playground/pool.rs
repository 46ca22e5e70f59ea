//! Runs of kernels: a bounded queue, and for each a process with limits that can be ended at any time.

use std::{
    collections::{BTreeMap, VecDeque},
    env, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use assignments::bounded::{self, Bounds, Stopped};
use common::compile::gate::{self, Guest};

use super::{
    answer,
    child::OPTION,
    job::{Edited, Job, Outcome, PTX, Task, Verdict},
};

/// Maximum bytes of a process's answer.
const MOST_OUTPUT: u64 = 8 << 20;
/// Number of finished runs that can still be queried.
const MOST_FINISHED: usize = 32;

/// The limits of a run, and the maximum number of runs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From its beginning to its end.
    pub time: Duration,
    /// Maximum bytes of its process.
    pub memory: u64,
    /// Warp instructions of one launch.
    pub instructions: u64,
    /// Number of runs that may wait.
    pub waiting: usize,
}

impl Default for Limits {
    /// Two minutes (the course's longest check takes half of one), 3 GiB, 2²⁶ warp instructions (some ten times the course's
    /// largest launch), 8 waiting runs.
    fn default() -> Limits {
        Limits { time: Duration::from_secs(120), memory: 3 << 30, instructions: 1 << 26, waiting: 8 }
    }
}

/// Stage of a run.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Number of runs before it.
    Waiting(usize),
    /// Time since it began.
    Running(Duration),
    /// It has ended.
    Done(Box<Outcome>),
}

/// The runs of a server; one process at a time.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    program: PathBuf,
    limits: Limits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    waiting: VecDeque<(u64, Job)>,
    running: Option<Running>,
    finished: BTreeMap<u64, Outcome>,
}

struct Running {
    id: u64,
    since: Instant,
    cancelled: Arc<AtomicBool>,
}

impl Pool {
    /// A pool whose processes run `program`, this very command.
    ///
    /// # Errors
    /// If the system cannot start a thread for it.
    pub fn start(program: PathBuf, limits: Limits) -> io::Result<Pool> {
        let shared = Arc::new(Shared { program, limits, state: Mutex::default(), changed: Condvar::new() });
        let pool = Pool(Arc::clone(&shared));
        thread::Builder::new().spawn(move || shared.work())?;
        Ok(pool)
    }

    /// Queues a run and returns its number; `None` if too many are waiting.
    pub fn submit(&self, job: Job) -> Option<u64> {
        let mut state = self.0.state();
        if state.waiting.len() >= self.0.limits.waiting {
            return None;
        }
        state.last += 1;
        let id = state.last;
        state.waiting.push_back((id, job));
        self.0.changed.notify_all();
        Some(id)
    }

    /// Stage of a run; `None` if there is no such run, or it ended long ago.
    pub fn stage(&self, id: u64) -> Option<Stage> {
        let state = self.0.state();
        if let Some(outcome) = state.finished.get(&id) {
            return Some(Stage::Done(Box::new(outcome.clone())));
        }
        if let Some(running) = state.running.as_ref().filter(|running| running.id == id) {
            return Some(Stage::Running(running.since.elapsed()));
        }
        state.waiting.iter().position(|(waiting, _)| *waiting == id).map(Stage::Waiting)
    }

    /// Ends a run, and with it its process. False if it had already ended.
    pub fn cancel(&self, id: u64) -> bool {
        let mut state = self.0.state();
        if let Some(at) = state.waiting.iter().position(|(waiting, _)| *waiting == id) {
            state.waiting.remove(at);
            state.finish(id, Stopped::Cancelled.into());
            return true;
        }
        let running = state.running.as_ref().filter(|running| running.id == id);
        running.is_some_and(|running| !running.cancelled.swap(true, Ordering::Relaxed))
    }
}

impl From<Stopped> for Outcome {
    fn from(stopped: Stopped) -> Outcome {
        Outcome::only(Verdict::Stopped, stopped.to_string())
    }
}

impl State {
    fn finish(&mut self, id: u64, outcome: Outcome) {
        self.finished.insert(id, outcome);
        while self.finished.len() > MOST_FINISHED {
            self.finished.pop_first();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one job after the other.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let (id, job) = loop {
                match state.waiting.pop_front() {
                    Some(next) => break next,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            let stop = Arc::new(AtomicBool::new(false));
            state.running = Some(Running { id, since: Instant::now(), cancelled: Arc::clone(&stop) });
            drop(state);
            let outcome = match job {
                Job::Edited(job) => self.run(&job, &stop),
                Job::Answer(answer) => Ok(answer::judge(&self.program, &answer, stop)),
            };
            let outcome = outcome.unwrap_or_else(|error| {
                Outcome::only(Verdict::Missing, format!("No process could be started for it: {error}."))
            });
            let mut state = self.state();
            state.running = None;
            state.finish(id, outcome);
        }
    }

    /// Runs a kernel in its own process, whose only traces are in a folder that is deleted with it.
    fn run(&self, job: &Edited, stop: &AtomicBool) -> io::Result<Outcome> {
        let guest = Guest::Edited { path: &job.workspace.join(&job.file), root: &job.workspace };
        if let Some(reason) = gate::refusal(&job.text, guest) {
            return Ok(Outcome::only(Verdict::Refused, reason));
        }
        let Limits { time, memory, .. } = self.limits;
        let process = bounded::Task::new(Bounds { time, memory, output: MOST_OUTPUT })?;
        let edits = process.folder().join("edits");
        let copy = edits.join(&job.file);
        fs::create_dir_all(copy.parent().unwrap_or(&edits))?;
        fs::write(&copy, &job.text)?;
        let mut command = process.command(&self.program);
        command.arg(OPTION).env("WARP_KERNELS", &edits).env("WARP_CACHE_DIR", process.folder().join("cache"));
        command.env("WARP_SIM_BUDGET", self.limits.instructions.to_string());
        let ptx = process.folder().join("edited.ptx");
        let task = Task {
            workspace: job.workspace.clone(),
            file: job.file.clone(),
            sizes: job.sizes.clone(),
            ptx: (!job.pictures.is_empty()).then(|| ptx.clone()),
        };
        let answer = match process.run(command, &serde_json::to_string(&task)?, stop)? {
            Ok(answer) => answer,
            Err(stopped) => return Ok(Outcome::from(stopped)),
        };
        let answer = answer.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let Some(mut outcome): Option<Outcome> = answer else {
            let summary = "The process that compiled and ran it crashed, or said too much.";
            return Ok(Outcome::only(Verdict::Stopped, summary));
        };
        if ptx.is_file() {
            for arguments in &job.pictures {
                outcome.pictures.push(self.picture(arguments, &ptx, job, &process, stop)?);
            }
        }
        Ok(outcome)
    }

    /// Picture drawn by `ptx-sim`, which has its own bounds.
    fn picture(
        &self,
        arguments: &[String],
        ptx: &Path,
        job: &Edited,
        process: &bounded::Task,
        stop: &AtomicBool,
    ) -> io::Result<Result<String, String>> {
        let name = format!("ptx-sim{}", env::consts::EXE_SUFFIX);
        let program = self.program.with_file_name(name);
        if !program.is_file() {
            return Ok(Err("pictures are drawn by `ptx-sim`: build it with `cargo build -p ptx-sim`".to_owned()));
        }
        let mut command = process.command(program);
        let arguments = arguments.iter().map(|word| match word.as_str() {
            PTX => ptx.as_os_str(),
            word => word.as_ref(),
        });
        command.args(arguments).current_dir(&job.workspace);
        command.arg(format!("--time-limit={}", self.limits.time.as_secs_f64()));
        command.arg(format!("--memory-limit={}", self.limits.memory));
        Ok(match process.run(command, "", stop)? {
            Ok(svg) if svg.starts_with("<svg") => Ok(svg),
            Ok(_) => Err("the trace of this kernel has nothing to draw there".to_owned()),
            Err(stopped) => Err(stopped.to_string()),
        })
    }
}

/// This very command.
///
/// # Errors
/// If the system does not report its path.
pub fn program() -> io::Result<PathBuf> {
    env::current_exe()
}
