//! Points for everyone of a class.

use std::path::PathBuf;

use anyhow::{Context, Result};
use assignments::submissions;
use bench::command::Shell;
use bench::table::Format;
use common::text::printable_lines;

use super::{Session, compiler};

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
    /// Write everyone's points, with the reasons, to PERSON.txt in this folder
    #[arg(long, value_name = "FOLDER")]
    reports: Option<PathBuf>,
}

/// Grades a folder of many people's files.
pub(crate) fn run(session: &Session, args: &SubmissionsArgs, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let board = submissions::grade(&session.grader, &session.only(&args.only)?, &args.dir)?;
    if let Some(folder) = &args.reports {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        for person in &board.people {
            let path = folder.join(format!("{}.txt", person.name));
            let text: String = person.verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
            std::fs::write(&path, printable_lines(&text).as_bytes())
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    Ok(shell.print(&board.render(args.format))?)
}
