//! The subcommands, each in its file.

pub(crate) mod author;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod describe;
pub(crate) mod export;
pub(crate) mod grade;
pub(crate) mod hint;
pub(crate) mod list;
pub(crate) mod new;
pub(crate) mod question;
pub(crate) mod reset;
pub(crate) mod show;
pub(crate) mod submissions;
pub(crate) mod watch;

use std::fmt;
use std::path::PathBuf;

use ::bench::command::{Failure, nearest, say};
use anyhow::{Context, Result, anyhow, ensure};
use common::compile;
use common::device::{Device, DeviceChoice};

use crate::exercise::{self, Exercise};
use crate::grade::{Grader, Verdict};
use crate::isolation::Isolation;
use crate::store::{self, Store};
use crate::submissions::Set;
use crate::tasks::Sizes;

/// State that every subcommand works with.
pub(crate) struct Session {
    /// In the order of the course.
    pub exercises: Vec<Exercise>,
    /// Judges files.
    pub grader: Grader,
    /// Remembers verdicts and hints.
    pub store: Store,
}

/// Reason why a command ends early.
pub(crate) struct Ended(anyhow::Error);

impl Session {
    /// The exercises around the current directory. On a GPU, kernels run there too.
    ///
    /// # Errors
    /// If one cannot be read, or there is no such device.
    pub(crate) fn open(seed: Option<u64>, device: Option<DeviceChoice>) -> Result<Session> {
        let program = program()?;
        let root = exercise::root()?;
        let exercises = exercise::all(&root)?;
        // The simulator judges in any case: it alone has the sanitiser.
        let gpu = match device {
            None | Some(DeviceChoice::Sim) => None,
            Some(choice) => gpu(&Device::open(choice)?),
        };
        let store = Store::open(&root, &program, gpu);
        if !store.keeps() {
            let folder = store.folder().display();
            say("progress", format!("not kept, since {folder} cannot be written; WARP_CACHE_DIR can name a folder"));
        }
        store.keep_skeletons(&exercises);
        let mut grader = Grader::new(program, seed);
        grader.gpu = gpu;
        Ok(Session { exercises, grader, store })
    }

    /// From now on, kernels run without network and can write to a folder of their own alone.
    ///
    /// # Errors
    /// If this system has no such thing, or kernels run on a GPU.
    pub(crate) fn isolate(&mut self) -> Result<()> {
        ensure!(self.grader.gpu.is_none(), "--isolate is for the simulator: on a GPU, leave it out");
        self.grader.isolation = Some(Isolation::find()?);
        Ok(())
    }

