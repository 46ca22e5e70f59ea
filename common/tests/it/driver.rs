//! Opening a device with an unusual driver or environment. Each case is a child process: the driver's library is opened
//! once per process.

use std::process::Command;

use common::prelude::*;

/// Marks the child process for the test below.
const CHILD: &str = "WARP_TEST_OPENS_A_DEVICE";

/// Not a test by itself: prints what `auto` and `cuda:0` open.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        println!("auto: {}", Device::from_env().map_or_else(|error| error.to_string(), |device| device.describe()));
        println!("cuda: {}", Device::cuda(0).map_or_else(|error| error.to_string(), |device| device.describe()));
    }
}

/// The two lines of the child, run with these variables.
fn opened(variables: &[(&str, &str)]) -> [String; 2] {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["driver::child", "--exact", "--nocapture"]).env_remove("WARP_DEVICE").env(CHILD, "1");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    ["auto: ", "cuda: "].map(|start| {
        let line = text.lines().find_map(|line| line.split_once(start)).unwrap_or_else(|| panic!("{text}"));
        line.1.to_owned()
    })
}

#[test]
fn an_empty_device_variable_counts_as_unset() {
    assert_eq!(opened(&[("WARP_DEVICE", "")]), opened(&[]));
    assert_eq!(opened(&[("WARP_DEVICE", "sim")])[0], "sim (chosen)");
}

#[test]
#[cfg(all(target_os = "linux", feature = "cuda"))]
fn a_driver_library_without_functions_is_an_error_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (source, stub) = (dir.path().join("stub.c"), dir.path().join("libcuda.so.1"));
    std::fs::write(&source, "int nothing_of_cuda(void) { return 0; }\n").unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&stub).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: there is no C compiler `cc`");
        return;
    }
    // cudarc looks for this name first, and might find the machine's own driver by it.
    std::fs::copy(&stub, dir.path().join("libcuda.so")).unwrap();
    let [auto, cuda] = opened(&[("LD_LIBRARY_PATH", dir.path().to_str().unwrap())]);
    let reason = "libcuda.so.1 has no function cuCtxGetCurrent: it is too old, or not NVIDIA's driver";
    assert_eq!(auto, format!("sim ({reason})"));
    assert_eq!(cuda, format!("cuda:0 cannot be used: {reason}"));
}
