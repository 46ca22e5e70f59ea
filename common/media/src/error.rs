//! Errors, each in one sentence.

use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a file was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read as a photo.
    #[error("cannot use {} as a photo: {reason}", .path.display())]
    Photo {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// A result that cannot be written.
    #[error("cannot write {}: {reason}", .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}
