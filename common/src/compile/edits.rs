//! Edited copies of kernels and headers, in a folder of their own.
//!
//! Every program that runs a kernel of the course runs a reader's version of it, with the same checks: the served book has the
//! text from the browser in such a folder.

use std::path::{Component, Path, PathBuf};

/// The environment variable that names the folder.
pub(crate) const VARIABLE: &str = "WARP_KERNELS";

/// The folder, if one is named.
pub(super) fn folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The copy of a file of the workspace at `root`, if the folder has one.
pub(super) fn copy_of(path: &Path, root: &Path, edits: &Path) -> Option<PathBuf> {
    let path = without_dots(path);
    let copy = edits.join(path.strip_prefix(without_dots(root)).ok()?);
    copy.is_file().then_some(copy)
}

/// `a/../b` as `b`. Nothing is looked up: links are not resolved.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_taken_out_and_those_above_the_root_stay() {
        for (path, plain) in
            [("a/./b/../c.cuh", "a/c.cuh"), ("../a", "../a"), ("a/../../b", "../b"), ("/a/b/../c", "/a/c")]
        {
            assert_eq!(without_dots(Path::new(path)), Path::new(plain), "{path}");
        }
    }
}
