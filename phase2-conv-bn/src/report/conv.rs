//! The convolution ladder: each step on three kinds of window, the cost of im2col, and the choices for real layers.

use bench::ladder::{Contest, Expected, LoadedStep, columns, load_steps};
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;

use super::{IDEA, step_table};
use crate::conv::shapes::{NOTATION, Shape, shape};
use crate::conv::{Choice, Conv, LADDER, step04_im2col};

/// `cargo run -p phase2-conv-bn -- conv`.
pub const PART: Part = Part {
    name: "conv",
    about: "the ladder of convolutions, the memory of im2col, and which step is chosen for which layer",
    tables: &["conv-steps", "conv-3x3", "conv-stem", "conv-pointwise", "conv-loads", "conv-shapes"],
    by_default: true,
    run,
};

/// A kind of window: its column, its shape on the simulator, and on a GPU, where it is one of ResNet18's.
struct Kind {
    /// The column of [`loads_table`], which has the same name.
    loads: ColumnSpec,
    simulated: Shape,
    measured: Shape,
}

/// On the simulator 2 × 16 × 16 pixels and 64 output channels in all of them, which are whole tiles of every step.
const KINDS: [Kind; 3] = [
    Kind {
        loads: ColumnSpec::number("3×3", "3×3", 3),
        simulated: shape(64, 64, 3, 1, 16).images(2),
        measured: shape(64, 64, 3, 1, 56).images(32),
    },
    Kind {
        loads: ColumnSpec::number("7×7/2", "7×7/2", 3),
        simulated: shape(3, 64, 7, 2, 32).images(2),
        measured: shape(3, 64, 7, 2, 224).images(32),
    },
    Kind {
        loads: ColumnSpec::number("1×1/2", "1×1/2", 3),
        simulated: shape(64, 64, 1, 2, 32).images(2),
        measured: shape(64, 128, 1, 2, 56).images(32),
    },
];

/// Number of multiprocessors of an H200, for a device that does not report one.
const H200: u32 = 132;

/// Note for a dash in the column of tiles.
const ONE_TILE: &str = "the step has one tile; step 17's is of 64 channels × 32 times 2×2 pixels";

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

/// New idea of each step.
fn steps() -> Table {
    let mut table = TableBuilder::of("the convolution ladder", [columns::STEP, IDEA]);
    for step in LADDER {
        table.row().set(columns::STEP, step.title()).set(IDEA, step.idea).complete();
    }
    table.finish()
}

/// Every step on one shape: the table, its errors, and each step's loads.
fn ladder(device: &Device, kind: &Kind) -> Result<(Table, Vec<String>, Vec<Cell>)> {
    let shape = if device.is_sim() { kind.simulated } else { kind.measured };
    let mut table = step_table(format!("convolution {} on {}", shape.name(), device.short_name()), device);
    let mut loads = Vec::new();
    let (stream, bench) = (device.stream(), Bench { queue: Queue::Warm, ..Bench::default() });
    let problem = ConvProblem::seeded(device, shape)?;
    let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &|_| () };
    let mut y = problem.output(device)?;
    for LoadedStep { title, step } in load_steps(LADDER, device)? {
        let run = contest.run(&title, &step, &mut y, |conv, y| problem.launch(&stream, conv, y))?;
        table.allow(problem.expected.tolerance().absolute);
        table.row(&[(columns::STEP, &title)], shape.cost(), &run);
        loads.push(Cell::from(run.counters().map(|counters| {
            // Requests for global memory, of a warp each, for 32 multiply-adds.
            counters.global_load_requests as f64 * 32.0 / (shape.cost().flops / 2.0)
        })));
    }
    table.note(NOTATION);
    let (table, wrong) = table.finish();
    Ok((table, wrong, loads))
}

/// One convolution, for every step.
#[derive(Debug)]
pub struct ConvProblem {
    /// Its shapes, strides and padding.
    pub shape: Shape,
    /// \[N, C, H, W\], on the device.
    pub x: Tensor,
    /// The weight, on the device.
    pub w: Tensor,
    /// Expected output.
    pub expected: Expected,
}

