//! Sections of the exercises in the pages: task, hints, and `check`'s verdicts on the solution and on a mistake.
//!
//! Verdicts and pictures come from the compiler and the simulator, and so differ between versions of NVRTC. They are made and
//! checked with the version that the course names, and left unchanged with any other or none.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    ffi::OsString,
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use assignments::{
    exercise::{self, Exercise},
    store,
};
use common::probe::{self, Library};
use serde::Deserialize;

use crate::content::{Content, Picture, Produced};

/// Version of NVRTC that the verdicts and pictures come from.
const COMPILER: &str = "13.0";

/// Output of `assignments describe`.
#[derive(Debug, Deserialize)]
struct Described {
    exercises: BTreeMap<String, Page>,
}

/// Output for one exercise.
#[derive(Debug, Deserialize)]
struct Page {
    skeleton: String,
    passed: String,
    mistake: String,
    failed: String,
    picture: Option<String>,
    sizes: String,
}

/// The section of an exercise. The argument is its id.
pub fn section(workspace: &Path, id: &str) -> Produced {
    let Some(described) = described(workspace)? else { return Ok(Content::Kept(None)) };
    let exercise = find(workspace, id)?;
    Ok(text(&exercise, of(&described, id)?, workspace).into())
}

/// Drawing of the solution of an exercise. The argument is its id.
pub fn picture(workspace: &Path, id: &str) -> Produced {
    let name = format!("exercise-{id}");
    let Some(described) = described(workspace)? else { return Ok(Content::Kept(Some(name))) };
    let page = of(&described, id)?;
    let svg = page.picture.clone().ok_or_else(|| format!("the solution of `{id}` cannot be drawn"))?;
    let caption = format!("What <code>show {id}</code> draws of the solution, at {}.", page.sizes);
    // It shows lines of the solution.
    let folded = Some("A picture of the solution");
    Ok(Picture { name, class: "trace exercise", svg, caption, folded }.into())
}

/// A table of all exercises; links are for a page in the pages' own folder.
pub fn table(workspace: &Path) -> Produced {
    let mut text = "| exercise | what is to be done |\n| --- | --- |\n".to_owned();
    for exercise in exercise::all(workspace)? {
        let Exercise { id, title, page, .. } = &exercise;
        let _ = writeln!(text, "| [{id}]({page}#exercise-{id}) | {} |", escaped(title));
    }
    Ok(text.into())
}

fn text(exercise: &Exercise, page: &Page, workspace: &Path) -> String {
    let Exercise { id, title, goal, points, hints, .. } = exercise;
    let folder = exercise.dir.strip_prefix(workspace).unwrap_or(&exercise.dir);
    let file = folder.join("exercise.cu").display().to_string().replace('\\', "/");
    let mut text = format!("### Exercise: {} {{#exercise-{id}}}\n\n{goal}\n\n", escaped(title));
    let _ = writeln!(
        text,
        "`{file}` has {} points: {} for right values, {} for a clean run, {} for its costs.\n",
        exercise.full(),
        points.correct,
        points.clean,
        points.budget
    );
    let _ = writeln!(text, "```cpp\n{}\n```\n", page.skeleton.trim_end());
    let folded = |text: &mut String, summary: &str, body: &str| {
        let _ = writeln!(text, "<details><summary>{summary}</summary>\n\n{}\n\n</details>\n", body.trim_end());
    };
    for (number, hint) in (1..).zip(hints) {
        folded(&mut text, &format!("Hint {number} of {}", hints.len()), &escaped(hint));
    }
    let shown =
        |verdict: &str| format!("```text\n$ cargo run -p assignments -- check {id}\n{}\n```", verdict.trim_end());
    folded(&mut text, "What a pass looks like", &shown(&page.passed));
    let failed = format!("{}\n\n{}", escaped(&page.mistake), shown(&page.failed));
    folded(&mut text, "What a failure looks like", &failed);
    text
}

/// The skeleton in the section that [`section`] made of an exercise; empty if the page has none. A reader may have edited the file.
pub(crate) fn skeleton<'a>(page: &'a str, id: &str) -> &'a str {
    let section = page.split_once(&format!("{{#exercise-{id}}}")).map_or("", |(_, section)| section);
    let code = section.split_once("```cpp\n").map_or("", |(_, code)| code);
    code.split_once("\n```").map_or("", |(skeleton, _)| skeleton)
}

