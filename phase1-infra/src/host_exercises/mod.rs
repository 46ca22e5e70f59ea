//! Judges of the exercises whose answer is host code, in Rust: `examples/` holds them, to be edited and run.
//!
//! Nothing contains host code as the simulator contains kernels, so these have no points, and no one else's answer is run.

use std::fmt;
use std::process::ExitCode;

pub mod benchmark;
pub mod graph;
pub mod occupancy;
pub mod overlap;

/// Opinion of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Description of the answer's work, as far as it ran.
    pub seen: String,
    /// Sentence on the mistake, or on the time still to be gained; `None` for a right answer.
    pub missing: Option<String>,
}

impl Verdict {
    fn right(seen: String) -> Verdict {
        Verdict { seen, missing: None }
    }

    fn wrong(seen: String, missing: impl ToString) -> Verdict {
        Verdict { seen, missing: Some(missing.to_string()) }
    }

    /// Prints it; the status is 0 for a right answer and 1 for any other.
    pub fn report(&self) -> ExitCode {
        print!("{self}");
        if self.missing.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}{}", self.seen, self.missing.as_deref().unwrap_or("Right."))
    }
}
