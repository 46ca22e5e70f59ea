//! `claims`: what the literature claims, and what the other tables measured.
//!
//! Nothing is written down here but the claims: every figure beside them, the verdict and its reason are computed from other
//! tables, measured in this run, or recorded where this machine has no GPU.

use bench::ladder::{Step, columns};
use bench::record::Record;
use bench::table::{Cell, ColumnSpec, DeviceKind, Table, TableBuilder};
use phase4_fusion::attention;
use phase4_fusion::ptx::{PAIRS, Pair, Version, loads};
use phase4_fusion::report::ptx::PAIR;

use crate::limits::Limits;
use crate::spec::{FinishedTable, Make, TableSpec};
use crate::tables::layers::{ALL, sides};
use crate::tables::linear_relu::{self, versions};
use crate::tables::peers::{PYTORCH_EAGER, PYTORCH_GRAPH};
use crate::tables::resnet::{self, by};
use crate::tables::{
    accuracy as accuracies, attention as attentions, autoencoder as autoencoders, fusion as fusions, layers,
    streams as of_streams, video as videos,
};

/// Characters of a sentence's line.
const LINE: u16 = 17;

/// Within this factor an amount, or what a ratio gains, is confirmed.
const CLOSE: f64 = 1.5;

/// A smaller change of a ratio is none: so much differs from run to run.
const NOISE: f64 = 0.01;

/// A ratio that was claimed to be 1 is confirmed within this.
const PARITY: f64 = 0.05;

/// The key of the column of verdicts.
pub(crate) const HOLDS_KEY: &str = "holds";

const CLAIM: ColumnSpec = ColumnSpec::text("claim", "claim").in_lines_of(LINE);
const CLAIMED: ColumnSpec = ColumnSpec::text("claimed", "claimed").in_lines_of(LINE);
const MEASURED: ColumnSpec = ColumnSpec::text("measured", "measured").in_lines_of(LINE);
const ON: ColumnSpec = ColumnSpec::text("on", "on");
const HOLDS: ColumnSpec = ColumnSpec::text(HOLDS_KEY, "holds");
const WHY: ColumnSpec = ColumnSpec::text("why", "why").in_lines_of(LINE);
const COLUMNS: &[ColumnSpec] = &[CLAIM, CLAIMED, MEASURED, ON, HOLDS, WHY];

/// The tables that claims are measured by.
const NEEDS: [&str; 12] = [
    "linear-relu",
    "layers",
    "resnet-single",
    "resnet-batch",
    "memory",
    "accuracy",
    "autoencoder",
    "attention",
    "fusion",
    "ptx",
    "streams",
    "video",
];

/// Why there is no finding.
#[derive(Debug)]
enum Missing {
    /// The run did not measure it.
    Measurement,
    /// A table does not have a column that it should.
    Column(common::Error),
}

impl From<common::Error> for Missing {
    fn from(error: common::Error) -> Missing {
        Missing::Column(error)
    }
}

type Found<T = Finding> = std::result::Result<T, Missing>;

/// What was found out about a claim.
struct Finding {
    measured: String,
    holds: &'static str,
    why: String,
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "claims",
    shows: "claims of the literature, measured again",
    uses: &[],
    columns: COLUMNS,
    make: Make::Derived { needs: &NEEDS, from: run },
};

/// Makes the table from a finished run.
fn run(source: Option<&Record>) -> crate::Result<FinishedTable> {
    let mut table = tabulate(source)?;
    if source.is_none() {
        table.note("There is no GPU here, and no record of one is in the repository.");
    }
    Ok(FinishedTable { table: table.finish(), wrong: Vec::new() })
}

/// A claim, and what was found out about it.
struct Claim {
    text: String,
    claimed: String,
    /// The page of the book that measures it, below `book/pages` and without its ending.
    page: &'static str,
    found: Found,
}

/// The page of each row, in their order.
pub(crate) fn pages() -> Vec<&'static str> {
    claims(None).into_iter().map(|claim| claim.page).collect()
}

fn tabulate(source: Option<&Record>) -> crate::Result<TableBuilder> {
    let mut table = TableBuilder::new("claims, measured again", DeviceKind::Gpu, COLUMNS);
    let device = source.map_or("", |record| record.device_name.strip_prefix("NVIDIA ").unwrap_or(&record.device_name));
    let mut pages: Vec<&str> = Vec::new();
    for Claim { text, claimed, page, found } in claims(source) {
        if !pages.contains(&page) {
            pages.push(page);
        }
        let row = table.row().set(CLAIM, text).set(CLAIMED, claimed);
        match found {
            Ok(Finding { measured, holds, why }) => {
                row.set(MEASURED, measured).set(ON, device).set(HOLDS, holds).set(WHY, why).finish("");
            }
            Err(Missing::Measurement) => row.finish("no measurement of it in this run"),
            Err(Missing::Column(error)) => return Err(error.into()),
        }
    }
    let (noise, parity) = (100.0 * NOISE, 100.0 * PARITY);
    table.note(format!(
        "holds: yes if what is gained (a ratio less 1) or an amount is within a factor of {CLOSE} of what was claimed, or in the range claimed; \
         1.00× within {parity} %. In kind if only the direction is right, by more than {noise} %. In f32 without TF32, where nothing else is said."
    ));
    table.note(format!("The book's pages on them, in their order: {}.", pages.join(", ")));
    if let Some(record) = source {
        table.note(format!("measured: {}.", record.provenance_of_all(&NEEDS)));
    }
    Ok(table)
}

