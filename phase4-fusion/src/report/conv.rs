//! The convolution ladder on tensor cores: each step on three kinds of layer, and the chosen tile for real layers.

use bench::ladder::{Contest, Cost, LoadedStep, StepRun, columns, if_supported, load_steps};
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;
use phase2_conv_bn::conv::shapes::{NOTATION, RESNET18, RESNET18_BATCHES, Shape, shape};

use super::{IDEA, allowed, finish, step_table};
use crate::conv::problem::{ConvProblem, Finish};
use crate::conv::{Conv, LADDER, PRECISIONS, Size, Tuned};
use crate::gemm::Precision;

/// `cargo run -p phase4-fusion -- conv`.
pub const PART: Part = Part {
    name: "conv",
    about: "the ladder of convolutions on tensor cores, and the tile that is chosen for each layer",
    tables: &["tensor-conv-steps", "tensor-conv-f16", "tensor-conv-tf32", "tensor-conv-tiles"],
    by_default: true,
    run,
};

/// The layer of a row.
const CONVOLUTION: ColumnSpec = ColumnSpec::text("convolution", "convolution");

/// Same as for the products, without loads: all steps copy by TMA.
const COUNTS: [ColumnSpec; 7] = [
    columns::LANE_MILLIONS,
    columns::SHARED_THOUSANDS,
    columns::CONFLICT_THOUSANDS,
    columns::MS,
    columns::TFLOPS,
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Many pixels, one step along K, few pixels with many, and few channels: small on the simulator, of ResNet18 on a GPU.
const SIMULATED: [Shape; 4] =
    [shape(64, 64, 3, 1, 8).images(2), shape(64, 72, 1, 2, 9), shape(256, 64, 3, 1, 4), shape(3, 64, 7, 2, 24)];
const MEASURED: [Shape; 4] = [
    shape(64, 64, 3, 1, 56).images(32),
    shape(64, 128, 1, 2, 56).images(32),
    shape(512, 512, 3, 1, 7),
    shape(3, 64, 7, 2, 224).images(32),
];

/// Number of multiprocessors of an H200, for a device that does not report one.
const H200: u32 = 132;

/// The steps, a table for each type, and real layers.
fn run(device: &Device) -> Result<Report> {
    let mut report = Report { tables: vec![steps()], wrong: Vec::new() };
    let steps = load_steps(LADDER, device)?;
    for precision in PRECISIONS {
        let title = format!("convolutions in {precision}, channels last, on {}", device.short_name());
        let mut table = step_table(title, &[CONVOLUTION, columns::STEP], &COUNTS, device);
        for shape in if device.is_sim() { SIMULATED } else { MEASURED } {
            let (x, w, params) = (shape.input(), shape.weight(), shape.params());
            let problem = ConvProblem::seeded(device, x, w, params, precision, Finish::default())?;
            for LoadedStep { title, step } in &steps {
                let run = run_step(device, &problem, title, step)?;
                table.allow(allowed(&problem.expected));
                let name = [(CONVOLUTION, &*shape.name()), (columns::STEP, title)];
                table.row(&name, cost(shape, precision), &run);
            }
        }
        table.note(NOTATION);
        finish(table, &mut report);
    }
    report.tables.push(tiles(device)?);
    Ok(report)
}

/// New idea of each step.
fn steps() -> Table {
    let mut table = TableBuilder::of("the convolution ladder on tensor cores", [columns::STEP, IDEA]);
    for step in LADDER {
        table.row().set(columns::STEP, step.title()).set(IDEA, step.idea).complete();
    }
    table.finish()
}

/// Runs a step, checked and counted or timed.
fn run_step(device: &Device, problem: &ConvProblem, title: &str, step: &Result<Conv, String>) -> Result<StepRun> {
    let (stream, bench) = (device.stream(), Bench { queue: Queue::Warm, ..Bench::default() });
    let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &|_| () };
    contest.run(title, step, &mut problem.output(device)?, |conv, y| {
        conv.launch(&stream, &problem.x, &problem.w, problem.params, &problem.epilogue(), y)
    })
}

/// Two operations per multiply-add; input, weight and output once each.
fn cost(shape: Shape, precision: Precision) -> Cost {
    let cost = shape.cost();
    Cost { bytes: cost.bytes / 4.0 * precision.input().size() as f64, ..cost }
}

/// The columns of [`tiles`]: one per batch.
const TILES: [ColumnSpec; 2] = [ColumnSpec::text("one", "1 image"), ColumnSpec::text("many", "32 images")];

/// ResNet18's layers in f16, and the chosen tile for each: pixels × channels, and after a slash the slices of K.
fn tiles(device: &Device) -> Result<Table> {
    let processors = device.properties().multiprocessors.unwrap_or(H200);
    let title = format!("the tile chosen for ResNet18's layers, for {processors} SMs");
    let mut table = TableBuilder::of(title, [CONVOLUTION].into_iter().chain(TILES));
    let tuned = if_supported(Tuned::load(device))?;
    let layers = RESNET18.into_iter().filter(|shape| shape.channels.is_multiple_of(64));
    for shape in layers {
        let chosen = TILES.into_iter().zip(RESNET18_BATCHES).map(|(column, batch)| {
            let shape = shape.images(batch);
            let (input, filter, output) = (shape.input(), shape.weight(), shape.output());
            let layer = Size { input, filter, output, stride: shape.stride, padding: shape.window / 2 };
            let cell = match &tuned {
                Ok(tuned) => {
                    let tile = tuned.choice(&layer, Precision::F16, processors as usize);
                    tile.map_or_else(|| Cell::absent("no tile takes it"), |tile| Cell::from(tile.size))
                }
                Err(reason) => Cell::absent(reason),
            };
            (column, cell)
        });
        // Without the number of images, which the columns have.
        let name = shape.name();
        let name = name.rsplit_once(' ').map_or(&*name, |(layer, _)| layer);
        table.row().set(CONVOLUTION, name).set_all(chosen).complete();
    }
    table
        .note("f16. Pixels × channels of the output per block; behind a stroke, the blocks that share a tile along K.");
    table.note(NOTATION);
    Ok(table.finish())
}
