//! PTX by hand: every version of every pair, checked and counted, and timed on a GPU.

use bench::ladder::{LadderTable, columns};
use bench::parts::{Part, Report};
use bench::table::{ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;

use crate::ptx::{PAIRS, Pair, Size};

/// `cargo run -p phase4-fusion -- ptx`.
pub const PART: Part = Part {
    name: "ptx",
    about: "PTX by hand: pairs of kernels, in CUDA C and in PTX, counted and timed",
    tables: &["ptx-pairs", "ptx"],
    by_default: true,
    run,
};

/// The pair, and its size where it has several.
pub const PAIR: ColumnSpec = ColumnSpec::text("pair", "pair");
const IDEA: ColumnSpec = ColumnSpec::text("idea", "idea");

fn run(device: &Device) -> Result<Report> {
    let (table, wrong) = versions(device)?;
    Ok(Report { tables: vec![pairs(), table], wrong })
}

/// New idea of each version.
fn pairs() -> Table {
    let mut table = TableBuilder::of("pairs of kernels, in CUDA C and in PTX", [PAIR, columns::STEP, IDEA]);
    for Pair { name, versions, .. } in PAIRS {
        for step in *versions {
            table.row().set(PAIR, *name).set(columns::STEP, step.title()).set(IDEA, step.idea).complete();
        }
    }
    table.finish()
}

/// The sizes of a pair on this device.
pub fn sizes(pair: &Pair, device: &Device) -> Vec<Size> {
    if device.is_sim() { vec![pair.simulated] } else { pair.measured.to_vec() }
}

fn versions(device: &Device) -> Result<(Table, Vec<String>)> {
    let all = [
        PAIR,
        columns::STEP,
        columns::LANES_PER_VALUE,
        columns::BYTES_PER_VALUE,
        columns::SECTORS_PER_REQUEST,
        columns::LANES_AT_WORK,
        columns::SHARED_THOUSANDS,
        columns::MAX_DIFFERENCE,
        columns::CHECK,
    ];
    let on_gpu = [
        PAIR,
        columns::STEP,
        columns::MS,
        columns::GBPS,
        columns::TFLOPS,
        columns::OF_PEER,
        columns::MAX_DIFFERENCE,
        columns::CHECK,
    ];
    let shown: &[ColumnSpec] = if device.is_sim() { &all } else { &on_gpu };
    let mut table = LadderTable::new(format!("PTX by hand, on {}", device.short_name()), device, shown);
    if device.is_cuda() {
        table = table.with_peer("the first");
    }
    let bench = Bench { queue: Queue::Warm, ..Bench::default() };
    for pair in PAIRS {
        for size in sizes(pair, device) {
            let name = format!("{} {}", pair.name, size.label());
            let mut runs = pair.run(device, &bench, size, |_| ())?.into_iter();
            if let Some((first, run)) = runs.next() {
                let others: Vec<_> = runs.collect();
                let others = others.iter().map(|(title, run)| (title.as_str(), run.clone()));
                table.problem((PAIR, &name), (pair.cost)(size), (&first, run), others);
            }
        }
    }
    if device.is_sim() {
        table.note(
            "lanes per value: instructions of the PTX, each counted once per lane, for each value. sectors per request: of 32 \
             bytes, for each load of a warp. lanes at work: of 32, in an instruction of their warp. shared k: thousands of \
             passes through shared memory.",
        );
    }
    table.note("|Δ|: to the f64 reference, of a sample where there are many.");
    Ok(table.finish())
}
