//! Tests of recorded and simulated tables on a page.

use std::{fs, path::Path};

use bench::{
    ladder::columns::STEP,
    record::Record,
    table::{Cell, ColumnSpec, TableBuilder},
};
use common::Device;

use super::{column, find, has, markdown};

fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    const PATH: ColumnSpec = ColumnSpec::text("path", "path");
    const KIB: ColumnSpec = ColumnSpec::number("KiB", "KiB", 0);
    const RATE: ColumnSpec = ColumnSpec::number("GB/s", "GB/s", 2);
    let mut table = TableBuilder::of("transfers", [PATH, KIB, RATE]);
    table.row().set(PATH, "up | down").set(KIB, 64usize).set(RATE, 12.345).complete();
    table.row().set(PATH, "up").set(KIB, 128usize).finish("no clock");
    table.note("a < b");
    let mut record = Record::begin(&Device::sim());
    record.push("transfers", table.finish());
    record.device_name = "NVIDIA H200".into();
    record.simulated = false;
    record.host = "CPU".into();
    record.date = "2026-01-02T03:04:05Z".into();
    record.commit = "abc".into();
    fs::create_dir_all(folder.path().join("p/records")).unwrap();
    fs::write(folder.path().join("p/records/nvidia-h200.json"), record.to_json()).unwrap();
    folder
}

