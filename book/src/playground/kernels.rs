//! The files that may be edited: kernels of the course that some code of it checks.

use std::{fs, path::Path};

use super::check::Check;

/// Bytes that a kernel's text may have; the longest of the course has a tenth.
pub const MOST_BYTES: usize = 256 << 10;

/// Whether `file` names a kernel that can be run, wherever it comes from: one folder `kernels` of a package of the course, and a plain
/// name in it.
///
/// # Errors
/// In a sentence, why it can't.
pub fn check_of(workspace: &Path, file: &str) -> Result<Check, String> {
    let is_plain = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    let parts: Vec<&str> = file.split('/').collect();
    let [_, "kernels", _] = parts[..] else { return Err(format!("{file:?} is no kernel of the course")) };
    if !parts.iter().all(|part| is_plain(part)) || !workspace.join(file).is_file() {
        return Err(format!("{file:?} is no kernel of the course"));
    }
    Check::of(file)
}

/// The text as it is in the workspace.
///
/// # Errors
/// In a sentence, why it can't be read.
pub fn text(workspace: &Path, file: &str) -> Result<String, String> {
    let text = fs::read_to_string(workspace.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
    Ok(text.replace("\r\n", "\n"))
}
