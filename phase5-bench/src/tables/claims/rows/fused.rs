//! Claims on what phase 4 does: fusion, graphs and streams, f16, PTX by hand.

use bench::ladder::{Step, columns};
use bench::table::{Cell, ColumnSpec};
use phase4_fusion::attention::{step01_online, step07_parts};
use phase4_fusion::ptx::{PAIRS, Version, loads};
use phase4_fusion::report::ptx::PAIR;

use super::super::figure::{Figure, Key};
use super::super::rule::{Amount, PARITY, Rule};
use super::layers::{of_batch, of_implementation, of_layers};
use super::{Claim, Why};
use crate::tables::layers::{self, sides};
use crate::tables::peers::{PYTORCH_EAGER, PYTORCH_GRAPH};
use crate::tables::resnet::{self, by};
use crate::tables::{attention as attentions, autoencoder as autoencoders, fusion, ptx, streams, video};

use Amount::{Close, Within};
use Figure::{Above, Constant, Least, Less, Limit, Mean, Median, More, Most, Ratio};

/// The batches that the autoencoder's claims are about.
pub(in super::super) const BATCHES: [f64; 5] = [32.0, 64.0, 128.0, 256.0, 512.0];

/// A row of the smallest autoencoder.
fn of_original(batch: f64, by: &str) -> Key {
    use autoencoders::{BATCH, BY, CONFIGURATION, ORIGINAL};
    vec![(CONFIGURATION, ORIGINAL.into()), (BATCH, batch.into()), (BY, by.into())]
}

pub(super) fn autoencoder() -> Vec<Claim> {
    use autoencoders::versions::ONE_KERNEL;
    const PAGE: &str = "phase4/autoencoder";
    let of_all =
        |column, by| Figure::series(autoencoders::TABLE.name, column, BATCHES.map(|batch| of_original(batch, by)));
    let mut claims = vec![Claim {
        text: "One fused kernel for the autoencoder: parity".to_owned(),
        claimed: "0.97–1.02× PyTorch, batch 32 to 512".to_owned(),
        page: PAGE,
        figures: vec![
            ("eager", of_all(columns::MS, PYTORCH_EAGER)),
            ("graph", of_all(columns::MS, PYTORCH_GRAPH)),
            ("kernel", of_all(columns::MS, ONE_KERNEL)),
            ("than_eager", Ratio(1.0, "eager", "kernel")),
            ("than_graph", Ratio(1.0, "graph", "kernel")),
            ("least", Least("than_eager")),
            ("most", Most("than_eager")),
            ("least_graph", Least("than_graph")),
            ("most_graph", Most("than_graph")),
            ("graph_share", Ratio(100.0, "graph", "eager")),
            ("least_share", Least("graph_share")),
            ("most_share", Most("graph_share")),
        ],
        measured: "{least:.1}–{most:.1}× eager, {least_graph:.1}–{most_graph:.1}× a graph",
        rule: Rule::Amounts(
            vec![Within("least", [1.0 - PARITY, 1.0 + PARITY]), Within("most", [1.0 - PARITY, 1.0 + PARITY])],
            &[],
        ),
        why: Why::unless_yes(
            "without its launches, as a graph, PyTorch takes {least_share:.0}–{most_share:.0} % of eager's time",
        ),
    }];
    for (batch, pytorch, kernel) in [
        (32.0, 0.0719, 0.0739),
        (64.0, 0.0712, 0.0705),
        (128.0, 0.0717, 0.0705),
        (256.0, 0.0704, 0.0694),
        (512.0, 0.0705, 0.0702),
    ] {
        let ms = |by| Figure::cell(autoencoders::TABLE.name, columns::MS, of_original(batch, by));
        let claimed = pytorch / kernel;
        claims.push(Claim {
            text: format!("… at batch {batch}"),
            claimed: format!("PyTorch {pytorch} ms, kernel {kernel} ms: {claimed:.2}×"),
            page: PAGE,
            figures: vec![
                ("eager", ms(PYTORCH_EAGER)),
                ("graph", ms(PYTORCH_GRAPH)),
                ("kernel", ms(ONE_KERNEL)),
                ("than_eager", Ratio(1.0, "eager", "kernel")),
                ("than_graph", Ratio(1.0, "graph", "kernel")),
            ],
            measured: "PyTorch {eager:.4} ms, kernel {kernel:.4} ms: {than_eager:.1}×",
            // Within a few percent of parity, as each of these was claimed to be.
            rule: Rule::Amounts(vec![Within("than_eager", [claimed - PARITY, claimed + PARITY])], &[]),
            why: Why::always("without PyTorch's launches, as a graph, {graph:.4} ms: {than_graph:.1}×"),
        });
    }
    claims.push(Claim {
        text: "… or 25×".to_owned(),
        claimed: "100 ms → 4 ms, max difference 5.722e-6, mean 7.479e-7".to_owned(),
        page: PAGE,
        figures: vec![
            ("eager", of_all(columns::MS, PYTORCH_EAGER)),
            ("kernel", of_all(columns::MS, ONE_KERNEL)),
            ("gain", Ratio(1.0, "eager", "kernel")),
            ("most", Most("gain")),
            ("graph", of_all(columns::MS, PYTORCH_GRAPH)),
            ("than_graph", Ratio(1.0, "graph", "kernel")),
            ("most_graph", Most("than_graph")),
            ("differences", of_all(columns::MAX_DIFFERENCE, ONE_KERNEL)),
            ("difference", Most("differences")),
            ("means", of_all(autoencoders::MEAN_DIFFERENCE, ONE_KERNEL)),
            ("mean", Most("means")),
        ],
        measured: "{most:.1}× eager at most, max difference {difference:.1e}, mean {mean:.1e}",
        rule: Rule::Ratio("most", 25.0),
        why: Why::always("PyTorch as a graph: {most_graph:.1}× at most"),
    });
    claims
}

