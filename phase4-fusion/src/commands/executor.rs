//! `executor`: the video U-Net as a queue of tasks in one launch: one pass compared with the graph of launches, or its tasks.

use bench::ladder::{NO_COUNTS, columns};
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, NO_CLOCK, Timing};
use common::check::{Tolerance, compare, scale};
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};

use super::unet::plan;
use crate::executor::{self, Executor, Program};
use crate::models::Arithmetic;
use crate::models::runner::Runner;

/// Seed of the untrained parameters.
const SEED: u64 = 8;
/// The timestep of a pass.
const STEP: f32 = 700.0;

const CONFIG: ColumnSpec = ColumnSpec::text("config", "U-Net");
const KIND: ColumnSpec = ColumnSpec::text("kind", "kind");
const LAYERS: ColumnSpec = ColumnSpec::number("layers", "layers", 0);
const TASKS: ColumnSpec = ColumnSpec::number("tasks", "tasks", 0);
const WAITS: ColumnSpec = ColumnSpec::number("waits", "counters looked at", 0);
const MEGAFLOPS: ColumnSpec = ColumnSpec::number("megaflops", "MFLOP", 1);
const SHARE: ColumnSpec = ColumnSpec::number("share", "% of FLOPs", 1);
const CHAIN: ColumnSpec = ColumnSpec::number("chain", "longest chain", 0);
const PARAMETERS: ColumnSpec = ColumnSpec::number("parameters", "parameters, MB", 1);
const VALUES: ColumnSpec = ColumnSpec::number("values", "values, MB", 1);

const WAY: ColumnSpec = ColumnSpec::text("way", "way");
const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);
const LANES: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 1).on_simulator();
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 3).on_gpu();
const GAIN: ColumnSpec = ColumnSpec::number("gain", "gain, ×", 2).on_gpu();
const DIFFERENCE: ColumnSpec = ColumnSpec::number("of_largest", "max |Δ| of the largest", 7);
const BOUND: ColumnSpec = ColumnSpec::number("bound", "allowed", 7);

/// Settings of the program and its output.
#[derive(Clone, Debug, clap::Args)]
pub struct ExecutorArgs {
    /// Show the tasks, and run none: how many of which kind, what they wait for, the longest chain
    #[arg(long)]
    explain: bool,
    /// Size of the U-Net
    #[arg(long, default_value = "tiny", value_parser = clap::builder::PossibleValuesParser::new(Config::ALL.map(|(name, _)| name)))]
    config: String,
    /// Latents in a batch
    #[arg(long, default_value = "1", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    batch: usize,
    /// Width and height of the latents, a multiple of 8 up to 1024 [default: 64, or 8 on the simulator]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(8..=1024))]
    size: Option<usize>,
}

/// The tasks, or a pass over random latents with untrained weights in both implementations; its errors are second.
///
/// # Errors
/// Same as [`executor::unet`], [`plan`] and [`Executor::infer`].
pub fn executor(device: &Device, args: &ExecutorArgs) -> Result<(Vec<Table>, Vec<String>)> {
    let side = args.size.unwrap_or(if device.is_sim() && !args.explain { 8 } else { 64 });
    let named = Config::ALL.into_iter().find(|(name, _)| *name == args.config).unwrap_or(Config::ALL[0]);
    let latents = [args.batch, INPUTS, side, side];
    if args.explain {
        return Ok((explained(device, &[named], &latents)?, Vec::new()));
    }
    let (table, wrong) = pass(device, named, &latents)?;
    Ok((vec![table], wrong))
}

