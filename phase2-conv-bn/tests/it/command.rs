//! `cargo run -p phase2-conv-bn`.

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;
use bench::ladder::columns;
use bench::record::Record;
use bench::resources::{self, KERNEL, SPILLED};
use bench::table::{Cell, Table, WIDTH};
use common::compile::ship;
use phase2_conv_bn::report::PARTS;
use phase2_conv_bn::report::resources::sources;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase2-conv-bn"));
    command.env_remove("WARP_DEVICE").args(args);
    command
}

/// The tables of a run, from its machine-readable output.
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
        assert!(table.to_text().lines().all(|line| line.chars().count() <= WIDTH), "{}", table.to_text());
        let Ok(check) = table.column(columns::CHECK) else { continue };
        for row in table.rows() {
            match &row[check] {
                Cell::Text(word) => assert_eq!(word, "ok", "{}", table.to_text()),
                _ => not_taken.push((table.title.clone(), row[0].clone())),
            }
        }
        checked += 1;
    }
    assert!(checked >= 3);
    let conv = |shape: &str, step: &str| (format!("convolution {shape} on sim"), Cell::from(step));
    let linear = |step: &str| ("linear: y = relu(x·Wᵀ + b), 128 × 784 → 256, on sim".to_owned(), step.into());
    let expected = [
        conv("64→64 3 @16 ×2", "18 pointwise"),
        conv("3→64 7/2 @32 ×2", "17 Winograd"),
        conv("3→64 7/2 @32 ×2", "18 pointwise"),
        conv("3→64 7/2 @32 ×2", "19 Winograd F4"),
        conv("64→64 1/2 @32 ×2", "17 Winograd"),
        conv("64→64 1/2 @32 ×2", "19 Winograd F4"),
        linear("3 cuBLAS + ReLU"),
    ];
    assert_eq!(not_taken, expected);
}

#[test]
fn convolutions_are_counted_and_chosen_for_real_layers() {
    let tables = tables(&["conv"]);
    let number = |title: &str, row: &str, column: &str| {
        let table = tables.iter().find(|table| table.title.starts_with(title)).unwrap();
        let at = table.columns.iter().position(|of| of.heading == column).unwrap();
        let row = table.rows().iter().find(|cells| cells[0] == row.into()).unwrap();
        match &row[at] {
            Cell::Number(value) => *value,
            other => panic!("{other:?}"),
        }
    };
    // A value and a weight for each multiply-add, but for the padding.
    assert_eq!(number("loads", "1 direct", "1×1/2"), 2.0);
    // The weight still, and once for 128 outputs one of 18 × 18 values.
    let halo = number("loads", "2 halo tile", "3×3");
    assert!((1.0..1.25).contains(&halo), "{halo}");
    // 4 · 64 · 9 · 32 · 56 · 56 bytes.
    assert_eq!(number("im2col", "64→64 3 @56 ×32", "im2col MB"), 231.211008);
    assert!(number("convolution 64→64 3", "17 Winograd", "lane M") < 64.0 * 64.0 * 9.0 * 512.0 / 1e6);
}

/// The analysis of the story: what each version needs, what it requests, and that both are counted.
#[test]
fn bytes_of_the_linear_layer_are_those_computed_by_hand() {
    let traffic = tables(&["linear"]).pop().unwrap();
    let at = |name: &str| traffic.columns.iter().position(|column| column.heading == name).unwrap();
    let number = |version: &str, column: &str| {
        let row = traffic.rows().iter().find(|row| row[0] == version.into()).unwrap();
        match &row[at(column)] {
            Cell::Number(value) => Some(*value),
            _ => None,
        }
    };
    // 128 × 784 → 256: 8 bytes per multiply-add, a bias and a result for each output; 33 sectors for 32 multiply-adds.
    let (outputs, steps) = (128.0 * 256.0, 128.0 * 256.0 * 784.0);
    assert_eq!(number("1 naive", "MB asked"), Some((8.0 * steps + 8.0 * outputs) / 1e6));
    assert_eq!(number("1 naive", "MB in sectors"), Some((33.0 * steps + 8.0 * outputs) / 1e6));
    for version in ["1 naive", "2 tuned", "· its second pass", "∇ fused"] {
        assert_eq!(number(version, "MB once a launch"), number(version, "MB needed"), "{version}");
    }
    // The kernel that masks loads dy only where y lets it through.
    let [once, needed] = ["MB once a launch", "MB needed"].map(|column| number("∇ separate", column).unwrap());
    assert!(once < needed && once > 0.99 * needed, "{once} {needed}");
    let launches = ["1 naive", "2 tuned", "∇ fused", "∇ separate"].map(|version| number(version, "launches"));
    assert_eq!(launches, [1.0, 1.0, 2.0, 3.0].map(Some));
    // There is no library on the simulator, but what it needs is known.
    assert_eq!(number("3 cuBLAS + ReLU", "launches"), None);
    let second_pass = number("3 cuBLAS + ReLU", "MB needed").unwrap() - number("2 tuned", "MB needed").unwrap();
    assert!((second_pass - 8.0 * outputs / 1e6).abs() < 1e-9);
    assert!(number("2 tuned", "MB asked") < number("1 naive", "MB asked").map(|bytes| bytes / 10.0));
}

#[test]
fn a_part_is_run_by_name_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    command(&["layers", "--device", "sim", "--save", path.to_str().unwrap()]).assert().success();
    let record = Record::open(&path).unwrap();
    assert!(record.simulated && record.table("layers").is_some() && record.table("gemm").is_none());
}

/// Resources of every kernel, as ptxas gave them: nothing spills, and the record is of the PTX that is shipped.
#[test]
fn the_kept_resources_are_of_the_shipped_ptx_and_nothing_spills() {
    const AGAIN: &str =
        "cargo run -p phase2-conv-bn -- resources --device sim --save phase2-conv-bn/records/resources.json";
    let phase = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = Record::open(&phase.join("records/resources.json")).unwrap().table("resources").unwrap().clone();
    let mut shipped = BTreeSet::new();
    for file in ship::kernels(&phase.join("kernels")).unwrap() {
        let text = ship::read(&file).unwrap();
        let entries = text.lines().filter_map(|line| line.split_once(".entry ")?.1.split('(').next());
        let name = file.file_stem().unwrap().to_str().unwrap();
        shipped.extend(entries.map(|entry| format!("{name}: {}", entry.trim())));
    }
    let names: BTreeSet<String> = kept.iter().map(|row| row.text(KERNEL).unwrap().to_owned()).collect();
    assert_eq!(names, shipped, "{AGAIN}");
    assert!(resources::is_of_shipped(&kept, sources()), "{AGAIN}");
    for row in kept.iter() {
        assert_eq!(row.number(SPILLED).unwrap(), Some(0.0), "{}", row.text(KERNEL).unwrap());
    }
}

#[test]
fn no_such_device() {
    let stderr = command(&["--device", "gpu"]).assert().failure().get_output().stderr.clone();
    assert!(String::from_utf8(stderr).unwrap().contains("no such device: `gpu`"));
}

/// Like `| head -0`: the reader has left before the first table.
#[test]
fn a_run_is_saved_though_nobody_reads_what_it_prints() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("phase2-conv-bn"));
    command.args(["layers", "--device", "sim", "--save"]).arg(&path).stdout(std::io::pipe().unwrap().1);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(Record::open(&path).unwrap().table("layers").is_some());
}
