//! Help: hints, one at a time, and the solution.

use anyhow::{Context, Result, ensure};
use bench::command::Shell;

use super::Session;
use crate::exercise::Exercise;

/// The next hint on an exercise, or the first `number`.
pub(crate) fn hint(session: &Session, id: Option<&str>, number: Option<usize>, shell: &mut Shell) -> Result<()> {
    let Some(exercise) = session.chosen(id)? else { return Ok(shell.print("All exercises pass.\n")?) };
    match number {
        None => Ok(shell.print_wrapped(&another(session, exercise))?),
        Some(number) => {
            session.store.note_hints(exercise, number.min(exercise.hints.len()).max(session.store.hints(exercise)));
            Ok(shell.print_wrapped(&(0..number).filter_map(|at| line(exercise, at)).collect::<Vec<_>>().join("\n"))?)
        }
    }
}

/// The hint after the last one that was given.
pub(crate) fn another(session: &Session, exercise: &Exercise) -> String {
    let given = session.store.hints(exercise);
    let Some(hint) = line(exercise, given) else {
        let (id, all) = (&exercise.id, exercise.hints.len());
        return format!(
            "There are no more hints: `hint {id} {all}` shows them again, `solution {id} --i-give-up` the answer."
        );
    };
    session.store.note_hints(exercise, given + 1);
    hint
}

fn line(exercise: &Exercise, at: usize) -> Option<String> {
    let hint = exercise.hints.get(at)?;
    Some(format!("{}, hint {} of {}: {hint}", exercise.id, at + 1, exercise.hints.len()))
}

/// The solution, after a pass or if the reader gives up.
pub(crate) fn solution(session: &Session, id: &str, gives_up: bool, shell: &mut Shell) -> Result<()> {
    let exercise = session.find(id)?;
    if !gives_up && !session.passes(exercise)? {
        shell.fail_quietly();
        return Ok(shell.print(&format!("{id} does not pass yet; --i-give-up shows the solution anyway.\n"))?);
    }
    let path = exercise.file("solution.cu");
    ensure!(path.exists(), "{id} has no solution here: a class may keep its solutions");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(shell.print(&text)?)
}
