//! Paths of pages and the files beside them, with `/` on every system.

use std::path::Path;

/// A relative path with `/` on every system.
pub(crate) fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// `path` seen from `page`, both with `/` and relative to the pages' folder; `None` if it leaves that folder.
pub(crate) fn resolve(page: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}
