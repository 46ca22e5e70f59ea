//! A starter repository for a class.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bench::json;
use bench::table::{Cell, ColumnSpec, TableBuilder};
use common::probe::COMPILER_WHEELS;
use serde_json::json;

use crate::exercise::{self, Count, Exercise, REFERENCE};
use crate::grade::Grader;
use crate::store::{self, Store};
use crate::tasks::Task;

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const README: &str = include_str!("export/README.md");
const WORKFLOW: &str = include_str!("export/grade.yml");

const EXERCISE: ColumnSpec = ColumnSpec::text("exercise", "exercise");
const TITLE: ColumnSpec = ColumnSpec::text("title", "title");
const POINTS: ColumnSpec = ColumnSpec::number("points", "points", 0);
const FOLDER: ColumnSpec = ColumnSpec::text("folder", "folder");

/// Contents of a class's repository.
pub struct Class<'a> {
    /// In order.
    pub exercises: &'a [&'a Exercise],
    /// The words that chose them; none for all.
    pub only: &'a [String],
    /// URL from which the course can be cloned.
    pub repository: Option<&'a str>,
    /// Whether solutions are handed out.
    pub with_solutions: bool,
}

/// Writes the repository: a README, a workflow that grades, and untouched copies of the exercises.
///
/// # Errors
/// If the folder is not empty or cannot be written, or a solution whose costs must be told does not run.
pub fn write(class: &Class, grader: &Grader, store: &Store, dir: &Path) -> Result<()> {
    let is_empty = std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty", dir.display());
    // Written beside it and renamed: what is interrupted leaves no half of a class.
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("{} cannot be made", dir.display());
    std::fs::create_dir_all(parent).with_context(cannot)?;
    let unfinished = tempfile::Builder::new().prefix(".class-").tempdir_in(parent).with_context(cannot)?;
    write_into(class, grader, store, unfinished.path())?;
    let _ = std::fs::remove_dir(dir);
    std::fs::rename(unfinished.path(), dir).with_context(cannot)?;
    // Renamed: there is nothing left to delete.
    let _ = unfinished.keep();
    Ok(())
}

fn write_into(class: &Class, grader: &Grader, store: &Store, dir: &Path) -> Result<()> {
    for exercise in class.exercises {
        let folder = dir.join(exercise.place());
        put(&folder.join("exercise.cu"), &store.pristine(exercise)?)?;
        put(&folder.join("exercise.toml"), description(class, exercise, grader)?.as_bytes())?;
        if let Task::Described { reference, .. } = &exercise.task {
            put(&folder.join(REFERENCE), reference.text.as_bytes())?;
        }
        if class.with_solutions {
            put(&folder.join("solution.cu"), &read(&exercise.file("solution.cu"))?)?;
        }
    }
    let revision = in_course(&["rev-parse", "HEAD"]);
    let repository = class.repository.unwrap_or("URL-OF-THE-COURSE");
    let install = Install::find(revision.clone());
    let readme = install
        .readme(README, repository)
        .replace("{repository}", repository)
        .replace("{exercises}", &table(class.exercises));
    put(&dir.join("README.md"), readme.as_bytes())?;
    let only = if class.only.is_empty() { String::new() } else { format!(" --only {}", class.only.join(",")) };
    let workflow = WORKFLOW
        .replace("{install}", &install.commands("\"$COURSE\"").join("\n          "))
        .replace("{repository}", class.repository.unwrap_or("${{ vars.COURSE_REPOSITORY }}"))
        .replace("{revision}", revision.as_deref().unwrap_or("HEAD"))
        .replace("{only}", &only);
    put(&dir.join(".github/workflows/grade.yml"), workflow.as_bytes())?;
    put(&dir.join(".devcontainer/devcontainer.json"), json::to_string(&install.container(repository)).as_bytes())?;
    put(&dir.join(".gitignore"), b"/target\n/.venv\n")
}

/// How a class installs this program and the compiler for its kernels.
enum Install {
    /// From PyPI, this very version.
    Published,
    /// Built from a commit of the course; the newest if it is not known.
    Built { revision: Option<String> },
}

