//! `resnet18`: the plan of the network, and one pass of it against the CPU's.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, NO_CLOCK};
use common::check::scale;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::{Graph, Recorder};

use crate::models::Arithmetic;
use crate::models::int8::Scales;
use crate::models::plan::Plan;
use crate::models::runner::Runner;

/// Seed of the untrained parameters.
const SEED: u64 = 18;
/// Random images whose largest values set the steps of int8, and their seed.
const CALIBRATED: usize = 2;
const CALIBRATION: u64 = 19;

/// Settings of the plan and its output.
#[derive(Clone, Debug, clap::Args)]
pub struct ResNet18Args {
    /// Show the plan: which layers become which kernel, and why; on a GPU, what each takes
    #[arg(long)]
    explain: bool,
    /// Arithmetic of the model
    #[arg(long, value_name = "FORMAT", default_value = "f16")]
    precision: Arithmetic,
    /// Images in a batch
    #[arg(long, default_value = "1", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    batch: usize,
    /// Width and height of an image, a multiple of 32 up to 1024 [default: 224, or 64 on the simulator]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(32..=1024))]
    size: Option<usize>,
}

/// The plan of a network with these parameters for images of this shape; in int8 with steps for random images.
///
/// # Errors
/// Same as [`ResNet::load`], [`Graph::record`] and [`Plan::new`].
pub fn plan(
    device: &Device,
    config: Config,
    parameters: &Parameters,
    arithmetic: Arithmetic,
    images: &[usize],
) -> Result<Plan> {
    if arithmetic == Arithmetic::Int8 {
        let sample = [CALIBRATED.min(images[0].max(1)), images[1], images[2], images[3]];
        let scales = Scales::calibrate(config, parameters, &Tensor::random(&sample, CALIBRATION))?;
        return plan_in_bytes(device, config, parameters, &scales, images);
    }
    let graph = Graph::record(&ResNet::load(&Recorder, config, parameters)?, images)?;
    Plan::new(device, arithmetic, graph, &[images])
}

/// [`plan`] in int8 with the steps of a calibration.
///
/// # Errors
/// Same as [`plan`].
pub fn plan_in_bytes(
    device: &Device,
    config: Config,
    parameters: &Parameters,
    scales: &Scales,
    images: &[usize],
) -> Result<Plan> {
    let graph = Graph::record(&ResNet::load(&Recorder, config, parameters)?, images)?;
    Plan::in_bytes(device, graph, &[images], scales)
}

/// The plan, or a pass of it over random images with untrained weights.
///
/// # Errors
/// Same as [`plan`] and [`Runner::infer`].
pub fn resnet18(device: &Device, args: &ResNet18Args) -> Result<Table> {
    let side = args.size.unwrap_or(if device.is_sim() && !args.explain { 64 } else { 224 });
    let images = [args.batch, 3, side, side];
    let parameters = Config::RESNET18.seeded(SEED);
    let plan = plan(device, Config::RESNET18, &parameters, args.precision, &images)?;
    let title = format!("ResNet18 in {}, {} × {side}×{side}, on {}", args.precision, args.batch, device.short_name());
    if args.explain {
        return explained(device, plan, title);
    }
    let (cpu, x) = (Cpu::new(), Tensor::random(&images, 1));
    let expected = cpu.infer(&ResNet::load(&cpu, Config::RESNET18, &parameters)?, &x)?;
    pass(device, plan, &[&x], &expected, title)
}

const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 3);
const DIFFERENCE: ColumnSpec = ColumnSpec::number("of_largest", "max |Δ| of the largest", 6);
const BOUND: ColumnSpec = ColumnSpec::number("bound", "allowed", 6);

/// The plan; on a GPU, with the time of each launch.
pub(super) fn explained(device: &Device, plan: Plan, title: String) -> Result<Table> {
    let mut runner = Runner::new(device, plan)?;
    let took = runner.milliseconds(&device.stream())?;
    Ok(runner.plan().table(title, took.as_deref()))
}

/// One pass of a plan, and its difference from the CPU's result.
pub(super) fn pass(device: &Device, plan: Plan, inputs: &[&Tensor], expected: &Tensor, title: String) -> Result<Table> {
    let stream = device.stream();
    let mut runner = Runner::new(device, plan)?;
    let found = runner.infer_all(&stream, inputs)?;
    let ms =
        if device.is_sim() { None } else { Bench::default().measure(&stream, || runner.queue(&stream))?.median_ms() };
    let plan = runner.plan();
    let mut table = compared(title, plan.launches().len(), ms, [&found, expected], plan.error_bound())?;
    table.note("ms: inputs and results on the device, by events. max |Δ|: to the CPU's results. Weights: seeded.");
    Ok(table)
}

/// A pass compared with the CPU's: `found` and `expected`, and the tolerance relative to the largest value.
pub(super) fn compared(
    title: String,
    launches: usize,
    ms: Option<f64>,
    [found, expected]: [&Tensor; 2],
    bound: f64,
) -> Result<Table> {
    let (found, expected) = (found.as_slice()?, expected.as_slice()?);
    let pairs = found.iter().zip(expected);
    let difference = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max) / scale(expected);
    let mut table = TableBuilder::of(title, [LAUNCHES, MS, DIFFERENCE, BOUND]);
    let row = table.row().set(LAUNCHES, launches).set(MS, Cell::or_absent(ms, NO_CLOCK));
    row.set(DIFFERENCE, difference).set(BOUND, bound).complete();
    Ok(table.finish())
}
