//! Values and times on a GPU: the child process's work for `--device cuda`.
//!
//! Nothing guards a GPU as the simulator guards its memory, so a kernel runs here only once it was right and clean there.

use anyhow::{Context, Result};
use bench::peer::Cublas;
use bench::timing::{Bench, Queue, Timing};
use common::prelude::*;

use crate::exercise::Library;
use crate::job::{CaseOutcome, GpuRequest, Job, Outcome, Spread, Times};
use crate::run::{self, Given};
use crate::tasks::{self, Argument, Case, Sizes};

/// Settings for the kernel's time: this many runs, each with a cold cache.
const BENCH: fn() -> Bench = || Bench { queue: Queue::Cold, ..Bench::default() };

/// Runs a job on a GPU.
///
/// # Errors
/// If there is no such GPU, there is no compiler, or the exercise is at fault.
pub fn run(job: &Job, request: &GpuRequest) -> Result<Outcome> {
    let device = Device::open(request.device.parse::<DeviceChoice>()?)?;
    let source = KernelSource::from_text("exercise", run::source(job, &job.source));
    if let Err(error) = device.load(&source)
        && error.is_unsupported()
    {
        return Ok(Outcome { skipped: Some(error.to_string()), ..Outcome::default() });
    }
    let kernel = match run::kernel(&device, &source, &job.kernel)? {
        Ok(kernel) => kernel,
        Err(stopped) => return Ok(Outcome { stopped: Some(stopped), ..Outcome::default() }),
    };
    let names = job.parameters();
    let mut outcome = Outcome::default();
    for sizes in job.cases.iter().chain(&request.bench) {
        let setup = tasks::make(&job.task, &Case { sizes, seed: job.seed })?;
        // What the driver reports is the kernel's fault, and the GPU does nothing more in this process.
        let case = run::launch(&device, &kernel, setup, &names)
            .unwrap_or_else(|error| CaseOutcome { wrong: Some(format!("{error:#}")), ..CaseOutcome::default() });
        let is_wrong = case.wrong.is_some();
        outcome.cases.push(case);
        if is_wrong {
            return Ok(outcome);
        }
    }
    if let Some(sizes) = &request.bench {
        outcome.times = Some(times(&device, &kernel, job, sizes, request.library)?);
    }
    Ok(outcome)
}

fn times(device: &Device, kernel: &Kernel, job: &Job, sizes: &Sizes, library: Option<Library>) -> Result<Times> {
    let setup = tasks::make(&job.task, &Case { sizes, seed: job.seed })?;
    let bytes = setup.args.iter().map(bytes).sum();
    let library = library.map(|library| {
        let timing = match library {
            Library::Copy => copy(device, bytes),
            Library::Gemm => gemm(device, &setup.args),
        };
        timing.and_then(|timing| spread(&timing)).map_err(|error| format!("{error:#}"))
    });
    let stream = device.stream();
    let mut given = setup.args.into_iter().map(|argument| Given::new(argument, device)).collect::<Result<Vec<_>>>()?;
    // SAFETY: the simulator and a first run on this GPU found nothing wrong at these sizes.
    let timing = BENCH().measure(&stream, || unsafe { run::queue(&stream, kernel, &mut given, setup.launch) })?;
    Ok(Times { kernel: spread(&timing)?, bytes, library })
}

fn spread(timing: &Timing) -> Result<Spread> {
    let (low, high) = timing.quartiles_ms().context("the device has no clock")?;
    Ok(Spread { low, median: timing.median_ms().unwrap_or(low), high })
}

fn bytes(argument: &Argument) -> u64 {
    match argument {
        Argument::Input(tensor) => tensor.num_bytes() as u64,
        Argument::Output(output) => {
            let times = if output.before.is_some() { 2 } else { 1 };
            (times * output.axes.count() * output.element.size()) as u64
        }
        Argument::U32(_) | Argument::I32(_) | Argument::F32(_) => 0,
    }
}

/// Time of the driver's copy of half as many bytes, which reads and writes `bytes` in all.
fn copy(device: &Device, bytes: u64) -> Result<Timing> {
    let stream = device.stream();
    let from = stream.alloc_zeros::<u8>((bytes / 2) as usize)?;
    let mut to = stream.alloc_zeros::<u8>(from.len())?;
    Ok(BENCH().measure(&stream, || stream.memcpy_dtod(&from, &mut to))?)
}

/// Time of cuBLAS's product of the first two inputs, matrices of f32.
fn gemm(device: &Device, args: &[Argument]) -> Result<Timing> {
    let mut inputs = args.iter().filter_map(|argument| match argument {
        Argument::Input(tensor) => Some(tensor),
        _ => None,
    });
    let two = inputs.next().zip(inputs.next()).context("a product has two inputs")?;
    // [1, M, K] stands for [M, K].
    let matrix = |tensor: &Tensor| -> Result<Tensor> {
        let shape: Vec<usize> = tensor.shape().iter().copied().skip_while(|&extent| extent == 1).collect();
        let copied = tensor.to_device(device)?;
        Ok(if shape.len() == 2 { copied.reshape(&shape)? } else { copied })
    };
    let (a, b) = (matrix(two.0)?, matrix(two.1)?);
    let ([m, _], [_, n]) = (a.dims::<2>("the product")?, b.dims::<2>("the product")?);
    let mut c = Tensor::empty_on(device, &[m, n])?;
    let stream = device.stream();
    let cublas = Cublas::open(&stream)?;
    Ok(BENCH().measure(&stream, || cublas.gemm(&a, &b, false, 1.0, 0.0, &mut c))?)
}
