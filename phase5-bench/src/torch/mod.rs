//! PyTorch as a peer: `peers/torch_peer.py` in its own process, where a Python with PyTorch is found.
//!
//! The process stays for all tables of a run, since loading PyTorch takes seconds.
//!
//! `WARP_PYTHON` names the interpreter; without it, that of the active virtual environment is tried, then `python3` and `python`.
//! Tables show a sentence beside a dash for each thing that it cannot measure.
//!
//! Compiling a model with `max-autotune` may take many minutes. So each piece of work has a limit, of `PEER_LIMIT` or of what
//! `WARP_PEER_LIMIT` says in seconds: one that takes longer is ended and has this as its reason, and the rest goes on in another process.
//! All that is asked for at a time has one as well, `ALL_LIMIT` or `WARP_PYTORCH_LIMIT`; what compiles is measured last. PyTorch
//! keeps on disk what it has compiled and tried, so a second run is through sooner.

mod request;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bench::timing::{Bench, Clock, Queue, Timing};
use common::Device;
use phase3_all_layers::PYTORCH_MODELS;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub use request::{Arithmetic, Backend, Mode, PeerRequest};

/// The script, which documents its input and output.
const SCRIPT: (&str, &str) = ("torch_peer.py", include_str!("../../peers/torch_peer.py"));

/// The file of what the script says besides its answers.
const MESSAGES: &str = "messages.txt";

/// Whether an interpreter has PyTorch is answered by a lookup, without loading it.
const PROBE: &str = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
/// Why the simulator's tables have no figures of PyTorch.
const ON_GPUS: &str = "PyTorch is measured on GPUs only";
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// Loading PyTorch from a cold disk takes long.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for a script that has finished its output to end.
const CLOSING_LIMIT: Duration = Duration::from_secs(30);

/// A piece of work that takes longer than this, most of it to compile, is given up; [`PEER_LIMIT_NAME`] sets another limit.
const PEER_LIMIT: Duration = Duration::from_secs(240);
const PEER_LIMIT_NAME: &str = "WARP_PEER_LIMIT";
/// Time limit of a whole request; [`ALL_LIMIT_NAME`] sets another limit.
const ALL_LIMIT: Duration = Duration::from_secs(600);
const ALL_LIMIT_NAME: &str = "WARP_PYTORCH_LIMIT";

#[derive(Serialize)]
struct Request<'a> {
    /// `None`: no GPU.
    device: Option<usize>,
    threads: usize,
    queue: &'static str,
    warm_up: usize,
    repeats: usize,
    limit_s: f64,
    work: &'a [PeerRequest],
}

/// A line of the script's response.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Version {
        version: String,
    },
    Begun {
        begun: usize,
    },
    Samples {
        index: usize,
        samples_ms: Vec<f64>,
    },
    Missing {
        index: usize,
        absent: String,
    },
    Absent {
        absent: String,
    },
    /// The last one of a response.
    Done {
        done: bool,
    },
}

/// Measurements of a request until it was done or its process ended, by the index of the work.
#[derive(Default)]
struct Response {
    version: Option<String>,
    results: BTreeMap<usize, Result<Vec<f64>, String>>,
    /// Work that had begun and has no result.
    begun: Option<usize>,
    /// Why it is incomplete.
    reason: Option<String>,
}

/// PyTorch's time for each piece of work, or why there is no number.
pub struct Measured {
    /// PyTorch's version: `2.9.0+cu130`; none where it does not run.
    pub version: Option<String>,
    /// In the order of the work.
    pub timings: Vec<Result<Timing, String>>,
}

/// PyTorch, in a process that begins with the first request, and again after one that ended it.
#[derive(Default)]
pub struct PyTorch {
    process: RefCell<Option<Process>>,
}

impl PyTorch {
    /// Starts the process, which loads PyTorch while the caller goes on. What fails is said by the first request, which tries again.
    pub fn start(&self) {
        *self.process.borrow_mut() = python().and_then(|python| Process::start(&python)).ok();
    }

    /// Measures all of `work` as `bench` says; on the simulator only what is for the CPU. It never fails: what is not there has a reason.
    pub fn measure(&self, device: &Device, bench: &Bench, work: &[PeerRequest]) -> Measured {
        let all = |reason: String| Measured { version: None, timings: vec![Err(reason); work.len()] };
        let device = ordinal(device);
        if work.is_empty() {
            return Measured { version: None, timings: Vec::new() };
        }
        if device.is_none() && work.iter().all(|work| work.mode() != Mode::Cpu) {
            return all(ON_GPUS.to_owned());
        }
        let (python, time) = match python().and_then(|python| Ok((python, Time::set()?))) {
            Ok(found) => found,
            Err(reason) => return all(reason),
        };
        complete(work, |work| {
            let request = Request {
                device,
                threads: rayon::current_num_threads(),
                queue: match bench.queue {
                    Queue::Empty => "empty",
                    Queue::Warm => "warm",
                    Queue::Cold => "cold",
                },
                warm_up: bench.warm_up,
                repeats: bench.repeats,
                limit_s: bench.limit.as_secs_f64(),
                work,
            };
            self.ask(&python, &request, time)
        })
    }

