//! The runs stored in the phases' `records/`.

use std::fs;
use std::path::Path;

use bench::record::Record;
use common::compile::ship;

/// Keeps later differences to the rows that have changed: no change of form, nor in the last digit of a number.
#[test]
fn every_record_is_as_save_writes_it() {
    let root = ship::workspace_root(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut seen = 0;
    for phase in fs::read_dir(root).unwrap() {
        let Ok(records) = fs::read_dir(phase.unwrap().path().join("records")) else { continue };
        for path in records.map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
                assert!(Record::open(&path).unwrap().to_json() == text, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 4, "{seen} records");
}
