//! Points for everyone of a class.

use std::path::Path;

use anyhow::Result;
use assignments::submissions;
use common::command::Shell;
use common::table::Format;

use super::{Session, compiler};

/// Grades a folder of many people's files, on the exercises that `only` names.
pub fn run(session: &Session, dir: &Path, only: &[String], format: Format, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let board = submissions::grade(&session.grader, &session.only(only)?, dir)?;
    Ok(shell.print(&board.render(format))?)
}
