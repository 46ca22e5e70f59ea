//! Points for everyone of a class.

use std::path::Path;

use anyhow::Result;
use assignments::submissions;
use common::command::Shell;

use super::{Session, compiler};

/// Grades a folder of many people's files.
pub fn run(session: &Session, dir: &Path, markdown: bool, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let board = submissions::grade(&session.grader, &session.exercises, dir)?;
    Ok(shell.print(&if markdown { board.markdown() } else { board.csv() })?)
}
