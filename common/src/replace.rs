//! Files that are replaced whole or not at all.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

/// Beginning and end of the names of files that are not renamed yet.
const PREFIX: &str = ".warp-";
const SUFFIX: &str = ".tmp";

/// Makes `bytes` the contents of the file at `path`: they are written beside it, to the disk, and the new file is renamed to
/// the old one's name. If anything fails before that, an earlier file is unchanged. A link keeps pointing to its file, and
/// anything but a regular file, such as `/dev/stdout`, is simply written to.
///
/// # Errors
/// Errors of the file system.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (path, present) = resolve(path);
    if present.as_ref().is_some_and(|present| !present.is_file()) {
        return fs::write(path, bytes);
    }
    let mut file = beside(&path)?;
    file.write_all(bytes)?;
    if let Some(present) = present {
        file.as_file().set_permissions(present.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Whether [`write()`] could write now: tries to create a file beside `path`, and leaves none.
///
/// # Errors
/// The error that [`write()`] would return.
pub fn can_write(path: &Path) -> io::Result<()> {
    let (path, present) = resolve(path);
    match present {
        Some(present) if !present.is_file() => Ok(()),
        Some(present) if present.permissions().readonly() => {
            Err(io::Error::new(ErrorKind::PermissionDenied, "the file is read-only"))
        }
        _ => beside(&path).map(drop),
    }
}

/// The target file if `path` is a link, whether it exists or not, and its metadata.
fn resolve(path: &Path) -> (PathBuf, Option<fs::Metadata>) {
    let mut path = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    let present = fs::metadata(&path).ok();
    (path, present)
}

/// Time after which a file that was never renamed is that of a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Deletes files in a directory that killed processes have left there.
fn tidy(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_ours && age().is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// An empty file in the directory of `path`, which is deleted unless it is kept. Others may read it if the umask lets
/// them.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tidy(parent);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(<fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    // Its message would name a file that nobody asked for.
    builder.tempfile_in(parent).map_err(|error| error.kind().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for text in ["first", "second, longer", ""] {
            can_write(&path).unwrap();
            write(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let nowhere = dir.path().join("no/a");
        assert!(write(&nowhere, b"").is_err());
        let reason = can_write(&nowhere).unwrap_err().to_string();
        assert!(!reason.contains(".tmp"), "{reason}");
    }

    #[test]
    fn what_a_killed_process_left_is_deleted_once_it_is_old() {
        let dir = tempfile::tempdir().unwrap();
        let [old, new, other] = [".warp-old.tmp", ".warp-new.tmp", "old.tmp"].map(|name| dir.path().join(name));
        for path in [&old, &new, &other] {
            fs::write(path, "").unwrap();
        }
        for path in [&old, &other] {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * ABANDONED).unwrap();
        }
        write(&dir.path().join("a"), b"").unwrap();
        assert!(!old.exists() && new.exists() && other.exists());
    }

    #[test]
    fn a_file_that_says_it_is_read_only_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "kept").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert_eq!(can_write(&path).unwrap_err().to_string(), "the file is read-only");
    }

    #[test]
    #[cfg(unix)]
    fn links_devices_and_permissions_stay_what_they_are() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let [file, link, device] = ["file", "link", "device"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        symlink("/dev/null", &device).unwrap();
        for path in [&link, &device] {
            can_write(path).unwrap();
            write(path, b"new").unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_symlink());
        }
        let [target, dangling] = ["target", "dangling"].map(|name| dir.path().join(name));
        symlink("target", &dangling).unwrap();
        write(&dangling, b"made").unwrap();
        assert!(fs::symlink_metadata(&dangling).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "made");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        write(&dir.path().join("new"), b"").unwrap();
        assert_ne!(fs::metadata(dir.path().join("new")).unwrap().permissions().mode() & 0o044, 0);
    }
}
