//! `cargo run -p phase3-all-layers`: whole models.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::command::{self, CommandArgs, Shell};
use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, Parser, Subcommand};
use common::device::SimOptions;

use crate::commands::classify::{ClassifyArgs, classify};
use crate::commands::evaluate::{EvaluateArgs, evaluate};
use crate::commands::reconstruct::reconstruct;
use crate::commands::video::{VideoArgs, video};
use crate::models::autoencoder;
use crate::models::resnet::Config;

/// Phase 3: whole models on the device
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase3-all-layers -- classify cat.jpg dog.png
  cargo run -p phase3-all-layers -- classify cat.jpg --weights resnet18.safetensors --device sim
  cargo run -p phase3-all-layers -- evaluate imagenet/val --weights resnet18.safetensors --limit 1000
  cargo run -p phase3-all-layers -- reconstruct machine.wav --plots plots
  cargo run -p phase3-all-layers -- video --frames 4 --out frames

Exit status: 0 if all is well, 1 if something failed, 2 for a wrong command line.")]
struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: CommandArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Classify photos with ResNet18: the five most likely classes of each
    Classify(ClassifyArgs),
    /// Measure ResNet18's accuracy on labelled photos: ImageNet's validation set, as FOLDER/CLASS/PHOTO.JPEG
    Evaluate(EvaluateArgs),
    /// Measure how well the autoencoder reconstructs a sound, frame by frame: a table and a plot
    Reconstruct {
        /// WAV file with a sample rate of 16 kHz
        #[arg(value_name = "FILE")]
        sound: PathBuf,
        /// Size of the autoencoder
        #[arg(long, value_parser = PossibleValuesParser::new(autoencoder::Config::ALL.map(|(name, _)| name)), default_value = "original")]
        config: String,
        /// The autoencoder's parameters as .safetensors [default: untrained]
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        /// Directory for the plot, as SVG and PNG
        #[arg(long, value_name = "DIR", default_value = ".")]
        plots: PathBuf,
    },
    /// Generate a video from noise with the diffusion U-Net: one PNG file per frame
    Video(VideoArgs),
}

/// The command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command.
pub fn main() -> ExitCode {
    let args: Args = command::parse();
    Shell::new(args.common.format).run(|shell| run(&args, shell))
}

fn run(args: &Args, shell: &mut Shell) -> crate::Result<()> {
    let open = || shell.open(&args.common.device, SimOptions::default());
    let table = match &args.command {
        Command::Classify(args) => {
            let photos = args.photos()?;
            classify(&open()?, &photos, args.weights.as_deref())?
        }
        Command::Evaluate(args) => {
            let config = Config::RESNET18;
            let parameters = args.parameters()?;
            let device = open()?;
            let found = evaluate(&device, config, &parameters, &args.folder, args.options())?;
            found.table(args.title(device.short_name()))
        }
        Command::Reconstruct { sound, config, weights, plots } => {
            let named = autoencoder::Config::ALL.into_iter().find(|(name, _)| name == config);
            let config = named.map_or(autoencoder::Config::ORIGINAL, |(_, config)| config);
            reconstruct(&open()?, config, weights.as_deref(), sound, plots)?
        }
        Command::Video(args) => video(&open()?, args)?,
    };
    Ok(shell.print(&table.render(args.common.format))?)
}