/// All claims, with what a run says of them.
fn claims(source: Option<&Record>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut row = |text: &str, claimed: &str, page: &'static str, found: Found| {
        claims.push(Claim { text: text.to_owned(), claimed: claimed.to_owned(), page, found });
    };
    let of = |name: &str| Rows(source.and_then(|record| record.table(name)));
    let (linear, layers) = (of("linear-relu"), of("layers"));
    let (single, batches) = (of("resnet-single"), of("resnet-batch"));

    const LINEAR: &str = "phase2/linear-relu";
    row(
        "A naive GEMM in a fused Linear+ReLU is a disaster",
        "1024×784→2048: eager 1.10 ms, v1 8.47 ms: 7.67× slower",
        LINEAR,
        disaster(linear),
    );
    row("… and slow as a product", "50–100 GFLOP/s against 5–10 TFLOP/s: 100×", LINEAR, product(linear));
    row(
        "… because of memory traffic",
        "34 MB at 5 % of 900 GB/s; fixed: 18 MB at 67 %",
        LINEAR,
        bandwidth(source).and_then(|limit| traffic(linear, limit)),
    );
    for (size, claimed) in [("256×256→512", 1.00), ("1024×784→2048", 1.05), ("8192×4096→4096", 1.18)] {
        row(
            &format!("A library's GEMM + fused ReLU, {size}"),
            &format!("{claimed:.2}× eager"),
            LINEAR,
            library(linear, size, claimed),
        );
    }
    row("Backward without an extra allocation", "2× eager", LINEAR, backward(linear));

    row("ResNet18 forward, CPU → GPU", "500–580 ms → 5–10 ms: 72×", "phase3/resnet18", forward(single, 540.0 / 7.5));
    let parts = [
        ("Conv2D", 400.0, 8.0),
        ("BatchNorm", 80.0, 1.0),
        ("ReLU", 20.0, 0.2),
        ("MaxPool", 30.0, 0.3),
        ("Linear", 50.0, 1.0),
    ];
    for (layer, cpu, gpu) in parts {
        row(
            &format!("ResNet18's {layer}, CPU → GPU"),
            &format!("{cpu} ms → {gpu} ms: {:.0}×", cpu / gpu),
            "phase3/layers",
            kind(layers, layer, cpu / gpu),
        );
    }
    row("… and their shares", "conv is 70 %, BatchNorm 15 %", "phase3/layers", shares(layers));
    for (by, phase, claimed, factor, page) in [
        (by::ROUND_TRIP, "1", "10× slower", 0.1, "phase1/transfer-test"),
        (by::CONV_ON_DEVICE, "2", "5–10× faster", 7.5, "phase3/resnet18"),
        (by::PHASE3, "3", "20–50× faster", 35.0, "phase3/resnet18"),
        (by::PHASE4[0], "4", "30–100× faster", 65.0, "phase4/resnet18"),
    ] {
        row(&format!("The phases, against the CPU: phase {phase}"), claimed, page, against_the_cpu(single, by, factor));
    }
    row("Batching", "CPU 2 images/s, GPU 200–500: 175×", "phase3/resnet18", batching(batches));
    row("… and time", "batch 32: 16 s → 200–400 ms: 53×", "phase3/resnet18", batch_of_32(batches));
    row("… and use", "batch 1, 4, 32: 10, 40, 90 % of the GPU", "phase3/resnet18", used(batches));
    row("Memory", "phase 1 1 MB, phase 3 10–50 MB", "phase3/resnet18", memory(of("memory")));
    row("… of phase 4", "100–500 MB", "phase4/resnet18", memory_of_phase4(of("memory")));

    let one_kernel = of("autoencoder");
    row(
        "One fused kernel for the autoencoder: parity",
        "0.97–1.02× PyTorch, batch 32 to 512",
        "phase4/autoencoder",
        parity(one_kernel),
    );
    for (batch, pytorch, kernel) in [
        (32.0, 0.0719, 0.0739),
        (64.0, 0.0712, 0.0705),
        (128.0, 0.0717, 0.0705),
        (256.0, 0.0704, 0.0694),
        (512.0, 0.0705, 0.0702),
    ] {
        row(
            &format!("… at batch {batch}"),
            &format!("PyTorch {pytorch} ms, kernel {kernel} ms: {:.2}×", pytorch / kernel),
            "phase4/autoencoder",
            parity_at(one_kernel, batch, pytorch / kernel),
        );
    }
    row(
        "… or 25×",
        "100 ms → 4 ms, max difference 5.722e-6, mean 7.479e-7",
        "phase4/autoencoder",
        fused_kernel(one_kernel),
    );

    let streams = of("streams");
    row("Phase 4's parts: a launch", "5 µs", "phase1/launch-overhead", launch(streams));
    row("… fusion", "5–10 %", "phase4/resnet18", fusion(batches));
    row("… staying on the device", "20–40 %", "phase3/resnet18", staying(single));
    row("… asynchrony", "10–20 %", "phase4/streams", asynchrony(streams));

    const UNET: &str = "phase4/unet";
    let (frame, parts) = (of("video"), of("fusion"));
    row("The video U-Net, 880 M, batch 2, 64×64", "44.8 ms (22.3 frames/s)", "phase3/video-unet", video(frame));
    row(
        "… and its bandwidth",
        "85 % of the memory's",
        UNET,
        limits(source).and_then(|limits| frame_bandwidth(frame, limits)),
    );
    row("… by fusion", "1.3–1.5×", UNET, frame_by_fusion(frame));
    row("… by memory access", "1.2–1.4×", "phase4/fusion", memory_access(parts));
    row("… with PTX", "2×: 11 ms", UNET, frame_in_f16(frame));
    row("… conv+BN+SiLU fused", "15–30 %", "phase4/fusion", one_launch(parts, "conv+BN+SiLU 64@56"));
    row("… flash attention", "30–60 %, 40 % less memory", "phase4/attention", without_scores(of("attention")));
    row("… the diffusion step", "15–30 %", "phase4/fusion", one_launch(parts, "diffusion step 32768"));

    row("Accuracy", "GPU equals CPU within 1e-5; 69.76 % on both", "phase3/resnet18", accuracy(of("accuracy")));
    let by_hand = of("ptx");
    row("PTX by hand: vectorised loads", "4×", "phase4/ptx-memory", vectors(by_hand));
    row("… bandwidth", "+50 %", "phase4/ptx-memory", hints(by_hand));
    row("… instruction level", "+40 %", "phase4/ptx", instructions(by_hand));
    claims
}

/// Whether a measured ratio is what was claimed. Not the ratio is compared but what it gains, so that a claimed 1.05 needs a gain of 5 %,
/// within [`CLOSE`], and not any ratio about 1. A loss is a gain of the other side.
fn holds(measured: f64, claimed: f64) -> &'static str {
    if claimed == 1.0 {
        return if (1.0 - PARITY..=1.0 + PARITY).contains(&measured) { "yes" } else { "no" };
    }
    let (measured, claimed) = if claimed < 1.0 { (1.0 / measured, 1.0 / claimed) } else { (measured, claimed) };
    match measured - 1.0 {
        gain if close(gain, claimed - 1.0) => "yes",
        gain if gain > NOISE => "in kind",
        _ => "no",
    }
}

/// Whether an amount is what was claimed.
fn close(measured: f64, claimed: f64) -> bool {
    (1.0 / CLOSE..=CLOSE).contains(&(measured / claimed))
}

/// A finished table's rows, if the run has it.
#[derive(Clone, Copy)]
struct Rows<'a>(Option<&'a Table>);

