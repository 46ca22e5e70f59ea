//! Findings: the library appends each to a file, a JSON object per line, and the launcher counts them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use ptx_sim::Fault;
use serde::{Deserialize, Serialize};

/// A finding or a fault of a kernel.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Entry {
    /// Name of the kind: `global-race`.
    pub kind: String,
    /// The kernel, as PTX names it.
    pub kernel: String,
    /// File of the line at fault: the CUDA source if the PTX names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// One sentence.
    pub message: String,
    /// Identifier of the process.
    pub process: u32,
}

impl From<&Fault> for Entry {
    fn from(fault: &Fault) -> Self {
        let (file, line) = fault.place();
        Self {
            kind: fault.kind.name().to_owned(),
            kernel: fault.kernel.clone(),
            file: file.to_owned(),
            line,
            message: fault.message.clone(),
            process: std::process::id(),
        }
    }
}

impl Entry {
    /// Appends the entry to a file, in one write, so that several processes may share it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&self, path: &Path) -> io::Result<()> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
    }

    /// All entries of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is no log.
    pub fn read_all(path: &Path) -> io::Result<Vec<Self>> {
        let text = std::fs::read_to_string(path)?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }
}

/// One line for each kind: how many lines of code have it.
#[must_use]
pub fn summary(entries: &[Entry]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *kinds.entry(&entry.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    match entries.len() {
        0 => "no findings".to_owned(),
        1 => format!("1 finding: {}", kinds.join(", ")),
        count => format!("{count} findings: {}", kinds.join(", ")),
    }
}
