//! Processes that end with the one that started them, on every system and however it ended: it holds their standard input open, and
//! they watch for its end.

use std::io::{self, Read};
use std::process::{self, Command, Stdio};
use std::thread;

/// Set for a process whose standard input is such a line.
const VARIABLE: &str = "WARP_LIFELINE";

/// Gives the process that `command` starts a lifeline: it ends when its `Child::stdin` is dropped, if it calls [`watch`].
pub fn attach(command: &mut Command) {
    command.stdin(Stdio::piped()).env(VARIABLE, "stdin");
}

/// Watches `input`, the rest of the standard input, in a thread. At its end calls `last` and ends this process with status 1. Does
/// nothing in a process that was started without a lifeline.
pub fn watch(mut input: impl Read + Send + 'static, last: impl FnOnce() + Send + 'static) {
    if std::env::var_os(VARIABLE).is_none_or(|value| value != "stdin") {
        return;
    }
    thread::spawn(move || {
        let _ = io::copy(&mut input, &mut io::sink());
        last();
        process::exit(1);
    });
}
