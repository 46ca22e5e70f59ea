//! The command from its user's side: output, exit status, and a sentence for every error.

mod arguments;
mod case;
mod check;
mod run;
mod sanitise;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("kernels")
}

fn command(args: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"));
    command.current_dir(kernels()).args(args.split_whitespace());
    command
}

/// Exit status, stdout and stderr.
fn ptx_sim(args: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(args).output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

/// Expects this output, and no findings under the sanitiser.
fn prints(args: &str, expected: &str) {
    let said = if args.contains("--sanitize") { "the sanitiser found nothing\n" } else { "" };
    assert_eq!(ptx_sim(args), (0, expected.into(), said.into()), "{args}");
}

fn fails(args: &str, code: i32, reason: &str) {
    let (status, stdout, stderr) = ptx_sim(args);
    assert_eq!(status, code, "{args}: {stderr}");
    assert!(stderr.contains(reason), "{args}: {stderr}");
    assert!(stdout.is_empty(), "{args}: {stdout}");
    assert!(!stderr.contains("panicked") && !stderr.contains('\u{1b}'), "{args}: {stderr}");
}

fn json_of(args: &str) -> Value {
    let (status, stdout, stderr) = ptx_sim(args);
    assert_eq!(status, 0, "{args}: {stderr}");
    serde_json::from_str(&stdout).expect("one JSON object")
}

const ADD: &str = "run features.ptx --kernel adds";

fn case_of(ptx: &str, text: &str, args: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("the folder is ours");
    std::fs::copy(kernels().join(ptx), folder.path().join(ptx)).expect("the folder is ours");
    std::fs::write(folder.path().join("three.bin"), 3f32.to_le_bytes().repeat(4)).expect("the folder is ours");
    let path = folder.path().join("case.toml");
    std::fs::write(&path, format!("ptx = \"{ptx}\"\n{text}")).expect("the folder is ours");
    let Output { status, stdout, stderr } =
        command("case").arg(&path).args(args.split_whitespace()).output().expect("the folder is ours");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}
