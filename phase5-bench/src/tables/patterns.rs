//! `patterns`: every step of phase 2's classic patterns, on a problem that no cache holds, against the time that its bytes take to pass
//! through memory once.

use bench::ladder::{LadderTable, Peak, columns};
use bench::table::ColumnSpec;
use bench::timing::{Bench, Queue};
use common::device::SimOptions;
use common::prelude::*;
use common::progress::Progress;
use phase2_conv_bn::patterns::{PATTERNS, PatternRun, Trial};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};

const PATTERN: ColumnSpec = ColumnSpec::text("pattern", "pattern");
const COLUMNS: &[ColumnSpec] = &[
    PATTERN,
    columns::STEP,
    columns::MS,
    columns::FLOOR_MS.on_gpu(),
    columns::GBPS.on_gpu(),
    columns::OF_FLOOR.on_gpu(),
    columns::LANES_PER_VALUE.on_simulator(),
    columns::BYTES_MOVED_PER_VALUE.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "patterns",
    shows: "classic patterns: ms, and the time that their bytes take as a share of it",
    uses: &[Need::Gpu],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let profiling;
    let device = if context.device.is_sim() {
        profiling = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
        &profiling
    } else {
        &context.device
    };
    let progress = Progress::new(PATTERNS.len() as u64, "patterns");
    let bench = Bench { queue: Queue::Cold, ..Bench::default() };
    let bandwidth = device.properties().memory_bandwidth();
    // The floor is that of memory; no pattern is measured against the peak of arithmetic.
    let peak = bandwidth.map(|bandwidth| Peak { flops: f64::INFINITY, bandwidth });
    let title = format!("patterns on {}", context.device.short_name());
    let mut table = LadderTable::new(title, &context.device, COLUMNS).with_peak(peak);
    let mut sizes = Vec::new();
    for pattern in PATTERNS {
        let announce = |step: &str| progress.set_message(format!("patterns: {}, {step}", pattern.name));
        let runs = (pattern.run)(&Trial { device, bench: &bench, announce: &announce })?;
        if let Some(PatternRun { size, .. }) = runs.first() {
            sizes.push(format!("{}: {}, {size}", pattern.name, pattern.about));
        }
        for PatternRun { step, cost, run, .. } in &runs {
            table.row(&[(PATTERN, pattern.name), (columns::STEP, step)], *cost, run);
        }
        progress.inc(1);
    }
    progress.finish();
    table.note(format!("{}.", sizes.join("; ")));
    match bandwidth {
        Some(bandwidth) => table.note(format!(
            "floor: the time that the bytes which a problem has to read and write take at {:.2} TB/s, the memory's peak. Medians by \
             events of the device alone, with cold caches.",
            bandwidth / 1e12
        )),
        None => table.note(
            "lanes per value: instructions, each counted once per lane. bytes moved: of all sectors that loads, stores and atomics \
             touched. A value of spmv is a non-zero, one of radix-sort a pair.",
        ),
    }
    Ok(table.into())
}