impl ConvProblem {
    /// A convolution of random values, without bias.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn seeded(device: &Device, shape: Shape) -> Result<ConvProblem> {
        let (x, w) = (Tensor::random(&shape.input(), 1), Tensor::random(&shape.weight(), 2));
        let expected = Expected::conv2d(&x, &w, None, shape.params(), 3)?;
        Ok(ConvProblem { shape, x: x.to_device(device)?, w: w.to_device(device)?, expected })
    }

    /// Memory for the output.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn output(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_on(device, &self.shape.output())
    }

    /// Queues the convolution.
    ///
    /// # Errors
    /// Same as [`Conv::launch`].
    pub fn launch(&self, stream: &Stream, conv: &Conv, y: &mut Tensor) -> Result<()> {
        conv.launch(stream, &self.x, &self.w, None, self.shape.params(), y)
    }
}

/// A row per step, a column per kind of window.
fn loads_table(device: &Device, loads: &[Vec<Cell>]) -> Table {
    let title = format!("loads of global memory a multiply-add, on {}", device.short_name());
    let mut table = TableBuilder::of(title, [columns::STEP].into_iter().chain(KINDS.map(|kind| kind.loads)));
    for (at, step) in LADDER.iter().enumerate() {
        let cells = KINDS.iter().zip(loads).filter_map(|(kind, of_kind)| Some((kind.loads, of_kind.get(at)?.clone())));
        table.row().set(columns::STEP, step.title()).set_all(cells).complete();
    }
    table.note(
        "Warp instructions of 4 or 16 bytes per lane, including copies by cp.async, for each multiply-add of a warp.",
    );
    table.finish()
}

/// The columns of [`shapes`].
mod shape_columns {
    use bench::table::ColumnSpec;

    pub(super) const CONVOLUTION: ColumnSpec = ColumnSpec::text("convolution", "convolution");
    pub(super) const GFLOP: ColumnSpec = ColumnSpec::number("GFLOP", "GFLOP", 2);
    pub(super) const INPUT: ColumnSpec = ColumnSpec::number("input MB", "input MB", 1);
    pub(super) const IM2COL: ColumnSpec = ColumnSpec::number("im2col MB", "im2col MB", 1);
    pub(super) const CHOSEN: ColumnSpec = ColumnSpec::text("chosen", "chosen");
    pub(super) const TILE: ColumnSpec = ColumnSpec::text("tile", "tile");
    pub(super) const CUTS: ColumnSpec = ColumnSpec::number("cuts", "cuts", 0);
    pub(super) const MODEL_MS: ColumnSpec = ColumnSpec::number("model ms", "model ms", 4);
    pub(super) const ALL: [ColumnSpec; 8] = [CONVOLUTION, GFLOP, INPUT, IM2COL, CHOSEN, TILE, CUTS, MODEL_MS];
}

/// ResNet18's and a U-Net's convolutions: their floor, im2col's matrix, and the choice.
fn shapes(device: &Device) -> Result<Table> {
    use shape_columns::*;
    let processors = device.properties().multiprocessors.unwrap_or(H200) as usize;
    let title = format!("im2col's matrix and the chosen step, for {processors} SMs");
    let mut table = TableBuilder::of(title, ALL);
    for shape in Shape::all() {
        let (x, w) = (Tensor::zeros(&shape.input()), Tensor::zeros(&shape.weight()));
        let matrix = step04_im2col::STEP.load(device).and_then(|im2col| im2col.workspace_bytes(&x, &w, shape.params()));
        let choice = Choice::new(&x, &w, shape.params(), false, processors)?;
        let (step, Choice { tile, cuts, microseconds, .. }) = (choice.step(), choice);
        table
            .row()
            .set(CONVOLUTION, shape.name())
            .set(GFLOP, shape.cost().flops / 1e9)
            .set(INPUT, size_of_val(x.as_slice()?) as f64 / 1e6)
            .set(IM2COL, Cell::from_result(matrix.map(|bytes| bytes as f64 / 1e6))?)
            .set(CHOSEN, step.title())
            .set(TILE, tile.map_or_else(|| Cell::absent(ONE_TILE), Cell::from))
            .set(CUTS, cuts)
            .set(MODEL_MS, Cell::or_absent(microseconds.map(|time| time / 1e3), "the model does not know this step"))
            .complete();
    }
    table.note(NOTATION);
    table.note(
        "tile: output channels × pixels of a block, of step 19 × tiles of 4×4 pixels. cuts: blocks among which its taps, or \
         channels, are cut. model ms: with the weights' transform, if it is Winograd.",
    );
    Ok(table.finish())
}
