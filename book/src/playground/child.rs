//! The process that runs one version of one kernel: reads which, runs its [`Check`] on the simulator, and answers with an [`Outcome`].
//! The text is that in the folder which `WARP_KERNELS` names.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process, thread,
};

use common::{
    Error,
    device::{Device, SimOptions, Subject, Tally},
    probe,
    ptx_sim::{Counters, Fault, FaultKind},
};

use super::{
    check::{Check, Checked},
    job::{KernelCounts, Message, Outcome, Verdict},
};

/// The hidden option of the command with which such a process begins.
pub const OPTION: &str = "--run-kernel";

/// Bytes of device memory.
const DEVICE_MEMORY: u64 = 1 << 30;
/// Bytes of this machine's memory that a launch may take.
const HOST_MEMORY: u64 = 2 << 30;
/// Diagnostics that are told whole.
const MOST_MESSAGES: usize = 20;

/// Reads the kernel's name, a line of JSON, from standard input, and writes the outcome, another, to standard output. The process ends when its
/// standard input does: the server has gone then.
///
/// # Errors
/// If there is no name to read, or the answer can't be written.
pub fn answer() -> io::Result<()> {
    // The compiler is looked for around the user's directory, not where others may write, as in a temporary folder's parents.
    probe::find_compiler();
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let file: String = serde_json::from_str(&line)?;
    thread::spawn(move || {
        let mut rest = [0];
        while matches!(input.read(&mut rest), Ok(1..)) {}
        process::exit(1);
    });
    let outcome = perform(&file);
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    out.flush()
}

fn perform(file: &str) -> Outcome {
    let check = match Check::of(file) {
        Ok(check) => check,
        Err(reason) => return Outcome::only(Verdict::Missing, reason),
    };
    let subject = match Subject::begin(file, HOST_MEMORY) {
        Ok(subject) => subject,
        Err(error) => return Outcome::only(Verdict::Missing, error.to_string()),
    };
    let run =
        || check.run(&Device::sim_with(SimOptions { memory: DEVICE_MEMORY, sanitize: true, ..SimOptions::default() }));
    let mut ran = run();
    // The file's kernels may need others beside them.
    let is_alone = subject.kernels().is_empty() && subject.findings().is_empty();
    if ran.as_ref().is_err_and(Error::is_unsupported) || ran.is_ok() && is_alone {
        subject.with_company();
        ran = run();
    }
    outcome(file, ran, subject)
}

fn outcome(file: &str, ran: common::Result<Checked>, subject: &Subject) -> Outcome {
    let findings = subject.findings();
    let kernels = subject.kernels();
    let mut outcome = Outcome::only(Verdict::Right, "");
    outcome.counts = kernels.iter().map(|(kernel, tally)| counts(kernel, tally)).collect();
    outcome.messages =
        findings.iter().take(MOST_MESSAGES).map(|found| message(file, &found.fault, &found.rendered)).collect();
    let limit = findings.iter().find(|found| is_limit(found.fault.kind));
    match ran {
        Ok(Checked { tables, wrong }) => {
            outcome.tables = tables.iter().map(common::table::Table::to_text).collect();
            outcome.details = wrong;
        }
        Err(Error::Compile { log, .. }) => {
            outcome.verdict = Verdict::Refused;
            outcome.messages = compiler_messages(file, &log);
            outcome.summary = "It does not compile.".to_owned();
            outcome.details = vec![log];
            return outcome;
        }
        Err(error @ Error::NvrtcMissing { .. }) => return Outcome::only(Verdict::Missing, error.to_string()),
        // The sanitiser's words are there already.
        Err(Error::Fault { .. } | Error::Findings { .. }) => {}
        Err(error) => outcome.details = vec![error.to_string()],
    }
    let launches: u64 = kernels.values().map(|tally| tally.launches).sum();
    let launched = format!("in {launches} launch{}", if launches == 1 { "" } else { "es" });
    let rules = match findings.len() {
        1 => "1 broken rule".to_owned(),
        rules => format!("{rules} broken rules"),
    };
    (outcome.verdict, outcome.summary) = match (limit, outcome.details.is_empty(), findings.is_empty()) {
        (Some(found), ..) => (Verdict::Stopped, format!("Stopped: {}.", found.fault.message.trim_end_matches('.'))),
        (None, false, _) => (Verdict::Wrong, format!("The check failed {launched}.")),
        (None, true, false) => (Verdict::Found, format!("The sanitiser found {rules} {launched}.")),
        (None, true, true) if launches == 0 => {
            (Verdict::Missing, "The check ran no kernel of this file on the simulator.".to_owned())
        }
        (None, true, true) => (Verdict::Right, format!("Right and clean {launched}.")),
    };
    outcome
}