impl Rows<'_> {
    /// The number in a column of the row with these cells.
    fn number<const N: usize>(self, row: [(ColumnSpec, Cell); N], column: ColumnSpec) -> Found<f64> {
        let table = self.0.ok_or(Missing::Measurement)?;
        // Whether or not there is a row, the column has to be there.
        table.column(column)?;
        let row = table.find(&row)?.ok_or(Missing::Measurement)?;
        row.number(column)?.ok_or(Missing::Measurement)
    }

    /// A number of a version of the linear layer.
    fn of_version(self, size: &str, version: &str, column: ColumnSpec) -> Found<f64> {
        self.number([(linear_relu::SIZE, size.into()), (linear_relu::VERSION, version.into())], column)
    }

    /// Milliseconds of a version of the linear layer.
    fn total(self, size: &str, version: &str) -> Found<f64> {
        self.of_version(size, version, linear_relu::TOTAL)
    }

    /// A number of a side of ResNet18's layers of a kind.
    fn of_layers(self, kind: &str, by: &str, column: ColumnSpec) -> Found<f64> {
        self.number([(layers::LAYER, format!("{ALL}{kind}").into()), (layers::BY, by.into())], column)
    }

    /// Milliseconds of an implementation of ResNet18.
    fn of_implementation(self, by: &str) -> Found<f64> {
        self.number([(resnet::IMPLEMENTATION, by.into())], resnet::MS)
    }

    /// A number of a batch of ResNet18.
    fn of_batch(self, batch: f64, by: &str, column: ColumnSpec) -> Found<f64> {
        self.number([(resnet::BATCH_SIZE, batch.into()), (resnet::BY, by.into())], column)
    }
}

/// The size that the story is about.
const STORY: &str = "1024×784→2048";

fn disaster(rows: Rows<'_>) -> Found {
    let (eager, naive) = (rows.total(STORY, versions::EAGER)?, rows.total(STORY, versions::NAIVE)?);
    let tuned = rows.total(STORY, versions::TUNED)?;
    let slower = naive / eager;
    Ok(Finding {
        measured: format!("eager {eager:.3} ms, v1 {naive:.3} ms: {slower:.2}× slower"),
        holds: holds(slower, 7.67),
        why: format!("the product, not the fusion: v2, fused too, takes {tuned:.3} ms, 1/{:.0} of v1", naive / tuned),
    })
}

fn product(rows: Rows<'_>) -> Found {
    let (naive, tuned) = (rows.total(STORY, versions::NAIVE)?, rows.total(STORY, versions::TUNED)?);
    let cost = linear_relu::roofline_cost(STORY).ok_or(Missing::Measurement)?;
    let [slow, fast] = [naive, tuned].map(|ms| cost.flops / (ms * 1e-3));
    Ok(Finding {
        measured: format!("{:.0} GFLOP/s against {:.1} TFLOP/s: {:.0}×", slow / 1e9, fast / 1e12, fast / slow),
        holds: holds(fast / slow, 100.0),
        why: "v2 loads a value once for a tile of outputs, v1 once for each".to_owned(),
    })
}

fn traffic(rows: Rows<'_>, limit: f64) -> Found {
    let share = |version| Ok::<_, Missing>(100.0 * rows.of_version(STORY, version, columns::GBPS)? * 1e9 / limit);
    let (naive, tuned) = (share(versions::NAIVE)?, share(versions::TUNED)?);
    let mb = rows.of_version(STORY, versions::TUNED, linear_relu::MB)?;
    let bound = if tuned < 50.0 { "arithmetic bounds it then, not memory" } else { "memory bounds it then" };
    Ok(Finding {
        measured: format!("v1 {naive:.1} %, v2 {tuned:.1} % of the copy's bandwidth, for the {mb:.0} MB needed"),
        // Both are shares of the bandwidth, and there is no direction for them to have.
        holds: if close(naive, 5.0) && close(tuned, 67.0) { "yes" } else { "no" },
        why: format!("memory is slow for neither: v1 waits for its caches; v2 needs {mb:.0} MB and no more; {bound}"),
    })
}

/// What the device can do at most, as the run measured it.
fn limits(source: Option<&Record>) -> Found<Limits> {
    source.map(Limits::of_run).transpose()?.flatten().ok_or(Missing::Measurement)
}

/// Bytes per second, of the device's own copy.
fn bandwidth(source: Option<&Record>) -> Found<f64> {
    Ok(limits(source)?.bandwidth)
}

fn library(rows: Rows<'_>, size: &str, claimed: f64) -> Found {
    let eager = rows.total(size, versions::EAGER)?;
    let gain = |version| Ok::<_, Missing>(eager / rows.total(size, version)?);
    let (library, tuned) = (gain(versions::LIBRARY)?, gain(versions::TUNED)?);
    let relu = rows.total(size, versions::LIBRARY_RELU)?;
    let share = 100.0 * relu / rows.total(size, versions::LIBRARY)?;
    Ok(Finding {
        measured: format!("cuBLAS, then ReLU {library:.2}×; v2, fused {tuned:.2}×"),
        holds: holds(library.max(tuned), claimed),
        why: format!("what there is to gain is the second pass: bias and ReLU take {share:.0} % beside cuBLAS"),
    })
}

fn backward(rows: Rows<'_>) -> Found {
    let size = linear_relu::name([8192, 4096, 4096]);
    let fused = rows.total(&size, versions::BACKWARD)?;
    let eager = rows.total(&size, versions::BACKWARD_EAGER)? / fused;
    let separate = rows.total(&size, versions::SEPARATE)? / fused;
    let difference = 100.0 * (separate - 1.0).abs();
    let than = if separate < 1.0 { "less" } else { "more" };
    Ok(Finding {
        measured: format!("{size}: {eager:.2}× eager, {separate:.2}× with the masked gradient written first"),
        holds: holds(eager, 2.0),
        why: format!(
            "with the mask in a kernel of its own it takes {difference:.0} % {than}; the products are the rest"
        ),
    })
}

fn forward(rows: Rows<'_>, claimed: f64) -> Found {
    let ms = |by| rows.of_implementation(by);
    let (plain, cpu, gpu) = (ms(by::PLAIN)?, ms(by::CPU)?, ms(by::PHASE3)?);
    Ok(Finding {
        measured: format!("plain loops {plain:.0} ms, a CPU at its best {cpu:.0} ms → {gpu:.2} ms: {:.0}×", cpu / gpu),
        holds: holds(cpu / gpu, claimed),
        why: format!("the ratio is as much the CPU's code as the GPU's: against plain loops it is {:.0}×", plain / gpu),
    })
}

fn kind(rows: Rows<'_>, layer: &str, claimed: f64) -> Found {
    let naive = rows.of_layers(layer, sides::NAIVE_CPU, layers::CPU_MS)?;
    let fast_cpu = rows.of_layers(layer, sides::FAST_CPU, layers::CPU_MS)?;
    let ms = rows.of_layers(layer, sides::FAST, layers::DEVICE_MS)?;
    Ok(Finding {
        measured: format!("{naive:.1} ms → {ms:.4} ms: {:.0}×", naive / ms),
        holds: holds(naive / ms, claimed),
        why: format!(
            "against plain loops on one thread; a CPU at its best takes {fast_cpu:.2} ms: {:.0}×",
            fast_cpu / ms
        ),
    })
}

