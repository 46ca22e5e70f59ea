//! What can go wrong, each in one sentence.

use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that ends the command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, a kernel, a shape, or a file of parameters.
    #[error(transparent)]
    Common(#[from] common::Error),

    /// A file that cannot be read as a photo.
    #[error("cannot use {} as a photo: {reason}", .path.display())]
    Photo {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
