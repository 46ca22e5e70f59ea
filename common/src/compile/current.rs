//! A kernel's text and headers as they are now, and the compiler's options for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{BASE_OPTIONS, KernelHead, edits, hex, unix_lines};
use crate::error::{Error, Result};
use crate::probe;

/// A kernel's current text and the headers that it includes with quotes.
pub(crate) struct Current {
    pub(crate) text: String,
    /// The file; `None` if the text and the headers were embedded.
    pub(crate) path: Option<PathBuf>,
    /// By the name in the `#include "…"`.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Current {
    pub(crate) fn read(path: &Path) -> Result<Current> {
        let (text, headers) = Current::read_by(path, |path| std::fs::read_to_string(path))?;
        Ok(Current { text, path: Some(path.to_owned()), headers })
    }

    /// The text with the files of the folder `edits` in place of those of the workspace at `root`.
    pub(super) fn edited(path: &Path, root: &Path, edits: &Path) -> Result<Current> {
        let mut has_edits = false;
        let (text, headers) = Current::read_by(path, |path| {
            let copy = edits::copy_of(path, root, edits);
            has_edits |= copy.is_some();
            std::fs::read_to_string(copy.as_deref().unwrap_or(path))
        })?;
        // Files of several folders have no common place: the compiler is given all of them.
        Ok(Current { text, path: (!has_edits).then(|| path.to_owned()), headers })
    }

    /// Text and headers.
    fn read_by(
        path: &Path,
        mut read: impl FnMut(&Path) -> std::io::Result<String>,
    ) -> Result<(String, BTreeMap<String, String>)> {
        let text = unix_lines(&read(path).map_err(Error::io(path))?);
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut headers = BTreeMap::new();
        let mut wanted: Vec<String> = includes(&text, '"').map(str::to_owned).collect();
        while let Some(name) = wanted.pop() {
            // NVRTC reports a missing header.
            if let Ok(header) = read(&dir.join(&name))
                && !headers.contains_key(&name)
            {
                let header = unix_lines(&header);
                wanted.extend(includes(&header, '"').map(str::to_owned));
                headers.insert(name, header);
            }
        }
        Ok((text, headers))
    }

    /// The hash of all inputs of the PTX except the compiler. Line ends do not count, since git may change them.
    pub(crate) fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        let mut add = |part: &str| {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        };
        add(&self.text);
        for (name, text) in &self.headers {
            add(name);
            add(text);
        }
        for option in BASE_OPTIONS {
            add(option);
        }
        hex(&hasher.finalize())
    }

    pub(crate) fn head(&self) -> KernelHead {
        KernelHead::read(&self.text)
    }

    /// NVRTC's options for this kernel, named `label`; [`Error::Compile`] if its head has one that it may not have.
    pub(super) fn options(&self, architecture: &str, label: &str) -> Result<Vec<String>> {
        let mut options: Vec<String> = BASE_OPTIONS.iter().map(|&option| option.into()).collect();
        options.push(format!("--gpu-architecture={architecture}"));
        let refused = |log| Error::Compile { file: label.to_owned(), log };
        options.extend_from_slice(self.head().allowed_options().map_err(refused)?);
        if let Some(dir) = self.path.as_deref().and_then(Path::parent)
            && !self.headers.is_empty()
        {
            options.push(format!("--include-path={}", dir.display()));
        }
        if self.needs_cuda_headers() {
            for dir in probe::include_dirs() {
                options.push(format!("--include-path={}", dir.display()));
            }
        }
        Ok(options)
    }

    pub(super) fn needs_cuda_headers(&self) -> bool {
        let texts = std::iter::once(&self.text).chain(self.headers.values());
        texts.into_iter().any(|text| includes(text, '<').next().is_some())
    }
}

/// The names in `#include "…"` or `#include <…>`.
fn includes(text: &str, open: char) -> impl Iterator<Item = &str> {
    let close = if open == '<' { '>' } else { open };
    text.lines().filter_map(move |line| {
        let line = line.trim_start().strip_prefix('#')?.trim_start();
        let name = line.strip_prefix("include")?.trim_start().strip_prefix(open)?;
        name.split_once(close).map(|(name, _)| name)
    })
}
