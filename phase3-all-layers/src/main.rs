//! `cargo run -p phase3-all-layers`: whole models.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use common::device::DeviceArgs;
use common::table::Format;
use media::photo::Photo;
use phase3_all_layers::commands::classify::classify;
use phase3_all_layers::commands::evaluate::{self, evaluate};
use phase3_all_layers::commands::reconstruct::reconstruct;
use phase3_all_layers::commands::video;
use phase3_all_layers::data::parameters::Parameters;
use phase3_all_layers::resnet::Config;
use phase3_all_layers::{autoencoder, unet};

/// Phase 3: whole models on the device
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase3-all-layers -- classify cat.jpg dog.png
  cargo run -p phase3-all-layers -- classify cat.jpg --weights resnet18.safetensors --device sim
  cargo run -p phase3-all-layers -- evaluate imagenet/val --weights resnet18.safetensors --limit 1000
  cargo run -p phase3-all-layers -- reconstruct machine.wav --plots plots
  cargo run -p phase3-all-layers -- video --frames 4 --out frames")]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// How tables are written
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Subcommand)]
enum Command {
    /// What ResNet18 sees in photos: the five likeliest classes of each
    Classify {
        /// JPEG or PNG files; a photo that comes with the course if none is named
        #[arg(value_name = "PHOTO")]
        photos: Vec<PathBuf>,
        /// torchvision's ResNet18 as .safetensors, in f32, f16 or bf16; untrained weights without
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
    },
    /// How often ResNet18 is right about labelled photos: ImageNet's validation set, as FOLDER/CLASS/PHOTO.JPEG
    Evaluate {
        /// A folder of 1000 folders, whose sorted names give the classes' numbers
        folder: PathBuf,
        /// torchvision's ResNet18 as .safetensors, in f32, f16 or bf16
        #[arg(long, value_name = "FILE")]
        weights: PathBuf,
        /// Photos in a forward pass
        #[arg(long, default_value = "32")]
        batch: NonZeroUsize,
        /// At most so many photos, spread over the classes
        #[arg(long, value_name = "PHOTOS")]
        limit: Option<NonZeroUsize>,
    },
    /// How well the autoencoder gives a sound back, frame by frame: a table, and a plot beside it
    Reconstruct {
        /// A WAV file of 16 kHz
        #[arg(value_name = "FILE")]
        sound: PathBuf,
        /// The autoencoder's size
        #[arg(long, value_parser = PossibleValuesParser::new(autoencoder::Config::ALL.map(|(name, _)| name)), default_value = "original")]
        config: String,
        /// The autoencoder's parameters as .safetensors; untrained ones without
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        /// Where the plot goes, as SVG and PNG
        #[arg(long, value_name = "DIR", default_value = ".")]
        plots: PathBuf,
    },
    /// A video from noise by the diffusion U-Net: its frames as PNG files
    Video {
        /// The U-Net: tiny, small or production
        #[arg(long, default_value = "tiny", value_parser = configurations())]
        config: String,
        /// Frames
        #[arg(long, default_value = "4")]
        frames: NonZeroUsize,
        /// Steps of a frame, each a forward pass
        #[arg(long, default_value = "4")]
        steps: NonZeroUsize,
        /// Sides of a frame's latents, a multiple of 8; 64 without, or 16 on the simulator
        #[arg(long)]
        size: Option<usize>,
        /// Of the noise that frames are made of
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The U-Net's parameters as .safetensors, in f32, f16 or bf16; untrained ones without
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        /// Where the frames are written
        #[arg(long, value_name = "DIR", default_value = "frames")]
        out: PathBuf,
    },
}

/// The names of the U-Net's configurations.
fn configurations() -> PossibleValuesParser {
    PossibleValuesParser::new(unet::Config::ALL.map(|(name, _)| name))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> phase3_all_layers::Result<()> {
    let open = || -> phase3_all_layers::Result<_> {
        let device = args.device.open()?;
        eprintln!("device: {}", device.describe());
        Ok(device)
    };
    let table = match &args.command {
        Command::Classify { photos, weights } => {
            let photos: Vec<Photo> = match photos.as_slice() {
                [] => vec![Photo::built_in()],
                paths => paths.iter().map(|path| Photo::open(path)).collect::<Result<_, _>>()?,
            };
            classify(&open()?, &photos, weights.as_deref())?
        }
        Command::Evaluate { folder, weights, batch, limit } => {
            let config = Config::RESNET18;
            let parameters = Parameters::open(weights, &config.shapes())?;
            let device = open()?;
            let options = evaluate::Options { batch: *batch, limit: *limit };
            let found = evaluate(&device, config, &parameters, folder, options)?;
            found.table(format!("ResNet18 on {}, {}", device.short_name(), folder.display()))
        }
        Command::Reconstruct { sound, config, weights, plots } => {
            let named = autoencoder::Config::ALL.into_iter().find(|(name, _)| name == config);
            let config = named.map_or(autoencoder::Config::ORIGINAL, |(_, config)| config);
            reconstruct(&open()?, config, weights.as_deref(), sound, plots)?
        }
        Command::Video { config, frames, steps, size, seed, weights, out } => {
            let device = open()?;
            let side = size.unwrap_or(if device.is_sim() { 16 } else { 64 });
            let options = video::Options { frames: frames.get(), steps: steps.get(), side, seed: *seed };
            let named = unet::Config::ALL.into_iter().find(|(name, _)| name == config).unwrap_or(unet::Config::ALL[0]);
            video::video(&device, named, weights.as_deref(), &options, out)?
        }
    };
    print!("{}", table.render(args.format));
    Ok(())
}
