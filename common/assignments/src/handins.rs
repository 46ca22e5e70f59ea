//! Hand-ins of a class as learning systems and people leave them: who handed in what.
//!
//! | layout | person |
//! | --- | --- |
//! | `PERSON/…` | the folder's name |
//! | `NAME_123_assignsubmission_file_/…`, or `NAME_123_assignsubmission_file_guard.cu`, Moodle's | `NAME`, participant 123 |
//! | `name_123_456_guard.cu`, Canvas' flat folder; `_LATE` may follow the name | `name`, user 123 |
//!
//! In a person's folder the answer to the exercise `guard` is `guard.cu`, or `exercise.cu` in a folder as in this repository. If
//! there is neither, the one file whose name means the same is taken: `Guard (1).cu`, `homework/guard.cu`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::exercise::{self, Exercise, REFERENCE};

/// Maximum depth of folders below a person's, and number of files among which an answer is looked for.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 2000;

/// A person, and where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Name on the board.
    pub name: String,
    /// Number in Moodle or Canvas.
    pub number: Option<String>,
    files: Files,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Files {
    Folder(PathBuf),
    /// The folder is a link, which could lead to the files of another.
    Linked,
    /// By the name that the person gave each.
    Flat(BTreeMap<String, PathBuf>),
}

/// Answer to an exercise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file.
    File(PathBuf),
    /// There is none.
    Missing,
    /// Reason, in a sentence, why none of what is there is taken.
    Refused(String),
}

/// The people of a class, by name.
///
/// # Errors
/// If the folder cannot be read, or holds nobody's hand-ins.
pub fn people(dir: &Path) -> Result<Vec<Person>> {
    let dir = dir.canonicalize().with_context(|| format!("{} cannot be read", dir.display()))?;
    let (mut people, mut flat) = (Vec::new(), BTreeMap::<(String, String), BTreeMap<String, PathBuf>>::new());
    ensure!(
        !exercise::is_root(&dir),
        "{}: these are one person's exercises: `grade FOLDER` grades them, and `submissions` a folder of such folders",
        dir.display()
    );
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if is_of_system(&name) || (name.ends_with("_assignsubmission_onlinetext_") && has_files(&dir, &name)) {
            continue;
        }
        if path.is_dir() {
            let files = if entry.file_type()?.is_symlink() { Files::Linked } else { Files::Folder(path) };
            let (name, number) = of_moodle(&name).unwrap_or((name, None));
            people.push(Person { name, number, files });
        } else if let Some((person, file)) = of_canvas(&name).or_else(|| of_flat_moodle(&name)) {
            flat.entry(person).or_default().insert(file, path);
        }
    }
    let of_flat = |((name, number), files)| Person { name, number: Some(number), files: Files::Flat(files) };
    people.extend(flat.into_iter().map(of_flat));
    ensure!(
        !people.is_empty(),
        "{}: nobody handed anything in there: a folder for each person is expected, with files such as guard.cu, or the \
         files of Canvas, such as lovelaceada_12_345_guard.cu",
        dir.display()
    );
    people.sort_by(|a, b| (&a.name, &a.number).cmp(&(&b.name, &b.number)));
    // Two of one name are told apart by their numbers.
    let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
    for person in &mut people {
        let same = names.iter().filter(|name| **name == person.name).count();
        if let Some(number) = person.number.as_ref().filter(|_| same > 1) {
            person.name = format!("{} ({number})", person.name);
        }
    }
    Ok(people)
}

/// Whether a file or folder is one that a system keeps beside others: `.git`, `__MACOSX`, `._guard.cu`.
fn is_of_system(name: &str) -> bool {
    name.starts_with('.') || name == "__MACOSX"
}

/// Whether a person with this folder of online text handed in files as well.
fn has_files(dir: &Path, online_text: &str) -> bool {
    dir.join(online_text.replace("_onlinetext_", "_file_")).is_dir()
}

/// `Ada Lovelace_123_assignsubmission_file_guard.cu`: person and number, and the file's own name.
fn of_flat_moodle(name: &str) -> Option<((String, String), String)> {
    let (_, file) = name.split_once("_assignsubmission_file_")?;
    let (person, number) = of_moodle(name)?;
    is_kernel(Path::new(file)).then(|| ((person, number.unwrap_or_default()), file.to_owned()))
}

/// `Ada Lovelace_123_assignsubmission_file_`.
fn of_moodle(name: &str) -> Option<(String, Option<String>)> {
    let (rest, _) = name.split_once("_assignsubmission_")?;
    let (name, number) = rest.rsplit_once('_')?;
    is_number(number).then(|| (name.to_owned(), Some(number.to_owned())))
}

