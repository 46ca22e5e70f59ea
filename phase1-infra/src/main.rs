//! `cargo run -p phase1-infra`.

use std::process::ExitCode;

fn main() -> ExitCode {
    phase1_infra::cli::main()
}
