//! `cargo run -p phase2-conv-bn`: the steps of this phase on a small shape, checked.

use std::process::ExitCode;

use clap::Parser;
use common::device::DeviceArgs;
use common::table::Format;
use phase2_conv_bn::report;

/// Phase 2: convolution, BatchNorm and ReLU on the device, against the f64 reference
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    device: DeviceArgs,
    /// How the table is written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let run = || {
        let device = args.device.open()?;
        eprintln!("device: {}", device.describe());
        report::run(&device)
    };
    match run() {
        Ok(report) => {
            print!("{}", report.table.render(args.format));
            for wrong in &report.wrong {
                eprintln!("error: {wrong}");
            }
            if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
