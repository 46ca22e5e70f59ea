//! `cargo run -p phase4-fusion`.

use std::process::ExitCode;

fn main() -> ExitCode {
    phase4_fusion::cli::main()
}
