//! `cargo run -p phase3-all-layers`: whole models.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::device::DeviceArgs;
use common::table::Format;
use phase3_all_layers::classify::classify;
use phase3_all_layers::photo::Photo;

/// Phase 3: whole models on the device
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase3-all-layers -- classify cat.jpg dog.png
  cargo run -p phase3-all-layers -- classify cat.jpg --weights resnet18.safetensors --device sim")]
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
    let Command::Classify { photos, weights } = &args.command;
    let photos: Vec<Photo> = match photos.as_slice() {
        [] => vec![Photo::built_in()],
        paths => paths.iter().map(|path| Photo::open(path)).collect::<Result<_, _>>()?,
    };
    let device = args.device.open()?;
    eprintln!("device: {}", device.describe());
    print!("{}", classify(&device, &photos, weights.as_deref())?.render(args.format));
    Ok(())
}