    fn ask(&self, python: &Path, request: &Request<'_>, time: Time) -> Response {
        if time.left().is_zero() {
            return Response::absent(time.is_up());
        }
        let request = match serde_json::to_string(request) {
            Ok(request) => request,
            Err(error) => return Response::absent(format!("PyTorch's request: {error}")),
        };
        let mut kept = self.process.borrow_mut();
        match kept.take().map_or_else(|| Process::start(python), Ok) {
            Ok(process) => {
                let (response, process) = process.respond(&request, time);
                *kept = process;
                response
            }
            Err(reason) => Response::absent(reason),
        }
    }
}

/// Requests `work`, and again the rest of it as long as a process was ended by a piece that had begun.
fn complete(work: &[PeerRequest], mut ask: impl FnMut(&[PeerRequest]) -> Response) -> Measured {
    let mut version = None;
    let mut timings: Vec<Option<Result<Timing, String>>> = vec![None; work.len()];
    loop {
        let left: Vec<usize> = (0..work.len()).filter(|&at| timings[at].is_none()).collect();
        let asked: Vec<PeerRequest> = left.iter().map(|&at| work[at].clone()).collect();
        let response = ask(&asked);
        for (index, samples) in response.results {
            let Some(&at) = left.get(index) else { continue };
            let clock = if work[at].mode() == Mode::Cpu { Clock::HostMonotonic } else { Clock::DeviceEvents };
            timings[at] = Some(samples.and_then(|samples_ms| {
                Timing::from_samples(clock, samples_ms).map_err(|error| format!("PyTorch: {error}"))
            }));
        }
        version = version.or(response.version);
        let reason = response.reason.unwrap_or_else(|| "PyTorch's script gave no time".to_owned());
        let blamed = response.begun.and_then(|index| left.get(index));
        if let Some(&at) = blamed {
            timings[at] = Some(Err(reason.clone()));
        }
        if blamed.is_none() || timings.iter().all(Option::is_some) {
            let timings = timings.into_iter().map(|timing| timing.unwrap_or_else(|| Err(reason.clone())));
            return Measured { version, timings: timings.collect() };
        }
    }
}

/// Time limits for PyTorch.
#[derive(Clone, Copy)]
struct Time {
    /// For one piece of work.
    piece: Duration,
    /// For the whole request, from `begin` on.
    all: Duration,
    begin: Instant,
}

impl Time {
    /// Limits from the environment.
    fn set() -> Result<Time, String> {
        let (piece, all) = (seconds(PEER_LIMIT_NAME, PEER_LIMIT)?, seconds(ALL_LIMIT_NAME, ALL_LIMIT)?);
        Ok(Time { piece, all, begin: Instant::now() })
    }

    fn left(self) -> Duration {
        self.all.saturating_sub(self.begin.elapsed())
    }

    /// Description of the limit that is reached.
    fn is_up(self) -> String {
        if self.left().is_zero() {
            format!("what PyTorch measures took longer than {} s, set by {ALL_LIMIT_NAME}", self.all.as_secs())
        } else {
            format!("PyTorch took longer than {} s for it, set by {PEER_LIMIT_NAME}", self.piece.as_secs())
        }
    }
}

/// Number of seconds in an environment variable.
fn seconds(name: &str, otherwise: Duration) -> Result<Duration, String> {
    let Some(text) = std::env::var_os(name) else { return Ok(otherwise) };
    let seconds = text.to_str().and_then(|text| text.trim().parse::<u64>().ok()).filter(|seconds| *seconds > 0);
    let wrong = || format!("{name} is `{}`: expected a number of seconds, such as 240", text.display());
    Ok(Duration::from_secs(seconds.ok_or_else(wrong)?))
}

#[cfg(feature = "cuda")]
fn ordinal(device: &Device) -> Option<usize> {
    device.as_cuda().map(|cuda| cuda.ordinal())
}

#[cfg(not(feature = "cuda"))]
fn ordinal(_: &Device) -> Option<usize> {
    None
}

