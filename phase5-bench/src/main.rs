//! `cargo run -p phase5-bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    phase5_bench::cli::main()
}
