//! Every exercise and every question has its section on the page that it names, and nowhere else.

use std::{collections::BTreeSet, fs, path::Path};

use assignments::{exercise, grade, question};
use book::{Book, check, generated};

#[test]
fn every_exercise_and_every_question_stands_on_its_page() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let pages = Book::of_course().unwrap().pages();
    let mut there = BTreeSet::new();
    for page in check::pages_below(&pages).unwrap() {
        let text = fs::read_to_string(pages.join(&page)).unwrap();
        for region in generated::regions(&text).unwrap() {
            if matches!(region.name, "exercise" | "exercise-picture" | "question") {
                let new = there.insert((page.clone(), region.name.to_owned(), region.argument.to_owned()));
                assert!(new, "{page}: {} {} stands there twice", region.name, region.argument);
            }
        }
    }
    let exercises = exercise::all(workspace).unwrap();
    let exercises = exercises.into_iter().map(|exercise| (exercise.page, "exercise".to_owned(), exercise.id));
    let questions = question::all(workspace).unwrap();
    let questions = questions.into_iter().map(|question| (question.page, "question".to_owned(), question.id));
    // Not every exercise has something to draw.
    let (pictures, rest): (BTreeSet<_>, BTreeSet<_>) =
        there.into_iter().partition(|(_, name, _)| name == "exercise-picture");
    assert_eq!(rest, exercises.chain(questions).collect(), "left: in the pages; right: what should be there");
    for (page, _, id) in pictures {
        assert!(
            rest.contains(&(page.clone(), "exercise".to_owned(), id.clone())),
            "{page}: a picture of {id} without it"
        );
    }
}

/// "What a failure looks like" gives nothing away: its diagnostics show lines that a reader has from the beginning.
#[test]
fn a_failure_shows_no_line_that_a_reader_has_yet_to_find() {
    let pages = Book::of_course().unwrap().pages();
    let mut shown = 0;
    for page in check::pages_below(&pages).unwrap() {
        let text = fs::read_to_string(pages.join(&page)).unwrap();
        for region in generated::regions(&text).unwrap().into_iter().filter(|region| region.name == "exercise") {
            let (before, failure) = text[region.body.clone()].split_once("What a failure looks like").unwrap();
            let (_, skeleton) = before.split_once("```cpp\n").unwrap();
            for line in grade::quoted(failure) {
                assert!(skeleton.lines().any(|own| own.trim() == line), "{page}: {}: {line}", region.argument);
                shown += 1;
            }
        }
    }
    assert!(shown > 20, "{shown} lines");
}
