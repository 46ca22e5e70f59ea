//! The classic patterns: a table for each, with a row per step.

use bench::ladder::{LadderTable, Peak, columns};
use bench::parts::{Part, Report};
use bench::table::{ColumnSpec, Table};
use bench::timing::{Bench, Queue};
use common::prelude::*;

use crate::patterns::{
    PATTERNS, Pattern, PatternRun, Trial, histogram, radix_sort, reduction, scan, sparse, stencil, top_k, transpose,
};

/// `cargo run -p phase2-conv-bn -- patterns`: all of them. With names of patterns after it, the command runs only those.
pub const PART: Part = Part {
    name: "patterns",
    about: "all classic patterns; `patterns scan` shows one",
    tables: &["reduction", "scan", "transpose", "stencil", "histogram", "radix-sort", "top-k", "spmv"],
    by_default: false,
    run: |device| report(device, PATTERNS),
};

/// `cargo run -p phase2-conv-bn -- reduction`.
pub const REDUCTION: Part =
    part(&reduction::PATTERN, &[reduction::PATTERN.name], |device| report(device, &[reduction::PATTERN]));

/// `cargo run -p phase2-conv-bn -- scan`.
pub const SCAN: Part = part(&scan::PATTERN, &[scan::PATTERN.name], |device| report(device, &[scan::PATTERN]));

/// `cargo run -p phase2-conv-bn -- transpose`.
pub const TRANSPOSE: Part =
    part(&transpose::PATTERN, &[transpose::PATTERN.name], |device| report(device, &[transpose::PATTERN]));

/// `cargo run -p phase2-conv-bn -- stencil`.
pub const STENCIL: Part =
    part(&stencil::PATTERN, &[stencil::PATTERN.name], |device| report(device, &[stencil::PATTERN]));

/// `cargo run -p phase2-conv-bn -- histogram`.
pub const HISTOGRAM: Part =
    part(&histogram::PATTERN, &[histogram::PATTERN.name], |device| report(device, &[histogram::PATTERN]));

/// `cargo run -p phase2-conv-bn -- radix-sort`.
pub const RADIX_SORT: Part =
    part(&radix_sort::PATTERN, &[radix_sort::PATTERN.name], |device| report(device, &[radix_sort::PATTERN]));

/// `cargo run -p phase2-conv-bn -- top-k`.
pub const TOP_K: Part = part(&top_k::PATTERN, &[top_k::PATTERN.name], |device| report(device, &[top_k::PATTERN]));

/// `cargo run -p phase2-conv-bn -- spmv`.
pub const SPMV: Part = part(&sparse::PATTERN, &[sparse::PATTERN.name], |device| report(device, &[sparse::PATTERN]));

/// The part of one pattern, whose table has its name.
const fn part(pattern: &Pattern, tables: &'static [&'static str], run: fn(&Device) -> Result<Report>) -> Part {
    Part { name: pattern.name, about: pattern.about, tables, by_default: true, run }
}

