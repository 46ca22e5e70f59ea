//! Compiles every `kernels/*.cu` of the workspace to the PTX shipped beside it, or checks that it is up to date.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::compile::ship::{self, Status};
use common::progress::Progress;
use common::{Error, Result};

/// Compile kernels to the PTX shipped with them
#[derive(Parser)]
struct Args {
    /// Only say what is missing or out of date, and fail if anything is
    #[arg(long)]
    check: bool,
    /// Compile also what is up to date
    #[arg(long, conflicts_with = "check")]
    all: bool,
    /// Kernel files, instead of all of the workspace
    kernels: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if all is well in the end.
fn run(args: &Args) -> Result<bool> {
    let here = std::env::current_dir().map_err(|source| Error::Io { path: ".".into(), source })?;
    let root =
        ship::workspace_root(&here).ok_or_else(|| Error::Invalid(format!("{} is in no workspace", here.display())))?;
    let kernels = match args.kernels.is_empty() {
        true => ship::kernels(&root)?,
        false => args.kernels.iter().map(|kernel| here.join(kernel)).collect(),
    };
    let progress = Progress::new(kernels.len() as u64, "kernels");
    let (mut well, mut written, mut fresh) = (true, 0, 0);
    for kernel in &kernels {
        let label = kernel.strip_prefix(&root).unwrap_or(kernel).display();
        progress.set_message(label.to_string());
        match ship::check(kernel, &root)? {
            Status::Fresh if !args.all => fresh += 1,
            status if args.check => {
                progress.println(format!("{}: {label}", status.as_str()));
                well = false;
            }
            _ => {
                if ship::write(kernel, &ship::generate(kernel, &root)?)? {
                    progress.println(format!("compiled: {label}"));
                    written += 1;
                } else {
                    fresh += 1;
                }
            }
        }
        progress.inc(1);
    }
    progress.finish();
    match (args.check, well) {
        (true, false) => {
            println!("Run `cargo run -p common --bin ship-ptx` and commit the result.")
        }
        _ => println!("{} kernels: {fresh} up to date, {written} compiled", kernels.len()),
    }
    Ok(well)
}
