//! Kernels with a mistake, which the checks must reject: a check that passes them is no check.

use common::check::{Mismatch, Report};
use common::device::SimOptions;
use common::prelude::*;

/// `source` with its one `from` replaced by `to`.
pub fn mutate(source: &KernelSource, from: &str, to: &str) -> KernelSource {
    let text = source.text().unwrap();
    assert_eq!(text.matches(from).count(), 1, "`{from}` in {}", source.label());
    KernelSource::from_text(format!("{} with `{to}`", source.name), text.replace(from, to))
}

/// Runs `check` on a sanitising simulator, where a wrong access harms nothing. It must fail: by the sanitiser's words or by
/// values that differ.
pub fn must_be_rejected(mistake: &str, check: impl FnOnce(&Device) -> Result<Result<Report, Mismatch>>) {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    match check(&device) {
        Err(Error::NvrtcMissing { .. }) => println!("{mistake}: skipped, since a changed kernel takes NVRTC"),
        Err(Error::Fault { .. } | Error::Findings { .. }) | Ok(Err(_)) => {}
        Err(other) => panic!("{mistake}: {other}"),
        Ok(Ok(report)) => panic!("{mistake}: passed the check with {report}"),
    }
}
