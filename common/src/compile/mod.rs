//! Turns a `.cu` file into code that a device loads.
//!
//! [`kernel_source!`](crate::kernel_source) embeds a kernel's CUDA C and its headers, and in a build with `--release` the PTX
//! shipped beside it, so that such a program works away from its sources. If the file is on disk, it and its headers win over the
//! embedded ones, so a reader edits the `.cu` and runs again; Cargo rebuilds nothing for it, unless the build is a release. An
//! edited copy in the folder that `WARP_KERNELS` names wins over both: the folder has the layout of the workspace, and only the
//! files that differ (`phase1-infra/kernels/01_vector_add.cu`).
//!
//! | device | with a compiler | without |
//! | --- | --- | --- |
//! | GPU | compiled for this very GPU (cubin), kept in the [disk cache](directory) | the shipped PTX, if it matches the source |
//! | simulator | the shipped PTX if it matches the source, else compiled to PTX | the shipped PTX, if it matches the source |
//!
//! The compiler is NVRTC, or clang where NVRTC is absent, as on macOS; `WARP_COMPILER` names either. Clang makes PTX for a GPU, too.
//!
//! The [`head`] of the `.cu` says which options it is compiled with, what runs it and what checks it. Kernels are
//! `extern "C" __global__`.
//!
//! [`ship`] makes and checks shipped PTX; `cargo run -p common --bin ship-ptx` runs it.

mod architecture;
mod cache;
mod clang;
mod compiler;
mod current;
mod edits;
pub mod gate;
pub mod head;
pub(crate) mod nvrtc;
pub mod ptx;
pub mod ship;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, MissingCompiler, Result};
use crate::progress::Progress;
use architecture::runs;
use compiler::{Compiler, compiler};
use current::Current;
use nvrtc::Output;

pub use cache::{can_keep, directory};
pub use compiler::{CompilerName, choose, chosen, compiler_name};
pub use head::KernelHead;
pub(crate) use source::Fingerprint;
pub use source::KernelSource;

/// The oldest architecture that the course supports; shipped PTX is compiled for it.
pub const DEFAULT_ARCHITECTURE: &str = "compute_75";

/// Passed to every compilation. `.loc` lines cost nothing at run time, and diagnostics and profilers name CUDA lines by them.
const BASE_OPTIONS: &[&str] = &["-lineinfo"];

/// Target of a compilation.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(crate) enum Target {
    Simulator,
    Gpu { device: String, capability: (u32, u32) },
}

/// Code that a device can load.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    /// Name in messages.
    pub(crate) name: String,
    /// Machine code, if it was compiled for a real architecture.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    pub(crate) cubin: Option<Vec<u8>>,
    /// Always present: for the simulator, for a driver without a cubin, and for the kernels' parameter lists.
    pub(crate) ptx: String,
    pub(crate) origin: Origin,
    /// The CUDA C, for diagnostics.
    pub(crate) source: Option<Arc<str>>,
}

/// Origin of a module's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled just now.
    Compiled {
        /// Name and version: `NVRTC 13.0`.
        compiler: String,
        /// `sm_90`, `compute_75`.
        architecture: String,
    },
    /// Compiled by an earlier run, with the same compiler for the same architecture.
    Cache {
        /// `sm_90`, `compute_75`.
        architecture: String,
    },
    /// The PTX in the repository.
    Shipped,
    /// PTX text given as such.
    Text,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Compiled { compiler, architecture } => write!(f, "compiled by {compiler} for {architecture}"),
            Origin::Cache { architecture } => write!(f, "compiled earlier for {architecture}"),
            Origin::Shipped => f.write_str("shipped PTX"),
            Origin::Text => f.write_str("PTX text"),
        }
    }
}

impl Compiled {
    /// Name of the PTX in messages, as distinct from the CUDA C.
    pub(crate) fn ptx_name(&self) -> String {
        match self.origin {
            Origin::Text => self.name.clone(),
            Origin::Shipped => forward_slashes(&ship::shipped_path(Path::new(&self.name)).with_extension("")),
            Origin::Compiled { .. } | Origin::Cache { .. } => format!("the PTX of {}", self.name),
        }
    }

    pub(crate) fn from_ptx(ptx: &str, name: &str) -> Compiled {
        Compiled { name: name.to_owned(), cubin: None, ptx: ptx.to_owned(), origin: Origin::Text, source: None }
    }
}

