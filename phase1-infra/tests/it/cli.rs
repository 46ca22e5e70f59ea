//! The command: every step on the simulator, its formats, and its errors for bad input.

use std::process::Output;

use assert_cmd::Command;
use bench::record::Record;
use bench::table::Table;
use common::prelude::*;
use phase1_infra::STEPS;

fn phase1(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("phase1-infra").unwrap();
    command.env_remove("WARP_DEVICE").args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The tables that `--format json` printed.
fn tables(output: &Output) -> Vec<Table> {
    assert!(output.status.success(), "{}", stderr(output));
    let list: Vec<serde_json::Value> = serde_json::from_str(stdout(output)).unwrap();
    list.iter().map(|table| Table::from_json(&table.to_string()).unwrap()).collect()
}

#[test]
fn each_step_runs_alone_on_the_simulator() {
    for step in &STEPS {
        let output = phase1(&[step.name, "--device", "sim", "--format", "json"]);
        let tables = tables(&output);
        assert!(!tables.is_empty() && tables.iter().all(|table| !table.rows().is_empty()), "{}", step.name);
        assert!(tables[0].title.starts_with(step.name), "{}", tables[0].title);
        let device = if step.name == "doctor" { "" } else { "device: sim (chosen)\n" };
        assert_eq!(stderr(&output), device, "{}", step.name);
    }
}

#[test]
fn without_names_every_step_but_doctor_runs_in_order() {
    let output = phase1(&["--device", "sim"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut rest = stdout(&output);
    for step in STEPS.iter().filter(|step| step.name != "doctor") {
        let at = rest.find(step.name).unwrap_or_else(|| panic!("{} is missing", step.name));
        rest = &rest[at..];
    }
    assert!(!stdout(&output).contains("doctor"));
    assert!(stdout(&output).lines().all(|line| line.chars().count() <= 100), "{}", stdout(&output));
}

#[test]
fn the_simulator_shows_what_a_gpu_recorded_and_says_so() {
    let of = |step: &str| tables(&phase1(&[step, "--device", "sim", "--format", "json"]));
    let merged = of("transfers");
    assert!(merged[0].columns.iter().any(|column| column.heading.starts_with("recorded ")), "{:?}", merged[0].columns);
    assert!(merged[0].notes.iter().any(|note| note.contains("not measured here, but on ")), "{:?}", merged[0].notes);
    let beside = of("streams");
    let titles: Vec<_> = beside.iter().map(|table| table.title.split(" on ").next().unwrap()).collect();
    assert!(
        titles.contains(&"timeline, streams: 3") && titles.contains(&"recorded: timeline, streams: 3"),
        "{titles:?}"
    );
}

#[test]
fn a_run_is_kept_under_stable_names_and_without_recorded_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let output = phase1(&["transfers", "streams", "doctor", "--device", "sim", "--save", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).ends_with(&format!("saved: {}\n", path.display())), "{}", stderr(&output));
    let record = Record::open(&path).unwrap();
    let names: Vec<_> = record.tables.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(names, ["transfers", "streams", "streams-timeline-1", "streams-timeline-3"]);
    assert!(record.simulated && !record.to_json().contains("recorded"));
}

#[test]
fn a_run_that_cannot_be_kept_is_refused_at_once_or_said_to_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let output = phase1(&["memory", "--device", "sim", "--save", &at("no/run.json")]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    assert!(stderr(&output).ends_with("run.json: its directory does not exist\n"), "{}", stderr(&output));
    let output = phase1(&["doctor", "--save", &at("run.json")]);
    assert!(stderr(&output).starts_with("not saved, since no step ran on a device"), "{}", stderr(&output));
    assert!(!dir.path().join("run.json").exists());
}

#[test]
fn the_named_steps_run_in_the_order_given_and_in_every_format() {
    let args = ["launch-overhead", "memory", "--device", "sim", "--format"];
    let run = |format: &str| phase1(&[&args[..], &[format]].concat());
    let titles: Vec<String> = tables(&run("json")).into_iter().map(|table| table.title).collect();
    assert_eq!(titles, ["launch-overhead on the simulator", "memory on the simulator"]);
    assert!(stdout(&run("csv")).starts_with("way,launches,"));
    assert!(stdout(&run("markdown")).starts_with("**launch-overhead on the simulator**\n\n| way |"));
}

#[test]
fn the_list_has_every_step_and_needs_no_device() {
    let output = phase1(&["--list", "--device", "cuda:99"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for step in &STEPS {
        assert!(stdout(&output).contains(step.name) && stdout(&output).contains(step.question), "{}", step.name);
    }
    assert!(stdout(&output).lines().all(|line| line.chars().count() <= 100), "{}", stdout(&output));
}

#[test]
fn an_unknown_step_is_answered_with_those_there_are() {
    let output = phase1(&["warp-drive"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: invalid value 'warp-drive' for '[STEP]...'"), "{}", stderr(&output));
    for step in &STEPS {
        assert!(stderr(&output).contains(step.name), "{}", stderr(&output));
    }
    assert_eq!(stdout(&output), "");
}

#[test]
fn an_unknown_device_is_answered_with_those_there_are() {
    for via in ["option", "environment"] {
        let mut command = Command::cargo_bin("phase1-infra").unwrap();
        match via {
            "option" => command.args(["memory", "--device", "tpu"]),
            _ => command.arg("memory").env("WARP_DEVICE", "tpu"),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{via}");
        let sentence = "no such device: `tpu` (use auto, sim, sim:N, cuda or cuda:N)";
        assert!(stderr(&output).contains(sentence), "{via}: {}", stderr(&output));
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_with_the_reason() {
    let output = phase1(&["memory", "--device", "cuda:99"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: cuda:99 cannot be used: "), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");

    let output = phase1(&["memory", "--device", "cuda"]);
    match Device::cuda(0) {
        Ok(_) => assert!(output.status.success(), "{}", stderr(&output)),
        Err(error) => {
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(stderr(&output), format!("error: {error}\n"));
        }
    }
}

#[test]
fn doctor_answers_where_no_device_does() {
    let output = phase1(&["doctor", "--device", "cuda:99"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("NVIDIA driver"));
}

/// `memory --save FILE` on the simulator, as a process whose streams a test can choose.
fn saving(path: &std::path::Path) -> std::process::Command {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("phase1-infra"));
    command.env("WARP_DEVICE", "sim").args(["memory", "--save"]).arg(path);
    command
}

/// A pipe whose other end is closed, as `head` leaves it.
fn closed_pipe() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

#[test]
fn a_run_is_saved_though_nobody_reads_what_it_prints() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let output = saving(&path).stdout(closed_pipe()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).ends_with(&format!("saved: {}\n", path.display())), "{}", stderr(&output));
    assert!(Record::open(&path).unwrap().table("memory").is_some());

    let output = saving(&path).stderr(closed_pipe()).output().unwrap();
    assert!(output.status.success() && stdout(&output).starts_with("memory on the simulator"), "{}", stdout(&output));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_output_is_an_error_and_the_run_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = saving(&path).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\nerror: standard output: No space left on device"), "{}", stderr(&output));
    assert!(Record::open(&path).unwrap().table("memory").is_some());
}

#[test]
#[cfg(target_os = "linux")]
fn an_earlier_record_outlives_a_full_disk_and_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    std::fs::write(&path, "an earlier record").unwrap();
    // No file may grow beyond one block. The signal that says so ends the process, or is ignored: then the write fails.
    for (on_signal, code) in [("trap '' XFSZ;", Some(1)), ("", None)] {
        let script = format!("{on_signal} ulimit -f 1; exec \"$0\" \"$@\"");
        let save = saving(&path);
        let limited = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(save.get_program())
            .args(save.get_args())
            .env("WARP_DEVICE", "sim")
            .output()
            .unwrap();
        assert_eq!(limited.status.code(), code, "{}", stderr(&limited));
        if code.is_some() {
            let says = format!("error: {}: File too large", path.display());
            assert!(stderr(&limited).contains(&says), "{}", stderr(&limited));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "an earlier record");
    }
}

#[test]
fn a_place_that_cannot_be_written_to_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    std::fs::write(&path, "kept").unwrap();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    let refused = |path: &std::path::Path, why: &str| {
        let output = saving(path).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""), "{}", stderr(&output));
        let says = format!("error: {}: it cannot be written: {why}", path.display());
        assert!(stderr(&output).starts_with(&says), "{}", stderr(&output));
    };
    refused(&path, "the file is read-only");
    // A directory in which not even root can create a file.
    if cfg!(target_os = "linux") {
        refused(std::path::Path::new("/proc/run.json"), "");
    }
}
