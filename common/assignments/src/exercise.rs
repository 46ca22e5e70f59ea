//! The folder of an exercise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use common::ptx_sim::{Class, Profile};
use serde::{Deserialize, Serialize};

use crate::tasks::{self, Sizes, Task};

/// Name of the file that computes a described task's expected values.
pub const REFERENCE: &str = "reference.cu";

/// Contents of `exercise.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exercise {
    /// Name on the command line.
    pub id: String,
    /// The task in a few words.
    pub title: String,
    /// The task and why it is worth knowing, in two to four sentences of Markdown.
    pub goal: String,
    /// The book's page that teaches it.
    pub page: String,
    /// Exercises that come before.
    #[serde(default)]
    pub prerequisites: Vec<String>,
    /// Arguments that the kernel is given, and values that must come out.
    #[serde(deserialize_with = "tasks::named_or_described")]
    pub task: Task,
    /// The kernel's name.
    pub kernel: String,
    /// The oldest architecture that it can be compiled for, as `compute_80`; `compute_75` if `None`.
    pub architecture: Option<String>,
    /// Sizes to check, ragged ones among them.
    pub cases: Vec<Sizes>,
    /// The size at which costs are counted.
    pub counts: Sizes,
    /// The size at which times are measured on a GPU; that of `counts` if `None`.
    pub bench: Option<Sizes>,
    /// Library that a GPU's times are compared with, beside the solution's.
    pub library: Option<Library>,
    /// Maximum time on a GPU, as a multiple of the solution's, for `points.speed`.
    pub speed: Option<f64>,
    /// Points of each part of the verdict.
    pub points: Points,
    /// Budget of each count, as a multiple of the solution's cost.
    #[serde(default)]
    pub budget: BTreeMap<Count, f64>,
    /// Instructions that the kernel must have in its PTX: those that the exercise is about, where no cost tells them from others.
    #[serde(default)]
    pub uses: Vec<String>,
    /// From a nudge to nearly the answer.
    pub hints: Vec<String>,
    /// Costs of the solution, for a class whose folders have no solutions.
    #[serde(default)]
    pub costs: BTreeMap<Count, u64>,
    /// For each file in `wrong`, the expected finding.
    #[serde(default)]
    pub wrong: BTreeMap<String, Expected>,
    /// For each mutant of the solution that gets full points ([`crate::mutants`]), why that is right.
    #[serde(default)]
    pub survivors: BTreeMap<String, String>,
    /// The folder.
    #[serde(skip)]
    pub dir: PathBuf,
}

/// Points by part.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// Points for right values in every case.
    pub correct: u32,
    /// Points if the sanitiser finds nothing.
    pub clean: u32,
    /// Points if all counts are within the budget.
    pub budget: u32,
    /// Points if it is fast enough; only if there is a GPU.
    #[serde(default)]
    pub speed: u32,
}

/// A library that does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    /// The driver copies as many bytes as the kernel reads and writes.
    Copy,
    /// cuBLAS multiplies the first two inputs, matrices of f32.
    Gemm,
}

impl Library {
    /// Name in `exercise.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Library::Copy => "copy",
            Library::Gemm => "gemm",
        }
    }
}

/// Reason why a wrong submission fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The part that it loses.
    pub part: String,
    /// A piece of that part's explanation.
    pub reason: String,
    /// A question that leads to the cause, shown whenever only values are wrong, and they are those of this submission.
    pub asks: Option<String>,
}

/// A count of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// Instructions, counted once per warp.
    Instructions,
    /// Instructions of the warp that executes most: more if few warps do the work of all.
    LongestWarp,
    /// Instructions on double precision, counted once per warp.
    Doubles,
    /// 32-byte sectors of global memory, read and written.
    Sectors,
    /// Loads from global memory into registers, counted once per warp.
    Loads,
    /// Stores to global memory, counted once per warp.
    Stores,
    /// Atomics on global memory, counted once per warp.
    Atomics,
    /// Passes through shared memory.
    Passes,
    /// Extra passes caused by bank conflicts.
    Conflicts,
    /// Atomics on shared memory, counted once per warp.
    SharedAtomics,
    /// Arrivals of a warp at a barrier of its block.
    Barriers,
    /// Branches at which lanes of a warp diverged.
    Divergence,
    /// Waits of a warp that leave none of its `cp.async` copies under way.
    Drains,
    /// 32-byte sectors of local memory: arrays of a thread that are in no register.
    Local,
}

