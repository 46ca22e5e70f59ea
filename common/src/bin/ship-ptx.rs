//! Compiles every `kernels/*.cu` of the workspace to the PTX shipped beside it, or checks that it is up to date.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::command::Shell;
use common::compile::ship::{self, Status};
use common::progress::Progress;
use common::table::Format;
use common::{Error, Result};

/// Compile the workspace's kernels to the PTX that is shipped with them; needs NVRTC
#[derive(Parser)]
struct Args {
    /// Compile nothing; list what is missing or out of date, and fail if anything is
    #[arg(long)]
    check: bool,
    /// Compile even what is up to date
    #[arg(long, conflicts_with = "check")]
    all: bool,
    /// Kernel files [default: every kernels/*.cu of the workspace]
    kernels: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // Without a reader it has files to write still.
    Shell::new(Format::Text).going_on_if(true).run(|shell| run(&args, shell))
}

fn run(args: &Args, shell: &mut Shell) -> Result<()> {
    let here = std::env::current_dir().map_err(|source| Error::Io { path: ".".into(), source })?;
    let root =
        ship::workspace_root(&here).ok_or_else(|| Error::Invalid(format!("{} is in no workspace", here.display())))?;
    let kernels = if args.kernels.is_empty() {
        ship::kernels(&root)?
    } else {
        args.kernels.iter().map(|kernel| here.join(kernel)).collect()
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
    if well {
        shell.print(&format!("{} kernels: {fresh} up to date, {written} compiled\n", kernels.len()))
    } else {
        shell.fail_quietly();
        shell.print("Run `cargo run -p common --bin ship-ptx` and commit the result.\n")
    }
}
