//! A process for each kernel that someone else wrote.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use common::compile;

use crate::bounded::{self, Bounds, Task};
use crate::isolation::Isolation;
use crate::job::{Job, Outcome};
use crate::{gpu, run, show};

/// The hidden subcommand that answers a job.
pub const SUBCOMMAND: &str = "run-job";

/// Maximum time to compile and run a file.
pub const TIME: Duration = Duration::from_secs(20);
const MEMORY: u64 = 2 << 30;
const OUTPUT: u64 = 4 << 20;

/// Runs a job with `program`, this very command, isolated or not, until it is cancelled. `keep` lets the compiled kernel stay in the cache.
///
/// # Errors
/// If no process can be started, there is no compiler, or the exercise itself is at fault.
pub fn run(
    program: &Path,
    isolation: Option<&Isolation>,
    job: &Job,
    time: Duration,
    keep: bool,
    cancelled: &AtomicBool,
) -> Result<Outcome> {
    let task = Task::new(Bounds { time, memory: MEMORY, output: OUTPUT }).context("no temporary folder can be made")?;
    let task = task.isolated(isolation.cloned());
    let mut command = task.command(program);
    command.arg(SUBCOMMAND);
    if !keep {
        command.env("WARP_CACHE_DIR", task.folder().join("cache"));
    }
    let answer = task.run(command, &serde_json::to_string(job)?, cancelled);
    let stopped = |reason: String| Ok(Outcome { stopped: Some(reason), ..Outcome::default() });
    let text = match answer.with_context(|| format!("{} cannot be run", program.display()))? {
        Ok(text) => text,
        Err(reason) => return stopped(reason.to_string()),
    };
    let nonce = format!("{:016x} ", job.nonce);
    let Some(answer) = text.lines().find_map(|line| line.strip_prefix(&nonce)) else {
        return stopped("The process that compiled and ran it crashed, or printed too much.".to_owned());
    };
    // Diagnostics name files as if they lay in the folder.
    let place = format!("{}{}", task.folder().display(), std::path::MAIN_SEPARATOR);
    match serde_json::from_str::<Result<Outcome, String>>(answer)? {
        Ok(mut outcome) => {
            let texts = outcome.cases.iter_mut().map(|case| &mut case.rendered).chain(&mut outcome.stopped);
            let picture = outcome.shown.as_mut().and_then(|shown| shown.picture.as_mut().err());
            let texts = texts.chain(picture);
            texts.for_each(|text| *text = text.replace(&place, ""));
            Ok(outcome)
        }
        Err(error) => bail!(error.replace(&place, "")),
    }
}

/// The child's side: reads a job and writes its outcome.
///
/// # Errors
/// If there is no job to read.
pub fn answer() -> Result<()> {
    std::env::set_current_dir(std::env::temp_dir())?;
    let job: Job = serde_json::from_str(&bounded::receive()?)?;
    let outcome = perform(&job).map_err(|error| format!("{error:#}"));
    println!("\n{:016x} {}", job.nonce, serde_json::to_string(&outcome)?);
    Ok(())
}

fn perform(job: &Job) -> Result<Outcome> {
    if let Some(compiler) = &job.compiler {
        compile::choose(compiler.parse()?);
    }
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
