//! A program of the runtime API that needs no nvcc.

use std::process::Output;

use assert_cmd::Command;

use crate::{example, text};

#[test]
fn a_registered_program_runs() {
    for options in [["--devices=2"].as_slice(), &["--devices=2", "--sanitize"]] {
        let mut run = Command::cargo_bin("cuda-sim").unwrap();
        let Output { status, stdout, stderr } = run.args(options).arg(example("registered")).output().unwrap();
        let stderr = text(&stderr);
        assert!(status.success(), "{stderr}");
        let expected = "values 0 3 2997, count 1007\ndevice 1: value 0, count 2007\ncudaMemcpy failed with 1, cudaErrorInvalidValue, then 0\n";
        assert_eq!(text(&stdout), expected);
        assert!(stderr.contains("do not fit `allocation of 4000 bytes`, which has 4000 there\n"), "{stderr}");
        assert!(stderr.ends_with("\ncuda-sim: no findings\n"), "{stderr}");
    }
}
