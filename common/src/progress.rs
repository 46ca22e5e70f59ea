//! A bar for work that takes a while, on stderr; hidden when stderr is not a terminal.

use std::borrow::Cow;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::command;

/// Progress towards a known number of steps; the bar leaves no trace.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `len` steps. `message` says what is being done.
    pub fn new(len: u64, message: impl Into<Cow<'static, str>>) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(len), target).with_style(style);
        bar.set_message(message);
        Progress(bar)
    }

    /// Adds `steps` finished steps.
    pub fn inc(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Says what is being done now.
    pub fn set_message(&self, message: impl Into<Cow<'static, str>>) {
        self.0.set_message(message);
    }

    /// A line on stderr, above the bar if there is one.
    pub fn println(&self, line: impl AsRef<str>) {
        self.0.suspend(|| command::line(line.as_ref()));
    }

    /// Removes the bar; dropping it does so too.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
