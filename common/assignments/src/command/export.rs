//! A starter repository for a class.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use bench::command::{self, Shell};

use super::{Session, compiler};
use crate::export::{Class, has_changes, write};

/// Arguments of `export`.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// An empty folder, or one to be made
    dir: PathBuf,
    /// Only these exercises, or those of a phase: guard,phase2
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<String>,
    /// Leave out the solutions, but not what they cost, which budgets are made of
    #[arg(long)]
    without_solutions: bool,
    /// URL from which students and the workflow clone the course
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

/// Writes the repository.
pub(crate) fn run(session: &Session, args: &ExportArgs, shell: &mut Shell) -> Result<()> {
    if args.without_solutions {
        compiler()?;
    }
    let known = Some(env!("CARGO_PKG_REPOSITORY")).filter(|url| !url.is_empty());
    let repository = args.repository.as_deref().or(known);
    let is_plain = |url: &str| url.chars().all(|c| c.is_ascii_alphanumeric() || ":/._-@~+%".contains(c));
    ensure!(repository.is_none_or(is_plain), "a repository's URL has no such characters");
    let exercises = session.only(&args.only)?;
    let class = Class { exercises: &exercises, only: &args.only, repository, with_solutions: !args.without_solutions };
    write(&class, &session.grader, &session.store, &args.dir)?;
    let dir = args.dir.display();
    shell.print(&format!(
        "{dir} has {}. Make it a repository and push it: its README tells students the rest.\n",
        match exercises.len() {
            1 => "1 exercise".to_owned(),
            many => format!("{many} exercises"),
        }
    ))?;
    if has_changes() {
        command::warn(
            "this checkout has changes that are not committed: the class has the exercises as they are here, but installs the \
             program of the last commit, and its workflow grades by the exercises of that commit. Commit and push, then export again",
        );
    }
    if repository.is_none() {
        shell.print("The address to clone the course from is not known: export again with --repository URL, or write it into README.md and\n.devcontainer/devcontainer.json and set the variable COURSE_REPOSITORY of your organisation's workflows.\n")?;
    }
    Ok(())
}
