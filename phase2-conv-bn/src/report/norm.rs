//! BatchNorm, ReLU and statistics, step by step: their memory traffic, on planes of all sizes and around all means.

use bench::ladder::{LadderTable, columns};
use bench::parts::{Part, Report};
use bench::table::{Column, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::check::compare;
use common::prelude::*;
use common::reference;

use super::IDEA;
use crate::Step;
use crate::norm::ladders::{Operation, Problem, Rung};
use crate::norm::{batch_norm, ladders, relu, statistics};

/// `cargo run -p phase2-conv-bn -- norm`.
pub const PART: Part = Part {
    name: "norm",
    about: "BatchNorm, ReLU and the statistics of channels: what each step asks of memory, and what it takes",
    tables: &["norm-steps", "norm", "norm-planes", "norm-means"],
    by_default: true,
    run,
};

/// Heights and widths of planes that end inside vectors, warps and blocks in every way.
const PLANES: [usize; 3] = [28, 7, 1];
/// One channel, so that a variance is one number.
const ONE_CHANNEL: [usize; 4] = [4, 1, 28, 28];
/// Means of the values of [`ONE_CHANNEL`].
const MEANS: [f32; 5] = [0.0, 16.0, 256.0, 1024.0, 4096.0];

fn run(device: &Device) -> Result<Report> {
    let mut wrong = Vec::new();
    let tables = vec![steps(), layers(device, &mut wrong)?, planes(device, &mut wrong)?, means(device, &mut wrong)?];
    Ok(Report { tables, wrong })
}

fn bench() -> Bench {
    Bench { queue: Queue::Warm, ..Bench::default() }
}

/// New idea of each step.
fn steps() -> Table {
    fn of<M: Copy>(table: &mut TableBuilder, operation: &str, ladder: &[Step<M>]) {
        for step in ladder {
            let row = table.row().set(OPERATION, operation).set(columns::STEP, step.title());
            row.set(IDEA, step.idea).complete();
        }
    }
    let columns = [OPERATION, columns::STEP, IDEA];
    let mut table = TableBuilder::of("the ladders of what memory limits", columns);
    of(&mut table, "BatchNorm", batch_norm::LADDER);
    of(&mut table, "ReLU", relu::LADDER);
    of(&mut table, "statistics", statistics::LADDER);
    table.finish()
}

const OPERATION: ColumnSpec = ColumnSpec::text("operation", "operation");
const PLANE: ColumnSpec = ColumnSpec::text("plane", "plane");

/// Every step on the tensor of the device's size.
fn layers(device: &Device, wrong: &mut Vec<String>) -> Result<Table> {
    let shape = ladders::shape(device);
    let [n, c, h, w] = shape;
    let columns = [
        OPERATION,
        columns::STEP,
        columns::LANES_PER_VALUE,
        columns::BYTES_PER_VALUE,
        columns::SECTORS_PER_REQUEST,
        columns::MS,
        columns::GBPS,
        columns::MAX_DIFFERENCE,
        columns::CHECK,
    ];
    let title = format!("BatchNorm, ReLU and statistics of {n}×{c}×{h}×{w} on {}", device.short_name());
    let mut table = LadderTable::new(title, device, &columns);
    for Rung { operation, step, run } in Problem::seeded(shape)?.run(device, &bench(), |_, _| ())? {
        table.row(&[(OPERATION, operation.name()), (columns::STEP, &step)], operation.cost(n * c * h * w), &run);
    }
    if device.is_sim() {
        table.note(
            "lanes per value: instructions, each counted once per lane, for each value. bytes per value: that lanes loaded and stored. \
             sectors per request: 32-byte sectors for each load of a warp.",
        );
    }
    table.note(
        "|Δ|: to the f64 reference; of mean and variance the larger. · in place: BatchNorm into its own input. ReLU is in place.",
    );
    let (table, mistakes) = table.finish();
    wrong.extend(mistakes);
    Ok(table)
}

/// BatchNorm on planes of several sizes, with about as many values each.
fn planes(device: &Device, wrong: &mut Vec<String>) -> Result<Table> {
    let columns = [
        PLANE,
        columns::STEP,
        columns::LANES_PER_VALUE,
        columns::LANES_AT_WORK,
        columns::SECTORS_PER_REQUEST,
        columns::MAX_DIFFERENCE,
        columns::CHECK,
    ];
    let title = format!("BatchNorm of 16×64 planes of several sizes on {}", device.short_name());
    let mut table = LadderTable::new(title, device, &columns);
    for size in PLANES {
        let shape = [16, 64, size, size];
        let plane = format!("{size} × {size}");
        let rungs = Problem::seeded(shape)?.run(device, &bench(), |_, _| ())?;
        for Rung { operation, step, run } in rungs.iter().filter(|rung| rung.operation == Operation::BatchNorm) {
            table.row(&[(PLANE, &plane), (columns::STEP, step)], operation.cost(shape.iter().product()), run);
        }
    }
    table.note("lanes at work: of the 32 of each warp that executes an instruction, those that take part, on average.");
    let (table, mistakes) = table.finish();
    wrong.extend(mistakes);
    Ok(table)
}

/// The variance of the same values around larger and larger means.
fn means(device: &Device, wrong: &mut Vec<String>) -> Result<Table> {
    const MEAN: ColumnSpec = ColumnSpec::identity("mean", "mean");
    const IN_F64: ColumnSpec = ColumnSpec::number("in f64", "in f64", 4);
    let of_steps: Vec<Column> = statistics::LADDER.iter().map(|step| Column::number(step.title(), 4)).collect();
    let columns = [MEAN.into(), IN_F64.into()].into_iter().chain(of_steps.clone()).chain([columns::CHECK.into()]);
    let title = format!("the variance of 3136 values within 1 of a mean, on {}", device.short_name());
    let mut table = TableBuilder::of(title, columns);
    let stream = device.stream();
    for centre in MEANS {
        let values = Tensor::random(&ONE_CHANNEL, 1).into_vec()?;
        let input = Tensor::from_vec(&ONE_CHANNEL, values.into_iter().map(|value| centre + value).collect())?;
        let expected = reference::statistics(&input)?;
        let x = input.to_device(device)?;
        let mut row = table.row().set(MEAN, centre).set(IN_F64, expected.variance[0]);
        let mut check = "ok";
        for (step, column) in statistics::LADDER.iter().zip(&of_steps) {
            let [mut mean, mut variance] = [Tensor::empty_on(device, &[1])?, Tensor::empty_on(device, &[1])?];
            stream.poison(variance.buffer_mut()?)?;
            let mut statistics = step.load(device)?;
            statistics.launch(&stream, &x, &mut mean, &mut variance)?;
            let [_, tolerance] = statistics.tolerances(&expected, &input)?;
            let variance = variance.into_vec()?;
            if let Err(mismatch) = compare(&variance, &expected.variance, tolerance) {
                wrong.push(format!("the variance around {centre} by {}: {mismatch}", step.title()));
                check = "WRONG";
            }
            row = row.set(column, variance[0]);
        }
        row.set(columns::CHECK, check).complete();
    }
    // The profiles are of no use here, and not to be counted as those of the next part.
    device.as_sim().map(|sim| sim.take_profiles());
    table.note(
        "in f64: of the values as f32 has them. check: each step within what its own method may be off by, which at a large mean is \
         more than the variance for all but the last.",
    );
    Ok(table.finish())
}