/// Tasks by kind, and whole programs, of these U-Nets.
///
/// # Errors
/// Same as [`executor::unet`] and [`Program::critical_path`].
pub fn explained(device: &Device, configs: &[(&'static str, Config)], latents: &[usize]) -> Result<Vec<Table>> {
    let processors = executor::processors(device);
    let of = |what: &str| format!("{what} of the U-Net, latents {latents:?}, for {processors} SMs");
    let mut shares = TableBuilder::of(of("tasks"), [CONFIG, KIND, LAYERS, TASKS, WAITS, MEGAFLOPS, SHARE]);
    let mut totals =
        TableBuilder::of(of("programs"), [CONFIG, LAYERS, TASKS, WAITS, CHAIN, MEGAFLOPS, PARAMETERS, VALUES]);
    for &(name, config) in configs {
        let program = executor::unet(config, &config.seeded(SEED), latents, processors)?;
        let all = program.shares();
        let sum = |of: fn(&executor::Share) -> u64| all.values().map(of).sum::<u64>() as f64;
        let flops = sum(|share| share.flops);
        for (kind, share) in &all {
            let row = shares.row().set(CONFIG, name).set(KIND, kind.name()).set(LAYERS, share.layers);
            let row = row.set(TASKS, share.tasks).set(WAITS, share.waits).set(MEGAFLOPS, share.flops as f64 / 1e6);
            row.set(SHARE, 100.0 * share.flops as f64 / flops).complete();
        }
        let [parameters, values] = program.bytes().map(|bytes| bytes as f64 / 1e6);
        let row = totals.row().set(CONFIG, name).set(LAYERS, sum(|share| share.layers as u64));
        let row = row.set(TASKS, sum(|share| share.tasks as u64)).set(WAITS, sum(|share| share.waits as u64));
        let row = row.set(CHAIN, program.critical_path()?).set(MEGAFLOPS, flops / 1e6);
        row.set(PARAMETERS, parameters).set(VALUES, values).complete();
    }
    totals.note("longest chain: tasks of which each waits for the one before. Values: each has a place of its own.");
    Ok(vec![shares.finish(), totals.finish()])
}

/// One pass by a graph of launches and by the executor, both in f32, compared with the CPU's. On the simulator one block runs:
/// with several, the number of looks at each other's counters would be chance.
///
/// # Errors
/// Same as [`executor()`].
pub fn pass(device: &Device, (name, config): (&str, Config), latents: &[usize]) -> Result<(Table, Vec<String>)> {
    let stream = device.stream();
    let parameters = config.seeded(SEED);
    let (x, steps) = (Tensor::random(latents, 1), Tensor::full(&latents[..1], STEP));
    let cpu = Cpu::new();
    let expected = cpu.infer(&UNet::load(&cpu, config, &parameters)?.at(steps.to_host()?), &x)?;
    let expected = expected.as_slice()?;
    let title = format!("the U-Net {name} in f32, latents {latents:?}");
    let all = [WAY, LAUNCHES, TASKS, LANES, MS, GAIN, DIFFERENCE, BOUND, columns::CHECK];
    let mut table = TableBuilder::on(device, &title, &all);
    let (mut wrong, mut plain) = (Vec::new(), None);
    let mut add = |way: &str, [launches, tasks]: [Option<usize>; 2], timing: &Timing, found: &Tensor, bound: f64| {
        let found = found.as_slice()?;
        let difference = found.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
        let checked = compare(found, expected, Tolerance::of_scale(bound, expected));
        let check = if checked.is_ok() { "ok" } else { "WRONG" };
        wrong.extend(checked.err().map(|error| format!("{way}: {error}")));
        let ms = timing.median_ms();
        plain = plain.or(ms);
        let lanes = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6);
        let count = |count: Option<usize>| Cell::or_absent(count.map(|count| count as f64), "a graph has launches");
        let row = table.row().set(WAY, way).set(LAUNCHES, count(launches)).set(TASKS, count(tasks));
        row.set(LANES, Cell::or_absent(lanes, NO_COUNTS))
            .set(MS, Cell::or_absent(ms, NO_CLOCK))
            .set(GAIN, Cell::or_absent(plain.zip(ms).map(|(plain, ms)| plain / ms), NO_CLOCK))
            .set(DIFFERENCE, difference / scale(expected))
            .set(BOUND, bound)
            .set(columns::CHECK, check)
            .complete();
        Ok::<_, Error>(())
    };

    let mut runner = Runner::new(device, plan(device, config, &parameters, Arithmetic::F32, latents)?)?;
    let found = runner.infer_all(&stream, &[&x, &steps])?;
    let timing = Bench::default().measure(&stream, || runner.queue(&stream))?;
    let bound = runner.plan().error_bound();
    add("graph", [Some(runner.plan().launches().len()), None], &timing, &found, bound)?;
    drop(runner);

    let program: Program = executor::unet(config, &parameters, latents, executor::processors(device))?;
    let mut executor =
        if device.is_sim() { Executor::with_blocks(&stream, &program, 1)? } else { Executor::new(&stream, &program)? };
    let found = executor.infer(&stream, &[&x, &steps])?;
    let timing = Bench::default().measure(&stream, || executor.queue(&stream))?;
    add("persistent kernel", [Some(1), Some(program.tasks().len())], &timing, &found, program.error_bound())?;
    table.note_on(MS, "ms: inputs and results on the device, by events.");
    table.note("max |Δ|: to the CPU's results. Weights: seeded.");
    Ok((table.finish(), wrong))
}
