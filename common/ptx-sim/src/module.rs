//! A PTX file, read and ready to be loaded onto a device.

use std::sync::Arc;

use crate::error::LoadError;
use crate::ir::{KernelInfo, KernelPart, Program};
use crate::limits::{Allowance, LoadLimits};
use crate::lower;
use crate::parse;
use crate::text::ptx_in;

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
    /// Host memory of all of this in bytes, approximately.
    bytes: u64,
}

impl Module {
    /// Reads PTX text. `name` names the file in diagnostics.
    ///
    /// # Errors
    /// [`LoadError::Syntax`] if it is not PTX. An instruction that the simulator does not know is not an error here, only
    /// for the kernels that could reach it ([`crate::LoadedModule::kernel`]).
    pub fn from_ptx(source: &str, name: &str) -> Result<Self, LoadError> {
        Self::from_ptx_within(source, name, LoadLimits::default())
    }

    /// [`Self::from_ptx`] within `limits` on host resources.
    ///
    /// # Errors
    /// Errors of [`Self::from_ptx`], and [`LoadError::Limit`] if a limit is reached.
    pub fn from_ptx_within(source: &str, name: &str, limits: LoadLimits) -> Result<Self, LoadError> {
        let source = &*ptx_in(source);
        let syntax = |error| LoadError::syntax(&error, source, name);
        let mut allowance = Allowance::new(limits);
        allowance.charge(source.len());
        allowance.check().map_err(|reached| syntax(reached.into()))?;
        let (ast, allowance) = parse::parse(source, allowance).map_err(syntax)?;
        let lowered = lower::lower(&ast, source, allowance).map_err(syntax)?;
        let inner = Inner {
            name: name.to_owned(),
            source: source.to_owned(),
            program: lowered.program,
            parts: lowered.kernels,
            bytes: lowered.bytes,
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

    /// Host memory of the module in bytes, approximately.
    pub(crate) fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    pub(crate) fn program(&self) -> &Program {
        &self.inner.program
    }

    pub(crate) fn parts(&self) -> &[KernelPart] {
        &self.inner.parts
    }
}
