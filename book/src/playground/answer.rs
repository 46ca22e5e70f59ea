//! Answers to exercises: the grader's verdict, as the page shows it.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use assignments::{
    exercise::Exercise,
    grade::{self, Grader},
    job::ShowRequest,
    store,
};
use serde_json::{Value, json};

use super::{
    child::compiler_messages,
    job::{Answer, Message, Outcome, Part, Verdict},
    kernels,
};
use crate::paths::slashed;

/// Where a reader begins: the file, its text as handed out and as it is now, and the hints.
///
/// # Errors
/// The reason why the file cannot be read, in a sentence.
pub fn offer(workspace: &Path, exercise: &Exercise) -> Result<Value, String> {
    let file = exercise.file("exercise.cu");
    let file = slashed(file.strip_prefix(workspace).unwrap_or(&file));
    Ok(json!({
        "file": file,
        "skeleton": store::skeleton(exercise).map_err(|error| format!("{error:#}"))?,
        "text": kernels::text(workspace, &file)?,
        "hints": exercise.hints,
    }))
}

/// Judges an answer in processes of `program`, until it is cancelled, and draws the case that fails, or the clearest.
pub fn judge(program: &Path, answer: &Answer, cancelled: Arc<AtomicBool>) -> Outcome {
    let Answer { exercise, text } = answer;
    let mut grader = Grader::new(program.to_owned(), None);
    grader.cancelled = cancelled;
    let verdict = match grader.judge(exercise, text) {
        Ok(verdict) => verdict,
        Err(error) => return Outcome::only(Verdict::Missing, format!("{error:#}")),
    };
    let lost = verdict.parts.iter().find(|part| part.points < part.of);
    let word = match lost.map(|part| part.name) {
        None => Verdict::Right,
        Some("clean") => Verdict::Found,
        Some(_) => Verdict::Wrong,
    };
    let summary = format!("{} of {} points (seed {}).", verdict.points(), verdict.full(), verdict.seed);
    let mut outcome = Outcome::only(word, summary);
    outcome.details = verdict.printed.iter().map(|printed| format!("printed with {printed}")).collect();
    outcome.messages = lost.map(|part| messages(&part.detail)).unwrap_or_default();
    let sizes = verdict.failing.as_ref().unwrap_or_else(|| exercise.clearest_case()).clone();
    let case = grade::sizes(&sizes);
    let request = ShowRequest { picture: None, sizes, block: [0; 3], line: None };
    // Without a picture the verdict stands.
    if let Ok(Ok(shown)) = grader.show(exercise, text, request)
        && let Ok(svg) = shown.picture
    {
        outcome.pictures = vec![Ok(svg)];
        outcome.tables = vec![format!("The picture shows the case {case}.")];
    }
    let part = |part: grade::Part| {
        let grade::Part { name, points, of, detail, asks } = part;
        Part { name: name.to_owned(), points, of, detail, asks }
    };
    outcome.parts = verdict.parts.into_iter().map(part).collect();
    outcome
}

/// Messages at lines of the text: the compiler's, and the sanitiser's, whose reports name the place after `-->`.
fn messages(detail: &str) -> Vec<Message> {
    let mut found: Vec<Message> =
        detail.lines().flat_map(|line| compiler_messages("exercise.cu", line.trim_start())).collect();
    let first = detail.lines().next().unwrap_or_default();
    let places = detail.lines().filter_map(|line| line.trim_start().strip_prefix("--> "));
    let lines = places.filter_map(|place| place.split(':').nth(1)?.trim().parse::<u32>().ok());
    found.extend(lines.map(|line| Message {
        line: Some(line),
        severity: "error".to_owned(),
        text: first.to_owned(),
        rendered: String::new(),
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::messages;

    #[test]
    fn findings_and_compiler_errors_are_at_their_lines() {
        let lines = |detail: &str| messages(detail).iter().map(|message| message.line).collect::<Vec<_>>();
        assert_eq!(lines("n = 1: out-of-bounds\nerror: write of 4 bytes\n  --> exercise.cu:5:9\n   |\n"), [Some(5)]);
        assert_eq!(lines("does not compile\nexercise.cu(7): error: expected a \";\"\n"), [Some(7)]);
        assert!(lines("n = 1: 1 of 1 values of c is wrong").is_empty());
    }
}
