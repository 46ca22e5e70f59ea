//! `cargo run -p phase5-bench`, as people type it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use common::table::Table;
use phase2_conv_bn::norm::{batch_norm, relu, statistics};

/// On the simulator, wherever the test runs.
fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase5-bench"));
    command.env("WARP_DEVICE", "sim").args(args).output().unwrap()
}

fn succeeds(args: &[&str]) -> (String, String) {
    let output = bench(args);
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{args:?}: {stderr}");
    (stdout, stderr)
}

/// What it says on stderr, with nothing on stdout.
fn fails(args: &[&str], code: i32) -> String {
    let output = bench(args);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert_eq!(stdout, "", "{args:?}");
    stderr
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_list_has_every_table() {
    let (text, _) = succeeds(&["--list"]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let listed = Table::from_json(&succeeds(&["--list", "--format", "json"]).0).unwrap();
    let rows: Vec<[&str; 2]> =
        listed.iter().map(|row| ["name", "shows"].map(|column| row.text(column).unwrap())).collect();
    for [name, shows] in &rows {
        assert!(text.contains(&format!("│ {name} ")) && !shows.is_empty(), "{name} is missing:\n{text}");
    }
    // The names that can be typed are those of the list, and all that was ever recorded is among them.
    let names: Vec<&str> = rows.iter().map(|[name, ..]| *name).collect();
    assert!(fails(&["nonsense"], 2).contains(&format!("there are {}", names.join(", "))));
    for record in phase5_bench::records().unwrap() {
        for table in record.tables.iter().filter(|table| table.name != phase5_bench::limits::LIMITS) {
            assert!(names.contains(&table.name.as_str()), "{}", table.name);
        }
    }
}

#[test]
fn what_there_is_not_is_refused_before_anything_is_measured() {
    let stderr = fails(&["transfer", "nonsense"], 2);
    assert!(stderr.starts_with("error: no such table: `nonsense`; there are transfer, gemm,"), "{stderr}");
    let stderr = fails(&["--format", "yaml"], 2);
    assert!(stderr.contains("invalid value 'yaml'") && stderr.contains("text, markdown, csv, json"), "{stderr}");
    let stderr = fails(&["--device", "gpu", "transfer"], 2);
    assert!(stderr.contains("no such device: `gpu` (use auto, sim, sim:N, cuda or cuda:N)"), "{stderr}");
    let stderr = fails(&["--device", "cuda:99", "transfer"], 1);
    assert!(stderr.starts_with("error: cuda:99 cannot be used: "), "{stderr}");
}

#[test]
fn a_photo_that_is_none_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str, contents: Option<&[u8]>| {
        let path = dir.path().join(name);
        if let Some(contents) = contents {
            fs::write(&path, contents).unwrap();
        }
        let stderr = fails(&["layers", "--photo", path.to_str().unwrap()], 1);
        assert!(stderr.starts_with(&format!("error: cannot use {} as a photo: ", path.display())), "{stderr}");
        stderr
    };
    assert!(refused("letter.jpg", Some(b"Dear Sir or Madam")).contains("it is neither a JPEG nor a PNG image"));
    assert!(refused("empty.png", Some(b"")).contains("the file is empty"));
    assert!(refused("cut.jpg", Some(b"\xFF\xD8\xFF\xE0\x00\x10JFIF\x00")).contains("it is truncated"));
    refused("missing.jpg", None);
    refused(".", None);
    // An image header that claims 0 × 0 pixels.
    let mut png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR".to_vec();
    png.extend([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
    png.extend(0xAC74_6DE4u32.to_be_bytes());
    assert!(refused("nothing.png", Some(&png)).contains("it cannot be decoded"));
}

#[test]
fn a_run_is_kept_and_compared_with_a_later_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let file = file.to_str().unwrap();
    let (_, stderr) = succeeds(&["transfer", "--save", file]);
    assert!(stderr.contains("device: sim") && stderr.contains(&format!("saved: {file}")), "{stderr}");
    let saved = json(&fs::read_to_string(file).unwrap());
    assert_eq!(saved["device_name"], "ptx-sim");
    assert_eq!(saved["simulated"], true);
    assert!(saved["date"].as_str().unwrap().ends_with('Z') && !saved["commit"].as_str().unwrap().is_empty());
    assert_eq!(saved["tables"][0]["name"], "transfer");

    // As if it had been measured by a clock: what there is no number for now stands beside a dash.
    let mut edited = saved.clone();
    edited["tables"][0]["table"]["rows"][0][3] = serde_json::json!({ "number": 12.5 });
    fs::write(file, edited.to_string()).unwrap();
    let (stdout, _) = succeeds(&["transfer", "--compare", file]);
    let row = stdout.lines().find(|line| line.contains("12.500")).unwrap_or_else(|| panic!("{stdout}"));
    assert!(row.contains("H2D pageable 1 KiB") && row.contains("GB/s") && row.contains('–'), "{row}");
    let (stdout, _) = succeeds(&["transfer", "--compare", file, "--format", "json"]);
    assert_eq!(json(&stdout)["comparisons"].as_array().unwrap().len(), 1);

    let (_, stderr) = {
        edited["tables"] = serde_json::json!([]);
        fs::write(file, edited.to_string()).unwrap();
        succeeds(&["transfer", "--compare", file])
    };
    assert!(stderr.contains("the earlier run has no table `transfer`"), "{stderr}");
}

#[test]
fn one_table_is_measured_again_and_the_rest_of_a_record_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let file = file.to_str().unwrap();
    succeeds(&["transfer", "--save", file]);
    let mut kept = json(&fs::read_to_string(file).unwrap());
    kept["commit"] = "1111111".into();
    let mut other = kept["tables"][0].clone();
    other["name"] = "norm".into();
    // In the order of the course, in which a record is kept.
    kept["tables"] = serde_json::json!([kept["tables"][0].clone(), other.clone()]);
    kept["tables"][0]["table"]["rows"] = serde_json::json!([]);
    fs::write(file, kept.to_string()).unwrap();

    let (_, stderr) = succeeds(&["transfer", "--update", file]);
    assert!(stderr.contains(&format!("saved: {file}")), "{stderr}");
    let updated = json(&fs::read_to_string(file).unwrap());
    assert_eq!((&updated["commit"], &updated["tables"][1]), (&kept["commit"], &other));
    let again = &updated["tables"][0];
    assert!(!again["table"]["rows"].as_array().unwrap().is_empty());
    assert!(again["again"]["date"].as_str().unwrap().ends_with('Z') && again["again"]["commit"] != "1111111");

    let (_, stderr) = succeeds(&["transfer", "--compare", file]);
    assert!(!stderr.contains("no table"), "{stderr}");
    let h200 = concat!(env!("CARGO_MANIFEST_DIR"), "/records/nvidia-h200.json");
    fs::copy(h200, file).unwrap();
    let stderr = fails(&["transfer", "--update", file], 1);
    assert!(stderr.contains("it was measured on NVIDIA H200, and this run on ptx-sim"), "{stderr}");
    assert!(!stderr.contains("measuring"), "{stderr}");
    assert_eq!(fs::read(file).unwrap(), fs::read(h200).unwrap());
}

#[test]
fn files_that_are_no_record_or_cannot_be_written_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("text.json"), "no JSON").unwrap();
    fs::write(at("other.json"), r#"{"name": "something else"}"#).unwrap();
    for name in ["text.json", "other.json"] {
        let stderr = fails(&["transfer", "--compare", &at(name)], 1);
        assert!(stderr.contains(name) && stderr.contains("not a run saved by `--save`"), "{stderr}");
    }
    assert!(fails(&["transfer", "--compare", &at("missing.json")], 1).contains("missing.json: "));
    let stderr = fails(&["transfer", "--save", &at("no/such/run.json")], 1);
    assert!(stderr.contains("its directory does not exist"), "{stderr}");
    let stderr = fails(&["transfer", "--save", dir.path().to_str().unwrap()], 1);
    assert!(stderr.contains("it is a directory"), "{stderr}");
    assert!(!Path::new(&at("no")).exists());
}

