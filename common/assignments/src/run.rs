//! Compiles a kernel and checks it on the simulator, in the child process.

use std::time::{Duration, Instant};

use anyhow::Result;
use common::device::{LaunchArgs, SimOptions};
use common::prelude::*;
use common::tensor::F8E4M3;
use half::{bf16, f16};

use crate::exercise::Count;
use crate::job::{CaseOutcome, Job, Outcome};
use crate::observe;
use crate::tasks::{self, Argument, Case, Output, Setup, Sizes};

/// Maximum warp instructions of one launch: some hundred times what an exercise needs.
pub(crate) const BUDGET: u64 = 2_000_000;
/// Device memory.
pub(crate) const MEMORY: u64 = 256 << 20;

/// Time after which no further known cause is tried: the verdict without one is better than none.
const TIME_FOR_CAUSES: Duration = Duration::from_secs(8);

/// Checks the values at the sizes of a job, and counts.
///
/// # Errors
/// If it is the exercise that is at fault, or there is no compiler.
pub fn check(job: &Job) -> Result<Outcome> {
    let source = KernelSource::from_text("exercise", source(job, &job.source));
    let mut outcome = Outcome::default();
    // A device of its own for each case: a fault leaves nothing behind.
    for sizes in &job.cases {
        let device = Device::sim_with(checking());
        let kernel = match kernel(&device, &source, &job.kernel)? {
            Ok(kernel) => kernel,
            Err(stopped) => return Ok(Outcome { stopped: Some(stopped), ..outcome }),
        };
        let case = launch_case(job, &device, &kernel, sizes)?;
        let endless = case.findings.iter().any(|finding| finding == "budget");
        outcome.cases.push(case);
        if endless {
            return Ok(outcome);
        }
    }
    let is_clean = outcome.cases.iter().all(|case| case.findings.is_empty());
    let is_right = outcome.cases.iter().all(|case| case.wrong.is_none());
    if is_clean && !is_right {
        let begin = Instant::now();
        for (number, text) in job.known.iter().enumerate().take_while(|_| begin.elapsed() < TIME_FOR_CAUSES) {
            if gives_the_same(job, text, &outcome.cases)? {
                outcome.same_as = Some(number);
                break;
            }
        }
    }
    if let (Some(sizes), true) = (&job.counts, is_clean && is_right) {
        // A kernel sees its sizes, so it must be clean here too.
        let device = Device::sim_with(SimOptions { profile: true, ..checking() });
        if let Ok(kernel) = kernel(&device, &source, &job.kernel)? {
            let case = launch_case(job, &device, &kernel, sizes)?;
            if case.wrong.is_some() || !case.findings.is_empty() {
                outcome.cases.push(case);
                return Ok(outcome);
            }
            let launched = device.as_sim().and_then(|sim| sim.take_profiles().pop()).unwrap_or_default();
            outcome.counts = Count::ALL.into_iter().map(|count| (count, count.of(&launched))).collect();
            if !job.uses.is_empty() {
                let ptx = source.simulator_ptx()?;
                outcome.lacks = job.uses.iter().filter(|wanted| !ptx.contains(wanted.as_str())).cloned().collect();
            }
        }
    }
    Ok(outcome)
}

/// Options of the simulator that checks.
fn checking() -> SimOptions {
    SimOptions { memory: MEMORY, workers: 1, budget: Some(BUDGET), sanitize: true, ..SimOptions::default() }
}

