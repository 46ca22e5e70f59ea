//! The machine code kept for readers without a disassembler is up to date, and agrees with the page.

use std::path::Path;

use bench::ladder::columns;
use bench::record::Record;
use bench::sass;
use bench::table::{Cell, Table};
use common::Device;
use phase2_conv_bn::gemm::LADDER;
use phase2_conv_bn::report::sass::{ADDRESS, FFMA, INSTRUCTION, INSTRUCTIONS, PART};

const AGAIN: &str = "cargo run -p phase2-conv-bn -- sass --device sim --save phase2-conv-bn/records/sass.json";

fn kept() -> Vec<Table> {
    let record = Record::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("records/sass.json")).unwrap();
    PART.tables.iter().map(|name| record.table(name).unwrap_or_else(|| panic!("no {name}: {AGAIN}")).clone()).collect()
}

/// The instructions of a listing that begin with `name`, after a predicate if there is one.
fn named(table: &Table, name: &str) -> usize {
    let texts = table.iter().map(|row| row.text(INSTRUCTION).unwrap().to_owned());
    texts.filter(|text| text.split(' ').find(|word| !word.starts_with('@')).unwrap().starts_with(name)).count()
}

#[test]
fn machine_code_is_as_it_was_or_it_is_said_why_it_is_not_known() {
    let tables = (PART.run)(&Device::sim()).unwrap().tables;
    for (now, kept) in tables.iter().zip(kept()) {
        match sass::versions() {
            // Other versions of the tools may say something else. (As text: a share's last digit may get lost in JSON.)
            Ok(_) if now.notes == kept.notes => assert_eq!(now.to_markdown(), kept.to_markdown(), "{AGAIN}"),
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

#[test]
fn the_listings_have_what_the_page_reads_in_them() {
    let [vector_add, shared_tile, register_tile, loops] = &kept()[..] else { panic!("{AGAIN}") };
    let counts = |table: &Table, names: &[&str]| names.iter().map(|name| named(table, name)).collect::<Vec<_>>();
    assert_eq!(counts(vector_add, &["LDG.E", "STG.E", "FADD", "S2R", "S2UR", "EXIT", "BRA"]), [2, 1, 1, 1, 1, 2, 0]);
    assert_eq!(vector_add.rows().len(), 20);
    assert_eq!(counts(shared_tile, &["FFMA", "LDS.128", "LDS", "BAR", "BRA"]), [32, 8, 40, 2, 1]);
    assert!(register_tile.iter().any(|row| row.text(INSTRUCTION).unwrap().contains(".reuse")));

    // The page speaks of these lines by their addresses.
    let at = |address: &str| {
        let mut rows = shared_tile.iter().filter(|row| row.text(ADDRESS).unwrap() == address);
        rows.next().unwrap_or_else(|| panic!("{address}")).text(INSTRUCTION).unwrap().to_owned()
    };
    for (address, name) in [
        ("0240", "ISETP"),
        ("0330", "@!P0 LDG"),
        ("0340", "STS"),
        ("0350", "STS"),
        ("0370", "LDS"),
        ("07f0", "FFMA"),
        ("0820", "FFMA"),
        ("0850", "FFMA"),
        ("0870", "@!P0 BRA 0240"),
    ] {
        assert!(at(address).starts_with(name), "{address}: {}", at(address));
    }

    let titles: Vec<String> = LADDER.iter().map(|step| step.title()).collect();
    let of_loops: Vec<_> = loops.iter().map(|row| row.text(columns::STEP).unwrap().to_owned()).collect();
    assert_eq!(of_loops, titles, "{AGAIN}");
    let third = loops.iter().find(|row| row.text(columns::STEP).unwrap() == "3 shared tile").unwrap();
    let number = |column| third.number(column).unwrap().unwrap() as usize;
    assert_eq!((number(FFMA), number(INSTRUCTIONS)), (named(shared_tile, "FFMA"), shared_tile.rows().len()));
}
