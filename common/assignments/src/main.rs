//! Exercises: `check` says whether your kernel is right, clean and cheap enough; `grade` gives points for all of them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use assignments::exercise::{self, Exercise};
use assignments::grade::{Grader, Verdict, author};
use assignments::{child, exercise::root, submissions};
use clap::{Parser, Subcommand, ValueEnum};
use rayon::prelude::*;

/// Exercises that check and grade themselves, on the simulator.
#[derive(Parser)]
#[command(name = "assignments")]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Repeats the inputs of an earlier run, which printed it.
    #[arg(long, global = true)]
    seed: Option<u64>,
}

#[derive(Subcommand)]
enum Command {
    /// The exercises, in order.
    List,
    /// The first exercise that does not pass yet.
    Next,
    /// Checks the exercise.cu of one exercise.
    Check {
        /// An id from `list`.
        id: String,
    },
    /// Shows the hints of an exercise, the first one or more.
    Hint {
        /// An id from `list`.
        id: String,
        /// How many.
        #[arg(default_value_t = 1)]
        number: usize,
    },
    /// Shows the solution, after a pass.
    Solution {
        /// An id from `list`.
        id: String,
        /// Without a pass.
        #[arg(long)]
        i_give_up: bool,
    },
    /// Grades all exercises, or those named.
    Grade {
        /// Ids from `list`.
        ids: Vec<String>,
        /// How the result is shown.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Grades a folder of many people's files: PERSON/ID.cu, or PERSON/ and the folders as in this repository.
    Submissions {
        /// The folder.
        dir: PathBuf,
        /// A table in Markdown in place of CSV.
        #[arg(long)]
        markdown: bool,
    },
    /// For who writes exercises: runs the solution, the skeleton and all wrong submissions of a folder.
    Author {
        /// The folder.
        path: PathBuf,
    },
    #[command(name = child::SUBCOMMAND, hide = true)]
    RunJob,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    if let Command::RunJob = args.command {
        child::answer()?;
        return Ok(true);
    }
    let grader = Grader::new(std::env::current_exe()?, args.seed);
    let check = |exercise: &Exercise| grader.grade(exercise, &exercise.file("exercise.cu"));
    match &args.command {
        Command::RunJob => {}
        Command::List => {
            for exercise in exercise::all(&root())? {
                println!("{:<16} {:>3} points  {}", exercise.id, exercise.full(), exercise.title);
            }
        }
        Command::Next => {
            for exercise in exercise::all(&root())? {
                if !check(&exercise)?.passed() {
                    println!("{}: {}", exercise.id, exercise.title);
                    println!(
                        "  file: {}\n  page: book/pages/{}",
                        exercise.file("exercise.cu").display(),
                        exercise.page
                    );
                    return Ok(true);
                }
            }
            println!("All exercises pass.");
        }
        Command::Check { id } => {
            let exercise = find(id)?;
            let verdict = check(&exercise)?;
            print!("{verdict}");
            return Ok(verdict.passed());
        }
        Command::Hint { id, number } => {
            let exercise = find(id)?;
            for (i, hint) in exercise.hints.iter().take(*number).enumerate() {
                println!("{} of {}: {hint}", i + 1, exercise.hints.len());
            }
        }
        Command::Solution { id, i_give_up } => {
            let exercise = find(id)?;
            if !i_give_up && !check(&exercise)?.passed() {
                println!("{id} does not pass yet; `--i-give-up` shows the solution all the same.");
                return Ok(false);
            }
            print!("{}", std::fs::read_to_string(exercise.file("solution.cu"))?);
        }
        Command::Grade { ids, format } => {
            let exercises = if ids.is_empty() {
                exercise::all(&root())?
            } else {
                ids.iter().map(|id| find(id)).collect::<Result<_>>()?
            };
            let verdicts = exercises.par_iter().map(check).collect::<Result<Vec<_>>>()?;
            show(&verdicts, *format)?;
            return Ok(verdicts.iter().all(Verdict::passed));
        }
        Command::Submissions { dir, markdown } => {
            let board = submissions::grade(&grader, &exercise::all(&root())?, dir)?;
            print!("{}", if *markdown { board.markdown() } else { board.csv() });
        }
        Command::Author { path } => {
            let mut good = true;
            for (file, judged) in author(&grader, &Exercise::read(path)?)? {
                match judged {
                    Ok(verdict) => println!("{file}: as it should be\n{verdict}"),
                    Err(why) => {
                        println!("{file}: {why}");
                        good = false;
                    }
                }
            }
            return Ok(good);
        }
    }
    Ok(true)
}

fn find(id: &str) -> Result<Exercise> {
    let found = exercise::all(&root())?.into_iter().find(|exercise| exercise.id == id);
    found.with_context(|| format!("there is no exercise `{id}`; `list` shows them"))
}

fn show(verdicts: &[Verdict], format: Format) -> Result<()> {
    let (points, full) =
        (verdicts.iter().map(Verdict::points).sum::<u32>(), verdicts.iter().map(Verdict::full).sum::<u32>());
    match format {
        Format::Text => {
            verdicts.iter().for_each(|verdict| print!("{verdict}"));
            println!("{points} of {full} points");
        }
        Format::Markdown => {
            println!("| exercise | points | of |\n|:--|--:|--:|");
            verdicts.iter().for_each(|v| println!("| {} | {} | {} |", v.id, v.points(), v.full()));
            println!("| **all** | **{points}** | **{full}** |");
        }
        Format::Json => println!("{}", serde_json::to_string_pretty(verdicts)?),
    }
    Ok(())
}
