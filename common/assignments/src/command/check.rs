//! The verdict on one exercise, or on the answer to a question.

use anyhow::{Result, bail};
use bench::command::Shell;

use super::{Session, question};

/// Checks the exercise of that id, else the next one; or the answer to the question of that id.
pub(crate) fn run(session: &Session, id: Option<&str>, answer: Option<&str>, shell: &mut Shell) -> Result<()> {
    let is_exercise = session.exercises.iter().any(|exercise| Some(&*exercise.id) == id);
    if let Some(question) = question::find(id.filter(|_| !is_exercise))? {
        return question::check(&question, answer, shell);
    }
    if answer.is_some() {
        bail!("an answer needs a question; `questions` shows what there is");
    }
    let Some(exercise) = session.chosen(id)? else { return Ok(shell.print("All exercises pass.\n")?) };
    let verdict = session.check(exercise)?;
    shell.print_styled(verdict.styled(shell.terminal().width))?;
    if verdict.passed() {
        let next = session.chosen(None)?.map_or("All exercises pass.".to_owned(), |next| format!("Next: {}", next.id));
        return Ok(shell.print(&format!("{next}\n"))?);
    }
    shell.fail_quietly();
    let (file, id) = (exercise.file("exercise.cu"), &exercise.id);
    let help =
        if verdict.is_sound() { format!("`show {id}` counts line by line") } else { format!("`hint {id}` helps") };
    Ok(shell.print(&format!("Edit {}; {help}.\n", file.display()))?)
}
