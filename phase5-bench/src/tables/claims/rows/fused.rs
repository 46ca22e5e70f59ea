//! Claims on what phase 4 does: fusion, graphs and streams, f16, PTX by hand.

use bench::ladder::{Step, columns};
use bench::table::{Cell, ColumnSpec};
use phase4_fusion::attention::{step01_online, step07_parts};
use phase4_fusion::ptx::{PAIRS, Version, loads};
use phase4_fusion::report::ptx::PAIR;

use super::super::figure::{Figure, Key};
use super::super::rule::{Amount, PARITY, Rule};
use super::layers::{of_batch, of_implementation, of_layers};
use super::{Claim, Why, each};
use crate::tables::layers::{self, sides};
use crate::tables::peers::{PYTORCH_EAGER, PYTORCH_GRAPH};
use crate::tables::resnet::{self, by};
use crate::tables::{attention as attentions, autoencoder as autoencoders, fusion, ptx, streams, video};

use Amount::{Close, Within};
use Figure::{Above, Constant, Limit, Ratio};

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
    const PARITIES: [f64; 2] = [1.0 - PARITY, 1.0 + PARITY];
    let mut claims = vec![
        Claim::new(
            "One fused kernel for the autoencoder: parity",
            "0.97–1.02× PyTorch, batch 32 to 512",
            PAGE,
            "{least eager / kernel:.1}–{most eager / kernel:.1}× eager, \
                 {least graph / kernel:.1}–{most graph / kernel:.1}× a graph",
            Rule::Amounts(vec![Within("least eager / kernel", PARITIES), Within("most eager / kernel", PARITIES)], &[]),
        )
        .figures(each(
            |by| of_all(columns::MS, by),
            [("eager", PYTORCH_EAGER), ("graph", PYTORCH_GRAPH), ("kernel", ONE_KERNEL)],
        ))
        .why(Why::UnlessYes(
            "without its launches, as a graph, PyTorch takes \
                 {least graph % of eager:.0}–{most graph % of eager:.0} % of eager's time",
        )),
    ];
    for (batch, pytorch, kernel) in [
        (32.0, 0.0719, 0.0739),
        (64.0, 0.0712, 0.0705),
        (128.0, 0.0717, 0.0705),
        (256.0, 0.0704, 0.0694),
        (512.0, 0.0705, 0.0702),
    ] {
        let ms = |by| Figure::cell(autoencoders::TABLE.name, columns::MS, of_original(batch, by));
        let claimed = pytorch / kernel;
        // Within a few percent of parity, as each of these was claimed to be.
        claims.push(
            Claim::new(
                format!("… at batch {batch}"),
                format!("PyTorch {pytorch} ms, kernel {kernel} ms: {claimed:.2}×"),
                PAGE,
                "PyTorch {eager:.4} ms, kernel {kernel:.4} ms: {eager / kernel:.1}×",
                Rule::Amounts(vec![Within("eager / kernel", [claimed - PARITY, claimed + PARITY])], &[]),
            )
            .figures(each(ms, [("eager", PYTORCH_EAGER), ("graph", PYTORCH_GRAPH), ("kernel", ONE_KERNEL)]))
            .why(Why::Always("without PyTorch's launches, as a graph, {graph:.4} ms: {graph / kernel:.1}×")),
        );
    }
    claims.push(
        Claim::new(
            "… or 25×",
            "100 ms → 4 ms, max difference 5.722e-6, mean 7.479e-7",
            PAGE,
            "{most eager / kernel:.1}× eager at most, max difference {most differences:.1e}, \
                 mean {most means:.1e}",
            Rule::Ratio("most eager / kernel", 25.0),
        )
        .figures(vec![
            ("eager", of_all(columns::MS, PYTORCH_EAGER)),
            ("kernel", of_all(columns::MS, ONE_KERNEL)),
            ("graph", of_all(columns::MS, PYTORCH_GRAPH)),
            ("differences", of_all(columns::MAX_DIFFERENCE, ONE_KERNEL)),
            ("means", of_all(autoencoders::MEAN_DIFFERENCE, ONE_KERNEL)),
        ])
        .why(Why::Always("PyTorch as a graph: {most graph / kernel:.1}× at most")),
    );
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
        Claim::new(
            "Phase 4's parts: a launch",
            "5 µs",
            "phase1/streams",
            "{plain:.1} µs, of 64 tiny kernels one after the other; in a graph {graph:.1} µs",
            Rule::Amounts(vec![Close("plain", 5.0)], &[]),
        )
        .figures(vec![
            ("kernels", Constant(64.0)),
            ("launches_ms", of_way(TINY, "launches")),
            ("graph_ms", of_way(TINY, "graph")),
            ("plain", Ratio(1e3, "launches_ms", "kernels")),
            ("graph", Ratio(1e3, "graph_ms", "kernels")),
        ])
        .why(Why::Always("a graph takes {graph % below plain:.0} % less")),
        Claim::new(
            "… fusion",
            "5–10 %",
            "phase4/resnet18",
            "ResNet18, one image: {fused % below separate:.0} % less, 32 images: \
                 {fused_many % below separate_many:.0} %; graphs both",
            Rule::TakesOff(&["fused % below separate", "fused_many % below separate_many"], [5.0, 10.0]),
        )
        .figures(vec![
            ("separate", ms(1.0, by::BATCH_PHASE3_GRAPH)),
            ("fused", ms(1.0, by::BATCH_PHASE4_F32)),
            ("separate_many", ms(32.0, by::BATCH_PHASE3_GRAPH)),
            ("fused_many", ms(32.0, by::BATCH_PHASE4_F32)),
            ("conv_ms", of_layers("Conv2D", sides::FAST, layers::DEVICE_MS)),
            ("all_ms", of_layers("layers", sides::FAST, layers::DEVICE_MS)),
        ])
        .why(Why::Always("convolutions take {conv_ms % of all_ms:.0} % of the layers of one image")),
        Claim::new(
            "… staying on the device",
            "20–40 %",
            "phase4/resnet18",
            "with copies around each layer {between:.1} ms, without {all:.2} ms: \
                 {all % below between:.0} % less",
            Rule::TakesOff(&["all % below between"], [20.0, 40.0]),
        )
        .figures(vec![
            ("between", of_implementation(by::CONV_ON_DEVICE)),
            ("all", of_implementation(by::PHASE3)),
            ("layers", of_layers("layers", sides::FAST, layers::DEVICE_MS)),
        ])
        .why(Why::Always("on the device the layers by themselves take {layers:.2} ms")),
        Claim::new(
            "… asynchrony",
            "10–20 %",
            "phase4/streams",
            "256 photos: {in_turn:.0} ms in turn, {overlapped:.0} ms overlapped: \
                 {overlapped % below in_turn:.0} % less",
            Rule::TakesOff(&["overlapped % below in_turn"], [10.0, 20.0]),
        )
        .figures(each(
            |kind| of_way(PHOTOS, kind),
            [("in_turn", "in turn"), ("overlapped", "overlapped"), ("decoding", "decoding")],
        ))
        .why(Why::Always("decoding alone takes {decoding:.0} ms, on the host")),
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
    Claim::new(
        text,
        "15–30 %",
        "phase4/fusion",
        "{separate:.1} µs → {fused:.1} µs: {fused % below separate:.0} % less",
        Rule::TakesOff(&["fused % below separate"], [15.0, 30.0]),
    )
    .figures(vec![
        ("thousandth", Constant(1e-3)),
        ("separate_ms", separate(columns::MS)),
        ("fused_ms", fused(columns::MS)),
        ("separate", Ratio(1.0, "separate_ms", "thousandth")),
        ("fused", Ratio(1.0, "fused_ms", "thousandth")),
        ("launches", separate(fusion::LAUNCHES)),
        ("launches_fused", fused(fusion::LAUNCHES)),
        ("mb", separate(fusion::MB)),
        ("mb_fused", fused(fusion::MB)),
    ])
    .why(Why::Always(
        "launches: {launches:.0} → {launches_fused:.0}; MB read and written: {mb:.2} → \
                 {mb_fused:.2}",
    ))
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
        Claim::new(
            "The video U-Net, 880 M, batch 2, 64×64",
            "44.8 ms (22.3 frames/s)",
            "phase4/unet",
            "unfused, f32: {unfused:.1} ms ({second / unfused:.1} frames/s)",
            Rule::Amounts(vec![Close("unfused", 44.8)], &[]),
        )
        .figures(vec![
            ("second", Constant(1e3)),
            ("unfused", of_frame(video::versions::UNFUSED, video::MS)),
            ("eager", of_frame(video::versions::EAGER, video::MS)),
        ])
        .why(Why::Always("PyTorch eager takes {eager:.1} ms")),
        // The weights are the one part of a frame's bytes that each pass needs, whatever the caches hold: a bound from below.
        Claim::new(
            "… and its bandwidth",
            "85 % of the memory's",
            PAGE,
            "f32, fused: its weights, read once, take {of_memory:.0} % of the copy's bandwidth; its products are \
                 {flops_per_second % of peak:.0} % of the multiply-adds' peak",
            Rule::Amounts(vec![Close("of_memory", 85.0)], &[]),
        )
        .figures(vec![
            ("ms", of_frame(single, video::MS)),
            ("mib", of_frame(single, video::WEIGHTS_MIB)),
            ("flops", Constant(video::FRAME_FLOPS)),
            ("bandwidth", Limit(|limits| limits.bandwidth)),
            ("peak", Limit(|limits| limits.flops)),
            ("mib_per_second", Ratio(1e3, "mib", "ms")),
            ("flops_per_second", Ratio(1e3, "flops", "ms")),
            ("of_memory", Ratio(100.0 * f64::from(1 << 20), "mib_per_second", "bandwidth")),
        ])
        .why(Why::UnlessYes("its weights are {mib:.0} MiB")),
        Claim::new(
            "… by fusion",
            "1.3–1.5×",
            PAGE,
            "f32, graphs: {unfused:.1} ms → {fused:.1} ms: {unfused / fused:.2}×",
            Rule::Ratio("unfused / fused", 1.4),
        )
        .figures(vec![
            ("unfused", of_frame(video::versions::UNFUSED_GRAPH, video::MS)),
            ("fused", of_frame(single, video::MS)),
            ("planned", of_frame(video::versions::UNFUSED_GRAPH, video::PLANNED_MIB)),
            ("planned_fused", of_frame(single, video::PLANNED_MIB)),
        ])
        .why(Why::Always("activations need {planned_fused:.0} MiB in place of {planned:.0}")),
        Claim::new(
            "… by memory access",
            "1.2–1.4×",
            "phase4/fusion",
            "norm and up, {count:.0} of them: {least separate / fused:.2}–{most separate / fused:.2}×, \
                 mean {mean separate / fused:.2}×",
            Rule::Ratio("mean separate / fused", 1.3),
        )
        .figures(vec![
            ("separate", of_work(MEMORY_ACCESS, columns::MS, fusion::SEPARATE)),
            ("fused", of_work(MEMORY_ACCESS, columns::MS, fusion::FUSED)),
            ("count", Above(0.0, "separate / fused")),
            ("mb", of_work(MEMORY_ACCESS, fusion::MB, fusion::SEPARATE)),
            ("mb_fused", of_work(MEMORY_ACCESS, fusion::MB, fusion::FUSED)),
        ])
        .why(Why::Always(
            "they read and write {least mb_fused % below mb:.0}–{most mb_fused % below mb:.0} % \
                 fewer MB",
        )),
        Claim::new(
            "… with PTX",
            "2×: 11 ms",
            PAGE,
            "f16: {half:.2} ms, tf32: {tf32:.2} ms; f32: {single:.1} ms: {single / half:.1}× and \
                 {single / tf32:.1}×",
            Rule::Amounts(vec![Within("half", [0.0, 11.0])], &[]),
        )
        .figures(vec![
            ("single", of_frame(single, video::MS)),
            ("tf32", of_frame(tf32, video::MS)),
            ("half", of_frame(half, video::MS)),
            ("mib", of_frame(single, video::WEIGHTS_MIB)),
            ("mib_half", of_frame(half, video::WEIGHTS_MIB)),
        ])
        .why(Why::Always("weights in f16 are {mib_half:.0} MiB, in f32 {mib:.0}")),
        one_launch("… conv+BN+SiLU fused", "conv+BN+SiLU 64@56"),
        Claim::new(
            "… flash attention",
            "30–60 %, 40 % less memory",
            "phase4/attention",
            "4096 tokens, f32: {flash_ms % below naive_ms:.0} % less time, \
                 {flash_mib % below naive_mib:.0} % less memory",
            Rule::TakesOff(&["flash_ms % below naive_ms"], [30.0, 60.0]),
        )
        .figures(vec![
            ("naive_ms", of_attention(columns::MS, &naive)),
            ("flash_ms", of_attention(columns::MS, &flash)),
            ("naive_mib", of_attention(attentions::MIB, &naive)),
            ("flash_mib", of_attention(attentions::MIB, &flash)),
        ])
        .why(Why::Always("with the scores in memory {naive_mib:.0} MiB, without {flash_mib:.0}")),
        one_launch("… the diffusion step", "diffusion step 32768"),
    ]
}

