//! What is kept of ptxas's code for readers without a disassembler is still so.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use common::Device;
use common::ladder::columns;
use common::record::Record;
use common::table::{Cell, Table};
use phase4_fusion::ptx::{PAIRS, sass};
use phase4_fusion::report::sass::PART;

const AGAIN: &str = "cargo run -p phase4-fusion -- sass --device sim --save phase4-fusion/records/sass.json";

fn kept() -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/sass.json");
    Record::open(&path).unwrap().table("sass").unwrap().clone()
}

#[test]
fn machine_code_of_every_version_or_why_it_is_not_known() {
    let titles = |table: &Table| -> Vec<String> {
        table.iter().map(|row| row.text(columns::STEP).unwrap().to_owned()).collect()
    };
    let steps: Vec<String> = PAIRS.iter().flat_map(|pair| pair.versions).map(|step| step.title()).collect();
    assert_eq!(titles(&kept()), steps, "{AGAIN}");

    let now = (PART.run)(&Device::sim()).unwrap().tables.remove(0);
    assert_eq!(titles(&now), steps);
    match sass::versions() {
        // Other versions of the tools may say something else.
        Ok(_) if now.notes == kept().notes => assert_eq!(now.rows(), kept().rows(), "{AGAIN}"),
        Ok(_) => assert!(!now.rows().iter().flatten().any(|cell| matches!(cell, Cell::Absent(_))), "{}", now.to_text()),
        Err(reason) => {
            println!("{reason}");
            assert!(now.rows().iter().all(|row| matches!(row.last(), Some(Cell::Absent(_)))), "{}", now.to_text());
        }
    }
}

/// What the pages say the compiler did by itself.
#[test]
fn some_versions_are_the_same_machine_code() {
    let table = kept();
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
