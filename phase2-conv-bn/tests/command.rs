//! `cargo run -p phase2-conv-bn`.
#![allow(clippy::unwrap_used)]

use assert_cmd::Command;
use common::record::Record;
use common::table::{Cell, Table, WIDTH};
use phase2_conv_bn::gemm::LADDER;
use phase2_conv_bn::report::PARTS;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase2-conv-bn"));
    command.env_remove("WARP_DEVICE").args(args);
    command
}

/// The tables of a run, as the command prints them for other programs.
fn tables(args: &[&str]) -> Vec<Table> {
    let output = command(&[&["--device", "sim", "--format", "json"], args].concat()).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn every_step_of_every_part_is_checked() {
    let tables = tables(&[]);
    let names: Vec<_> = PARTS.iter().filter(|part| part.by_default).flat_map(|part| part.tables).collect();
    assert_eq!(tables.len(), names.len());
    let mut checked = 0;
    for table in &tables {
        let Some(check) = table.columns.iter().position(|column| column.name == "check") else { continue };
        assert!(table.rows.iter().all(|row| row[check] == "ok".into()), "{}", table.to_text());
        assert!(table.to_text().lines().all(|line| line.chars().count() <= WIDTH), "{}", table.to_text());
        checked += 1;
    }
    assert!(checked >= 3);
}

#[test]
fn a_part_is_run_by_name_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    command(&["layers", "--device", "sim", "--save", path.to_str().unwrap()]).assert().success();
    let record = Record::open(&path).unwrap();
    assert!(record.simulated && record.table("layers").is_some() && record.table("gemm").is_none());
}

/// Without a compiler the table says so; with one, no kernel of the ladder spills.
#[test]
fn resources_of_every_kernel_or_why_they_are_not_known() {
    let table = tables(&["resources"]).remove(0);
    let spilled = table.columns.iter().position(|column| column.name == "spilled bytes").unwrap();
    for row in &table.rows {
        let Cell::Text(kernel) = &row[0] else { panic!("{row:?}") };
        match &row[spilled] {
            Cell::Number(bytes) => assert!(*bytes == 0.0 && kernel.contains(": "), "{}", table.to_text()),
            Cell::Absent(reason) => assert!(reason.contains("no ptxas found"), "{reason}"),
            Cell::Text(_) => panic!("{}", table.to_text()),
        }
    }
    for step in LADDER {
        let named =
            |row: &&Vec<Cell>| matches!(&row[0], Cell::Text(kernel) if kernel.starts_with(&*step.source().name));
        assert!(table.rows.iter().filter(named).count() >= 1, "{}", step.title());
    }
}

#[test]
fn no_such_device() {
    let stderr = command(&["--device", "gpu"]).assert().failure().get_output().stderr.clone();
    assert!(String::from_utf8(stderr).unwrap().contains("no such device: `gpu`"));
}