/// Milliseconds of a way of doing something.
fn of_way(what: &str, way: &str) -> Figure {
    Figure::cell(streams::TABLE.name, streams::MS, [(streams::WHAT, what.into()), (streams::WAY, way.into())])
}

pub(super) fn parts() -> Vec<Claim> {
    const TINY: &str = "64 tiny kernels";
    const PHOTOS: &str = "256 photos, ResNet18";
    let ms = |batch, by| of_batch(batch, by, resnet::MS);
    vec![
        Claim {
            text: "Phase 4's parts: a launch".to_owned(),
            claimed: "5 µs".to_owned(),
            page: "phase1/launch-overhead",
            figures: vec![
                ("kernels", Constant(64.0)),
                ("launches_ms", of_way(TINY, "launches")),
                ("graph_ms", of_way(TINY, "graph")),
                ("plain", Ratio(1e3, "launches_ms", "kernels")),
                ("graph", Ratio(1e3, "graph_ms", "kernels")),
                ("saved", Less("plain", "graph")),
            ],
            measured: "{plain:.1} µs, of 64 tiny kernels one after the other; in a graph {graph:.1} µs",
            rule: Rule::Amounts(vec![Close("plain", 5.0)], &[]),
            why: Why::always("a graph takes {saved:.0} % less"),
        },
        Claim {
            text: "… fusion".to_owned(),
            claimed: "5–10 %".to_owned(),
            page: "phase4/resnet18",
            figures: vec![
                ("separate_1", ms(1.0, by::BATCH_PHASE3_GRAPH)),
                ("fused_1", ms(1.0, by::BATCH_PHASE4_F32)),
                ("separate_32", ms(32.0, by::BATCH_PHASE3_GRAPH)),
                ("fused_32", ms(32.0, by::BATCH_PHASE4_F32)),
                ("one", Less("separate_1", "fused_1")),
                ("many", Less("separate_32", "fused_32")),
                ("conv_ms", of_layers("Conv2D", sides::FAST, layers::DEVICE_MS)),
                ("all_ms", of_layers("layers", sides::FAST, layers::DEVICE_MS)),
                ("conv", Ratio(100.0, "conv_ms", "all_ms")),
            ],
            measured: "ResNet18, one image: {one:.0} % less, 32 images: {many:.0} %; graphs both",
            rule: Rule::TakesOff(&["one", "many"], [5.0, 10.0]),
            why: Why::always("convolutions take {conv:.0} % of the layers of one image"),
        },
        Claim {
            text: "… staying on the device".to_owned(),
            claimed: "20–40 %".to_owned(),
            page: "phase3/resnet18",
            figures: vec![
                ("between", of_implementation(by::CONV_ON_DEVICE)),
                ("all", of_implementation(by::PHASE3)),
                ("less", Less("between", "all")),
                ("layers", of_layers("layers", sides::FAST, layers::DEVICE_MS)),
            ],
            measured: "with copies around each layer {between:.1} ms, without {all:.2} ms: {less:.0} % less",
            rule: Rule::TakesOff(&["less"], [20.0, 40.0]),
            why: Why::always("on the device the layers by themselves take {layers:.2} ms"),
        },
        Claim {
            text: "… asynchrony".to_owned(),
            claimed: "10–20 %".to_owned(),
            page: "phase4/streams",
            figures: vec![
                ("in_turn", of_way(PHOTOS, "in turn")),
                ("overlapped", of_way(PHOTOS, "overlapped")),
                ("decoding", of_way(PHOTOS, "decoding")),
                ("less", Less("in_turn", "overlapped")),
            ],
            measured: "256 photos: {in_turn:.0} ms in turn, {overlapped:.0} ms overlapped: {less:.0} % less",
            rule: Rule::TakesOff(&["less"], [10.0, 20.0]),
            why: Why::always("decoding alone takes {decoding:.0} ms, on the host"),
        },
    ]
}

