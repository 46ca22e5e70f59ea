//! Points for everyone of a class.

use std::path::PathBuf;

use anyhow::{Result, bail};
use bench::command::Shell;
use bench::table::Format;

use super::{Session, compiler};
use crate::submissions::{self, Lms};

/// Arguments of `submissions`: whose files to grade, and what to report.
#[derive(clap::Args)]
pub(crate) struct SubmissionsArgs {
    /// The folder
    dir: PathBuf,
    /// Only these exercises, or those of a phase: guard,phase2
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<String>,
    /// Format of the board; all but text have a column for each exercise, and json has the reasons
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print the points as this system imports them, in place of the board
    #[arg(long, value_enum, value_name = "SYSTEM", conflicts_with = "format")]
    lms: Option<Lms>,
    /// With --lms: the assignment's name there
    #[arg(long, value_name = "NAME", requires = "lms", default_value = "Warp by Warp")]
    assignment: String,
    /// Run kernels without network and with a folder of their own to write to: by bubblewrap on Linux, sandbox-exec on macOS
    #[arg(long)]
    pub(crate) isolate: bool,
    /// Write everyone's points, with the reasons, to PERSON.txt in this folder
    #[arg(long, value_name = "FOLDER")]
    reports: Option<PathBuf>,
}

/// Grades a folder of many people's files.
pub(crate) fn run(session: &Session, args: &SubmissionsArgs, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let sets = session.sets(&session.only(&args.only)?);
    let board = submissions::grade(&session.grader, &sets, &session.exercises, &args.dir)?;
    if let (Some(_), Some(person)) = (args.lms, board.people.iter().find(|person| person.number.is_none())) {
        bail!(
            "{}: to import points, the system needs its own numbers: pass the folder as it was downloaded there",
            person.name
        );
    }
    if let Some(folder) = &args.reports {
        board.write_reports(folder)?;
    }
    let text = match args.lms {
        Some(lms) => board.render_for(lms, &args.assignment),
        None => board.render(args.format),
    };
    Ok(shell.print(&text)?)
}