impl Install {
    /// From PyPI if this very version was published, or the exercises are not in a checkout of the course, whose commits have the program.
    fn find(revision: Option<String>) -> Install {
        let tags = in_course(&["tag", "--points-at", "HEAD"]).unwrap_or_default();
        let is_published = tags.lines().any(|tag| tag.strip_prefix('v') == Some(VERSION));
        let is_course = exercise::root().is_ok_and(|root| root.join("common/assignments").is_dir());
        if is_published || !is_course { Install::Published } else { Install::Built { revision } }
    }

    /// Commands in an environment of Python. The course is cloned from `repository`.
    fn commands(&self, repository: &str) -> Vec<String> {
        match self {
            Install::Published => vec![format!("pip install warp-by-warp=={VERSION}")],
            Install::Built { revision } => {
                let at = revision.as_ref().map_or(String::new(), |revision| format!(" --rev {revision}"));
                vec![
                    format!("pip install {COMPILER_WHEELS}"),
                    format!("cargo install --locked --no-default-features --git {repository}{at} assignments"),
                ]
            }
        }
    }

    /// The README's part on it, filled in.
    fn readme(&self, template: &str, repository: &str) -> String {
        let (needs, in_place) = match self {
            Install::Published => ("Python", ""),
            Install::Built { .. } => {
                ("git, [Rust](https://rustup.rs), Python and a C linker", ", in place of the line with `cuda-toolkit`")
            }
        };
        let install = self.commands(repository).join("\n");
        template.replace("{needs}", needs).replace("{in_place}", in_place).replace("{install}", &install)
    }

    /// The container for Codespaces and editors.
    fn container(&self, repository: &str) -> serde_json::Value {
        let features = match self {
            Install::Published => json!({}),
            Install::Built { .. } => json!({ "ghcr.io/devcontainers/features/rust:1": {} }),
        };
        json!({
            "name": "CUDA exercises",
            "image": "mcr.microsoft.com/devcontainers/python:3.13",
            "features": features,
            "postCreateCommand": self.commands(repository).join(" && "),
        })
    }
}

/// `exercise.toml` without what only authors need.
fn description(class: &Class, exercise: &Exercise, grader: &Grader) -> Result<String> {
    let text = String::from_utf8(read(&exercise.file("exercise.toml"))?)?;
    let mut table: toml::Table = toml::from_str(&text)?;
    table.remove("wrong");
    table.remove("survivors");
    if let Some(toml::Value::Array(before)) = table.get_mut("prerequisites") {
        before.retain(|id| class.exercises.iter().any(|exercise| id.as_str() == Some(&exercise.id)));
    }
    if !class.with_solutions {
        table.insert("costs".to_owned(), toml::Value::try_from(costs(exercise, grader)?)?);
    }
    Ok(toml::to_string_pretty(&table)?)
}

/// Maximum costs of the solution: some costs depend on the inputs.
fn costs(exercise: &Exercise, grader: &Grader) -> Result<BTreeMap<Count, u64>> {
    let mut most = BTreeMap::new();
    for seed in 1..=4 {
        for (count, value) in Grader::new(grader.program.clone(), Some(seed)).solution(exercise)? {
            let most = most.entry(count).or_insert(0);
            *most = value.max(*most);
        }
    }
    Ok(most)
}

fn table(exercises: &[&Exercise]) -> String {
    let mut table = TableBuilder::of("Exercises", [EXERCISE, TITLE, POINTS, FOLDER]);
    for exercise in exercises {
        let folder = exercise.place().to_string_lossy().replace('\\', "/");
        let row = table.row().set(EXERCISE, format!("`{}`", exercise.id)).set(TITLE, &*exercise.title);
        row.set(POINTS, Cell::Number(exercise.full().into())).set(FOLDER, format!("[{folder}]({folder})")).complete();
    }
    table.finish().to_markdown()
}

/// Whether the exercises, or the program that judges them, have changes that the commit lacks.
pub fn has_changes() -> bool {
    in_course(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty())
}

/// Output of git in the exercises' checkout, without the last line end.
fn in_course(args: &[&str]) -> Option<String> {
    let text = String::from_utf8(store::git(&exercise::root().ok()?, args)?).ok()?;
    Some(text.trim().to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
