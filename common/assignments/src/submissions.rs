//! Many people's files at once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bench::json;
use bench::table::{Cell, Column, ColumnSpec, Format, Table, TableBuilder};
use common::progress::Progress;
use common::text::printable_lines;
use rayon::prelude::*;
use serde::Serialize;

use crate::exercise::Exercise;
use crate::grade::{Grader, Verdict, read};
use crate::handins::{self, Answer};
use crate::similarity::{HandIns, Likeness, likenesses};

/// Everyone's points.
pub struct Board {
    /// In the order of their names.
    pub people: Vec<Person>,
    ids: Vec<String>,
    seed: u64,
}

/// One person's points.
#[derive(Serialize)]
pub struct Person {
    /// Name, by the folder or the files.
    pub name: String,
    /// Number in Moodle or Canvas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// On each exercise, in order.
    pub verdicts: Vec<Verdict>,
    /// Kernels that were handed in and belong to no exercise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Hand-ins of others, and solutions, that are like this person's; the strongest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<Likeness>,
}

/// A learning system that takes points from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Lms {
    /// Gradebook of Canvas: Grades, Import
    Canvas,
    /// Grading worksheet of Moodle: Upload grading worksheet
    Moodle,
}

/// Exercise that a class was set, with the text that it was handed out with, if that is known.
pub struct Set<'a> {
    /// The exercise.
    pub exercise: &'a Exercise,
    /// Whoever hands this in has done nothing.
    pub skeleton: Option<String>,
}

/// Text to judge, or the verdict without one.
type Handed = Result<String, Verdict>;

