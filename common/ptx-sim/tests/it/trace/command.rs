//! Tests of `ptx-sim trace`.

use std::process::{Command, Output};

use super::{kernels, shows};

fn ptx_sim(args: &str) -> (i32, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"));
    let Output { status, stdout, stderr } =
        command.current_dir(kernels()).args(args.split_whitespace()).output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

const TRANSPOSES: &str = "trace trace.ptx --kernel transposes --block 32,32 out:f32:1024 out:f32:1024";

#[test]
fn the_command_draws_to_stdout_or_a_file() {
    let (code, stdout, stderr) = ptx_sim(&format!("{TRANSPOSES} --show banks --kind read --warp 3"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    shows(&stdout, "Warp 3, lanes 0–31: read of 4 bytes each. 32-way bank conflict");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture.svg");
    let (code, stdout, _) = ptx_sim(&format!("{TRANSPOSES} --show timeline -o {}", file.display()));
    assert_eq!((code, stdout.as_str()), (0, ""));
    shows(&std::fs::read_to_string(&file).unwrap(), "32 warps");
    let (code, _, stderr) = ptx_sim(&format!("{TRANSPOSES} --show timeline -o {}", folder.path().display()));
    assert!(code == 1 && stderr.contains("cannot write"), "{stderr}");
}

#[test]
fn the_command_lists_accesses() {
    let (code, stdout, _) = ptx_sim(&format!("{TRANSPOSES} --list"));
    assert_eq!(code, 0);
    insta::assert_snapshot!("trace_list", stdout);
    let (_, stdout, _) = ptx_sim(&format!("{TRANSPOSES} --list --max-steps 20"));
    assert!(stdout.contains("truncated: "), "{stdout}");
}

#[test]
fn the_command_explains_what_it_cannot_draw() {
    for (options, code, reason) in [
        ("--show sectors --line 99", 1, "nothing to draw: there is no global access at line 99; lines that have some"),
        ("--show fragment", 1, "there is no matrix instruction; the traced warps have none at all"),
        ("--show banks --nth 1000", 1, "there are only 64 of these, and number 1000 is asked for"),
        ("--show banks --nth 0", 2, "--nth"),
        ("--show clouds", 2, "clouds"),
        ("", 2, "--show"),
        ("--show banks --list", 2, "--list"),
        ("--show banks --at-block 3", 2, "there is no block (3, 0, 0) in a grid of 1 × 1 × 1 blocks"),
        ("--show banks --warp 32", 2, "there is no warp 32 in a block of 1024 threads, which has warps 0 to 31"),
    ] {
        let (status, stdout, stderr) = ptx_sim(&format!("{TRANSPOSES} {options}"));
        assert!(status == code && stderr.contains(reason) && stdout.is_empty(), "{options}: {stderr}");
    }
    let (code, _, stderr) =
        ptx_sim("trace faults.ptx --kernel read_past_the_end --block 4 in:f32:1 out:f32:4 s32:4 --show timeline");
    assert!(code == 1 && stderr.contains("error[out-of-bounds]"), "{stderr}");
    assert_eq!(ptx_sim("trace --help").0, 0);
}
