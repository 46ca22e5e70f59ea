//! `cuda-sim`: runs a CUDA program on a machine without a GPU, and says what its kernels do wrong.

#[cfg(target_os = "linux")]
mod stub;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;
use cuda_sim::log::{Log, summary};
use cuda_sim::options::{Options, VARIABLE};

/// Run a CUDA program without a GPU
///
/// Its calls of the CUDA driver go to a simulated GPU, which runs the program's PTX. With `--sanitize`, mistakes of kernels are
/// printed with the line that is wrong, and the exit status says whether there were any.
#[derive(Parser)]
#[command(version, after_help = "Example: cuda-sim --sanitize python train.py --steps 1")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Exit status if there are findings and the program itself ends well
    #[arg(long, value_name = "STATUS", default_value_t = 1)]
    error_exitcode: u8,
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Name under which programs load the driver's library.
const LIBRARY: &str = if cfg!(windows) {
    "nvcuda.dll"
} else if cfg!(target_os = "macos") {
    "libcuda.dylib"
} else {
    "libcuda.so.1"
};

/// The variable that says where libraries are.
const PATH: &str = if cfg!(windows) {
    "PATH"
} else if cfg!(target_os = "macos") {
    "DYLD_LIBRARY_PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// The library, which Cargo builds beside this program.
fn library() -> Result<PathBuf> {
    let name = format!("{}cuda_sim{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let own = env::current_exe().context("where this program lies")?;
    let folder = own.parent().unwrap_or(Path::new("."));
    // `cargo build` copies it up from `deps`, `cargo test` does not: the newer one is meant.
    let places = [folder.join(&name), folder.join("deps").join(&name)];
    let built = |place: &PathBuf| place.metadata().and_then(|found| found.modified()).ok();
    match places.into_iter().filter(|place| place.is_file()).max_by_key(built) {
        Some(found) => Ok(found),
        None => bail!("{name} is not beside {}: build it with `cargo build -p cuda-sim`", own.display()),
    }
}

/// Further names of the library: links to one file, which is loaded once. On Windows each is a library with a state of its own.
const OTHER_LIBRARIES: &[&str] = if cfg!(windows) {
    &["cudart64_110.dll", "cudart64_12.dll", "cudart64_13.dll"]
} else if cfg!(target_os = "macos") {
    &["libcudart.dylib", "libgpuocelot.dylib"]
} else {
    &["libcuda.so", "libcudart.so", "libgpuocelot.so"]
};

/// Names that lead to the library by way of a [`stub`].
#[cfg(target_os = "linux")]
const STUBS: [&str; 3] = ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"];

/// Puts the library into a folder under the names that programs ask for.
fn install(folder: &Path) -> Result<()> {
    let library = library()?;
    for name in [LIBRARY].iter().chain(OTHER_LIBRARIES) {
        let target = folder.join(name);
        #[cfg(unix)]
        std::os::unix::fs::symlink(&library, target)?;
        #[cfg(not(unix))]
        std::fs::copy(&library, target)?;
    }
    #[cfg(target_os = "linux")]
    for name in STUBS {
        std::fs::write(folder.join(name), stub::stub(name, LIBRARY))?;
    }
    Ok(())
}

fn run(cli: Cli) -> Result<ExitCode> {
    let folder = tempfile::tempdir().context("a folder for the library")?;
    install(folder.path()).context("the library that stands in for the driver")?;
    let mut options = cli.options;
    let log = options.log.get_or_insert_with(|| folder.path().join("findings")).clone();
    std::fs::write(&log, "").with_context(|| log.display().to_string())?;

    let paths = env::var_os(PATH).unwrap_or_default();
    let paths = [folder.path().to_path_buf()].into_iter().chain(env::split_paths(&paths));
    let (program, arguments) = cli.program.split_first().context("no program")?;
    let status = Command::new(program)
        .args(arguments)
        .env(PATH, env::join_paths(paths)?)
        .env(VARIABLE, options.to_environment())
        .status()
        .with_context(|| program.to_string_lossy().into_owned())?;

    let log = Log::read(&log).with_context(|| log.display().to_string())?;
    if options.profile {
        eprintln!("{}", log.kernels());
    }
    eprintln!("cuda-sim: {}", summary(&log.findings));
    Ok(match status.code() {
        Some(0) if log.findings.is_empty() => ExitCode::SUCCESS,
        Some(0) => ExitCode::from(cli.error_exitcode),
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => {
            eprintln!("cuda-sim: {status}");
            ExitCode::FAILURE
        }
    })
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
