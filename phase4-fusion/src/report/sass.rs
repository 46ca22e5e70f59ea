//! What ptxas makes of the pairs: the instructions that tell their versions apart.

use common::compile::ship::shipped_path;
use common::ladder::columns;
use common::parts::{Part, Report};
use common::prelude::*;
use common::table::{ColumnSpec, TableBuilder};

use super::ptx::PAIR;
use crate::ptx::{PAIRS, sass};

/// `cargo run -p phase4-fusion -- sass`.
pub const PART: Part = Part {
    name: "sass",
    about: "the machine code of each pair, by ptxas and nvdisasm",
    tables: &["sass"],
    by_default: false,
    run,
};

/// What the shipped PTX is compiled for where there is no GPU: an H100 or H200.
const ARCHITECTURE: &str = "sm_90";

const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("instructions", "instructions", 0);
const PREDICATED: ColumnSpec = ColumnSpec::number("predicated", "predicated", 0);
const TELLING: ColumnSpec = ColumnSpec::text("telling", "those that tell them apart");

/// Characters in a line of the last column.
const CELL: usize = 44;

fn run(device: &Device) -> Result<Report> {
    let architecture = match device.properties().compute_capability {
        Some((major, minor)) => format!("sm_{major}{minor}"),
        None => ARCHITECTURE.to_owned(),
    };
    let columns = [PAIR, columns::STEP, INSTRUCTIONS, PREDICATED, TELLING];
    let mut table = TableBuilder::of(format!("machine code of each pair, compiled for {architecture}"), columns);
    for pair in PAIRS {
        for step in pair.versions {
            let path = step.source().path().map(|path| shipped_path(&path)).unwrap_or_default();
            let row = table.row().set(PAIR, pair.name).set(columns::STEP, step.title());
            let listing = sass::listings(&path, &architecture).and_then(|all| {
                let found = all.into_iter().find(|listing| listing.kernel == step.method.kernel);
                found.ok_or_else(|| format!("nvdisasm shows no kernel `{}`", step.method.kernel))
            });
            match listing {
                Ok(listing) => row
                    .set(INSTRUCTIONS, u64::from(listing.total()))
                    .set(PREDICATED, u64::from(listing.predicated))
                    .set(TELLING, common::table::wrap(&listing.telling(pair.telling), CELL))
                    .complete(),
                Err(reason) => row.finish(&reason),
            }
        }
    }
    table.note(
        "instructions: as they stand in the code, not as often as they run. predicated: those under a predicate, without \
         branches and EXIT.",
    );
    if let Ok([ptxas, nvdisasm]) = sass::versions() {
        table.note(format!("By ptxas {ptxas} and nvdisasm {nvdisasm}, of the PTX shipped beside each kernel."));
    }
    Ok(Report { tables: vec![table.finish()], wrong: Vec::new() })
}
