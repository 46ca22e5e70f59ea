//! The commands that pages and README tell readers to type, run: `cargo run -p book -- --commands`.
//!
//! - [`typed`]: finds them, and what a page shows of their output
//! - [`way`]: how each is run, or why it is not: the one list of exceptions
//! - `run`: runs one within its time and compares its output
//!
//! A command is known by its text. Typed on several pages, it runs once, and what each page shows of it is compared.

mod run;
pub mod typed;
pub mod way;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Book, BookError, check};
use run::{Outcome, Place};
use typed::Typed;
use way::Way;

/// Why commands could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum CommandsError {
    /// The pages can't be read.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The programs can't be found, built or started, or there is no place for what they write.
    #[error("cannot run the commands: {0}")]
    Io(#[from] io::Error),
    /// Cargo built nothing.
    #[error("`cargo build` of the course's programs failed")]
    Build,
    /// No command has all of the words.
    #[error("no page has a command with {0}")]
    None(String),
    /// Some failed; each has been reported.
    #[error("{failed} of {run} commands failed")]
    Failed {
        /// Number of them.
        failed: usize,
        /// Number of commands that were run.
        run: usize,
    },
}

/// Time on two cores within which a command ends whose page does not say how long it takes.
const SHORT: Duration = Duration::from_secs(30);

/// One command, wherever it is typed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The first time, in the order of the pages, with what all pages show of its output.
    pub typed: Typed,
    /// How to run it.
    pub way: Way,
}

/// All commands of the pages and the README, each once, in the order of the files.
///
/// # Errors
/// [`BookError::Read`].
pub fn found(book: &Book) -> Result<Vec<Found>, BookError> {
    let mut texts = Vec::from_iter(book.readme()?);
    for page in check::pages_below(&book.pages())? {
        let text = crate::read(&book.pages().join(&page))?;
        texts.push((page, text));
    }
    let mut found: Vec<Found> = Vec::new();
    for typed in texts.iter().flat_map(|(page, text)| typed::commands(page, text)) {
        match found.iter_mut().find(|known| known.typed.text == typed.text) {
            Some(Found { typed: first, .. }) => {
                // Any of the pages may say how long it takes.
                first.takes = first.takes.or(typed.takes);
                first.shown.extend(typed.shown);
            }
            None => found.push(Found { way: way::of(&typed.text), typed }),
        }
    }
    Ok(found)
}

/// Runs the commands with all of these words one after another, and passes each outcome to `tell`.
///
/// # Errors
/// Same as the variants of [`CommandsError`]: [`CommandsError::Failed`] after the last command.
pub fn run(book: &Book, words: &[String], mut tell: impl FnMut(&str) -> io::Result<()>) -> Result<(), CommandsError> {
    let mut found = found(book)?;
    found.retain(|found| words.iter().all(|word| found.typed.text.contains(word.as_str())));
    if found.is_empty() {
        return Err(CommandsError::None(words.join(" and ")));
    }
    let programs = programs(&found)?;
    let folder = tempfile::tempdir()?;
    let workspace = book.workspace();
    let place = Place::prepare(&workspace, &programs, folder.path())?;
    let (mut compared, mut absent, mut failed) = (0, 0, 0);
    let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
    for one in &found {
        let typed = &one.typed;
        if let Way::Elsewhere(reason) = one.way {
            absent += 1;
            reasons.entry(reason).or_default().push(&typed.text);
            continue;
        }
        let outcome = place.run(one)?;
        let label = match &outcome {
            Outcome { errors, .. } if !errors.is_empty() => {
                failed += 1;
                "FAILED"
            }
            Outcome { time: None, .. } => "tested",
            Outcome { compared: 0, .. } => "ran",
            _ => {
                compared += 1;
                "compared"
            }
        };
        let time = outcome.time.map_or(" ".repeat(8), |time| format!("{:6.1} s", time.as_secs_f64()));
        tell(&format!("{label:>9}  {time}  {}  [{}:{}]\n", typed.text, typed.page, typed.line))?;
        outcome.errors.iter().try_for_each(|error| tell(&format!("           {error}\n")))?;
    }
    for (reason, commands) in &reasons {
        tell(&format!("not run, {reason}:\n"))?;
        commands.iter().try_for_each(|command| tell(&format!("           {command}\n")))?;
    }
    let (count, run) = (found.len(), found.len() - absent);
    tell(&format!(
        "{count} commands: {run} run, of which {compared} have the output that pages show; {absent} not run, {failed} failed\n"
    ))?;
    if failed > 0 { Err(CommandsError::Failed { failed, run }) } else { Ok(()) }
}

/// The folder of the programs, which Cargo brings up to date if it started this one.
fn programs(found: &[Found]) -> Result<PathBuf, CommandsError> {
    let here = env::current_exe()?;
    let folder = here.parent().unwrap_or(Path::new(""));
    // A test's program is one folder further down.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    if let Some(cargo) = env::var_os("CARGO") {
        let packages = found.iter().filter_map(|found| way::package(&found.typed.text));
        // This one is running, and some systems refuse to replace it.
        let packages: BTreeSet<&str> = packages.filter(|package| *package != env!("CARGO_PKG_NAME")).collect();
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--bins"]).args(packages.iter().flat_map(|package| ["-p", package]));
        if !packages.is_empty() && !build.current_dir(env!("CARGO_MANIFEST_DIR")).status()?.success() {
            return Err(CommandsError::Build);
        }
    }
    Ok(fs::canonicalize(folder)?)
}