/// `lovelaceada_LATE_123_456_guard.cu`: person and number, and the file's own name.
fn of_canvas(name: &str) -> Option<((String, String), String)> {
    let (person, rest) = name.split_once('_')?;
    let rest = rest.strip_prefix("LATE_").unwrap_or(rest);
    let mut parts = rest.splitn(3, '_');
    let [user, attachment, file] = [parts.next()?, parts.next()?, parts.next()?];
    let is_one = is_number(user) && is_number(attachment) && is_kernel(Path::new(file));
    is_one.then(|| ((person.to_owned(), user.to_owned()), file.to_owned()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_kernel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("cu"))
}

impl Person {
    /// Files that are someone's, in a folder as for [`people`].
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn of_folder(folder: &Path) -> Result<Person> {
        let folder = folder.canonicalize().with_context(|| format!("{} cannot be read", folder.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Person { name, number: None, files: Files::Folder(folder) })
    }

    /// Answers to these exercises, in order, and the kernels that belong to none of `all`, by their names.
    pub fn answers(&self, exercises: &[&Exercise], all: &[Exercise]) -> (Vec<Answer>, Vec<String>) {
        let (folder, files) = match &self.files {
            Files::Linked => {
                let refused = Answer::Refused("The folder is a link, which is not allowed.".to_owned());
                return (vec![refused; exercises.len()], Vec::new());
            }
            Files::Folder(folder) => {
                let mut files = BTreeMap::new();
                find(folder, folder, 0, &mut files);
                (Some(folder.as_path()), files)
            }
            Files::Flat(files) => (None, files.clone()),
        };
        let answers: Vec<Answer> = exercises.iter().map(|exercise| answer(exercise, folder, &files)).collect();
        let is_unknown = |(file, path): &(&String, &PathBuf)| {
            !answers.contains(&Answer::File((*path).clone()))
                && !all.iter().any(|exercise| means(file, exercise) || is_ours(file, exercise))
        };
        let unknown = files.iter().filter(is_unknown).map(|(file, _)| file.clone()).collect();
        (answers, unknown)
    }
}

/// The kernels below a folder, by their paths from `root`. Links are not followed.
fn find(root: &Path, folder: &Path, depth: usize, files: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if is_of_system(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if kind.is_dir() && depth < MAX_DEPTH {
            find(root, &path, depth + 1, files);
        } else if kind.is_file() && is_kernel(&path) && files.len() < MAX_FILES {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.insert(name, path);
        }
    }
}

fn answer(exercise: &Exercise, folder: Option<&Path>, files: &BTreeMap<String, PathBuf>) -> Answer {
    let name = format!("{}.cu", exercise.id);
    if let Some(folder) = folder {
        // What is called as it should be is the answer, whatever else is there.
        let exact = [folder.join(&name), folder.join(exercise.place()).join("exercise.cu")];
        if let Some(file) = exact.into_iter().find(|file| file.symlink_metadata().is_ok()) {
            // A link could lead to a file that is not the person's.
            return if file.canonicalize().ok().as_ref() == Some(&file) {
                Answer::File(file)
            } else {
                Answer::Refused("The file is a link, which is not allowed.".to_owned())
            };
        }
    }
    let mut meant: Vec<(&String, &PathBuf)> = files.iter().filter(|(file, _)| means(file, exercise)).collect();
    if meant.is_empty() {
        meant = files.iter().filter(|(file, path)| is_nameless(file) && defines(path, &exercise.kernel)).collect();
    }
    match meant[..] {
        [] => Answer::Missing,
        [(_, path)] => Answer::File(path.clone()),
        _ => {
            let names: Vec<&str> = meant.iter().map(|(file, _)| file.as_str()).collect();
            Answer::Refused(format!("Several files may be meant ({}): one should be called {name}.", names.join(", ")))
        }
    }
}

/// Whether a file has the name that all exercises' files have, without the folder that says whose it is.
fn is_nameless(file: &str) -> bool {
    let path = Path::new(file);
    let is_ours = |folder: &Path| folder.parent().is_some_and(|folder| folder.ends_with("exercises"));
    stem(path).strip_prefix("exercise").is_some_and(is_added) && !path.parent().is_some_and(is_ours)
}

/// Whether the text of a file defines a kernel of that name.
fn defines(file: &Path, kernel: &str) -> bool {
    crate::grade::read(file).is_ok_and(|text| text.is_ok_and(|text| text.contains(&format!("void {kernel}("))))
}

/// Whether a file with this path was handed out with an exercise, and is no answer.
fn is_ours(file: &str, exercise: &Exercise) -> bool {
    let path = Path::new(file);
    path.parent().is_some_and(|folder| folder.file_name() == exercise.dir.file_name())
        && (path.ends_with("solution.cu") || path.ends_with(REFERENCE))
}

/// Whether a file with this path can only be meant for the exercise: by its own name, or by that of its folder.
fn means(file: &str, exercise: &Exercise) -> bool {
    let path = Path::new(file);
    let stem = stem(path);
    if stem == "exercise" {
        return path.parent().is_some_and(|folder| folder.file_name() == exercise.dir.file_name());
    }
    stem.strip_prefix(&exercise.id).is_some_and(is_added)
}

/// The name without its ending, as people mean it.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase().replace(['_', ' '], "-")
}

/// Whether browsers and file managers add this to a name: `guard (1)`, `guard-1`, `guard - Copy`.
fn is_added(rest: &str) -> bool {
    let rest = rest.trim_matches(['-', '(', ')']);
    rest.is_empty() || rest == "copy" || is_number(rest)
}
