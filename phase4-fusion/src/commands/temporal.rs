//! `temporal`: a clip by the video U-Net with a memory, compared with the whole computation.

use std::path::PathBuf;

use bench::table::{Table, TableBuilder};
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use common::prelude::*;
use common::progress::Progress;
use phase3_all_layers::commands::video::{SCHEDULE, write_frames};
use phase3_all_layers::models::unet::Config;

use crate::models::Arithmetic;
use crate::temporal::sampler::{Deep, Every, Options, Rule};
use crate::temporal::table::{COLUMNS, Case};

/// Seed of the untrained parameters.
const SEED: u64 = 8;

/// Unit that the deep part's rule counts.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Over {
    /// Steps of a frame.
    Steps,
    /// Frames, step by step.
    Frames,
}

fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Clip, network and rule.
#[derive(Clone, Debug, clap::Args)]
pub struct TemporalArgs {
    /// Size of the U-Net
    #[arg(long, default_value = "tiny", value_parser = PossibleValuesParser::new(Config::ALL.map(|(name, _)| name)))]
    config: String,
    /// Arithmetic of the model
    #[arg(long, value_name = "FORMAT", default_value = "f16")]
    precision: Arithmetic,
    /// Number of frames [default: 60, or 3 on the simulator]
    #[arg(long, value_parser = up_to(10_000))]
    frames: Option<usize>,
    /// Diffusion steps per frame [default: 20, or 2 on the simulator]
    #[arg(long, value_parser = up_to(1000))]
    steps: Option<usize>,
    /// Width and height of a frame's latents, a multiple of 8 [default: 64, or 8 on the simulator]
    #[arg(long, value_parser = up_to(1024))]
    size: Option<usize>,
    /// Run the deep part every N-th time only
    #[arg(long, value_name = "N", default_value = "2", value_parser = up_to(1000))]
    every: usize,
    /// Unit that --every counts
    #[arg(long, default_value = "steps")]
    over: Over,
    /// The level that the deep part begins with, 1 to 3
    #[arg(long, default_value = "1", value_parser = up_to(3))]
    level: usize,
    /// Make those tiles of the first residual block only whose input changed by more than this (f16)
    #[arg(long, value_name = "T")]
    threshold: Option<f32>,
    /// The timestep up to which noise is added, of 1000
    #[arg(long, default_value = "500", value_parser = up_to(1000))]
    noise: usize,
    /// Seed of the clip and of the noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the frames that the rule makes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Makes the clip by the rule and, for comparison, by the whole network in f32 and in the same arithmetic.
///
/// # Errors
/// Same as [`Case::make`] and [`write_frames`].
pub fn temporal(device: &Device, args: &TemporalArgs) -> phase3_all_layers::Result<Table> {
    let (name, config) = Config::ALL.into_iter().find(|(name, _)| *name == args.config).unwrap_or(Config::ALL[0]);
    let [frames, steps, side] = if device.is_sim() { [3, 2, 8] } else { [60, 20, 64] };
    let options = Options {
        side: args.size.unwrap_or(side),
        steps: args.steps.unwrap_or(steps),
        noisiest: args.noise as f64 / 1000.0 * SCHEDULE,
    };
    let parameters = config.seeded(SEED);
    let case =
        Case { config, parameters: &parameters, options, frames: args.frames.unwrap_or(frames), seed: args.seed };
    let every = match args.over {
        Over::Steps => Every::Steps(args.every),
        Over::Frames => Every::Frames(args.every),
    };
    let rule = Rule { deep: Some(Deep { level: args.level, every }), threshold: args.threshold };
    let title = format!("Temporal caching in the U-Net {name}");
    let mut table = TableBuilder::on(device, &title, &COLUMNS);
    let mut runs = vec![(Arithmetic::F32, Rule::default()), (args.precision, Rule::default()), (args.precision, rule)];
    runs.dedup();
    let progress = Progress::new(runs.len() as u64, "clips");
    let mut whole: Vec<Tensor> = Vec::new();
    let mut last = Vec::new();
    for (arithmetic, rule) in runs {
        case.make(device, arithmetic, &[rule], |rule, made| {
            if whole.is_empty() {
                whole = made.frames.iter().map(Tensor::to_host).collect::<Result<_>>()?;
            }
            if let Some(wrong) = case.row(&mut table, arithmetic, rule, &made, &whole)? {
                return Err(Error::Invalid(wrong));
            }
            last = made.frames;
            Ok(())
        })?;
        progress.inc(1);
    }
    progress.finish();
    case.notes(&mut table);
    if let Some(dir) = &args.out {
        let paths = write_frames(dir, &last)?;
        table.note(format!("{} frames in {}.", paths.len(), dir.display()));
    }
    Ok(table.finish())
}