#[test]
fn every_format_is_what_it_says() {
    let (text, _) = succeeds(&["transfer"]);
    assert!(text.starts_with("transfer on sim\n╭"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let (markdown, _) = succeeds(&["transfer", "--format", "markdown"]);
    assert!(markdown.starts_with("**transfer on sim**\n\n| copy | host memory | size |"), "{markdown}");
    let (csv, _) = succeeds(&["transfer", "--format", "csv"]);
    assert!(csv.starts_with("copy,host memory,size,"), "{csv}");
    // Seven sizes up to 4 MiB for each of five copies, and a record may add more.
    assert!(csv.lines().filter(|line| line.ends_with(",equal")).count() == 35, "{csv}");
    let (text, _) = succeeds(&["transfer", "--format", "json"]);
    assert_eq!(json(&text)["tables"][0]["table"]["title"], "transfer on sim");
}

#[test]
fn all_tables_that_are_here_are_made_by_default() {
    let (text, stderr) = succeeds(&["--quick"]);
    for title in [
        "transfer on sim",
        "gemm: C = A·B",
        "tensor-cores: C = A·B",
        "conv: convolutions",
        "tensor-conv: convolutions",
        "norm: BatchNorm, ReLU, statistics",
        "patterns on sim",
        "layers: ResNet18's opening on china.jpg",
        "resnet-single: ",
        "resnet-batch: ",
        "memory: ",
        "accuracy: ",
        "linear-relu:",
        "autoencoder on sim",
        "attention: ",
        "tensor-attention: ",
        "precision: ",
        "video: ",
        "streams on sim",
        "temporal caching in the U-Net",
        "claims,",
    ] {
        assert!(text.contains(title), "{title} is missing:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("WRONG"), "{text}");
    assert!(stderr.contains("device: sim") && stderr.contains("measuring: layers"), "{stderr}");
}

/// The rows of a table in CSV, after its heading.
fn rows(name: &str) -> Vec<Vec<String>> {
    let (csv, _) = succeeds(&[name, "--format", "csv"]);
    csv.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn every_step_of_a_ladder_is_checked_and_counted_on_the_simulator() {
    for (name, steps) in [("gemm", phase2_conv_bn::gemm::LADDER.len()), ("conv", phase2_conv_bn::conv::LADDER.len())] {
        let rows = rows(name);
        let numbered = |row: &&Vec<String>| row[1].starts_with(|first: char| first.is_ascii_digit());
        let checked: Vec<&Vec<String>> =
            rows.iter().filter(numbered).filter(|row| row.last().unwrap() == "ok").collect();
        assert!(checked.len() > steps, "{name}: {} rows of {steps} steps", checked.len());
        // Instructions a multiply-add: one at least, and not a hundred; a halo's tile is mostly idle on images this small.
        let lanes = |row: &Vec<String>| row[row.len() - 3].parse::<f64>().unwrap();
        let most = |row: &Vec<String>| if row[1] == "2 halo tile" { 1000.0 } else { 100.0 };
        assert!(checked.iter().all(|row| (0.5..most(row)).contains(&lanes(row))), "{name}: {checked:?}");
        assert!(rows.iter().all(|row| row.last().unwrap() != "WRONG"));
    }
}

#[test]
fn what_memory_limits_is_checked_and_its_bytes_are_counted() {
    let (csv, _) = succeeds(&["norm", "--format", "csv"]);
    let (heading, rows) = csv.split_once('\n').unwrap();
    let columns: Vec<&str> = heading.split(',').collect();
    let asked = columns.iter().position(|name| *name == "MB asked").unwrap();
    let sectors = columns.iter().position(|name| *name == "sectors per request").unwrap();
    let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let checked: Vec<&Vec<&str>> = rows.iter().filter(|row| row.last() == Some(&"ok")).collect();
    let steps = 2 * batch_norm::LADDER.len() + relu::LADDER.len() + statistics::LADDER.len();
    assert_eq!(checked.len(), steps, "{csv}");
    assert!(!csv.contains("WRONG"), "{csv}");
    // 16·64·28·28 values are read, and all but statistics write as many; parameters come on top, once a thread at most.
    let tensor = 4.0 * (16 * 64 * 28 * 28) as f64 / 1e6;
    for row in &checked {
        let (asked, sectors): (f64, f64) = (row[asked].parse().unwrap(), row[sectors].parse().unwrap());
        let needed = if row[0] == "statistics" { tensor } else { 2.0 * tensor };
        assert!((needed..3.1 * needed).contains(&asked), "{row:?} for {needed} MB");
        assert!((1.0..=32.0).contains(&sectors), "{row:?}");
    }
    assert!(checked.iter().any(|row| row[1] == "1 naive" && row[0] == "statistics" && row[sectors].starts_with("32")));
}

#[test]
fn the_versions_of_a_linear_layer_are_checked_forward_and_backward() {
    let rows = rows("linear-relu");
    for version in ["v1 naive", "v2 tuned", "∇ fused", "∇ separate"] {
        let checked = rows.iter().filter(|row| row[1] == version && row.last().unwrap() == "ok").count();
        assert_eq!(checked, 2, "{version}: {rows:?}");
    }
}

/// Against the recorded run: each claim measured, with a verdict and the reason for it.
#[test]
fn claims_have_verdicts_from_measurements() {
    let run = json(&succeeds(&["claims", "--format", "json"]).0);
    let claims = Table::from_json(&run["tables"][0]["table"].to_string()).unwrap();
    let rows: Vec<[&str; 4]> = claims
        .iter()
        .map(|row| ["claim", "measured", "holds", "why"].map(|column| row.text(column).unwrap()))
        .collect();
    assert!(rows.iter().any(|[claim, ..]| claim.starts_with("A naive GEMM in a\nfused Linear+ReLU")), "{rows:?}");
    for [claim, measured, holds, why] in rows {
        assert!(measured.contains(|c: char| c.is_ascii_digit()), "{claim}: measured: {measured:?}");
        assert!(["yes", "no", "in kind"].contains(&holds), "{claim}: holds: {holds:?}");
        assert!(!why.is_empty(), "{claim}: no reason");
    }
}

#[test]
fn a_plot_needs_measurements() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let output = bench(&["transfer", "--plot", plots.to_str().unwrap()]);
    let (_, stderr) = texts(&output);
    // Where the course has a recorded run with limits, that one is drawn.
    match output.status.success() {
        true => assert!(stderr.contains("roofline.svg") && plots.join("roofline.png").is_file(), "{stderr}"),
        false => assert!(stderr.contains("error: roofline: the run has no"), "{stderr}"),
    }
}

#[test]
fn help_says_how_to_use_it() {
    let (help, _) = succeeds(&["--help"]);
    for word in [
        "--list",
        "--format",
        "--save",
        "--update",
        "--compare",
        "--photo",
        "--plot",
        "--device",
        "Examples",
        "Exit status",
    ] {
        assert!(help.contains(word), "{word} is missing:\n{help}");
    }
}

/// As with `| head -0`: the reader has left before the first table. A run that is not saved stops there, also quietly.
#[test]
fn a_run_is_saved_though_nobody_reads_what_it_prints() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    for format in ["text", "json"] {
        let save = ["--save", path.to_str().unwrap()];
        for save in [&save[..], &[]] {
            let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("phase5-bench"));
            command.env("WARP_DEVICE", "sim").args(["transfer", "--format", format]).args(save);
            command.stdout(std::io::pipe().unwrap().1);
            let output = command.output().unwrap();
            let (_, stderr) = texts(&output);
            assert!(output.status.success(), "{stderr}");
            assert!(!stderr.contains("error") && !stderr.contains("panic"), "{stderr}");
        }
        "best-peer: ",
        let saved = json(&fs::read_to_string(&path).unwrap());
        assert_eq!(saved["tables"][0]["name"], "transfer");
        fs::remove_file(&path).unwrap();
    }
}
