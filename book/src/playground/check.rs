//! Which code of the course checks a kernel: the same that runs the course's own.

use bench::{
    gallery::{Broken, Gallery, Outcome, Version},
    parts::Part,
    table::Table,
    trial::{Problem, Size, Trial},
};
use common::{Error, Result, device::Device};
use phase1_infra::{Run, Step};

use crate::rerun::{self, Way};

/// What runs the kernels of a file and compares what they computed with a reference.
#[derive(Clone, Copy)]
pub enum Check {
    /// A step of phase 1.
    Step(&'static Step),
    /// A part of a later phase's report, after its trial at ragged shapes, if there is one.
    Part(&'static Part, Option<&'static Trial>),
    /// A trial alone.
    Trial(&'static Trial),
    /// A kernel of a gallery, at all its sizes.
    Gallery(&'static Broken, Version),
}

/// What runs the kernels of a file at one size, which the reader chooses.
#[derive(Clone, Copy)]
pub enum Resizable {
    /// A problem of a phase.
    Problem(&'static Problem),
    /// A kernel of a gallery.
    Gallery(&'static Broken, Version),
}

impl Resizable {
    /// The problem of a kernel, named as `PACKAGE/kernels/NAME.cu`; `None` if its check has sizes of its own only.
    pub fn of(file: &str) -> Option<Resizable> {
        if let Check::Gallery(entry, version) = Check::of(file).ok()? {
            return Some(Resizable::Gallery(entry, version));
        }
        let (package, name) = file.split_once("/kernels/")?;
        let problems = match package {
            "phase1-infra" => phase1_infra::trials::PROBLEMS,
            "phase2-conv-bn" => phase2_conv_bn::trials::PROBLEMS,
            "phase3-all-layers" => phase3_all_layers::trials::PROBLEMS,
            "phase4-fusion" => phase4_fusion::trials::PROBLEMS,
            _ => return None,
        };
        Problem::find(problems, name.split('.').next()?).map(Resizable::Problem)
    }

    /// What can be chosen.
    pub fn sizes(self) -> Vec<Size> {
        match self {
            Resizable::Problem(problem) => problem.sizes.to_vec(),
            Resizable::Gallery(entry, _) => {
                let all = entry.sizes.iter().copied();
                let range = [all.clone().min().unwrap_or(0), all.max().unwrap_or(0)];
                vec![Size::new("size", range, entry.sizes[0])]
            }
        }
    }

    /// Whether these sizes may be run.
    ///
    /// # Errors
    /// In a sentence, why not.
    pub fn admit(self, chosen: &[usize]) -> Result<(), String> {
        let sizes = self.sizes();
        if sizes.len() != chosen.len() {
            let names: Vec<&str> = sizes.iter().map(|size| size.name).collect();
            return Err(format!("{} sizes were given; this kernel takes {}", chosen.len(), names.join(", ")));
        }
        match sizes.iter().zip(chosen).find(|(size, chosen)| !(size.least..=size.most).contains(chosen)) {
            None => Ok(()),
            Some((Size { name, least, most, .. }, chosen)) => {
                Err(format!("{name} may be {least} to {most} here, not {chosen}"))
            }
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// What ended it early; [`Error::Invalid`] for sizes that may not be run.
    pub fn run(self, device: &Device, chosen: &[usize]) -> Result<Checked> {
        self.admit(chosen).map_err(Error::Invalid)?;
        match self {
            Resizable::Problem(problem) => Ok(Checked { tables: Vec::new(), wrong: (problem.run)(device, chosen)? }),
            Resizable::Gallery(entry, version) => at_sizes(entry, version, chosen, device),
        }
    }
}

/// A kernel of a gallery at each of these sizes.
fn at_sizes(entry: &Broken, version: Version, sizes: &[usize], device: &Device) -> Result<Checked> {
    let mut checked = Checked::default();
    for &size in sizes {
        match entry.run(device, version, size)? {
            Outcome::Right(_) | Outcome::Found { values: Ok(_), .. } => {}
            Outcome::Wrong(mismatch) | Outcome::Found { values: Err(mismatch), .. } => {
                checked.wrong.push(format!("at size {size}: {mismatch}"));
            }
            Outcome::Stopped(error) => return Err(error),
        }
    }
    Ok(checked)
}

/// What a check says.
#[derive(Default)]
pub struct Checked {
    /// What it printed.
    pub tables: Vec<Table>,
    /// What is wrong with the values.
    pub wrong: Vec<String>,
}

/// Why a kernel of the course has no check here, in a clause; `None` if it has one, or is no kernel of the course.
pub fn why_not(file: &str) -> Option<&'static str> {
    let rerun = rerun::of(file).ok().flatten().filter(|_| Check::of(file).is_err())?;
    let name = file.rsplit('/').next().unwrap_or_default();
    Some(match rerun.package {
        "phase5-bench" => "it measures a rate, and the simulator has no clock",
        _ if name.starts_with("tensor_parallel") => "several devices run it together",
        _ if name.starts_with("autoencoder") => "its check is a whole model with prepared weights",
        _ => "only its test prepares the inputs that it takes",
    })
}

impl Check {
    /// The check of a kernel, named as `PACKAGE/kernels/NAME.cu`.
    ///
    /// # Errors
    /// In a sentence, why it has none here.
    pub fn of(file: &str) -> Result<Check, String> {
        let unknown = || format!("{file:?} is no kernel of the course");
        let rerun = rerun::of(file).ok().flatten().ok_or_else(unknown)?;
        let gallery = |version| {
            let gallery = match rerun.package {
                "phase1-infra" => &phase1_infra::broken::GALLERY,
                _ => &phase4_fusion::broken::GALLERY,
            };
            Gallery::find(gallery, rerun.number).map(|entry| Check::Gallery(entry, version))
        };
        let found = match rerun.way {
            Way::Gallery => gallery(Version::Broken),
            Way::Repaired => gallery(Version::Repaired),
            Way::Run(name) => match rerun.package {
                "phase1-infra" => phase1_infra::STEPS.iter().find(|step| step.name == name).map(Check::Step),
                "phase2-conv-bn" => part(phase2_conv_bn::report::PARTS, phase2_conv_bn::trials::TRIALS, name),
                "phase4-fusion" => part(phase4_fusion::report::PARTS, &[], name),
                _ => None,
            },
            Way::Test(name) => match rerun.package {
                "phase1-infra" => trial(phase1_infra::trials::TRIALS, name),
                // The trial of a part's name is of the ladder.
                "phase2-conv-bn" if name == "linear" => trial(phase2_conv_bn::trials::TRIALS, "linear_mask"),
                "phase2-conv-bn" => trial(phase2_conv_bn::trials::TRIALS, name),
                "phase3-all-layers" => trial(phase3_all_layers::trials::TRIALS, name),
                "phase4-fusion" => file
                    .rsplit('/')
                    .next()
                    .and_then(|name| name.strip_suffix(".cu"))
                    .and_then(phase4_fusion::trials::of),
                _ => None,
            }
            .map(Check::Trial),
        };
        found.ok_or_else(|| format!("this kernel can't be run here: edit the file, and run `{}`", rerun.command()))
    }

    /// Runs it on the simulator that `sanitising` makes. A part that follows a trial runs on that of `counting`: it is large, and the
    /// trial has met every rule.
    ///
    /// # Errors
    /// What ended it early.
    pub fn run(self, sanitising: &Device, counting: &Device) -> Result<Checked> {
        let device = sanitising;
        match self {
            Check::Step(step) => match step.run {
                Run::OnDevice(run) => run(device).map(|tables| Checked { tables, wrong: Vec::new() }),
                Run::Anywhere(run) => run().map(|tables| Checked { tables, wrong: Vec::new() }),
            },
            Check::Part(part, trial) => {
                let mut wrong = trial.map_or(Ok(Vec::new()), |trial| (trial.run)(sanitising))?;
                let report = (part.run)(if trial.is_some() { counting } else { sanitising })?;
                wrong.extend(report.wrong);
                Ok(Checked { tables: report.tables, wrong })
            }
            Check::Trial(trial) => Ok(Checked { tables: Vec::new(), wrong: (trial.run)(device)? }),
            Check::Gallery(entry, version) => at_sizes(entry, version, entry.sizes, device),
        }
    }
}

fn part(parts: &'static [Part], trials: &'static [Trial], name: &str) -> Option<Check> {
    parts.iter().find(|part| part.name == name).map(|part| Check::Part(part, trial(trials, name)))
}

fn trial(trials: &'static [Trial], name: &str) -> Option<&'static Trial> {
    trials.iter().find(|trial| trial.name == name)
}
