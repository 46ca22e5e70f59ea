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
    let mut not_taken = Vec::new();
    for table in &tables {
        let Some(check) = table.columns.iter().position(|column| column.name == "check") else { continue };
        let refused = table.rows.iter().filter(|row| row[check] != "ok".into());
        not_taken.extend(refused.map(|row| (table.title.clone(), row[0].clone(), row[check].clone())));
        assert!(table.to_text().lines().all(|line| line.chars().count() <= WIDTH), "{}", table.to_text());
        checked += 1;
    }
    assert!(checked >= 3);
    let conv = |shape: &str, step: &str| (format!("convolution {shape} on sim"), step.into(), "—".into());
    let expected = [
        conv("64→64 3 @16 ×2", "08 pointwise"),
        conv("3→64 7/2 @32 ×2", "07 Winograd"),
        conv("3→64 7/2 @32 ×2", "08 pointwise"),
        conv("64→64 1/2 @32 ×2", "07 Winograd"),
    ];
    assert_eq!(not_taken, expected);
}

#[test]
fn convolutions_are_counted_and_chosen_for_real_layers() {
    let tables = tables(&["conv"]);
    let number = |title: &str, row: &str, column: &str| {
        let table = tables.iter().find(|table| table.title.starts_with(title)).unwrap();
        let at = table.columns.iter().position(|of| of.name == column).unwrap();
        let row = table.rows.iter().find(|cells| cells[0] == row.into()).unwrap();
        match &row[at] {
            Cell::Number(value) => *value,
            other => panic!("{other:?}"),
        }
    };
    // A value and a weight for each multiply-add, but for the padding.
    assert_eq!(number("loads", "01 direct", "1×1/2"), 2.0);
    // The weight still, and once for 128 outputs one of 18 × 18 values.
    let halo = number("loads", "02 halo tile", "3×3");
    assert!((1.0..1.25).contains(&halo), "{halo}");
    // 4 · 64 · 9 · 32 · 56 · 56 bytes.
    assert_eq!(number("im2col", "64→64 3 @56 ×32", "im2col MB"), 231.211008);
    assert!(number("convolution 64→64 3", "07 Winograd", "lane M") < 64.0 * 64.0 * 9.0 * 512.0 / 1e6);
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
