//! Many people's files at once.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rayon::prelude::*;

use crate::exercise::Exercise;
use crate::grade::{Grader, Verdict};

/// Points of everyone.
pub struct Board {
    /// For each person a verdict on each exercise, in order.
    pub people: Vec<(String, Vec<Verdict>)>,
    ids: Vec<String>,
}

/// Grades what lies in a folder: `PERSON/ID.cu`, or `PERSON/phaseN-…/exercises/NN-name/exercise.cu`.
///
/// # Errors
/// If the folder cannot be read. A file that cannot be graded gets no points.
pub fn grade(grader: &Grader, exercises: &[Exercise], dir: &Path) -> Result<Board> {
    let dir = dir.canonicalize().with_context(|| format!("{} cannot be read", dir.display()))?;
    let mut people = Vec::new();
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            people.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    people.sort();
    let judge = |folder: &Path, exercise: &Exercise| {
        let Some(file) = submitted(folder, exercise) else {
            return grader.nothing(exercise, "Nothing was handed in.".to_owned());
        };
        // A link could lead to a file that is not the person's.
        if file.canonicalize().ok().as_ref() != Some(&file) {
            return grader.nothing(exercise, "Links are not allowed.".to_owned());
        }
        grader.grade(exercise, &file).unwrap_or_else(|error| grader.nothing(exercise, format!("{error:#}")))
    };
    let people = people.into_par_iter().map(|(name, folder)| {
        let verdicts = exercises.par_iter().map(|exercise| judge(&folder, exercise)).collect();
        (name, verdicts)
    });
    let ids = exercises.iter().map(|exercise| exercise.id.clone()).collect();
    Ok(Board { people: people.collect(), ids })
}

fn submitted(folder: &Path, exercise: &Exercise) -> Option<PathBuf> {
    let mut parts = exercise.dir.iter().rev().take(3).collect::<Vec<_>>();
    parts.reverse();
    let nested = folder.join(parts.iter().collect::<PathBuf>()).join("exercise.cu");
    let files = [folder.join(format!("{}.cu", exercise.id)), nested];
    files.into_iter().find(|file| file.symlink_metadata().is_ok())
}

impl Board {
    /// A line for each person, with the points of each exercise and their sum.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut text = format!("person,{},points\n", self.ids.join(","));
        for (name, verdicts) in &self.people {
            text += &format!("{},{}\n", quoted(name), points(verdicts).join(","));
        }
        text
    }

    /// The same as a table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text =
            format!("| person | {} | points |\n|:--|{}--:|\n", self.ids.join(" | "), "--:|".repeat(self.ids.len()));
        for (name, verdicts) in &self.people {
            let name = name.replace('|', "\\|").replace(['<', '\n'], " ");
            text += &format!("| {name} | {} |\n", points(verdicts).join(" | "));
        }
        text
    }
}

fn points(verdicts: &[Verdict]) -> Vec<String> {
    let sum = verdicts.iter().map(Verdict::points).sum();
    verdicts.iter().map(Verdict::points).chain([sum]).map(|points| points.to_string()).collect()
}
