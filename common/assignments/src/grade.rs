//! Points for a file.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::table::wrap;
use common::compile::gate::{self, Guest};
use common::compile::{self, CompilerName};
use common::device::DeviceChoice;
use console::Style;
use serde::Serialize;

use crate::child;
use crate::exercise::{Count, Exercise, clarity};
use crate::isolation::Isolation;
use crate::job::{GpuRequest, Job, Outcome, ShowRequest, Shown, Times};
use crate::mutants::Mutant;
use crate::tasks::Sizes;

/// Gives points.
pub struct Grader {
    /// The command itself, to run kernels in processes of their own.
    pub program: PathBuf,
    /// Seed of the inputs.
    pub seed: u64,
    /// Maximum time to compile and run a file.
    pub time: Duration,
    /// How the processes of kernels are isolated, if they are.
    pub isolation: Option<Isolation>,
    /// The GPU that kernels run on too, after the simulator.
    pub gpu: Option<DeviceChoice>,
    /// Ends what runs, once it is true.
    pub cancelled: Arc<AtomicBool>,
    /// The compiler, by default the one that this process was told to use; the usual one if `None`.
    pub compiler: Option<CompilerName>,
    /// Costs of solutions, by folder.
    solutions: Mutex<HashMap<PathBuf, BTreeMap<Count, u64>>>,
    /// Times of solutions on the GPU, by folder.
    times: Mutex<HashMap<PathBuf, Times>>,
    /// Held while one thread has the GPU to itself.
    alone: Mutex<()>,
}

/// Points of a file, and the reasons.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The exercise.
    pub id: String,
    /// Repeats the inputs.
    pub seed: u64,
    /// In order.
    pub parts: Vec<Part>,
    /// Output of the first case in which the kernel printed something, and which case that is.
    pub printed: Option<String>,
    /// The sizes of the case that failed, of several the clearest.
    pub failing: Option<Sizes>,
    /// True if nothing was handed in, or nothing was done.
    pub missing: bool,
}

/// A part of a verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// `correct`, `clean`, `budget` or, on a GPU, `speed`.
    pub name: &'static str,
    /// Points.
    pub points: u32,
    /// Maximum points.
    pub of: u32,
    /// The reason.
    pub detail: String,
    /// A question that leads to the cause, if that is a known one.
    pub asks: Option<String>,
}

impl Verdict {
    /// All points.
    pub fn points(&self) -> u32 {
        self.parts.iter().map(|part| part.points).sum()
    }

    /// Maximum points.
    pub fn full(&self) -> u32 {
        self.parts.iter().map(|part| part.of).sum()
    }

    /// True if the values are right and the sanitiser found nothing.
    pub fn is_sound(&self) -> bool {
        self.parts.iter().filter(|part| ["correct", "clean"].contains(&part.name)).all(|part| part.points == part.of)
    }

    /// The reason for the first lost points in a line, with the place in the file and the question if there are such; `None` if none
    /// are lost.
    pub fn reason(&self) -> Option<String> {
        let lost = self.parts.iter().find(|part| part.points < part.of)?;
        let mut lines = lost.detail.lines();
        let mut reason = format!("{}: {}", lost.name, lines.next().unwrap_or_default());
        if reason.ends_with(':') {
            // It announces what the next line says.
            reason = format!("{reason} {}", lines.next().unwrap_or_default().trim());
        } else if let Some(place) = lines.find_map(|line| line.trim_start().strip_prefix("--> ")) {
            reason = format!("{reason} at {place}");
        }
        Some(lost.asks.iter().fold(reason, |reason, asks| format!("{reason}. {asks}")))
    }

    /// True if all points are given.
    pub fn passed(&self) -> bool {
        self.points() == self.full()
    }

