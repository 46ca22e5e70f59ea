//! Errors before a kernel runs, as values; [`crate::report`] turns them into text.

use crate::fault::FaultKind;
use crate::limits::Reached;
use crate::span::Span;

/// A place in the PTX text that cannot be read, without the text itself.
#[derive(Debug, Clone)]
pub(crate) struct SyntaxError {
    pub span: Span,
    pub message: String,
    /// Set if the text is not at fault, but reading it reached a limit.
    pub limit: Option<FaultKind>,
}

impl SyntaxError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), limit: None }
    }
}

impl SyntaxError {
    /// The error in a text that begins at byte `start` of the one that was read.
    pub(crate) fn after(mut self, start: usize) -> Self {
        self.span = Span::new(self.span.start as usize - start, (self.span.end as usize).saturating_sub(start));
        self
    }
}

impl From<Reached> for SyntaxError {
    fn from(reached: Reached) -> Self {
        Self { span: Span::default(), message: reached.message, limit: Some(reached.kind) }
    }
}

/// An instruction that this simulator does not know; that does not mean that the kernel is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// 1-based line of the PTX file.
    pub line: u32,
    /// The instruction as written.
    pub text: String,
    /// The unknown part: a modifier, a type, or the whole opcode.
    pub reason: String,
}

/// Unsupported instructions of one form: the same opcode, or the same directive, and the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedForm {
    /// The opcode with its modifiers, without guard and operands.
    pub form: String,
    /// The unknown part.
    pub reason: String,
    /// Lines of the PTX file, in order; a call of a function without a body has line 0.
    pub lines: Vec<u32>,
}

impl Unsupported {
    /// The opcode with its modifiers.
    fn form(&self) -> &str {
        let mut words = self.text.split_whitespace().skip_while(|word| word.starts_with('@'));
        words.next().unwrap_or_default().trim_end_matches(';')
    }

    /// The forms among `items`, in order of their first line.
    #[must_use]
    pub fn forms(items: &[Self]) -> Vec<UnsupportedForm> {
        let mut forms: Vec<UnsupportedForm> = Vec::new();
        for item in items {
            let alike = |known: &&mut UnsupportedForm| known.form == item.form() && known.reason == item.reason;
            match forms.iter_mut().find(alike) {
                Some(known) => known.lines.push(item.line),
                None => forms.push(UnsupportedForm {
                    form: item.form().to_owned(),
                    reason: item.reason.clone(),
                    lines: vec![item.line],
                }),
            }
        }
        forms
    }

    /// One item per form, with the number of its occurrences.
    pub(crate) fn grouped(items: &[Self]) -> impl Iterator<Item = (&Self, UnsupportedForm)> {
        Self::forms(items).into_iter().filter_map(|form| {
            let first = items.iter().find(|item| item.form() == form.form && item.reason == form.reason)?;
            Some((first, form))
        })
    }
}

/// Reason why a PTX file cannot be loaded, or a kernel of it cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not PTX.
    #[error("{file}:{line}: not valid PTX: {message}")]
    Syntax {
        /// The name given to [`crate::Module::from_ptx`].
        file: String,
        /// 1-based line.
        line: u32,
        /// Expected and found text.
        message: String,
        /// That line as written, and the byte range at fault.
        snippet: (String, std::ops::Range<usize>),
    },
    /// Reading the file takes more time or memory than [`crate::LoadLimits`] allow.
    #[error("loading {file}: {message}")]
    Limit {
        /// The name given to [`crate::Module::from_ptx_within`].
        file: String,
        /// [`FaultKind::TimeLimit`] or [`FaultKind::MemoryLimit`].
        kind: FaultKind,
        /// The limit, and the cause of reaching it.
        message: String,
    },
    /// A limit of the simulator: the kernel, or a function it calls, has instructions it does not know.
    #[error("the simulator does not support {} of kernel `{kernel}`: {}", count(items.len()), list(items))]
    Unsupported {
        /// The requested kernel.
        kernel: String,
        /// The name of the PTX file.
        file: String,
        /// All of them, in order of line.
        items: Vec<Unsupported>,
    },
    /// The kernel, or a function it calls, calls functions without a body.
    #[error("link error: kernel `{kernel}` calls {}, which {file} declares and does not define", quoted(functions))]
    Unresolved {
        /// The requested kernel.
        kernel: String,
        /// The name of the PTX file.
        file: String,
        /// The functions, by their names in the PTX.
        functions: Vec<String>,
    },
    /// No kernel of that name.
    #[error("there is no kernel `{kernel}` in {file}; it has {}", if known.is_empty() { "none".into() } else { known.join(", ") })]
    UnknownKernel {
        /// The requested name.
        kernel: String,
        /// The name of the PTX file.
        file: String,
        /// The kernels of the file.
        known: Vec<String>,
    },
    /// The module's own variables do not fit the device's memory.
    #[error("loading {file}: {source}")]
    Memory {
        /// The name of the PTX file.
        file: String,
        /// Error of the allocation.
        source: crate::MemoryError,
    },
}

fn count(items: usize) -> String {
    if items == 1 { "an instruction".into() } else { format!("{items} instructions") }
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn list(items: &[Unsupported]) -> String {
    let lines: Vec<_> = Unsupported::grouped(items)
        .map(|(item, form)| match form.lines.len() {
            1 => format!("line {}: {} ({})", item.line, item.text, item.reason),
            count => format!("line {}: {}, {count} times ({})", item.line, form.form, item.reason),
        })
        .collect();
    lines.join("; ")
}

impl LoadError {
    pub(crate) fn syntax(error: &SyntaxError, source: &str, file: &str) -> Self {
        if let Some(kind) = error.limit {
            return Self::Limit { file: file.to_owned(), kind, message: error.message.clone() };
        }
        let start = (error.span.start as usize).min(source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |at| start + at);
        let end = (error.span.end as usize).clamp(start, line_end);
        Self::Syntax {
            file: file.to_owned(),
            line: source[..start].matches('\n').count() as u32 + 1,
            message: error.message.clone(),
            snippet: (source[line_start..line_end].to_owned(), start - line_start..end - line_start),
        }
    }
}
