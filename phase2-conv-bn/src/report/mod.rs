//! Reports of the command, one file per part. A part makes tables and lists their errors.

use bench::ladder::{LadderTable, columns};
use bench::parts::Part;
use bench::record::Record;
use bench::table::ColumnSpec;
use common::prelude::*;

pub mod conv;
pub mod gemm;
pub mod layers;
pub mod linear;
pub mod norm;
pub mod patterns;
pub mod resources;
pub mod sass;

/// All parts, in the order in which they are read.
pub static PARTS: &[Part] = &[
    gemm::PART,
    conv::PART,
    linear::PART,
    norm::PART,
    layers::PART,
    patterns::REDUCTION,
    patterns::SCAN,
    patterns::TRANSPOSE,
    patterns::STENCIL,
    patterns::HISTOGRAM,
    patterns::RADIX_SORT,
    patterns::TOP_K,
    patterns::SPMV,
    patterns::PART,
    resources::PART,
    sass::PART,
];

/// GPU runs kept in `records/`, for machines without a GPU.
///
/// # Errors
/// [`Error::Record`] with the file that is not a record.
pub fn records() -> Result<Vec<Record>> {
    bench::records!()
}

/// New idea of a step.
pub(crate) const IDEA: ColumnSpec = ColumnSpec::text("idea", "idea");

/// The columns of a ladder: the simulator's counts, the GPU's times, and the check.
const STEP_COLUMNS: [ColumnSpec; 9] = [
    columns::STEP,
    columns::LANE_MILLIONS,
    columns::SECTORS_PER_REQUEST,
    columns::SHARED_THOUSANDS,
    columns::CONFLICT_THOUSANDS,
    columns::MS,
    columns::TFLOPS,
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The empty table of a ladder on one problem.
pub(crate) fn step_table(title: impl Into<String>, device: &Device) -> LadderTable {
    let mut table = LadderTable::new(title, device, &STEP_COLUMNS);
    if device.is_sim() {
        table.note(
            "lane M: millions of instructions, each counted once per lane. sectors per request: 32-byte sectors of global \
             memory for each load of a warp. shared k: thousands of wavefronts of shared memory; conflicts k: those of \
             them that are there because lanes met in one bank.",
        );
    }
    table
}