    /// Its text in pieces, each with its style. Lines have at most `width` characters if their words allow.
    pub fn styled(&self, width: usize) -> Vec<(Style, String)> {
        let plain = |text: String| (Style::new(), text);
        let (state, color) =
            if self.passed() { ("passed", Style::new().green()) } else { ("not yet", Style::new().yellow()) };
        let mut pieces = vec![plain(format!("{}: ", self.id)), (color, state.to_owned())];
        pieces.push(plain(format!(", {} of {} points (seed {})\n", self.points(), self.full(), self.seed)));
        for part in &self.parts {
            let (mark, color) = match part.points == part.of {
                true => ('+', Style::new().green()),
                false if part.detail == LATER => ('-', Style::new().dim()),
                false => ('-', Style::new().red()),
            };
            let label = format!("  {mark} {:<8} {}/{}  ", part.name, part.points, part.of);
            let indent = label.chars().count();
            let (first, rest) = part.detail.split_once('\n').unwrap_or((&part.detail, ""));
            let first = wrap(first, width.saturating_sub(indent)).replace('\n', &format!("\n{:indent$}", ""));
            pieces.extend([(color, label), plain(first + "\n")]);
            pieces.extend(rest.lines().map(|line| plain(indented(line, width))));
            if let Some(asks) = &part.asks {
                let asks = wrap(asks, width.saturating_sub(8)).replace('\n', "\n        ");
                pieces.extend([(Style::new().yellow(), "      ? ".to_owned()), plain(asks + "\n")]);
            }
        }
        if let Some(printed) = &self.printed {
            pieces.push(plain(format!("  printed with {}\n", printed.replace('\n', "\n      "))));
        }
        pieces
    }
}

/// The lines of the file that a verdict's text shows, without their indentation.
pub fn quoted(verdict: &str) -> impl Iterator<Item = &str> {
    let lines = verdict.lines().filter_map(|line| line.split_once(" | "));
    lines.filter(|(number, _)| number.trim().parse::<u32>().is_ok()).map(|(_, line)| line.trim())
}

/// A further line of a part's detail. Source text and what is drawn below it stay as they are.
fn indented(line: &str, width: usize) -> String {
    const INDENT: &str = "      ";
    let is_drawing =
        line.split_once('|').is_some_and(|(number, _)| number.chars().all(|c| c == ' ' || c.is_ascii_digit()));
    let line = if is_drawing { line.to_owned() } else { wrap(line, width.saturating_sub(INDENT.len())) };
    format!("{INDENT}{}\n", line.replace('\n', &format!("\n{INDENT}")))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.styled(usize::MAX).iter().try_for_each(|(_, text)| f.write_str(text))
    }
}

