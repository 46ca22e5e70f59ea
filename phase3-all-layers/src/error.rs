//! Errors, each in one sentence.

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

    /// A photo that cannot be read, or a picture that cannot be written.
    #[error(transparent)]
    Media(#[from] media::Error),

    /// A file that cannot be read as sound.
    #[error("cannot use {} as sound: {reason}", .path.display())]
    Sound {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// A network whose answer holds NaN or an infinity.
    #[error("{network} answers {value}: {origin}")]
    NonFinite {
        /// Name.
        network: String,
        /// Value in the answer.
        value: f32,
        /// Layer where that begins.
        origin: String,
    },

    /// A folder of labelled photos that cannot be used.
    #[error("cannot evaluate {}: {reason}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl bench::command::Failure for Error {}
