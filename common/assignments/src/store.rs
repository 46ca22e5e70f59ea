//! State kept between commands, in `target/assignments`: verdicts, hints given, untouched skeletons. If the checkout is
//! read-only, it is kept beside the compiled kernels.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use common::device::DeviceChoice;
use serde::{Deserialize, Serialize};

use crate::exercise::{Exercise, REFERENCE};
use crate::grade::Verdict;
use crate::tasks::Sizes;

/// Stored state of one checkout.
pub struct Store {
    folder: PathBuf,
    /// Distinguishes builds of this program, which may judge differently.
    program: String,
    /// False if nothing can be written there.
    keeps: bool,
    writing: Mutex<()>,
}

/// Contents of the state file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    verdicts: BTreeMap<String, Known>,
    hints: BTreeMap<String, usize>,
}

/// A verdict that still holds, since no file that it depends on has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    key: String,
    /// Points given.
    pub points: u32,
    /// Maximum points.
    pub full: u32,
    /// The sizes of the case that failed.
    pub failing: Option<Sizes>,
}

impl Known {
    /// True if all points were given.
    pub fn passed(&self) -> bool {
        self.points == self.full
    }
}

/// Result of [`Store::reset`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The skeleton is back; the file that it replaced is kept here.
    Done(PathBuf),
    /// The file was the skeleton already.
    Untouched,
}

impl Store {
    /// The store of the checkout at `root`. `program` is this very command, and `gpu` the device that its kernels run on
    /// beside the simulator.
    pub fn open(root: &Path, program: &Path, gpu: Option<DeviceChoice>) -> Store {
        let about = std::fs::metadata(program).ok();
        let built = about.as_ref().and_then(|about| about.modified().ok());
        let program = format!("{gpu:?} {built:?} {:?}", about.map(|about| about.len()));
        let folder = folder(root, common::compile::directory());
        Store { keeps: takes_files(&folder), folder, program, writing: Mutex::new(()) }
    }

    /// Whether the state is kept: there is a place that can be written to.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Whether `exercise.cu` is unchanged since it was handed out.
    pub fn is_untouched(&self, exercise: &Exercise) -> bool {
        let present = std::fs::read(exercise.file("exercise.cu")).ok();
        let pristine = self.pristine(exercise).ok();
        present.zip(pristine).is_some_and(|(present, pristine)| same_text(&present, &pristine))
    }

    /// Folder for pictures and copies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last verdict on `exercise.cu`, if its files are unchanged since then.
    pub fn known(&self, exercise: &Exercise) -> Option<Known> {
        let known = self.read().verdicts.remove(&exercise.id)?;
        (Some(&known.key) == self.key(exercise).as_ref()).then_some(known)
    }

    /// Remembers a verdict on the files as they were when [`Store::key`] was asked.
    pub fn note(&self, exercise: &Exercise, key: Option<String>, verdict: &Verdict) {
        if let Some(key) = key {
            let (points, full) = (verdict.points(), verdict.full());
            let known = Known { key, points, full, failing: verdict.failing.clone() };
            self.change(|state| _ = state.verdicts.insert(exercise.id.clone(), known));
        }
    }

