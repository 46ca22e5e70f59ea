//! Compiles every `kernels/*.cu` of the workspace to the PTX shipped beside it, or checks that it is up to date.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use common::compile::ship::{self, Status};
use common::console;
use common::progress::Progress;
use common::{Error, Result};
use rayon::prelude::*;

/// Compile the workspace's kernels to the PTX that is shipped with them; needs NVRTC
#[derive(Parser)]
struct Args {
    /// Compile nothing; list what is missing or out of date, and fail if anything is
    #[arg(long)]
    check: bool,
    /// Compile even what is up to date
    #[arg(long, conflicts_with = "check")]
    all: bool,
    /// Print the PTX that is shipped for a kernel: gemm_06_vectors, phase1-infra/kernels/broken_04_transpose
    #[arg(long, value_name = "NAME", conflicts_with_all = ["check", "all", "kernels"])]
    show: Option<PathBuf>,
    /// Kernel files [default: every kernels/*.cu of the workspace]
    kernels: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            console::error(error);
            ExitCode::FAILURE
        }
    }
}

/// Result for a kernel.
enum Outcome {
    /// It was up to date.
    Fresh,
    /// Its PTX was written.
    Compiled,
    /// It is not up to date, and was only checked.
    Amiss(Status),
}

fn ship_one(args: &Args, kernel: &Path, root: &Path) -> Result<Outcome> {
    Ok(match ship::check(kernel, root)? {
        Status::Fresh if !args.all => Outcome::Fresh,
        status if args.check => Outcome::Amiss(status),
        _ if ship::write(kernel, &ship::generate(kernel, root)?)? => Outcome::Compiled,
        _ => Outcome::Fresh,
    })
}

/// The shipped PTX of the kernel whose path ends with this name.
fn shipped(name: &Path, root: &Path) -> Result<String> {
    let mut kernels = ship::kernels(root)?;
    kernels.retain(|kernel| kernel.with_extension("").ends_with(name));
    match &kernels[..] {
        [kernel] => ship::read(kernel),
        found => Err(Error::Invalid(format!("{} kernels are called {}", found.len(), name.display()))),
    }
}

/// Prints on standard output; a reader that stops reading is no error.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Io { path: "standard output".into(), source })
        }
        _ => Ok(()),
    }
}

/// Whether all is well.
fn run(args: &Args) -> Result<bool> {
    let here = std::env::current_dir().map_err(|source| Error::Io { path: ".".into(), source })?;
    let root =
        ship::workspace_root(&here).ok_or_else(|| Error::Invalid(format!("{} is in no workspace", here.display())))?;
    if let Some(name) = &args.show {
        return print(&shipped(name, &root)?).map(|()| true);
    }
    let kernels = if args.kernels.is_empty() {
        ship::kernels(&root)?
    } else {
        args.kernels.iter().map(|kernel| here.join(kernel)).collect()
    };
    let progress = Progress::new(kernels.len() as u64, "kernels");
    // Each takes NVRTC a quarter of a second on one core.
    let outcomes = kernels.par_iter().map(|kernel| {
        let label = kernel.strip_prefix(&root).unwrap_or(kernel).display().to_string();
        let outcome = ship_one(args, kernel, &root);
        progress.inc(1);
        Ok((label, outcome?))
    });
    let (mut well, mut written, mut fresh) = (true, 0, 0);
    for (label, outcome) in outcomes.collect::<Result<Vec<_>>>()? {
        match outcome {
            Outcome::Fresh => fresh += 1,
            Outcome::Compiled => {
                progress.println(format!("compiled: {label}"));
                written += 1;
            }
            Outcome::Amiss(status) => {
                progress.println(format!("{}: {label}", status.as_str()));
                well = false;
            }
        }
    }
    progress.finish();
    let summary = if well {
        format!("{} kernels: {fresh} up to date, {written} compiled\n", kernels.len())
    } else {
        "Run `cargo run -p common --bin ship-ptx` and commit the result.\n".to_owned()
    };
    print(&summary).map(|()| well)
}