#[test]
fn a_recorded_table_is_shown_with_its_origin() {
    let folder = workspace();
    let caption = "Recorded: NVIDIA H200, 2026-01-02, commit abc; host CPU.";
    assert_eq!(
        markdown(folder.path(), "p/transfers").unwrap(),
        format!(
            "<figure class=\"record\">\n\n| path | KiB | GB/s |\n| --- | ---: | ---: |\n| up \\| down | 64 | 12.35 |\n\
             | up | 128 | – |\n\n<figcaption>{caption} – no clock. a &lt; b.</figcaption>\n</figure>"
        )
    );
    assert_eq!(
        markdown(folder.path(), r#"p/transfers columns "GB/s" "path" rows "64""#).unwrap(),
        format!(
            "<figure class=\"record\">\n\n| GB/s | path |\n| ---: | --- |\n| 12.35 | up \\| down |\n\n\
             <figcaption>{caption} a &lt; b.</figcaption>\n</figure>"
        )
    );
    assert!(
        markdown(folder.path(), r#"p/transfers without notes rows "64" code "path""#)
            .unwrap()
            .ends_with(&format!("| `up \\| down` | 64 | 12.35 |\n\n<figcaption>{caption}</figcaption>\n</figure>"))
    );
    assert_eq!(
        markdown(folder.path(), r#"p/transfers as list columns "KiB" "path" rows "up""#).unwrap(),
        format!(
            "<figure class=\"record\">\n\n128\n\n```text\nup\n```\n\n\
             <figcaption>{caption} a &lt; b.</figcaption>\n</figure>"
        )
    );
    let only = markdown(folder.path(), r#"p/transfers columns "KiB" only "path=up" rows "64" "128""#);
    assert_eq!(only.unwrap_err().to_string(), "0 rows have the cells [\"path=up\", \"64\"], exactly one must");
    let only = markdown(folder.path(), r#"p/transfers columns "KiB" only "path=up""#).unwrap();
    assert!(only.contains("| KiB |\n| ---: |\n| 128 |\n\n"), "{only}");
}

#[test]
fn a_step_is_found_by_its_name_too() {
    let mut builder = TableBuilder::of("t", [STEP, ColumnSpec::text("idea", "idea")]);
    builder.row().set("step", "3 shared tile").set("idea", "4 tiles").complete();
    let table = builder.finish();
    let has = |wanted| has(&table, &table.rows()[0], wanted);
    assert!(has("step=3 shared tile") && has("step=shared tile") && has("3 shared tile"));
    assert!(!has("step=tile") && !has("shared tile") && !has("idea=tiles") && !has("step=4 shared tile"));
}

#[test]
fn what_a_tool_said_is_no_measurement_of_a_device() {
    let folder = workspace();
    let records = folder.path().join("p/records");
    let saved = fs::read_to_string(records.join("nvidia-h200.json")).unwrap();
    fs::write(records.join("transfers.json"), saved.replace("\"simulated\": false", "\"simulated\": true")).unwrap();
    assert_eq!(find(folder.path(), "p/transfers").unwrap().caption, "Saved 2026-01-02, commit abc.");
}

#[test]
fn a_table_that_was_measured_by_itself_has_its_own_record() {
    let folder = workspace();
    let records = folder.path().join("p/records");
    fs::rename(records.join("nvidia-h200.json"), records.join("nvidia-h200-transfers.json")).unwrap();
    assert_eq!(find(folder.path(), "p/transfers").unwrap().table.rows().len(), 2);
    assert!(find(folder.path(), "p/streams").is_err());
}

#[test]
fn what_was_measured_at_no_commit_is_not_shown_unless_another_machine_has_it() {
    let folder = workspace();
    let records = folder.path().join("p/records");
    let saved = fs::read_to_string(records.join("nvidia-h200.json")).unwrap();
    fs::write(records.join("nvidia-h200.json"), saved.replace("\"abc\"", "\"abc-dirty\"")).unwrap();
    let error = find(folder.path(), "p/transfers").err().unwrap().to_string();
    assert!(error.ends_with("is from commit abc-dirty: measure it again from a clean checkout"), "{error}");
    fs::write(records.join("nvidia-h100.json"), saved.replace("H200", "H100")).unwrap();
    let found = find(folder.path(), "p/transfers").unwrap();
    assert!(found.caption.starts_with("Recorded: NVIDIA H100, 2026-01-02, commit abc;"), "{}", found.caption);
}

#[test]
fn a_derived_table_is_made_anew_and_from_clean_tables_only() {
    let name = "phase5-bench/records/nvidia-h200.json";
    let mut record = Record::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let of = |record: &mut Record, name: &str, change: fn(&mut bench::record::Named)| {
        change(record.tables.iter_mut().find(|named| named.name == name).unwrap());
    };
    of(&mut record, "claims", |claims| claims.table.title = "stale".to_owned());
    fs::write(&path, record.to_json()).unwrap();
    assert_eq!(find(folder.path(), "phase5-bench/claims").unwrap().table.title, "claims, measured again");
    of(&mut record, "layers", |layers| {
        let host = String::new();
        let date = "2026-01-02T00:00:00Z".to_owned();
        layers.again = Some(bench::record::Again { date, commit: "abc-dirty".to_owned(), host });
    });
    fs::write(&path, record.to_json()).unwrap();
    let error = find(folder.path(), "phase5-bench/claims").err().unwrap().to_string();
    assert!(error.starts_with("table `layers`") && error.contains("commit abc-dirty"), "{error}");
    assert!(find(folder.path(), "phase5-bench/gemm").is_ok());
}

#[test]
fn a_record_that_changed_is_read_again() {
    let folder = workspace();
    assert_eq!(markdown(folder.path(), "p/transfers").unwrap().matches("commit abc").count(), 1);
    let path = folder.path().join("p/records/nvidia-h200.json");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"abc\"", "\"xyz\"")).unwrap();
    assert_eq!(markdown(folder.path(), "p/transfers").unwrap().matches("commit xyz").count(), 1);
}

#[test]
fn what_is_not_there_is_an_error() {
    let folder = workspace();
    let error = |argument: &str| markdown(folder.path(), argument).unwrap_err().to_string();
    assert!(error("q/transfers").contains("nvidia-h200.json"), "{}", error("q/transfers"));
    assert!(error("p/streams").contains("no table `streams`") && error("p/streams").ends_with("it has: transfers"));
    assert_eq!(error(r#"p/transfers columns "ms""#), "no column `ms`; there are: path, KiB, GB/s");
    assert_eq!(error(r#"p/transfers rows "65""#), "0 rows have the cells [\"65\"], exactly one must");
    assert!(error("").starts_with("which table?"));
    assert!(error("transfers").starts_with("`transfers` is no table"));
    assert!(error("p/transfers columns ms").starts_with("`ms` is not understood"));
    assert!(error("p/transfers columns \"ms").ends_with("has no closing quotation mark"));
    assert!(error("phase1-infra/vector-sub@sim").contains("it has: device-query, memory"));
    fs::write(folder.path().join("p/records/nvidia-h200.json"), "{}").unwrap();
    assert!(error("p/transfers").contains("nvidia-h200.json"), "{}", error("p/transfers"));
}

#[test]
fn the_simulator_counts_for_the_book() {
    let table = find(Path::new("."), "phase1-infra/launch-overhead@sim").unwrap().table;
    let at = column(&table, "instructions per launch").unwrap();
    assert!(table.rows().iter().all(|row| row[at] == Cell::Number(1.0)), "{table:?}");
    let timeline = find(Path::new("."), "phase1-infra/streams-timeline-3@sim").unwrap().table;
    assert!(timeline.title.starts_with("timeline"), "{timeline:?}");
}
