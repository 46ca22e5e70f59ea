//! Compiled kernels on disk, so that the second run of a lesson does not compile.

use std::fs;
use std::path::PathBuf;

use super::nvrtc::Output;

/// Where compiled kernels are kept: `WARP_CACHE_DIR`, else `warp-by-warp/kernels` in the platform's cache directory.
pub fn directory() -> PathBuf {
    if let Some(dir) = std::env::var_os("WARP_CACHE_DIR") {
        return dir.into();
    }
    let var = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = if cfg!(windows) {
        var("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        var("HOME").map(|home| home.join("Library/Caches"))
    } else {
        var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")))
    };
    base.unwrap_or_else(std::env::temp_dir).join("warp-by-warp").join("kernels")
}

pub(crate) fn load(key: &str) -> Option<Output> {
    let base = directory().join(key);
    let ptx = fs::read_to_string(base.with_extension("ptx")).ok()?;
    let cubin = fs::read(base.with_extension("cubin")).ok();
    Some(Output { ptx, cubin })
}

/// Stores an output. A cache that cannot be written costs time, not correctness, so it is no error.
pub(crate) fn store(key: &str, output: &Output) {
    let base = directory().join(key);
    // The PTX last: its presence says that the entry is complete.
    if let Some(cubin) = &output.cubin
        && write(&base.with_extension("cubin"), cubin).is_err()
    {
        return;
    }
    let _ = write(&base.with_extension("ptx"), output.ptx.as_bytes());
}

/// Writes beside and renames, so that another process never reads half a file.
fn write(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(path);
    fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    std::io::Write::write_all(&mut file, bytes)?;
    file.persist(path)?;
    Ok(())
}
