//! The command line of `cargo run -p book`.

use clap::{CommandFactory, Parser};

/// Check the book's pages, build the book into target/book and say where it is.
///
/// A broken link, a missing include or anchor, or a generated part that is out of date
/// is an error with its page and line, and then nothing is built.
#[derive(Clone, Debug, Parser)]
#[command(name = "book", bin_name = "cargo run -p book --", version, verbatim_doc_comment)]
pub struct Cli {
    /// Serve the book and open it in the browser
    #[arg(long)]
    pub open: bool,

    /// Serve the book on this machine: edit and run kernels in it; it is built again at every change
    #[arg(long)]
    pub serve: bool,

    /// Port to serve on; 0 takes a free one [default: 3000, or a free one if that is taken]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// Check the pages and that they render, and keep no output [generated parts only of pages with one of these words in their path]
    #[arg(long, value_name = "WORD", num_args = 0.., conflicts_with_all = ["open", "serve", "update"])]
    pub check: Option<Vec<String>>,

    /// Build or serve without making the generated parts anew, which the tests do too
    #[arg(long, conflicts_with_all = ["check", "update", "commands"])]
    pub unchecked: bool,

    /// Rewrite the generated parts of pages first [only of pages with one of these words in their path]
    #[arg(long, value_name = "WORD", num_args = 0..)]
    pub update: Option<Vec<String>>,

    /// Run what pages have readers type, and compare what it prints [only with all of these words]
    #[arg(long, value_name = "WORD", num_args = 0.., conflicts_with_all = ["open", "serve", "check", "update"])]
    pub commands: Option<Vec<String>>,

    /// Run a kernel for the server that started this process
    #[arg(long, hide = true)]
    pub run_kernel: bool,
}

/// The command line.
pub fn command() -> clap::Command {
    Cli::command()
}
