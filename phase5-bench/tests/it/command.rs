//! `cargo run -p phase5-bench`, as people type it.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use bench::record::Record;
use bench::table::Table;
use phase2_conv_bn::norm::{batch_norm, relu, statistics};
use phase5_bench::spec::TableSpec;
use phase5_bench::tables::TABLES;

/// The command on the simulator, wherever the test runs, without runs that somebody adopted on this machine.
fn command() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase5-bench"));
    command.env("WARP_DEVICE", "sim").env("WARP_RECORDS_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-records"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
    command
}

fn bench(args: &[&str]) -> Output {
    command().args(args).output().unwrap()
}

fn succeeds(args: &[&str]) -> (String, String) {
    let output = bench(args);
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{args:?}: {stderr}");
    (stdout, stderr)
}

/// Standard error of a failing command, with nothing on standard output.
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
    let [listed]: [Table; 1] = serde_json::from_str(&succeeds(&["--list", "--format", "json"]).0).unwrap();
    let rows: Vec<[&str; 2]> =
        listed.iter().map(|row| ["name", "shows"].map(|column| row.text(column).unwrap())).collect();
    for [name, shows] in &rows {
        assert!(text.contains(&format!("│ {name} ")) && !shows.is_empty(), "{name} is missing:\n{text}");
    }
    // The names that can be typed are those of the list, and all that was ever recorded is among them.
    let names: Vec<&str> = rows.iter().map(|[name, ..]| *name).collect();
    assert!(fails(&["nonsense"], 2).contains(&format!("[possible values: {}, all]", names.join(", "))));
    for record in phase5_bench::records().unwrap() {
        for table in record.tables.iter().filter(|table| table.name != phase5_bench::limits::LIMITS) {
            assert!(names.contains(&table.name.as_str()), "{}", table.name);
        }
    }
}

/// Gain of each phase, on one screen.
#[test]
fn without_arguments_there_is_one_screen_from_a_record_and_what_was_run_here() {
    let (text, stderr) = succeeds(&[]);
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.starts_with("what each phase bought, in µs: recorded on NVIDIA H200, not measured here\n"), "{text}");
    for said in [
        "ResNet18 ×1, f32",
        "autoencoder, f32",
        "U-Net 879 M, f16",
        "product 4096³, f32",
        "attention, f16",
        "Recorded 2026-",
    ] {
        assert!(text.contains(said), "{said} is missing:\n{text}");
    }
    assert!(text.contains("run and checked here, on the simulator"), "{text}");
    let (_, next) = text.split_once("\nNext:\n").unwrap();
    let programs: Vec<_> = next.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(programs, ["book", "phase1-infra", "assignments", "phase5-bench"], "learners come first");
    assert!(!text.contains('\u{1b}'), "a pipe shows no colours: {text:?}");
    assert!(stderr.contains("device: sim"), "{stderr}");

    let colored = command().env("CLICOLOR_FORCE", "1").output().unwrap();
    let (colored, _) = texts(&colored);
    // The seconds that it took differ.
    let table = |text: &str| text.split("\n\n").next().unwrap_or_default().to_owned();
    let plain =
        ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[39m"].iter().fold(table(&colored), |text, code| text.replace(code, ""));
    assert!(colored.contains("\u{1b}[32m") && colored.contains("\u{1b}[31m"), "{colored:?}");
    assert_eq!(plain, table(&text));

    let tables: Vec<Table> = serde_json::from_str(&succeeds(&["--format", "json"]).0).unwrap();
    assert_eq!(tables.len(), 2);
    for row in tables[1].iter() {
        assert!(row.number("fewer").unwrap().unwrap() > 1.0 && row.number("right").unwrap().unwrap() >= 2.0, "{text}");
    }
}

