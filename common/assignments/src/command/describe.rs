//! Page contents for each exercise of the book.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use bench::command::Shell;
use rayon::prelude::*;
use serde::Serialize;

use super::{Session, compiler};
use crate::exercise::{Exercise, Expected};
use crate::grade::{Verdict, quoted};
use crate::job::ShowRequest;
use crate::store;

/// All exercises, by id.
#[derive(Serialize)]
struct Described {
    exercises: BTreeMap<String, Page>,
}

/// One exercise.
#[derive(Serialize)]
struct Page {
    /// Skeleton that a reader starts from.
    skeleton: String,
    /// The verdict on the solution.
    passed: String,
    /// The first comment of a wrong submission.
    mistake: String,
    /// Verdict on the wrong submission.
    failed: String,
    /// Picture of the solution's kernel, as SVG.
    picture: Option<String>,
    /// Sizes that the picture is drawn at.
    sizes: String,
}

/// Prints them as JSON.
pub(crate) fn run(session: &Session, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let page = |exercise: &Exercise| Ok((exercise.id.clone(), page(session, exercise)?));
    let exercises = session.exercises.par_iter().map(page).collect::<Result<_>>()?;
    Ok(shell.print(&serde_json::to_string(&Described { exercises })?)?)
}

fn page(session: &Session, exercise: &Exercise) -> Result<Page> {
    let grade = |file| session.grader.grade(exercise, file);
    let (solution, skeleton) = (exercise.file("solution.cu"), store::skeleton(exercise)?);
    let (mistake, failed) = failure(session, exercise, &skeleton)?;
    let case = exercise.clearest_case();
    let request = ShowRequest { picture: None, sizes: case.clone(), block: [0; 3], line: None };
    let text = std::fs::read_to_string(&solution).with_context(|| format!("{} cannot be read", solution.display()))?;
    let picture = match session.grader.show(exercise, &text, request)? {
        Ok(shown) => shown.picture.ok(),
        Err(_) => None,
    };
    Ok(Page {
        skeleton,
        passed: grade(&solution)?.to_string(),
        mistake,
        failed,
        picture,
        sizes: crate::grade::sizes(case),
    })
}

/// The first comment of a wrong submission, and the verdict on it, which shows no line that a reader has yet to find.
fn failure(session: &Session, exercise: &Exercise, skeleton: &str) -> Result<(String, String)> {
    let mut names: Vec<(&String, &Expected)> = exercise.wrong.iter().collect();
    // A diagnostic says most, then a question.
    names.sort_by_key(|(_, Expected { part, asks, .. })| (part != "clean", part != "correct", asks.is_none()));
    for (name, _) in names {
        let file = exercise.dir.join("wrong").join(name);
        let failed = first_finding(&session.grader.grade(exercise, &file)?);
        if quoted(&failed).all(|line| skeleton.lines().any(|own| own.trim() == line)) {
            let text = std::fs::read_to_string(&file)?;
            let comment = text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim);
            return Ok((comment.collect::<Vec<_>>().join(" "), failed));
        }
    }
    bail!("{}: the verdict on each wrong submission shows a line that the skeleton does not have", exercise.id)
}

/// A verdict with the first of its diagnostics.
fn first_finding(verdict: &Verdict) -> String {
    let mut verdict = verdict.clone();
    for part in &mut verdict.parts {
        if let Some((first, _)) = part.detail.split_once("\n\n") {
            part.detail = format!("{first}\n…");
        }
    }
    verdict.to_string()
}