/// Work whose fused version changes nothing but what passes through memory: rows normalised where they are read, and an image read
/// as it is in place of one that is upsampled and joined first.
pub(in super::super) const MEMORY_ACCESS: [&str; 4] =
    ["norm 8192×320→960 f16", "norm 8192×320→960 tf32", "up 320 ‖ 320→320 @64 ×2", "up 640→640 @64 ×2"];

/// A column of each of these, fused or not.
fn of_work<const N: usize>(work: [&str; N], column: ColumnSpec, step: &str) -> Figure {
    let key = |work: &str| vec![(fusion::WORK, work.into()), (columns::STEP, step.into())];
    Figure::series(fusion::TABLE.name, column, work.map(key))
}

/// Savings of one launch in place of several.
fn one_launch(text: &str, work: &str) -> Claim {
    let [separate, fused] = [fusion::SEPARATE, fusion::FUSED].map(|step| move |column| of_work([work], column, step));
    Claim {
        text: text.to_owned(),
        claimed: "15–30 %".to_owned(),
        page: "phase4/fusion",
        figures: vec![
            ("thousandth", Constant(1e-3)),
            ("separate_ms", separate(columns::MS)),
            ("fused_ms", fused(columns::MS)),
            ("separate", Ratio(1.0, "separate_ms", "thousandth")),
            ("fused", Ratio(1.0, "fused_ms", "thousandth")),
            ("less", Less("separate", "fused")),
            ("launches", separate(fusion::LAUNCHES)),
            ("launches_fused", fused(fusion::LAUNCHES)),
            ("mb", separate(fusion::MB)),
            ("mb_fused", fused(fusion::MB)),
        ],
        measured: "{separate:.1} µs → {fused:.1} µs: {less:.0} % less",
        rule: Rule::TakesOff(&["less"], [15.0, 30.0]),
        why: Why::always("launches: {launches:.0} → {launches_fused:.0}; MB read and written: {mb:.2} → {mb_fused:.2}"),
    }
}