/// Grades the hand-ins in a folder ([`handins`]). The same text is graded once, even if several people handed it in. `all` are the
/// exercises that files may be meant for.
///
/// # Errors
/// If the folder cannot be read, or holds nobody's hand-ins. A file that cannot be graded gets no points.
pub fn grade(grader: &Grader, sets: &[Set<'_>], all: &[Exercise], dir: &Path) -> Result<Board> {
    let people = handins::people(dir)?;
    let exercises: Vec<&Exercise> = sets.iter().map(|set| set.exercise).collect();
    let handed: Vec<(Vec<Handed>, Vec<String>)> = people
        .iter()
        .map(|person| {
            let (answers, unknown) = person.answers(&exercises, all);
            (sets.iter().zip(answers).map(|(set, answer)| set.text(grader, answer)).collect(), unknown)
        })
        .collect();
    let mut different = HashSet::new();
    for (texts, _) in &handed {
        different.extend(texts.iter().enumerate().filter_map(|(at, text)| Some((at, text.as_deref().ok()?))));
    }
    let bar = Progress::new(different.len() as u64, "grading");
    let judged = different.into_par_iter().map(|(at, text)| {
        let verdict = grader.judge(exercises[at], text);
        bar.inc(1);
        ((at, text), verdict.unwrap_or_else(|error| grader.nothing(exercises[at], format!("{error:#}"))))
    });
    let judged: std::collections::HashMap<_, _> = judged.collect();
    let verdict = |(at, text): (usize, &Handed)| match text {
        Ok(text) => judged[&(at, text.as_str())].clone(),
        Err(verdict) => verdict.clone(),
    };
    let names: Vec<&str> = people.iter().map(|person| person.name.as_str()).collect();
    let similar = similar(&names, sets, &handed);
    let people = people.into_iter().zip(&handed).zip(similar).map(|((person, (texts, unknown)), similar)| {
        let verdicts = texts.iter().enumerate().map(verdict).collect();
        Person { name: person.name, number: person.number, verdicts, unknown: unknown.clone(), similar }
    });
    let ids = exercises.iter().map(|exercise| exercise.id.clone()).collect();
    Ok(Board { people: people.collect(), ids, seed: grader.seed })
}

/// Likenesses of each person's texts, of which there is one for each exercise.
fn similar(names: &[&str], sets: &[Set<'_>], handed: &[(Vec<Handed>, Vec<String>)]) -> Vec<Vec<Likeness>> {
    let hand_ins = sets.iter().enumerate().map(|(at, set)| {
        let texts = handed.iter().enumerate();
        HandIns {
            exercise: &set.exercise.id,
            skeleton: set.skeleton.as_deref(),
            solution: std::fs::read_to_string(set.exercise.file("solution.cu")).ok(),
            texts: texts.filter_map(|(person, (texts, _))| Some((person, texts[at].as_deref().ok()?))).collect(),
        }
    });
    likenesses(names, &hand_ins.collect::<Vec<_>>())
}

impl Set<'_> {
    /// Text of an answer.
    pub fn text(&self, grader: &Grader, answer: Answer) -> Handed {
        let nothing = |why: String| Err(grader.nothing(self.exercise, why));
        let text = match answer {
            Answer::Missing => return Err(grader.missing(self.exercise, "Nothing was handed in.")),
            Answer::Refused(why) => return nothing(why),
            Answer::File(file) => match read(&file) {
                Ok(Ok(text)) => text,
                Ok(Err(why)) => return nothing(why),
                Err(error) => return nothing(format!("{error:#}")),
            },
        };
        let lines = |text: &str| text.replace("\r\n", "\n").trim_end().to_owned();
        if self.skeleton.as_ref().is_some_and(|skeleton| lines(skeleton) == lines(&text)) {
            return Err(grader.missing(self.exercise, "This is the file as it was handed out."));
        }
        Ok(text)
    }
}

const STUDENT: ColumnSpec = ColumnSpec::text("Student", "Student");
const ID: ColumnSpec = ColumnSpec::text("ID", "ID");
const IDENTIFIER: ColumnSpec = ColumnSpec::text("Identifier", "Identifier");
const FULL_NAME: ColumnSpec = ColumnSpec::text("Full name", "Full name");
const GRADE: ColumnSpec = ColumnSpec::number("Grade", "Grade", 0);
const MAXIMUM_GRADE: ColumnSpec = ColumnSpec::number("Maximum Grade", "Maximum Grade", 0);
/// Time of the grade that is there; empty for none. Without this column Moodle refuses the file.
const MODIFIED: ColumnSpec = ColumnSpec::text("Last modified (grade)", "Last modified (grade)");
const FEEDBACK: ColumnSpec = ColumnSpec::text("Feedback comments", "Feedback comments");

impl Board {
    /// Renders the board in that format. A terminal has no room for a column per exercise.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json::to_string(&serde_json::json!({ "seed": self.seed, "people": self.people })) + "\n",
            _ => self.table(format != Format::Text).render(format),
        }
    }

    /// Renders the points as CSV for a learning system, for the assignment of that name there.
    pub fn render_for(&self, lms: Lms, assignment: &str) -> String {
        let mut table = match lms {
            Lms::Canvas => {
                let empty = ["SIS User ID", "SIS Login ID", "Section"].map(Column::text);
                let columns = [Column::from(STUDENT), Column::from(ID)].into_iter().chain(empty);
                TableBuilder::of("", columns.chain([Column::number(assignment, 0)]))
            }
            Lms::Moodle => TableBuilder::of("", [IDENTIFIER, FULL_NAME, GRADE, MAXIMUM_GRADE, MODIFIED, FEEDBACK]),
        };
        for person in &self.people {
            let points = match person.handed_in() {
                0 => Cell::absent("nothing was handed in"),
                _ => Cell::Number(person.points().into()),
            };
            let number = person.number.as_deref().unwrap_or_default();
            match lms {
                Lms::Canvas => {
                    let row = table.row().set(STUDENT, &*person.name).set(ID, number).set(assignment, points);
                    row.set_all(["SIS User ID", "SIS Login ID", "Section"].map(|name| (name, Cell::from(""))))
                        .complete();
                }
                Lms::Moodle => {
                    let row = table.row().set(IDENTIFIER, format!("Participant {number}"));
                    let row = row.set(FULL_NAME, &*person.name).set(GRADE, points);
                    let row = row.set(MAXIMUM_GRADE, Cell::Number(person.of().into()));
                    row.set(MODIFIED, "").set(FEEDBACK, person.feedback()).complete();
                }
            }
        }
        table.finish().to_csv()
    }

    /// Writes everyone's points, with the reasons, to a file `PERSON.txt` in a folder.
    ///
    /// # Errors
    /// For the first file that cannot be written; the others are written all the same.
    pub fn write_reports(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut taken = HashSet::new();
        let mut outcome = Ok(());
        for person in &self.people {
            let path = folder.join(file_name(&person.name, &mut taken));
            let text: String = person.verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
            let text =
                person.unknown.iter().fold(text, |text, file| text + &format!("{file} is named after no exercise.\n"));
            let written = std::fs::write(&path, printable_lines(&text).as_bytes());
            outcome = outcome.and(written.with_context(|| format!("{} cannot be written", path.display())));
        }
        outcome
    }

    fn table(&self, in_full: bool) -> Table {
        let ids = if in_full { self.ids.as_slice() } else { &[] };
        let number = |heading: &str| Column::number(heading, 0);
        let columns = [Column::text("person")].into_iter().chain(ids.iter().map(|id| number(id)));
        let columns = columns.chain(["handed in", "passed", "points", "of"].map(number));
        let columns = columns.chain([Column::text("similar")]);
        let mut table = TableBuilder::of(format!("submissions (seed {})", self.seed), columns);
        for person in &self.people {
            let each = ids.iter().zip(&person.verdicts).map(|(id, verdict)| {
                let points = Cell::Number(verdict.points().into());
                (id, if verdict.missing { Cell::absent("nothing was handed in") } else { points })
            });
            let row = table.row().set("person", person.name.as_str()).set_all(each);
            let passed = person.verdicts.iter().filter(|verdict| verdict.passed()).count();
            row.set("handed in", person.handed_in())
                .set("passed", passed)
                .set("points", Cell::Number(person.points().into()))
                .set("of", Cell::Number(person.of().into()))
                .set("similar", person.most_similar())
                .complete();
        }
        for Person { name, unknown, .. } in self.people.iter().filter(|person| !person.unknown.is_empty()) {
            table.note(format!("{name} handed in files named after no exercise: {}.", unknown.join(", ")));
        }
        table.finish()
    }
}

