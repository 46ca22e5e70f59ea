//! Files that a user names, read with a limit: a device file has no end, and a pipe may never begin.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The content of a regular file of `limit` bytes or less.
///
/// # Errors
/// Errors of the system; [`io::ErrorKind::InvalidInput`] if it is not a regular file, [`io::ErrorKind::FileTooLarge`] if it holds
/// more. The messages do not name the file.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (mut content, mut file) = (Vec::new(), open(path)?);
    // A file may grow while it is read, and files of the kernel's have no length at all.
    file.by_ref().take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        let message = format!("it is larger than {}, the limit for such a file", bytes(limit));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// Opens a regular file for reading.
///
/// # Errors
/// Same as [`read`].
pub fn open(path: &Path) -> io::Result<File> {
    // Asked before it is opened: opening a pipe waits for its other end.
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return File::open(path);
    }
    let what = if kind.is_dir() { "a folder" } else { "a device or a pipe" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// A limit in readable units: `512 MiB`.
pub fn bytes(count: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| count >= 1 << shift) {
        Some((shift, unit)) => format!("{} {unit}", count >> shift),
        None => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [7; 2048]).unwrap();
        assert_eq!(read(&path, 2048).unwrap(), [7; 2048]);
        let error = read(&path, 2047).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it is larger than 1 KiB, the limit for such a file");
        assert_eq!(read(&path, u64::MAX).unwrap().len(), 2048);
        assert_eq!(read(&dir.path().join("none"), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(dir.path(), 1).unwrap_err().to_string(), "it is a folder, not a regular file");
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_pipes_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, Path::new("/dev/zero")] {
            assert_eq!(read(path, 10).unwrap_err().to_string(), "it is a device or a pipe, not a regular file");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_a_length_is_read_to_the_limit() {
        // Its length is said to be 0.
        let path = Path::new("/proc/self/maps");
        assert_eq!(read(path, 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(read(path, 1 << 20).unwrap().len() > 10);
    }

    #[test]
    fn limits_are_said_in_the_largest_unit() {
        assert_eq!([3, 4096, 512 << 20, 20 << 30].map(bytes), ["3 bytes", "4 KiB", "512 MiB", "20 GiB"]);
    }
}
