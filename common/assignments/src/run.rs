//! Compiles a kernel and runs it on the simulator: what happens in the process of its own.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use common::check::{self, Mismatch};
use common::device::SimOptions;
use common::prelude::*;
use common::ptx_sim::Counters;
use serde::{Deserialize, Serialize};

use crate::exercise::{Count, Sizes};
use crate::tasks::{self, Argument, Output, Setup};

/// Warp instructions that one launch may take: some hundred times what an exercise needs.
const BUDGET: u64 = 2_000_000;
/// Device memory.
const MEMORY: u64 = 256 << 20;

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
    /// The sizes to check.
    pub cases: Vec<Sizes>,
    /// The size to count at.
    pub counts: Option<Sizes>,
    /// For the inputs.
    pub seed: u64,
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
}

/// Runs a job.
///
/// # Errors
/// If it is the exercise that is at fault, or NVRTC is absent.
pub fn run(job: &Job) -> Result<Outcome> {
    let source = KernelSource::from_text("exercise", &*job.source);
    let checking =
        SimOptions { memory: MEMORY, workers: 1, budget: Some(BUDGET), sanitize: true, ..SimOptions::default() };
    let mut outcome = Outcome::default();
    // A device of its own for each case: a fault leaves nothing behind.
    for sizes in &job.cases {
        let device = Device::sim_with(checking);
        let kernel = match kernel(&device, &source, &job.kernel)? {
            Ok(kernel) => kernel,
            Err(stopped) => return Ok(Outcome { stopped: Some(stopped), ..outcome }),
        };
        let case = launch(&device, &kernel, make(job, sizes)?)?;
        let endless = case.findings.iter().any(|finding| finding == "budget");
        outcome.cases.push(case);
        if endless {
            return Ok(outcome);
        }
    }
    let passed = outcome.cases.iter().all(|case| case.wrong.is_none() && case.findings.is_empty());
    if let (Some(sizes), true) = (&job.counts, passed) {
        let device = Device::sim_with(SimOptions { sanitize: false, profile: true, ..checking });
        if let Ok(kernel) = kernel(&device, &source, &job.kernel)? {
            let case = launch(&device, &kernel, make(job, sizes)?)?;
            if case.wrong.is_some() {
                outcome.cases.push(case);
                return Ok(outcome);
            }
            let mut sum = Counters::default();
            for profile in device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default() {
                sum += profile.counters;
            }
            outcome.counts = BTreeMap::from([
                (Count::Instructions, sum.warp_instructions),
                (Count::Sectors, sum.global()[1] + sum.global_atomic_sectors + sum.global_reduction_sectors),
                (Count::Conflicts, sum.shared_load_conflicts + sum.shared_store_conflicts),
            ]);
        }
    }
    Ok(outcome)
}

fn make(job: &Job, sizes: &Sizes) -> Result<Setup> {
    let task = tasks::find(&job.task).with_context(|| format!("there is no task `{}`", job.task))?;
    task(sizes, job.seed)
}

/// The kernel, or why the file has none.
fn kernel(device: &Device, source: &KernelSource, name: &str) -> Result<Result<Kernel, String>> {
    let module = match device.load(source) {
        Ok(module) => module,
        Err(error @ Error::NvrtcMissing { .. }) => return Err(error.into()),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let names: Vec<&str> = module.kernel_names().collect();
    if names != [name] {
        let found = names.join("`, `");
        return Ok(Err(format!(
            "The file should define `extern \"C\" __global__ void {name}(…)` alone; it defines `{found}`."
        )));
    }
    Ok(module.kernel(name).map_err(|error| error.to_string()))
}

enum Given<'a> {
    Input(Buffer<f32>, &'a [f32]),
    Output(Buffer<f32>, &'a Output),
    U32(u32),
    F32(f32),
}

fn launch(device: &Device, kernel: &Kernel, setup: Setup) -> Result<CaseOutcome> {
    let stream = device.stream();
    let mut given = Vec::new();
    for argument in &setup.args {
        given.push(match argument {
            Argument::Input(values) => Given::Input(stream.clone_htod(values)?, values),
            Argument::Output(output) => {
                let buffer = match &output.before {
                    Some(values) => stream.clone_htod(values)?,
                    None => stream.alloc_poisoned::<f32>(output.expected.len())?,
                };
                Given::Output(buffer, output)
            }
            Argument::U32(value) => Given::U32(*value),
            Argument::F32(value) => Given::F32(*value),
        });
    }
    let mut args = stream.launch_builder(kernel);
    for one in &mut given {
        match one {
            // As something to write: the simulator refuses nothing, and the values are compared afterwards.
            Given::Input(buffer, _) | Given::Output(buffer, _) => args.arg(buffer),
            Given::U32(value) => args.arg(&*value),
            Given::F32(value) => args.arg(&*value),
        };
    }
    let mut case = CaseOutcome::default();
    // SAFETY: the simulator stops every access outside a buffer.
    let ended = unsafe { args.launch(setup.launch) };
    match ended {
        Ok(()) => {}
        Err(Error::Findings { findings, rendered }) => {
            for finding in &findings {
                let name = finding.kind.name().to_owned();
                if !case.findings.contains(&name) {
                    case.findings.push(name);
                }
            }
            case.rendered = rendered;
        }
        Err(Error::Fault { fault, rendered }) => {
            case.findings.push(fault.kind.name().to_owned());
            case.rendered = rendered;
            case.wrong = Some("it stopped before it was done".to_owned());
            return Ok(case);
        }
        Err(error) => {
            case.wrong = Some(error.to_string());
            return Ok(case);
        }
    }
    for (at, one) in given.iter().enumerate() {
        let wrong = match one {
            Given::Input(buffer, before) => {
                let after = stream.clone_dtoh(buffer)?;
                let changed = after.iter().zip(*before).position(|(a, b)| a.to_bits() != b.to_bits());
                changed.map(|i| format!("argument {at} is an input, and its element {i} was changed"))
            }
            Given::Output(buffer, output) => compare(&stream.clone_dtoh(buffer)?, output),
            _ => None,
        };
        if case.wrong.is_none() {
            case.wrong = wrong;
        }
    }
    Ok(case)
}

fn compare(actual: &[f32], output: &Output) -> Option<String> {
    let place = |first: usize| {
        let mut rest = first;
        let mut indices: Vec<String> = Vec::new();
        for &extent in output.shape.iter().rev() {
            indices.insert(0, (rest % extent).to_string());
            rest /= extent;
        }
        format!("[{}]", indices.join("]["))
    };
    let count = actual.len();
    match check::compare(actual, &output.expected, output.tolerance).err()? {
        Mismatch::Values { wrong, first, actual, expected, .. } => {
            let got =
                if actual.is_nan() { "nothing was written there (NaN)".to_owned() } else { format!("got {actual}") };
            Some(format!(
                "{wrong} of {count} values are wrong; the first at {}: expected {expected}, {got}",
                place(first)
            ))
        }
        other => Some(other.to_string()),
    }
}
