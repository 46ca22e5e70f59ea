//! A PTX file, read and ready to be loaded onto a device.

use std::sync::Arc;

use crate::error::{LoadError, Unsupported};
use crate::ir::Program;
use crate::lower::{self, KernelPart};
use crate::parse;

/// A kernel's name, parameters and static needs.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// Its name in the PTX: mangled unless it is `extern "C"`.
    pub name: String,
    /// Its parameters in order.
    pub params: Vec<ParamInfo>,
    /// Bytes of shared memory that it declares itself.
    pub static_shared: u32,
    /// The most threads a block may have, from `__launch_bounds__`.
    pub max_threads: Option<u32>,
    /// The one shape that a block may have, from `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// Instructions of the kernel, or of functions it calls, that the simulator does not know.
    pub unsupported: Vec<Unsupported>,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name in the PTX.
    pub name: String,
    /// Bytes from the start of the parameters.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Its type as PTX writes it: `u64`, `f32`, `b8[16]`.
    pub ty: String,
}

/// A PTX file, parsed and lowered. Clones share it.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    source: String,
    program: Program,
    parts: Vec<KernelPart>,
}

impl Module {
    /// Reads PTX text. `name` is what diagnostics call the file.
    ///
    /// # Errors
    /// [`LoadError::Syntax`] if it is not PTX. An instruction that the simulator does not know is no error here: it
    /// becomes one for the kernels that could reach it ([`crate::LoadedModule::kernel`]).
    pub fn from_ptx(source: &str, name: &str) -> Result<Self, LoadError> {
        let syntax = |error| LoadError::syntax(&error, source, name);
        let ast = parse::parse(source).map_err(syntax)?;
        let lowered = lower::lower(&ast, source).map_err(syntax)?;
        let inner = Inner {
            name: name.to_owned(),
            source: source.to_owned(),
            program: lowered.program,
            parts: lowered.kernels,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The kernels, in order of the file.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.inner.parts.iter().map(|part| &part.info)
    }

    /// The name given to [`Self::from_ptx`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The PTX text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    pub(crate) fn program(&self) -> &Program {
        &self.inner.program
    }

    pub(crate) fn parts(&self) -> &[KernelPart] {
        &self.inner.parts
    }
}
