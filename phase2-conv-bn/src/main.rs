//! `cargo run -p phase2-conv-bn`.

use std::process::ExitCode;

fn main() -> ExitCode {
    phase2_conv_bn::cli::main()
}