fn shares(rows: Rows<'_>) -> Found {
    let ms = |kind| rows.of_layers(kind, sides::FAST, layers::DEVICE_MS);
    let (conv, norm, relu, all) = (ms("Conv2D")?, ms("BatchNorm")?, ms("ReLU")?, ms("layers")?);
    let [conv, norm, relu] = [conv, norm, relu].map(|part| 100.0 * part / all);
    Ok(Finding {
        measured: format!("on the GPU: conv {conv:.0} %, BatchNorm {norm:.0} %, ReLU {relu:.0} %"),
        // In kind: convolutions take most, BatchNorm less than half of that.
        holds: match close(conv, 70.0) && close(norm, 15.0) {
            true => "yes",
            false if conv > 50.0 && norm < conv / 2.0 => "in kind",
            false => "no",
        },
        why: "one image: each launch takes microseconds, however little there is to do".to_owned(),
    })
}

fn against_the_cpu(rows: Rows<'_>, by: &str, claimed: f64) -> Found {
    let ms = |by| rows.of_implementation(by);
    let (cpu, plain, ms) = (ms(by::CPU)?, ms(by::PLAIN)?, ms(by)?);
    let factor = cpu / ms;
    let in_words = if factor < 1.0 { format!("{:.1}× slower", 1.0 / factor) } else { format!("{factor:.1}× faster") };
    Ok(Finding {
        measured: format!("{ms:.2} ms, the CPU {cpu:.1} ms: {in_words}"),
        holds: holds(factor, claimed),
        why: match factor < 1.0 {
            true => "the copies alone: the CPU computes as before".to_owned(),
            false => format!("against a CPU at its best; against plain loops {:.0}×", plain / ms),
        },
    })
}

fn batching(rows: Rows<'_>) -> Found {
    let rate = |batch, by| rows.of_batch(batch, by, resnet::RATE);
    let (cpu, one, most) = (rate(1.0, by::BATCH_CPU)?, rate(1.0, by::BATCH_PHASE3)?, rate(64.0, by::BATCH_PHASE3)?);
    Ok(Finding {
        measured: format!("CPU {cpu:.0} images/s, GPU {one:.0} one by one, {most:.0} in batches of 64"),
        holds: holds(most / cpu, 350.0 / 2.0),
        why: format!("batching gains {:.1}×: a single image fills the GPU a good part of the time", most / one),
    })
}

fn batch_of_32(rows: Rows<'_>) -> Found {
    let ms = |by| rows.of_batch(32.0, by, resnet::MS);
    let (cpu, gpu) = (ms(by::BATCH_CPU)?, ms(by::BATCH_PHASE3)?);
    Ok(Finding {
        measured: format!("CPU {cpu:.0} ms, GPU {gpu:.2} ms: {:.0}×", cpu / gpu),
        holds: holds(cpu / gpu, 16_000.0 / 300.0),
        why: format!("both are faster by far; PyTorch's takes {:.2} ms", ms(by::EAGER)?),
    })
}

fn memory(rows: Rows<'_>) -> Found {
    let at =
        |by: &str, column| rows.number([(resnet::IMPLEMENTATION, by.into()), (resnet::BATCH_SIZE, 1.0.into())], column);
    let (travelling, peak) = (at(by::ROUND_TRIP, resnet::PEAK)?, at(by::PHASE3, resnet::PEAK)?);
    let (parameters, activations) = (at(by::PHASE3, resnet::PARAMETERS)?, at(by::PHASE3, resnet::ACTIVATIONS)?);
    Ok(Finding {
        measured: format!("phase 1 {travelling:.1} MiB, phase 3 {peak:.0} MiB, of which parameters {parameters:.0}"),
        holds: if close(travelling, 1.0) && (10.0..=50.0).contains(&peak) { "yes" } else { "no" },
        why: format!("activations take {activations:.1} MiB; Winograd's weights are kept in two forms, for speed"),
    })
}

fn memory_of_phase4(rows: Rows<'_>) -> Found {
    let at = |by: &str, batch: f64| {
        rows.number([(resnet::IMPLEMENTATION, by.into()), (resnet::BATCH_SIZE, batch.into())], resnet::PEAK)
    };
    let [single, _, half] = by::PHASE4;
    let (one, most, least) = (at(single, 1.0)?, at(single, 32.0)?, at(half, 1.0)?);
    Ok(Finding {
        measured: format!("f32: batch 1 {one:.0} MiB, batch 32 {most:.0} MiB; f16, batch 1: {least:.0} MiB"),
        holds: if [one, most].iter().all(|peak| (100.0..=500.0).contains(peak)) { "yes" } else { "no" },
        why: "convolutions in f32 need scratch memory, in f16 none; values of f16 are half as large".to_owned(),
    })
}

fn used(rows: Rows<'_>) -> Found {
    let rate = |batch| rows.of_batch(batch, by::BATCH_PHASE3, resnet::RATE);
    let most = rate(64.0)?;
    let [one, four, many] = [rate(1.0)?, rate(4.0)?, rate(32.0)?].map(|rate| 100.0 * rate / most);
    let all_close = close(one, 10.0) && close(four, 40.0) && close(many, 90.0);
    Ok(Finding {
        measured: format!("{one:.0}, {four:.0} and {many:.0} % of the rate of batch 64"),
        // In kind: a larger batch uses more.
        holds: match all_close {
            true => "yes",
            false if one < four && four < many => "in kind",
            false => "no",
        },
        why: "of the images per second that it reaches: how busy a GPU is, no one number says".to_owned(),
    })
}

/// The batches that the autoencoder's claims are about.
const BATCHES: [f64; 5] = [32.0, 64.0, 128.0, 256.0, 512.0];

/// A number of the smallest autoencoder.
fn of_original(rows: Rows<'_>, batch: f64, by: &str, column: ColumnSpec) -> Found<f64> {
    use autoencoders::{BATCH, BY, CONFIGURATION};
    rows.number([(CONFIGURATION, "original".into()), (BATCH, batch.into()), (BY, by.into())], column)
}

/// How many times as fast as `peer` one kernel is: the least and the most of all batches.
fn gains(rows: Rows<'_>, peer: &str) -> Found<[f64; 2]> {
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for batch in BATCHES {
        let ms = |by| of_original(rows, batch, by, columns::MS);
        let gain = ms(peer)? / ms(autoencoders::versions::ONE_KERNEL)?;
        (least, most) = (least.min(gain), most.max(gain));
    }
    Ok([least, most])
}

