//! Lines on standard error, with the characters that a terminal would obey escaped.

use std::fmt::Display;
use std::io::{self, Write};

use crate::text::printable_lines;

/// A line on standard error: `device: sim`.
pub fn say(label: &str, what: impl Display) {
    line(&format!("{label}: {what}"));
}

/// A line on standard error about something missing that the run does without.
pub fn warn(message: impl Display) {
    say("warning", message);
}

/// A line on standard error about a failure.
pub fn error(message: impl Display) {
    say("error", message);
}

/// A line on standard error. If that is closed too, the line is lost.
pub fn line(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}
