//! Machine code from ptxas for the pairs and the ladders on tensor cores: the instructions that distinguish their kernels.

use bench::ladder::columns;
use bench::parts::{Part, Report};
use bench::resources;
use bench::sass::{self, Listing};
use bench::table::{ColumnSpec, Table, TableBuilder, wrap};
use common::prelude::*;

use super::occupancy::Tile;
use super::ptx::PAIR;
use crate::gemm::step06_fragments_ahead;
use crate::ptx::PAIRS;
use crate::{conv, gemm};

/// `cargo run -p phase4-fusion -- sass`.
pub const PART: Part = Part {
    name: "sass",
    about: "the machine code of each pair, and of the last steps on tensor cores, by ptxas and nvdisasm",
    tables: &["sass", "sass-ladders"],
    by_default: false,
    run,
};

/// A kernel of a ladder, by its name.
pub const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("instructions", "instructions", 0);
const PREDICATED: ColumnSpec = ColumnSpec::number("predicated", "predicated", 0);
/// The pair's or the ladders' own instructions, with modifiers and numbers.
pub const TELLING: ColumnSpec = ColumnSpec::text("telling", "those that tell them apart");

/// Characters in a line of the last column, next to a pair's name and to a kernel's.
const CELL: usize = 44;
const CELL_OF_LADDER: usize = 36;

/// Mnemonics without modifiers: products on tensor cores; fragments, copies and stores.
const OF_LADDERS: [&str; 9] = ["HMMA", "HGMMA", "IGMMA", "QGMMA", "LDSM", "LDGSTS", "STSM", "UTMALDG", "UTMASTG"];

fn run(device: &Device) -> Result<Report> {
    let architecture = resources::architecture(device);
    Ok(Report { tables: vec![pairs(&architecture), ladders(&architecture)], wrong: Vec::new() })
}

/// One row for each version of each pair.
fn pairs(architecture: &str) -> Table {
    let columns = [PAIR, columns::STEP, INSTRUCTIONS, PREDICATED, TELLING];
    let mut table = TableBuilder::of(format!("machine code of each pair, compiled for {architecture}"), columns);
    for pair in PAIRS {
        for step in pair.versions {
            let row = table.row().set(PAIR, pair.name).set(columns::STEP, step.title());
            match listing(&step.source, architecture, step.method.kernel) {
                Ok(listing) => row
                    .set(INSTRUCTIONS, u64::from(listing.total()))
                    .set(PREDICATED, u64::from(listing.predicated()))
                    .set(TELLING, wrap(&listing.telling(pair.telling), CELL))
                    .complete(),
                Err(reason) => row.finish(&reason),
            }
        }
    }
    table.note(
        "instructions: as they stand in the code, not as often as they run. predicated: those under a predicate, without \
         branches and EXIT.",
    );
    note_tools(&mut table);
    table.finish()
}

/// One row for each step from the last one without `wgmma` on, and for each type of the last: the first of its tiles, with B as
/// its transpose.
fn ladders(architecture: &str) -> Table {
    let columns = [columns::STEP, KERNEL, INSTRUCTIONS, TELLING];
    let mut table = TableBuilder::of("machine code of the last steps on tensor cores", columns);
    let products = gemm::LADDER.iter().filter(|step| step.number >= step06_fragments_ahead::STEP.number);
    let products = products.chain(gemm::OTHERS).map(Tile::of_product);
    for tile in products.chain(conv::LADDER.iter().map(Tile::of_conv)).filter_map(|tiles| tiles.into_iter().next()) {
        let row = table.row().set(columns::STEP, tile.title).set(KERNEL, &*tile.kernel);
        match listing(tile.source, architecture, &tile.kernel) {
            Ok(listing) => row
                .set(INSTRUCTIONS, u64::from(listing.total()))
                .set(TELLING, wrap(&listing.telling(&OF_LADDERS), CELL_OF_LADDER))
                .complete(),
            Err(reason) => row.finish(&reason),
        }
    }
    table.note("instructions: as they stand in the code, most of them in epilogues that can do much more than store.");
    note_tools(&mut table);
    table.finish()
}

/// The shipped PTX of a kernel, compiled for the architecture that it requires, or else for `architecture`.
fn listing(source: &KernelSource, architecture: &str, kernel: &str) -> std::result::Result<Listing, String> {
    sass::listing(&source.shipped_ptx().unwrap_or_default(), &resources::architecture_of(source, architecture), kernel)
}

fn note_tools(table: &mut TableBuilder) {
    if let Ok([ptxas, nvdisasm]) = sass::versions() {
        table.note(format!("By ptxas {ptxas} and nvdisasm {nvdisasm}, of the PTX shipped beside each kernel."));
    }
}