/// Interpreter and version of PyTorch; or why it measures nothing here. It is loaded, which takes seconds.
///
/// # Errors
/// A sentence.
pub fn installed() -> Result<(PathBuf, String), String> {
    const ASK: &str = "import torch; print(torch.__version__, torch.cuda.is_available())";
    let python = python()?;
    let answer = run(&python, &["-c", ASK], "", ASK_LIMIT)?;
    match answer.split_whitespace().collect::<Vec<_>>()[..] {
        [version, "True"] => Ok((python, version.to_owned())),
        [version, _] => Err(format!("PyTorch {version} of `{}` sees no GPU", python.display())),
        _ => Err(format!("`{}` does not say its PyTorch's version", python.display())),
    }
}

/// The interpreter that has PyTorch, searched for once.
fn python() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("WARP_PYTHON").map(PathBuf::from);
        let candidates = named.map_or_else(candidates, |python| vec![python]);
        let has_torch = |python: &PathBuf| run(python, &["-c", PROBE], "", PROBE_LIMIT).is_ok();
        candidates.iter().find(|python| has_torch(python)).cloned().ok_or_else(|| {
            let names: Vec<String> = candidates.iter().map(|python| format!("`{}`", python.display())).collect();
            format!("no PyTorch: none of {} has it; WARP_PYTHON names a Python that has", names.join(", "))
        })
    };
    FOUND.get_or_init(find).clone()
}

fn candidates() -> Vec<PathBuf> {
    let inside = |environment: PathBuf| {
        if cfg!(windows) {
            environment.join("Scripts").join("python.exe")
        } else {
            environment.join("bin").join("python3")
        }
    };
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).map(inside);
    active.into_iter().chain(["python3", "python"].map(PathBuf::from)).collect()
}

/// The process of a script: it takes requests line by line, and answers each with lines.
struct Process {
    child: Child,
    requests: ChildStdin,
    lines: Receiver<String>,
    python: PathBuf,
    /// The script, and what the process says besides.
    dir: TempDir,
}

impl Process {
    /// Starts the course's script.
    ///
    /// # Errors
    /// A sentence, also below.
    fn start(python: &Path) -> Result<Process, String> {
        let written = tempfile::tempdir().and_then(|dir| {
            for (name, text) in PYTORCH_MODELS.iter().chain([&SCRIPT]) {
                std::fs::write(dir.path().join(name), text)?;
            }
            Ok(dir)
        });
        let reason = |error| format!("PyTorch's script cannot be written to a temporary directory: {error}");
        Process::start_in(written.map_err(reason)?, python)
    }

    /// Starts the script in `dir`.
    fn start_in(dir: TempDir, python: &Path) -> Result<Process, String> {
        // What it says besides goes to a file: the processes that PyTorch compiles in would keep a pipe open after its end.
        let started = std::fs::File::create(dir.path().join(MESSAGES)).and_then(|file| {
            let mut command = Command::new(python);
            command.arg(dir.path().join(SCRIPT.0)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).spawn()
        });
        let mut child = started.map_err(|error| format!("`{}` does not start: {error}", python.display()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{}` started without pipes", python.display()));
        };
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(answers).lines().map_while(Result::ok);
            lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Ok(Process { child, requests, lines, python: python.to_owned(), dir })
    }

    /// The response to a request; and the process, if it is ready for another one.
    fn respond(mut self, request: &str, time: Time) -> (Response, Option<Process>) {
        let mut response = Response::default();
        // Where it cannot be written, the process has ended, and so have its lines.
        let _ = writeln!(self.requests, "{request}");
        let reason = loop {
            match self.lines.recv_timeout(time.piece.min(time.left())) {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(Line::Done { done: true }) => return (response, Some(self)),
                    Ok(line) => response.take(line),
                    Err(error) => break format!("PyTorch's script answered no JSON: {error}"),
                },
                Err(RecvTimeoutError::Timeout) => break time.is_up(),
                Err(RecvTimeoutError::Disconnected) => break self.end(),
            }
        };
        response.reason = response.reason.or(Some(reason));
        (response, None)
    }

    /// Why it ended.
    fn end(&mut self) -> String {
        let name = self.python.display();
        match wait(&mut self.child, CLOSING_LIMIT) {
            Some(true) => format!("`{name}` ended before it had answered"),
            Some(false) => {
                let said = std::fs::read(self.dir.path().join(MESSAGES)).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                format!("`{name}` failed: {}", said.trim().lines().last().unwrap_or("no message"))
            }
            None => format!("`{name}` closed its output and did not end"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = wait(&mut self.child, Duration::ZERO);
    }
}

impl Response {
    fn absent(reason: String) -> Response {
        Response { reason: Some(reason), ..Response::default() }
    }

    fn take(&mut self, line: Line) {
        let (index, result) = match line {
            Line::Version { version } => return self.version = Some(version),
            Line::Begun { begun } => return self.begun = Some(begun),
            Line::Absent { absent } => return self.reason = Some(absent),
            Line::Done { .. } => return,
            Line::Samples { index, samples_ms } => (index, Ok(samples_ms)),
            Line::Missing { index, absent } => (index, Err(absent)),
        };
        self.begun = None;
        self.results.insert(index, result);
    }
}

/// Standard output of the program, if it succeeds in time.
fn run(program: &Path, args: &[&str], input: &str, limit: Duration) -> Result<String, String> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{name}` does not start: {error}"))?;
    // Each pipe is served by a thread of its own, so that none fills up while another is waited for.
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut pipe| pipe.write_all(input.as_bytes())));
        let stdout = scope.spawn(move || text(stdout));
        let stderr = scope.spawn(move || text(stderr));
        let ended = wait(&mut child, limit);
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        match ended {
            Some(true) => Ok(stdout),
            Some(false) => Err(format!("`{name}` failed: {}", stderr.trim().lines().last().unwrap_or("no message"))),
            None => Err(format!("`{name}` took longer than {} s", limit.as_secs())),
        }
    })
}

