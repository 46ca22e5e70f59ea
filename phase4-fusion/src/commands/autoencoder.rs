//! `autoencoder`: the layers of each kernel of the model, and a pass against the CPU's; `reconstruct`, which is phase 3's.

use std::path::Path;

use bench::table::Table;
use bench::timing::Bench;
use clap::builder::PossibleValuesParser;
use common::prelude::*;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::commands::reconstruct::{SEED, parameters, scores_of};
use phase3_all_layers::data::audio;
use phase3_all_layers::models::autoencoder::{Autoencoder, Config};

use super::resnet18::compared;
use crate::autoencoder::Fused;
use crate::models::Arithmetic;

/// Settings of the plan and its output.
#[derive(Clone, Debug, clap::Args)]
pub struct AutoencoderArgs {
    /// Show which layers become which kernel, and why; on a GPU, what each takes
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    config: ConfigArgs,
    /// Arithmetic of the plan, if the model is not one kernel
    #[arg(long, value_name = "FORMAT", default_value = "f32")]
    precision: Arithmetic,
    /// Spectrograms in a batch [default: 512, or 4 on the simulator]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    batch: Option<usize>,
}

/// Choice of the model.
#[derive(Clone, Debug, clap::Args)]
pub struct ConfigArgs {
    /// Size of the autoencoder
    #[arg(long, value_parser = PossibleValuesParser::new(Config::ALL.map(|(name, _)| name)), default_value = "original")]
    config: String,
}

impl ConfigArgs {
    fn config(&self) -> Config {
        let named = Config::ALL.into_iter().find(|(name, _)| *name == self.config);
        named.map_or(Config::ORIGINAL, |(_, config)| config)
    }
}

/// The plan, or a pass over random spectrograms with untrained weights.
///
/// # Errors
/// Same as [`Fused::load`] and [`Fused::infer`].
pub fn autoencoder(device: &Device, args: &AutoencoderArgs) -> Result<Table> {
    let batch = args.batch.unwrap_or(if device.is_sim() { 4 } else { 512 });
    let (config, stream) = (args.config.config(), device.stream());
    let parameters = config.seeded(SEED);
    let mut model = Fused::load(device, &config, &parameters, args.precision, batch)?;
    let name = &args.config.config;
    let title = format!("autoencoder {name} in {}, batch {batch}, on {}", args.precision, device.short_name());
    if args.explain {
        return model.explain(&stream, title);
    }
    let x = config.slices(&Tensor::random(&[batch, config.inputs()], 1))?;
    let cpu = Cpu::new();
    let expected = cpu.infer(&Autoencoder::load(&cpu, config, &parameters)?, &x)?;
    let found = model.infer(&stream, &x)?;
    let ms =
        if device.is_sim() { None } else { Bench::default().measure(&stream, || model.queue(&stream))?.median_ms() };
    let mut table = compared(title, model.launches(), ms, [&found, &expected], model.error_bound())?;
    table.note("ms: spectrograms in and out on the device, by events. max |Δ|: to the CPU's output. Weights: seeded.");
    Ok(table)
}

/// A sound and the model that reconstructs it.
#[derive(Clone, Debug, clap::Args)]
pub struct ReconstructArgs {
    /// WAV file with a sample rate of 16 kHz
    #[arg(value_name = "FILE")]
    sound: std::path::PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    /// The autoencoder's parameters as .safetensors [default: untrained]
    #[arg(long, value_name = "FILE")]
    weights: Option<std::path::PathBuf>,
    /// Directory for the plot, as SVG and PNG
    #[arg(long, value_name = "DIR", default_value = ".")]
    plots: std::path::PathBuf,
}

/// Phase 3's `reconstruct`, fused.
///
/// # Errors
/// Same as [`parameters`], [`scores_of`] and [`Fused::load`].
pub fn reconstruct(
    device: &Device,
    args: &ReconstructArgs,
    arithmetic: Arithmetic,
) -> phase3_all_layers::Result<Table> {
    let (config, stream) = (args.config.config(), device.stream());
    let parameters = parameters(&config, args.weights.as_deref())?;
    let spectrogram = audio::Config { mels: config.n_mels, frames: config.frames };
    let plots: &Path = &args.plots;
    let mut table = scores_of(&args.sound, &spectrogram, plots, |x| {
        let batch = x.shape()[0];
        let mut model = Fused::load(device, &config, &parameters, arithmetic, batch)?;
        Ok(model.infer(&stream, &config.slices(x)?)?.reshape(x.shape())?)
    })?;
    if args.weights.is_none() {
        table.note("The weights are untrained, so the scores mean nothing. `--weights FILE` takes trained ones.");
    }
    Ok(table)
}
