//! Messages between the server and the process that runs a kernel.

use std::path::PathBuf;

use assignments::exercise::Exercise;
use serde::{Deserialize, Serialize};

/// Text of a reader to compile and run.
#[derive(Clone, Debug)]
pub enum Job {
    /// A kernel of the course, by the course's own check.
    Edited(Edited),
    /// An exercise, by the grader.
    Answer(Box<Answer>),
}

/// An answer to an exercise.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The exercise.
    pub exercise: Exercise,
    /// The text.
    pub text: String,
}

/// A file to run.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The workspace.
    pub workspace: PathBuf,
    /// Path relative to it: `phase1-infra/kernels/01_vector_add.cu`.
    pub file: String,
    /// Its text, as edited.
    pub text: String,
    /// The sizes that the reader chose, in the order of the kernel's; `None`: the check's own.
    pub sizes: Option<Vec<usize>>,
    /// Arguments of `ptx-sim` for the pictures to draw, with [`PTX`] for the file.
    pub pictures: Vec<Vec<String>>,
}

/// Stands for the PTX file in the arguments of a picture.
pub const PTX: &str = "{ptx}";

/// Input of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Same as in [`Edited`].
    pub workspace: PathBuf,
    /// Same as in [`Edited`].
    pub file: String,
    /// Same as in [`Edited`].
    #[serde(default)]
    pub sizes: Option<Vec<usize>>,
    /// Path for the PTX, if it is wanted.
    pub ptx: Option<PathBuf>,
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

/// Result of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// In a word.
    pub verdict: Verdict,
    /// Summary in a sentence.
    pub summary: String,
    /// Errors in the values, or the compiler's log.
    pub details: Vec<String>,
    /// Messages of the compiler or the sanitiser about single lines.
    pub messages: Vec<Message>,
    /// Points of an exercise.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Counts of the file's kernels, by name.
    pub counts: Vec<KernelCounts>,
    /// The tables that the check printed.
    pub tables: Vec<String>,
    /// Steps of a block of each kernel in an early launch.
    #[serde(default)]
    pub recordings: Vec<Recording>,
    /// The page's pictures of this kernel, drawn again: each an SVG, or why there is none.
    #[serde(default)]
    pub pictures: Vec<Result<String, String>>,
}

/// A part of an exercise's points.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// `correct`, `clean` or `budget`.
    pub name: String,
    /// Points.
    pub points: u32,
    /// Maximum points.
    pub of: u32,
    /// The reason.
    pub detail: String,
    /// A question that leads to the cause, if that is a known one.
    pub asks: Option<String>,
}

/// A message about a line.
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

/// Counts of a kernel's launches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelCounts {
    /// The kernel's name.
    pub kernel: String,
    /// Number of launches.
    pub launches: u64,
    /// Counts by their names in a page.
    pub counts: Vec<(String, u64)>,
}

/// Steps of a block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recording {
    /// The kernel's name.
    pub kernel: String,
    /// Threads of the block along x, y and z.
    pub threads: [u32; 3],
    /// The instructions.
    pub sites: Vec<RecordedSite>,
    /// Steps of the warps, in order.
    pub steps: Vec<RecordedStep>,
    /// The registers that they wrote.
    pub registers: Vec<RecordedRegister>,
    /// Number of steps that have their register values.
    pub registers_until: usize,
    /// Number of steps beyond those.
    pub missed: u64,
}

/// An instruction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedSite {
    /// The line of the edited file, if it is from that file.
    pub line: Option<u32>,
    /// Its source line, if it is known.
    pub text: Option<String>,
    /// Text of the instruction in the PTX.
    pub instruction: String,
}

/// A register.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedRegister {
    /// Name in the PTX, and the function if that is not the kernel: `%r5`, `%r5 of helper`.
    pub name: String,
    /// The site that wrote it first.
    pub site: u32,
}

/// A register's value after a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedWrite {
    /// Index into the registers.
    pub register: u32,
    /// `f32`, `u64`, `pred`.
    pub ty: String,
    /// The lanes that wrote it, a bit per lane.
    pub lanes: u32,
    /// Their bits in hexadecimal, lowest lane first; `a+d*n` is `n` lanes from `a` on, each with `d` more than the previous one.
    pub bits: String,
}

/// A step of a warp.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedStep {
    /// Number of the warp in the block.
    pub warp: u32,
    /// Index into the sites.
    pub site: u32,
    /// Lanes that run together, a bit per lane.
    pub mask: u32,
    /// Lanes that take part: whose predicate holds, that jump or that end.
    pub active: u32,
    /// `branch`, `barrier` or `exit`.
    pub event: Option<String>,
    /// The access to memory, if it is one.
    pub access: Option<RecordedAccess>,
    /// Registers that it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<RecordedWrite>,
}

/// An access to memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedAccess {
    /// `shared read`.
    pub what: String,
    /// The buffer or variable of the first lane.
    pub name: String,
    /// Lane, first byte within that variable, bytes.
    pub touches: Vec<(u8, i64, u32)>,
    /// Sectors of global memory, or turns of shared memory.
    pub cost: u32,
    /// The same if the bytes were dense, or without bank conflicts.
    pub ideal: u32,
    /// Whether the banks count.
    pub has_banks: bool,
}

impl Outcome {
    /// An outcome with only a verdict and a summary.
    pub fn only(verdict: Verdict, summary: impl Into<String>) -> Outcome {
        let summary = summary.into();
        Outcome {
            verdict,
            summary,
            details: Vec::new(),
            messages: Vec::new(),
            parts: Vec::new(),
            counts: Vec::new(),
            tables: Vec::new(),
            recordings: Vec::new(),
            pictures: Vec::new(),
        }
    }
}