impl Count {
    /// All of them.
    pub const ALL: [Count; 14] = [
        Count::Instructions,
        Count::LongestWarp,
        Count::Doubles,
        Count::Sectors,
        Count::Loads,
        Count::Stores,
        Count::Atomics,
        Count::Passes,
        Count::Conflicts,
        Count::SharedAtomics,
        Count::Barriers,
        Count::Divergence,
        Count::Drains,
        Count::Local,
    ];

    /// Name in a verdict.
    pub fn name(self) -> &'static str {
        match self {
            Count::Instructions => "instructions",
            Count::LongestWarp => "instructions of the busiest warp",
            Count::Doubles => "double-precision instructions",
            Count::Sectors => "sectors",
            Count::Loads => "global loads",
            Count::Stores => "global stores",
            Count::Atomics => "global atomics",
            Count::Passes => "passes through shared memory",
            Count::Conflicts => "bank conflicts",
            Count::SharedAtomics => "shared atomics",
            Count::Barriers => "barriers",
            Count::Divergence => "divergent branches",
            Count::Drains => "waits that leave no copy under way",
            Count::Local => "sectors of local memory",
        }
    }

    /// The count's value in a launch.
    pub fn of(self, profile: &Profile) -> u64 {
        let c = &profile.counters;
        match self {
            Count::Instructions => c.warp_instructions,
            Count::LongestWarp => profile.longest_warp,
            Count::Doubles => profile.classes[Class::F64 as usize].warp,
            Count::Sectors => {
                c.global()[1]
                    + c.global_atomic_sectors
                    + c.global_reduction_sectors
                    + c.bulk_load_sectors
                    + c.bulk_store_sectors
                    + c.bulk_reduction_sectors
            }
            // A copy past the registers counts as a load, too; one that reads nothing does not.
            Count::Loads => c.global_load_requests.saturating_sub(c.async_copy_requests),
            Count::Stores => c.global_store_requests,
            Count::Atomics => c.global_atomic_requests + c.global_reduction_requests,
            Count::Passes => c.shared_load_wavefronts + c.shared_store_wavefronts,
            Count::Conflicts => c.shared_load_conflicts + c.shared_store_conflicts,
            Count::SharedAtomics => c.shared_atomic_requests,
            Count::Barriers => c.barriers,
            Count::Divergence => c.divergent_branches,
            Count::Drains => c.async_copy_drains,
            Count::Local => c.local_load_sectors + c.local_store_sectors,
        }
    }
}

