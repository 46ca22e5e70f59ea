//! What the command shows, a file a part. A part makes tables, and says what in them is wrong.

use common::device::SimOptions;
use common::ladder::{LadderTable, columns};
use common::prelude::*;
use common::record::Record;
use common::table::{ColumnSpec, Table};

pub mod conv;
pub mod gemm;
pub mod layers;
pub mod linear;
pub mod norm;
pub mod resources;

/// A part of the report, as the command line names it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// As the command line takes it.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The names of its tables in a record, in the order in which `run` returns them.
    pub tables: &'static [&'static str],
    /// Whether it is part of a run without names.
    pub by_default: bool,
    /// Makes them.
    pub run: fn(&Device) -> Result<Report>,
}

/// All parts, in the order in which they are read.
pub static PARTS: &[Part] = &[gemm::PART, conv::PART, linear::PART, norm::PART, layers::PART, resources::PART];

/// Tables, and what in them is wrong.
#[derive(Debug, Default)]
pub struct Report {
    /// As [`Part::tables`] names them.
    pub tables: Vec<Table>,
    /// One sentence for each result that is out of tolerance.
    pub wrong: Vec<String>,
}

/// The simulator for a report, should the choice fall on one: it counts what launches ask of memory too.
pub fn simulator() -> SimOptions {
    SimOptions { profile: true, ..SimOptions::default() }
}

/// The runs on a GPU that are kept in `records/`, for where there is none.
///
/// # Errors
/// [`Error::Record`] with the file that is no record.
pub fn records() -> Result<Vec<Record>> {
    common::records!()
}

/// What is new in a step.
pub(crate) const IDEA: ColumnSpec = ColumnSpec::text("idea", "idea");

/// The columns of a ladder: what the simulator counts, what a GPU takes, and the check.
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
