//! Where and when a run was made, for records.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The moment in UTC, as in RFC 3339: `2026-01-31T12:00:00Z`.
pub fn date() -> String {
    // A clock that was never set may be before it, and humantime has no such dates.
    humantime::format_rfc3339_seconds(SystemTime::now().max(UNIX_EPOCH)).to_string()
}

/// `git describe` of the sources of this build; `WARP_COMMIT` gives it for sources without a repository.
pub fn commit() -> String {
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output();
    let described = git.ok().filter(|output| output.status.success()).and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    });
    described
        .or_else(|| std::env::var("WARP_COMMIT").ok().filter(|commit| !commit.is_empty()))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The processor's name, if Linux reports it, and its number of hardware threads.
pub fn host() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    format!("{}, {threads} threads", name.as_deref().unwrap_or(std::env::consts::ARCH))
}
