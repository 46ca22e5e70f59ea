//! Bars for work that takes a while, on stderr, one below the other; hidden when stderr is not a terminal.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console;

/// All bars of the process.
static BARS: LazyLock<MultiProgress> = LazyLock::new(|| {
    let is_terminal = std::io::stderr().is_terminal();
    let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    MultiProgress::with_draw_target(target)
});

/// Lines on stderr, above all bars.
pub fn print(text: &str) {
    if !text.is_empty() {
        BARS.suspend(|| console::line(text.trim_end()));
    }
}

/// Progress towards a known number of steps; the bar leaves no trace.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `len` steps. `message` describes the work.
    pub fn new(len: u64, message: impl Into<Cow<'static, str>>) -> Progress {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = BARS.add(ProgressBar::new(len).with_style(style));
        bar.set_message(message);
        Progress(bar)
    }

    /// A bar for one step of unknown length, named by `message`.
    pub fn spinner(message: impl Into<Cow<'static, str>>) -> Progress {
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        let bar =
            BARS.add(ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())));
        bar.set_message(message);
        if !BARS.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Progress(bar)
    }

    /// Adds `steps` finished steps.
    pub fn inc(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Describes the current work.
    pub fn set_message(&self, message: impl Into<Cow<'static, str>>) {
        self.0.set_message(message);
    }

    /// A line on stderr, above the bar if there is one.
    pub fn println(&self, line: impl AsRef<str>) {
        print(line.as_ref());
    }

    /// Removes the bar; dropping it does so too.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
