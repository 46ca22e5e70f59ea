//! `tensor-attention`: attention in f16, bf16 and e4m3 over batches of heads as in models, with and without a mask, and with few queries.

use bench::ladder::{Contest, Cost, LadderTable, LoadedStep, StepResult, StepRun, columns, if_supported, load_steps};
use bench::table::ColumnSpec;
use common::prelude::ElementType;
use common::progress::Progress;
use phase4_fusion::attention::problem::{AttentionProblem, Layout};
use phase4_fusion::attention::{LADDER, Options, Products, Size, Tuned};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::{attention, peers};
use crate::torch::{Backend, PeerRequest};

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
const FLASH_3: &str = "flash 3";

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "tensor-attention",
    shows: "attention in f16, bf16, e4m3: sizes, masks, few queries: ms, % of SDPA",
    uses: &[Need::Gpu, Need::Hopper, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Attended {
    products: Products,
    size: Size,
    causal: bool,
}

/// An attention of `[images, heads, queries, keys, values of a head]`.
const fn row(products: Products, [images, heads, queries, keys, head]: [usize; 5], causal: bool) -> Attended {
    Attended { products, size: Size { images, heads, queries, keys, head }, causal }
}

/// Sizes of language models, of the video U-Net at its two upper levels, and one or few queries for many keys.
const MEASURED: [Attended; 20] = [
    row(Products::F16, [4, 16, 4096, 4096, 128], false),
    row(Products::F16, [4, 16, 4096, 4096, 128], true),
    row(Products::F16, [4, 16, 4096, 4096, 64], false),
    row(Products::F16, [4, 16, 4096, 4096, 64], true),
    row(Products::F16, [2, 8, 4096, 4096, 40], false),
    row(Products::F16, [2, 8, 1024, 1024, 80], false),
    row(Products::F16, [1, 16, 16384, 16384, 128], true),
    row(Products::F16, [1, 16, 64, 16384, 128], false),
    row(Products::F16, [2, 8, 1, 16384, 128], false),
    row(Products::Bf16, [4, 16, 4096, 4096, 128], false),
    row(Products::Bf16, [4, 16, 4096, 4096, 128], true),
    row(Products::Bf16, [4, 16, 4096, 4096, 64], false),
    row(Products::Bf16, [4, 16, 4096, 4096, 64], true),
    row(Products::Bf16, [1, 16, 16384, 16384, 128], true),
    row(Products::E4m3, [4, 16, 4096, 4096, 128], false),
    row(Products::E4m3, [4, 16, 4096, 4096, 128], true),
    row(Products::E4m3, [4, 16, 4096, 4096, 64], false),
    row(Products::E4m3, [4, 16, 4096, 4096, 64], true),
    row(Products::E4m3, [1, 16, 16384, 16384, 128], false),
    row(Products::E4m3, [1, 16, 16384, 16384, 128], true),
];

/// On the simulator.
const SIMULATED: [Attended; 5] = [
    row(Products::F16, [1, 2, 100, 100, 40], false),
    row(Products::F16, [1, 1, 130, 130, 64], true),
    row(Products::F16, [1, 1, 8, 256, 64], false),
    row(Products::Bf16, [1, 1, 130, 130, 64], true),
    row(Products::E4m3, [1, 1, 130, 130, 64], true),
];

/// Cost of the attention of a row, if it is one of [`MEASURED`]: the two products, and queries, keys, values and output once.
pub(crate) fn roofline_cost(row_name: &str) -> Option<Cost> {
    let row = MEASURED.into_iter().find(|row| row.name() == row_name)?;
    let Size { images, heads, queries, keys, head } = row.size;
    let outputs = images * heads * queries * head;
    let inputs = outputs + 2 * images * heads * keys * head;
    let bytes = inputs * row.products.element().size() + outputs * row.products.output().size();
    Some(Cost { flops: row.size.flops(row.causal), bytes: bytes as f64, values: outputs as f64 })
}

impl Attended {
    /// `4×16×4096, 128, causal`, with few queries `2×8×1:16384, 128`, in other types `4×16×4096, 64 c, bf16`, where c is causal.
    fn name(&self) -> String {
        let Size { images, heads, queries, keys, head } = self.size;
        let (mask, of_type) = match self.type_name() {
            Some(name) => (" c", format!(", {name}")),
            None => (", causal", String::new()),
        };
        let tokens = if queries == keys { keys.to_string() } else { format!("{queries}:{keys}") };
        format!("{images}×{heads}×{tokens}, {head}{}{of_type}", if self.causal { mask } else { "" })
    }

    /// The type of Q, K and V, if it is not f16.
    fn type_name(&self) -> Option<&'static str> {
        match self.products {
            Products::Bf16 => Some("bf16"),
            Products::E4m3 => Some("e4m3"),
            _ => None,
        }
    }

    /// Implementations to compare with, and the names of their rows. PyTorch's own take no e4m3.
    fn backends(&self) -> impl Iterator<Item = (&'static str, Backend)> {
        let of_pytorch = attention::BACKENDS.map(|(name, backend)| (name.trim_end_matches(", f16"), backend));
        let flash_3 = [(FLASH_3, Backend::FlashAttention3)];
        let (is_f16, is_bytes) = (self.products == Products::F16, self.products == Products::E4m3);
        let all = of_pytorch.into_iter().chain(flash_3).chain([(MATH, Backend::Math)]);
        all.filter(move |(name, _)| if *name == FLASH_3 { !is_f16 } else { !is_bytes })
    }

    /// For one of them.
    fn request(&self, backend: Backend) -> PeerRequest {
        let Size { images, heads, queries, keys, head } = self.size;
        PeerRequest::half_attention([images, heads, queries, head], keys, self.causal, self.type_name(), backend)
    }
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let problems: &[Attended] = if device.is_cuda() { &MEASURED } else { &SIMULATED };
    let (stream, bench) = (device.stream(), peers::bench());
    let half = || LADDER.iter().filter(|step| step.method.products()[0].output() == ElementType::F16);
    let steps = load_steps(half(), device)?;
    let tuned = if_supported(Tuned::load(device))?;
    let progress = Progress::new((problems.len() * (steps.len() + 1)) as u64, TABLE.name);
    progress.set_message("tensor-attention: PyTorch");
    let requests = problems.iter().flat_map(|row| row.backends().map(|(_, backend)| row.request(backend)));
    let pytorch = context.pytorch.measure(device, &bench, &requests.collect::<Vec<_>>());

    let title = format!("tensor-attention: attention in f16, bf16 and e4m3 on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peer("SDPA");
    let mut timings = pytorch.timings.iter();
    for row in problems {
        let of_row: Vec<_> = row.backends().map(|(name, _)| name).zip(&mut timings).collect();
        let Attended { products, size, causal } = *row;
        let name = row.name();
        let announce = |step: &str| {
            progress.set_message(format!("tensor-attention: {step} at {name}"));
            progress.inc(1);
        };
        let options = Options { causal, scale: None };
        let problem = AttentionProblem::seeded(device, size, Layout::Apart, products, options)?;
        let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &announce };
        let [mut out, mut lse] = problem.outputs(device)?;
        let mut runs: Vec<(&str, StepRun)> = Vec::new();
        for (LoadedStep { title, step }, _) in
            steps.iter().zip(half()).filter(|(_, step)| step.method.products().contains(&products))
        {
            let run = contest.run(title, step, &mut out, |step, out| {
                step.launch(&stream, problem.inputs(), options, out, &mut lse)
            })?;
            runs.push((title, run));
        }
        if products != Products::E4m3 {
            let run = contest.run(peers::TUNED, &tuned, &mut out, |tuned, out| {
                tuned.launch(&stream, problem.inputs(), options, out, &mut lse)
            })?;
            runs.push((peers::TUNED, run));
        }
        let elsewhere = |timing: &_| StepRun::from(StepResult::Elsewhere(Clone::clone(timing)));
        let measured = of_row.iter().filter_map(|(_, timing)| Some((*timing, timing.as_ref().ok()?.median_ms()?)));
        let best = measured.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(of_row[0].1, |(timing, _)| timing);
        runs.extend(of_row.iter().map(|(name, timing)| (*name, elsewhere(timing))));
        let cost = Cost { flops: size.flops(causal), ..Cost::default() };
        table.problem((PROBLEM, &name), cost, (BEST, elsewhere(best)), runs);
    }
    table.note(
        "images × heads × tokens, values of a head; with few queries, queries : keys. causal, c: a query sees no later key, and those \
         that it does not see are no operations.",
    );
    table.note("|Δ|: to the f64 reference of the same rounded values, over all outputs or those of 64 queries.");
    if let Some(version) = pytorch.version {
        table.note(peers::MEDIANS);
        table.note(format!(
            "PyTorch {version}: scaled_dot_product_attention by each of its implementations; flash is \
             FlashAttention-2. flash 3: the package fa3-fwd, for bf16 and e4m3, where there is no SDPA: it is the reference."
        ));
    }
    Ok(table.into())
}
