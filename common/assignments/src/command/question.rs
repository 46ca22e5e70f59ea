//! The book's questions, in the terminal.

use std::io::{self, IsTerminal};

use anyhow::Result;
use bench::command::Shell;
use bench::table::{ColumnSpec, TableBuilder};

use crate::exercise;
use crate::question::{self, Question};

const ID: ColumnSpec = ColumnSpec::text("question", "question");
const PAGE: ColumnSpec = ColumnSpec::text("page", "page");

/// The question of that id, if there is one.
pub(crate) fn find(id: Option<&str>) -> Result<Option<Question>> {
    id.map_or(Ok(None), |id| question::find(&exercise::root()?, id))
}

/// All questions, with the pages that ask them.
pub(crate) fn list(shell: &mut Shell) -> Result<()> {
    let mut table = TableBuilder::of("questions", [ID, PAGE]);
    for question in question::all(&exercise::root()?)? {
        table.row().set(ID, question.id).set(PAGE, format!("book/pages/{}", question.page)).complete();
    }
    table.note("`check ID` asks a question, `check ID --answer ANSWER` answers it.");
    Ok(shell.table(&table.finish())?)
}

/// Asks a question, and checks the answer that is given or typed.
pub(crate) fn check(question: &Question, answer: Option<&str>, shell: &mut Shell) -> Result<()> {
    let found = question.answer()?;
    let Question { id, kernels, .. } = question;
    let said = match answer {
        Some(answer) => answer.to_owned(),
        None => {
            let choices = if kernels.len() > 1 { format!(" ({})", kernels.join(" or ")) } else { String::new() };
            shell.print(&format!("{}\n\n", question.code()?))?;
            shell.print_wrapped(&format!("{}{choices}", question.question))?;
            if !io::stdin().is_terminal() {
                return Ok(shell.print(&format!("Answer with `check {id} --answer ANSWER`.\n"))?);
            }
            let mut line = String::new();
            io::stdin().read_line(&mut line)?;
            line
        }
    };
    if found.is(&said) {
        return Ok(shell.print_wrapped(&format!("{id}: right, {}.\n{}", found.right, found.because))?);
    }
    shell.fail_quietly();
    Ok(shell.print(&format!("{id}: no, not {}. Try again; the page has the answer.\n", said.trim()))?)
}