impl Exercise {
    /// Reads `exercise.toml` in a folder.
    ///
    /// # Errors
    /// If it is absent or says something impossible.
    pub fn read(dir: &Path) -> Result<Exercise> {
        let path = dir.join("exercise.toml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut exercise: Exercise =
            toml::from_str(&text).with_context(|| format!("{} is not valid", path.display()))?;
        dir.clone_into(&mut exercise.dir);
        ensure!(!exercise.cases.is_empty(), "{}: no cases", path.display());
        let speed = (exercise.speed.is_some(), exercise.points.speed > 0);
        ensure!(speed.0 == speed.1, "{}: `speed` and `points.speed` belong together", path.display());
        if let Task::Described { description, reference } = &mut exercise.task {
            let file = dir.join(REFERENCE);
            let text = std::fs::read_to_string(&file);
            reference.text = text.with_context(|| format!("{} cannot be read", file.display()))?;
            reference.name = file.with_extension("").display().to_string();
            let cases = (1..).map(|number| format!("case {number}")).zip(&exercise.cases);
            let counts = ("`counts`".to_owned(), &exercise.counts);
            let bench = exercise.bench.iter().map(|sizes| ("`bench`".to_owned(), sizes));
            for (name, sizes) in cases.chain([counts]).chain(bench) {
                description.check(sizes).with_context(|| format!("{}: {name}", path.display()))?;
            }
        }
        Ok(exercise)
    }

    /// The case in which most is to be seen.
    pub fn clearest_case(&self) -> &Sizes {
        self.cases.iter().min_by_key(|sizes| clarity(sizes)).unwrap_or(&self.counts)
    }

    /// Maximum of a count, from the costs of the solution; `None` if it has no budget.
    pub fn allowed(&self, count: Count, solution: &BTreeMap<Count, u64>) -> Option<u64> {
        let base = solution.get(&count).copied().unwrap_or(0);
        let ratio = match self.budget.get(&count) {
            Some(&ratio) => ratio,
            // Most of the solution's warps have to work, whatever the exercise is about.
            None if count == Count::LongestWarp && base > 0 => 2.0,
            None => return None,
        };
        Some((base as f64 * ratio) as u64)
    }

    /// All points that it can give without a GPU.
    pub fn full(&self) -> u32 {
        self.points.correct + self.points.clean + self.points.budget
    }

    /// The sizes of a case of an [`Outcome`](crate::job::Outcome), in which those of `counts` come last.
    pub fn sizes(&self, case: usize) -> &Sizes {
        self.cases.get(case).unwrap_or(&self.counts)
    }

    /// The size at which times are measured.
    pub fn bench_sizes(&self) -> &Sizes {
        self.bench.as_ref().unwrap_or(&self.counts)
    }

    /// The file with that name in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Its folder below the checkout: `phase2-conv-bn/exercises/01-transpose`.
    pub fn place(&self) -> PathBuf {
        let parts: Vec<_> = self.dir.iter().rev().take(3).collect();
        parts.into_iter().rev().collect()
    }

    /// True if `word` is its id or its phase: `phase2`, `phase2-conv-bn`.
    pub fn is_called(&self, word: &str) -> bool {
        let place = self.place();
        let phase = place.iter().next().unwrap_or_default().to_string_lossy();
        self.id == word || phase == word || phase.split('-').next() == Some(word)
    }

    /// The files in `wrong`, in order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn wrong_files(&self) -> Result<Vec<PathBuf>> {
        let dir = self.dir.join("wrong");
        let entries = std::fs::read_dir(&dir).with_context(|| format!("{} cannot be read", dir.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "cu"));
        files.sort();
        Ok(files)
    }
}

/// Sorts cases by how much is to be seen in one: first those of more than one element along each side, then others, at last those of
/// one element; among these the smallest.
pub fn clarity(sizes: &Sizes) -> impl Ord + use<> {
    let elements = sizes.values().product::<usize>();
    let is_flat = sizes.values().any(|&size| size == 1);
    (elements < 2, is_flat, elements)
}

/// The checkout around the current directory, or a class's.
///
/// # Errors
/// If there is none: exercises of another folder would be judged, changed and shown in place of those that are meant.
pub fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("the current directory is not known")?;
    let root = here.ancestors().find(|dir| is_root(dir));
    root.map(Path::to_owned).context("there are no exercises here: go to the folder of your class, or of the course")
}

/// Whether a folder is a checkout or a class's repository.
pub fn is_root(dir: &Path) -> bool {
    phases(dir).is_ok_and(|phases| !phases.is_empty())
}

/// The folders `phaseN-*/exercises`.
fn phases(root: &Path) -> Result<Vec<PathBuf>> {
    let is_phase = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("phase"));
    let exercises = list(root)?.into_iter().filter(is_phase).map(|phase| phase.join("exercises"));
    Ok(exercises.filter(|exercises| exercises.is_dir()).collect())
}

/// Every exercise below a checkout, in the order of their folders.
///
/// # Errors
/// If a folder cannot be read, or two exercises share an id.
pub fn all(root: &Path) -> Result<Vec<Exercise>> {
    let mut dirs = Vec::new();
    for exercises in phases(root)? {
        dirs.extend(list(&exercises)?.into_iter().filter(|dir| dir.is_dir()));
    }
    let found: Vec<Exercise> = dirs.iter().map(|dir| Exercise::read(dir)).collect::<Result<_>>()?;
    for (i, exercise) in found.iter().enumerate() {
        let same = found[..i].iter().find(|other| other.id == exercise.id);
        ensure!(same.is_none(), "two exercises are called `{}`", exercise.id);
        let missing = exercise.prerequisites.iter().find(|id| !found[..i].iter().any(|other| other.id == **id));
        ensure!(missing.is_none(), "`{}` comes after {missing:?}, which does not come before it", exercise.id);
    }
    Ok(found)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("{} cannot be read", dir.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
