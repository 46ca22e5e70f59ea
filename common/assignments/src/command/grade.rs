//! Points for all exercises.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use assignments::exercise::Exercise;
use assignments::grade::Verdict;
use assignments::submissions::file;
use bench::command::Shell;
use bench::json;
use bench::table::{Cell, ColumnSpec, Format, Table, TableBuilder};
use common::progress::Progress;
use rayon::prelude::*;

use super::{Session, compiler};

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
    /// In a workflow on GitHub: annotate the run with the points, as GitHub Classroom's autograder does, and summarise it
    #[arg(long)]
    annotate: bool,
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
        files.extend(wanted.iter().map(|&exercise| (exercise, Ok(exercise.file("exercise.cu")))));
    }
    let bar = Progress::new(files.len() as u64, "grading");
    let verdicts = files.par_iter().map(|(exercise, file)| {
        let verdict = match file {
            Ok(file) if *file == exercise.file("exercise.cu") => session.check(exercise),
            Ok(file) => session.grader.grade(exercise, file),
            Err(why) => Ok(session.grader.nothing(exercise, why.clone())),
        };
        bar.inc(1);
        verdict
    });
    let verdicts = verdicts.collect::<Result<Vec<_>>>()?;
    drop(bar);
    if !verdicts.iter().all(Verdict::passed) {
        shell.fail_quietly();
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
fn named<'a>(
    session: &'a Session,
    wanted: &[&'a Exercise],
    word: &str,
) -> Result<Vec<(&'a Exercise, Result<PathBuf, String>)>> {
    if let Some(exercise) = session.exercises.iter().find(|exercise| exercise.id == word) {
        return Ok(vec![(exercise, Ok(exercise.file("exercise.cu")))]);
    }
    let path = Path::new(word);
    let path = path.canonicalize().with_context(|| format!("`{word}` is no exercise from `list`, and no file"))?;
    let folder = if path.ends_with("exercise.cu") { path.parent().unwrap_or(&path) } else { &path };
    if let Some(exercise) = session.exercises.iter().find(|exercise| folder.ends_with(exercise.place())) {
        return Ok(vec![(exercise, Ok(folder.join("exercise.cu")))]);
    }
    if path.is_file() {
        let stem = path.file_stem().unwrap_or_default();
        let exercise = session.exercises.iter().find(|exercise| stem == exercise.id.as_str());
        let exercise = exercise.with_context(|| format!("{word}: name the file after an exercise from `list`"))?;
        return Ok(vec![(exercise, Ok(path))]);
    }
    let files: Vec<_> = wanted.iter().map(|&exercise| (exercise, file(&path, exercise))).collect();
    ensure!(files.iter().any(|(_, file)| file.is_ok()), "{word}: no exercises are in this folder");
    Ok(files)
}

fn sums(verdicts: &[Verdict]) -> (u32, u32) {
    (verdicts.iter().map(Verdict::points).sum(), verdicts.iter().map(Verdict::full).sum())
}

fn render(verdicts: &[Verdict], format: Format) -> Result<String> {
    Ok(match format {
        Format::Json => json::to_string(&verdicts) + "\n",
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
        let lost = verdict.parts.iter().find(|part| part.points < part.of);
        let why = lost.map(|part| format!("{}: {}", part.name, part.detail.lines().next().unwrap_or_default()));
        let number = |points: u32| Cell::Number(points.into());
        let row = table.row().set(EXERCISE, &*verdict.id).set(POINTS, number(verdict.points()));
        row.set(OF, number(verdict.full())).set(WHY, why.unwrap_or_else(|| "passed".to_owned())).complete();
    }
    let (points, full) = sums(verdicts);
    table.note(format!("{points} of {full} points."));
    table.finish()
}
