//! Which code of the course checks a kernel: the same that runs the course's own.

use common::{
    Result,
    device::Device,
    gallery::{Broken, Gallery, Outcome, Version},
    parts::Part,
    table::Table,
    trial::Trial,
};
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

/// What a check says.
#[derive(Default)]
pub struct Checked {
    /// What it printed.
    pub tables: Vec<Table>,
    /// What is wrong with the values.
    pub wrong: Vec<String>,
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
                "phase3-all-layers" => trial(phase3_all_layers::trials::TRIALS, name),
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
            Check::Gallery(entry, version) => {
                let mut checked = Checked::default();
                for &size in entry.sizes {
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
        }
    }
}

fn part(parts: &'static [Part], trials: &'static [Trial], name: &str) -> Option<Check> {
    parts.iter().find(|part| part.name == name).map(|part| Check::Part(part, trial(trials, name)))
}

fn trial(trials: &'static [Trial], name: &str) -> Option<&'static Trial> {
    trials.iter().find(|trial| trial.name == name)
}
