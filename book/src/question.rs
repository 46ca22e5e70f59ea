//! The questions in the pages, with a form for the answer. Kernels are run as shipped, so no compiler is needed.

use std::{fmt::Write, path::Path};

use assignments::question::{self, Question};

use crate::content::Produced;

/// A question: its kernel, a form for the answer, and the reason folded. The argument is its id.
pub fn section(workspace: &Path, id: &str) -> Produced {
    let question = question::find(workspace, id).map_err(|error| format!("{error:#}"))?;
    let question = question.ok_or_else(|| format!("there is no question `{id}`"))?;
    let code = question.code().map_err(|error| format!("{error:#}"))?;
    let answer = question.answer().map_err(|error| format!("{error:#}"))?;

    let mut text = format!("**Question.** {}\n\n```cpp\n{}\n```\n\n", question.question, code.trim_end());
    // An empty line would end the block of HTML.
    let _ = writeln!(text, "<form class=\"question\" id=\"question-{id}\" data-answer=\"{}\">", answer.right);
    text.push_str(&fields(&question));
    text.push_str("<button>Check</button>\n<output></output>\n</form>\n");
    let _ =
        writeln!(text, "<details><summary>Answer</summary>\n\n`{}`. {}\n\n</details>", answer.right, answer.because);
    Ok(text.trim_end().to_owned().into())
}

/// Input for the answer: a line for a number, a button for each of several kernels.
fn fields(question: &Question) -> String {
    match &question.kernels[..] {
        [_] => {
            "<label>Your answer: <input name=\"answer\" inputmode=\"numeric\" autocomplete=\"off\" size=\"6\" required></label>\n"
                .to_owned()
        }
        kernels => kernels.iter().fold(String::new(), |mut text, kernel| {
            let _ = writeln!(
                text,
                "<label><input name=\"answer\" type=\"radio\" value=\"{kernel}\" required> <code>{kernel}</code></label>"
            );
            text
        }),
    }
}

/// A table of all questions; links are for a page in the pages' own folder.
pub fn table(workspace: &Path) -> Produced {
    let mut text = "| question | page |\n| --- | --- |\n".to_owned();
    for Question { id, page, .. } in question::all(workspace).map_err(|error| format!("{error:#}"))? {
        let _ = writeln!(text, "| [{id}]({page}#question-{id}) | `{page}` |");
    }
    Ok(text.into())
}