pub(super) fn unet() -> Vec<Claim> {
    const PAGE: &str = "phase4/unet";
    let of_frame = |by: &str, column| {
        let key = [(video::CONFIGURATION, video::PRODUCTION.into()), (video::BY, by.into())];
        Figure::cell(video::TABLE.name, column, key)
    };
    let [single, tf32, half] = video::versions::FUSED;
    // The steps of attention in f32 without TF32: the faster one that was measured.
    let of_attention = |column, by: &[String]| {
        let key = |by: &String| -> Key {
            use attentions::{BY, CHANNELS, TOKENS};
            vec![(TOKENS, 4096.0.into()), (CHANNELS, 40.0.into()), (BY, by.as_str().into())]
        };
        let places = vec![by.iter().map(key).collect()];
        Figure::Cells { table: attentions::TABLE.name, column, time: columns::MS, places }
    };
    let naive = [attentions::NAIVE.to_owned()];
    let flash = [step01_online::STEP.title(), step07_parts::STEP.title()];
    vec![
        Claim {
            text: "The video U-Net, 880 M, batch 2, 64×64".to_owned(),
            claimed: "44.8 ms (22.3 frames/s)".to_owned(),
            page: "phase3/video-unet",
            figures: vec![
                ("second", Constant(1e3)),
                ("unfused", of_frame(video::versions::UNFUSED, video::MS)),
                ("eager", of_frame(video::versions::EAGER, video::MS)),
                ("frames", Ratio(1.0, "second", "unfused")),
            ],
            measured: "unfused, f32: {unfused:.1} ms ({frames:.1} frames/s)",
            rule: Rule::Amounts(vec![Close("unfused", 44.8)], &[]),
            why: Why::always("PyTorch eager takes {eager:.1} ms"),
        },
        // The weights are the one part of a frame's bytes that each pass needs, whatever the caches hold: a bound from below.
        Claim {
            text: "… and its bandwidth".to_owned(),
            claimed: "85 % of the memory's".to_owned(),
            page: PAGE,
            figures: vec![
                ("ms", of_frame(single, video::MS)),
                ("mib", of_frame(single, video::WEIGHTS_MIB)),
                ("flops", Constant(video::FRAME_FLOPS)),
                ("bandwidth", Limit(|limits| limits.bandwidth)),
                ("peak", Limit(|limits| limits.flops)),
                ("mib_per_second", Ratio(1e3, "mib", "ms")),
                ("flops_per_second", Ratio(1e3, "flops", "ms")),
                ("of_memory", Ratio(100.0 * f64::from(1 << 20), "mib_per_second", "bandwidth")),
                ("of_arithmetic", Ratio(100.0, "flops_per_second", "peak")),
            ],
            measured: "f32, fused: its weights, read once, take {of_memory:.0} % of the copy's bandwidth; its products are \
                       {of_arithmetic:.0} % of the multiply-adds' peak",
            rule: Rule::Amounts(vec![Close("of_memory", 85.0)], &[]),
            why: Why::unless_yes("its weights are {mib:.0} MiB"),
        },
        Claim {
            text: "… by fusion".to_owned(),
            claimed: "1.3–1.5×".to_owned(),
            page: PAGE,
            figures: vec![
                ("unfused", of_frame(video::versions::UNFUSED_GRAPH, video::MS)),
                ("fused", of_frame(single, video::MS)),
                ("gain", Ratio(1.0, "unfused", "fused")),
                ("planned", of_frame(video::versions::UNFUSED_GRAPH, video::PLANNED_MIB)),
                ("planned_fused", of_frame(single, video::PLANNED_MIB)),
            ],
            measured: "f32, graphs: {unfused:.1} ms → {fused:.1} ms: {gain:.2}×",
            rule: Rule::Ratio("gain", 1.4),
            why: Why::always("activations need {planned_fused:.0} MiB in place of {planned:.0}"),
        },
        Claim {
            text: "… by memory access".to_owned(),
            claimed: "1.2–1.4×".to_owned(),
            page: "phase4/fusion",
            figures: vec![
                ("separate", of_work(MEMORY_ACCESS, columns::MS, fusion::SEPARATE)),
                ("fused", of_work(MEMORY_ACCESS, columns::MS, fusion::FUSED)),
                ("gains", Ratio(1.0, "separate", "fused")),
                ("count", Above(0.0, "gains")),
                ("least", Least("gains")),
                ("most", Most("gains")),
                ("mean", Mean("gains")),
                ("mb", of_work(MEMORY_ACCESS, fusion::MB, fusion::SEPARATE)),
                ("mb_fused", of_work(MEMORY_ACCESS, fusion::MB, fusion::FUSED)),
                ("mb_less", Less("mb", "mb_fused")),
                ("least_less", Least("mb_less")),
                ("most_less", Most("mb_less")),
            ],
            measured: "norm and up, {count:.0} of them: {least:.2}–{most:.2}×, mean {mean:.2}×",
            rule: Rule::Ratio("mean", 1.3),
            why: Why::always("they read and write {least_less:.0}–{most_less:.0} % fewer MB"),
        },
        Claim {
            text: "… with PTX".to_owned(),
            claimed: "2×: 11 ms".to_owned(),
            page: PAGE,
            figures: vec![
                ("single", of_frame(single, video::MS)),
                ("tf32", of_frame(tf32, video::MS)),
                ("half", of_frame(half, video::MS)),
                ("gain_half", Ratio(1.0, "single", "half")),
                ("gain_tf32", Ratio(1.0, "single", "tf32")),
                ("mib", of_frame(single, video::WEIGHTS_MIB)),
                ("mib_half", of_frame(half, video::WEIGHTS_MIB)),
            ],
            measured: "f16: {half:.2} ms, tf32: {tf32:.2} ms; f32: {single:.1} ms: {gain_half:.1}× and {gain_tf32:.1}×",
            rule: Rule::Amounts(vec![Within("half", [0.0, 11.0])], &[]),
            why: Why::always("weights in f16 are {mib_half:.0} MiB, in f32 {mib:.0}"),
        },
        one_launch("… conv+BN+SiLU fused", "conv+BN+SiLU 64@56"),
        Claim {
            text: "… flash attention".to_owned(),
            claimed: "30–60 %, 40 % less memory".to_owned(),
            page: "phase4/attention",
            figures: vec![
                ("naive_ms", of_attention(columns::MS, &naive)),
                ("flash_ms", of_attention(columns::MS, &flash)),
                ("naive_mib", of_attention(attentions::MIB, &naive)),
                ("flash_mib", of_attention(attentions::MIB, &flash)),
                ("time", Less("naive_ms", "flash_ms")),
                ("memory", Less("naive_mib", "flash_mib")),
            ],
            measured: "4096 tokens, f32: {time:.0} % less time, {memory:.0} % less memory",
            rule: Rule::TakesOff(&["time"], [30.0, 60.0]),
            why: Why::always("with the scores in memory {naive_mib:.0} MiB, without {flash_mib:.0}"),
        },
        one_launch("… the diffusion step", "diffusion step 32768"),
    ]
}

