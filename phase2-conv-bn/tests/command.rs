//! `cargo run -p phase2-conv-bn`.
#![allow(clippy::unwrap_used)]

use assert_cmd::Command;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase2-conv-bn"));
    command.env_remove("WARP_DEVICE").args(args);
    command
}

#[test]
fn all_steps_are_checked() {
    let output = command(&["--device", "sim", "--format", "csv"]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert!(rows.iter().all(|row| row.ends_with(",ok")), "{text}");
}

#[test]
fn no_such_device() {
    let stderr = command(&["--device", "gpu"]).assert().failure().get_output().stderr.clone();
    assert!(String::from_utf8(stderr).unwrap().contains("no such device: `gpu`"));
}
