//! What the command shows, a file a part. A part makes tables, and says what in them is wrong.

use bench::ladder::{Expected, LadderTable, columns};
use bench::parts::{Part, Report};
use bench::record::Record;
use bench::table::ColumnSpec;
use common::prelude::*;

pub mod all_reduce;
pub mod attention;
pub mod conv;
pub mod executor;
pub mod formats;
pub mod gemm;
pub mod links;
pub mod occupancy;
pub mod plan;
pub mod ptx;
pub mod resources;
pub mod rewrites;
pub mod sass;
pub mod split;
pub mod streams;
pub mod tiles;

/// All parts, in the order in which they are read.
pub static PARTS: &[Part] = &[
    gemm::PART,
    conv::PART,
    attention::PART,
    ptx::PART,
    plan::PART,
    rewrites::PART,
    split::PART,
    streams::PART,
    links::PART,
    formats::PART,
    tiles::PART,
    all_reduce::PART,
    executor::PART,
    resources::PART,
    occupancy::PART,
    sass::PART,
];

/// The runs on a GPU that are kept in `records/`, for where there is none.
///
/// # Errors
/// [`Error::Record`] with the file that is no record.
pub fn records() -> Result<Vec<Record>> {
    bench::records!("nvidia-h200-broken.json")
}

/// What is new in a step.
const IDEA: ColumnSpec = ColumnSpec::text("idea", "idea");

/// The columns of a ladder: what the simulator counts, what a GPU takes, and the check.
const COUNTS: [ColumnSpec; 8] = [
    columns::LANE_MILLIONS,
    columns::SECTORS_PER_REQUEST,
    columns::SHARED_THOUSANDS,
    columns::CONFLICT_THOUSANDS,
    columns::MS,
    columns::TFLOPS,
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The empty table of a ladder, whose rows are named in the columns `names`.
fn step_table(title: String, names: &[ColumnSpec], counts: &[ColumnSpec], device: &Device) -> LadderTable {
    let mut table = LadderTable::new(title, device, &[names, counts].concat());
    if device.is_sim() {
        let sectors = if counts.iter().any(|column| column.key == columns::SECTORS_PER_REQUEST.key) {
            " sectors per request: 32-byte sectors of global memory for each load of a warp; copies by TMA are no loads."
        } else {
            ""
        };
        table.note(format!(
            "lane M: millions of instructions, each counted once per lane.{sectors} shared k: thousands of wavefronts of shared \
             memory; conflicts k: those of them that are there because lanes met in one bank. What wgmma reads by itself is no \
             wavefront."
        ));
    }
    table
}

/// Moves a table that is complete into a report, with what is wrong in it.
fn finish(table: LadderTable, report: &mut Report) {
    let (table, wrong) = table.finish();
    report.tables.push(table);
    report.wrong.extend(wrong);
}

/// What the largest value of a result may be off by.
fn allowed(expected: &Expected) -> f64 {
    let most = expected.reference().values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    expected.tolerance().at(most)
}
