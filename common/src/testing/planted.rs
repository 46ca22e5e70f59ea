//! Kernels with one planted bug, which the checks must find: tests of the tests.

use crate::check::{Mismatch, Report};
use crate::compile::CompilerName;
use crate::compile::nvrtc::nvrtc;
use crate::device::SimOptions;
use crate::prelude::*;
use crate::probe;

/// The kernel with `wrong` in place of `right`, and its headers written into its text, since a text has no directory.
///
/// # Panics
/// If `right` does not occur there exactly once: the kernel has changed, and the bug must be planted anew.
pub fn planted(source: &KernelSource, right: &str, wrong: &str) -> KernelSource {
    let text = with_headers(source);
    assert_eq!(text.matches(right).count(), 1, "`{right}` in {}", source.label());
    let quick = if text.contains("wgmma.mma_async") { "" } else { quick_to_compile() };
    let text = format!("{quick}{}", text.replace(right, wrong));
    KernelSource::from_text(format!("planted_{}", source.name), text)
}

/// The head of a kernel that is run once: large ones compile in a seventh of the time. NVRTC has the option since CUDA 13 at the
/// latest. It leaves loops as they are, so that sums of wgmma would be stored while products are in flight: a finding of its own.
fn quick_to_compile() -> &'static str {
    let has_it = nvrtc().is_ok_and(|nvrtc| nvrtc.version >= (13, 0));
    if has_it { "// nvrtc: --Ofast-compile=mid\n" } else { "" }
}

/// The kernel's text with its headers in it, each once.
fn with_headers(source: &KernelSource) -> String {
    let dir = source.path().and_then(|path| Some(path.parent()?.to_owned())).expect("a kernel in a file");
    let mut text = source.text().expect("the kernel can be read");
    let mut seen = Vec::new();
    while let Some(line) = text.lines().find(|line| line.starts_with("#include \"")).map(str::to_owned) {
        let name = line.split('"').nth(1).expect("a name in quotes").to_owned();
        let header = if seen.contains(&name) {
            String::new()
        } else {
            std::fs::read_to_string(dir.join(&name)).expect("a header beside the kernel")
        };
        text = text.replacen(&line, &header, 1);
        seen.push(name);
    }
    text
}

/// True if kernels can be compiled here. If not, the test `test` is skipped with a message; `REQUIRE_NVRTC=1` makes that a
/// failure.
///
/// # Panics
/// If kernels cannot be compiled for another reason, or `REQUIRE_NVRTC` is set.
pub fn compiler(device: &Device, test: &str) -> bool {
    let source = KernelSource::from_text("probe", "extern \"C\" __global__ void probe() {}");
    match device.load(&source) {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error, Error::CompilerMissing { .. }), "{error}");
            assert!(std::env::var("REQUIRE_NVRTC").is_err(), "{test}: REQUIRE_NVRTC is set, but {error}");
            println!("{test}: skipped, since {error}");
            false
        }
    }
}

/// True if clang can compile kernels here. If not, the test `test` is skipped with a message; `REQUIRE_CLANG=1` makes that a failure.
///
/// # Panics
/// If `REQUIRE_CLANG` is set, and it cannot.
pub fn clang(test: &str) -> bool {
    let found = CompilerName::Clang.find();
    if let Err(missing) = &found {
        assert!(std::env::var("REQUIRE_CLANG").is_err(), "{test}: REQUIRE_CLANG is set, but {missing}");
        println!("{test}: skipped, since {missing}");
    }
    found.is_ok()
}

/// The loaded object; `None`, with the reason printed, if the GPU lacks a feature that it needs.
///
/// # Errors
/// Errors of loading other than [`Error::Unsupported`].
///
/// # Panics
/// If the simulator does not support it.
pub fn here<T>(device: &Device, loaded: Result<T>) -> Result<Option<T>> {
    match loaded {
        Ok(loaded) => Ok(Some(loaded)),
        Err(error) if error.is_unsupported() => {
            assert!(device.is_cuda(), "the simulator has everything, but {error}");
            println!("{error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Runs `check` on a sanitising simulator, where a wrong access harms nothing. It must fail: by a finding of the sanitiser or by
/// values that differ.
///
/// # Panics
/// If `mistake` passes the check, or fails it in another way.
pub fn must_be_rejected(mistake: &str, check: impl FnOnce(&Device) -> Result<Result<Report, Mismatch>>) {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    match check(&device) {
        Err(Error::CompilerMissing { .. }) => println!("{mistake}: skipped, since a changed kernel takes NVRTC"),
        Err(Error::Compile { log, .. }) if probe::include_dirs().is_empty() && log.contains("open source file") => {
            println!("{mistake}: skipped, since the kernel includes CUDA's headers, which are not installed");
        }
        Err(Error::Fault { .. } | Error::Findings { .. }) | Ok(Err(_)) => {}
        Err(other) => panic!("{mistake}: {other}"),
        Ok(Ok(report)) => panic!("{mistake}: passed the check with {report}"),
    }
}
