//! `attention`: naive attention, whose scores are in memory, beside PyTorch's, whose are not.

use std::time::Duration;

use common::Device;
use common::check::compare;
use common::ladder::{NO_COUNTS, columns, milliseconds, verdict};
use common::prelude::*;
use common::progress::Progress;
use common::reference;
use common::table::{Cell, ColumnSpec};
use common::timing::{Bench, Queue};
use phase3_all_layers::layers::Attention;

use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::torch::{self, Mode, PeerRequest};

/// As the video U-Net has them.
const HEADS: usize = 8;
/// Tokens whose outputs are compared with the f64 reference.
const SAMPLE: usize = 48;

/// Tokens of a row.
pub(crate) const TOKENS: ColumnSpec = ColumnSpec::identity("tokens", "tokens");
/// Channels of a head.
pub(crate) const CHANNELS: ColumnSpec = ColumnSpec::identity("d", "d");
/// The implementation.
pub(crate) const BY: ColumnSpec = ColumnSpec::text("by", "by");
const MIB: ColumnSpec = ColumnSpec::number("mib", "MiB", 1);
const OF_SDPA: ColumnSpec = ColumnSpec::number("of_sdpa", "% of SDPA", 1);

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

impl Size {
    /// Two a multiply-add of the two products; the softmax is left out, as is usual.
    fn flops(self) -> f64 {
        4.0 * (HEADS * self.tokens * self.tokens * self.d) as f64
    }

    /// What a run has in device memory: qkv, scores and output.
    fn bytes(self) -> f64 {
        4.0 * (HEADS * self.tokens * (self.tokens + 4 * self.d)) as f64
    }
}

fn sizes(device: &Device) -> Vec<Size> {
    let (tokens, ds): (&[usize], &[usize]) = match device.is_cuda() {
        true => (&[256, 1024, 4096, 16384], &[40, 64, 128]),
        false => (&[64, 200], &[40, 64]),
    };
    tokens.iter().flat_map(|&tokens| ds.iter().map(move |&d| Size { tokens, d })).collect()
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "attention",
    shows: "naive, tiled, flash × sequence: ms, TFLOP/s, memory",
    so_far: "naive, and PyTorch's; tiled and flash: phase 4",
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let sizes = sizes(device);
    let bench = Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() };
    let progress = Progress::new(sizes.len() as u64 + 1, "attention");
    progress.set_message("attention: PyTorch");
    let work: Vec<PeerRequest> =
        sizes.iter().map(|size| PeerRequest::attention([1, HEADS, size.tokens, size.d], Mode::Eager)).collect();
    let pytorch = torch::measure(device, &bench, &work);
    let mut table =
        context.table(format!("attention: {HEADS} heads of d channels on {}", device.short_name()), COLUMNS);
    let mut wrong = Vec::new();
    let attention = Attention::load(device)?;
    let stream = device.stream();
    for (&size, sdpa) in sizes.iter().zip(pytorch.timings) {
        let Size { tokens, d } = size;
        progress.inc(1);
        progress.set_message(format!("attention: {tokens} tokens, d = {d}"));
        let sdpa = milliseconds(&sdpa);
        let timed = |by: &str, ms: Result<f64, String>| {
            let rate = ms.clone().map(|ms| size.flops() / (ms * 1e-3) / 1e12);
            let of_sdpa = ms.clone().and_then(|ms| Ok(100.0 * sdpa.clone()? / ms));
            let about = [(TOKENS, tokens.into()), (CHANNELS, d.into()), (BY, by.into())];
            about.into_iter().chain([
                (columns::MS, ms.into()),
                (columns::TFLOPS, rate.into()),
                (OF_SDPA, of_sdpa.into()),
            ])
        };
        let channels = HEADS * d;
        let qkv = Tensor::random(&[1, tokens, 3 * channels], 1);
        let sample = common::ladder::positions(tokens, SAMPLE, 2);
        let expected = reference::attention_at(&qkv, HEADS, &sample)?;
        let qkv = qkv.to_device(device)?;
        let mut scores = Tensor::empty_on(device, &[HEADS, tokens, tokens])?;
        let mut out = Tensor::empty_on(device, &[1, tokens, channels])?;
        attention.launch(&stream, &qkv, HEADS, &mut scores, &mut out)?;
        let values = out.to_host()?.into_vec()?;
        let sampled: Vec<f32> = sample.iter().flat_map(|&i| &values[i * channels..][..channels]).copied().collect();
        let what = format!("attention over {tokens} tokens, d = {d}");
        let (max_abs, word) = verdict(&what, compare(&sampled, &expected.values, expected.tolerance), &mut wrong);
        let timing = bench.measure(&stream, || attention.launch(&stream, &qkv, HEADS, &mut scores, &mut out))?;
        let counted = timing.counts().map(|counts| counts.lane_instructions as f64 / (size.flops() / 2.0));
        table
            .row()
            .set_all(timed("naive", milliseconds(&Ok(timing))))
            .set(MIB, size.bytes() / f64::from(1 << 20))
            .set(columns::LANES_PER_PRODUCT, Cell::or_absent(counted, NO_COUNTS))
            .set(columns::MAX_DIFFERENCE, max_abs)
            .set(columns::CHECK, word)
            .finish("not measured");
        table
            .row()
            .set_all(timed("PyTorch SDPA", sdpa.clone()))
            .finish("measured in a process of its own; its memory and results are not seen here");
    }
    table.note(
        "naive: three launches, with the scores [heads, tokens, tokens] in memory. f32. MiB: qkv, scores and output.",
    );
    table.note("TFLOP/s: of the two products, 4·heads·tokens²·d operations.");
    if let Some(version) = pytorch.version {
        table.note(format!("PyTorch {version}: scaled_dot_product_attention in f32, without TF32, by its own choice."));
    }
    table.note(format!(
        "|Δ|: to the f64 reference, of the outputs of {SAMPLE} tokens or all; the tolerance is derived."
    ));
    Ok(FinishedTable { table: table.finish(), wrong })
}
