//! What the command shows, a file a part. A part makes tables, and says what in them is wrong.

use common::device::SimOptions;
use common::ladder::Outcome;
use common::prelude::*;
use common::ptx_sim::{Counters, Profile};
use common::record::Record;
use common::table::{Cell, Column, Table};

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

pub(crate) use common::timing::NO_CLOCK;
/// Behind a dash in a column of counts.
pub(crate) const NO_COUNTS: &str = "no count: a GPU does not count, the simulator does";

/// The table of a ladder: a row a step, with what the simulator counts, or what a GPU takes, and the check.
pub(crate) struct Rungs {
    table: Table,
    wrong: Vec<String>,
    /// The least and the most that a result of a row may be off by.
    allowed: Option<(f64, f64)>,
    device: Device,
}

impl Rungs {
    pub(crate) fn new(title: impl Into<String>, device: &Device) -> Rungs {
        let columns = [
            Column::text("step"),
            Column::number("lane M", 2),
            Column::number("sectors a request", 1),
            Column::number("shared k", 1),
            Column::number("conflicts k", 1),
            Column::number("ms", 4),
            Column::number("TFLOP/s", 2),
            Column::number("max |Δ|", 3),
            Column::text("check"),
        ];
        let mut table = Table::new(title, columns);
        if device.is_sim() {
            table.note(
                "lane M: millions of instructions, each counted once a lane. sectors a request: 32-byte sectors of global \
                 memory for each load of a warp. shared k: thousands of wavefronts of shared memory; conflicts k: those of \
                 them that are there because lanes met in one bank.",
            );
        }
        Rungs { table, wrong: Vec::new(), allowed: None, device: device.clone() }
    }

    /// Appends what became of a step that does `flops` operations. What the simulator counted since the last row is this
    /// step's, however many launches it needs, and is returned.
    pub(crate) fn row(&mut self, step: String, flops: f64, allowed: f64, outcome: &Outcome) -> Vec<Profile> {
        let profiles = self.device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default();
        let (least, most) = self.allowed.unwrap_or((allowed, allowed));
        self.allowed = Some((least.min(allowed), most.max(allowed)));
        let mut cells = vec![Cell::from(step.as_str())];
        match outcome {
            Outcome::Ran { timing, report } => {
                cells.extend(counted(&profiles));
                cells.push(Cell::or_absent(timing.median_ms(), NO_CLOCK));
                cells.push(Cell::or_absent(timing.rate(flops).map(|rate| rate / 1e12), NO_CLOCK));
                cells.extend([report.max_abs.into(), "ok".into()]);
            }
            Outcome::Unsupported(reason) => {
                cells.extend((0..7).map(|_| Cell::absent(reason.as_str())));
                cells.push("—".into());
            }
            Outcome::Wrong(mismatch) => {
                self.wrong.push(format!("{step}: {mismatch}"));
                cells.extend((0..7).map(|_| Cell::absent("not measured, since it is wrong: see the message")));
                cells.push("WRONG".into());
            }
        }
        self.table.row(cells);
        profiles
    }

    /// The table, and what is wrong in it.
    pub(crate) fn finish(mut self) -> (Table, Vec<String>) {
        let allowed = match self.allowed {
            Some((least, most)) if least < most => format!("{least:.1e} to {most:.1e}"),
            Some((allowed, _)) => format!("{allowed:.1e}"),
            None => "nothing".to_owned(),
        };
        self.table.note(format!(
            "|Δ|: to the reference, which accumulates in f64. What f32 rounding may cost is derived, and allowed: {allowed}."
        ));
        (self.table, self.wrong)
    }
}

/// The four columns of counts.
fn counted(profiles: &[Profile]) -> [Cell; 4] {
    if profiles.is_empty() {
        return [(); 4].map(|()| Cell::absent(NO_COUNTS));
    }
    let mut sum = Counters::default();
    profiles.iter().for_each(|profile| sum += profile.counters);
    // Loads count copies by cp.async too.
    let sectors = sum.global_load_sectors as f64 / sum.global_load_requests.max(1) as f64;
    let shared = sum.shared_load_wavefronts + sum.shared_store_wavefronts + sum.async_copy_wavefronts;
    let conflicts = sum.shared_load_conflicts + sum.shared_store_conflicts;
    [
        (sum.lane_instructions as f64 / 1e6).into(),
        sectors.into(),
        (shared as f64 / 1e3).into(),
        (conflicts as f64 / 1e3).into(),
    ]
}
