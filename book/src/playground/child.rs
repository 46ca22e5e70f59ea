//! The process that runs one version of one kernel: reads which, runs its [`Check`](super::check::Check) on the simulator, and
//! answers with an [`Outcome`]. The text is that in the folder which `WARP_KERNELS` names.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
};

use assignments::bounded;
use common::{
    Error,
    compile::KernelSource,
    device::{Device, SimOptions, Subject, Tally},
    ptx_sim::{
        Counters, Fault, FaultKind, MemoryAccess, RegisterWrite, Site, Space, Step, StepEvent, Touch, Trace,
        TracedRegister, Variable,
    },
};

use super::{
    check::Checked,
    job::{
        KernelCounts, Message, Outcome, RecordedAccess, RecordedRegister, RecordedSite, RecordedStep, RecordedWrite,
        Recording, Task, Verdict,
    },
    kernels,
};

/// The hidden option of the command that starts such a process.
pub const OPTION: &str = "--run-kernel";

/// Bytes of device memory.
const DEVICE_MEMORY: u64 = 1 << 30;
/// Bytes of this machine's memory that a launch may take.
const HOST_MEMORY: u64 = 2 << 30;
/// Maximum bytes of an answer for the contents of registers.
const REGISTER_BYTES: usize = 3 << 20;
/// Maximum number of diagnostics that are reported in full.
const MOST_MESSAGES: usize = 20;

/// Reads the kernel's name, a line of JSON, from standard input, and writes the outcome, another line, to standard output.
///
/// # Errors
/// If there is no name to read, or the answer can't be written.
pub fn answer() -> io::Result<()> {
    let task: Task = serde_json::from_str(&bounded::receive()?)?;
    let outcome = perform(&task);
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    out.flush()
}

fn perform(task: &Task) -> Outcome {
    let file = task.file.as_str();
    let check = match kernels::check_of(&task.workspace, file) {
        Ok(check) => check,
        Err(reason) => return Outcome::only(Verdict::Missing, reason),
    };
    let subject = match Subject::begin(file, HOST_MEMORY) {
        Ok(subject) => subject,
        Err(error) => return Outcome::only(Verdict::Missing, error.to_string()),
    };
    let device = |sanitize| Device::sim_with(SimOptions { memory: DEVICE_MEMORY, sanitize, ..SimOptions::default() });
    let run = || match &task.sizes {
        None => check.run(&device(true), &device(false)),
        Some(sizes) => check.run_at(&device(true), sizes),
    };
    let mut ran = run();
    // The file's kernels may need others beside them.
    let is_alone = subject.kernels().is_empty() && subject.findings().is_empty();
    if ran.as_ref().is_err_and(Error::is_unsupported) || ran.is_ok() && is_alone {
        subject.with_company();
        ran = run();
    }
    let outcome = outcome(file, ran, subject);
    if let (Some(place), false) = (&task.ptx, matches!(outcome.verdict, Verdict::Refused | Verdict::Missing)) {
        // Without it there are no pictures, and all else stands.
        let _ = KernelSource::from_file(task.workspace.join(file))
            .and_then(|source| source.simulator_ptx())
            .map(|ptx| fs::write(place, ptx));
    }
    outcome
}

fn outcome(file: &str, ran: common::Result<Checked>, subject: &Subject) -> Outcome {
    let findings = subject.findings();
    let kernels = subject.kernels();
    let mut outcome = Outcome::only(Verdict::Right, "");
    let traces = subject.traces();
    let room = REGISTER_BYTES / traces.len().max(1);
    outcome.recordings = traces.values().map(|trace| recording(file, trace, room)).collect();
    outcome.counts = kernels.iter().map(|(kernel, tally)| counts(kernel, tally)).collect();
    outcome.messages =
        findings.iter().take(MOST_MESSAGES).map(|found| message(file, &found.fault, &found.rendered)).collect();
    let limit = findings.iter().find(|found| is_limit(found.fault.kind));
    match ran {
        Ok(Checked { tables, wrong }) => {
            outcome.tables = tables.iter().map(bench::table::Table::to_text).collect();
            outcome.details = wrong;
        }
        Err(Error::Compile { log, .. }) => {
            outcome.verdict = Verdict::Refused;
            outcome.messages = compiler_messages(file, &log);
            outcome.summary = "The compiler's errors are at their lines.".to_owned();
            outcome.details = vec![log];
            return outcome;
        }
        Err(error @ Error::CompilerMissing { .. }) => return Outcome::only(Verdict::Missing, error.to_string()),
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
        (None, true, true) => {
            (Verdict::Right, format!("Every value is what it must be, and the sanitiser found nothing, {launched}."))
        }
    };
    outcome
}

fn is_limit(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Budget | FaultKind::TimeLimit | FaultKind::MemoryLimit)
}

/// A kernel's counts for a page.
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