fn parity(rows: Rows<'_>) -> Found {
    let ([least, most], [graph, by_graph]) = (gains(rows, PYTORCH_EAGER)?, gains(rows, PYTORCH_GRAPH)?);
    Ok(Finding {
        measured: format!("{least:.1}–{most:.1}× eager, {graph:.1}–{by_graph:.1}× a graph"),
        holds: if [least, most].iter().all(|gain| holds(*gain, 1.0) == "yes") { "yes" } else { "no" },
        why: "eager's time is that of its launches, and a kernel that is launched as slowly is no faster".to_owned(),
    })
}

fn parity_at(rows: Rows<'_>, batch: f64, claimed: f64) -> Found {
    let ms = |by| of_original(rows, batch, by, columns::MS);
    let [eager, graph, kernel] = [ms(PYTORCH_EAGER)?, ms(PYTORCH_GRAPH)?, ms(autoencoders::versions::ONE_KERNEL)?];
    Ok(Finding {
        measured: format!("PyTorch {eager:.4} ms, kernel {kernel:.4} ms: {:.1}×", eager / kernel),
        // Within a few percent of parity, as each of these was claimed to be.
        holds: if (eager / kernel - claimed).abs() <= PARITY { "yes" } else { "no" },
        why: format!("without PyTorch's launches, as a graph, {graph:.4} ms: {:.1}×", graph / kernel),
    })
}

fn fused_kernel(rows: Rows<'_>) -> Found {
    let [_, most] = gains(rows, PYTORCH_EAGER)?;
    let one_kernel = autoencoders::versions::ONE_KERNEL;
    let largest = |column| {
        let off = BATCHES.map(|batch| of_original(rows, batch, one_kernel, column));
        off.into_iter().try_fold(0.0, |most: f64, off| Ok::<_, Missing>(most.max(off?)))
    };
    let (off, mean) = (largest(columns::MAX_DIFFERENCE)?, largest(autoencoders::MEAN_DIFFERENCE)?);
    Ok(Finding {
        measured: format!("{most:.1}× eager at most, max difference {off:.1e}, mean {mean:.1e}"),
        holds: holds(most, 25.0),
        why: "the kernel behind the claim left out work; this one is checked".to_owned(),
    })
}

/// A number of a way of doing something.
fn of_way(rows: Rows<'_>, what: &str, way: &str, column: ColumnSpec) -> Found<f64> {
    rows.number([(of_streams::WHAT, what.into()), (of_streams::WAY, way.into())], column)
}

fn launch(rows: Rows<'_>) -> Found {
    const WHAT: &str = "64 tiny kernels";
    let each = |way| Ok::<_, Missing>(1e3 * of_way(rows, WHAT, way, of_streams::MS)? / 64.0);
    let (plain, graph) = (each("launches")?, each("graph")?);
    Ok(Finding {
        measured: format!("{plain:.1} µs, of {WHAT} one after the other; in a graph {graph:.1} µs"),
        holds: if close(plain, 5.0) { "yes" } else { "no" },
        why: "the host's share of it is what a graph saves".to_owned(),
    })
}

/// What a change took off, in percent.
fn less(before: f64, now: f64) -> f64 {
    100.0 * (1.0 - now / before)
}

/// Whether a change took off what was claimed, in percent.
fn took_off(percent: f64, [least, most]: [f64; 2]) -> &'static str {
    match percent {
        percent if (least..=most).contains(&percent) => "yes",
        percent if percent > 100.0 * NOISE => "in kind",
        _ => "no",
    }
}

fn fusion(rows: Rows<'_>) -> Found {
    let ms = |batch, by| rows.of_batch(batch, by, resnet::MS);
    let off = |batch| Ok::<_, Missing>(less(ms(batch, by::BATCH_PHASE3_GRAPH)?, ms(batch, by::BATCH_PHASE4[0])?));
    let (one, many) = (off(1.0)?, off(32.0)?);
    Ok(Finding {
        measured: format!("ResNet18, one image: {one:.0} % less, 32 images: {many:.0} %; graphs both"),
        holds: if took_off(one, [5.0, 10.0]) == "yes" { "yes" } else { took_off(many, [5.0, 10.0]) },
        why: "it saves launches and bytes; the convolutions are the rest".to_owned(),
    })
}

fn staying(rows: Rows<'_>) -> Found {
    let (between, all) = (rows.of_implementation(by::CONV_ON_DEVICE)?, rows.of_implementation(by::PHASE3)?);
    let off = less(between, all);
    Ok(Finding {
        measured: format!("with copies around each layer {between:.1} ms, without {all:.2} ms: {off:.0} % less"),
        holds: took_off(off, [20.0, 40.0]),
        why: "a copy takes longer than the layer beside it".to_owned(),
    })
}

fn asynchrony(rows: Rows<'_>) -> Found {
    const WHAT: &str = "256 photos, ResNet18";
    let ms = |way| of_way(rows, WHAT, way, of_streams::MS);
    let (in_turn, overlapped, decoding) = (ms("in turn")?, ms("overlapped")?, ms("decoding")?);
    let off = less(in_turn, overlapped);
    Ok(Finding {
        measured: format!("256 photos: {in_turn:.0} ms in turn, {overlapped:.0} ms overlapped: {off:.0} % less"),
        holds: took_off(off, [10.0, 20.0]),
        why: format!("decoding alone takes {decoding:.0} ms, on the host"),
    })
}

/// Milliseconds of a frame of the largest U-Net.
fn of_frame(rows: Rows<'_>, by: &str) -> Found<f64> {
    rows.number([(videos::CONFIGURATION, videos::PRODUCTION.into()), (videos::BY, by.into())], videos::MS)
}

fn frame_by_fusion(rows: Rows<'_>) -> Found {
    let [unfused, fused] = [videos::versions::UNFUSED_GRAPH, videos::versions::FUSED[0]].map(|by| of_frame(rows, by));
    let (unfused, fused) = (unfused?, fused?);
    Ok(Finding {
        measured: format!("f32, graphs: {unfused:.1} ms → {fused:.1} ms: {:.2}×", unfused / fused),
        holds: holds(unfused / fused, 1.4),
        why: "attention without scores in memory, and fewer launches; the products are as before".to_owned(),
    })
}

/// The weights are the one part of a frame's bytes that each pass needs, whatever the caches hold: a bound from below. That the
/// memory is not what limits the frame, the share of arithmetic says.
fn frame_bandwidth(rows: Rows<'_>, limits: Limits) -> Found {
    let by = videos::versions::FUSED[0];
    let ms = of_frame(rows, by)?;
    let row = [(videos::CONFIGURATION, videos::PRODUCTION.into()), (videos::BY, by.into())];
    let weights = rows.number(row, videos::WEIGHTS_MIB)? * f64::from(1 << 20);
    let per_second = |amount: f64| amount / (ms * 1e-3);
    let (bytes, flops) = (per_second(weights), per_second(videos::FRAME_FLOPS));
    let [of_memory, of_arithmetic] = [bytes / limits.bandwidth, flops / limits.flops].map(|share| 100.0 * share);
    Ok(Finding {
        measured: format!(
            "f32, fused: its weights, read once, take {of_memory:.0} % of the copy's bandwidth; its products are {of_arithmetic:.0} % of \
             the multiply-adds' peak"
        ),
        holds: if close(of_memory, 85.0) { "yes" } else { "no" },
        why: if of_arithmetic > of_memory {
            "two latents are enough work for each weight that arithmetic bounds the frame".to_owned()
        } else {
            "each weight serves two latents alone".to_owned()
        },
    })
}

