//! `cargo run -p phase2-conv-bn [-- PART…]`: the ladders of this phase, each step checked and measured.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use common::device::DeviceArgs;
use common::prelude::*;
use common::record::{Record, merge};
use common::table::{Format, Table};
use phase2_conv_bn::report::{self, PARTS, Part};

/// Phase 2: the ladders of GEMM, convolution and normalisation, each step against the f64 reference
#[derive(Parser)]
struct Args {
    /// Parts to run; all but resources if none is named
    #[arg(value_name = "PART", value_parser = part_names())]
    parts: Vec<String>,
    /// Keep the run in a file, with device, date and commit (WARP_COMMIT, where there is no git repository)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How tables are written; json is one list of tables
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    device: DeviceArgs,
}

fn part_names() -> PossibleValuesParser {
    PARTS.iter().map(|part| PossibleValue::new(part.name).help(part.about)).into()
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(wrong) => {
            for wrong in &wrong {
                eprintln!("error: {wrong}");
            }
            if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen parts and prints their tables as they come; returns what is wrong in them.
fn run(args: &Args) -> Result<Vec<String>> {
    let chosen: Vec<&Part> = match args.parts.is_empty() {
        true => PARTS.iter().filter(|part| part.by_default).collect(),
        false => args.parts.iter().filter_map(|name| PARTS.iter().find(|part| part.name == name)).collect(),
    };
    if let Some(path) = &args.save {
        Record::can_be_saved(path)?;
    }
    let device = match args.device.sanitize {
        true => args.device.open()?,
        false => report::open(args.device.device)?,
    };
    eprintln!("device: {}", device.describe());
    let recorded = if device.is_sim() { report::records()? } else { Vec::new() };
    let mut record = Record::begin(&device);
    let mut wrong = Vec::new();
    let mut printed = 0;
    for part in chosen {
        let made = (part.run)(&device)?;
        wrong.extend(made.wrong);
        for (name, table) in part.tables.iter().zip(made.tables) {
            print(&merge(&table, name, &recorded), args.format, printed);
            printed += 1;
            record.push(*name, table);
        }
    }
    if args.format == Format::Json {
        println!("]");
    }
    if let Some(path) = &args.save {
        record.save(path)?;
        eprintln!("saved: {}", path.display());
    }
    Ok(wrong)
}

/// Prints a table behind those `before` it; as JSON, they are the elements of one list.
fn print(table: &Table, format: Format, before: usize) {
    let separator = match (format, before) {
        (Format::Json, 0) => "[\n",
        (Format::Json, _) => ",\n",
        (_, 0) => "",
        _ => "\n",
    };
    print!("{separator}{}", table.render(format));
}