/// Whether it succeeded; `None`, after ending it, if it took longer than `limit`.
fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if begin.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                // It may have ended by itself in the meantime: then there is nothing left to do.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read until an error is all there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_every_piece_of_work_has_the_reason() {
        let work =
            [PeerRequest::relu([1, 1, 2, 2], Mode::Eager), PeerRequest::batch_norm([1, 1, 2, 2], Mode::Compiled)];
        let measured = PyTorch::default().measure(&Device::sim(), &Bench::default(), &work);
        assert_eq!(measured.version, None);
        assert_eq!(measured.timings, vec![Err(ON_GPUS.to_owned()); 2]);
    }

    #[test]
    fn programs_that_are_not_there_fail_or_hang_are_sentences() {
        let missing = run(Path::new("no-such-python"), &[], "", PROBE_LIMIT).unwrap_err();
        assert!(missing.starts_with("`no-such-python` does not start: "), "{missing}");
        let Some(python) = candidates().into_iter().find(|python| run(python, &["-c", ""], "", PROBE_LIMIT).is_ok())
        else {
            println!("skipped the rest: no Python on this machine");
            return;
        };
        let echo = "import sys; sys.stdout.write(sys.stdin.read())";
        let long = "x".repeat(1 << 20);
        assert_eq!(run(&python, &["-c", echo], &long, PROBE_LIMIT).unwrap(), long);
        let failed = run(&python, &["-c", "raise ValueError('a reason')"], "", PROBE_LIMIT).unwrap_err();
        assert!(failed.ends_with("failed: ValueError: a reason"), "{failed}");
        let hangs = run(&python, &["-c", "import time; time.sleep(60)"], "", Duration::from_millis(200)).unwrap_err();
        assert!(hangs.ends_with("took longer than 0 s"), "{hangs}");
    }

    #[test]
    fn the_script_answers_in_json_whether_pytorch_is_there_or_not() {
        let request =
            Request { device: None, threads: 1, queue: "warm", warm_up: 1, repeats: 1, limit_s: 1.0, work: &[] };
        let Some(python) = candidates().into_iter().find(|python| run(python, &["-c", ""], "", PROBE_LIMIT).is_ok())
        else {
            println!("skipped: no Python on this machine");
            return;
        };
        let pytorch = PyTorch::default();
        let mut processes = Vec::new();
        for _ in 0..2 {
            let Response { version, results, begun, reason } = pytorch.ask(&python, &request, within(ASK_LIMIT));
            assert!(results.is_empty() && begun.is_none());
            match version {
                Some(version) => assert!(!version.is_empty() && reason.is_none(), "{reason:?}"),
                None => assert!(reason.as_ref().is_some_and(|reason| reason.contains("PyTorch")), "{reason:?}"),
            }
            processes.push(pytorch.process.borrow().as_ref().map(|process| process.child.id()));
        }
        assert!(processes[0].is_some() && processes[0] == processes[1], "one process for both requests: {processes:?}");
    }

    fn within(limit: Duration) -> Time {
        Time { piece: limit, all: limit, begin: Instant::now() }
    }

    /// A script in place of ours: it reports 1 ms for the work before `at`, and at that does `then`.
    fn until(python: &Path, at: usize, then: &str, time: Time) -> Response {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "import json, sys, time\nsay = lambda line: print(json.dumps(line), flush=True)\nwork = json.loads(input())['work']\n\
             say({{'version': '1'}})\nfor i in range(len(work)):\n    say({{'begun': i}})\n    if i == {at}: {then}\n    \
             say({{'index': i, 'samples_ms': [1.0]}})\nsay({{'done': True}})\n"
        );
        std::fs::write(dir.path().join(SCRIPT.0), script).unwrap();
        Process::start_in(dir, python).unwrap().respond(r#"{"work": [1, 2, 3]}"#, time).0
    }

    #[test]
    fn what_was_measured_before_a_piece_took_too_long_or_ended_the_process_is_kept() {
        let Some(python) = candidates().into_iter().find(|python| run(python, &["-c", ""], "", PROBE_LIMIT).is_ok())
        else {
            println!("skipped: no Python on this machine");
            return;
        };
        let all = until(&python, 3, "pass", within(PROBE_LIMIT));
        assert_eq!((all.results.len(), all.begun, all.reason), (3, None, None));
        let slow = until(&python, 1, "time.sleep(60)", Time { piece: Duration::from_secs(2), ..within(PROBE_LIMIT) });
        assert_eq!((slow.version.as_deref(), slow.begun), (Some("1"), Some(1)));
        assert_eq!(slow.results, BTreeMap::from([(0, Ok(vec![1.0]))]));
        assert_eq!(slow.reason.as_deref(), Some("PyTorch took longer than 2 s for it, set by WARP_PEER_LIMIT"));
        let all = until(&python, 1, "time.sleep(60)", Time { all: Duration::from_secs(2), ..within(PROBE_LIMIT) });
        assert_eq!((all.results.len(), all.begun), (1, Some(1)));
        let reason = "what PyTorch measures took longer than 2 s, set by WARP_PYTORCH_LIMIT";
        assert_eq!(all.reason.as_deref(), Some(reason));
        let failed = until(&python, 2, "raise ValueError('a reason')", within(PROBE_LIMIT));
        assert_eq!((failed.results.len(), failed.begun), (2, Some(2)));
        assert!(failed.reason.as_ref().is_some_and(|reason| reason.ends_with("failed: ValueError: a reason")));
    }

    #[test]
    fn after_a_piece_that_took_too_long_the_rest_is_asked_for_again() {
        let work: Vec<PeerRequest> = [1, 2, 3, 4].map(|batch| PeerRequest::resnet18(batch, Mode::Autotuned)).to_vec();
        let mut asked = Vec::new();
        let measured = complete(&work, |left| {
            asked.push(left.to_vec());
            // The second of them is too slow, until it is the only one.
            let slow = left.len() > 1;
            let done = if slow { 1 } else { left.len() };
            Response {
                version: Some("1".to_owned()),
                results: (0..done).map(|index| (index, Ok(vec![1.0, 1.0]))).collect(),
                begun: slow.then_some(1),
                reason: slow.then(|| "too slow".to_owned()),
            }
        });
        assert_eq!(asked, [work.clone(), work[2..].to_vec()]);
        let says = |timing: &Result<Timing, String>| timing.as_ref().map(|_| ()).map_err(String::clone);
        let slow = || Err("too slow".to_owned());
        assert_eq!(measured.timings.iter().map(says).collect::<Vec<_>>(), [Ok(()), slow(), Ok(()), slow()]);
        // Where nothing begins, nothing is asked for twice.
        let mut times = 0;
        let measured = complete(&work, |_| {
            times += 1;
            Response::absent("no GPU".to_owned())
        });
        assert_eq!((times, measured.timings), (1, vec![Err("no GPU".to_owned()); 4]));
    }

    #[test]
    fn models_run_on_the_cpu_where_pytorch_is() {
        if python().is_err() {
            println!("skipped: no PyTorch on this machine");
            return;
        }
        let bench = Bench { warm_up: 0, repeats: 2, ..Bench::default() };
        let work = [
            PeerRequest::autoencoder([8, 2, 4, 6], 3, Mode::Cpu),
            PeerRequest::attention([1, 2, 16, 8], Mode::Cpu),
            PeerRequest::unet(16, 1, Mode::Eager),
        ];
        let measured = PyTorch::default().measure(&Device::sim(), &bench, &work);
        assert!(measured.version.is_some());
        for timing in &measured.timings[..2] {
            assert_eq!(timing.as_ref().map(Timing::clock), Ok(Clock::HostMonotonic));
        }
        assert_eq!(measured.timings[2], Err(ON_GPUS.to_owned()));
    }
}
