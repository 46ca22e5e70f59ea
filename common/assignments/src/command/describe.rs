//! Page contents for each exercise of the book.

use std::collections::BTreeMap;

use anyhow::Result;
use assignments::exercise::Exercise;
use assignments::grade::Verdict;
use assignments::job::ShowRequest;
use assignments::store;
use bench::command::Shell;
use rayon::prelude::*;
use serde::Serialize;

use super::{Session, compiler, show::clearest_case};

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
    let solution = exercise.file("solution.cu");
    // One with a diagnostic says most.
    let wrong = exercise.wrong.iter();
    let (name, _) = wrong.max_by_key(|(name, expected)| (expected.part == "clean", std::cmp::Reverse(*name))).unzip();
    let wrong = exercise.dir.join("wrong").join(name.map_or("", String::as_str));
    let text = std::fs::read_to_string(&wrong)?;
    let comment = text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim);
    let case = clearest_case(exercise);
    let request = ShowRequest { picture: None, sizes: case.clone(), block: [0; 3], line: None };
    let picture = match session.grader.show(exercise, &solution, request)? {
        Ok(shown) => shown.picture.ok(),
        Err(_) => None,
    };
    Ok(Page {
        skeleton: store::skeleton(exercise)?,
        passed: grade(&solution)?.to_string(),
        mistake: comment.collect::<Vec<_>>().join(" "),
        failed: first_finding(&grade(&wrong)?),
        picture,
        sizes: assignments::grade::sizes(case),
    })
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
