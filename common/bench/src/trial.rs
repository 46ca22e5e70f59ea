//! Checks of kernels at small and ragged shapes, for a reader who has just changed one: the tests' checks, without a test
//! program.

use std::fmt::Display;

use crate::ladder::{Method, Step};
use common::Device;
use common::check::{Mismatch, Report};
use common::error::{Error, Result};

/// Faults in results of a kernel, one sentence each.
pub type Wrong = Vec<String>;

/// A check of kernels, whose heads name it (`// trial: gemm`).
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Unique in its phase.
    pub name: &'static str,
    /// Runs it at ragged, tiny and empty shapes, unless a part of a report is all that does; what is wrong, in a sentence each.
    pub run: Option<fn(&Device) -> Result<Wrong>>,
    /// The same at one size that a reader chooses, if one can.
    pub problem: Option<Problem>,
}

/// A check at one size that a reader chooses.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The sizes to choose, in the order in which `run` expects them.
    pub sizes: &'static [Size],
    /// Runs it and returns the errors, one sentence each.
    pub run: fn(&Device, &[usize]) -> Result<Wrong>,
}

impl Trial {
    /// A trial without a check yet.
    pub const fn new(name: &'static str) -> Trial {
        Trial { name, run: None, problem: None }
    }

    /// Lets it run at shapes of its own.
    pub const fn ragged(self, run: fn(&Device) -> Result<Wrong>) -> Trial {
        Trial { run: Some(run), ..self }
    }

    /// Lets it run at sizes that a reader chooses.
    pub const fn sized(self, sizes: &'static [Size], run: fn(&Device, &[usize]) -> Result<Wrong>) -> Trial {
        Trial { problem: Some(Problem { sizes, run }), ..self }
    }
}

/// A size that a reader may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Name in the kernel: `n`, `M`, `columns`.
    pub name: &'static str,
    /// The smallest.
    pub least: usize,
    /// Maximum that runs in seconds under the sanitiser, with all others at their maximum too.
    pub most: usize,
    /// Initial value.
    pub usual: usize,
}

impl Size {
    /// From `least` to `most`, initially `usual`.
    pub const fn new(name: &'static str, [least, most]: [usize; 2], usual: usize) -> Size {
        Size { name, least, most, usual }
    }
}

/// The sizes of a [`Trial`] that takes `N`.
///
/// # Errors
/// [`Error::Invalid`] if there are more or fewer.
pub fn exactly<const N: usize>(sizes: &[usize]) -> Result<[usize; N]> {
    sizes.try_into().map_err(|_| Error::Invalid(format!("{N} sizes were expected, not {sizes:?}")))
}

/// Errors found so far. Kernels that the device doesn't support are skipped.
#[derive(Debug, Default)]
pub struct Verdicts {
    wrong: Vec<String>,
}

impl Verdicts {
    /// Runs a part of a trial.
    ///
    /// # Errors
    /// Errors of `part` other than [`Error::Unsupported`].
    pub fn part(&mut self, part: impl FnOnce(&mut Verdicts) -> Result<()>) -> Result<()> {
        match part(self) {
            Err(Error::Unsupported { .. }) => Ok(()),
            done => done,
        }
    }

    /// Calls `check` for each of these steps, loaded on the device; a step that the device doesn't support is skipped, like
    /// a [`Verdicts::part`].
    ///
    /// # Errors
    /// Errors of loading and of `check` other than [`Error::Unsupported`].
    pub fn of_steps<'s, M: Method + 's>(
        device: &Device,
        steps: impl IntoIterator<Item = &'s Step<M>>,
        mut check: impl FnMut(&mut Verdicts, &Step<M>, M::Loaded) -> Result<()>,
    ) -> Result<Vec<String>> {
        let mut all = Verdicts::default();
        for step in steps {
            all.part(|all| check(all, step, step.load(device)?))?;
        }
        Ok(all.into_wrong())
    }

    /// Adds the result of a comparison, if it is a mismatch; `what` names the compared values.
    pub fn add(&mut self, what: impl Display, compared: std::result::Result<Report, Mismatch>) {
        if let Err(mismatch) = compared {
            self.wrong.push(format!("{what}: {mismatch}"));
        }
    }

    /// All of it.
    pub fn into_wrong(self) -> Vec<String> {
        self.wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_the_device_does_not_take_are_passed_over_and_errors_are_not() {
        let mut verdicts = Verdicts::default();
        let unsupported = || Error::Unsupported { what: "a".into(), device: "sim".into(), reason: "b".into() };
        verdicts.part(|_| Err(unsupported())).unwrap();
        assert!(verdicts.part(|_| Err(Error::Invalid("c".into()))).is_err());
        verdicts.add("n = 2", Err(Mismatch::Length { actual: 1, expected: 2 }));
        assert_eq!(verdicts.into_wrong(), ["n = 2: 1 values, expected 2"]);
    }
}
