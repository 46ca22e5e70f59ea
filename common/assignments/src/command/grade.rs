//! Points for all exercises.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bench::command::Shell;
use bench::table::{Cell, ColumnSpec, Format, Table, TableBuilder};
use common::progress::Progress;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{Session, compiler};
use crate::exercise::Exercise;
use crate::grade::Verdict;
use crate::handins::{Answer, Person};
use crate::store;
use crate::submissions::Set;

const EXERCISE: ColumnSpec = ColumnSpec::text("exercise", "exercise");
const POINTS: ColumnSpec = ColumnSpec::number("points", "points", 0);
const OF: ColumnSpec = ColumnSpec::number("of", "of", 0);
const WHY: ColumnSpec = ColumnSpec::text("why", "why");

/// Arguments of `grade`.
#[derive(clap::Args)]
pub(crate) struct GradeArgs {
    /// Exercises from `list`, .cu files named after them, exercises' folders, or someone's folder of them [default: all]
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Only these exercises, or those of a phase: guard,phase2
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<String>,
    /// Format of the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Run kernels without network and with a folder of their own to write to: by bubblewrap on Linux, sandbox-exec on macOS
    #[arg(long)]
    pub(crate) isolate: bool,
    /// In a workflow on GitHub: annotate the run with the points, as GitHub Classroom's autograder does, and summarise it
    #[arg(long)]
    annotate: bool,
    /// Write the points to FILE as Gradescope's autograder expects them: results.json
    #[arg(long, value_name = "FILE")]
    gradescope: Option<PathBuf>,
}

/// Grades the files that were named.
pub(crate) fn run(session: &Session, args: &GradeArgs, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let wanted = session.only(&args.only)?;
    let mut files = Vec::new();
    for path in &args.paths {
        files.extend(named(session, &wanted, path)?);
    }
    if args.paths.is_empty() {
        files.extend(wanted.iter().map(|&exercise| (exercise, Answer::File(exercise.file("exercise.cu")))));
    }
    let bar = Progress::new(files.len() as u64, "grading");
    let verdicts = files.par_iter().map(|(exercise, answer)| {
        let own = exercise.file("exercise.cu");
        let is_own = matches!(answer, Answer::File(file) if *file == own);
        let set = if is_own {
            Set { exercise, skeleton: store::handed_out(exercise) }
        } else {
            session.sets(&[*exercise]).swap_remove(0)
        };
        let verdict = match set.text(&session.grader, answer.clone()) {
            Ok(_) if is_own => session.check(exercise),
            Ok(text) => session.grader.judge(exercise, &text),
            Err(verdict) => Ok(verdict),
        };
        bar.inc(1);
        verdict
    });
    let verdicts = verdicts.collect::<Result<Vec<_>>>()?;
    drop(bar);
    if !verdicts.iter().all(Verdict::passed) {
        shell.fail_quietly();
    }
    if let Some(path) = &args.gradescope {
        let results = bench::json::to_string(&gradescope(&verdicts)) + "\n";
        std::fs::write(path, results).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let text = render(&verdicts, args.format)?;
    if !args.annotate {
        return Ok(shell.print(&text)?);
    }
    // A line of a student's file must not be taken for an annotation.
    let token = format!("{:016x}", RandomState::new().hash_one(0));
    let (points, full) = sums(&verdicts);
    let report = format!("{{\"totalPoints\":{points},\"maxPoints\":{full}}}");
    shell.print(&format!("::stop-commands::{token}\n{text}\n::{token}::\n"))?;
    shell.print(&format!("::notice title=Autograding complete::Points {points}/{full}\n"))?;
    shell.print(&format!("::notice title=Autograding report::{report}\n"))?;
    if let Some(summary) = std::env::var_os("GITHUB_STEP_SUMMARY") {
        let mut summary = std::fs::OpenOptions::new().append(true).create(true).open(summary)?;
        summary.write_all(table(&verdicts).to_markdown().as_bytes())?;
    }
    Ok(())
}

/// Files that a word of the command line stands for, or why there are none.
fn named<'a>(session: &'a Session, wanted: &[&'a Exercise], word: &str) -> Result<Vec<(&'a Exercise, Answer)>> {
    if let Some(exercise) = session.exercises.iter().find(|exercise| exercise.id == word) {
        return Ok(vec![(exercise, Answer::File(exercise.file("exercise.cu")))]);
    }
    let path = Path::new(word);
    let path = path.canonicalize().with_context(|| format!("`{word}` is no exercise from `list`, and no file"))?;
    let folder = if path.ends_with("exercise.cu") { path.parent().unwrap_or(&path) } else { &path };
    if let Some(exercise) = session.exercises.iter().find(|exercise| folder.ends_with(exercise.place())) {
        return Ok(vec![(exercise, Answer::File(folder.join("exercise.cu")))]);
    }
    if path.is_file() {
        let stem = path.file_stem().unwrap_or_default();
        let exercise = session.exercises.iter().find(|exercise| stem == exercise.id.as_str());
        let exercise = exercise.with_context(|| format!("{word}: name the file after an exercise from `list`"))?;
        return Ok(vec![(exercise, Answer::File(path))]);
    }
    let (answers, _) = Person::of_folder(&path)?.answers(wanted, &session.exercises);
    ensure!(answers.iter().any(|answer| *answer != Answer::Missing), "{word}: no exercises are in this folder");
    Ok(wanted.iter().copied().zip(answers).collect())
}

fn sums(verdicts: &[Verdict]) -> (u32, u32) {
    (verdicts.iter().map(Verdict::points).sum(), verdicts.iter().map(Verdict::full).sum())
}

/// Gradescope's `results.json`: a test for each exercise.
fn gradescope(verdicts: &[Verdict]) -> Value {
    let test = |verdict: &Verdict| {
        json!({
            "name": verdict.id,
            "score": verdict.points(),
            "max_score": verdict.full(),
            "status": if verdict.passed() { "passed" } else { "failed" },
            "output": verdict.to_string(),
        })
    };
    json!({ "score": sums(verdicts).0, "tests": verdicts.iter().map(test).collect::<Vec<_>>() })
}

fn render(verdicts: &[Verdict], format: Format) -> Result<String> {
    Ok(match format {
        Format::Json => bench::json::to_string(&verdicts) + "\n",
        Format::Text => {
            let mut text = String::new();
            for verdict in verdicts.iter().filter(|verdict| !verdict.passed()) {
                writeln!(text, "{verdict}")?;
            }
            let table = table(verdicts);
            let without_reasons: Vec<usize> = (0..table.columns.len() - 1).collect();
            text + &table.with_columns(&without_reasons).to_text()
        }
        Format::Markdown | Format::Csv => table(verdicts).render(format),
    })
}

fn table(verdicts: &[Verdict]) -> Table {
    let seed = verdicts.first().map_or(0, |verdict| verdict.seed);
    let mut table = TableBuilder::of(format!("exercises (seed {seed})"), [EXERCISE, POINTS, OF, WHY]);
    for verdict in verdicts {
        let number = |points: u32| Cell::Number(points.into());
        let row = table.row().set(EXERCISE, &*verdict.id).set(POINTS, number(verdict.points()));
        row.set(OF, number(verdict.full()))
            .set(WHY, verdict.reason().unwrap_or_else(|| "passed".to_owned()))
            .complete();
    }
    let (points, full) = sums(verdicts);
    table.note(format!("{points} of {full} points."));
    table.finish()
}