/// A version of a pair at a size.
fn of_pair(pair: &str, step: &Step<Version>) -> Key {
    vec![(PAIR, pair.into()), (columns::STEP, Cell::from(step.title()))]
}

pub(super) fn ptx_by_hand() -> Vec<Claim> {
    const PAGE: &str = "phase4/ptx-memory";
    let of_loads = |step, column| Figure::cell(ptx::TABLE.name, column, of_pair("loads 2^26", step));
    // Each pair at its largest size: the last version, which is PTX, and the best of those before it.
    let (mut by_hand, mut others) = (Vec::new(), Vec::new());
    for pair in PAIRS {
        if let (Some(size), Some((last, before))) = (pair.measured.last(), pair.versions.split_last()) {
            let name = format!("{} {}", pair.name, size.label());
            by_hand.push(of_pair(&name, last));
            others.push(before.iter().map(|step| of_pair(&name, step)).collect());
        }
    }
    vec![
        Claim {
            text: "PTX by hand: vectorised loads".to_owned(),
            claimed: "4×".to_owned(),
            page: PAGE,
            figures: vec![
                ("scalar", of_loads(&loads::SCALAR, columns::MS)),
                ("vectors", of_loads(&loads::FLOAT4, columns::MS)),
                ("gain", Ratio(1.0, "scalar", "vectors")),
                ("scalar_of_copy", of_loads(&loads::SCALAR, columns::OF_COPY)),
                ("vectors_of_copy", of_loads(&loads::FLOAT4, columns::OF_COPY)),
            ],
            measured: "2^26 floats: {scalar:.3} ms → {vectors:.3} ms: {gain:.2}×",
            rule: Rule::Ratio("gain", 4.0),
            why: Why::always("of a copy's bandwidth, {scalar_of_copy:.0} % before and {vectors_of_copy:.0} % after"),
        },
        Claim {
            text: "… bandwidth".to_owned(),
            claimed: "+50 %".to_owned(),
            page: PAGE,
            figures: vec![
                ("plain", of_loads(&loads::FLOAT4, columns::MS)),
                ("hinted", of_loads(&loads::PTX, columns::MS)),
                ("gain", Ratio(1.0, "plain", "hinted")),
                ("more", More("plain", "hinted")),
                ("of_copy", of_loads(&loads::FLOAT4, columns::OF_COPY)),
            ],
            measured: "2^26 floats: {more:+.1} % by hints for the caches",
            rule: Rule::Ratio("gain", 1.5),
            why: Why::always("without hints it reaches {of_copy:.0} % of a copy's bandwidth"),
        },
        Claim {
            text: "… instruction level".to_owned(),
            claimed: "+40 %".to_owned(),
            page: "phase4/ptx",
            figures: vec![
                ("by_hand", Figure::series(ptx::TABLE.name, columns::MS, by_hand)),
                (
                    "others",
                    Figure::Cells { table: ptx::TABLE.name, column: columns::MS, time: columns::MS, places: others },
                ),
                ("gains", Ratio(1.0, "others", "by_hand")),
                ("more", More("others", "by_hand")),
                ("count", Above(0.0, "gains")),
                ("least", Least("more")),
                ("most", Most("more")),
                ("median", Median("gains")),
                ("median_more", Median("more")),
                ("helped", Above(1.05, "gains")),
            ],
            measured: "{count:.0} pairs: {least:+.0} to {most:+.0} %, median {median_more:+.0} %",
            rule: Rule::Ratio("median", 1.4),
            why: Why::always("{helped:.0} gain over 5 % on the best CUDA C"),
        },
    ]
}
