//! Files that may be edited: kernels of the course that some code of it checks; and the pages' pictures of them.

use std::{fs, path::Path};

use super::{check::Check, job::PTX};
use crate::{rerun::Kernel, simulator};

/// Whether `file` names a kernel that can be run, wherever it comes from: one folder `kernels` of a package of the course, and a plain
/// name in it.
///
/// # Errors
/// The reason why it can't, in a sentence.
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
    let text = text(workspace, file)?;
    let unknown = |_| format!("{file:?} does not say what runs it");
    let kernel = Kernel::of(file, &text).map_err(unknown)?;
    Check::of(&kernel.ok_or_else(|| format!("{file:?} is no kernel of the course"))?)
}

/// The text as it is in the workspace.
///
/// # Errors
/// The reason why it can't be read, in a sentence.
pub fn text(workspace: &Path, file: &str) -> Result<String, String> {
    let text = fs::read_to_string(workspace.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
    Ok(text.replace("\r\n", "\n"))
}

/// Maximum number of pictures of one kernel that a run draws again.
const MOST_PICTURES: usize = 4;

/// The arguments for `ptx-sim` of the pictures of `file` in a page, given by its path in the browser: `/phase2/gemm-naive.html`.
/// None if it is not a page.
pub fn pictures(pages: &Path, page: &str, file: &str) -> Vec<Vec<String>> {
    let Some(name) = page.trim_start_matches('/').strip_suffix(".html") else { return Vec::new() };
    let is_plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !name.split('/').all(is_plain) {
        return Vec::new();
    }
    let markdown = fs::read_to_string(pages.join(format!("{name}.md"))).unwrap_or_default();
    let shipped = file.replacen("/kernels/", "/kernels/ptx/", 1).replace(".cu", ".ptx");
    let arguments = |line: &str| {
        let arguments = line.trim().strip_prefix("<!-- BEGIN generated: ptx-sim trace ")?.strip_suffix("-->")?;
        let mut words = simulator::split(arguments).ok()?;
        let at = words.iter().position(|word| *word == shipped)?;
        words[at] = PTX.to_owned();
        words.insert(0, "trace".to_owned());
        words.iter().all(|word| word != "--list").then_some(words)
    };
    markdown.lines().filter_map(arguments).take(MOST_PICTURES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_those_of_the_page_and_the_kernel() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages");
        let of = |page: &str, file: &str| pictures(&pages, page, file);
        let found = of("/phase2/gemm-naive.html", "phase2-conv-bn/kernels/gemm_02_coalesced.cu");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0][..4], ["trace", PTX, "--kernel", "gemm"]);
        assert!(of("/phase2/gemm-naive.html", "phase1-infra/kernels/01_vector_add.cu").is_empty());
        assert!(of("/../pages/phase2/gemm-naive.html", "phase2-conv-bn/kernels/gemm_02_coalesced.cu").is_empty());
    }
}
