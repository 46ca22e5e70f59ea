//! What passes between the server and the process that runs a kernel.

use serde::{Deserialize, Serialize};

/// A file to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Relative to the workspace: `phase1-infra/kernels/01_vector_add.cu`.
    pub file: String,
    /// Its text, as edited.
    pub text: String,
}

/// The verdict on a run, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All values are right, and the sanitiser found nothing.
    Right,
    /// All values are right, and the sanitiser found broken rules.
    Found,
    /// Values are wrong.
    Wrong,
    /// The compiler refused the text.
    Refused,
    /// A limit, or a crash.
    Stopped,
    /// Something is missing here, such as the compiler.
    Missing,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// In a word.
    pub verdict: Verdict,
    /// In a sentence.
    pub summary: String,
    /// What is wrong with the values, or the compiler's log.
    pub details: Vec<String>,
    /// What the compiler or the sanitiser says of single lines.
    pub messages: Vec<Message>,
    /// What the kernels of the file cost, by name.
    pub counts: Vec<KernelCounts>,
    /// The tables that the check printed.
    pub tables: Vec<String>,
}

/// Something about a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Message {
    /// The line of the edited file; `None` if it is about another place.
    pub line: Option<u32>,
    /// `error` or `warning`.
    pub severity: String,
    /// In a sentence or two.
    pub text: String,
    /// The whole diagnostic.
    pub rendered: String,
}

/// What the launches of a kernel cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelCounts {
    /// The kernel's name.
    pub kernel: String,
    /// How often it was launched.
    pub launches: u64,
    /// What was counted, by what a page calls it.
    pub counts: Vec<(String, u64)>,
}

impl Outcome {
    /// Without more to say than this.
    pub fn only(verdict: Verdict, summary: impl Into<String>) -> Outcome {
        let summary = summary.into();
        Outcome { verdict, summary, details: Vec::new(), messages: Vec::new(), counts: Vec::new(), tables: Vec::new() }
    }
}
