//! `cargo run -p phase2-conv-bn [-- PART…]`: the ladders of this phase, each step checked and measured.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use common::command::{CommandArgs, SaveArgs, Shell};
use common::prelude::*;
use common::record::{Record, merge};
use phase2_conv_bn::report::{self, PARTS, Part};

/// Phase 2: the ladders of GEMM, convolution and normalisation, each step against the f64 reference
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p phase2-conv-bn                           every part but resources
  cargo run -p phase2-conv-bn -- gemm --device sim      one ladder, on the simulator
  cargo run -p phase2-conv-bn -- conv --save today.json run one part and save its tables

Exit status: 0 if all is well, 1 if something failed or a result is wrong, 2 for a wrong command line.")]
struct Args {
    /// Parts to run [default: all but resources]
    #[arg(value_name = "PART", value_parser = part_names())]
    parts: Vec<String>,
    #[command(flatten)]
    save: SaveArgs,
    #[command(flatten)]
    common: CommandArgs,
}

fn part_names() -> PossibleValuesParser {
    PARTS.iter().map(|part| PossibleValue::new(part.name).help(part.about)).into()
}

fn main() -> ExitCode {
    let args = Args::parse();
    Shell::new(args.common.format).saving(args.save.save.as_deref()).run(|shell| run(&args, shell))
}

/// Runs the chosen parts and prints their tables as they come, then what is wrong in them.
fn run(args: &Args, shell: &mut Shell) -> Result<()> {
    let chosen: Vec<&Part> = if args.parts.is_empty() {
        PARTS.iter().filter(|part| part.by_default).collect()
    } else {
        args.parts.iter().filter_map(|name| PARTS.iter().find(|part| part.name == name)).collect()
    };
    let device = shell.open(&args.common.device, report::simulator())?;
    let recorded = if device.is_sim() { report::records()? } else { Vec::new() };
    let mut record = Record::begin(&device);
    for part in chosen {
        let made = (part.run)(&device)?;
        made.wrong.iter().for_each(|wrong| shell.fail(wrong));
        for (name, table) in part.tables.iter().zip(made.tables) {
            shell.table(&merge(&table, name, &recorded))?;
            record.push(*name, table);
        }
    }
    shell.save(&record)
}
