//! Costs of a kernel by its lines, and a picture of it: the child process's work for `show`.

use std::path::Path;

use anyhow::{Context, Result};
use common::prelude::*;
use common::ptx_sim::{
    self, Arg, Counters, DeviceConfig, DevicePtr, LaunchError, LineProfile, Observation, Observe, Pick, Space, Trace,
    TraceRequest, ptxas,
};
use common::tensor::F8E4M3;
use half::{bf16, f16};

use crate::exercise::Count;
use crate::job::{Job, Line, Picture, ShowRequest, Shown};
use crate::run;
use crate::tasks::{self, Argument, Case, Setup, Sizes};

/// Maximum size of a picture in bytes: it has to fit into an answer.
const MAX_PICTURE: usize = 2 << 20;

fn cost(line: &LineProfile) -> Line {
    let Counters { warp_instructions, branches, divergent_branches, .. } = line.counters;
    Line {
        number: line.line,
        instructions: warp_instructions,
        global: line.counters.global(),
        ways: line.counters.conflict_ways(),
        branches: [branches, divergent_branches],
    }
}

/// Runs the kernel twice, to count and to draw. `Err` inside: why there is nothing to show.
///
/// # Errors
/// If it is the exercise that is at fault, or there is no compiler.
pub fn run(job: &Job, request: &ShowRequest) -> Result<Result<Shown, String>> {
    let ptx = match KernelSource::from_text("exercise", run::source(job, &job.source)).simulator_ptx() {
        Ok(ptx) => ptx,
        Err(error @ Error::CompilerMissing { .. }) => return Err(error.into()),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let module = match ptx_sim::Module::from_ptx(&ptx, "the PTX of exercise.cu") {
        Ok(module) => module,
        Err(error) => return Ok(Err(error.render(false))),
    };
    let launch = |sizes: &Sizes, observe: &Observe| {
        let setup = tasks::make(&job.task, &Case { sizes, seed: job.seed })?;
        observed(&module, job, setup, observe)
    };
    let counted = job.counts.as_ref().context("a job to show has sizes to count at")?;
    let profile = match launch(counted, &Observe { profile: true, ..Observe::default() })? {
        Ok(observation) => observation.profile.unwrap_or_default(),
        Err(why) => return Ok(Err(why)),
    };
    let trace = TraceRequest { block: request.block, source: Some(job.source.clone()), ..TraceRequest::default() };
    let drawn = launch(&request.sizes, &Observe { trace: Some(trace), ..Observe::default() })?;
    let picture = drawn.and_then(|observation| draw(&observation.trace.unwrap_or_default(), request));
    let architecture = match &job.architecture {
        Some(own) if own.ends_with(['a', 'f']) => own.replace("compute_", "sm_"),
        _ => "sm_90".to_owned(),
    };
    let own = |line: &&LineProfile| Path::new(&line.file).file_name().is_some_and(|name| name == "exercise.cu");
    Ok(Ok(Shown {
        counts: Count::ALL.into_iter().map(|count| (count, count.of(&profile))).collect(),
        lines: profile.lines.iter().filter(own).map(cost).collect(),
        threads: profile.threads,
        shared_bytes: profile.shared_bytes,
        registers: ptxas::registers(&ptx, &architecture, &job.kernel),
        architecture,
        picture,
    }))
}

/// Launches the kernel on a device of its own. `Err` inside: the reason why it stopped.
fn observed(
    module: &ptx_sim::Module,
    job: &Job,
    setup: Setup,
    observe: &Observe,
) -> Result<Result<Observation, String>> {
    let config = DeviceConfig { total_memory: run::MEMORY, workers: 1, sanitize: false, ..DeviceConfig::default() };
    let device = ptx_sim::Device::new(config);
    let kernel = match device.load(module).and_then(|loaded| loaded.kernel(&job.kernel)) {
        Ok(kernel) => kernel,
        Err(error) => return Ok(Err(error.render(false))),
    };
    let names = job.parameters();
    let mut args = Vec::new();
    for (at, argument) in setup.args.iter().enumerate() {
        let fallback = format!("argument {at}");
        let name = names.get(at).unwrap_or(&fallback);
        args.push(match argument {
            Argument::Input(values) => Arg::from(written(&device, name, &bytes(values)?)?),
            Argument::Output(output) => match &output.before {
                Some(values) => Arg::from(written(&device, name, &bytes(values)?)?),
                None => {
                    let poison = vec![0xff; output.axes.count() * output.element.size()];
                    Arg::from(written(&device, name, &poison)?)
                }
            },
            Argument::U32(value) => Arg::from(*value),
            Argument::I32(value) => Arg::from(*value),
            Argument::F32(value) => Arg::from(*value),
        });
    }
    let common::device::LaunchConfig { grid_dim, block_dim, shared_mem_bytes } = setup.launch;
    let config = ptx_sim::LaunchConfig {
        grid: grid_dim.into(),
        block: block_dim.into(),
        shared_bytes: shared_mem_bytes,
        budget: Some(run::BUDGET),
        ..ptx_sim::LaunchConfig::default()
    };
    Ok(kernel.observe(&config, &args, observe).map_err(|error| match error {
        LaunchError::Fault(fault) => fault.render(Some(&job.source), false),
        error => error.to_string(),
    }))
}

fn written(device: &ptx_sim::Device, name: &str, bytes: &[u8]) -> Result<DevicePtr> {
    let pointer = device.alloc(bytes.len() as u64, name)?;
    device.write(pointer, bytes)?;
    Ok(pointer)
}

fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let format = MemoryFormat::Nchw;
    Ok(match tensor.element_type() {
        ElementType::F32 => bytemuck::cast_slice(tensor.values::<f32>(format)?).to_vec(),
        ElementType::F16 => bytemuck::cast_slice(tensor.values::<f16>(format)?).to_vec(),
        ElementType::BF16 => bytemuck::cast_slice(tensor.values::<bf16>(format)?).to_vec(),
        ElementType::F8E4M3 => bytemuck::cast_slice(tensor.values::<F8E4M3>(format)?).to_vec(),
        ElementType::I8 => bytemuck::cast_slice(tensor.values::<i8>(format)?).to_vec(),
        ElementType::I32 => bytemuck::cast_slice(tensor.values::<i32>(format)?).to_vec(),
    })
}

