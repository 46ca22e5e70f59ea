//! The machine code from ptxas kept for readers without a disassembler is up to date.

use std::path::Path;

use bench::ladder::columns;
use bench::record::Record;
use bench::sass;
use bench::table::{Cell, Table};
use common::Device;
use phase4_fusion::ptx::PAIRS;
use phase4_fusion::report::sass::{KERNEL, PART, TELLING};

const AGAIN: &str = "cargo run -p phase4-fusion -- sass --device sim --save phase4-fusion/records/sass.json";

/// The tables of the record: the pairs', and the ladders'.
fn kept() -> [Table; 2] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/sass.json");
    let record = Record::open(&path).unwrap();
    ["sass", "sass-ladders"].map(|name| record.table(name).unwrap().clone())
}

#[test]
fn machine_code_of_every_version_or_why_it_is_not_known() {
    let titles = |table: &Table| -> Vec<String> {
        table.iter().map(|row| row.text(columns::STEP).unwrap().to_owned()).collect()
    };
    let steps: Vec<String> = PAIRS.iter().flat_map(|pair| pair.versions).map(|step| step.title()).collect();
    let [pairs, ladders] = kept();
    assert_eq!(titles(&pairs), steps, "{AGAIN}");

    let tables = (PART.run)(&Device::sim()).unwrap().tables;
    assert_eq!(titles(&tables[0]), steps);
    for (now, kept) in tables.iter().zip([pairs, ladders]) {
        assert_eq!(titles(now), titles(&kept), "{AGAIN}");
        match sass::versions() {
            // Other versions of the tools may say something else.
            Ok(_) if now.notes == kept.notes => assert_eq!(now.rows(), kept.rows(), "{AGAIN}"),
            Ok(_) => {
                assert!(!now.rows().iter().flatten().any(|cell| matches!(cell, Cell::Absent(_))), "{}", now.to_text());
            }
            Err(reason) => {
                println!("{reason}");
                assert!(now.rows().iter().all(|row| matches!(row.last(), Some(Cell::Absent(_)))), "{}", now.to_text());
            }
        }
    }
}

/// The pages' claims about the ladders: which instruction multiplies, who copies, and that a cluster's copies are for several
/// blocks.
#[test]
fn the_last_steps_have_the_instructions_that_they_are_about() {
    let [_, ladders] = kept();
    let has = |step: &str, kernel: &str, mnemonic: &str| {
        let of_step = |row: &bench::table::Row<'_>| row.text(columns::STEP).unwrap() == step;
        let mut rows = ladders.iter().filter(|row| of_step(row) && row.text(KERNEL).unwrap().contains(kernel));
        let telling = rows.next().unwrap_or_else(|| panic!("{step}, {kernel}")).text(TELLING).unwrap();
        telling.split([' ', '.', '\n']).any(|word| word == mnemonic)
    };
    let tuned = "12 tuned tiles";
    for (step, kernel, multiplies) in [
        ("6 fragments ahead", "f16", "HMMA"),
        ("7 wgmma", "f16", "HGMMA"),
        (tuned, "f16", "HGMMA"),
        (tuned, "tf32", "HGMMA"),
        (tuned, "e4m3", "QGMMA"),
        (tuned, "s8", "IGMMA"),
        ("conv 1 gather by TMA", "f16", "HGMMA"),
    ] {
        let products = ["HMMA", "HGMMA", "QGMMA", "IGMMA"];
        let found: Vec<_> = products.into_iter().filter(|product| has(step, kernel, product)).collect();
        assert_eq!(found, [multiplies], "{step}, {kernel}");
    }
    for (step, copies) in [
        ("6 fragments ahead", ["LDGSTS"].as_slice()),
        ("7 wgmma", &[]),
        ("8 tma", &["UTMALDG"]),
        ("10 persistent", &["UTMALDG", "UTMASTG"]),
        ("11 clusters", &["UTMALDG", "MULTICAST", "UTMASTG"]),
        ("conv 2 tuned tiles", &["UTMALDG", "IM2COL", "UTMASTG"]),
    ] {
        let all = ["LDGSTS", "UTMALDG", "MULTICAST", "IM2COL", "UTMASTG"];
        let found: Vec<_> = all.into_iter().filter(|copy| has(step, "", copy)).collect();
        assert_eq!(found, copies, "{step}");
    }
}

/// The pages' claims about the compiler's own optimisations.
#[test]
fn some_versions_are_the_same_machine_code() {
    let [table, _] = kept();
    let code = |pair: &str, step: &str| -> Vec<Cell> {
        let row = table.rows().iter().find(|row| row[0] == pair.into() && row[1] == step.into());
        row.unwrap()[2..].to_vec()
    };
    for (pair, steps) in [
        ("reduce", &["2 C, __reduce", "3 PTX, redux"][..]),
        ("branch", &["1 C, if", "2 PTX, bra", "3 PTX, @p"]),
        ("series", &["2 C, eight", "3 C, __half2", "4 PTX, f16x2"]),
    ] {
        for step in &steps[1..] {
            assert_eq!(code(pair, step), code(pair, steps[0]), "{pair}, {step}");
        }
    }
}
