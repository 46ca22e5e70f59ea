//! Choice of the compiler.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use super::clang;
use super::nvrtc::{self, Nvrtc, Output};
use crate::error::{Error, MissingCompiler};
use crate::probe;
use crate::probe::clang::Clang;

/// The environment variable that names a compiler.
const VARIABLE: &str = "WARP_COMPILER";

/// Compilers of CUDA C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompilerName {
    /// NVIDIA's, for Linux and Windows.
    Nvrtc,
    /// LLVM's, which makes PTX only.
    Clang,
}

impl CompilerName {
    /// The one to install here.
    const USUAL: CompilerName = if cfg!(target_os = "macos") { CompilerName::Clang } else { CompilerName::Nvrtc };

    /// Name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            CompilerName::Nvrtc => "nvrtc",
            CompilerName::Clang => "clang",
        }
    }

    /// Name and version of this machine's: `NVRTC 13.0`.
    ///
    /// # Errors
    /// If there is none; the message says what to install.
    pub fn find(self) -> Result<String, MissingCompiler> {
        Ok(Compiler::find(self)?.to_string())
    }
}

impl FromStr for CompilerName {
    type Err = Error;

    fn from_str(name: &str) -> Result<CompilerName, Error> {
        [CompilerName::Nvrtc, CompilerName::Clang]
            .into_iter()
            .find(|compiler| compiler.as_str() == name)
            .ok_or_else(|| Error::Invalid(format!("`{name}` is not a compiler; there are nvrtc and clang")))
    }
}

/// A compiler that was found.
#[derive(Clone, Copy)]
pub(crate) enum Compiler {
    Nvrtc(&'static Nvrtc),
    Clang(&'static Clang),
}

static CHOSEN: OnceLock<CompilerName> = OnceLock::new();

/// Makes this process compile with that compiler, whatever `WARP_COMPILER` says. Has no effect after the first call.
pub fn choose(name: CompilerName) {
    let _ = CHOSEN.set(name);
}

/// The compiler that this process was told to use, if any.
pub fn chosen() -> Option<CompilerName> {
    CHOSEN.get().copied()
}

/// Name and version of this process's compiler.
///
/// # Errors
/// If there is none; the message says what to install.
pub fn compiler_name() -> Result<String, MissingCompiler> {
    Ok(compiler()?.to_string())
}

/// The compiler of this process: the chosen one, else what `WARP_COMPILER` names, else NVRTC, else clang.
pub(crate) fn compiler() -> Result<Compiler, MissingCompiler> {
    let named = || env::var(VARIABLE).ok().filter(|name| !name.is_empty()).map(|name| name.parse::<CompilerName>());
    let name = match chosen() {
        Some(chosen) => Some(chosen),
        None => named()
            .transpose()
            .map_err(|error| Compiler::missing(CompilerName::USUAL, &format!("{VARIABLE}: {error}")))?,
    };
    match name {
        Some(name) => Compiler::find(name),
        None => Compiler::find(CompilerName::Nvrtc)
            .or_else(|_| Compiler::find(CompilerName::Clang))
            .or_else(|_| Compiler::find(CompilerName::USUAL)),
    }
}

impl Compiler {
    pub(crate) fn find(name: CompilerName) -> Result<Compiler, MissingCompiler> {
        let found = match name {
            CompilerName::Nvrtc => nvrtc::nvrtc().map(Compiler::Nvrtc),
            CompilerName::Clang => probe::clang::clang().map(Compiler::Clang),
        };
        found.map_err(|reason| Compiler::missing(name, reason))
    }

    fn missing(name: CompilerName, reason: &str) -> MissingCompiler {
        let (compiler, remedy) = match name {
            CompilerName::Nvrtc => ("NVRTC", probe::Library::Nvrtc.remedy()),
            CompilerName::Clang => ("clang", probe::clang::REMEDY),
        };
        MissingCompiler { compiler, reason: reason.to_owned(), remedy }
    }

    /// Everything of it that its output depends on.
    pub(super) fn identity(self) -> String {
        match self {
            Compiler::Nvrtc(_) => self.to_string(),
            Compiler::Clang(clang) => clang::identity(clang),
        }
    }

    /// The architecture to compile for, so that a GPU of `capability`, times ten, runs a kernel that asks for `minimum`.
    pub(super) fn architecture(self, minimum: &str, variant: &str, capability: u32) -> String {
        match self {
            Compiler::Nvrtc(nvrtc) => {
                match nvrtc.architectures().into_iter().rev().find(|&known| known <= capability) {
                    Some(known) if known < capability => format!("compute_{known}"),
                    _ => format!("sm_{capability}{variant}"),
                }
            }
            // The driver finishes its PTX.
            Compiler::Clang(_) => minimum.to_owned(),
        }
    }

    /// Compiles `source`, named `name` in messages, with headers by their names in `#include`. `Err` is the compiler's log.
    pub(super) fn compile(
        self,
        source: &str,
        name: &str,
        headers: &BTreeMap<String, String>,
        options: &[String],
    ) -> Result<Output, String> {
        match self {
            Compiler::Nvrtc(nvrtc) => nvrtc.compile(source, name, headers, options),
            Compiler::Clang(clang) => clang::compile(clang, source, name, headers, options),
        }
    }

    /// Added to a log that misses a header of CUDA's.
    pub(super) fn about_cuda_headers(self) -> String {
        match self {
            Compiler::Nvrtc(_) => format!("CUDA's headers come with:\n    {}", probe::Library::Nvrtc.remedy()),
            Compiler::Clang(_) => "Clang compiles kernels without CUDA's headers; this one takes NVRTC.".to_owned(),
        }
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compiler::Nvrtc(nvrtc) => write!(f, "NVRTC {}.{}", nvrtc.version.0, nvrtc.version.1),
            Compiler::Clang(clang) => write!(f, "clang {}", clang.version),
        }
    }
}
