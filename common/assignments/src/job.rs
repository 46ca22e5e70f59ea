//! What passes between the command and the process that runs a kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exercise::{Count, Library};
use crate::tasks::Sizes;

/// What is to be run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// A number that begins the answer, and which no kernel can print.
    pub nonce: u64,
    /// The task.
    pub task: String,
    /// The kernel's name.
    pub kernel: String,
    /// The file's text.
    pub source: String,
    /// What it is compiled for.
    pub architecture: Option<String>,
    /// The sizes to check.
    pub cases: Vec<Sizes>,
    /// The size to count at.
    pub counts: Option<Sizes>,
    /// For the inputs.
    pub seed: u64,
    /// What to show, in place of checking.
    #[serde(default)]
    pub show: Option<ShowRequest>,
    /// The GPU to run on, in place of the simulator.
    #[serde(default)]
    pub gpu: Option<GpuRequest>,
}

/// What came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it could not be run: the compiler's log, for instance.
    pub stopped: Option<String>,
    /// Of each case, in order; the last may be one that took too long.
    pub cases: Vec<CaseOutcome>,
    /// What it costs.
    pub counts: BTreeMap<Count, u64>,
    /// What there is to show, if that was asked for.
    #[serde(default)]
    pub shown: Option<Shown>,
    /// Times, if they were asked for, on a GPU.
    #[serde(default)]
    pub times: Option<Times>,
    /// Why this GPU cannot run the kernel, which is not the kernel's fault.
    #[serde(default)]
    pub skipped: Option<String>,
}

/// Of one case.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CaseOutcome {
    /// What is wrong with the values.
    pub wrong: Option<String>,
    /// The names of the rules that were broken, each once.
    pub findings: Vec<String>,
    /// The simulator's diagnostics.
    pub rendered: String,
    /// What the kernel printed, on the simulator.
    #[serde(default)]
    pub printed: String,
    /// The numbers among its arguments, by the names of its parameters: `pitch = 32`.
    #[serde(default)]
    pub numbers: Vec<(String, String)>,
}

/// What is to be shown beside the costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShowRequest {
    /// What is drawn; what is most worth seeing if `None`.
    pub picture: Option<Picture>,
    /// The sizes to draw at.
    pub sizes: Sizes,
    /// `blockIdx` of the block to draw.
    pub block: [u32; 3],
    /// The source line to draw an access of.
    pub line: Option<u32>,
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Picture {
    /// Which bytes and sectors of global memory the lanes of a warp touch
    Sectors,
    /// Which banks of shared memory the lanes of a warp touch
    Banks,
    /// How a matrix instruction spreads its matrices over lanes and registers
    Fragment,
    /// What the warps of a block do, step by step
    Timeline,
}

/// What there is to show.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// What the kernel costs.
    pub counts: BTreeMap<Count, u64>,
    /// The same by lines of the file, in their order.
    pub lines: Vec<Line>,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// What the registers are of: `sm_90`.
    pub architecture: String,
    /// Registers of a thread, or why they are not known.
    pub registers: Result<u32, String>,
    /// The SVG, or why there is none.
    pub picture: Result<String, String>,
}

/// What one line of the file asked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    /// From 1 on.
    pub number: u32,
    /// Instructions, counted once per warp.
    pub instructions: u64,
    /// Requests to global memory, the sectors that they touched, and those that dense bytes would touch.
    pub global: [u64; 3],
    /// Passes through shared memory per pass that was needed.
    pub ways: Option<f64>,
    /// Branches, and those at which lanes parted.
    pub branches: [u64; 2],
}

/// What is to be done on a GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuRequest {
    /// Which one: `cuda:0`.
    pub device: String,
    /// The sizes to measure times at; none if `None`.
    pub bench: Option<Sizes>,
    /// What else to measure.
    pub library: Option<Library>,
}

/// Times of a kernel and of what it is compared with, with all inputs in the GPU's memory and not in its cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    /// Of the kernel.
    pub kernel: Spread,
    /// Bytes of the buffers that it reads and writes, each once; twice those that it updates.
    pub bytes: u64,
    /// Of the library, or why there is none.
    pub library: Option<Result<Spread, String>>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// A quarter of the runs took at most this long.
    pub low: f64,
    /// Half of them.
    pub median: f64,
    /// Three quarters.
    pub high: f64,
}