impl Grader {
    /// Uses that seed, or a fresh one.
    pub fn new(program: PathBuf, seed: Option<u64>) -> Grader {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) >> 32);
        Grader {
            program,
            seed,
            time: child::TIME,
            isolation: None,
            gpu: None,
            cancelled: Arc::default(),
            compiler: compile::chosen(),
            solutions: Mutex::default(),
            times: Mutex::default(),
            alone: Mutex::default(),
        }
    }

    /// Grades a file as a submission for an exercise.
    ///
    /// # Errors
    /// If the file cannot be read, the exercise is at fault, or there is no compiler.
    pub fn grade(&self, exercise: &Exercise, file: &Path) -> Result<Verdict> {
        match read(file)? {
            Ok(text) => self.judge(exercise, &text),
            Err(why) => Ok(self.nothing(exercise, why)),
        }
    }

    /// Grades a text as a submission for an exercise.
    ///
    /// # Errors
    /// If the exercise is at fault, or there is no compiler.
    pub fn judge(&self, exercise: &Exercise, text: &str) -> Result<Verdict> {
        if let Some(refusal) = refusal(text, exercise) {
            return Ok(self.nothing(exercise, refusal));
        }
        let questions = questions(exercise);
        let known = questions.iter().map(|(_, text)| text.clone()).collect();
        let outcome = self.run(&Job { known, ..self.job(exercise, text) })?;
        if let Some(stopped) = outcome.stopped {
            return Ok(self.nothing(exercise, cut(&stopped)));
        }
        let describe = |i: usize| {
            let of_case = exercise.sizes(i);
            let numbers = outcome.cases.get(i).map_or(&[][..], |case| &case.numbers);
            let others = numbers.iter().filter(|(name, _)| !of_case.contains_key(name));
            others.fold(sizes(of_case), |text, (name, value)| format!("{text}, {name} = {value}"))
        };
        let wrong = || outcome.cases.iter().enumerate().filter(|(_, case)| case.wrong.is_some());
        let clearest = wrong().min_by_key(|&(i, _)| clarity(exercise.sizes(i)));
        let correct = clearest.map(|(i, case)| {
            let mut text = format!("{}: {}", describe(i), case.wrong.clone().unwrap_or_default());
            let smallest = wrong().map(|(i, _)| i).min_by_key(|&i| exercise.sizes(i).values().product::<usize>());
            if let Some(smallest) = smallest.filter(|&smallest| smallest != i) {
                let _ = write!(text, "\nsmallest case that fails: {}", describe(smallest));
            }
            text
        });
        let printed = outcome.cases.iter().enumerate().find(|(_, case)| !case.printed.is_empty());
        let printed = printed.map(|(i, case)| cut(&format!("{}:\n{}", describe(i), case.printed)));
        let unclean = outcome.cases.iter().enumerate().find(|(_, case)| !case.findings.is_empty());
        let clean =
            unclean.map(|(i, case)| cut(&format!("{}: {}\n{}", describe(i), case.findings.join(", "), case.rendered)));
        let failing = clearest.or(unclean).map(|(i, _)| exercise.sizes(i).clone());
        let over = if correct.is_none() && clean.is_none() { self.over_budget(exercise, &outcome)? } else { None };
        let sound = correct.is_none() && clean.is_none();
        let tried = match self.gpu {
            Some(gpu) if sound => self.on_gpu(exercise, text, gpu)?,
            _ => Tried::default(),
        };
        let correct = correct.or(tried.wrong);
        let right = correct.is_none();
        let sound = right && clean.is_none();
        let part = |name, of, fault: Option<String>, before: bool, good: &str| match fault {
            Some(detail) => Part { name, points: 0, of, detail, asks: None },
            None if before => Part { name, points: of, of, detail: good.to_owned(), asks: None },
            None => Part { name, points: 0, of, detail: LATER.to_owned(), asks: None },
        };
        let points = exercise.points;
        let spent = outcome.counts.iter().filter(|(count, _)| exercise.budget.contains_key(count));
        let spent: Vec<String> = spent.map(|(count, value)| format!("{value} {}", count.name())).collect();
        let good = format!("right values in all {} cases{}", outcome.cases.len(), tried.remark);
        let asks = outcome.same_as.and_then(|number| Some(questions.get(number)?.0.to_owned()));
        let mut parts = vec![
            Part { asks, ..part("correct", points.correct, correct, true, &good) },
            part("clean", points.clean, clean, right, "the sanitiser found nothing"),
            part("budget", points.budget, over, sound, &spent.join(", ")),
        ];
        if self.speed(exercise).is_some() {
            parts.push(part("speed", points.speed, tried.slow, sound, &tried.speed));
        }
        Ok(Verdict { id: exercise.id.clone(), seed: self.seed, parts, printed, failing, missing: false })
    }

    /// Returns the costs of a text by its lines, and a picture. `Err` inside: why there is nothing to show.
    ///
    /// # Errors
    /// Same as [`Grader::grade`].
    pub fn show(&self, exercise: &Exercise, text: &str, request: ShowRequest) -> Result<Result<Shown, String>> {
        if let Some(refusal) = refusal(text, exercise) {
            return Ok(Err(refusal));
        }
        let job = Job { show: Some(request), ..self.job(exercise, text) };
        let outcome = self.run(&job)?;
        Ok(outcome.shown.ok_or_else(|| cut(&outcome.stopped.unwrap_or_default())))
    }

    /// Runs a job with a text that someone handed in.
    fn run(&self, job: &Job) -> Result<Outcome> {
        child::run(&self.program, self.isolation.as_ref(), job, self.time, false, &self.cancelled)
    }

    fn job(&self, exercise: &Exercise, source: &str) -> Job {
        Job {
            nonce: RandomState::new().hash_one(0),
            task: exercise.task.clone(),
            kernel: exercise.kernel.clone(),
            source: source.to_owned(),
            architecture: exercise.architecture.clone(),
            cases: exercise.cases.clone(),
            counts: Some(exercise.counts.clone()),
            uses: exercise.uses.clone(),
            seed: self.seed,
            known: Vec::new(),
            show: None,
            gpu: None,
            compiler: self.compiler.map(|compiler| compiler.as_str().to_owned()),
        }
    }

    /// A verdict of no points, with the reason.
    pub fn nothing(&self, exercise: &Exercise, why: String) -> Verdict {
        let points = exercise.points;
        let mut parts = vec![("correct", points.correct), ("clean", points.clean), ("budget", points.budget)];
        if self.speed(exercise).is_some() {
            parts.push(("speed", points.speed));
        }
        let parts = parts.into_iter().zip(std::iter::once(why).chain(std::iter::repeat_with(|| LATER.to_owned())));
        let parts = parts.map(|((name, of), detail)| Part { name, points: 0, of, detail, asks: None }).collect();
        let id = exercise.id.clone();
        Verdict { id, seed: self.seed, parts, printed: None, failing: None, missing: false }
    }

    /// The verdict on an exercise that was not worked on.
    pub fn missing(&self, exercise: &Exercise, why: &str) -> Verdict {
        Verdict { missing: true, ..self.nothing(exercise, why.to_owned()) }
    }

    /// Maximum time as a multiple of the solution's; `None` if there is no GPU or, as in a class, no solution.
    fn speed(&self, exercise: &Exercise) -> Option<f64> {
        self.gpu.and(exercise.speed).filter(|_| exercise.file("solution.cu").exists())
    }

    /// The values on the GPU, and the time if that has points. The simulator has found nothing wrong with the kernel.
    fn on_gpu(&self, exercise: &Exercise, text: &str, gpu: DeviceChoice) -> Result<Tried> {
        let outcome = self.run_on_gpu(exercise, text, gpu, self.speed(exercise).is_some())?;
        if let Some(reason) = outcome.skipped {
            let remark = format!(", on the simulator only: {reason}");
            return Ok(Tried { remark, speed: "not measured".to_owned(), ..Tried::default() });
        }
        let mut wrong = outcome.stopped;
        if let Some((i, case)) = outcome.cases.iter().enumerate().find(|(_, case)| case.wrong.is_some()) {
            let at = sizes(exercise.cases.get(i).unwrap_or(exercise.bench_sizes()));
            wrong = Some(format!("{at}: {}", case.wrong.clone().unwrap_or_default()));
        }
        if let Some(wrong) = wrong {
            return Ok(Tried { wrong: Some(format!("on {gpu}, {}", cut(&wrong))), ..Tried::default() });
        }
        let mut tried = Tried { remark: format!(", on {gpu} too"), ..Tried::default() };
        if let (Some(allowed), Some(times)) = (self.speed(exercise), outcome.times) {
            let solution = self.solution_times(exercise, gpu)?.kernel.median;
            let (ms, ratio) = (times.kernel.median, times.kernel.median / solution);
            let said = format!("{ms:.4} ms, {ratio:.2} times as long as the solution ({solution:.4} ms)");
            if ratio > allowed {
                tried.slow = Some(format!("{said}; at most {allowed} times is allowed"));
            }
            tried.speed = said;
        }
        Ok(tried)
    }

    /// Times of a file's kernel and its comparison on a GPU. The file was right and clean on the simulator.
    ///
    /// # Errors
    /// Same as [`Grader::grade`], and if there is no such GPU.
    pub fn bench(&self, exercise: &Exercise, file: &Path, gpu: DeviceChoice) -> Result<Outcome> {
        let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        self.run_on_gpu(exercise, &text, gpu, true)
    }

    /// Times of the solution on a GPU.
    ///
    /// # Errors
    /// If it cannot be run there.
    pub fn solution_times(&self, exercise: &Exercise, gpu: DeviceChoice) -> Result<Times> {
        let known = self.times.lock().unwrap_or_else(PoisonError::into_inner).get(&exercise.dir).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let path = exercise.file("solution.cu");
        let times = self.bench(exercise, &path, gpu)?.times;
        let times = times.with_context(|| format!("{} does not run on {gpu}", path.display()))?;
        self.times.lock().unwrap_or_else(PoisonError::into_inner).insert(exercise.dir.clone(), times.clone());
        Ok(times)
    }

    fn run_on_gpu(&self, exercise: &Exercise, text: &str, gpu: DeviceChoice, timed: bool) -> Result<Outcome> {
        let request = GpuRequest {
            device: gpu.to_string(),
            bench: timed.then(|| exercise.bench_sizes().clone()),
            library: exercise.library,
        };
        let job = Job { gpu: Some(request), ..self.job(exercise, text) };
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&job)
    }

    /// Counts above their budgets and instructions that are missing, one line each.
    fn over_budget(&self, exercise: &Exercise, outcome: &Outcome) -> Result<Option<String>> {
        if exercise.budget.is_empty() {
            return Ok(None);
        }
        let (counts, solution) = (&outcome.counts, self.solution(exercise)?);
        let mut over = Vec::new();
        for count in Count::ALL {
            let of = |counts: &BTreeMap<Count, u64>| counts.get(&count).copied().unwrap_or(0);
            let (spent, base) = (of(counts), of(&solution));
            if let Some(allowed) = exercise.allowed(count, &solution).filter(|&allowed| spent > allowed) {
                over.push((spent as f64 / allowed as f64, count, spent, allowed, base));
            }
        }
        // What is furthest beyond its budget says most.
        over.sort_by(|a, b| b.0.total_cmp(&a.0));
        let at = sizes(&exercise.counts);
        let lines = over.iter().map(|(_, count, spent, allowed, base)| {
            format!("{spent} {} at {at}; at most {allowed} are allowed, and the solution takes {base}", count.name())
        });
        let lines = lines.chain(outcome.lacks.iter().map(|instruction| format!("the kernel has no `{instruction}`")));
        Ok(Some(lines.collect::<Vec<_>>().join("\n")).filter(|lines| !lines.is_empty()))
    }

    /// Costs of the solution.
    ///
    /// # Errors
    /// If it does not run, or if neither the solution nor its costs are available.
    pub fn solution(&self, exercise: &Exercise) -> Result<BTreeMap<Count, u64>> {
        let known = self.solutions.lock().unwrap_or_else(PoisonError::into_inner).get(&exercise.dir).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let path = exercise.file("solution.cu");
        if !path.exists() && !exercise.costs.is_empty() {
            return Ok(exercise.costs.clone());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let job = Job { cases: Vec::new(), ..self.job(exercise, &text) };
        let counts = child::run(&self.program, None, &job, child::TIME, true, &self.cancelled)?.counts;
        ensure!(!counts.is_empty(), "{} did not finish", path.display());
        self.solutions.lock().unwrap_or_else(PoisonError::into_inner).insert(exercise.dir.clone(), counts.clone());
        Ok(counts)
    }
}

