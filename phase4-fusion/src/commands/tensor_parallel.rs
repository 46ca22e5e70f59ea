//! `tensor-parallel`: the video U-Net over several devices, each with a part of the heads and channels.

use std::num::NonZeroUsize;

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::NO_CLOCK;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::Graph;

use crate::models::Arithmetic;
use crate::models::plan::Plan;
use crate::models::runner::Runner;
use crate::tensor_parallel::{Measured, measure, split};

/// Seed of the untrained parameters.
const SEED: u64 = 8;
/// The timestep of a pass.
const STEP: f32 = 700.0;

/// Settings of the split and its output.
#[derive(Clone, Debug, clap::Args)]
pub struct TensorParallelArgs {
    /// Show the plan of the first device: which part of which layer becomes which kernel, and why
    #[arg(long)]
    explain: bool,
    /// Devices to split the network over, at most [default: all]
    #[arg(long, value_name = "N")]
    pub gpus: Option<NonZeroUsize>,
    /// Arithmetic of the model
    #[arg(long, value_name = "FORMAT", default_value = "f16")]
    precision: Arithmetic,
    /// Size of the U-Net
    #[arg(long, default_value = "tiny", value_parser = clap::builder::PossibleValuesParser::new(Config::ALL.map(|(name, _)| name)))]
    config: String,
    /// Latents in a batch
    #[arg(long, default_value = "2", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    batch: usize,
    /// Width and height of the latents, a multiple of 8 up to 1024 [default: 64, or 8 on the simulator]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(8..=1024))]
    size: Option<usize>,
}

const DEVICES: ColumnSpec = ColumnSpec::identity("devices", "devices");
const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);
const SUMS: ColumnSpec = ColumnSpec::number("sums", "sums", 0);
const LINK: ColumnSpec = ColumnSpec::number("link_mib", "MiB by link", 2);
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 3).on_gpu();
const GAIN: ColumnSpec = ColumnSpec::number("gain", "gain, ×", 2).on_gpu();
const WITHOUT: ColumnSpec = ColumnSpec::number("ms_without_sums", "ms, no sums", 3).on_gpu();
const SHARE: ColumnSpec = ColumnSpec::number("percent_in_sums", "% in sums", 1).on_gpu();
const DIFFERENCE: ColumnSpec = ColumnSpec::number("of_largest", "max |Δ|", 6);
const BOUND: ColumnSpec = ColumnSpec::number("bound", "allowed", 6);
const COLUMNS: [ColumnSpec; 10] = [DEVICES, LAUNCHES, SUMS, LINK, MS, GAIN, WITHOUT, SHARE, DIFFERENCE, BOUND];

/// One pass of a U-Net with seeded weights over random latents, on 1, 2, 4, … devices of a group.
#[derive(Debug)]
pub struct Frame {
    graph: Graph,
    x: Tensor,
    steps: Tensor,
    /// Expected output of a pass.
    expected: Tensor,
    /// Implementation that computed it.
    by: &'static str,
}

impl Frame {
    /// The recorded network, and its expected output: by the CPU for the smallest network, by a plan in f32 on `device` for
    /// others, which would take the CPU minutes.
    ///
    /// # Errors
    /// Same as [`Config::graph`]; errors of the CPU or the plan.
    pub fn new(device: &Device, config: Config, latents: [usize; 4]) -> Result<Frame> {
        let parameters: Parameters = config.seeded(SEED);
        let graph = config.graph(&parameters, &latents)?;
        let (x, steps) = (Tensor::random(&latents, 1), Tensor::full(&latents[..1], STEP));
        let (expected, by) = if config == Config::TINY {
            let cpu = Cpu::new();
            (cpu.infer(&UNet::load(&cpu, config, &parameters)?.at(steps.to_host()?), &x)?, "the CPU's result")
        } else {
            let plan = Plan::new(device, Arithmetic::F32, graph.clone(), &[&latents, &latents[..1]])?;
            (Runner::new(device, plan)?.infer_all(&device.stream(), &[&x, &steps])?, "that of one device in f32")
        };
        Ok(Frame { graph, x, steps, expected, by })
    }

    /// A pass over all devices of a group: checked, and measured on GPUs.
    ///
    /// # Errors
    /// Same as [`measure`].
    pub fn measure(&self, group: &DeviceGroup, arithmetic: Arithmetic) -> Result<Measured> {
        measure(group, arithmetic, &self.graph, &[&self.x, &self.steps], &self.expected)
    }
}

/// The plan of rank 0, or a pass over 1, 2, 4, … devices and all of them; and the errors in its results.
///
/// # Errors
/// Same as [`split`], [`Plan::new`] and [`Frame::measure`].
pub fn tensor_parallel(group: &DeviceGroup, args: &TensorParallelArgs) -> Result<(Table, Vec<String>)> {
    let side = args.size.unwrap_or(if group.is_sim() && !args.explain { 8 } else { 64 });
    let latents = [args.batch, INPUTS, side, side];
    let named = Config::ALL.into_iter().find(|(name, _)| *name == args.config).unwrap_or(Config::ALL[0]);
    let ((name, config), arithmetic) = (named, args.precision);
    let what = format!("The U-Net {name} in {arithmetic}, {} × {side}×{side}", args.batch);
    if args.explain {
        let graph = split(&config.graph(&config.seeded(SEED), &latents)?, 0, group.len())?;
        let plan = Plan::new(&group.devices()[0], arithmetic, graph, &[&latents, &latents[..1]])?;
        return Ok((plan.table(format!("{what}: rank 0 of {}", group.describe()), None), Vec::new()));
    }
    let frame = Frame::new(&group.devices()[0], config, latents)?;
    let title = format!("{what}, over {} devices", group.len());
    let mut table = TableBuilder::on(&group.devices()[0], &title, &COLUMNS);
    let (mut wrong, mut alone) = (Vec::new(), None);
    let all = group.len();
    for count in (0..).map(|power| 1 << power).take_while(|count| *count < all).chain([all]) {
        let one = frame.measure(&group.first(count), arithmetic)?;
        wrong.extend(one.wrong());
        alone = alone.or(one.ms);
        let apart = one.ms.zip(one.ms_without_sums);
        const NO_SUMS: &str = "there are none";
        let no_sums = if group.is_sim() { NO_CLOCK } else { NO_SUMS };
        table
            .row()
            .set(DEVICES, count)
            .set(LAUNCHES, one.launches)
            .set(SUMS, one.sums)
            .set(LINK, one.link_bytes as f64 / f64::from(1 << 20))
            .set(MS, Cell::or_absent(one.ms, NO_CLOCK))
            .set(GAIN, Cell::or_absent(alone.zip(one.ms).map(|(alone, ms)| alone / ms), NO_CLOCK))
            .set(WITHOUT, Cell::or_absent(one.ms_without_sums, no_sums))
            .set(SHARE, Cell::or_absent(apart.map(|(ms, without)| 100.0 * (ms - without) / ms), no_sums))
            .set(DIFFERENCE, one.difference)
            .set(BOUND, one.bound)
            .complete();
    }
    table.note(format!(
        "launches, sums over all devices, MiB by link: of one device, in a pass. max |Δ|: to {}, of the largest.",
        frame.by
    ));
    table.note_on(
        MS,
        "ms: from the inputs on the first device to the end of all, by events. no sums: the same with them left out, so its results are \
         wrong.",
    );
    Ok((table.finish(), wrong))
}
