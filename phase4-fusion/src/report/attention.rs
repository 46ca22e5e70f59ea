//! The attention ladder: each step on four kinds of attention, and the chosen step for real ones.

use bench::ladder::{Contest, Cost, LoadedStep, StepRun, columns, if_supported, load_steps};
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;

use super::{IDEA, allowed, finish, step_table};
use crate::attention::problem::{AttentionProblem, Layout};
use crate::attention::{Attention, LADDER, Options, Products, Size, Tuned};

/// `cargo run -p phase4-fusion -- attention`.
pub const PART: Part = Part {
    name: "attention",
    about: "the ladder of attention, and the step that is chosen for each size",
    tables: &["attention-steps", "attention-ladder", "attention-choice"],
    by_default: true,
    run,
};

/// The attention of a row.
const ATTENTION: ColumnSpec = ColumnSpec::text("attention", "attention");
/// The chosen step, with its blocks per cluster, and its number of blocks.
const CHOSEN: ColumnSpec = ColumnSpec::text("chosen", "step");
const BLOCKS: ColumnSpec = ColumnSpec::number("blocks", "blocks", 0);

/// Same as for the convolutions: most steps copy by TMA.
const COUNTS: [ColumnSpec; 7] = [
    columns::LANE_MILLIONS,
    columns::SHARED_THOUSANDS,
    columns::CONFLICT_THOUSANDS,
    columns::MS,
    columns::TFLOPS,
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Images, heads, queries, keys, values of a head; whether there is a mask. For the U-Net, for a language model, and for few
/// queries.
const SIMULATED: [([usize; 5], bool); 3] =
    [([1, 2, 128, 128, 40], false), ([1, 1, 256, 256, 128], true), ([1, 1, 8, 512, 64], false)];
const MEASURED: [([usize; 5], bool); 4] = [
    ([2, 8, 4096, 4096, 40], false),
    ([4, 16, 4096, 4096, 128], false),
    ([4, 16, 4096, 4096, 128], true),
    ([2, 8, 1, 16384, 128], false),
];

/// Sizes for which the choice is shown.
const CHOICES: [[usize; 5]; 7] = [
    [2, 8, 4096, 4096, 40],
    [2, 8, 1024, 1024, 80],
    [2, 8, 256, 256, 80],
    [4, 16, 4096, 4096, 128],
    [1, 16, 512, 512, 64],
    [1, 16, 64, 16384, 128],
    [2, 8, 1, 16384, 128],
];

/// Number of multiprocessors of an H200, for a device that does not report one.
const H200: u32 = 132;

fn size([images, heads, queries, keys, head]: [usize; 5]) -> Size {
    Size { images, heads, queries, keys, head }
}

/// `2×8×4096, 40`, or with few queries `2×8×1:16384, 128`.
fn name(size: &Size, causal: bool) -> String {
    let Size { images, heads, queries, keys, head } = size;
    let tokens = if queries == keys { keys.to_string() } else { format!("{queries}:{keys}") };
    format!("{images}×{heads}×{tokens}, {head}{}", if causal { ", causal" } else { "" })
}

/// The steps, the ladder, and the choice.
fn run(device: &Device) -> Result<Report> {
    let mut report = Report { tables: vec![steps()], wrong: Vec::new() };
    let loaded = load_steps(LADDER, device)?;
    let title = format!("attention on {}", device.short_name());
    let mut table = step_table(title, &[ATTENTION, columns::STEP], &COUNTS, device);
    let problems = if device.is_sim() { &SIMULATED[..] } else { &MEASURED };
    for &(sizes, causal) in problems {
        let (size, options) = (size(sizes), Options { causal, scale: None });
        for products in Products::ALL {
            let problem = AttentionProblem::seeded(device, size, Layout::Apart, products, options)?;
            for (LoadedStep { title, step }, _) in
                loaded.iter().zip(LADDER).filter(|(_, step)| step.method.products()[0] == products)
            {
                let run = run_step(device, &problem, title, step)?;
                if products == Products::F16 {
                    table.allow(allowed(&problem.expected));
                }
                let cost = Cost { flops: size.flops(causal), ..Cost::default() };
                table.row(&[(ATTENTION, &*name(&size, causal)), (columns::STEP, title)], cost, &run);
            }
        }
    }
    table.note(NOTATION);
    table.note(
        "Steps 1, 6 and 7 read f32, step 9 e4m3, whose heads have a multiple of 16 values, the others f16; step 4 has kernels for bf16 \
         too: phase5-bench tensor-attention.",
    );
    finish(table, &mut report);
    report.tables.push(choice(device)?);
    Ok(report)
}

const NOTATION: &str =
    "images × heads × tokens, values of a head; with few queries, queries : keys. causal: a query sees no later key.";

/// New idea of each step.
fn steps() -> Table {
    let mut table = TableBuilder::of("the attention ladder", [columns::STEP, IDEA]);
    for step in LADDER {
        table.row().set(columns::STEP, step.title()).set(IDEA, step.idea).complete();
    }
    table.finish()
}

/// Runs a step, checked and counted or timed.
fn run_step(
    device: &Device,
    problem: &AttentionProblem,
    title: &str,
    step: &Result<Attention, String>,
) -> Result<StepRun> {
    let (stream, bench) = (device.stream(), Bench { queue: Queue::Warm, ..Bench::default() });
    let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &|_| () };
    let [mut out, mut lse] = problem.outputs(device)?;
    contest.run(title, step, &mut out, |attention, out| {
        attention.launch(&stream, problem.inputs(), problem.options, out, &mut lse)
    })
}

/// Attentions of models, and the chosen step for each.
fn choice(device: &Device) -> Result<Table> {
    let processors = device.properties().multiprocessors.unwrap_or(H200);
    let title = format!("the step chosen for each attention, for {processors} SMs");
    let mut table = TableBuilder::of(title, [ATTENTION, CHOSEN, BLOCKS]);
    let tuned = if_supported(Tuned::load(device))?;
    for sizes in CHOICES {
        let size = size(sizes);
        let row = table.row().set(ATTENTION, name(&size, false));
        match &tuned {
            Ok(tuned) => {
                let (step, blocks) = tuned.choice(&size, processors as usize);
                row.set(CHOSEN, step).set(BLOCKS, blocks as u64).complete();
            }
            Err(reason) => row.set(CHOSEN, Cell::absent(reason)).finish(reason),
        }
    }
    table.note(NOTATION);
    table.note("Behind a stroke, the blocks that share a tile along the keys. blocks: those of the grid.");
    Ok(table.finish())
}
