//! Shared parts of all crates' tests: one test body for both devices, and kernels with planted bugs.

pub mod planted;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Device;
use crate::compile::KernelSource;
use crate::device::{DeviceChoice, DeviceGroup, SimOptions};

/// Defines tests that run on both devices: `fn name(device) { … }` becomes the tests `name_sim` and `name_cuda`. The body ends
/// with a `common::Result<()>`, so that it can use `?`. The simulator sanitises: a race, or a read of unwritten memory, fails
/// the test.
///
/// Without a GPU the second one passes and prints why it was skipped; with `REQUIRE_CUDA=1` in the environment it fails.
///
/// ```
/// use common::prelude::*;
///
/// common::device_test! {
///     /// What was copied to the device comes back.
///     fn round_trip(device) {
///         let stream = device.stream();
///         let values = stream.clone_htod(&[1.0f32, 2.0])?;
///         assert_eq!(stream.clone_dtoh(&values)?, [1.0, 2.0]);
///         Ok(())
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! device_test {
    ($($(#[$attribute:meta])* fn $name:ident($device:ident) $body:block)+) => {
        $(
            $crate::private::paste! {
                $(#[$attribute])*
                #[test]
                fn [<$name _sim>]() {
                    [<$name _on>]($crate::private::sim_for_test());
                }

                $(#[$attribute])*
                #[test]
                fn [<$name _cuda>]() {
                    if let Some(device) = $crate::private::cuda_for_test(stringify!($name)) {
                        [<$name _on>](device);
                    }
                }

                fn [<$name _on>]($device: $crate::Device) {
                    // A closure, so that `?` works in a test that returns nothing.
                    let body = || -> $crate::Result<()> { $body };
                    if let Err(error) = body() {
                        panic!("on {}: {error}", $device.describe());
                    }
                }
            }
        )+
    };
}

/// [`device_test!`] for several devices: `fn name(group, 2) { … }` becomes `name_sim`, on two simulated devices of one host that
/// sanitise, and `name_cuda`, which is skipped with the reason if there are fewer GPUs.
#[macro_export]
macro_rules! group_test {
    ($($(#[$attribute:meta])* fn $name:ident($group:ident, $count:literal) $body:block)+) => {
        $(
            $crate::private::paste! {
                $(#[$attribute])*
                #[test]
                fn [<$name _sim>]() {
                    [<$name _on>]($crate::private::sims_for_test($count));
                }

                $(#[$attribute])*
                #[test]
                fn [<$name _cuda>]() {
                    if let Some((group, _alone)) = $crate::private::gpus_for_test(stringify!($name), $count) {
                        [<$name _on>](group);
                    }
                }

                fn [<$name _on>]($group: $crate::device::DeviceGroup) {
                    let body = || -> $crate::Result<()> { $body };
                    if let Err(error) = body() {
                        panic!("on {}: {error}", $group.describe());
                    }
                }
            }
        )+
    };
}

/// The kernel as in a program built with `--release` and copied away from its sources: all embedded, and no folder.
///
/// # Panics
/// If the folder that stands for a missing one exists.
pub fn away_from_sources(source: &KernelSource) -> KernelSource {
    let folder = std::env::temp_dir().join("warp by warp was never built here");
    assert!(!folder.exists(), "{} must not exist", folder.display());
    let ptx = source.shipped();
    KernelSource { manifest_dir: folder.to_string_lossy().into_owned().into(), ptx, ..source.clone() }
}

/// A simulator that sanitises every launch.
#[doc(hidden)]
pub fn sim_for_test() -> Device {
    Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() })
}

/// Simulated devices of one host that sanitise every launch.
#[doc(hidden)]
pub fn sims_for_test(count: u32) -> DeviceGroup {
    DeviceGroup::sim_with(count, SimOptions { sanitize: true, ..SimOptions::default() })
}

/// That many GPUs, for one test of this process at a time, which keeps the guard until it ends; or `None` after printing why it
/// is skipped. Kernels that wait for each other across GPUs would wait for ever if two such tests each had one resident on a GPU
/// of two.
///
/// # Panics
/// If there are fewer and `REQUIRE_CUDA` is 1, or a required number of GPUs of at least `count`.
#[doc(hidden)]
pub fn gpus_for_test(test: &str, count: u32) -> Option<(DeviceGroup, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    match DeviceGroup::open(DeviceChoice::Cuda(0), Some(count as usize)) {
        Ok(group) => Some((group, alone)),
        Err(error) => {
            let required = std::env::var("REQUIRE_CUDA").ok().and_then(|value| value.parse::<u32>().ok());
            assert!(required.is_none_or(|gpus| gpus < count), "{test}: REQUIRE_CUDA is set, but {error}");
            println!("{test}: skipped, since {error}");
            None
        }
    }
}

/// The first GPU, or `None` after printing why the test is skipped.
///
/// # Panics
/// If there is none and `REQUIRE_CUDA` is 1, or a required number of GPUs.
#[doc(hidden)]
pub fn cuda_for_test(test: &str) -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            let required =
                std::env::var("REQUIRE_CUDA").is_ok_and(|value| value.parse().is_ok_and(|gpus: u32| gpus > 0));
            assert!(!required, "{test}: REQUIRE_CUDA=1, but {error}");
            println!("{test}: skipped, since {error}");
            None
        }
    }
}
