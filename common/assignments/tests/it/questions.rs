//! The book's questions: each has an answer, and `check` knows it.

use std::path::Path;
use std::process::{Command, Output};

use assignments::question;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn run(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_assignments")).args(args).current_dir(root()).output().unwrap();
    (status.code().unwrap(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

#[test]
fn every_question_has_an_answer_that_its_reason_derives() {
    let questions = question::all(root()).unwrap();
    assert!(questions.len() >= 12, "{}", questions.len());
    for question in &questions {
        let answer = question.answer().unwrap();
        println!("{}: {}. {}", question.id, answer.right, answer.because);
        assert!(answer.is(&answer.right) && !answer.is("7"), "{}", question.id);
        assert!(!question.code().unwrap().trim().is_empty(), "{}", question.id);
    }
}

#[test]
fn a_reason_that_comes_to_something_else_is_refused() {
    let mut question = question::all(root()).unwrap().into_iter().find(|one| one.id == "offset-load").unwrap();
    question.because = "Four sectors, as always: {128 / 32}.".to_owned();
    assert!(question.answer().unwrap_err().to_string().contains("counts 5"));
}

#[test]
fn check_takes_an_answer() {
    let (status, text) = run(&["check", "offset-load", "--answer", "5"]);
    assert!(status == 0 && text.contains("right, 5"), "{text}");
    let (status, text) = run(&["check", "row-or-column", "--answer", "by_column"]);
    assert!(status == 1 && text.contains("not by_column") && !text.contains("by_row"), "{text}");
    let (status, text) = run(&["check", "guard", "--answer", "5"]);
    assert!(status == 2 && text.contains("needs a question"), "{text}");
    let (status, text) = run(&["questions"]);
    assert!(status == 0 && text.contains("offset-load"), "{text}");
}