    /// A hash of everything that a verdict depends on; `None` if a file cannot be read.
    pub fn key(&self, exercise: &Exercise) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        self.program.hash(&mut hasher);
        // Only here: looking for it takes longer than all else that a short command does.
        common::compile::compiler_name().ok().hash(&mut hasher);
        for name in ["exercise.cu", "exercise.toml"] {
            std::fs::read(exercise.file(name)).ok()?.hash(&mut hasher);
        }
        // A class may have no solutions, and few exercises have a reference.
        for name in ["solution.cu", REFERENCE] {
            std::fs::read(exercise.file(name)).ok().hash(&mut hasher);
        }
        Some(format!("{:016x}", hasher.finish()))
    }

    /// Number of hints given.
    pub fn hints(&self, exercise: &Exercise) -> usize {
        self.read().hints.get(&exercise.id).copied().unwrap_or(0)
    }

    /// Records that this many hints have been given.
    pub fn note_hints(&self, exercise: &Exercise, number: usize) {
        self.change(|state| _ = state.hints.insert(exercise.id.clone(), number));
    }

    /// Copies each `exercise.cu` that has no copy yet, to restore it later.
    pub fn keep_skeletons(&self, exercises: &[Exercise]) {
        for exercise in exercises {
            let kept = self.skeleton(exercise);
            if !kept.exists() {
                // Without a copy there is still git.
                let _ = std::fs::create_dir_all(self.folder.join("skeletons"));
                let _ = std::fs::copy(exercise.file("exercise.cu"), kept);
            }
        }
    }

    /// Path of the skeleton of one version of the exercise: a later one may have another skeleton.
    fn skeleton(&self, exercise: &Exercise) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        std::fs::read(exercise.file("exercise.toml")).unwrap_or_default().hash(&mut hasher);
        self.folder.join("skeletons").join(format!("{}-{:08x}.cu", exercise.id, hasher.finish() as u32))
    }

    /// `exercise.cu` before any edit, as far as git or an earlier run of this command knows.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn pristine(&self, exercise: &Exercise) -> Result<Vec<u8>> {
        let known = committed(exercise).or_else(|| std::fs::read(self.skeleton(exercise)).ok());
        let file = exercise.file("exercise.cu");
        known.map_or_else(|| std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display())), Ok)
    }

    /// Makes `exercise.cu` the skeleton again, and keeps the old contents.
    ///
    /// # Errors
    /// If the skeleton is not known, or a file cannot be written.
    pub fn reset(&self, exercise: &Exercise) -> Result<Reset> {
        let file = exercise.file("exercise.cu");
        let present = std::fs::read(&file).unwrap_or_default();
        let kept = std::fs::read(self.skeleton(exercise)).ok();
        let known: Vec<Vec<u8>> = [committed(exercise), kept].into_iter().flatten().collect();
        // The copy may have been made, or the file committed, after it was edited: then it is no other.
        let Some(skeleton) = known.iter().find(|skeleton| !same_text(skeleton, &present)) else {
            let why = "no untouched copy of it is known: neither git nor an earlier run of this command has one";
            known.first().with_context(|| format!("{}: {why}", file.display()))?;
            return Ok(Reset::Untouched);
        };
        let unused = (1..).map(|i| self.folder.join(format!("{}.before-reset-{i}.cu", exercise.id)));
        let backup = unused.into_iter().find(|path| !path.exists()).unwrap_or_default();
        let write = |path: &Path, bytes: &[u8]| {
            std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
        };
        std::fs::create_dir_all(&self.folder).with_context(|| format!("{} cannot be made", self.folder.display()))?;
        write(&backup, &present)?;
        write(&file, skeleton)?;
        Ok(Reset::Done(backup))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Reads the state; a file that cannot be read counts as empty.
    fn read(&self) -> State {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.read();
        change(&mut state);
        // What cannot be remembered costs time later, and nothing else.
        let write = || -> Result<()> {
            std::fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(serde_json::to_string_pretty(&state)?.as_bytes())?;
            file.persist(self.file())?;
            Ok(())
        };
        let _ = write();
    }
}

/// Folder of the state of the checkout at `root`: in it, or beside the folder of compiled kernels if it is read-only.
fn folder(root: &Path, kernels: Option<PathBuf>) -> PathBuf {
    let inside = root.join("target").join("assignments");
    if takes_files(&inside) {
        return inside;
    }
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    let beside = kernels.map(|kernels| kernels.with_file_name(format!("assignments-{:016x}", hasher.finish())));
    // If there is no place at all, what cannot be written there says so.
    beside.filter(|folder| takes_files(folder)).unwrap_or(inside)
}

/// Whether files can be written there.
fn takes_files(folder: &Path) -> bool {
    std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder)).is_ok()
}

/// Compares texts, ignoring line ends, which git may have changed.
fn same_text(one: &[u8], other: &[u8]) -> bool {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    text(one) == text(other)
}

/// `exercise.cu` as it was handed out, whatever a reader has changed since.
///
/// # Errors
/// If there is no such file.
pub fn skeleton(exercise: &Exercise) -> Result<String> {
    let file = exercise.file("exercise.cu");
    let text = committed(exercise).map_or_else(|| std::fs::read(&file), Ok);
    let text = text.with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(String::from_utf8_lossy(&text).replace("\r\n", "\n"))
}

/// `exercise.cu` as it was handed out; `None` if git does not know: without history, what a reader committed looks like a beginning.
pub fn handed_out(exercise: &Exercise) -> Option<String> {
    let shallow = git(&exercise.dir, &["rev-parse", "--is-shallow-repository"])?;
    let text = committed(exercise).filter(|_| shallow.starts_with(b"false"))?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// `exercise.cu` at the last commit that changed another file of the folder: readers do not edit those.
fn committed(exercise: &Exercise) -> Option<Vec<u8>> {
    let commit = git(&exercise.dir, &["log", "-1", "--format=%H", "--", ".", ":(exclude)exercise.cu"])?;
    let commit = String::from_utf8(commit).ok()?;
    git(&exercise.dir, &["show", &format!("{}:./exercise.cu", commit.trim())])
}

/// Output of git in a folder; `None` if it fails, or there is no git.
pub(crate) fn git(folder: &Path, args: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git").current_dir(folder).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_checkout_that_cannot_be_written_to_is_remembered_beside_the_kernels() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("checkout");
        std::fs::create_dir(&root).unwrap();
        let kernels = dir.path().join("cache").join("kernels");
        assert_eq!(folder(&root, Some(kernels.clone())), root.join("target").join("assignments"));
        // A file where the folder would be: also who may write everywhere cannot make it.
        std::fs::remove_dir_all(root.join("target")).unwrap();
        std::fs::write(root.join("target"), "").unwrap();
        let beside = folder(&root, Some(kernels.clone()));
        assert_eq!(beside.parent(), kernels.parent());
        assert_eq!(folder(&root, Some(kernels)), beside);
        assert_eq!(folder(&root, None), root.join("target").join("assignments"));
    }
}
