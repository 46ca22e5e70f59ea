//! Phase 1: everything between a Rust program and a kernel, one step at a time.
//!
//! Each step is one file with a question, a table that answers it, and a doc comment that says what to expect and what to look
//! at. Read the files in this order:
//!
//! | step | kernel | what it is about |
//! | --- | --- | --- |
//! | [`step01_device_query`] | | the device's figures, which later steps use |
//! | [`step02_memory`] | | allocate, copy and free, and the memory in use; running out of memory |
//! | [`step03_transfers`] | | pageable and pinned host memory, in both directions and within the device |
//! | [`step04_vector_add`] | `01_vector_add.cu` | the first kernel: one thread per element, and a ragged last block |
//! | [`step05_grid_stride`] | `02_grid_stride.cu` | a grid of fixed size for any n |
//! | [`step06_launch_overhead`] | `03_empty.cu` | what a launch costs when the kernel does nothing |
//! | [`step07_streams`] | `04_iterate.cu` | copies and kernels that overlap, ordered by events |
//! | [`step08_transfer_test`] | | layers on the CPU, data copied through the device: why phase 1 is slower than no GPU at all |
//! | [`step09_errors`] | `05_mistakes.cu` | the errors that wrong launches give |
//! | [`step10_benchmarking`] | `01_vector_add.cu` | one kernel timed rightly, and wrongly in five ways |
//! | [`step11_latency_hiding`] | `09_chains.cu`, `10_loads.cu` | warps and independent instructions: what hides latency |
//! | [`memory_model`] | `06_message.cu`, `07_swap.cu`, `08_last_block.cu` | when another thread sees what one wrote |
//! | [`trials`] | | those of the memory model against what they have to compute, for whoever changes one |
//! | [`occupancy`] | | a calculator: how many blocks of a kernel an SM holds |
//! | [`host_exercises`] | | judges of the exercises in `examples/`: streams, a graph, a benchmark of one's own |
//! | [`doctor`] | | what is installed here, and how to install the rest |
//!
//! There is also [`broken`], a gallery of twelve kernels with one bug each (`broken_NN_….cu`) and their repaired versions
//! (`repaired_NN_….cu`).
//!
//! [`STEPS`] lists them for the command, [`cli`]. Every step runs the same code on a GPU and on the simulator. A GPU
//! gives times; the simulator has no clock and gives counts. Tables have columns for both, with a dash for what a device can't
//! provide. On the simulator, times recorded on a GPU are shown instead, marked as such.

use bench::record::{Record, merge};
use bench::table::{Cell, ColumnSpec, Table};
use bench::timing::Timing;
use common::{Device, Error, Result};

pub mod broken;
pub mod cli;
pub mod doctor;
pub mod host_exercises;
pub mod memory_model;
pub mod occupancy;
pub mod step01_device_query;
pub mod step02_memory;
pub mod step03_transfers;
pub mod step04_vector_add;
pub mod step05_grid_stride;
pub mod step06_launch_overhead;
pub mod step07_streams;
pub mod step08_transfer_test;
pub mod step09_errors;
pub mod step10_benchmarking;
pub mod step11_latency_hiding;
pub mod trials;

/// One entry of the command.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Name on the command line.
    pub name: &'static str,
    /// The question that its tables answer.
    pub question: &'static str,
    /// The work that it runs.
    pub run: Run,
    /// Names of its tables in a record: unlike their titles, the same on each device and in each run.
    pub tables: &'static [&'static str],
    /// The part of a recorded run that is shown on the simulator.
    pub recorded: Recorded,
}

/// The part of a recorded GPU run that is shown on a machine without a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing: the simulator shows everything.
    Nothing,
    /// Its columns, in place of dashes: both devices do the same work.
    Columns,
    /// Its table, below the simulator's: a GPU does far more work.
    Table,
}

impl Step {
    /// Tables printed for the table `name` of this step.
    pub fn shown(&self, name: &str, table: &Table, records: &[Record]) -> Vec<Table> {
        match self.recorded {
            Recorded::Nothing => vec![table.clone()],
            Recorded::Columns => vec![merge(table, name, records)],
            Recorded::Table => {
                let quoted = records.iter().filter_map(|record| record.quote(name));
                std::iter::once(table.clone()).chain(quoted).collect()
            }
        }
    }
}

/// The runs stored in `records/`.
///
/// # Errors
/// [`Error::Record`] with the file that is not a record.
pub fn records() -> Result<Vec<Record>> {
    bench::records!("nvidia-h200.json", "nvidia-h200-broken.json", "nvidia-h100.json")
}

/// Whether a step needs a device.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// A device; part of a run without names.
    OnDevice(fn(&Device) -> Result<Vec<Table>>),
    /// Nothing, so that it works even if no device does; runs only when named.
    Anywhere(fn() -> Result<Vec<Table>>),
}