/// Columns of a pattern that moves values: the simulator's counts, the GPU's times, and the check.
const MOVING: &[ColumnSpec] = &[
    columns::STEP,
    columns::LANES_PER_VALUE.on_simulator(),
    columns::SECTORS_PER_REQUEST.on_simulator(),
    columns::SECTORS_PER_STORE.on_simulator(),
    columns::BYTES_MOVED_PER_VALUE.on_simulator(),
    columns::CONFLICT_THOUSANDS.on_simulator(),
    columns::MS.on_gpu(),
    columns::FLOOR_MS.on_gpu(),
    columns::GBPS.on_gpu(),
    columns::OF_FLOOR.on_gpu(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Columns of a pattern that adds to few addresses.
const ADDING: &[ColumnSpec] = &[
    columns::STEP,
    columns::LANES_PER_VALUE.on_simulator(),
    columns::SECTORS_PER_REQUEST.on_simulator(),
    columns::BYTES_MOVED_PER_VALUE.on_simulator(),
    columns::ATOMIC_THOUSANDS.on_simulator(),
    columns::COLLISION_THOUSANDS.on_simulator(),
    columns::MS.on_gpu(),
    columns::FLOOR_MS.on_gpu(),
    columns::GBPS.on_gpu(),
    columns::OF_FLOOR.on_gpu(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Columns of the sparse product, whose lanes may wait for one another.
const SPARSE: &[ColumnSpec] = &[
    columns::STEP,
    columns::LANES_PER_VALUE.on_simulator(),
    columns::LANES_AT_WORK.on_simulator(),
    columns::SECTORS_PER_REQUEST.on_simulator(),
    columns::BYTES_MOVED_PER_VALUE.on_simulator(),
    columns::CONFLICT_THOUSANDS.on_simulator(),
    columns::MS.on_gpu(),
    columns::FLOOR_MS.on_gpu(),
    columns::GBPS.on_gpu(),
    columns::OF_FLOOR.on_gpu(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The columns of a pattern's table.
fn columns_of(pattern: &Pattern) -> &'static [ColumnSpec] {
    let is = |others: &[Pattern]| others.iter().any(|other| other.name == pattern.name);
    if is(&[reduction::PATTERN, histogram::PATTERN, top_k::PATTERN]) {
        ADDING
    } else if is(&[sparse::PATTERN]) {
        SPARSE
    } else {
        MOVING
    }
}

/// Parts selected by `names`: `patterns scan` is only scan.
pub fn chosen(names: &[String]) -> Vec<String> {
    let is_pattern = |name: &&String| PATTERNS.iter().any(|pattern| pattern.name == **name);
    let is_narrowed = names.iter().any(|name| is_pattern(&name));
    names.iter().filter(|name| *name != PART.name || !is_narrowed).cloned().collect()
}

fn report(device: &Device, patterns: &[Pattern]) -> Result<Report> {
    let mut report = Report::default();
    for pattern in patterns {
        let (table, wrong) = table(device, pattern)?;
        report.tables.push(table);
        report.wrong.extend(wrong);
    }
    Ok(report)
}

fn table(device: &Device, pattern: &Pattern) -> Result<(Table, Vec<String>)> {
    let bench = Bench { queue: Queue::Cold, ..Bench::default() };
    let runs = (pattern.run)(&Trial { device, bench: &bench, announce: &|_| () })?;
    let size = runs.first().map_or("", |run| run.size.as_str());
    let title = format!("{}: {}, {size}, on {}", pattern.name, pattern.about, device.short_name());
    let bandwidth = device.properties().memory_bandwidth();
    // The floor is that of memory; no pattern is measured against the peak of arithmetic.
    let peak = bandwidth.map(|bandwidth| Peak { flops: f64::INFINITY, bandwidth });
    let mut table = LadderTable::new(title, device, columns_of(pattern)).with_peak(peak);
    for PatternRun { step, cost, run, .. } in &runs {
        table.row(&[(columns::STEP, step)], *cost, run);
    }
    if device.is_sim() {
        table.note(COUNTS);
    }
    if let Some(bandwidth) = bandwidth {
        table.note(format!(
            "floor: the time that the problem's bytes take at {:.2} TB/s, the memory's peak. The caches are cold.",
            bandwidth / 1e12
        ));
    }
    Ok(table.finish())
}

/// Explanation of the counts.
const COUNTS: &str = "lanes per value: instructions, each counted once per lane. lanes at work: of the 32 of each instruction. \
                      sectors: of 32 bytes of global memory, for each load or store of a warp. bytes moved: of all sectors that \
                      loads, stores and atomics touched. conflicts k: thousands of wavefronts of shared memory that bank conflicts \
                      cost. atomics k: thousands of atomic instructions of warps; lanes met k: of lanes in them that found another \
                      lane of their warp at their address.";