fn draw(trace: &Trace, request: &ShowRequest) -> Result<String, String> {
    let (kind, pick) = chosen(trace, request);
    let drawn = match kind {
        Picture::Sectors => trace.sectors(&pick),
        Picture::Banks => trace.banks(&pick),
        Picture::Fragment => trace.fragment(&pick),
        Picture::Timeline => trace.timeline(),
    };
    let svg = drawn.map_err(|error| error.to_string())?;
    if svg.len() > MAX_PICTURE {
        return Err(format!("it would have {} bytes, and {MAX_PICTURE} are allowed", svg.len()));
    }
    Ok(svg)
}

/// Picks the most instructive picture: the access with the most bank conflicts, else the one with the most sectors above what
/// its bytes need, else a matrix instruction, else the first access.
fn chosen(trace: &Trace, request: &ShowRequest) -> (Picture, Pick) {
    let pick = Pick { line: request.line, ..Pick::default() };
    if let Some(kind @ (Picture::Fragment | Picture::Timeline)) = request.picture {
        return (kind, pick);
    }
    // The most that an access costs above what it needs, and its number among those of the line, from 1 on.
    let worst = |space: Space| {
        let all = trace.accesses.iter().filter(|access| {
            access.space == space
                && request.line.is_none_or(|line| trace.site(access).is_at(line))
                && (space != Space::Shared || access.kind != ptx_sim::AccessKind::Bulk)
        });
        let excess = |access: &ptx_sim::MemoryAccess| match space {
            Space::Shared => access.wavefronts().saturating_sub(access.ideal_wavefronts()),
            _ => access.sectors().saturating_sub(access.ideal_sectors()),
        };
        all.map(excess).zip(1..).max_by_key(|&(excess, nth)| (excess, std::cmp::Reverse(nth)))
    };
    let (shared, global) = (worst(Space::Shared), worst(Space::Global));
    let kind = request.picture.unwrap_or_else(|| match (shared, global) {
        (Some((1.., _)), _) => Picture::Banks,
        (_, Some((1.., _))) => Picture::Sectors,
        _ if trace.fragment(&pick).is_ok() => Picture::Fragment,
        (Some(_), None) => Picture::Banks,
        (_, Some(_)) => Picture::Sectors,
        // It says on which lines there are accesses.
        (None, None) if request.line.is_some() => Picture::Sectors,
        (None, None) => Picture::Timeline,
    });
    let nth = if kind == Picture::Banks { shared } else { global };
    (kind, Pick { nth: nth.map_or(1, |(_, nth)| nth), ..pick })
}