/// All steps, in reading order.
pub static STEPS: [Step; 12] = [
    Step {
        name: "device-query",
        question: "What is this device made of?",
        run: Run::OnDevice(step01_device_query::run),
        tables: &["device-query"],
        recorded: Recorded::Table,
    },
    Step {
        name: "memory",
        question: "How is device memory allocated, and when is it freed?",
        run: Run::OnDevice(step02_memory::run),
        tables: &["memory"],
        recorded: Recorded::Nothing,
    },
    Step {
        name: "transfers",
        question: "How fast are copies from pageable and from pinned host memory?",
        run: Run::OnDevice(step03_transfers::run),
        tables: &["transfers"],
        recorded: Recorded::Columns,
    },
    Step {
        name: "vector-add",
        question: "What does the first kernel need, and what does its last block do?",
        run: Run::OnDevice(step04_vector_add::run),
        tables: &["vector-add"],
        recorded: Recorded::Columns,
    },
    Step {
        name: "grid-stride",
        question: "How many blocks are enough?",
        run: Run::OnDevice(step05_grid_stride::run),
        tables: &["grid-stride"],
        recorded: Recorded::Table,
    },
    Step {
        name: "launch-overhead",
        question: "What does a launch cost if the kernel does nothing?",
        run: Run::OnDevice(step06_launch_overhead::run),
        tables: &["launch-overhead"],
        recorded: Recorded::Columns,
    },
    Step {
        name: "streams",
        question: "Can copies overlap with kernels?",
        run: Run::OnDevice(step07_streams::run),
        tables: &["streams", "streams-timeline-1", "streams-timeline-3"],
        recorded: Recorded::Table,
    },
    Step {
        name: "transfer-test",
        question: "Why is a GPU that only stores the data slower than no GPU at all?",
        run: Run::OnDevice(step08_transfer_test::run),
        tables: &["transfer-test"],
        recorded: Recorded::Table,
    },
    Step {
        name: "errors",
        question: "How does a wrong launch show itself?",
        run: Run::OnDevice(step09_errors::run),
        tables: &["errors"],
        recorded: Recorded::Nothing,
    },
    Step {
        name: "benchmarking",
        question: "How many figures can one kernel have?",
        run: Run::OnDevice(step10_benchmarking::run),
        tables: &["benchmarking"],
        recorded: Recorded::Columns,
    },
    Step {
        name: "latency-hiding",
        question: "How many warps, with how many independent instructions each, keep an SM busy?",
        run: Run::OnDevice(step11_latency_hiding::run),
        tables: &["latency-chains", "latency-loads", "latency-counts", "occupancy-limits"],
        recorded: Recorded::Columns,
    },
    Step {
        name: "doctor",
        question: "What is installed here, and how do you install the rest? (only when named)",
        run: Run::Anywhere(doctor::run),
        tables: &["doctor"],
        recorded: Recorded::Nothing,
    },
];

/// The length that all buffers of an element-wise kernel must share, as the kernel's 32-bit parameter.
///
/// # Errors
/// [`Error::Shape`] if the lengths differ or reach 2³¹; below that no index of such a kernel wraps round.
pub fn common_length(operation: &str, lengths: &[usize]) -> Result<u32> {
    let wrong = |detail: String| Err(Error::shape(operation, detail));
    let n = lengths.first().copied().unwrap_or(0);
    if lengths.iter().any(|&length| length != n) {
        return wrong(format!("buffers of {lengths:?} elements, all must be equal"));
    }
    match i32::try_from(n) {
        Ok(n) => Ok(n.unsigned_abs()),
        Err(_) => wrong(format!("{n} elements, this kernel counts to 2³¹ − 1")),
    }
}

pub(crate) use bench::timing::NO_CLOCK;
/// The note on a dash in a column of counts.
pub(crate) const NO_COUNTS: &str = "no count: a GPU does not count instructions, the simulator does";

/// Columns that several steps have.
pub(crate) mod columns {
    use bench::table::ColumnSpec;

    pub(crate) const MAX_DIFFERENCE: ColumnSpec = ColumnSpec::number("max |Δ|", "max |Δ|", 1);
    pub(crate) const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);
    pub(crate) const GBPS: ColumnSpec = ColumnSpec::number("GB/s", "GB/s", 1);
    pub(crate) const PER_ELEMENT: ColumnSpec =
        ColumnSpec::number("lane instructions per element", "lane instructions per element", 1);
}

/// Milliseconds, GB/s for the `bytes` that one run moves, and lane instructions per element of its `elements`.
pub(crate) fn timing_cells(timing: &Timing, bytes: usize, elements: usize) -> [(ColumnSpec, Cell); 3] {
    let instructions = timing.counts().map(|counts| counts.lane_instructions as f64 / elements.max(1) as f64);
    [
        (columns::MS, Cell::or_absent(timing.median_ms(), NO_CLOCK)),
        (columns::GBPS, Cell::or_absent(timing.rate(bytes as f64).map(|rate| rate / 1e9), NO_CLOCK)),
        (columns::PER_ELEMENT, Cell::or_absent(instructions, NO_COUNTS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_must_agree_and_fit() {
        assert_eq!(common_length("add", &[]).unwrap(), 0);
        assert_eq!(common_length("add", &[5, 5, 5]).unwrap(), 5);
        assert_eq!(common_length("add", &[i32::MAX as usize]).unwrap(), i32::MAX.unsigned_abs());
        assert_eq!(
            common_length("add", &[5, 4]).unwrap_err().to_string(),
            "add: buffers of [5, 4] elements, all must be equal"
        );
        let error = common_length("add", &[1 << 31]).unwrap_err().to_string();
        assert_eq!(error, "add: 2147483648 elements, this kernel counts to 2³¹ − 1");
    }

    #[test]
    fn names_of_steps_and_of_tables_are_unique() {
        for mut names in [STEPS.map(|step| step.name).to_vec(), STEPS.map(|step| step.tables).concat()] {
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }

    #[test]
    fn every_record_in_the_folder_is_built_in_and_together_they_have_every_table() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/records")).unwrap();
        let files = folder.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"));
        let records = records().unwrap();
        assert_eq!(records.len(), files.count());
        let measured = STEPS.iter().filter(|step| matches!(step.run, Run::OnDevice(_))).flat_map(|step| step.tables);
        let missing: Vec<_> =
            measured.filter(|name| records.iter().all(|record| record.table(name).is_none())).collect();
        assert!(missing.is_empty(), "no record has {missing:?}");
        for table in records.iter().flat_map(|record| &record.tables) {
            let text = table.table.to_text();
            assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
        }
    }
}
