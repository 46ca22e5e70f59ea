//! Errors, each in one sentence.

use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that ends the command or a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, a kernel or a shape.
    #[error(transparent)]
    Common(#[from] common::Error),

    /// A table that the course does not have.
    #[error("no such table: `{name}`; there are {}; `all` stands for every one", .known.join(", "))]
    UnknownTable {
        /// Requested name.
        name: String,
        /// Known tables.
        known: Vec<&'static str>,
    },

    /// A plot that cannot be drawn.
    #[error("{}: {reason}", .path.display())]
    Plot {
        /// The file, or its intended name.
        path: PathBuf,
        /// The missing data, or the error.
        reason: String,
    },

    /// A report that cannot be made.
    #[error("no report: {0}")]
    Report(String),

    /// A run that is not adopted.
    #[error("{} is not adopted: {reason}", .path.display())]
    Shelf {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// Runs that are not merged.
    #[error("nothing is merged: {}: {reason}", .path.display())]
    Merge {
        /// The record, or a run.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// A photo, or a plot's file.
    #[error(transparent)]
    Media(#[from] media::Error),

    /// A network or its parameters.
    #[error(transparent)]
    Network(#[from] phase3_all_layers::Error),
}

impl Error {
    /// Error for the plot of this name when there is nothing to draw, with the reason.
    pub(crate) fn nothing_to_plot(name: &str, reason: impl Into<String>) -> Error {
        Error::Plot { path: name.into(), reason: reason.into() }
    }

    /// True if the command line named something that does not exist, rather than something having failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::UnknownTable { .. })
    }
}

impl bench::command::Failure for Error {
    fn exit_status(&self) -> u8 {
        if self.is_usage() { 2 } else { 1 }
    }
}