/// Plain text with code between backticks as Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let mut in_code = false;
    let mut markdown = String::with_capacity(text.len());
    for c in text.chars() {
        in_code ^= c == '`';
        if !in_code && matches!(c, '[' | ']' | '*' | '_' | '<' | '>' | '\\' | '|') {
            markdown.push('\\');
        }
        markdown.push(c);
    }
    markdown
}

/// The exercise of that id; `Err`: why there is none, in a sentence.
pub(crate) fn find(workspace: &Path, id: &str) -> Result<Exercise, String> {
    let exercises = exercise::all(workspace).map_err(|error| format!("{error:#}"))?;
    exercises.into_iter().find(|exercise| exercise.id == id).ok_or_else(|| format!("there is no exercise `{id}`"))
}

fn of<'a>(described: &'a Described, id: &str) -> Result<&'a Page, String> {
    described.exercises.get(id).ok_or_else(|| format!("there is no exercise `{id}`"))
}

/// Whether the verdicts' compiler is available; `REQUIRE_NVRTC` requires it in any case.
fn is_compiler_here() -> bool {
    let nvrtc = || probe::report().into_iter().find(|component| component.name == Library::Nvrtc.name());
    env::var_os("REQUIRE_NVRTC").is_some() || nvrtc().and_then(|nvrtc| nvrtc.version).as_deref() == Some(COMPILER)
}

/// Output of `assignments describe` for a workspace, run once; `None` if the compiler is not the course's.
fn described(workspace: &Path) -> Result<Option<Arc<Described>>, String> {
    static KNOWN: LazyLock<Mutex<HashMap<PathBuf, Arc<Described>>>> = LazyLock::new(Mutex::default);
    if !is_compiler_here() {
        return Ok(None);
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(described) = known.get(workspace) {
        return Ok(Some(described.clone()));
    }
    let printed = assignments(workspace, workspace, &["describe", "--seed", "1"])?;
    let described: Arc<Described> = Arc::new(serde_json::from_str(&printed).map_err(|error| error.to_string())?);
    known.insert(workspace.to_owned(), described.clone());
    Ok(Some(described))
}

/// Output of the command in `folder`. An exercise that does not pass is not a failure.
fn assignments(workspace: &Path, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--bin", "assignments", "--manifest-path"])
        .arg(workspace.join("Cargo.toml"))
        .arg("--")
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A class of four, from the instructor's side: the handouts, and the board of the results.
pub fn class(workspace: &Path) -> Produced {
    const EXERCISES: &str = "guard,grid-stride,two-dimensions";
    // Of each exercise in turn: a file in its folder, or nothing.
    const HANDED_IN: [(&str, [&str; 3]); 4] = [
        ("ada", ["solution.cu", "solution.cu", "solution.cu"]),
        ("ben", ["solution.cu", "wrong/runs.cu", "wrong/by_rows.cu"]),
        ("chen", ["solution.cu", "wrong/no_guard.cu", ""]),
        ("dora", ["wrong/off_by_one.cu", "exercise.cu", ""]),
    ];
    if !is_compiler_here() {
        return Ok(Content::Kept(None));
    }
    // In the workspace if possible: NVRTC may be in a virtual environment there, which is looked for from the current folder upwards.
    let folder = tempfile::tempdir_in(workspace.join("target")).or_else(|_| tempfile::tempdir())?;
    for (student, files) in HANDED_IN {
        let theirs = folder.path().join("handed-in").join(student);
        std::fs::create_dir_all(&theirs)?;
        for (id, file) in EXERCISES.split(',').zip(files) {
            let exercise = find(workspace, id)?;
            match file {
                "" => {}
                "exercise.cu" => std::fs::write(theirs.join(format!("{id}.cu")), store::skeleton(&exercise)?)?,
                _ => drop(std::fs::copy(exercise.file(file), theirs.join(format!("{id}.cu")))?),
            }
        }
    }
    let mut session = String::new();
    for arguments in [
        ["export", "class", "--only", EXERCISES, "--without-solutions"].as_slice(),
        ["submissions", "handed-in", "--only", EXERCISES, "--seed", "1"].as_slice(),
    ] {
        let printed = assignments(workspace, folder.path(), arguments)?;
        let _ = writeln!(session, "$ cargo run -p assignments -- {}\n{}\n", arguments.join(" "), printed.trim_end());
    }
    Ok(format!("```text\n{}\n```", session.trim_end()).into())
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_markdown_would_take_for_markup_is_escaped_outside_code() {
        assert_eq!(escaped("tile[r][c] and `tile[r][c]`, a_b"), "tile\\[r\\]\\[c\\] and `tile[r][c]`, a\\_b");
    }
}
