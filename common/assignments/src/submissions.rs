//! Many people's files at once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bench::json;
use bench::table::{Cell, Column, Format, Table, TableBuilder};
use common::progress::Progress;
use rayon::prelude::*;
use serde::Serialize;

use crate::exercise::Exercise;
use crate::grade::{Grader, Verdict, read};

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
    /// The name of the folder.
    pub name: String,
    /// On each exercise, in order.
    pub verdicts: Vec<Verdict>,
}

/// Grades the files of a folder: `PERSON/ID.cu`, or `PERSON/phaseN-…/exercises/NN-name/exercise.cu`. The same text is graded
/// once, even if several people handed it in.
///
/// # Errors
/// If the folder cannot be read. A file that cannot be graded gets no points.
pub fn grade(grader: &Grader, exercises: &[&Exercise], dir: &Path) -> Result<Board> {
    let dir = dir.canonicalize().with_context(|| format!("{} cannot be read", dir.display()))?;
    let mut people = Vec::new();
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            people.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    people.sort();
    let texts = |folder: &Path| -> Vec<Result<String, String>> {
        exercises
            .iter()
            .map(|exercise| read(&file(folder, exercise)?).unwrap_or_else(|e| Err(format!("{e:#}"))))
            .collect()
    };
    let texts: Vec<_> = people.iter().map(|(_, folder)| texts(folder)).collect();
    let mut different = HashSet::new();
    for texts in &texts {
        different.extend(texts.iter().enumerate().filter_map(|(at, text)| Some((at, text.as_deref().ok()?))));
    }
    let bar = Progress::new(different.len() as u64, "grading");
    let judged = different.into_par_iter().map(|(at, text)| {
        let verdict = grader.judge(exercises[at], text);
        bar.inc(1);
        ((at, text), verdict.unwrap_or_else(|error| grader.nothing(exercises[at], format!("{error:#}"))))
    });
    let judged: std::collections::HashMap<_, _> = judged.collect();
    let verdict = |(at, text): (usize, &Result<String, String>)| match text {
        Ok(text) => judged[&(at, text.as_str())].clone(),
        Err(why) => grader.nothing(exercises[at], why.clone()),
    };
    let people = people.into_iter().zip(&texts).map(|((name, _), texts)| {
        let verdicts = texts.iter().enumerate().map(verdict).collect();
        Person { name, verdicts }
    });
    let ids = exercises.iter().map(|exercise| exercise.id.clone()).collect();
    Ok(Board { people: people.collect(), ids, seed: grader.seed })
}

/// File that a person handed in for an exercise.
///
/// # Errors
/// A sentence if there is nothing to read.
pub fn file(folder: &Path, exercise: &Exercise) -> Result<PathBuf, String> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = [folder.join(format!("{}.cu", exercise.id)), folder.join(exercise.place()).join("exercise.cu")];
    let file = files.into_iter().find(|file| file.symlink_metadata().is_ok()).ok_or("Nothing was handed in.")?;
    // A link could lead to a file that is not the person's.
    if file.canonicalize().ok().as_ref() != Some(&file) {
        return Err("The file is a link, which is not allowed.".to_owned());
    }
    Ok(file)
}

impl Board {
    /// Renders the board in that format. A terminal has no room for a column per exercise.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json::to_string(&serde_json::json!({ "seed": self.seed, "people": self.people })) + "\n",
            _ => self.table(format != Format::Text).render(format),
        }
    }

    fn table(&self, in_full: bool) -> Table {
        let ids = if in_full { self.ids.as_slice() } else { &[] };
        let number = |heading: &str| Column::number(heading, 0);
        let columns = [Column::text("person")].into_iter().chain(ids.iter().map(|id| number(id)));
        let columns = columns.chain(["passed", "points", "of"].map(number));
        let mut table = TableBuilder::of(format!("submissions (seed {})", self.seed), columns);
        for Person { name, verdicts } in &self.people {
            let sum = |of: fn(&Verdict) -> u32| f64::from(verdicts.iter().map(of).sum::<u32>());
            let each = ids.iter().zip(verdicts).map(|(id, verdict)| (id, Cell::Number(verdict.points().into())));
            let row = table.row().set("person", name.as_str()).set_all(each);
            row.set("passed", Cell::Number(sum(|verdict| verdict.passed().into())))
                .set("points", Cell::Number(sum(Verdict::points)))
                .set("of", Cell::Number(sum(Verdict::full)))
                .complete();
        }
        table.finish()
    }
}
