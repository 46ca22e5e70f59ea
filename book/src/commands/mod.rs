//! The commands that pages and README tell readers to type, run: `cargo run -p book -- --commands`.
//!
//! - [`typed`]: finds them, and what a page shows of their output
//! - [`way`]: how each is run, or why it is not: the one list of exceptions
//! - [`mod@run`]: runs one within its time and compares its output
//!
//! A command is known by its text. Typed on several pages, it runs once, and what each page shows of it is compared. What a page shows by
//! a generated part, the build makes and compares anyway: [`Choice::Rest`] leaves those commands out, for the checks of every commit.

pub mod run;
pub mod typed;
pub mod way;

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Book, BookError, README, check};
use run::{Outcome, Place};
use typed::Typed;
use way::Way;

/// Why commands could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum CommandsError {
    /// The pages can't be read.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The programs can't be found or built, or there is no place for what they write.
    #[error("{what}: {source}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
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

/// Which commands to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Commands with all of these words; all, if there are none.
    With(Vec<String>),
    /// Commands that stay below [`SHORT`], and that are run neither by the build itself nor by the tests of phase 5.
    Rest,
}

/// A command that takes longer on two cores says so on its page, and is then only run by hand.
pub const SHORT: Duration = Duration::from_secs(30);

/// The package whose own tests run its command with every table.
const TABLES: &str = "phase5-bench";

/// One command, wherever it is typed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The first time, in the order of the pages.
    pub typed: Typed,
    /// Parts of its output that the pages show, with their places.
    pub shown: Vec<(String, typed::Shown)>,
    /// How to run it.
    pub way: Way,
}

/// All commands of the pages and the README, each once, in the order of the files.
///
/// # Errors
/// [`BookError::Read`].
pub fn found(book: &Book) -> Result<Vec<Found>, BookError> {
    let mut texts = Vec::new();
    let readme = book.workspace().join(README);
    if readme.is_file() {
        texts.push((README.to_owned(), readme));
    }
    texts.extend(check::pages_below(&book.pages())?.into_iter().map(|page| (page.clone(), book.pages().join(page))));
    let mut found: Vec<Found> = Vec::new();
    let mut known = BTreeMap::new();
    for (page, path) in texts {
        for typed in typed::commands(&page, &crate::read(&path)?) {
            let place = format!("{page}:{}", typed.line);
            let at = *known.entry(typed.text.clone()).or_insert_with(|| {
                let way = way::of(&typed.text);
                found.push(Found { typed: typed.clone(), shown: Vec::new(), way });
                found.len() - 1
            });
            let first = &mut found[at].typed;
            // Any of the pages may say how long it takes.
            first.takes = first.takes.or(typed.takes);
            first.is_generated |= typed.is_generated;
            found[at].shown.extend(typed.shown.into_iter().map(|shown| (place.clone(), shown)));
        }
    }
    Ok(found)
}

impl Found {
    fn is_chosen(&self, choice: &Choice) -> bool {
        match choice {
            Choice::With(words) => words.iter().all(|word| self.typed.text.contains(word.as_str())),
            Choice::Rest => {
                let is_tabled = way::package(&self.typed.text) == Some(TABLES);
                !is_tabled && !self.typed.is_generated && self.typed.takes.is_none()
            }
        }
    }
}

/// Runs the chosen commands one after another, and passes each outcome to `tell`.
///
/// # Errors
/// Same as the variants of [`CommandsError`]: [`CommandsError::Failed`] after the last command.
pub fn run(book: &Book, choice: &Choice, mut tell: impl FnMut(&str) -> io::Result<()>) -> Result<(), CommandsError> {
    let found: Vec<Found> = found(book)?.into_iter().filter(|found| found.is_chosen(choice)).collect();
    if let (true, Choice::With(words)) = (found.is_empty(), choice) {
        return Err(CommandsError::None(words.join(" and ")));
    }
    let io = |what| move |source| CommandsError::Io { what, source };
    let programs = programs(&found)?;
    let folder = tempfile::tempdir().map_err(io("a folder for what the commands write"))?;
    let workspace = book.workspace();
    let place = Place::prepare(&workspace, &programs, folder.path()).map_err(io("files for the commands"))?;
    let mut count = BTreeMap::<&str, usize>::new();
    let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
    for one in &found {
        let outcome = match &one.way {
            Way::Elsewhere(reason) => Outcome::Elsewhere(reason),
            way => place.run(one, way).map_err(io("a command"))?,
        };
        let label = outcome.label();
        *count.entry(label).or_default() += 1;
        if let Outcome::Elsewhere(reason) = outcome {
            reasons.entry(reason).or_default().push(&one.typed.text);
            continue;
        }
        let (time, typed) = (outcome.time(), &one.typed);
        let line = format!("{label:>9}  {time}  {}  [{}:{}]\n", typed.text, typed.page, typed.line);
        tell(&line).map_err(io("standard output"))?;
        for detail in outcome.details() {
            tell(&format!("           {detail}\n")).map_err(io("standard output"))?;
        }
    }
    for (reason, commands) in &reasons {
        tell(&format!("not run, {reason}:\n")).map_err(io("standard output"))?;
        for command in commands {
            tell(&format!("           {command}\n")).map_err(io("standard output"))?;
        }
    }
    let of = |label: &str| count.get(label).copied().unwrap_or(0);
    let run = found.len() - of(Outcome::ELSEWHERE);
    let (compared, absent, failed) = (of(Outcome::COMPARED), of(Outcome::ELSEWHERE), of(Outcome::FAILED));
    tell(&format!(
        "{} commands: {run} run, of which {compared} have the output that pages show; {absent} not run, {failed} failed\n",
        found.len()
    ))
    .map_err(io("standard output"))?;
    if failed > 0 { Err(CommandsError::Failed { failed, run }) } else { Ok(()) }
}

/// The folder of the programs, which Cargo brings up to date if it started this one.
fn programs(found: &[Found]) -> Result<PathBuf, CommandsError> {
    let here = env::current_exe().map_err(|source| CommandsError::Io { what: "the folder of this program", source })?;
    let folder = here.parent().unwrap_or(Path::new(""));
    // A test's program is one folder further down.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    if let Some(cargo) = env::var_os("CARGO") {
        let mut packages: Vec<&str> = found.iter().filter_map(|found| way::package(&found.typed.text)).collect();
        // It is running, and some systems refuse to replace it.
        packages.retain(|package| *package != env!("CARGO_PKG_NAME"));
        packages.sort_unstable();
        packages.dedup();
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--bins"]).args(packages.iter().flat_map(|package| ["-p", package]));
        let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        let status = status.map_err(|source| CommandsError::Io { what: "`cargo build`", source })?;
        if !packages.is_empty() && !status.success() {
            return Err(CommandsError::Build);
        }
    }
    fs::canonicalize(folder).map_err(|source| CommandsError::Io { what: "the folder of this program", source })
}
