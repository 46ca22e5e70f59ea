//! `cargo run -p phase4-fusion [-- PART…]`: the ladders of this phase, each step checked and measured; `… -- broken [KERNEL]`: the
//! gallery of asynchronous mistakes, and who finds them; `… -- published`: the one of published mistakes; `… -- resnet18`: the plan
//! of a whole model.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use bench::command::{self, CommandArgs, SaveArgs, Shell};
use bench::gallery::command::GalleryArgs;
use bench::gallery::orders::{orders, unchecked};
use bench::gallery::{Shown, sanitising};
use bench::parts;
use clap::error::ErrorKind as Refusal;
use clap::{CommandFactory, Parser, Subcommand};
use common::device::{DeviceArgs, DeviceChoice, DeviceGroup, SimOptions};
use common::ptx_sim::Asynchrony;
use phase3_all_layers::commands::classify::ClassifyArgs;
use phase3_all_layers::commands::evaluate::EvaluateArgs;
use phase3_all_layers::commands::video::VideoArgs;

use crate::broken::Twelve;
use crate::commands::all_reduce::{AllReduceArgs, all_reduce};
use crate::commands::autoencoder::{AutoencoderArgs, ReconstructArgs, autoencoder, reconstruct};
use crate::commands::classifier::{classify, evaluate};
use crate::commands::executor::{ExecutorArgs, executor};
use crate::commands::precision::{PrecisionArgs as AdaptiveArgs, precision as adaptive};
use crate::commands::ranks::{RanksArgs, ranks};
use crate::commands::resnet18::{ResNet18Args, resnet18};
use crate::commands::temporal::{TemporalArgs, temporal};
use crate::commands::tensor_parallel::{TensorParallelArgs, tensor_parallel};
use crate::commands::unet::{UNetArgs, unet, video};
use crate::models::Arithmetic;
use crate::published::Ten;
use crate::report::{self, PARTS};

/// Phase 4: tensor cores, PTX by hand and fusion, each step against the f64 reference
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase4-fusion                            every part that runs by default
  cargo run -p phase4-fusion -- gemm --device sim       one ladder, on the simulator
  cargo run -p phase4-fusion -- gemm --save today.json  run one part and save its tables
  cargo run -p phase4-fusion -- broken 3                run a broken kernel of the gallery
  cargo run -p phase4-fusion -- resnet18 --explain      which layers of the network became which kernel
  cargo run -p phase4-fusion -- precision --explain     which format each layer has within an error budget

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a wrong command line.")]
struct Args {
    #[arg(value_name = "PART", help = parts::help(PARTS), value_parser = parts::names(PARTS))]
    parts: Vec<String>,
    #[command(flatten)]
    save: SaveArgs,
    #[command(flatten)]
    common: CommandArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Twelve asynchronous mistakes: list them, or run one and report what came out
    ///
    /// The exit status is 1 unless the result is right. The simulator runs with --sanitize, unless --async says otherwise: it reports
    /// broken rules even where the values are right.
    Broken(MistakeArgs<Twelve>),
    /// Ten asynchronous mistakes that were published as bugs of known projects, each rebuilt: list them, or run one
    ///
    /// Like `broken`.
    Published(MistakeArgs<Ten>),
    /// ResNet18 as a plan of launches: one pass, compared with the CPU's, or the plan itself
    #[command(name = "resnet18")]
    ResNet18(ResNet18Args),
    /// The autoencoder as one kernel or a plan of launches: one pass, compared with the CPU's, or the plan itself
    Autoencoder(AutoencoderArgs),
    /// Score the frames of a sound by how well the autoencoder gives them back, as phase 3 does, fused
    Reconstruct {
        #[command(flatten)]
        args: ReconstructArgs,
        /// Arithmetic of the plan, if the model is not one kernel
        #[arg(long, value_name = "FORMAT", default_value = "f32")]
        precision: Arithmetic,
    },
    /// The video U-Net as a plan of launches: one pass, compared with the CPU's, or the plan itself
    #[command(name = "unet")]
    UNet(UNetArgs),
    /// Check every operation between ranks: threads, processes of this host, or those that torchrun, mpirun or srun started
    Ranks(RanksArgs),
    /// The sum of buffers of several devices, in all ways: what each asks for, and on GPUs its time beside NCCL's
    AllReduce(AllReduceArgs),
    /// The video U-Net as a queue of tasks in one launch: one pass beside the plan's, or its tasks
    Executor(ExecutorArgs),
    /// One pass of the video U-Net over several devices, each with a part of the heads and channels
    TensorParallel(TensorParallelArgs),
    /// Classify photos with ResNet18, as phase 3 does, by a plan
    Classify {
        #[command(flatten)]
        args: ClassifyArgs,
        #[command(flatten)]
        precision: PrecisionArgs,
    },
    /// Generate a video from noise with the diffusion U-Net, as phase 3 does, by a plan
    Video {
        #[command(flatten)]
        args: VideoArgs,
        #[command(flatten)]
        precision: PrecisionArgs,
    },
    /// A format for each layer of a model under an error budget: what is predicted, and what is measured
    Precision(AdaptiveArgs),
    /// Make a clip by the U-Net that takes again what a step or a frame before has made, and compare it with the whole computation
    Temporal(TemporalArgs),
    /// Measure ResNet18's accuracy on labelled photos, as phase 3 does, by a plan
    Evaluate {
        #[command(flatten)]
        args: EvaluateArgs,
        #[command(flatten)]
        precision: PrecisionArgs,
        #[command(flatten)]
        devices: GroupArgs,
    },
}

