//! A process for each kernel that someone else wrote: limits on time, memory and output.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::job::{Job, Outcome};
use crate::{gpu, run, show};

/// The hidden subcommand that answers a job.
pub const SUBCOMMAND: &str = "run-job";

/// Maximum time to compile and run a file.
pub const TIME: Duration = Duration::from_secs(20);
const MEMORY: u64 = 2 << 30;
const OUTPUT: u64 = 4 << 20;

/// Runs a job with `program`, this very command. `keep` lets the compiled kernel stay in the cache.
///
/// # Errors
/// If no process can be started, NVRTC is absent, or the exercise itself is at fault.
pub fn run(program: &Path, job: &Job, time: Duration, keep: bool) -> Result<Outcome> {
    let folder = tempfile::tempdir().context("no temporary folder can be made")?;
    let mut command = Command::new(program);
    command.arg(SUBCOMMAND);
    // The child goes there too. What a stopped compiler leaves goes with the folder.
    command.envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, folder.path())));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if !keep {
        command.env("WARP_CACHE_DIR", folder.path().join("cache"));
    }
    let mut child = command.spawn().with_context(|| format!("{} cannot be started", program.display()))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let job_text = serde_json::to_string(job)?;
    let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(job_text.as_bytes())));
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map(|stdout| stdout.take(OUTPUT).read_to_end(&mut text));
        (text, read)
    });
    let pid = Pid::from_u32(child.id());
    let mut system = System::new();
    let start = Instant::now();
    let stopped = loop {
        if child.try_wait()?.is_some() {
            break None;
        }
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[pid]),
            true,
            ProcessRefreshKind::nothing().with_memory(),
        );
        let memory = system.process(pid).map_or(0, |process| process.memory());
        let reason = if start.elapsed() > time {
            format!("Stopped after {} s: compiling and running it took too long.", time.as_secs())
        } else if memory > MEMORY {
            format!("Stopped: compiling and running it took more than {} GiB of memory.", MEMORY >> 30)
        } else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        child.kill()?;
        child.wait()?;
        break Some(reason);
    };
    let _ = writer.join();
    let text = reader.join().map(|(text, _)| text).unwrap_or_default();
    if stopped.is_some() {
        return Ok(Outcome { stopped, ..Outcome::default() });
    }
    let text = String::from_utf8_lossy(&text);
    let nonce = format!("{:016x} ", job.nonce);
    let Some(answer) = text.lines().find_map(|line| line.strip_prefix(&nonce)) else {
        let stopped = Some("The process that compiled and ran it crashed, or printed too much.".to_owned());
        return Ok(Outcome { stopped, ..Outcome::default() });
    };
    match serde_json::from_str::<Result<Outcome, String>>(answer)? {
        Ok(mut outcome) => {
            // Diagnostics name the file as if it lay in the folder.
            let place = format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR);
            let texts = outcome.cases.iter_mut().map(|case| &mut case.rendered).chain(&mut outcome.stopped);
            texts.for_each(|text| *text = text.replace(&place, ""));
            Ok(outcome)
        }
        Err(error) => bail!(error),
    }
}

/// The child's side: reads a job and writes its outcome.
///
/// # Errors
/// If there is no job to read.
pub fn answer() -> Result<()> {
    std::env::set_current_dir(std::env::temp_dir())?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let job: Job = serde_json::from_str(&text)?;
    let outcome = perform(&job).map_err(|error| format!("{error:#}"));
    println!("\n{:016x} {}", job.nonce, serde_json::to_string(&outcome)?);
    Ok(())
}

fn perform(job: &Job) -> Result<Outcome> {
    if let Some(request) = &job.gpu {
        return gpu::run(job, request);
    }
    if let Some(request) = &job.show {
        return Ok(match show::run(job, request)? {
            Ok(shown) => Outcome { shown: Some(shown), ..Outcome::default() },
            Err(stopped) => Outcome { stopped: Some(stopped), ..Outcome::default() },
        });
    }
    run::check(job)
}
