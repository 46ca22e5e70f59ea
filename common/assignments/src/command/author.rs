//! Commands for authors of exercises.

use std::path::Path;

use anyhow::{Context, Result};
use bench::command::Shell;
use rayon::prelude::*;

use super::{compiler, program};
use crate::exercise::Exercise;
use crate::grade::{Grader, author, judge_mutant};
use crate::{mutants, new};

/// Runs every file of an exercise's folder, or every mutant of its solution, and prints each verdict. Other exercises may be unfinished.
pub(crate) fn run(path: &Path, mutants: bool, seed: Option<u64>, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let exercise = Exercise::read(path)?;
    if mutants {
        return run_mutants(&Grader::new(program()?, seed), &exercise, shell);
    }
    let file = exercise.file("exercise.cu");
    let skeleton = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    for (file, judged) in author(&Grader::new(program()?, seed), &exercise, &skeleton, |_| true)? {
        match judged {
            Ok(verdict) => shell.print(&format!("{file}: as it should be\n{verdict}"))?,
            Err(why) => {
                shell.print(&format!("{file}: {why}\n"))?;
                shell.fail_quietly();
            }
        }
    }
    let left = new::left_to_do(&exercise)?;
    if !left.is_empty() {
        shell.print(&format!("Still as `new` wrote it: {}\n", left.join(", ")))?;
    }
    Ok(())
}

/// Runs every mutant of the solution.
fn run_mutants(grader: &Grader, exercise: &Exercise, shell: &mut Shell) -> Result<()> {
    let path = exercise.file("solution.cu");
    let solution = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mutants = mutants::all(&solution);
    let judged = mutants.par_iter().map(|mutant| judge_mutant(grader, exercise, mutant)).collect::<Result<Vec<_>>>()?;
    for (mutant, judged) in mutants.iter().zip(&judged) {
        let said = judged.as_ref().unwrap_or_else(|why| why);
        shell.print(&format!("{}\n    {said}\n", mutant.name))?;
    }
    let unknown = exercise.survivors.keys().filter(|name| !mutants.iter().any(|mutant| mutant.name == **name));
    for name in unknown {
        shell.fail(format!("{}: `survivors` lists `{name}`, which is no mutant", exercise.id));
    }
    let open = judged.iter().filter(|judged| judged.is_err()).count();
    let listed = exercise.survivors.len();
    shell.print(&format!(
        "{}: {} mutants, {listed} survive with a reason, {open} open\n",
        exercise.id,
        mutants.len()
    ))?;
    if open > 0 {
        shell.fail_quietly();
    }
    Ok(())
}