#[test]
fn the_doctor_says_what_each_table_lacks_and_what_would_mend_it() {
    let (text, _) = succeeds(&["doctor"]);
    assert!(text.starts_with("doctor\n") && text.lines().all(|line| line.chars().count() <= 140), "{text}");
    let tables: Vec<Table> = serde_json::from_str(&succeeds(&["doctor", "--format", "json"]).0).unwrap();
    let [components, by_table, by_need] = &tables[..] else { panic!("{text}") };
    assert!(components.iter().any(|row| row.text("component").unwrap() == "PyTorch"), "{text}");
    let [listed]: [Table; 1] = serde_json::from_str(&succeeds(&["--list", "--format", "json"]).0).unwrap();
    let names = |table: &Table, column: &str| -> Vec<String> {
        table.iter().map(|row| row.text(column).unwrap().to_owned()).collect()
    };
    assert_eq!(names(by_table, "table"), names(&listed, "name"));
    let gemm = by_table.iter().find(|row| row.text("table").unwrap() == "gemm").unwrap();
    assert!(gemm.text("lacks").unwrap().starts_with("times"), "{text}");
    let gpu = by_need.iter().next().unwrap();
    assert_eq!(gpu.text("need").unwrap(), "GPU");
    assert!(gpu.text("why").unwrap().contains("asks for the simulator"), "{text}");
    assert!(by_need.iter().all(|row| !row.text("mend").unwrap().is_empty()), "{text}");
}

/// A run on another GPU, as a reader would have saved it.
#[test]
fn an_adopted_run_is_shown_before_those_of_the_course() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let mut run = phase5_bench::records().unwrap().remove(0);
    run.tables.retain(|table| table.name == "transfer");
    run.device_name = "NVIDIA GeForce RTX 4090".to_owned();
    run.device = "cuda:0 NVIDIA GeForce RTX 4090 (sm_89)".to_owned();
    run.save(&file).unwrap();
    let with_shelf = |args: &[&str]| {
        let output = command().env("WARP_RECORDS_DIR", dir.path().join("shelf")).args(args).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{stderr}");
        (stdout, stderr)
    };
    let (text, _) = with_shelf(&["transfer"]);
    assert!(text.contains("recorded H200: not measured here") && !text.contains("4090"), "{text}");
    let (_, stderr) = with_shelf(&["adopt", file.to_str().unwrap()]);
    assert!(stderr.contains("adopted: ") && stderr.contains("nvidia-geforce-rtx-4090.json"), "{stderr}");
    let (text, _) = with_shelf(&["transfer"]);
    assert!(text.contains("recorded GeForce RTX 4090: not measured here") && !text.contains("H200"), "{text}");

    let simulated = dir.path().join("simulated.json");
    succeeds(&["transfer", "--save", simulated.to_str().unwrap()]);
    let stderr = fails(&["adopt", simulated.to_str().unwrap()], 1);
    assert!(stderr.contains("is not adopted: it is a simulator's"), "{stderr}");
}