/// The arguments of a gallery of asynchronous mistakes.
#[derive(clap::Args)]
struct MistakeArgs<G: Shown> {
    #[command(flatten)]
    args: GalleryArgs<G>,
    /// Make copies late, early, or at pseudo-random times (seed=N), and check nothing but the values (implies sim)
    #[arg(long = "async", value_name = "WHEN", requires = "kernel", conflicts_with = "sanitize")]
    asynchrony: Option<Asynchrony>,
    /// On the simulator, also report what the PTX memory model does not guarantee, even if today's GPUs bear it
    #[arg(long, requires = "kernel", conflicts_with = "asynchrony")]
    strict: bool,
    /// Run all of them on the simulator, with copies made early, at pseudo-random times and late: what shows in the values?
    #[arg(long, conflicts_with_all = ["kernel", "compare"])]
    orders: bool,
}

impl<G: Shown> MistakeArgs<G> {
    fn run(&self, device: &DeviceArgs, shell: &mut Shell) -> common::Result<()> {
        match self.asynchrony {
            _ if self.orders => shell.table(&orders(G::GALLERY)?),
            Some(order) => {
                let simulator = DeviceArgs { device: DeviceChoice::Sim, ..*device };
                self.args.run(&simulator, unchecked(order), report::records, shell)
            }
            None => self.args.run(device, SimOptions { strict: self.strict, ..sanitising() }, report::records, shell),
        }
    }
}

/// Arithmetic of a plan.
#[derive(clap::Args)]
struct PrecisionArgs {
    /// Arithmetic of the model
    #[arg(long, value_name = "FORMAT", default_value = "f16")]
    precision: Arithmetic,
}

/// Number of devices that work together.
#[derive(clap::Args)]
struct GroupArgs {
    /// Number of devices, the chosen one and those after it [default: 1, or all of sim:N]
    #[arg(long, value_name = "N")]
    gpus: Option<NonZeroUsize>,
}

impl GroupArgs {
    fn open(&self, device: &DeviceArgs, shell: &Shell) -> common::Result<DeviceGroup> {
        let all = matches!(device.device, DeviceChoice::Sims(_));
        let limit = self.gpus.map(NonZeroUsize::get).or(if all { None } else { Some(1) });
        shell.open_group(device, limit)
    }
}

/// The command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command.
pub fn main() -> ExitCode {
    let args: Args = command::parse();
    // The device and the format may come before a command; the rest belongs to the parts.
    if args.command.is_some() && (!args.parts.is_empty() || args.save.save.is_some()) {
        let message = "parts and --save do not go before a command, which has options of its own";
        Args::command().error(Refusal::ArgumentConflict, message).exit();
    }
    let save = match &args.command {
        Some(Command::Broken(mistakes)) => mistakes.args.save(),
        Some(Command::Published(mistakes)) => mistakes.args.save(),
        Some(Command::Ranks(args)) => args.save(),
        Some(Command::AllReduce(args)) => args.save.save.as_deref(),
        Some(_) => None,
        None => args.save.save.as_deref(),
    };
    Shell::new(args.common.format).saving(save).run(|shell| run(&args, shell))
}

fn run(args: &Args, shell: &mut Shell) -> phase3_all_layers::Result<()> {
    let device = &args.common.device;
    let open = |shell: &Shell| shell.open(device, SimOptions::default());
    match &args.command {
        Some(Command::Broken(mistakes)) => mistakes.run(device, shell)?,
        Some(Command::Published(mistakes)) => mistakes.run(device, shell)?,
        Some(Command::ResNet18(args)) => {
            let table = resnet18(&open(shell)?, args)?;
            shell.table(&table)?
        }
        Some(Command::Autoencoder(args)) => {
            let table = autoencoder(&open(shell)?, args)?;
            shell.table(&table)?
        }
        Some(Command::Reconstruct { args, precision }) => {
            let table = reconstruct(&open(shell)?, args, *precision)?;
            shell.table(&table)?
        }
        Some(Command::UNet(args)) => {
            let table = unet(&open(shell)?, args)?;
            shell.table(&table)?
        }
        Some(Command::Ranks(args)) => ranks(args, device, shell)?,
        Some(Command::AllReduce(args)) => all_reduce(device, args, shell)?,
        Some(Command::Executor(args)) => {
            let (tables, wrong) = executor(&open(shell)?, args)?;
            wrong.iter().for_each(|wrong| shell.fail(wrong));
            tables.iter().try_for_each(|table| shell.table(table))?
        }
        Some(Command::TensorParallel(args)) => {
            let group = shell.open_group(device, args.gpus.map(NonZeroUsize::get))?;
            let (table, wrong) = tensor_parallel(&group, args)?;
            shell.table(&table)?;
            wrong.into_iter().for_each(|wrong| shell.fail(wrong));
        }
        Some(Command::Classify { args, precision }) => {
            let table = classify(&open(shell)?, args, precision.precision)?;
            shell.table(&table)?
        }
        Some(Command::Video { args, precision }) => {
            let table = video(&open(shell)?, args, precision.precision)?;
            shell.table(&table)?
        }
        Some(Command::Temporal(args)) => {
            let table = temporal(&open(shell)?, args)?;
            shell.table(&table)?
        }
        Some(Command::Precision(args)) => {
            for table in adaptive(&open(shell)?, args)? {
                shell.table(&table)?;
            }
        }
        Some(Command::Evaluate { args, precision, devices }) => {
            let table = evaluate(&devices.open(device, shell)?, args, precision.precision)?;
            shell.table(&table)?
        }
        None => parts::run(PARTS, &args.parts, device, report::records, shell)?,
    }
    Ok(())
}
