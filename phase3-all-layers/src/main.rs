//! `cargo run -p phase3-all-layers`.

use std::process::ExitCode;

fn main() -> ExitCode {
    phase3_all_layers::cli::main()
}