/// Tables that were saved apart come into one record, and those derived from them are made anew.
#[test]
fn runs_are_merged_into_a_record_of_the_same_device() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [record, run] = [file("record.json"), file("run.json")];
    let mut earlier = phase5_bench::records().unwrap().remove(0);
    earlier.tables.retain(|named| named.name != "memory");
    earlier.save(record.as_ref()).unwrap();
    // Each of our convolutions ten times as fast, and best-peer as it was before.
    let mut later = phase5_bench::records().unwrap().remove(0);
    later.tables.retain(|named| ["transfer", "conv", "best-peer"].contains(&named.name.as_str()));
    for named in &mut later.tables {
        named.again = None;
    }
    let conv = later.tables.iter_mut().find(|named| named.name == "conv").unwrap();
    let mut faster: serde_json::Value = serde_json::from_str(&conv.table.to_json()).unwrap();
    for row in faster["rows"].as_array_mut().unwrap().iter_mut().filter(|row| row[1]["text"] == "tuned") {
        row[2]["number"] = (row[2]["number"].as_f64().unwrap() / 10.0).into();
    }
    conv.table = Table::from_json(&faster.to_string()).unwrap();
    later.commit = "0123456789ab".to_owned();
    later.save(run.as_ref()).unwrap();

    let (_, stderr) = succeeds(&["merge", &record, &run, "--tables", "conv"]);
    assert!(stderr.contains("merged: conv, from"), "{stderr}");
    let merged = Record::open(record.as_ref()).unwrap();
    assert!(merged.provenance_of("conv").contains("0123456789ab"));
    assert!(!merged.provenance_of("transfer").contains("0123456789ab"), "not asked for");
    assert!(merged.table("conv") == later.table("conv") && merged.table("conv") != earlier.table("conv"));
    assert!(merged.table("best-peer") != earlier.table("best-peer"), "made anew");

    // A run that was merged itself keeps the commits of its tables.
    earlier.save(run.as_ref()).unwrap();
    fs::copy(&record, file("merged.json")).unwrap();
    succeeds(&["merge", &run, &file("merged.json")]);
    let twice = Record::open(run.as_ref()).unwrap();
    assert_eq!(twice.provenance_of("conv"), merged.provenance_of("conv"));
    assert_eq!(twice.table("best-peer"), merged.table("best-peer"));

    for (tables, status, says) in [
        ("memory", 1, "it has none of the tables"),
        ("conv,memory", 1, "no run has memory"),
        ("best-peer", 1, "`best-peer` is made of other tables"),
        ("gem", 2, "no such table: `gem`"),
    ] {
        let stderr = fails(&["merge", &record, &run, "--tables", tables], status);
        assert!(stderr.contains(says), "{stderr}");
    }
    later.device_name = "NVIDIA GeForce RTX 4090".to_owned();
    later.save(run.as_ref()).unwrap();
    let stderr = fails(&["merge", &record, &run], 1);
    assert!(stderr.contains("this run on NVIDIA GeForce RTX 4090"), "{stderr}");
    assert_eq!(Record::open(record.as_ref()).unwrap(), merged, "a refusal changes nothing");
}

/// Four at once: none loses what another has put in.
#[test]
fn merges_at_the_same_time_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let course = phase5_bench::records().unwrap().remove(0);
    let names = ["transfer", "conv", "gemm", "norm"];
    let with = |names: &[&str]| {
        let mut run = course.clone();
        run.tables.retain(|named| names.contains(&named.name.as_str()));
        run
    };
    with(&["memory"]).save(file("record").as_ref()).unwrap();
    for name in names {
        with(&[name]).save(file(name).as_ref()).unwrap();
    }
    std::thread::scope(|scope| {
        for name in names {
            let files = [file("record"), file(name)];
            scope.spawn(move || succeeds(&["merge", &files[0], &files[1]]));
        }
    });
    let merged = Record::open(file("record").as_ref()).unwrap();
    assert!(names.iter().all(|name| merged.table(name).is_some()), "{:?}", merged.tables.len());
}

/// Without names the tables that the screen measures are saved.
#[test]
fn the_first_screen_can_be_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("screen.json");
    let (_, stderr) = succeeds(&["--save", path.to_str().unwrap()]);
    assert!(stderr.contains("saved: "), "{stderr}");
    assert!(!Record::open(&path).unwrap().tables.is_empty());
}

/// A comparison reports values that became larger, by its exit status too.
#[test]
fn a_comparison_has_verdicts_and_an_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    let path = file.to_str().unwrap();
    succeeds(&["transfer", "--runs", "3", "--save", path]);
    assert_eq!(json(&fs::read_to_string(&file).unwrap())["tables"][0]["spread"]["runs"], 3);

    succeeds(&["ptx", "--save", path]);
    let mut before = json(&fs::read_to_string(&file).unwrap());
    let compare = |before: &serde_json::Value| {
        fs::write(&file, before.to_string()).unwrap();
        let output = bench(&["ptx", "--compare", path, "--format", "json"]);
        let comparison = json(&texts(&output).0)["comparisons"][0].to_string();
        (output.status.code(), Table::from_json(&comparison).unwrap())
    };
    let verdicts =
        |table: &Table, verdict: &str| table.iter().filter(|row| row.text("verdict").unwrap() == verdict).count();
    let (status, same) = compare(&before);
    assert_eq!((status, verdicts(&same, "same")), (Some(0), same.rows().len()), "{}", same.to_text());
    // As if the earlier version had taken half of the instructions.
    let table = &mut before["tables"][0]["table"];
    let lanes =
        table["columns"].as_array().unwrap().iter().position(|column| column["key"] == "lanes_per_value").unwrap();
    let count = &mut table["rows"][0][lanes]["number"];
    *count = (count.as_f64().unwrap() / 2.0).into();
    let (status, more) = compare(&before);
    assert_eq!((status, verdicts(&more, "more")), (Some(3), 1), "{}", more.to_text());

    assert!(fails(&["ptx", "--noise", "5"], 2).contains("--compare"));
}

