//! `cargo run -p phase3-all-layers`.

use assert_cmd::Command;
use bench::table::{Cell, Table, WIDTH};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase3-all-layers"));
    command.env_remove("WARP_DEVICE").args(args);
    command
}

#[test]
fn two_photos_are_one_batch_and_untrained_weights_are_said_to_be() {
    let photo = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/media/assets/china.jpg");
    let run = command(&["classify", photo, photo, "--device", "sim", "--format", "json"]).assert().success();
    let table: Table = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(table.rows().len(), 10);
    // The same photo, so the same answer.
    assert_eq!(table.rows()[..5], table.rows()[5..]);
    let percent = |row: &Vec<Cell>| if let Cell::Number(percent) = row[4] { percent } else { panic!("{row:?}") };
    let percents: Vec<f64> = table.rows()[..5].iter().map(percent).collect();
    assert!(percents.is_sorted_by(|a, b| a >= b) && percents.iter().sum::<f64>() <= 100.0 + 1e-9, "{percents:?}");
    let classes = include_str!("../../assets/imagenet-classes.txt").lines().collect::<Vec<_>>();
    for row in table.rows() {
        let (Cell::Text(name), Cell::Number(number)) = (&row[2], &row[3]) else { panic!("{row:?}") };
        assert_eq!(classes[*number as usize], name);
    }
    assert!(table.notes.iter().any(|note| note.contains("untrained")), "{:?}", table.notes);
    assert!(table.to_text().lines().all(|line| line.chars().count() <= WIDTH));
}

#[test]
fn files_that_are_none_are_refused_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("cat.jpg");
    std::fs::write(&text, "not a photo").unwrap();
    let text = text.to_str().unwrap();
    let folder = dir.path().to_str().unwrap();
    for (args, says) in [
        (vec!["classify", text], "cat.jpg as a photo: "),
        (vec!["classify", "no/such/photo.png"], "photo.png as a photo: "),
        (vec!["classify", "--weights", text], "cat.jpg: it is truncated or no .safetensors file"),
        (vec!["evaluate", folder, "--weights", text], "cat.jpg: it is truncated or no .safetensors file"),
    ] {
        let run = command(&[args.as_slice(), &["--device", "sim"]].concat()).assert().code(1);
        let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(stderr.lines().any(|line| line.starts_with("error: ") && line.contains(says)), "{stderr}");
        assert!(run.get_output().stdout.is_empty());
    }
    command(&[]).assert().code(2);
    command(&["evaluate", folder]).assert().code(2);
    command(&["evaluate", folder, "--weights", text, "--batch", "0"]).assert().code(2);
    command(&["--help"]).assert().success();
}

/// Reading one of these would never end.
#[cfg(unix)]
#[test]
fn devices_and_pipes_are_no_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for endless in [pipe.to_str().unwrap(), "/dev/zero"] {
        for args in [
            ["classify", endless].as_slice(),
            &["classify", "--weights", endless],
            &["reconstruct", endless],
            &["reconstruct", "--weights", endless, "none.wav"],
            &["video", "--weights", endless, "--out", dir.path().to_str().unwrap()],
        ] {
            let mut command = command(&[args, &["--device", "sim"]].concat());
            let run = command.timeout(std::time::Duration::from_secs(60)).assert().code(1);
            let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
            let says = "it is a device or a pipe, not a regular file";
            assert!(stderr.contains(endless) && stderr.contains(says), "{args:?}: {stderr}");
        }
    }
}

#[test]
fn a_video_is_written_as_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("frames");
    let args =
        ["video", "--frames", "2", "--steps", "1", "--size", "8", "--device", "sim", "--format", "json", "--out"];
    let run = command(&[&args[..], &[out.to_str().unwrap()]].concat()).assert().success();
    let table: Table = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(table.rows().len(), 2);
    for (row, name) in table.rows().iter().zip(["frame-0000.png", "frame-0001.png"]) {
        let [Cell::Text(path), Cell::Number(steps), Cell::Number(_), Cell::Number(deviation)] = &row[..] else {
            panic!("{row:?}")
        };
        assert!(path.ends_with(name) && *steps == 1.0 && *deviation > 0.0, "{row:?}");
        assert_eq!(image::image_dimensions(path).unwrap(), (32, 32));
    }
    assert!(table.notes.iter().any(|note| note.contains("untrained")), "{:?}", table.notes);
    for (option, value) in [("--steps", "1000000000000"), ("--steps", "0"), ("--frames", "10001"), ("--size", "4096")] {
        let run = command(&["video", option, value, "--device", "sim"]).assert().code(2);
        let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(
            stderr.contains(&format!("'{option} <")) && stderr.contains(&format!("{value} is not in ")),
            "{stderr}"
        );
    }
    let run = command(&["video", "--size", "12", "--device", "sim"]).assert().code(1);
    assert!(String::from_utf8_lossy(&run.get_output().stderr).contains("multiples of 8"));
}

/// Like `| head -0`: the reader has left before the table.
#[test]
fn a_closed_output_ends_the_command_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("phase3-all-layers"));
    command.args(["video", "--frames", "1", "--steps", "1", "--size", "8", "--device", "sim", "--out"]).arg(dir.path());
    command.stdout(std::io::pipe().unwrap().1);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("error") && !stderr.contains("panic"), "{stderr}");
    assert!(dir.path().join("frame-0000.png").is_file());
}

/// A name with control characters is shown, not obeyed.
#[test]
#[cfg(unix)]
fn names_reach_the_terminal_escaped() {
    let run = command(&["classify", "no/\u{1b}]0;owned\u{7}\u{202e}.png", "--device", "sim"]).assert().code(1);
    let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(stderr.contains(r"\u{1b}]0;owned\u{7}\u{202e}.png"), "{stderr}");
    assert!(!stderr.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{stderr:?}");
}