impl Person {
    fn handed_in(&self) -> usize {
        self.verdicts.iter().filter(|verdict| !verdict.missing).count()
    }

    fn points(&self) -> u32 {
        self.verdicts.iter().map(Verdict::points).sum()
    }

    fn of(&self) -> u32 {
        self.verdicts.iter().map(Verdict::full).sum()
    }

    /// The strongest likeness, and how many others there are.
    fn most_similar(&self) -> String {
        match &self.similar[..] {
            [] => String::new(),
            [one] => one.to_string(),
            [first, others @ ..] => format!("{first}, and {} more", others.len()),
        }
    }

    /// Exercises without all points, each with the first line of the reason.
    fn feedback(&self) -> String {
        let lost = self.verdicts.iter().filter_map(|verdict| Some(format!("{}: {}", verdict.id, verdict.reason()?)));
        lost.collect::<Vec<_>>().join("\n")
    }
}

/// A name for a person's file that every system takes, and that no other person has.
fn file_name(person: &str, taken: &mut HashSet<String>) -> PathBuf {
    /// Maximum bytes of the name: file systems take 255, with the ending and a number.
    const MOST: usize = 200;
    let plain = |c: char| if c.is_control() || r#"<>:"/\|?*"#.contains(c) { '_' } else { c };
    let mut name: String = person.chars().map(plain).collect();
    while name.len() > MOST {
        name.pop();
    }
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(&name.to_lowercase()));
    let free = free.unwrap_or(name);
    taken.insert(free.to_lowercase());
    format!("{free}.txt").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_person_has_a_file_whatever_the_name_is() {
        let mut taken = HashSet::new();
        let mut name = |person: &str| file_name(person, &mut taken).to_string_lossy().into_owned();
        assert_eq!(name("Ada Lovelace"), "Ada Lovelace.txt");
        assert_eq!(name("ada lovelace"), "ada lovelace-2.txt");
        assert_eq!(name("a/..\\b\u{202e}\n"), "a_.._b\u{202e}_.txt");
        let long = name(&"ä".repeat(127));
        assert!(long.len() < 255 && long != name(&"ä".repeat(127)));
    }
}