#[test]
fn what_there_is_not_is_refused_before_anything_is_measured() {
    let stderr = fails(&["transfer", "nonsense"], 2);
    assert!(
        stderr.contains("invalid value 'nonsense'") && stderr.contains("[possible values: transfer, gemm,"),
        "{stderr}"
    );
    let stderr = fails(&["gem"], 2);
    assert!(stderr.contains("a similar value exists: 'gemm'"), "{stderr}");
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

    // As if it had been measured by a clock: nothing has a number now, so the text has no such column, and JSON has the reasons.
    let mut edited = saved.clone();
    edited["tables"][0]["table"]["rows"][0][3] = serde_json::json!({ "number": 12.5 });
    fs::write(file, edited.to_string()).unwrap();
    let (stdout, _) = succeeds(&["transfer", "--compare", file]);
    let row = stdout.lines().find(|line| line.contains("12.500")).unwrap_or_else(|| panic!("{stdout}"));
    assert!(row.contains("H2D pageable 1 KiB") && row.contains("GB/s") && row.contains("cannot tell"), "{row}");
    let (stdout, _) = succeeds(&["transfer", "--compare", file, "--format", "json"]);
    let comparisons = json(&stdout)["comparisons"].clone();
    assert_eq!(comparisons.as_array().unwrap().len(), 1);
    assert!(comparisons[0]["rows"][0][2]["absent"].is_string(), "{comparisons}");

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

    let run = dir.path().join("again.json");
    let run = run.to_str().unwrap();
    succeeds(&["transfer", "--save", run]);
    let (_, stderr) = succeeds(&["merge", file, run]);
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
    let stderr = fails(&["merge", file, run], 1);
    assert!(stderr.contains("it was measured on NVIDIA H200, and this run on ptx-sim"), "{stderr}");
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
fn all_tables_are_made_if_all_is_asked_for() {
    let (text, stderr) = succeeds(&["all", "--quick"]);
    for TableSpec { name, .. } in TABLES {
        // A title begins with the table's name.
        let is_title = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', ':', ',']));
        assert!(text.lines().any(is_title), "{name} is missing:\n{text}");
        assert!(stderr.contains(&format!("measuring: {name}\n")), "{name}: {stderr}");
    }
    assert!(text.contains("layers: ResNet18's opening on china.jpg"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("WRONG"), "{text}");
    assert!(stderr.contains("device: sim"), "{stderr}");
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
    assert!(rows.iter().any(|[claim, ..]| claim.starts_with("A naive GEMM in a fused Linear+ReLU")), "{rows:?}");
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
    if output.status.success() {
        assert!(stderr.contains("roofline.svg") && plots.join("roofline.png").is_file(), "{stderr}")
    } else {
        assert!(stderr.contains("error: roofline: the run has no"), "{stderr}")
    }
}

#[test]
fn help_says_how_to_use_it() {
    let (help, _) = succeeds(&["--help"]);
    for word in [
        "--list",
        "all",
        "doctor",
        "adopt",
        "merge",
        "--runs",
        "--noise",
        "NO_COLOR",
        "--format",
        "--save",
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

/// Like `| head -0`: the reader has left before the first table. A run that is not saved stops there, also quietly.
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
        let saved = json(&fs::read_to_string(&path).unwrap());
        assert_eq!(saved["tables"][0]["name"], "transfer");
        fs::remove_file(&path).unwrap();
    }
}
