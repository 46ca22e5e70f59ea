//! A PTX file, read and ready to be loaded onto a device.

use std::sync::Arc;

use crate::error::{LoadError, SyntaxError};
use crate::ir::{KernelInfo, KernelPart, Program};
use crate::limits::{Allowance, LoadLimits, Reached};
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
    /// Each file's name and the byte of the source at which it begins.
    files: Vec<(String, usize)>,
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
        Self::link_within(&[(source, name)], limits)
    }

    /// Reads several PTX texts, each with its name, and links them as `nvlink` does: a `.extern` declaration means what another
    /// text defines as `.visible` or `.weak`, and all other names are a text's own.
    ///
    /// # Errors
    /// Errors of [`Self::from_ptx_within`]; a function or variable that two texts define is one too.
    pub fn link_within(texts: &[(&str, &str)], limits: LoadLimits) -> Result<Self, LoadError> {
        let mut allowance = Allowance::new(limits);
        allowance.charge(texts.iter().map(|(text, _)| text.len()).sum());
        let (mut source, mut files) = (String::new(), Vec::new());
        for (text, name) in texts {
            let reached = |reached: Reached| LoadError::syntax(&reached.into(), "", name);
            allowance.check().map_err(reached)?;
            if !files.is_empty() {
                source.push('\n');
            }
            files.push(((*name).to_owned(), source.len()));
            source += &ptx_in(text);
        }
        let syntax = |error: SyntaxError| {
            let at = files.partition_point(|(_, start)| *start <= error.span.start as usize).saturating_sub(1);
            let start = files.get(at).map_or(0, |(_, start)| *start);
            let end = files.get(at + 1).map_or(source.len(), |(_, next)| *next - 1);
            let file = files.get(at).map_or("", |(name, _)| name);
            LoadError::syntax(&error.after(start), &source[start..end], file)
        };
        let (ast, allowance) = parse::parse(&source, allowance).map_err(syntax)?;
        let lowered = lower::lower(&ast, &source, &files, allowance).map_err(syntax)?;
        drop(ast);
        let inner = Inner { files, source, program: lowered.program, parts: lowered.kernels, bytes: lowered.bytes };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The kernels, in order of the file.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.inner.parts.iter().map(|part| &part.info)
    }

    /// The name given to [`Self::from_ptx`]; of several texts the first.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.files.first().map_or("", |(name, _)| name)
    }

    /// Each file's name and the byte of the source at which it begins.
    pub(crate) fn files(&self) -> &[(String, usize)] {
        &self.inner.files
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
