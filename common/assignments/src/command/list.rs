//! Lists of exercises, and the next one to solve.

use anyhow::Result;
use bench::command::{self, Shell};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use common::progress::Progress;
use rayon::prelude::*;

use super::{Session, compiler};
use crate::exercise::Exercise;

const ID: ColumnSpec = ColumnSpec::text("exercise", "exercise");
const STATE: ColumnSpec = ColumnSpec::text("state", "state");
const POINTS: ColumnSpec = ColumnSpec::text("points", "points");
const TITLE: ColumnSpec = ColumnSpec::text("title", "title");

/// All exercises, or those of these phases and ids, with their points.
pub(crate) fn list(session: &Session, only: &[String], shell: &mut Shell) -> Result<()> {
    let exercises = session.only(only)?;
    let known: Vec<_> = exercises.iter().map(|exercise| session.store.known(exercise)).collect();
    let unknown = exercises.iter().zip(&known).filter(|(_, known)| known.is_none());
    let unknown: Vec<&Exercise> = unknown.map(|(exercise, _)| *exercise).collect();
    let absent = if unknown.is_empty() { None } else { compiler().err().map(|error| error.to_string()) };
    if absent.is_none() {
        let bar = Progress::new(unknown.len() as u64, "checking");
        unknown.par_iter().try_for_each(|exercise| {
            session.check(exercise)?;
            bar.inc(1);
            anyhow::Ok(())
        })?;
    }
    let known: Vec<_> = exercises.iter().map(|exercise| session.store.known(exercise)).collect();
    let widest = exercises.iter().map(|exercise| exercise.id.len()).max().unwrap_or(0).max(8);
    let mut table = TableBuilder::of("exercises", [ID, STATE, POINTS, TITLE]);
    let (mut passed, mut points, mut full, mut given_away, mut next) = (0, 0, 0, 0, None);
    for (exercise, known) in exercises.iter().zip(&known) {
        let is_passed = known.as_ref().is_some_and(|known| known.passed());
        let state = match known {
            Some(_) if is_passed => "passed",
            Some(_) if next.is_none() => {
                next = Some(&exercise.id);
                "next"
            }
            Some(known) if known.points > 0 && session.store.is_untouched(exercise) => {
                given_away += known.points;
                "given"
            }
            _ => "",
        };
        let of = known.as_ref().map_or(exercise.full(), |known| known.full);
        let given = match known {
            Some(known) => format!("{} of {of}", known.points).into(),
            None => Cell::absent(absent.clone().unwrap_or_default()),
        };
        passed += usize::from(is_passed);
        points += known.as_ref().map_or(0, |known| known.points);
        full += of;
        let title = clipped(&exercise.title, shell.terminal().width.saturating_sub(widest + FRAME).max(SHORTEST));
        table.row().set(ID, &*exercise.id).set(STATE, state).set(POINTS, given).set(TITLE, title).complete();
    }
    if absent.is_none() {
        table.note(format!("{passed} of {} exercises passed, {points} of {full} points.", known.len()));
    }
    if given_away > 0 {
        table.note(format!(
            "given: {given_away} of the points are for parts that are right before you have edited the file."
        ));
    }
    Ok(shell.table(&table.finish())?)
}

/// Width of the other columns and the lines between them.
const FRAME: usize = 27;

/// Minimum width of a title.
const SHORTEST: usize = 16;

/// The title, clipped to `width` characters.
pub(crate) fn clipped(title: &str, width: usize) -> String {
    match title.char_indices().nth(width) {
        None => title.to_owned(),
        Some(_) => title.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The first exercise that does not pass: what to do, and where.
pub(crate) fn next(session: &Session, shell: &mut Shell) -> Result<()> {
    match session.next()? {
        None => Ok(shell.print("All exercises pass.\n")?),
        Some(exercise) => {
            shell.print_wrapped(&introduction(exercise))?;
            if let Err(missing) = compiler() {
                command::warn(missing);
            }
            Ok(())
        }
    }
}

/// Introduction to an exercise: title, goal and page.
pub(crate) fn introduction(exercise: &Exercise) -> String {
    let Exercise { id, title, goal, page, .. } = exercise;
    let file = exercise.file("exercise.cu");
    let file = file.display();
    format!(
        "{id}: {title}\n\n{goal}\n\n  edit:  {file}\n  page:  book/pages/{page}\n  then:  cargo run -p assignments -- check {id}\n"
    )
}