/// Work whose fused version changes nothing but what passes through memory: rows normalised where they are read, and an image read
/// as it is in place of one that is upsampled and joined first.
const MEMORY_ACCESS: [&str; 4] =
    ["norm 8192×320→960 f16", "norm 8192×320→960 tf32", "up 320 ‖ 320→320 @64 ×2", "up 640→640 @64 ×2"];

fn memory_access(rows: Rows<'_>) -> Found {
    let ms =
        |work: &str, step: &str| rows.number([(fusions::WORK, work.into()), (columns::STEP, step.into())], columns::MS);
    let gains = MEMORY_ACCESS.map(|work| Ok::<_, Missing>(ms(work, fusions::SEPARATE)? / ms(work, fusions::FUSED)?));
    let gains = gains.into_iter().collect::<Found<Vec<f64>>>()?;
    let (least, most) =
        gains.iter().fold((f64::INFINITY, 0.0f64), |(least, most), gain| (least.min(*gain), most.max(*gain)));
    let mean = (gains.iter().map(|gain| gain.ln()).sum::<f64>() / gains.len() as f64).exp();
    Ok(Finding {
        measured: format!("norm and up, {} of them: {least:.2}–{most:.2}×, mean {mean:.2}×", gains.len()),
        holds: holds(mean, 1.3),
        why: "a pass over memory less each; most of the values were still in the L2 cache".to_owned(),
    })
}

fn frame_in_f16(rows: Rows<'_>) -> Found {
    let [single, tf32, half] = videos::versions::FUSED.map(|by| of_frame(rows, by));
    let (single, tf32, half) = (single?, tf32?, half?);
    Ok(Finding {
        measured: format!(
            "f16: {half:.2} ms, tf32: {tf32:.2} ms; f32: {single:.1} ms: {:.1}× and {:.1}×",
            single / half,
            single / tf32
        ),
        holds: if half <= 11.0 { "yes" } else { "no" },
        why: "tensor cores, which PTX alone reaches; not the instructions that a compiler would write too".to_owned(),
    })
}

fn one_launch(rows: Rows<'_>, work: &str) -> Found {
    let ms = |step: &str| rows.number([(fusions::WORK, work.into()), (columns::STEP, step.into())], columns::MS);
    let (separate, fused) = (ms(fusions::SEPARATE)?, ms(fusions::FUSED)?);
    let off = less(separate, fused);
    Ok(Finding {
        measured: format!("{:.1} µs → {:.1} µs: {off:.0} % less", 1e3 * separate, 1e3 * fused),
        holds: took_off(off, [15.0, 30.0]),
        why: "one launch in place of three, and no values between them in memory".to_owned(),
    })
}

fn without_scores(rows: Rows<'_>) -> Found {
    let of = |by: &str, column| {
        let row =
            [(attentions::TOKENS, 4096.0.into()), (attentions::CHANNELS, 40.0.into()), (attentions::BY, by.into())];
        rows.number(row, column)
    };
    // The steps in f32 without TF32: the faster one that was measured.
    let steps = [attention::step01_online::STEP, attention::step07_parts::STEP].map(|step| step.title());
    let measured = steps.iter().filter_map(|by| Some((of(by, columns::MS).ok()?, by)));
    let (ms, by) = measured.min_by(|(a, _), (b, _)| a.total_cmp(b)).ok_or(Missing::Measurement)?;
    let (time, memory) =
        (less(of("naive", columns::MS)?, ms), less(of("naive", attentions::MIB)?, of(by, attentions::MIB)?));
    let than = if time < 0.0 { "more" } else { "less" };
    Ok(Finding {
        measured: format!("4096 tokens, f32: {:.0} % {than} time, {memory:.0} % less memory", time.abs()),
        holds: took_off(time, [30.0, 60.0]),
        why: "the scores are tokens² values, and were written once and read twice".to_owned(),
    })
}

fn video(rows: Rows<'_>) -> Found {
    let ms = |by| of_frame(rows, by);
    let (unfused, eager) = (ms(videos::versions::UNFUSED)?, ms(videos::versions::EAGER)?);
    Ok(Finding {
        measured: format!("unfused, f32: {unfused:.1} ms ({:.1} frames/s)", 1e3 / unfused),
        holds: if close(unfused, 44.8) { "yes" } else { "no" },
        why: format!("before any fusion; PyTorch eager takes {eager:.1} ms"),
    })
}

fn accuracy(rows: Rows<'_>) -> Found {
    use accuracies::names::{CPU, DIGITS, PHASE3, RESNET18};
    let at = |model: &str, by: &str, column| {
        rows.number([(accuracies::MODEL, model.into()), (accuracies::BY, by.into())], column)
    };
    let off = at(RESNET18, PHASE3, accuracies::OF_LARGEST)?;
    let [cpu, gpu] = [at(DIGITS, CPU, accuracies::ACCURACY)?, at(DIGITS, PHASE3, accuracies::ACCURACY)?];
    Ok(Finding {
        measured: format!("within {off:.1e} of the largest logit; digits: {cpu:.2} % and {gpu:.2} %"),
        holds: if off <= 1e-5 && cpu == gpu { "yes" } else { "no" },
        why: "69.76 % is ImageNet's, which cannot be shipped: `evaluate` measures it where it is".to_owned(),
    })
}

/// Milliseconds of each version of `loads`, at 2²⁶ floats.
fn of_loads(rows: Rows<'_>) -> Found<[f64; 3]> {
    let ms = |step: &Step<Version>| {
        rows.number([(PAIR, "loads 2^26".into()), (columns::STEP, step.title().into())], columns::MS)
    };
    Ok([ms(&loads::SCALAR)?, ms(&loads::FLOAT4)?, ms(&loads::PTX)?])
}

fn vectors(rows: Rows<'_>) -> Found {
    let [scalar, vectors, _] = of_loads(rows)?;
    Ok(Finding {
        measured: format!("2^26 floats: {scalar:.3} ms → {vectors:.3} ms: {:.2}×", scalar / vectors),
        holds: holds(scalar / vectors, 4.0),
        why: "a quarter of the requests; then memory is the limit, and it was not four times away".to_owned(),
    })
}

