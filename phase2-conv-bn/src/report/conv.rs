//! The convolution ladder: each step on three kinds of window, what im2col needs, and what is chosen for real layers.

use common::ladder::{self, Expected, Outcome};
use common::prelude::*;
use common::ptx_sim::Profile;
use common::table::{Cell, Column, Table};
use common::timing::{Bench, Queue};

use super::{NO_COUNTS, Part, Report, Rungs};
use crate::conv::shapes::{NOTATION, Shape, shape};
use crate::conv::{Choice, LADDER, step04_im2col};

/// `cargo run -p phase2-conv-bn -- conv`.
pub const PART: Part = Part {
    name: "conv",
    about: "the ladder of convolutions, the memory of im2col, and which step is chosen for which layer",
    tables: &["conv-steps", "conv-3x3", "conv-stem", "conv-pointwise", "conv-loads", "conv-shapes"],
    by_default: true,
    run,
};

/// A kind of window: what to call it, its shape on the simulator, and on a GPU, where it is one of ResNet18's.
struct Kind {
    name: &'static str,
    simulated: Shape,
    measured: Shape,
}

/// On the simulator 2 × 16 × 16 pixels and 64 output channels in all of them, which are whole tiles of every step.
const KINDS: [Kind; 3] = [
    Kind { name: "3×3", simulated: shape(64, 64, 3, 1, 16).images(2), measured: shape(64, 64, 3, 1, 56).images(32) },
    Kind { name: "7×7/2", simulated: shape(3, 64, 7, 2, 32).images(2), measured: shape(3, 64, 7, 2, 224).images(32) },
    Kind {
        name: "1×1/2", simulated: shape(64, 64, 1, 2, 32).images(2), measured: shape(64, 128, 1, 2, 56).images(32)
    },
];

/// Multiprocessors of an H200, for a device that has no number of them to tell.
const H200: u32 = 132;

/// Behind a dash in the column of tiles.
const ONE_TILE: &str = "the step has one tile; Winograd's is of 64 channels × 32 times 2×2 pixels";

/// The steps, a table for each kind of window, their loads, and real layers.
fn run(device: &Device) -> Result<Report> {
    let mut report = Report { tables: vec![steps()], wrong: Vec::new() };
    let mut loads = Vec::new();
    for kind in &KINDS {
        let (table, wrong, loads_of_kind) = ladder(device, kind)?;
        report.tables.push(table);
        report.wrong.extend(wrong);
        loads.push(loads_of_kind);
    }
    report.tables.push(loads_table(device, &loads));
    report.tables.push(shapes(device)?);
    Ok(report)
}

/// What is new in each step.
fn steps() -> Table {
    let mut table = Table::new("the convolution ladder", [Column::text("step"), Column::text("idea")]);
    for step in LADDER {
        table.row([step.title().into(), step.idea().into()]);
    }
    table
}

/// Every step on one shape: the table, what in it is wrong, and each step's loads.
fn ladder(device: &Device, kind: &Kind) -> Result<(Table, Vec<String>, Vec<Cell>)> {
    let shape = if device.is_sim() { kind.simulated } else { kind.measured };
    let mut rungs = Rungs::new(format!("convolution {} on {}", shape.name(), device.short_name()), device);
    let mut loads = Vec::new();

    let (stream, params) = (device.stream(), shape.params());
    let (x, w) = (Tensor::random(&shape.input(), 1), Tensor::random(&shape.weight(), 2));
    let expected = Expected::conv2d(&x, &w, None, params, 3)?;
    let (x, w) = (x.to_device(device)?, w.to_device(device)?);
    let mut y = Tensor::empty_on(device, &shape.output())?;
    let bench = Bench { queue: Queue::Warm, ..Bench::default() };
    for step in LADDER {
        let outcome = match step.load(device) {
            Ok(conv) => {
                ladder::run(&stream, &bench, &mut y, &expected, |y| conv.launch(&stream, &x, &w, None, params, y))?
            }
            Err(error) if error.is_unsupported() => Outcome::Unsupported(error.to_string()),
            Err(error) => return Err(error),
        };
        let profiles = rungs.row(step.title(), shape.flops(), expected.tolerance().absolute, &outcome);
        loads.push(match outcome {
            Outcome::Unsupported(reason) => Cell::Absent(reason),
            _ => loads_a_product(&profiles, shape),
        });
    }
    let (mut table, wrong) = rungs.finish();
    table.note(NOTATION);
    Ok((table, wrong, loads))
}

/// Requests for global memory, of a warp each, for 32 multiply-adds.
fn loads_a_product(profiles: &[Profile], shape: Shape) -> Cell {
    if profiles.is_empty() {
        return Cell::absent(NO_COUNTS);
    }
    let requests: u64 = profiles.iter().map(|profile| profile.counters.global_load_requests).sum();
    (requests as f64 * 32.0 / (shape.flops() / 2.0)).into()
}

/// A row a step, a column a kind of window.
fn loads_table(device: &Device, loads: &[Vec<Cell>]) -> Table {
    let columns = KINDS.iter().map(|kind| Column::number(kind.name, 3));
    let title = format!("loads of global memory a multiply-add, on {}", device.short_name());
    let mut table = Table::new(title, [Column::text("step")].into_iter().chain(columns));
    for (at, step) in LADDER.iter().enumerate() {
        let cells = loads.iter().filter_map(|of_kind| of_kind.get(at).cloned());
        table.row([Cell::from(step.title())].into_iter().chain(cells));
    }
    table.note(
        "Instructions of a warp, of 4 bytes a lane or 16, copies by cp.async too, for each multiply-add of a warp.",
    );
    table
}

/// ResNet18's and a U-Net's convolutions: their floor, im2col's matrix, and what is chosen.
fn shapes(device: &Device) -> Result<Table> {
    let processors = device.properties().multiprocessors.unwrap_or(H200) as usize;
    let columns = [
        Column::text("convolution"),
        Column::number("GFLOP", 2),
        Column::number("input MB", 1),
        Column::number("im2col MB", 1),
        Column::text("chosen"),
        Column::text("tile"),
        Column::number("cuts", 0),
        Column::number("model ms", 4),
    ];
    let title = format!("im2col's matrix and the chosen step, for {processors} multiprocessors");
    let mut table = Table::new(title, columns);
    for shape in Shape::all() {
        let (x, w) = (Tensor::zeros(&shape.input()), Tensor::zeros(&shape.weight()));
        let matrix = step04_im2col::STEP.load(device).and_then(|im2col| im2col.workspace_bytes(&x, &w, shape.params()));
        let Choice { step, tile, cuts, microseconds } = Choice::new(&x, &w, shape.params(), false, processors)?;
        table.row([
            shape.name().into(),
            (shape.flops() / 1e9).into(),
            (size_of_val(x.as_slice()?) as f64 / 1e6).into(),
            Cell::from_result(matrix.map(|bytes| bytes as f64 / 1e6))?,
            step.title().into(),
            tile.map_or_else(|| Cell::absent(ONE_TILE), Cell::from),
            cuts.into(),
            Cell::or_absent(microseconds.map(|time| time / 1e3), "the model does not know this step"),
        ]);
    }
    table.note(NOTATION);
    table.note(
        "tile: output channels × pixels of a block. cuts: blocks among which its taps are cut. model ms: with the weights' \
         transform, if it is Winograd.",
    );
    Ok(table)
}
