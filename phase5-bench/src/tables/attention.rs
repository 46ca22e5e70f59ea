//! `attention`: naive attention, whose scores are in memory, compared with the ladder's and PyTorch's, whose scores are not.

use std::time::Duration;

use bench::ladder::{
    Cost, ELSEWHERE, LoadedStep, NO_COUNTS, Outcome, columns, load_steps, milliseconds, run_with, verdict,
};
use bench::table::{Cell, ColumnSpec};
use bench::timing::{Bench, Queue, Timing};
use common::Device;
use common::check::compare;
use common::cpu;
use common::prelude::*;
use common::progress::Progress;
use common::reference;
use phase3_all_layers::layers::Attention;
use phase4_fusion::attention::problem::{AttentionProblem, Layout};
use phase4_fusion::attention::{self, LADDER, Options, Products};

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::peers;
use crate::torch::{Arithmetic, Backend, Mode, PeerRequest};

/// As in the video U-Net.
const HEADS: usize = 8;
/// Tokens whose outputs are compared with the f64 reference.
const SAMPLE: usize = 48;

/// The CPU's version keeps all scores; with more tokens it takes seconds.
const MOST_ON_CPU: usize = 4096;

/// Tokens of a row.
pub(crate) const TOKENS: ColumnSpec = ColumnSpec::identity("tokens", "tokens");
/// Channels of a head.
pub(crate) const CHANNELS: ColumnSpec = ColumnSpec::identity("d", "d");
/// The implementation.
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");
/// Queries, keys, values, scores and output.
pub(crate) const MIB: ColumnSpec = ColumnSpec::number("mib", "MiB", 1);
/// Three launches, with the scores in memory.
pub(crate) const NAIVE: &str = "naive";
/// PyTorch's own choice, in f32.
pub(crate) const SDPA: &str = "PyTorch SDPA";
const OF_SDPA: ColumnSpec = ColumnSpec::number("of_sdpa", "% of SDPA", 1).level_at(100);

