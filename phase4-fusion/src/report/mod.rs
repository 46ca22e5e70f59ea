//! Reports of the command, one file per part. A part makes tables and lists their errors.

use bench::ladder::{Expected, LadderTable, columns};
use bench::parts::{Part, Report};
use bench::record::Record;
use bench::table::ColumnSpec;
use common::prelude::*;

pub mod all_reduce;
pub mod attention;
pub mod blackwell;
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
pub mod values;

/// All parts, in the order in which they are read.
pub static PARTS: &[Part] = &[
    gemm::PART,
    blackwell::PART,
    conv::PART,
    attention::PART,
    ptx::PART,
    plan::PART,
    rewrites::PART,
    split::PART,
    streams::PART,
    links::PART,
    formats::PART,
    values::PART,
    tiles::PART,
    all_reduce::PART,
    executor::PART,
    resources::PART,
    occupancy::PART,
    sass::PART,
];

/// GPU runs kept in `records/`, for machines without a GPU.
///
/// # Errors
/// [`Error::Record`] with the file that is not a record.
pub fn records() -> Result<Vec<Record>> {
    bench::records!("nvidia-h200-broken.json", "nvidia-h200-product-values.json")
}

/// New idea of a step.
const IDEA: ColumnSpec = ColumnSpec::text("idea", "idea");

/// The columns of a ladder: the simulator's counts, the GPU's times, and the check.
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
             memory; conflicts k: those of them that are there because lanes met in one bank. What wgmma and tcgen05 read by themselves is no \
             wavefront."
        ));
    }
    table
}

/// Moves a complete table into a report, with its errors.
fn finish(table: LadderTable, report: &mut Report) {
    let (table, wrong) = table.finish();
    report.tables.push(table);
    report.wrong.extend(wrong);
}

/// Tolerance of a result's largest value.
fn allowed(expected: &Expected) -> f64 {
    let most = expected.reference().values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    expected.tolerance().at(most)
}
