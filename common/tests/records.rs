//! The runs stored in the phases' `records/`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use common::compile::ship;
use common::record::Record;

/// So the next one differs from it in the rows that have changed, not in its form.
#[test]
fn every_record_is_in_the_form_that_save_writes() {
    let root = ship::workspace_root(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    // The last digit of a number may change when it is read.
    let form = |text: &str| text.replace(|character: char| character.is_ascii_digit(), "");
    let mut seen = 0;
    for phase in fs::read_dir(root).unwrap() {
        let Ok(records) = fs::read_dir(phase.unwrap().path().join("records")) else { continue };
        for path in records.map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
                assert!(form(&Record::open(&path).unwrap().to_json()) == form(&text), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 4, "{seen} records");
}