/// Bits of lanes for a page: `0+1*32` is 0 to 31, `7+0*3` three times 7.
fn run_lengths(bits: &[u64]) -> String {
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some(&first) = bits.get(at) {
        let step = bits.get(at + 1).map_or(0, |second| second.wrapping_sub(first));
        let goes_on = |pair: &&[u64]| pair[1].wrapping_sub(pair[0]) == step;
        let length = 1 + bits[at..].windows(2).take_while(goes_on).count();
        // Two of anything are a progression.
        let length = if length > 2 { length } else { 1 };
        parts.push(if length == 1 { format!("{first:x}") } else { format!("{first:x}+{step:x}*{length}") });
        at += length;
    }
    parts.join(" ")
}

/// A trace for a page, with `room` bytes for the contents of registers.
fn recording(file: &str, trace: &Trace, room: usize) -> Recording {
    let site = |site: &Site| {
        let own = site.file.as_deref().is_some_and(|path| is_file(file, path)).then_some(site.line).flatten();
        let inlined = site.inlined_from.as_ref().filter(|(path, _)| is_file(file, path)).map(|&(_, line)| line);
        let (text, instruction) = (site.text.clone(), site.instruction.clone());
        // A function of the file that was inlined is at its own line.
        RecordedSite { line: inlined.or(own), text, instruction }
    };
    let access = |access: &MemoryAccess| {
        let first = access.touches.first().map_or(0, |touch| touch.address);
        let holds = |variable: &&Variable| {
            variable.space == access.space && (variable.start..variable.start + variable.bytes).contains(&first)
        };
        let variable = trace.variables.iter().find(holds);
        let start = variable.map_or(0, |variable| variable.start);
        let touch = |touch: &Touch| (touch.lane, touch.address.wrapping_sub(start) as i64, touch.bytes);
        let has_banks = access.space == Space::Shared;
        let (cost, ideal) = match access.space {
            Space::Shared => (access.wavefronts(), access.ideal_wavefronts()),
            _ => (access.sectors(), access.ideal_sectors()),
        };
        RecordedAccess {
            what: format!("{} {}", access.space, access.kind),
            name: variable.map_or_else(String::new, |variable| variable.name.clone()),
            touches: access.touches.iter().map(touch).collect(),
            cost,
            ideal,
            has_banks,
        }
    };
    let mut accesses: BTreeMap<usize, &MemoryAccess> = BTreeMap::new();
    trace.accesses.iter().for_each(|access| _ = accesses.entry(access.step).or_insert(access));
    let mut taken = 0;
    let mut writes: BTreeMap<usize, Vec<RecordedWrite>> = BTreeMap::new();
    let mut registers_until = trace.registers_until;
    for RegisterWrite { step, register, ty, lanes, bits } in &trace.writes {
        let write = RecordedWrite { register: *register, ty: (*ty).to_owned(), lanes: *lanes, bits: run_lengths(bits) };
        // The names of the fields and the numbers take some 60.
        taken += write.bits.len() + 60;
        if taken > room {
            registers_until = registers_until.min(*step);
            writes.remove(step);
            break;
        }
        writes.entry(*step).or_default().push(write);
    }
    let register = |(at, register): (usize, &TracedRegister)| {
        let of = register.function.as_ref().map_or_else(String::new, |function| format!(" of {function}"));
        let first = trace.writes.iter().find(|write| write.register as usize == at);
        let site = first.map_or(0, |write| trace.steps[write.step].site);
        RecordedRegister { name: format!("{}{of}", register.name), site }
    };
    let mut step = |(at, step): (usize, &Step)| RecordedStep {
        warp: step.warp,
        site: step.site,
        mask: step.mask,
        active: step.active,
        event: match step.event {
            StepEvent::None => None,
            StepEvent::Branch => Some("branch".to_owned()),
            StepEvent::Arrive { .. } => Some("barrier".to_owned()),
            StepEvent::Exit => Some("exit".to_owned()),
        },
        access: accesses.get(&at).map(|&found| access(found)),
        writes: writes.remove(&at).unwrap_or_default(),
    };
    Recording {
        kernel: trace.kernel.clone(),
        threads: trace.threads,
        sites: trace.sites.iter().map(site).collect(),
        steps: trace.steps.iter().enumerate().map(&mut step).collect(),
        registers: trace.registers.iter().enumerate().map(register).collect(),
        registers_until,
        missed: trace.missed,
    }
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
pub(super) fn compiler_messages(file: &str, log: &str) -> Vec<Message> {
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
    fn lanes_are_told_in_few_words() {
        let floats: Vec<u64> = [1.5f32, -2.0].iter().map(|value| u64::from(value.to_bits())).collect();
        assert_eq!(run_lengths(&(0..32).collect::<Vec<_>>()), "0+1*32");
        assert_eq!(run_lengths(&[7, 7, 7, 9, 9]), "7+0*3 9 9");
        assert_eq!(run_lengths(&floats), "3fc00000 c0000000");
        assert_eq!(run_lengths(&[3, 2, 1, 0]), "3+ffffffffffffffff*4");
        assert_eq!(run_lengths(&[]), "");
    }

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
