//! Exercises: `check` says whether your kernel is right, clean and cheap enough; `grade` gives points for all of them.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::command::Shell;
use bench::table::Format;
use clap::{CommandFactory, Parser, Subcommand};
use common::compile::{self, CompilerName};
use common::device::DeviceChoice;

use crate::command;
use crate::command::bench::BenchArgs;
use crate::command::grade::GradeArgs;
use crate::command::show::ShowArgs;
use crate::command::submissions::SubmissionsArgs;
use crate::{child, new};

/// Exercises that check and grade themselves on your machine, without a GPU.
///
/// Each is a folder `phaseN-*/exercises/NN-name` with a kernel that has a gap: edit its `exercise.cu` and nothing else.
#[derive(Parser)]
#[command(
    name = "assignments",
    after_help = "\
To begin:
    assignments next       what to do, and which file to edit
    assignments watch      check it whenever you save
    assignments hint       a hint, then another

In the course's checkout, `cargo run -p assignments -- next` does the same without an installation.

Kernels are compiled by NVRTC, on macOS by clang; where it is missing, `check` prints the command that installs it. The exit status is 0 if all is well, 1 if an \
                  exercise does not pass, and 2 if a command fails."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Use the inputs of an earlier run, which printed this number
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Run kernels on a GPU too: auto (if there is one), sim, cuda or cuda:N [default: sim; auto for bench]
    #[arg(long, env = "WARP_DEVICE", global = true, hide_env_values = true, value_parser = device)]
    device: Option<DeviceChoice>,
    /// Compile kernels with nvrtc or clang [default: WARP_COMPILER, else nvrtc, or clang where it is absent]
    #[arg(long, global = true, value_name = "NAME")]
    compiler: Option<CompilerName>,
}

/// An empty `WARP_DEVICE` counts as unset.
fn device(name: &str) -> common::Result<DeviceChoice> {
    if name.is_empty() { Ok(DeviceChoice::Sim) } else { name.parse() }
}

#[derive(Subcommand)]
enum Command {
    /// List the exercises, with your points
    List {
        /// Only these exercises, or those of a phase: guard,phase2
        #[arg(value_name = "phase2")]
        only: Vec<String>,
    },
    /// Show the first exercise that does not pass yet
    Next,
    /// Check your kernel: its values, its memory accesses, its costs
    Check {
        /// Exercise from `list`, or a question of the book [default: the next exercise]
        id: Option<String>,
        /// Answer the question
        #[arg(long)]
        answer: Option<String>,
    },
    /// List the book's questions, which `check` takes answers to
    Questions,
    /// Check your kernel whenever you save it; single keys give hints, the list and the next exercise
    Watch {
        /// Exercise from `list` [default: the next one]
        id: Option<String>,
    },
    /// Show what your kernel costs, line by line and against the budget, and draw it
    Show(ShowArgs),
    /// Measure your kernel's time on a GPU against the solution's; without a GPU, its costs
    Bench(BenchArgs),
    /// Give a hint, and another one each time
    Hint {
        /// Exercise from `list` [default: the next one]
        id: Option<String>,
        /// Show the first N hints again
        #[arg(value_name = "N")]
        number: Option<usize>,
    },
    /// Show the solution of an exercise that you have passed
    Solution {
        /// Exercise from `list`
        id: String,
        /// Show it without a pass
        #[arg(long)]
        i_give_up: bool,
    },
    /// Put the file of an exercise back as it was, and keep yours
    Reset {
        /// Exercise from `list`
        id: String,
    },
    /// Grade all exercises, or those named
    Grade(GradeArgs),
    /// Grade a folder of many people's files: PERSON/ID.cu, or PERSON/ and the folders as in this repository
    Submissions(SubmissionsArgs),
    /// Write a starter repository for a class: exercises, a README and a workflow that grades them on GitHub
    Export(command::export::ExportArgs),
    /// For authors: write a small exercise that works, to be edited
    New {
        /// The exercise's name: warp-max
        name: String,
        /// Phase that it belongs to, an old or a new one
        #[arg(long = "in", value_name = "FOLDER", default_value = new::FOLDER)]
        phase: String,
    },
    /// For authors: run the solution, the skeleton and all wrong submissions of an exercise
    Author {
        /// The exercise's folder
        path: PathBuf,
        /// Run the mutants of the solution instead: none should get full points
        #[arg(long)]
        mutants: bool,
    },
    /// For the book: the pages' view of each exercise, as JSON
    #[command(hide = true)]
    Describe,
    #[command(name = child::SUBCOMMAND, hide = true)]
    RunJob,
}

/// The command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let save = if let Command::Bench(bench) = &args.command { bench.save.save.as_deref() } else { None };
    Shell::new(Format::Text).saving(save).run(|shell| Ok::<_, command::Ended>(run(&args, shell)?))
}

fn run(args: &Args, shell: &mut Shell) -> anyhow::Result<()> {
    if let Some(compiler) = args.compiler {
        compile::choose(compiler);
    }
    match &args.command {
        Command::RunJob => return child::answer(),
        Command::Author { path, mutants } => return command::author::run(path, *mutants, args.seed, shell),
        Command::New { name, phase } => return command::new::run(name, phase, shell),
        Command::Questions => return command::question::list(shell),
        _ => {}
    }
    let mut session = command::Session::open(args.seed, args.device)?;
    if let Command::Grade(GradeArgs { isolate: true, .. })
    | Command::Submissions(SubmissionsArgs { isolate: true, .. }) = &args.command
    {
        session.isolate()?;
    }
    match &args.command {
        Command::List { only } => command::list::list(&session, only, shell),
        Command::Next => command::list::next(&session, shell),
        Command::Check { id, answer } => command::check::run(&session, id.as_deref(), answer.as_deref(), shell),
        Command::Watch { id } => command::watch::run(&session, id.as_deref(), shell),
        Command::Show(args) => command::show::run(&session, args, shell),
        Command::Bench(bench) => command::bench::run(&session, bench, args.device, shell),
        Command::Hint { id, number } => command::hint::hint(&session, id.as_deref(), *number, shell),
        Command::Solution { id, i_give_up } => command::hint::solution(&session, id, *i_give_up, shell),
        Command::Reset { id } => command::reset::run(&session, id, shell),
        Command::Grade(args) => command::grade::run(&session, args, shell),
        Command::Submissions(args) => command::submissions::run(&session, args, shell),
        Command::Export(args) => command::export::run(&session, args, shell),
        Command::Describe => command::describe::run(&session, shell),
        Command::RunJob | Command::Author { .. } | Command::New { .. } | Command::Questions => Ok(()),
    }
}
