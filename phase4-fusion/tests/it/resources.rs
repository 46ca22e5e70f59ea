//! Resources of every kernel, as ptxas gave them: nothing spills, no product waits for the previous one, and the record is of the
//! PTX that is shipped.

use std::collections::BTreeSet;
use std::path::Path;

use bench::ladder::columns;
use bench::record::Record;
use bench::resources::{self, KERNEL, READ_BACK, SPILLED};
use bench::table::Table;
use phase4_fusion::gemm::{self, Tiling};
use phase4_fusion::report::occupancy::BLOCKS;
use phase4_fusion::report::resources::{ladders, sources};

/// Makes the record of a part again.
fn again(part: &str) -> String {
    format!("cargo run -p phase4-fusion -- {part} --device sim --save phase4-fusion/records/{part}.json")
}

fn kept(part: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("records/{part}.json"));
    Record::open(&path).unwrap().table(part).unwrap().clone()
}

/// The kernels of the shipped PTX, as the table names them.
fn shipped() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources() {
        let ptx = source.shipped_ptx().unwrap();
        let entries = ptx.lines().filter_map(|line| line.split_once(".entry ")?.1.split('(').next());
        names.extend(entries.map(|entry| format!("{}: {}", source.name, entry.trim())));
    }
    names
}

#[test]
fn the_kept_table_has_every_kernel_and_none_that_spills() {
    let kept = kept("resources");
    let names: BTreeSet<String> = kept.iter().map(|row| row.text(KERNEL).unwrap().to_owned()).collect();
    assert_eq!(names, shipped(), "{}", again("resources"));
    for row in kept.iter() {
        for column in [SPILLED, READ_BACK] {
            assert_eq!(row.number(column).unwrap(), Some(0.0), "{}", row.text(KERNEL).unwrap());
        }
    }
    assert!(!kept.notes.iter().any(|note| note.starts_with("ptxas on ")), "{:?}", kept.notes);
}

/// So nothing needs compiling here to know that no kernel spills.
#[test]
fn the_kept_tables_are_of_the_shipped_ptx() {
    assert!(resources::is_of_shipped(&kept("resources"), sources()), "{}", again("resources"));
    assert!(resources::is_of_shipped(&kept("occupancy"), ladders()), "{}", again("occupancy"));
}

/// The pages' claim about the last steps: a ring of tiles fills shared memory, and only one block fits.
#[test]
fn a_block_of_the_last_steps_has_the_multiprocessor_to_itself() {
    let kept = kept("occupancy");
    let blocks = |step: &str| -> Vec<Option<f64>> {
        let rows = kept.iter().filter(|row| row.text(columns::STEP).unwrap() == step);
        rows.map(|row| row.number(BLOCKS).unwrap()).collect()
    };
    for step in gemm::LADDER.iter().filter(|step| matches!(step.method, Tiling::Persistent | Tiling::Shapes(..))) {
        let blocks = blocks(&step.title());
        assert!(!blocks.is_empty() && blocks.iter().all(|blocks| *blocks == Some(1.0)), "{}: {blocks:?}", step.title());
    }
    // The step that lost: more registers, and one block in place of two.
    assert_eq!((blocks("5 swizzle"), blocks("6 fragments ahead")), (vec![Some(2.0)], vec![Some(1.0)]));
}
