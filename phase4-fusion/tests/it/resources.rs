//! Resources of every kernel from ptxas: nothing spills, no product waits for the previous one, and the record for readers
//! without ptxas is up to date.

use std::collections::BTreeSet;
use std::path::Path;

use bench::ladder::columns;
use bench::record::Record;
use bench::resources::{self, Compiled, KERNEL, READ_BACK, SPILLED};
use bench::table::Table;
use common::Device;
use phase4_fusion::gemm::{self, Tiling};
use phase4_fusion::report::occupancy::{self, BLOCKS};
use phase4_fusion::report::resources::sources;

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

#[test]
fn no_kernel_spills_and_no_product_is_serialised() {
    const TEST: &str = "no_kernel_spills_and_no_product_is_serialised";
    let compiled = resources::compile(&Device::sim(), sources());
    let mut kernels = BTreeSet::new();
    for Compiled { source, architecture, kernels: of_file } in &compiled {
        let of_file = match of_file {
            Ok(of_file) => of_file,
            Err(reason) => {
                assert!(reason.contains("no ptxas found"), "{}: {reason}", source.name);
                assert!(std::env::var("REQUIRE_NVRTC").is_err(), "{TEST}: REQUIRE_NVRTC is set, but {reason}");
                println!("{TEST}: skipped, since {reason}");
                return;
            }
        };
        for kernel in of_file {
            let name = format!("{}: {}", source.name, kernel.kernel);
            assert_eq!((kernel.spill_stores, kernel.spill_loads), (0, 0), "{name} for {architecture}");
            // C7510 and its kin: wgmma that the compiler had to make wait, or to wait for.
            assert_eq!(kernel.remarks, [""; 0], "{name} for {architecture}");
            kernels.insert(name);
        }
    }
    assert_eq!(kernels, shipped());
    // Another version of the compiler may say something else.
    let (now, kept_resources) = (resources::table(&compiled), kept("resources"));
    if now.notes == kept_resources.notes {
        assert_eq!(now, kept_resources, "{}", again("resources"));
        assert_eq!(occupancy::table(&compiled).unwrap(), kept("occupancy"), "{}", again("occupancy"));
    }
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
