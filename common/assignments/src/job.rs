//! Messages between the command and the process that runs a kernel.

use std::collections::BTreeMap;

use common::check::Tolerance;
use common::ptx_sim::Fault;
use common::{Error, Tensor};
use serde::{Deserialize, Serialize};

use crate::exercise::{Count, Library};
use crate::tasks::{self, Sizes, Task};

/// A kernel to run, and how.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// A number that begins the answer, and which no kernel can print.
    pub nonce: u64,
    /// The task.
    pub task: Task,
    /// The kernel's name.
    pub kernel: String,
    /// The file's text.
    pub source: String,
    /// Architecture to compile for.
    pub architecture: Option<String>,
    /// The sizes to check.
    pub cases: Vec<Sizes>,
    /// The size to count at.
    pub counts: Option<Sizes>,
    /// Instructions that must be in the PTX.
    #[serde(default)]
    pub uses: Vec<String>,
    /// Seed of the inputs.
    pub seed: u64,
    /// Texts of known wrong submissions, to find the one whose values are the same.
    #[serde(default)]
    pub known: Vec<String>,
    /// Costs and picture to show, in place of checking.
    #[serde(default)]
    pub show: Option<ShowRequest>,
    /// The GPU to run on, in place of the simulator.
    #[serde(default)]
    pub gpu: Option<GpuRequest>,
    /// Name of the compiler; the usual one if `None`.
    #[serde(default)]
    pub compiler: Option<String>,
}

impl Job {
    /// The names of the kernel's parameters, for labels; fewer if the text is unusual.
    pub(crate) fn parameters(&self) -> Vec<String> {
        parameters(&self.source, &self.kernel)
    }
}

fn parameters(source: &str, kernel: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let name = |parameter: &str| parameter[parameter.trim_end_matches(is_word).len()..].to_owned();
    tasks::declarations(source, kernel).map(name).collect()
}

/// Result of a job.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Reason why it could not be run: the compiler's log, for instance.
    pub stopped: Option<String>,
    /// Outcome of each case, in order; the last may be one that took too long.
    pub cases: Vec<CaseOutcome>,
    /// Costs of the kernel.
    pub counts: BTreeMap<Count, u64>,
    /// Instructions of [`Job::uses`] that the PTX lacks.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// The one of [`Job::known`] that gives the same values in every case, if only values are wrong.
    #[serde(default)]
    pub same_as: Option<usize>,
    /// Costs and picture to show, if they were asked for.
    #[serde(default)]
    pub shown: Option<Shown>,
    /// Times, if they were asked for, on a GPU.
    #[serde(default)]
    pub times: Option<Times>,
    /// Reason why this GPU cannot run the kernel, which is not the kernel's fault.
    #[serde(default)]
    pub skipped: Option<String>,
}

/// Outcome of one case.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CaseOutcome {
    /// Errors in the values, if any.
    pub wrong: Option<String>,
    /// The names of the rules that were broken, each once.
    pub findings: Vec<String>,
    /// The simulator's diagnostics.
    pub rendered: String,
    /// Text that the kernel printed, on the simulator.
    #[serde(default)]
    pub printed: String,
    /// The numbers among its arguments, by the names of its parameters: `pitch = 32`.
    #[serde(default)]
    pub numbers: Vec<(String, String)>,
    /// Values of its outputs after the launch, with their tolerances.
    #[serde(skip)]
    pub outputs: Vec<(Vec<f64>, Tolerance)>,
}

impl CaseOutcome {
    /// Keeps findings of the sanitiser.
    pub(crate) fn find(&mut self, findings: &[Fault], rendered: &str) {
        for finding in findings {
            let name = finding.kind.name().to_owned();
            if !self.findings.contains(&name) {
                self.findings.push(name);
            }
        }
        if !self.rendered.is_empty() {
            self.rendered.push_str("\n\n");
        }
        self.rendered.push_str(rendered);
    }

    /// Copies a tensor to the host. Undefined values are findings, reported by the first read.
    pub(crate) fn read(&mut self, tensor: &Tensor) -> common::Result<Tensor> {
        match tensor.to_host() {
            Err(Error::Findings { findings, rendered }) => {
                self.find(&findings, &rendered);
                tensor.to_host()
            }
            other => other,
        }
    }
}

/// Request for a picture, shown beside the costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShowRequest {
    /// Kind of picture; the most instructive one if `None`.
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
    /// Bytes and sectors of global memory that the lanes of a warp touch
    Sectors,
    /// Banks of shared memory that the lanes of a warp touch
    Banks,
    /// Layout of a matrix instruction's matrices over lanes and registers
    Fragment,
    /// Work of a block's warps, step by step
    Timeline,
}

/// Costs and picture of a kernel.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// Costs of the kernel.
    pub counts: BTreeMap<Count, u64>,
    /// The same by lines of the file, in their order.
    pub lines: Vec<Line>,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Architecture of the register count: `sm_90`.
    pub architecture: String,
    /// Registers of a thread, or why they are not known.
    pub registers: Result<u32, String>,
    /// The SVG, or why there is none.
    pub picture: Result<String, String>,
}

/// Costs of one line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    /// From 1 on.
    pub number: u32,
    /// Instructions, counted once per warp.
    pub instructions: u64,
    /// Requests to global memory, the sectors that they touched, and the sectors that dense bytes would touch.
    pub global: [u64; 3],
    /// Passes through shared memory per pass that was needed.
    pub ways: Option<f64>,
    /// Branches, and the branches at which lanes diverged.
    pub branches: [u64; 2],
}

/// Work for a GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuRequest {
    /// Name of the GPU: `cuda:0`.
    pub device: String,
    /// The sizes to measure times at; none if `None`.
    pub bench: Option<Sizes>,
    /// Library to measure as well.
    pub library: Option<Library>,
}

/// Times of a kernel and of its comparison, with all inputs in the GPU's memory and not in its cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    /// Time of the kernel.
    pub kernel: Spread,
    /// Bytes of the buffers that it reads and writes, each once; twice those that it updates.
    pub bytes: u64,
    /// Time of the library, or why there is none.
    pub library: Option<Result<Spread, String>>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Lower quartile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Upper quartile.
    pub high: f64,
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_have_the_names_of_the_source() {
        let source = "extern \"C\" __global__ void add(const float *a, float* __restrict__ c,\n unsigned n ) {";
        assert_eq!(parameters(source, "add"), ["a", "c", "n"]);
        assert_eq!(parameters("", "add"), [""; 0]);
    }
}