/// The questions of an exercise, each with the text of the wrong submission that it is asked for. A class has none.
fn questions(exercise: &Exercise) -> Vec<(&str, String)> {
    let known = exercise.wrong.iter().filter_map(|(name, expected)| {
        let asks = expected.asks.as_deref()?;
        Some((asks, std::fs::read_to_string(exercise.dir.join("wrong").join(name)).ok()?))
    });
    known.collect()
}

/// Detail of a part that depends on others.
const LATER: &str = "not judged until the parts above pass";

/// Result of a run on a GPU.
#[derive(Default)]
struct Tried {
    /// Errors in the values, if any.
    wrong: Option<String>,
    /// Remark, if the values are right.
    remark: String,
    /// The time.
    speed: String,
    /// Reason why it is too slow.
    slow: Option<String>,
}

/// Reason why a text is not compiled, in a sentence; `None` if nothing speaks against it.
fn refusal(text: &str, exercise: &Exercise) -> Option<String> {
    let none = || format!("The file defines no kernel; it should define `{}`.", exercise.kernel);
    gate::refusal(text, Guest::Answer).or_else(|| (!text.contains("__global__")).then(none))
}

/// The text of a submission, or why there is none to judge.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &Path) -> Result<Result<String, String>> {
    let about = std::fs::metadata(file).with_context(|| format!("{} cannot be read", file.display()))?;
    // A pipe would never end, and a large file need not be read to be refused.
    if !about.is_file() || about.len() > gate::MAX_SOURCE as u64 {
        return Ok(Err(format!("Expected a file of at most {} bytes.", gate::MAX_SOURCE)));
    }
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    // Editors on Windows write such a mark at the beginning.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Ok(Err("The file is saved as UTF-16: save it as UTF-8.".to_owned()));
    }
    Ok(Ok(String::from_utf8_lossy(bytes).into_owned()))
}

