//! Code of the course that checks a kernel: the same that runs the course's own kernels.

use bench::{
    gallery::{Broken, Outcome, Version},
    parts::Part,
    table::Table,
    trial::{Problem, Size, Trial},
};
use common::{
    Error, Result,
    compile::head::{Run, TrialName},
    device::Device,
};
use phase1_infra::Step;

use crate::rerun::Kernel;

/// Code that runs the kernels of a file and compares what they computed with a reference.
#[derive(Clone, Copy)]
pub enum Check {
    /// A step of phase 1; a trial takes sizes that the reader chooses.
    Step(&'static Step, Option<&'static Trial>),
    /// A part of a later phase's report, after its trial at ragged shapes, if there is one.
    Part(&'static Part, Option<&'static Trial>),
    /// Only a trial.
    Trial(&'static Trial),
    /// A kernel of a gallery, at all its sizes.
    Gallery(&'static Broken, Version),
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

/// Result of a check.
#[derive(Default)]
pub struct Checked {
    /// Printed tables.
    pub tables: Vec<Table>,
    /// Errors in the values, if any.
    pub wrong: Vec<String>,
}

/// The trials of a package.
pub(crate) fn trials(package: &str) -> &'static [Trial] {
    match package {
        "phase1-infra" => phase1_infra::trials::TRIALS,
        "phase2-conv-bn" => phase2_conv_bn::trials::TRIALS,
        "phase3-all-layers" => phase3_all_layers::trials::TRIALS,
        "phase4-fusion" => phase4_fusion::trials::TRIALS,
        _ => &[],
    }
}

impl Check {
    /// The check of a kernel, as its head names it.
    ///
    /// # Errors
    /// The reason for having none here, in a sentence.
    pub fn of(kernel: &Kernel<'_>) -> Result<Check, String> {
        let trial = match &kernel.trial {
            Some(TrialName::Named(name)) => trials(kernel.package).iter().find(|trial| trial.name == name),
            _ => None,
        };
        let part = |parts: &'static [Part], name: &str| {
            parts.iter().find(|part| part.name == name).map(|part| Check::Part(part, trial))
        };
        let found = match &kernel.run {
            Run::Broken { gallery, number, repaired } => {
                let gallery = match (kernel.package, gallery.as_str()) {
                    ("phase1-infra", "broken") => Some(&phase1_infra::broken::GALLERY),
                    ("phase4-fusion", "broken") => Some(&phase4_fusion::broken::GALLERY),
                    ("phase4-fusion", "published") => Some(&phase4_fusion::published::GALLERY),
                    _ => None,
                };
                let version = if *repaired { Version::Repaired } else { Version::Broken };
                gallery.and_then(|gallery| gallery.find(number)).map(|entry| Check::Gallery(entry, version))
            }
            Run::Part(name) => match kernel.package {
                "phase1-infra" => {
                    phase1_infra::STEPS.iter().find(|step| step.name == name).map(|step| Check::Step(step, trial))
                }
                "phase2-conv-bn" => part(phase2_conv_bn::report::PARTS, name),
                "phase4-fusion" => part(phase4_fusion::report::PARTS, name),
                _ => None,
            },
            Run::Test(_) => trial.filter(|trial| trial.run.is_some()).map(Check::Trial),
        };
        found.ok_or_else(|| format!("this kernel can't be run here: edit the file, and run `{}`", kernel.command()))
    }

    fn problem(self) -> Option<Problem> {
        match self {
            Check::Step(_, trial) | Check::Part(_, trial) => trial?.problem,
            Check::Trial(trial) => trial.problem,
            Check::Gallery(..) => None,
        }
    }

    /// The sizes that a reader may choose; none if the check has sizes of its own only.
    pub fn sizes(self) -> Vec<Size> {
        match self {
            Check::Gallery(entry, _) => {
                let all = entry.sizes.iter().copied();
                let range = [all.clone().min().unwrap_or(0), all.max().unwrap_or(0)];
                vec![Size::new("size", range, entry.sizes[0])]
            }
            _ => self.problem().map_or_else(Vec::new, |problem| problem.sizes.to_vec()),
        }
    }

    /// Whether these sizes may be run.
    ///
    /// # Errors
    /// The reason against them, in a sentence.
    pub fn admit(self, chosen: &[usize]) -> Result<(), String> {
        let sizes = self.sizes();
        if sizes.is_empty() {
            return Err("the check of this kernel has sizes of its own".to_owned());
        }
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

    /// Runs it at sizes that the reader chose.
    ///
    /// # Errors
    /// Errors that ended it early; [`Error::Invalid`] for sizes that may not be run.
    pub fn run_at(self, device: &Device, chosen: &[usize]) -> Result<Checked> {
        self.admit(chosen).map_err(Error::Invalid)?;
        match self {
            Check::Gallery(entry, version) => at_sizes(entry, version, chosen, device),
            _ => {
                let wrong = self.problem().map_or(Ok(Vec::new()), |problem| (problem.run)(device, chosen))?;
                Ok(Checked { tables: Vec::new(), wrong })
            }
        }
    }

    /// Runs it on the simulator from `sanitising`. A part that follows a trial runs on the one from `counting`: it is large, and
    /// the trial has checked every rule.
    ///
    /// # Errors
    /// Errors that ended it early.
    pub fn run(self, sanitising: &Device, counting: &Device) -> Result<Checked> {
        let device = sanitising;
        match self {
            Check::Step(step, _) => match step.run {
                phase1_infra::Run::OnDevice(run) => run(device).map(|tables| Checked { tables, wrong: Vec::new() }),
                phase1_infra::Run::Anywhere(run) => run().map(|tables| Checked { tables, wrong: Vec::new() }),
            },
            Check::Part(part, trial) => {
                let ragged = trial.and_then(|trial| trial.run);
                let mut wrong = ragged.map_or(Ok(Vec::new()), |run| run(sanitising))?;
                let report = (part.run)(if ragged.is_some() { counting } else { sanitising })?;
                wrong.extend(report.wrong);
                Ok(Checked { tables: report.tables, wrong })
            }
            Check::Trial(trial) => {
                let wrong = trial.run.map_or(Ok(Vec::new()), |run| run(device))?;
                Ok(Checked { tables: Vec::new(), wrong })
            }
            Check::Gallery(entry, version) => at_sizes(entry, version, entry.sizes, device),
        }
    }
}
