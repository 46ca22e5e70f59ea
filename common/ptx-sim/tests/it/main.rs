//! Integration tests, in one binary but for `fuzz_smoke`, which is built with the checks of the simulator too.
#![allow(clippy::unwrap_used)]

mod as_found;
mod asynchrony;
mod attacks;
mod block_scales;
mod bulk;
mod cancel;
#[cfg(feature = "cli")]
mod cli;
mod clusters;
mod diagnostics;
mod heap;
mod host_memory;
mod idioms;
mod instructions;
mod joint;
#[cfg(feature = "cli")]
mod limits;
mod profile;
mod refusals;
mod registers;
mod runtime;
mod sanitise;
mod tcgen05;
mod tensor_memory;
mod tensor_rows;
mod tensor_shifts;
mod textures;
mod threads;
mod trace;
mod undefined;
mod waits;
mod watch;
mod wgmma;
mod wild;

use ptx_sim::{Device, DevicePtr, Fault, LaunchError, LaunchReport};

/// Findings of a sanitised launch, and of a host that reads those buffers afterwards.
#[track_caller]
fn findings_with_reads(
    device: &Device,
    launched: Result<LaunchReport, LaunchError>,
    buffers: &[(DevicePtr, u64)],
) -> Vec<Fault> {
    let mut findings = match launched {
        Ok(_) => Vec::new(),
        Err(LaunchError::Findings(findings)) => findings,
        Err(other) => panic!("{other}"),
    };
    for (pointer, bytes) in buffers {
        findings.extend(device.undefined(*pointer, *bytes).unwrap());
    }
    findings
}

/// A text without the breaks of its lines, for tests of its sentences.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
