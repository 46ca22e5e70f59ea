//! Commands for authors of exercises.

use std::path::Path;

use anyhow::{Context, Result};
use assignments::exercise::Exercise;
use assignments::grade::{Grader, author};
use bench::command::Shell;

use super::{compiler, program};

/// Runs every file of an exercise's folder and prints each verdict. Other exercises may be unfinished.
pub(crate) fn run(path: &Path, seed: Option<u64>, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let exercise = Exercise::read(path)?;
    let file = exercise.file("exercise.cu");
    let skeleton = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    for (file, judged) in author(&Grader::new(program()?, seed), &exercise, &skeleton)? {
        match judged {
            Ok(verdict) => shell.print(&format!("{file}: as it should be\n{verdict}"))?,
            Err(why) => {
                shell.print(&format!("{file}: {why}\n"))?;
                shell.fail_quietly();
            }
        }
    }
    Ok(())
}
