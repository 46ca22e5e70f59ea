//! `cargo run -p phase4-fusion [-- PART…]`: the ladders of this phase, each step checked and measured.

use std::process::ExitCode;

use clap::Parser;
use common::command::{CommandArgs, SaveArgs, Shell};
use common::parts;
use phase4_fusion::report::{self, PARTS};

/// Phase 4: tensor cores, PTX by hand and fusion, each step against the f64 reference
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase4-fusion                            every part that runs by default
  cargo run -p phase4-fusion -- gemm --device sim       one ladder, on the simulator
  cargo run -p phase4-fusion -- gemm --save today.json  run one part and save its tables

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a wrong command line.")]
struct Args {
    /// Parts to run [default: all but sass]
    #[arg(value_name = "PART", value_parser = parts::names(PARTS))]
    parts: Vec<String>,
    #[command(flatten)]
    save: SaveArgs,
    #[command(flatten)]
    common: CommandArgs,
}

fn main() -> ExitCode {
    let Args { parts: names, save, common } = Args::parse();
    Shell::new(common.format)
        .saving(save.save.as_deref())
        .run(|shell| parts::run(PARTS, &names, &common.device, report::records, shell))
}
