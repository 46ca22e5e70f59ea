//! `ptx`: phase 4's pairs of kernels, in CUDA C and in PTX, each version compared with the first.

use bench::ladder::{LadderTable, Peak, StepRun, columns};
use bench::table::ColumnSpec;
use common::device::SimOptions;
use common::prelude::*;
use common::progress::Progress;
use phase4_fusion::ptx::PAIRS;
use phase4_fusion::report::ptx::{PAIR, sizes};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::peers;

const COLUMNS: &[ColumnSpec] = &[
    PAIR,
    columns::STEP,
    columns::MS,
    columns::GBPS.on_gpu(),
    columns::TFLOPS.on_gpu(),
    columns::OF_PEER,
    columns::OF_COPY.on_gpu(),
    columns::LANES_PER_VALUE.on_simulator(),
    columns::SECTORS_PER_REQUEST.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "ptx",
    shows: "kernels in CUDA C and in PTX: ms, GB/s, % of the first version",
    uses: &[Need::Gpu],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = if context.device.is_sim() {
        Device::sim_with(SimOptions { profile: true, ..SimOptions::default() })
    } else {
        context.device.clone()
    };
    let bench = peers::bench();
    let problems: Vec<_> =
        PAIRS.iter().flat_map(|pair| sizes(pair, &device).into_iter().map(move |size| (pair, size))).collect();
    let progress = Progress::new(problems.iter().map(|(pair, _)| pair.versions.len() as u64).sum(), "ptx");
    let limits = context.limits()?;
    let mut table =
        LadderTable::new(format!("ptx: kernels in CUDA C and in PTX on {}", device.short_name()), &device, COLUMNS)
            .with_peer("the first")
            .with_peak(limits.map(Peak::from));
    for (pair, size) in problems {
        let name = format!("{} {}", pair.name, size.label());
        let mut runs: Vec<(String, StepRun)> = pair.run(&device, &bench, size, |title| {
            progress.set_message(format!("ptx: {name}, {title}"));
            progress.inc(1);
        })?;
        let (first, run) = runs.remove(0);
        let others = runs.iter().map(|(title, run)| (title.as_str(), run.clone()));
        table.problem((PAIR, &name), (pair.cost)(size), (&first, run), others);
    }
    progress.finish();
    match &limits {
        Some(limits) => {
            table.note(
                "Medians by events of the device alone, launches queued ahead, inputs as warm as a run leaves them: up to 2^22 \
                 floats in and out fit the L2 cache.",
            );
            table.note(limits.note());
        }
        None => table.note(
            "lanes per value: instructions of the PTX, counted by lane, for each value; of markov's matrices, for each element. \
             sectors per request: of 32 bytes, for each load of a warp.",
        ),
    }
    table.note(
        "% of the first: the speed of the pair's first version is 100. GB/s: each value read once and written once.",
    );
    table.note(
        "|Δ|: to the f64 reference; of large outputs a seeded sample of 16384 is compared, and all must be finite.",
    );
    Ok(table.into())
}

#[cfg(test)]
mod tests {
    use bench::table::{DeviceKind, TableBuilder, WIDTH};
    use phase4_fusion::ptx::Pair;

    use super::*;

    /// With times of a few milliseconds. No machine without a GPU makes this table: only a record would reveal that it is too
    /// wide.
    #[test]
    fn a_line_of_a_gpu_fits_a_terminal() {
        let mut table = TableBuilder::new("ptx", DeviceKind::Gpu, COLUMNS);
        for Pair { name, versions, measured, .. } in PAIRS {
            for size in *measured {
                for step in *versions {
                    let row =
                        table.row().set(PAIR, format!("{name} {}", size.label())).set(columns::STEP, step.title());
                    let row = row.set(columns::MS, 1.2345).set(columns::GBPS, 12345.0).set(columns::TFLOPS, 123.45);
                    let row = row.set(columns::OF_PEER, 678.9).set(columns::OF_COPY, 123.4);
                    row.set(columns::MAX_DIFFERENCE, 1.2e-10).set(columns::CHECK, "WRONG").complete();
                }
            }
        }
        let text = table.finish().to_text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}
