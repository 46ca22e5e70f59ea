//! The command: every step on the simulator, its formats, and what bad input says.
#![allow(clippy::unwrap_used)]

use std::process::Output;

use assert_cmd::Command;
use common::prelude::*;
use common::table::Table;
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
        assert!(!tables.is_empty() && tables.iter().all(|table| !table.rows.is_empty()), "{}", step.name);
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
        let sentence = "no such device: `tpu` (use auto, sim, cuda or cuda:N)";
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