fn is_limit(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Budget | FaultKind::TimeLimit | FaultKind::MemoryLimit)
}

/// What a page shows of a kernel's counts.
fn counts(kernel: &str, tally: &Tally) -> KernelCounts {
    let Counters {
        warp_instructions,
        lane_instructions,
        global_load_sectors,
        global_store_sectors,
        branches,
        divergent_branches,
        barriers,
        shared_load_wavefronts,
        shared_store_wavefronts,
        shared_load_conflicts,
        shared_store_conflicts,
        ..
    } = tally.counters;
    let all = [
        ("warp instructions", warp_instructions),
        ("lane instructions", lane_instructions),
        ("global requests", tally.counters.global()[0]),
        ("sectors loaded", global_load_sectors),
        ("sectors stored", global_store_sectors),
        ("sectors if dense", tally.counters.global()[2]),
        ("shared wavefronts", shared_load_wavefronts + shared_store_wavefronts),
        ("of them bank conflicts", shared_load_conflicts + shared_store_conflicts),
        ("branches", branches),
        ("of them divergent", divergent_branches),
        ("barriers", barriers),
    ];
    let counts = all.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    KernelCounts { kernel: kernel.to_owned(), launches: tally.launches, counts }
}

/// Whether a path of a diagnostic is the edited file.
fn is_file(file: &str, path: &str) -> bool {
    let path = path.replace('\\', "/");
    path == file || path.ends_with(&format!("/{file}"))
}

fn message(file: &str, fault: &Fault, rendered: &str) -> Message {
    let own = fault.file.as_deref().is_some_and(|path| is_file(file, path)).then_some(fault.line).flatten();
    let inlined = || fault.inlined.iter().rev().find(|(path, _)| is_file(file, path)).map(|&(_, line)| line);
    let times = if fault.count > 1 { format!(" ({} times)", fault.count) } else { String::new() };
    Message {
        line: own.or_else(inlined),
        severity: "error".to_owned(),
        text: format!("{}: {}{times}", fault.kind.name(), fault.message),
        rendered: rendered.to_owned(),
    }
}

/// `FILE(LINE): error: …`, as NVRTC writes.
fn compiler_messages(file: &str, log: &str) -> Vec<Message> {
    let message = |line: &str| {
        let (place, text) = line.split_once("): ")?;
        let (path, number) = place.rsplit_once('(')?;
        let number: u32 = number.parse().ok()?;
        let severity = if text.starts_with("warning") || text.starts_with("remark") { "warning" } else { "error" };
        let own = is_file(file, path);
        let text = if own { text.to_owned() } else { format!("{path}:{number}: {text}") };
        let (severity, rendered) = (severity.to_owned(), line.to_owned());
        Some(Message { line: own.then_some(number), severity, text, rendered })
    };
    log.lines().filter_map(message).take(MOST_MESSAGES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_words_are_put_at_their_lines() {
        let log = "phase1-infra/kernels/a.cu(7): error: expected a \";\"\n      x\n\nb.cuh(3): warning #177-D: unused\n\n1 error\n";
        let found = compiler_messages("phase1-infra/kernels/a.cu", log);
        let found: Vec<_> =
            found.iter().map(|message| (message.line, message.severity.as_str(), message.text.as_str())).collect();
        assert_eq!(
            found,
            [(Some(7), "error", "error: expected a \";\""), (None, "warning", "b.cuh:3: warning #177-D: unused")]
        );
    }
}