const COLUMNS: &[ColumnSpec] = &[
    TOKENS,
    CHANNELS,
    BY,
    columns::MS,
    columns::TFLOPS,
    MIB,
    OF_SDPA,
    columns::LANES_PER_PRODUCT.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// One problem: a single image of this many tokens, with heads of this many channels.
#[derive(Clone, Copy, Debug)]
struct Size {
    tokens: usize,
    d: usize,
}

/// The size that the summary shows.
const IN_SUMMARY: InSummary = InSummary { gpu: "4096 × 64", simulator: "64 × 40" };

impl Size {
    /// `4096 × 64`.
    fn name(self) -> String {
        format!("{} × {}", self.tokens, self.d)
    }

    /// Two operations per multiply-add of the two products; the softmax is left out, as is usual.
    fn flops(self) -> f64 {
        4.0 * (HEADS * self.tokens * self.tokens * self.d) as f64
    }

    /// Bytes in device memory during a run: qkv, scores and output.
    fn bytes(self) -> f64 {
        4.0 * (HEADS * self.tokens * (self.tokens + 4 * self.d)) as f64
    }

    /// The same without scores, but with the log-sum-exp, for values of this many bytes.
    fn bytes_without_scores(self, value: usize) -> f64 {
        (HEADS * self.tokens * (4 * self.d * value + 4)) as f64
    }

    fn of_ladder(self) -> attention::Size {
        attention::Size { images: 1, heads: HEADS, queries: self.tokens, keys: self.tokens, head: self.d }
    }
}

fn sizes(device: &Device) -> Vec<Size> {
    let (tokens, ds): (&[usize], &[usize]) =
        if device.is_cuda() { (&[256, 1024, 4096, 16384], &[40, 64, 128]) } else { (&[64, 200], &[40, 64]) };
    tokens.iter().flat_map(|&tokens| ds.iter().map(move |&d| Size { tokens, d })).collect()
}

/// Whether an implementation computes in f16.
pub(crate) fn is_half(by: &str) -> bool {
    let step = LADDER.iter().find(|step| step.title() == by);
    step.map_or(by.ends_with(", f16"), |step| step.method.products().contains(&Products::F16))
}

/// Cost of attention over these tokens, with heads of `d` channels: the two products, and queries, keys, values and output once.
pub(crate) fn roofline_cost(tokens: f64, d: f64, is_half: bool) -> Cost {
    let heads = HEADS as f64;
    let value = if is_half { 2.0 } else { 4.0 };
    let outputs = heads * tokens * d;
    Cost { flops: 4.0 * heads * tokens * tokens * d, bytes: 4.0 * outputs * value, values: outputs }
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "attention",
    shows: "naive, tiled, flash × sequence: ms, TFLOP/s, memory",
    uses: &[Need::Gpu, Need::Hopper, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// PyTorch's implementations in f16, with the names of their rows.
pub(crate) const BACKENDS: [(&str, Backend); 3] = [
    ("flash, f16", Backend::FlashAttention),
    ("cuDNN, f16", Backend::CudnnAttention),
    ("xFormers, f16", Backend::EfficientAttention),
];

/// The minimum of their times, or why there is none.
pub(crate) fn best<'t>(timings: impl IntoIterator<Item = &'t Result<Timing, String>>) -> Result<f64, String> {
    let mut best = Err(String::new());
    for timing in timings {
        best = match (best, milliseconds(timing)) {
            (Ok(least), Ok(ms)) => Ok(f64::min(least, ms)),
            (Err(_), ms) => ms,
            (least, Err(_)) => least,
        };
    }
    best
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let sizes = context.chosen(&sizes(device), IN_SUMMARY, Size::name);
    let bench = Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() };
    let progress = Progress::new(sizes.len() as u64 + 1, "attention");
    progress.set_message("attention: PyTorch");
    let shape = |size: &Size| [1, HEADS, size.tokens, size.d];
    let single = |arithmetic| {
        sizes.iter().map(move |size| PeerRequest::attention(shape(size), Mode::Eager).with_arithmetic(arithmetic))
    };
    let work: Vec<PeerRequest> = single(Arithmetic::F32).chain(single(Arithmetic::Tf32)).collect();
    let half = sizes.iter().flat_map(|size| {
        BACKENDS.map(|(_, backend)| PeerRequest::half_attention(shape(size), size.tokens, false, None, backend))
    });
    let pytorch = context.pytorch.measure(device, &bench, &work.into_iter().chain(half).collect::<Vec<_>>());
    let (of_single, rest) = pytorch.timings.split_at(sizes.len());
    let (of_tf32, of_half) = rest.split_at(sizes.len());
    let mut table =
        context.table(format!("attention: {HEADS} heads of d channels on {}", device.short_name()), COLUMNS);
    let mut wrong = Vec::new();
    let attention = Attention::load(device)?;
    let stream = device.stream();
    let steps = load_steps(LADDER.iter().filter(|step| step.method.products() != [Products::E4m3]), device)?;
    for (((&size, sdpa), in_tf32), halves) in
        sizes.iter().zip(of_single).zip(of_tf32).zip(of_half.chunks(BACKENDS.len()))
    {
        let Size { tokens, d } = size;
        progress.inc(1);
        progress.set_message(format!("attention: {tokens} tokens, d = {d}"));
        let (sdpa, sdpa_in_tf32, sdpa_in_half) = (milliseconds(sdpa), milliseconds(in_tf32), best(halves));
        let timed = |by: &str, ms: Result<f64, String>, peer: &Result<f64, String>| {
            let rate = ms.clone().map(|ms| size.flops() / (ms * 1e-3) / 1e12);
            let of_sdpa = ms.clone().and_then(|ms| Ok(100.0 * peer.clone()? / ms));
            let about = [(TOKENS, tokens.into()), (CHANNELS, d.into()), (BY, by.into())];
            about.into_iter().chain([
                (columns::MS, ms.into()),
                (columns::TFLOPS, rate.into()),
                (OF_SDPA, of_sdpa.into()),
            ])
        };
        let channels = HEADS * d;
        let qkv = Tensor::random(&[1, tokens, 3 * channels], 1);
        let sample = bench::ladder::positions(tokens, SAMPLE, 2);
        let expected = reference::attention_at(&qkv, HEADS, &sample)?;
        let mut check = |what: &str, values: &[f32]| {
            let sampled: Vec<f32> = sample.iter().flat_map(|&i| &values[i * channels..][..channels]).copied().collect();
            verdict(what, compare(&sampled, &expected.values, expected.tolerance), &mut wrong)
        };
        let what = format!("attention over {tokens} tokens, d = {d}");
        if device.is_cuda() && tokens <= MOST_ON_CPU {
            let (timing, out) = peers::on_cpu(context, || cpu::attention(&qkv, HEADS))?;
            let (max_abs, word) = check(&format!("{what}, CPU"), out.as_slice()?);
            table
                .row()
                .set_all(timed(peers::CPU, milliseconds(&Ok(timing)), &sdpa))
                .set(columns::MAX_DIFFERENCE, max_abs)
                .set(columns::CHECK, word)
                .finish("not measured");
        }
        let qkv = qkv.to_device(device)?;
        let mut scores = Tensor::empty_on(device, &[HEADS, tokens, tokens])?;
        let mut out = Tensor::empty_on(device, &[1, tokens, channels])?;
        attention.launch(&stream, &qkv, HEADS, &mut scores, &mut out)?;
        let (max_abs, word) = check(&what, out.to_host()?.as_slice()?);
        let timing = bench.measure(&stream, || attention.launch(&stream, &qkv, HEADS, &mut scores, &mut out))?;
        let counted = timing.counts().map(|counts| counts.lane_instructions as f64 / (size.flops() / 2.0));
        table
            .row()
            .set_all(timed(NAIVE, milliseconds(&Ok(timing)), &sdpa))
            .set(MIB, size.bytes() / f64::from(1 << 20))
            .set(columns::LANES_PER_PRODUCT, Cell::or_absent(counted, NO_COUNTS))
            .set(columns::MAX_DIFFERENCE, max_abs)
            .set(columns::CHECK, word)
            .finish("not measured");
        drop((qkv, scores, out));
        for LoadedStep { title, step } in &steps {
            let step = match step {
                Ok(step) => step,
                Err(reason) => {
                    let row = table.row().set_all(timed(title, Err(reason.clone()), &sdpa));
                    row.finish(reason);
                    continue;
                }
            };
            let (products, options) = (step.products()[0], Options::default()); // bf16 and e4m3 are in `tensor-attention`
            let peer = match products {
                Products::F32 | Products::Parts => &sdpa,
                Products::Tf32 => &sdpa_in_tf32,
                Products::F16 | Products::Bf16 | Products::E4m3 => &sdpa_in_half,
            };
            let problem = AttentionProblem::seeded(device, size.of_ladder(), Layout::Joined, products, options)?;
            let outcome = run_with(
                &stream,
                &bench,
                &mut problem.outputs(device)?,
                |[out, lse]| step.launch(&stream, problem.inputs(), options, out, lse),
                |[out, lse]| problem.check(out, lse),
            )?;
            let (timing, checked) = match outcome {
                Outcome::Ran { timing, report } => (Ok(timing), Ok(report)),
                Outcome::Wrong(mismatch) => (Err("it is wrong, and so was not timed".to_owned()), Err(mismatch)),
                Outcome::Unsupported(reason) => {
                    table.row().set_all(timed(title, Err(reason.clone()), peer)).finish(&reason);
                    continue;
                }
            };
            let counted = timing.as_ref().ok().and_then(Timing::counts);
            let counted = counted.map(|counts| counts.lane_instructions as f64 / (size.flops() / 2.0));
            let (max_abs, word) = verdict(&format!("{title} over {tokens} tokens, d = {d}"), checked, &mut wrong);
            table
                .row()
                .set_all(timed(title, milliseconds(&timing), peer))
                .set(MIB, size.bytes_without_scores(products.element().size()) / f64::from(1 << 20))
                .set(columns::LANES_PER_PRODUCT, Cell::or_absent(counted, NO_COUNTS))
                .set(columns::MAX_DIFFERENCE, max_abs)
                .set(columns::CHECK, word)
                .finish("not measured");
        }
        table.row().set_all(timed(SDPA, sdpa.clone(), &sdpa)).finish(ELSEWHERE);
        table.row().set_all(timed("SDPA, tf32", sdpa_in_tf32.clone(), &sdpa_in_tf32)).finish(ELSEWHERE);
        for ((by, _), timing) in BACKENDS.iter().zip(halves) {
            table.row().set_all(timed(by, milliseconds(timing), &sdpa_in_half)).finish(ELSEWHERE);
        }
    }
    table.note(
        "naive: three launches, with the scores [heads, tokens, tokens] in memory. f32: naive, steps 1 and 7, PyTorch SDPA; tf32: \
         step 6; f16: the other steps. MiB: qkv, scores or log-sum-exp, and output.",
    );
    if device.is_cuda() {
        table.note(peers::about_cpu());
    }
    table.note("TFLOP/s: of the two products, 4·heads·tokens²·d operations.");
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}: scaled_dot_product_attention in f32, without and with TF32, by its own choice; in f16 by its \
             implementations: FlashAttention-2, cuDNN's and xFormers' (memory-efficient). % of the fastest of them."
        ));
    }
    table.note(format!(
        "|Δ|: to the f64 reference, of the outputs of {SAMPLE} tokens or all; the tolerance is derived."
    ));
    Ok(FinishedTable { table: table.finish(), wrong })
}