    /// The exercise of that id.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn find(&self, id: &str) -> Result<&Exercise> {
        let found = self.exercises.iter().find(|exercise| exercise.id == id);
        found.with_context(|| format!("there is no exercise `{id}`; `list` shows what there is{}", self.like(id)))
    }

    /// End of a message about a name that no exercise has: `; did you mean `guard`?` if one is like it.
    fn like(&self, name: &str) -> String {
        let like = nearest(name, self.exercises.iter().map(|exercise| exercise.id.as_str()));
        like.map_or_else(String::new, |id| format!("; did you mean `{id}`?"))
    }

    /// The exercises of these ids and phases, or all.
    ///
    /// # Errors
    /// If a word names none.
    pub(crate) fn only(&self, words: &[String]) -> Result<Vec<&Exercise>> {
        for word in words {
            let found = self.exercises.iter().any(|exercise| exercise.is_called(word));
            ensure!(found, "there is no exercise and no phase `{word}`; `list` shows what there is{}", self.like(word));
        }
        let is_wanted = |exercise: &&Exercise| words.is_empty() || words.iter().any(|word| exercise.is_called(word));
        Ok(self.exercises.iter().filter(is_wanted).collect())
    }

    /// These exercises with the texts that others were handed out.
    pub(crate) fn sets<'a>(&self, exercises: &[&'a Exercise]) -> Vec<Set<'a>> {
        let own = |exercise: &Exercise| std::fs::read_to_string(exercise.file("exercise.cu")).ok();
        let skeleton = |exercise: &Exercise| store::handed_out(exercise).or_else(|| own(exercise));
        exercises.iter().map(|&exercise| Set { exercise, skeleton: skeleton(exercise) }).collect()
    }

    /// The exercise of that id, else the first one without a known pass: a reader who has just solved it wants to hear so.
    /// `None` if all pass.
    ///
    /// # Errors
    /// Same as [`Session::find`].
    pub(crate) fn chosen(&self, id: Option<&str>) -> Result<Option<&Exercise>> {
        match id {
            Some(id) => self.find(id).map(Some),
            None => Ok(self.exercises.iter().find(|exercise| !self.is_known_to_pass(exercise))),
        }
    }

    /// Whether the last verdict was a pass, and still holds.
    pub(crate) fn is_known_to_pass(&self, exercise: &Exercise) -> bool {
        self.store.known(exercise).is_some_and(|known| known.passed())
    }

    /// The first exercise that does not pass, or, if nothing can be compiled, that never passed.
    ///
    /// # Errors
    /// Same as [`Session::check`].
    pub(crate) fn next(&self) -> Result<Option<&Exercise>> {
        let has_compiler = compiler().is_ok();
        for exercise in &self.exercises {
            let passes = if has_compiler { self.passes(exercise)? } else { self.is_known_to_pass(exercise) };
            if !passes {
                return Ok(Some(exercise));
            }
        }
        Ok(None)
    }

    /// Whether an exercise passes, without running it again if nothing changed.
    ///
    /// # Errors
    /// Same as [`Session::check`].
    pub(crate) fn passes(&self, exercise: &Exercise) -> Result<bool> {
        match self.store.known(exercise) {
            Some(known) => Ok(known.passed()),
            None => Ok(self.check(exercise)?.passed()),
        }
    }

    /// The sizes of the case in which an exercise fails, if any, without running it again if nothing changed.
    ///
    /// # Errors
    /// Same as [`Session::check`].
    pub(crate) fn failing(&self, exercise: &Exercise) -> Result<Option<Sizes>> {
        match self.store.known(exercise) {
            Some(known) => Ok(known.failing),
            None => Ok(self.check(exercise)?.failing),
        }
    }

    /// Judges `exercise.cu`, and remembers the verdict.
    ///
    /// # Errors
    /// If there is no compiler, the file cannot be read, or the exercise is at fault.
    pub(crate) fn check(&self, exercise: &Exercise) -> Result<Verdict> {
        compiler()?;
        let key = self.store.key(exercise);
        let verdict = self.grader.grade(exercise, &exercise.file("exercise.cu"))?;
        self.store.note(exercise, key, &verdict);
        Ok(verdict)
    }
}

/// The GPU's number; `None` for the simulator.
pub(crate) fn gpu(device: &Device) -> Option<DeviceChoice> {
    // `cuda:0 NVIDIA H200 (sm_90)`
    let name = device.short_name();
    let choice = device.is_cuda().then(|| name.split(' ').next().and_then(|name| name.parse().ok()));
    choice.map(|choice| choice.unwrap_or(DeviceChoice::Cuda(0)))
}

/// Path of this executable, which runs kernels in processes of their own.
///
/// # Errors
/// If the system does not report its path.
pub(crate) fn program() -> Result<PathBuf> {
    std::env::current_exe().context("this program does not know where it is")
}

/// Makes sure that kernels can be compiled.
///
/// # Errors
/// If they cannot; the message says what to install.
pub(crate) fn compiler() -> Result<()> {
    compile::compiler_name().map(drop).map_err(|missing| anyhow!("exercises have to be compiled, and {missing}"))
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Ended {
        Ended(error)
    }
}

impl From<common::Error> for Ended {
    fn from(error: common::Error) -> Ended {
        Ended(error.into())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl Failure for Ended {
    /// 1 says that an exercise does not pass.
    fn exit_status(&self) -> u8 {
        2
    }
}