/// `columns = 3, rows = 2`.
pub fn sizes(sizes: &Sizes) -> String {
    let named: Vec<String> = sizes.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    named.join(", ")
}

/// The beginning of a long text.
fn cut(text: &str) -> String {
    const MOST: usize = 3000;
    match text.char_indices().nth(MOST) {
        None => text.trim_end().to_owned(),
        Some((end, _)) => format!("{} …", &text[..end]),
    }
}

/// Checks that a mutant of the solution does not get full points, unless the exercise says why it does. `Err` inside: it does, or it
/// does not.
///
/// # Errors
/// Same as [`Grader::judge`].
pub fn judge_mutant(grader: &Grader, exercise: &Exercise, mutant: &Mutant) -> Result<Result<String, String>> {
    let verdict = grader.judge(exercise, &mutant.text)?;
    Ok(match (verdict.reason(), exercise.survivors.get(&mutant.name)) {
        (Some(reason), None) => Ok(reason),
        (None, Some(why)) => Ok(format!("survives: {why}")),
        (None, None) => Err("gets full points".to_owned()),
        (Some(reason), Some(_)) => Err(format!("is listed as a survivor, and is not: {reason}")),
    })
}

/// Checks that an exercise's files give what they should: one line per file, with the error, if any. Of the wrong ones, those whose
/// numbers are chosen are run.
///
/// # Errors
/// Same as [`Grader::grade`].
pub fn author(
    grader: &Grader,
    exercise: &Exercise,
    skeleton: &str,
    is_chosen: impl Fn(usize) -> bool,
) -> Result<Vec<(String, Result<Verdict, String>)>> {
    let mut lines = Vec::new();
    let solution = grader.grade(exercise, &exercise.file("solution.cu"))?;
    let judged = if solution.passed() { Ok(solution) } else { Err(format!("should get all points\n{solution}")) };
    lines.push(("solution.cu".to_owned(), judged));
    let skeleton = grader.judge(exercise, skeleton)?;
    let judged = if skeleton.passed() {
        Err("should not pass".to_owned())
    } else if skeleton.parts.iter().any(|part| part.asks.is_some()) {
        Err(format!("should ask nothing before it is edited\n{skeleton}"))
    } else {
        Ok(skeleton)
    };
    lines.push(("exercise.cu".to_owned(), judged));
    let files = exercise.wrong_files()?;
    // The first exercises teach one idea each, and this is no bar for those of other courses.
    let least = if ["phase2", "phase3", "phase4"].iter().any(|phase| exercise.is_called(phase)) { 8 } else { 3 };
    ensure!(files.len() >= least, "{}: fewer than {least} files in `wrong`", exercise.id);
    ensure!(files.len() == exercise.wrong.len(), "{}: `wrong` lists other files than there are", exercise.id);
    ensure!(!exercise.hints.is_empty(), "{}: no hints", exercise.id);
    for (_, file) in files.iter().enumerate().filter(|(number, _)| is_chosen(*number)) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let expected = exercise.wrong.get(&name).with_context(|| format!("{}: no reason for {name}", exercise.id))?;
        let verdict = grader.grade(exercise, file)?;
        let part = verdict.parts.iter().find(|part| part.name == expected.part);
        let is_as_said = part.is_some_and(|part| part.points < part.of && part.detail.contains(&expected.reason));
        let judged = if !is_as_said {
            Err(format!("should lose `{}` for `{}`\n{verdict}", expected.part, expected.reason))
        } else if verdict.parts.iter().find_map(|part| part.asks.as_ref()) != expected.asks.as_ref() {
            Err(format!("should ask {:?}\n{verdict}", expected.asks))
        } else {
            Ok(verdict)
        };
        lines.push((format!("wrong/{name}"), judged));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_fits_the_width_and_keeps_what_is_drawn() {
        let drawing =
            "12 |     sums[threadIdx.x] = sums[threadIdx.x] + x[i];\n   |     ^^^^ block (0, 0, 0), thread (0, 0, 0)";
        let part = |name, points, detail: &str| Part { name, points, of: 2, detail: detail.to_owned(), asks: None };
        let found = format!("n = 1: shared-race\n{drawing}\n   = note: a sentence that is longer than a line is");
        let asks = Some("Which threads write to `sums` before the barrier?".to_owned());
        let parts = vec![
            part("correct", 2, "right values in all 4 cases, on cuda:0 too"),
            Part { asks, ..part("clean", 0, &found) },
            part("budget", 0, LATER),
        ];
        let id = "warp-sum".to_owned();
        let verdict = Verdict { id, seed: 1, parts, printed: None, failing: None, missing: false };
        let text: String = verdict.styled(40).into_iter().map(|(_, text)| text).collect();
        let expected = "\
warp-sum: not yet, 2 of 6 points (seed 1)
  + correct  2/2  right values in all 4
                  cases, on cuda:0 too
  - clean    0/2  n = 1: shared-race
      12 |     sums[threadIdx.x] = sums[threadIdx.x] + x[i];
         |     ^^^^ block (0, 0, 0), thread (0, 0, 0)
         = note: a sentence that is
         longer than a line is
      ? Which threads write to `sums`
        before the barrier?
  - budget   0/2  not judged until the
                  parts above pass
";
        assert_eq!(text, expected);
        let colored = |label: &str| {
            let (style, _) = verdict.styled(40).into_iter().find(|(_, text)| text.contains(label)).unwrap();
            style.force_styling(true).apply_to("x").to_string()
        };
        assert_eq!(colored("+ correct"), "\u{1b}[32mx\u{1b}[0m");
        assert_eq!(colored("- clean"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(colored("not yet"), "\u{1b}[33mx\u{1b}[0m");
        assert_eq!(verdict.to_string().lines().count(), 8);
        assert_eq!(quoted(&text).collect::<Vec<_>>(), ["sums[threadIdx.x] = sums[threadIdx.x] + x[i];"]);
    }
}