/// Whether the kernel of this text gives the same values in each case, up to rounding.
fn gives_the_same(job: &Job, text: &str, cases: &[CaseOutcome]) -> Result<bool> {
    let source = KernelSource::from_text("known", source(job, text));
    for (sizes, case) in job.cases.iter().zip(cases) {
        let device = Device::sim_with(checking());
        let Ok(kernel) = kernel(&device, &source, &job.kernel)? else { return Ok(false) };
        let other = launch_case(job, &device, &kernel, sizes)?;
        let are_same = case.outputs.iter().zip(&other.outputs).all(|((values, tolerance), (others, _))| {
            // Where nothing is written, both are NaN.
            values.iter().zip(others).all(|(a, b)| a.to_bits() == b.to_bits() || tolerance.allows(*a, *b))
        });
        // One that was stopped has no outputs.
        if !are_same || case.outputs.len() != other.outputs.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// [`launch`] at these sizes, with the kernel's arguments.
fn launch_case(job: &Job, device: &Device, kernel: &Kernel, sizes: &Sizes) -> Result<CaseOutcome> {
    let setup = tasks::make(&job.task, &Case { sizes, seed: job.seed })?;
    let names = job.parameters();
    let numbers = numbers(&names, &setup);
    Ok(CaseOutcome { numbers, ..launch(device, kernel, setup, &names)? })
}

/// Numbers among a kernel's arguments, by the names in its text.
fn numbers(names: &[String], setup: &Setup) -> Vec<(String, String)> {
    let number = |argument: &Argument| match argument {
        Argument::U32(value) => Some(value.to_string()),
        Argument::I32(value) => Some(value.to_string()),
        Argument::F32(value) => Some(value.to_string()),
        Argument::Input(_) | Argument::Output(_) => None,
    };
    let numbers = names.iter().zip(&setup.args);
    numbers.filter_map(|(name, argument)| Some((name.clone(), number(argument)?))).collect()
}

/// `text` as it is compiled. Options stand at its end, so that lines keep their numbers.
pub(crate) fn source(job: &Job, text: &str) -> String {
    let mut options = tasks::INFINITY.to_owned();
    if let Some(architecture) = &job.architecture {
        options += " --gpu-architecture=";
        options += architecture;
    }
    format!("{text}\n// nvrtc: {options}\n")
}

/// The kernel, or why the file has none.
pub(crate) fn kernel(device: &Device, source: &KernelSource, name: &str) -> Result<Result<Kernel, String>> {
    let module = match device.load(source) {
        Ok(module) => module,
        Err(error @ Error::CompilerMissing { .. }) => return Err(error.into()),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let names: Vec<&str> = module.kernel_names().collect();
    if names != [name] {
        let found = if names.is_empty() { "none".to_owned() } else { format!("`{}`", names.join("`, `")) };
        // The name that C++ makes of a function holds its length and itself.
        let mangled = format!("_Z{}{name}", name.len());
        let why = match names.iter().find(|found| found.starts_with(&mangled)) {
            Some(_) => " Without `extern \"C\"` before `__global__`, C++ changes a function's name.",
            None => "",
        };
        return Ok(Err(format!(
            "The file must define one kernel, `extern \"C\" __global__ void {name}(…)`. It defines {found}.{why}"
        )));
    }
    Ok(module.kernel(name).map_err(|error| error.to_string()))
}

/// An argument in device memory.
pub(crate) enum Given {
    Input { before: Tensor, buffer: Tensor },
    Output { output: Output, buffer: Tensor },
    Bytes([u8; 4]),
}

impl Given {
    pub(crate) fn new(argument: Argument, device: &Device) -> Result<Given> {
        Ok(match argument {
            Argument::Input(before) => Given::Input { buffer: before.to_device(device)?, before },
            Argument::Output(output) => {
                let buffer = match &output.before {
                    Some(values) => values.to_device(device)?,
                    // Poisoned.
                    None => Tensor::empty_of(device, &output.axes.shape(), output.element, MemoryFormat::Nchw)?,
                };
                Given::Output { output, buffer }
            }
            Argument::U32(value) => Given::Bytes(value.to_ne_bytes()),
            Argument::I32(value) => Given::Bytes(value.to_ne_bytes()),
            Argument::F32(value) => Given::Bytes(value.to_ne_bytes()),
        })
    }

    /// Compares the argument called `name` with what it should be after the launch, and notes the first that is wrong.
    fn judge(&self, name: &str, case: &mut CaseOutcome) -> Result<()> {
        let wrong = match self {
            Given::Input { before, buffer } => {
                let (before, after) = (before.to_f64()?, case.read(buffer)?.to_f64()?);
                let changed = after.iter().zip(&before).position(|(a, b)| a.to_bits() != b.to_bits());
                changed.map(|i| format!("{name} is an input, but the kernel changed its element {i}"))
            }
            Given::Output { output, buffer } => {
                let values = case.read(buffer)?.to_f64()?;
                let wrong = observe::describe(name, output, &values);
                case.outputs.push((values, output.tolerance));
                wrong
            }
            Given::Bytes(_) => None,
        };
        case.wrong = case.wrong.take().or(wrong);
        Ok(())
    }
}

/// Appends a tensor's pointer, as something to write: the simulator refuses nothing, and the values are compared afterwards.
fn push<'a>(args: &mut LaunchArgs<'a>, tensor: &'a mut Tensor) -> common::Result<()> {
    let format = MemoryFormat::Nchw;
    match tensor.element_type() {
        ElementType::F32 => args.arg(tensor.buffer_of_mut::<f32>(format)?),
        ElementType::F16 => args.arg(tensor.buffer_of_mut::<f16>(format)?),
        ElementType::BF16 => args.arg(tensor.buffer_of_mut::<bf16>(format)?),
        ElementType::F8E4M3 => args.arg(tensor.buffer_of_mut::<F8E4M3>(format)?),
        ElementType::I8 => args.arg(tensor.buffer_of_mut::<i8>(format)?),
        ElementType::I32 => args.arg(tensor.buffer_of_mut::<i32>(format)?),
    };
    Ok(())
}

/// Launches the kernel.
///
/// # Safety
/// On a GPU it must not touch memory outside its buffers; the simulator stops every such access.
pub(crate) unsafe fn queue(
    stream: &Stream,
    kernel: &Kernel,
    given: &mut [Given],
    config: LaunchConfig,
) -> common::Result<()> {
    let mut args = stream.launch_builder(kernel);
    for one in given {
        match one {
            Given::Input { buffer, .. } | Given::Output { buffer, .. } => push(&mut args, buffer)?,
            Given::Bytes(bytes) => {
                args.arg_bytes(bytes);
            }
        }
    }
    // SAFETY: the caller's.
    unsafe { args.launch(config) }
}

/// Launches the kernel and checks its results. `names` are those of its parameters.
pub(crate) fn launch(device: &Device, kernel: &Kernel, setup: Setup, names: &[String]) -> Result<CaseOutcome> {
    let stream = device.stream();
    let mut given = setup.args.into_iter().map(|argument| Given::new(argument, device)).collect::<Result<Vec<_>>>()?;
    let mut case = CaseOutcome::default();
    // SAFETY: the simulator stops every access outside a buffer, and what comes to a GPU was clean there.
    let ended = unsafe { queue(&stream, kernel, &mut given, setup.launch) };
    case.printed = device.take_output();
    match ended {
        Ok(()) => {}
        Err(Error::Findings { findings, rendered }) => case.find(&findings, &rendered),
        Err(Error::Fault { fault, rendered }) => {
            case.findings.push(fault.kind.name().to_owned());
            case.rendered = rendered;
            case.wrong = Some("the kernel was stopped before it finished".to_owned());
            return Ok(case);
        }
        Err(Error::Arguments { detail, .. }) => {
            case.wrong = Some(format!(
                "the kernel's parameters must stay as they were, since the exercise passes these arguments: {detail}"
            ));
            return Ok(case);
        }
        Err(error) => {
            case.wrong = Some(error.to_string());
            return Ok(case);
        }
    }
    for (at, one) in given.iter().enumerate() {
        let fallback = format!("argument {at}");
        one.judge(names.get(at).unwrap_or(&fallback), &mut case)?;
    }
    Ok(case)
}
