//! `tensor-attention`: attention in f16 over batches of heads as in models, with and without a mask, and with few queries.

use bench::ladder::{Contest, Cost, LadderTable, LoadedStep, StepResult, StepRun, columns, if_supported, load_steps};
use bench::table::ColumnSpec;
use common::prelude::*;
use common::progress::Progress;
use phase4_fusion::attention::problem::{AttentionProblem, Layout};
use phase4_fusion::attention::{LADDER, Options, Products, Size, Tuned};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::{attention, peers};
use crate::torch::{self, Backend, PeerRequest};

/// The attention of a row.
pub(crate) const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "attention");
const COLUMNS: &[ColumnSpec] = &[
    PROBLEM,
    columns::STEP,
    columns::MS,
    columns::TFLOPS.on_gpu(),
    columns::OF_PEER,
    columns::LANES_PER_PRODUCT.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// Reference of the times.
pub(crate) const BEST: &str = "SDPA, the fastest";
const MATH: &str = "math";

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "tensor-attention",
    shows: "attention in f16: sizes, masks, few queries: ms, % of SDPA",
    uses: &[Need::Gpu, Need::Hopper, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Images, heads, queries, keys and values of a head, and whether there is a mask.
type Row = ([usize; 5], bool);

/// Sizes of language models, of the video U-Net at its two upper levels, and one or few queries for many keys.
const MEASURED: [Row; 9] = [
    ([4, 16, 4096, 4096, 128], false),
    ([4, 16, 4096, 4096, 128], true),
    ([4, 16, 4096, 4096, 64], false),
    ([4, 16, 4096, 4096, 64], true),
    ([2, 8, 4096, 4096, 40], false),
    ([2, 8, 1024, 1024, 80], false),
    ([1, 16, 16384, 16384, 128], true),
    ([1, 16, 64, 16384, 128], false),
    ([2, 8, 1, 16384, 128], false),
];

/// On the simulator.
const SIMULATED: [Row; 3] = [([1, 2, 100, 100, 40], false), ([1, 1, 130, 130, 64], true), ([1, 1, 8, 256, 64], false)];

fn size(([images, heads, queries, keys, head], causal): Row) -> (Size, bool) {
    (Size { images, heads, queries, keys, head }, causal)
}

fn problems(device: &Device) -> Vec<(Size, bool)> {
    let rows: &[Row] = if device.is_cuda() { &MEASURED } else { &SIMULATED };
    rows.iter().copied().map(size).collect()
}

/// Cost of the attention of a row, if it is one of [`MEASURED`]: the two products, and queries, keys, values and output once.
pub(crate) fn roofline_cost(row_name: &str) -> Option<Cost> {
    let (size, causal) = MEASURED.into_iter().map(size).find(|(size, causal)| name(size, *causal) == row_name)?;
    let Size { images, heads, queries, keys, head } = size;
    let outputs = images * heads * queries * head;
    let values = 2 * outputs + 2 * images * heads * keys * head;
    let bytes = values * Products::F16.element().size();
    Some(Cost { flops: size.flops(causal), bytes: bytes as f64, values: outputs as f64 })
}

/// `4×16×4096, 128, causal`, or with few queries `2×8×1:16384, 128`.
fn name(size: &Size, causal: bool) -> String {
    let Size { images, heads, queries, keys, head } = size;
    let tokens = if queries == keys { keys.to_string() } else { format!("{queries}:{keys}") };
    format!("{images}×{heads}×{tokens}, {head}{}", if causal { ", causal" } else { "" })
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let (problems, stream, bench) = (problems(device), device.stream(), peers::bench());
    let half = LADDER.iter().filter(|step| step.method.products() == Products::F16);
    let steps = load_steps(half, device)?;
    let tuned = if_supported(Tuned::load(device))?;
    let progress = Progress::new((problems.len() * (steps.len() + 1)) as u64, TABLE.name);
    progress.set_message("tensor-attention: PyTorch");
    let backends = attention::BACKENDS.map(|(name, backend)| (name.trim_end_matches(", f16"), backend));
    let backends: Vec<(&str, Backend)> = backends.into_iter().chain([(MATH, Backend::Math)]).collect();
    let requests = problems.iter().flat_map(|(size, causal)| {
        let Size { images, heads, queries, keys, head } = *size;
        let request = move |&(_, backend): &(&str, Backend)| {
            PeerRequest::half_attention([images, heads, queries, head], keys, *causal, backend)
        };
        backends.iter().map(request)
    });
    let pytorch = torch::measure(device, &bench, &requests.collect::<Vec<_>>());

    let title = format!("tensor-attention: attention in f16 on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peer("SDPA");
    for ((size, causal), timings) in problems.iter().zip(pytorch.timings.chunks(backends.len())) {
        let name = name(size, *causal);
        let announce = |step: &str| {
            progress.set_message(format!("tensor-attention: {step} at {name}"));
            progress.inc(1);
        };
        let options = Options { causal: *causal, scale: None };
        let problem = AttentionProblem::seeded(device, *size, Layout::Apart, Products::F16, options)?;
        let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &announce };
        let [mut out, mut lse] = problem.outputs(device)?;
        let mut runs: Vec<(&str, StepRun)> = Vec::new();
        for LoadedStep { title, step } in &steps {
            let run = contest.run(title, step, &mut out, |step, out| {
                step.launch(&stream, problem.inputs(), options, out, &mut lse)
            })?;
            runs.push((title, run));
        }
        let run = contest.run(peers::TUNED, &tuned, &mut out, |tuned, out| {
            tuned.launch(&stream, problem.inputs(), options, out, &mut lse)
        })?;
        runs.push((peers::TUNED, run));
        let elsewhere = |timing: &_| StepRun::from(StepResult::Elsewhere(Clone::clone(timing)));
        let best = timings.iter().filter_map(|timing| Some((timing, timing.as_ref().ok()?.median_ms()?)));
        let best = best.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(&timings[0], |(timing, _)| timing);
        runs.extend(backends.iter().zip(timings).map(|((name, _), timing)| (*name, elsewhere(timing))));
        let cost = Cost { flops: size.flops(*causal), ..Cost::default() };
        table.problem((PROBLEM, &name), cost, (BEST, elsewhere(best)), runs);
    }
    table.note(
        "images × heads × tokens, values of a head; with few queries, queries : keys. causal: a query sees no later key, and those \
         that it does not see are no operations.",
    );
    table.note("|Δ|: to the f64 reference of the same rounded values, over all outputs or those of 64 queries.");
    if let Some(version) = pytorch.version {
        table.note(peers::MEDIANS);
        table.note(format!(
            "PyTorch {version}: scaled_dot_product_attention by each of its implementations; flash is \
             FlashAttention-2."
        ));
    }
    Ok(table.into())
}
