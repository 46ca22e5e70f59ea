//! Beginning again.

use anyhow::Result;
use bench::command::Shell;

use super::Session;
use crate::store::Reset;

/// Restores the skeleton of an exercise.
pub(crate) fn run(session: &Session, id: &str, shell: &mut Shell) -> Result<()> {
    let exercise = session.find(id)?;
    let file = exercise.file("exercise.cu");
    let said = match session.store.reset(exercise)? {
        Reset::Untouched => format!("{} is as it was.\n", file.display()),
        Reset::Done(backup) => format!("{} is as it was. Yours is now {}\n", file.display(), backup.display()),
    };
    Ok(shell.print(&said)?)
}
