//! `unet`: the plan of the video U-Net, and one pass of it against the CPU's; `video`, which is phase 3's, by a plan.

use bench::table::Table;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::commands::video::{VideoArgs, note_of_weights, parameters, video_by};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase3_all_layers::nn::Parameters;

use super::resnet18::{explained, pass};
use crate::models::Arithmetic;
use crate::models::plan::Plan;

/// Seed of the untrained parameters.
const SEED: u64 = 8;
/// The timestep of a pass.
const STEP: f32 = 700.0;

/// Settings of the plan and its output.
#[derive(Clone, Debug, clap::Args)]
pub struct UNetArgs {
    /// Show the plan: which layers become which kernel, and why; on a GPU, what each takes
    #[arg(long)]
    explain: bool,
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

/// The plan of a network with these parameters for latents \[N, 8, H, W\], and their timesteps \[N\] as its second input.
///
/// # Errors
/// Same as [`Config::graph`] and [`Plan::new`].
pub fn plan(
    device: &Device,
    config: Config,
    parameters: &Parameters,
    arithmetic: Arithmetic,
    latents: &[usize],
) -> Result<Plan> {
    let graph = config.graph(parameters, latents)?;
    Plan::new(device, arithmetic, graph, &[latents, &latents[..1]])
}

/// The plan, or a pass of it over random latents with untrained weights.
///
/// # Errors
/// Same as [`plan`] and [`Runner::infer_all`](crate::models::runner::Runner::infer_all).
pub fn unet(device: &Device, args: &UNetArgs) -> Result<Table> {
    let side = args.size.unwrap_or(if device.is_sim() && !args.explain { 8 } else { 64 });
    let latents = [args.batch, INPUTS, side, side];
    let named = Config::ALL.into_iter().find(|(name, _)| *name == args.config).unwrap_or(Config::ALL[0]);
    let (name, config) = named;
    let parameters = config.seeded(SEED);
    let plan = plan(device, config, &parameters, args.precision, &latents)?;
    let title =
        format!("The U-Net {name} in {}, {} × {side}×{side}, on {}", args.precision, args.batch, device.short_name());
    if args.explain {
        return explained(device, plan, title);
    }
    let (x, steps) = (Tensor::random(&latents, 1), Tensor::full(&[args.batch], STEP));
    let cpu = Cpu::new();
    let expected = cpu.infer(&UNet::load(&cpu, config, &parameters)?.at(steps.to_host()?), &x)?;
    pass(device, plan, &[&x, &steps], &expected, title)
}

/// Phase 3's `video` with a plan in this arithmetic.
///
/// # Errors
/// Same as [`plan`], [`parameters`] and [`video_by`].
pub fn video(device: &Device, args: &VideoArgs, arithmetic: Arithmetic) -> phase3_all_layers::Result<Table> {
    let ((name, config), options, weights) = (args.named(), args.options(device), args.weights.as_deref());
    let parameters = parameters(config, weights)?;
    let plan = plan(device, config, &parameters, arithmetic, &[1, INPUTS, options.side, options.side])?;
    let on = format!("{} in {arithmetic}", device.short_name());
    let mut table = video_by(&plan, device, (name, config), &parameters, &options, &args.out, on)?;
    note_of_weights(&mut table, weights);
    Ok(table)
}