fn hints(rows: Rows<'_>) -> Found {
    let [_, plain, hinted] = of_loads(rows)?;
    let gain = plain / hinted;
    Ok(Finding {
        measured: format!("2^26 floats: {:+.1} % by hints for the caches", 100.0 * (gain - 1.0)),
        holds: holds(gain, 1.5),
        why: "what is read once, no cache can keep".to_owned(),
    })
}

fn instructions(rows: Rows<'_>) -> Found {
    // Of every pair at its largest size: the last version, which is PTX, against the best before it.
    let gain = |pair: &Pair| -> Found<f64> {
        let size = pair.measured.last().ok_or(Missing::Measurement)?;
        let name = format!("{} {}", pair.name, size.label());
        let ms = |step: &str| rows.number([(PAIR, name.as_str().into()), (columns::STEP, step.into())], columns::MS);
        let times: Vec<f64> = pair.versions.iter().map(|step| ms(&step.title())).collect::<Found<_>>()?;
        let (by_hand, others) = times.split_last().ok_or(Missing::Measurement)?;
        Ok(others.iter().copied().fold(f64::INFINITY, f64::min) / by_hand)
    };
    let mut gains: Vec<f64> = PAIRS.iter().map(gain).collect::<Found<_>>()?;
    gains.sort_by(f64::total_cmp);
    let [least, median, most] = [0, gains.len() / 2, gains.len() - 1].map(|at| 100.0 * (gains[at] - 1.0));
    let helped = gains.iter().filter(|&&gain| gain > 1.05).count();
    Ok(Finding {
        measured: format!("{} pairs: {least:+.0} to {most:+.0} %, median {median:+.0} %", gains.len()),
        holds: holds(1.0 + median / 100.0, 1.4),
        why: format!("{helped} gain over 5 % on the best CUDA C; for the others ptxas did it, or memory is the limit"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Device;

    /// A run as it would be saved, with these times of the layer of the story.
    fn record(eager: f64, naive: f64, tuned: f64) -> Record {
        let columns = [linear_relu::SIZE, linear_relu::VERSION, linear_relu::TOTAL, columns::GBPS, linear_relu::MB];
        let mut table = TableBuilder::new("linear-relu", DeviceKind::Gpu, &columns);
        for (version, ms) in [
            (versions::EAGER, eager),
            (versions::NAIVE, naive),
            (versions::TUNED, tuned),
            (versions::LIBRARY, 2.0 * tuned),
            (versions::LIBRARY_RELU, tuned),
        ] {
            let rate = 18e6 / (ms * 1e-3) / 1e9;
            let row = table.row().set(linear_relu::SIZE, STORY).set(linear_relu::VERSION, version);
            row.set(linear_relu::TOTAL, ms).set(columns::GBPS, rate).set(linear_relu::MB, 18.0).finish("");
        }
        let mut record = Record::begin(&Device::sim());
        record.device_name = "NVIDIA H200".to_owned();
        record.push("linear-relu", table.finish());
        record
    }

    fn made(source: Option<&Record>) -> Table {
        tabulate(source).unwrap().finish()
    }

    fn text(cell: &Cell) -> String {
        if let Cell::Text(text) = cell { text.clone() } else { String::new() }
    }

    fn row<'a>(table: &'a Table, claim: &str) -> &'a [Cell] {
        table.rows().iter().find(|row| text(&row[0]).starts_with(claim)).unwrap()
    }

    #[test]
    fn verdicts_follow_from_what_was_measured() {
        let held = |eager, naive| {
            let table = made(Some(&record(eager, naive, 0.05)));
            let [.., on, holds, _] = row(&table, "A naive GEMM") else { panic!() };
            assert_eq!(on, &"H200".into());
            holds.clone()
        };
        assert_eq!(held(0.08, 0.60), "yes".into());
        assert_eq!(held(0.08, 0.20), "in kind".into());
        assert_eq!(held(0.08, 0.06), "no".into());
        let table = made(Some(&record(0.08, 0.60, 0.05)));
        let [_, _, measured, _, holds, why] = row(&table, "A library's GEMM + fused ReLU, 1024") else { panic!() };
        assert_eq!(text(measured), "cuBLAS, then ReLU 0.80×; v2, fused 1.60×");
        assert_eq!(holds, &"in kind".into());
        assert!(text(why).contains("take 50 %"), "{}", text(why));
    }

    #[test]
    fn what_ptx_by_hand_gains_is_held_against_the_best_before_it() {
        let mut table = TableBuilder::new("ptx", DeviceKind::Gpu, &[PAIR, columns::STEP, columns::MS]);
        for pair in PAIRS {
            for size in pair.measured {
                for step in pair.versions {
                    let by_hand = step.number() as usize == pair.versions.len();
                    let ms = if by_hand && pair.name == "markov" { 0.1 } else { 0.2 };
                    let row = table.row().set(PAIR, format!("{} {}", pair.name, size.label()));
                    row.set(columns::STEP, step.title()).set(columns::MS, ms).complete();
                }
            }
        }
        let mut record = record(0.08, 0.60, 0.05);
        record.push("ptx", table.finish());
        let table = made(Some(&record));
        let found = |claim: &str| row(&table, claim)[2..].iter().map(text).collect::<Vec<_>>();
        assert_eq!(found("PTX by hand")[..3], ["2^26 floats: 0.200 ms → 0.200 ms: 1.00×", "H200", "no"]);
        assert_eq!(found("… bandwidth")[..3], ["2^26 floats: +0.0 % by hints for the caches", "H200", "no"]);
        let [measured, _, holds, why] = &found("… instruction level")[..] else { panic!() };
        assert_eq!((measured.as_str(), holds.as_str()), ("9 pairs: +0 to +100 %, median +0 %", "no"));
        assert!(why.starts_with("1 gain over 5 %"), "{why}");
    }

    #[test]
    fn one_kernel_is_held_against_eager_and_shown_beside_a_graph() {
        use autoencoders::versions::ONE_KERNEL;
        use autoencoders::{BATCH, BY, CONFIGURATION};
        let shown = [CONFIGURATION, BATCH, BY, columns::MS, columns::MAX_DIFFERENCE, autoencoders::MEAN_DIFFERENCE];
        let found = |one_kernel: f64| {
            let mut table = TableBuilder::new("autoencoder", DeviceKind::Gpu, &shown);
            for batch in BATCHES {
                for (by, ms) in [(ONE_KERNEL, one_kernel), (PYTORCH_EAGER, 0.08), (PYTORCH_GRAPH, 0.03)] {
                    let row = table.row().set(CONFIGURATION, "original").set(BATCH, batch).set(BY, by);
                    let row = row.set(columns::MS, ms).set(columns::MAX_DIFFERENCE, 5e-7);
                    row.set(autoencoders::MEAN_DIFFERENCE, 6e-8).complete();
                }
            }
            let mut record = record(0.08, 0.60, 0.05);
            record.push("autoencoder", table.finish());
            let table = made(Some(&record));
            ["One fused kernel", "… or 25×"].map(|claim| [2, 4].map(|cell| text(&row(&table, claim)[cell])))
        };
        let [[gains, parity], [most, factor]] = found(0.01);
        assert_eq!((&*gains, &*parity), ("8.0–8.0× eager, 3.0–3.0× a graph", "no"));
        assert_eq!((&*most, &*factor), ("8.0× eager at most, max difference 5.0e-7, mean 6.0e-8", "in kind"));
        assert_eq!(found(0.08)[0][1], "yes");
    }

    #[test]
    fn what_a_change_takes_off_is_held_against_the_range_that_was_claimed() {
        assert_eq!(less(4.0, 3.0), 25.0);
        assert_eq!(took_off(25.0, [15.0, 30.0]), "yes");
        assert_eq!(took_off(50.0, [15.0, 30.0]), "in kind");
        assert_eq!(took_off(-1.0, [15.0, 30.0]), "no");
    }

    #[test]
    fn a_verdict_is_on_what_is_gained_and_can_fail_close_to_one() {
        for (measured, claimed, verdict) in [
            (1.04, 1.05, "yes"),
            (1.02, 1.05, "in kind"),
            (1.20, 1.05, "in kind"),
            (1.009, 1.05, "no"),
            (0.98, 1.05, "no"),
            (1.04, 1.00, "yes"),
            (0.96, 1.00, "yes"),
            (1.06, 1.00, "no"),
            (0.50, 1.00, "no"),
            (1.25, 1.18, "yes"),
            (1.30, 1.18, "in kind"),
            (1.02, 1.18, "in kind"),
            (8.47, 7.67, "yes"),
            (3.00, 7.67, "in kind"),
            (0.90, 2.0, "no"),
            (0.12, 0.1, "yes"),
            (0.20, 0.1, "in kind"),
            (1.20, 0.1, "no"),
        ] {
            assert_eq!(holds(measured, claimed), verdict, "{measured} for {claimed}");
        }
    }

    #[test]
    fn each_claim_has_a_page_of_the_book() {
        let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/pages");
        let pages = pages();
        assert_eq!(pages.len(), made(None).rows().len());
        for page in pages {
            assert!(book.join(page).with_extension("md").is_file(), "{page}");
        }
    }

    #[test]
    fn what_a_batch_was_claimed_to_gain_is_held_against_it_alone() {
        use autoencoders::versions::ONE_KERNEL;
        let shown = [autoencoders::CONFIGURATION, autoencoders::BATCH, autoencoders::BY, columns::MS];
        let found = |eager: f64| {
            let mut table = TableBuilder::new("autoencoder", DeviceKind::Gpu, &shown);
            for (by, ms) in [(ONE_KERNEL, 0.07), (PYTORCH_EAGER, eager), (PYTORCH_GRAPH, 0.035)] {
                let row = table.row().set(autoencoders::CONFIGURATION, "original").set(autoencoders::BATCH, 64.0);
                row.set(autoencoders::BY, by).set(columns::MS, ms).complete();
            }
            let mut record = Record::begin(&Device::sim());
            record.push("autoencoder", table.finish());
            let table = made(Some(&record));
            [64, 32].map(|batch| row(&table, &format!("… at batch {batch}"))[4].clone())
        };
        let [near, unmeasured] = found(0.0714);
        assert_eq!(near, "yes".into());
        assert!(matches!(unmeasured, Cell::Absent(_)));
        assert_eq!(found(0.14)[0], "no".into());
    }

    #[test]
    fn a_frame_is_held_against_the_bandwidth_and_its_accesses_against_both_ways() {
        let mut run = record(0.08, 0.60, 0.05);
        run.push(crate::limits::LIMITS, Limits { flops: 60e12, bandwidth: 4e12 }.table());
        let shown = [videos::CONFIGURATION, videos::BY, videos::MS, videos::WEIGHTS_MIB];
        let mut table = TableBuilder::new("video", DeviceKind::Gpu, &shown);
        let row_of =
            table.row().set(videos::CONFIGURATION, videos::PRODUCTION).set(videos::BY, videos::versions::FUSED[0]);
        // 30 · 2²⁰ · 100 bytes in 100 ms: 31.5 GB/s of 4 TB/s; 14.2 TFLOP/s of 60.
        row_of.set(videos::MS, 100.0).set(videos::WEIGHTS_MIB, 3000.0).complete();
        run.push("video", table.finish());
        let mut table = TableBuilder::new("fusion", DeviceKind::Gpu, &[fusions::WORK, columns::STEP, columns::MS]);
        for (work, gain) in MEMORY_ACCESS.into_iter().zip([1.2, 1.2, 1.5, 1.5]) {
            for (step, ms) in [(fusions::SEPARATE, gain), (fusions::FUSED, 1.0)] {
                table.row().set(fusions::WORK, work).set(columns::STEP, step).set(columns::MS, ms).complete();
            }
        }
        run.push("fusion", table.finish());
        let table = made(Some(&run));
        let found = |claim: &str| [2, 4].map(|at| text(&row(&table, claim)[at]));
        let [measured, holds] = found("… and its bandwidth");
        assert!(measured.contains("take 1 % of the copy's bandwidth; its products are 24 % of"), "{measured}");
        assert_eq!(holds, "no");
        assert_eq!(found("… by memory access"), ["norm and up, 4 of them: 1.20–1.50×, mean 1.34×", "yes"]);
    }

    #[test]
    fn without_measurements_every_claim_has_a_dash() {
        let table = made(None);
        assert!(table.rows().iter().all(|row| matches!(row[2], Cell::Absent(_))));
        // A record without the tables is none.
        let empty = Record::begin(&Device::sim());
        assert!(made(Some(&empty)).rows().iter().all(|row| matches!(row[2], Cell::Absent(_))));
        assert!(table.to_text().lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{}", table.to_text());
    }

    #[test]
    fn a_column_that_a_table_lost_is_an_error_that_names_it_and_no_missing_measurement() {
        let mut run = record(0.08, 0.60, 0.05);
        let table = &mut run.tables[0].table;
        let at = table.column(linear_relu::TOTAL).unwrap();
        table.columns[at] = table.columns[at].headed("total, in ms");
        let error = tabulate(Some(&run)).unwrap_err().to_string();
        assert!(error.starts_with("the table `linear-relu` has no column `total_ms`; it has size,"), "{error}");
        // A heading alone may change.
        let mut run = record(0.08, 0.60, 0.05);
        run.tables[0].table.columns[at].heading = "total, in ms".to_owned();
        assert_eq!(made(Some(&run)).rows(), made(Some(&record(0.08, 0.60, 0.05))).rows());
    }
}
