//! `cargo run -p phase2-conv-bn [-- PART…]`: the ladders of this phase, each step checked and measured.

use std::process::ExitCode;

use bench::command::{self, CommandArgs, SaveArgs, Shell};
use bench::parts;
use clap::{CommandFactory, Parser};

use crate::report::{self, PARTS, patterns};

/// Phase 2: the ladders of GEMM, convolution and normalisation, each step against the f64 reference
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase2-conv-bn                           every part that runs by default
  cargo run -p phase2-conv-bn -- gemm --device sim      one ladder, on the simulator
  cargo run -p phase2-conv-bn -- patterns scan          one of the classic patterns; without a name, all
  cargo run -p phase2-conv-bn -- conv --save today.json run one part and save its tables

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a wrong command line.")]
struct Args {
    #[arg(value_name = "PART", help = parts::help(PARTS), value_parser = parts::names(PARTS))]
    parts: Vec<String>,
    #[command(flatten)]
    save: SaveArgs,
    #[command(flatten)]
    common: CommandArgs,
}

/// The command line.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command.
pub fn main() -> ExitCode {
    let Args { parts, save, common } = command::parse();
    let names = patterns::chosen(&parts);
    Shell::new(common.format)
        .saving(save.save.as_deref())
        .run(|shell| parts::run(PARTS, &names, &common.device, report::records, shell))
}