/// Compiles `source` for `target`, or finds it compiled.
pub(crate) fn compile(source: &KernelSource, target: &Target) -> Result<Compiled> {
    compile_with(source, target, compiler())
}

/// [`compile`] with a given compiler, or with the reason why there is none.
fn compile_with(
    source: &KernelSource,
    target: &Target,
    compiler: Result<Compiler, MissingCompiler>,
) -> Result<Compiled> {
    let current = source.current()?;
    let head = current.head();
    let label = source.label();
    let (minimum, variant) = head.parsed_architecture(&label)?;
    if let Target::Gpu { device, capability } = target {
        let capability = capability.0 * 10 + capability.1;
        if !runs(minimum, variant, capability) {
            return Err(Error::Unsupported {
                what: label,
                device: device.clone(),
                reason: format!(
                    "it needs {}, this GPU is sm_{capability}",
                    head.architecture.replace("compute_", "sm_")
                ),
            });
        }
    }

    let fresh = fresh_ptx(source, &current);
    let shipped = |ptx: String| Compiled {
        name: label.clone(),
        cubin: None,
        ptx,
        origin: Origin::Shipped,
        source: Some(current.text.as_str().into()),
    };
    match (compiler, fresh) {
        (_, Ok(ptx)) if matches!(target, Target::Simulator) => Ok(shipped(ptx)),
        (Err(_), Ok(ptx)) => Ok(shipped(ptx)),
        (Err(missing), Err(why)) => Err(Error::CompilerMissing { file: label, why, missing }),
        (Ok(compiler), _) => {
            let architecture = match target {
                Target::Simulator => head.architecture.clone(),
                Target::Gpu { capability, .. } => {
                    compiler.architecture(&head.architecture, variant, capability.0 * 10 + capability.1)
                }
            };
            let options = current.options(&architecture, &label)?;
            let name = match &current.path {
                Some(path) => path.to_string_lossy().into_owned(),
                None => label.clone(),
            };
            let key = cache_key(&current, &name, &options, compiler);
            let (output, origin) = match cache::load(&key) {
                Some(output) => (output, Origin::Cache { architecture }),
                None => {
                    let _progress = Progress::spinner(format!("compiling {label} for {architecture}, this once"));
                    let output = run(compiler, &current, &label, &name, &options)?;
                    cache::store(&key, &output);
                    (output, Origin::Compiled { compiler: compiler.to_string(), architecture })
                }
            };
            Ok(Compiled {
                name: label,
                cubin: output.cubin,
                ptx: output.ptx,
                origin,
                source: Some(current.text.into()),
            })
        }
    }
}

fn run(compiler: Compiler, current: &Current, label: &str, name: &str, options: &[String]) -> Result<Output> {
    // Headers on disk are found there, so that diagnostics name their paths.
    let headers = if current.path.is_none() { &current.headers } else { &BTreeMap::new() };
    compiler.compile(&current.text, name, headers, options).map_err(|mut log| {
        let lacks_header = ["not open source file", "file not found"].iter().any(|message| log.contains(message));
        if lacks_header && current.needs_cuda_headers() {
            log.push('\n');
            log.push_str(&compiler.about_cuda_headers());
        }
        Error::Compile { file: label.to_owned(), log }
    })
}

fn cache_key(current: &Current, name: &str, options: &[String], compiler: Compiler) -> String {
    let mut hasher = Sha256::new();
    for part in [current.hash().as_str(), name, &options.join("\0"), &compiler.identity()] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// The shipped PTX if it was made from this very source and is whole; else the reason why it cannot be used.
fn fresh_ptx(source: &KernelSource, current: &Current) -> Result<String, String> {
    let shipped = source.shipped().ok_or_else(|| match source.path() {
        Some(path) if !path.is_file() => format!(
            "this program reads PTX from its checkout, and {} is not there; a build with --release carries it",
            path.display()
        ),
        _ => "no PTX is shipped with it".to_owned(),
    })?;
    let is_current = match ship::source_hash(&shipped) {
        Some(hash) => hash == current.hash(),
        None => return Err("the shipped PTX does not say which source it was made from".to_owned()),
    };
    if !is_current {
        return Err("the source has changed since its PTX was shipped".to_owned());
    }
    ship::decompress(&shipped).ok().filter(|ptx| ship::is_whole(ptx)).ok_or_else(|| {
        let path = forward_slashes(&ship::shipped_path(Path::new(&source.label())));
        format!("{path} is damaged; `git restore {path}` brings it back")
    })
}

fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn forward_slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
