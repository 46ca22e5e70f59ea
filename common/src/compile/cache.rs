//! Compiled kernels on disk, so that the second run of a lesson does not compile.
//!
//! An entry is one file: a hash, the length of the PTX, the PTX and the cubin. It is written whole or not at all, and one whose
//! hash is wrong, after a crash or on a bad disk, is not used but compiled again and replaced.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use sha2::{Digest, Sha256};

use super::nvrtc::Output;
use crate::{console, replace};

/// Directory of compiled kernels: `WARP_CACHE_DIR`, else `warp-by-warp/kernels` in the platform's cache directory. `None` if no
/// home directory is known: code in a directory that others can write to cannot be trusted.
pub fn directory() -> Option<PathBuf> {
    directory_by(|name| std::env::var_os(name))
}

/// Whether kernels can be kept there: the folder exists or can be created, and is writable.
pub fn can_keep(directory: &Path) -> bool {
    fs::create_dir_all(directory).and_then(|()| tempfile::tempfile_in(directory)).is_ok()
}

/// [`directory`], with the environment read through `var`.
fn directory_by(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(dir) = var("WARP_CACHE_DIR").filter(|dir| !dir.is_empty()) {
        return Some(dir.into());
    }
    let absolute = |name| var(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Caches"))
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
    };
    Some(base?.join("warp-by-warp").join("kernels"))
}

/// The entry of that key, if it exists and is whole.
pub(crate) fn load(key: &str) -> Option<Output> {
    load_from(&directory()?, key)
}

fn load_from(directory: &Path, key: &str) -> Option<Output> {
    let path = entry(directory, key);
    let output = decode(&fs::read(&path).ok()?);
    if output.is_none() {
        console::warn(format!("{}: this cached kernel is damaged; it is compiled again", path.display()));
    }
    output
}

/// Stores an output. A cache that cannot be written costs time, not correctness, so it is no error.
pub(crate) fn store(key: &str, output: &Output) {
    static NOTED: Once = Once::new();
    match directory() {
        Some(directory) => _ = store_in(&directory, key, output),
        None => NOTED.call_once(|| {
            console::warn(
                "compiled kernels are not kept, since no home directory is known: WARP_CACHE_DIR can name a place",
            );
        }),
    }
}

fn store_in(directory: &Path, key: &str, output: &Output) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)?;
    replace::write(&entry(directory, key), &encode(output))
}

fn entry(directory: &Path, key: &str) -> PathBuf {
    directory.join(key).with_extension("kernel")
}

fn encode(output: &Output) -> Vec<u8> {
    let mut content = (output.ptx.len() as u64).to_le_bytes().to_vec();
    content.extend(output.ptx.as_bytes());
    content.extend(output.cubin.iter().flatten());
    [Sha256::digest(&content).as_slice(), &content].concat()
}

/// Decodes the bytes of [`encode`]; `None` if they are anything else.
fn decode(bytes: &[u8]) -> Option<Output> {
    let (hash, content) = bytes.split_first_chunk::<32>()?;
    if Sha256::digest(content).as_slice() != hash {
        return None;
    }
    let (length, rest) = content.split_first_chunk()?;
    let (ptx, cubin) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let ptx = String::from_utf8(ptx.to_vec()).ok()?;
    Some(Output { ptx, cubin: (!cubin.is_empty()).then(|| cubin.to_vec()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_entry_is_not_used_and_the_next_one_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        for cubin in [None, Some(vec![1, 2, 3])] {
            let output = Output { ptx: ".version 9.0\n".to_owned(), cubin };
            let path = entry(&cache, "key");
            let _ = fs::remove_file(&path);
            assert!(load_from(&cache, "key").is_none());
            store_in(&cache, "key", &output).unwrap();
            let whole = fs::read(&path).unwrap();
            for damaged in (0..whole.len()).flat_map(|at| {
                let mut flipped = whole.clone();
                flipped[at] ^= 1;
                [whole[..at].to_vec(), flipped]
            }) {
                assert!(decode(&damaged).is_none());
            }
            fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert!(load_from(&cache, "key").is_none());
            store_in(&cache, "key", &output).unwrap();
            let loaded = load_from(&cache, "key").unwrap();
            assert_eq!((loaded.ptx, loaded.cubin), (output.ptx, output.cubin));
            assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_new_directory_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("a/b");
        store_in(&cache, "key", &Output { ptx: String::new(), cubin: None }).unwrap();
        assert_eq!(fs::metadata(cache).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_empty_variable_counts_as_unset_and_no_home_means_no_cache() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            directory_by(|name| Some(set.iter().find(|(set, _)| set == name)?.1.clone().into()))
        };
        let home = if cfg!(windows) { ("LOCALAPPDATA", "C:\\me") } else { ("HOME", "/home/me") };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("WARP_CACHE_DIR", "")]), None);
        assert_eq!(with(&[(home.0, "")]), None);
        assert_eq!(with(&[("WARP_CACHE_DIR", "kept"), home]), Some("kept".into()));
        let by_home = with(&[home]).unwrap();
        assert!(by_home.starts_with(home.1) && by_home.ends_with("warp-by-warp/kernels"), "{}", by_home.display());
        assert_eq!(with(&[("WARP_CACHE_DIR", ""), home]), Some(by_home));
    }
}