/// A version of a pair at a size.
fn of_pair(pair: &str, step: &Step<Version>) -> Key {
    vec![(PAIR, pair.into()), (columns::STEP, Cell::from(step.title()))]
}

pub(super) fn ptx_by_hand() -> Vec<Claim> {
    const PAGE: &str = "phase4/ptx-warps";
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
        Claim::new(
            "PTX by hand: vectorised loads",
            "4×",
            PAGE,
            "2^26 floats: {scalar:.3} ms → {vectors:.3} ms: {scalar / vectors:.2}×",
            Rule::Ratio("scalar / vectors", 4.0),
        )
        .figures(vec![
            ("scalar", of_loads(&loads::SCALAR, columns::MS)),
            ("vectors", of_loads(&loads::FLOAT4, columns::MS)),
            ("scalar_of_copy", of_loads(&loads::SCALAR, columns::OF_COPY)),
            ("vectors_of_copy", of_loads(&loads::FLOAT4, columns::OF_COPY)),
        ])
        .why(Why::Always("of a copy's bandwidth, {scalar_of_copy:.0} % before and {vectors_of_copy:.0} % after")),
        Claim::new(
            "… bandwidth",
            "+50 %",
            PAGE,
            "2^26 floats: {plain % above hinted:+.1} % by hints for the caches",
            Rule::Ratio("plain / hinted", 1.5),
        )
        .figures(vec![
            ("plain", of_loads(&loads::FLOAT4, columns::MS)),
            ("hinted", of_loads(&loads::PTX, columns::MS)),
            ("of_copy", of_loads(&loads::FLOAT4, columns::OF_COPY)),
        ])
        .why(Why::Always("without hints it reaches {of_copy:.0} % of a copy's bandwidth")),
        Claim::new(
            "… instruction level",
            "+40 %",
            "phase4/ptx",
            "{count:.0} pairs: {least others % above by_hand:+.0} to {most others % above by_hand:+.0} %, \
                 median {median others % above by_hand:+.0} %",
            Rule::Ratio("median others / by_hand", 1.4),
        )
        .figures(vec![
            ("by_hand", Figure::series(ptx::TABLE.name, columns::MS, by_hand)),
            (
                "others",
                Figure::Cells { table: ptx::TABLE.name, column: columns::MS, time: columns::MS, places: others },
            ),
            ("count", Above(0.0, "others / by_hand")),
            ("helped", Above(1.05, "others / by_hand")),
        ])
        .why(Why::Always("{helped:.0} gain over 5 % on the best CUDA C")),
    ]
}
