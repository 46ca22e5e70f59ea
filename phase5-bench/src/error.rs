//! What can go wrong, each in one sentence.

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
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },

    /// A plot that cannot be drawn.
    #[error("{}: {reason}", .path.display())]
    Plot {
        /// The file, or what it would be called.
        path: PathBuf,
        /// What is missing, or went wrong.
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
        /// Why not.
        reason: String,
    },

    /// Runs that are not merged.
    #[error("nothing is merged: {}: {reason}", .path.display())]
    Merge {
        /// The record, or a run.
        path: PathBuf,
        /// Why not.
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
    /// There is nothing to draw for the plot of this name, because of what the reason says.
    pub(crate) fn nothing_to_plot(name: &str, reason: impl Into<String>) -> Error {
        Error::Plot { path: name.into(), reason: reason.into() }
    }

    /// True if the command line asked for something that there is not, rather than something having failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::UnknownTable { .. })
    }
}

impl bench::command::Failure for Error {
    fn exit_status(&self) -> u8 {
        if self.is_usage() { 2 } else { 1 }
    }
}
