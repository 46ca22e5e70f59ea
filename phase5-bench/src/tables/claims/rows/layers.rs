//! Claims on layers and ResNet18, of phases 1 to 3, and of phase 4 beside them.

use bench::ladder::columns;
use bench::table::ColumnSpec;

use super::super::figure::{Figure, Key};
use super::super::rule::{Amount, Rule};
use super::{Claim, Why};
use crate::tables::accuracy as accuracies;
use crate::tables::layers::{self, ALL, sides};
use crate::tables::linear_relu::{self, versions};
use crate::tables::resnet::{self, by};

use Amount::{Close, Same, Within};
use Figure::{Constant, Limit, More, Ratio};

/// The size that the story of the linear layer is about.
pub(in super::super) const STORY: &str = "1024×784→2048";

fn of_linear(size: &str, version: &str) -> Key {
    vec![(linear_relu::SIZE, size.into()), (linear_relu::VERSION, version.into())]
}

/// Milliseconds of a version of the linear layer.
fn total(size: &str, version: &str) -> Figure {
    Figure::cell(linear_relu::TABLE.name, linear_relu::TOTAL, of_linear(size, version))
}

pub(super) fn linear_relu() -> Vec<Claim> {
    const PAGE: &str = "phase2/linear-relu";
    let story = |column, version| Figure::cell(linear_relu::TABLE.name, column, of_linear(STORY, version));
    let flops = linear_relu::roofline_cost(STORY).map_or(f64::NAN, |cost| cost.flops);
    let mut claims = vec![
        Claim {
            text: "A naive GEMM in a fused Linear+ReLU is a disaster".to_owned(),
            claimed: "1024×784→2048: eager 1.10 ms, v1 8.47 ms: 7.67× slower".to_owned(),
            page: PAGE,
            figures: vec![
                ("eager", total(STORY, versions::EAGER)),
                ("naive", total(STORY, versions::NAIVE)),
                ("tuned", total(STORY, versions::TUNED)),
                ("slower", Ratio(1.0, "naive", "eager")),
                ("part", Ratio(1.0, "naive", "tuned")),
            ],
            measured: "eager {eager:.3} ms, v1 {naive:.3} ms: {slower:.2}× slower",
            rule: Rule::Ratio("slower", 7.67),
            why: Why::always("v2, fused too, takes {tuned:.3} ms, 1/{part:.0} of v1"),
        },
        Claim {
            text: "… and slow as a product".to_owned(),
            claimed: "50–100 GFLOP/s against 5–10 TFLOP/s: 100×".to_owned(),
            page: PAGE,
            figures: vec![
                ("naive", total(STORY, versions::NAIVE)),
                ("tuned", total(STORY, versions::TUNED)),
                ("flops", Constant(flops)),
                // Per millisecond, in units of 10⁹ and 10¹² per second.
                ("slow", Ratio(1e-6, "flops", "naive")),
                ("fast", Ratio(1e-9, "flops", "tuned")),
                ("faster", Ratio(1.0, "naive", "tuned")),
                ("peak", Limit(|limits| limits.flops)),
                ("of_peak", Ratio(1e14, "fast", "peak")),
            ],
            measured: "{slow:.0} GFLOP/s against {fast:.1} TFLOP/s: {faster:.0}×",
            rule: Rule::Ratio("faster", 100.0),
            why: Why::unless_yes("v2 reaches {of_peak:.0} % of the multiply-adds' peak"),
        },
        Claim {
            text: "… because of memory traffic".to_owned(),
            claimed: "34 MB at 5 % of 900 GB/s; fixed: 18 MB at 67 %".to_owned(),
            page: PAGE,
            figures: vec![
                ("limit", Limit(|limits| limits.bandwidth)),
                ("naive_rate", story(columns::GBPS, versions::NAIVE)),
                ("tuned_rate", story(columns::GBPS, versions::TUNED)),
                ("naive", Ratio(1e11, "naive_rate", "limit")),
                ("tuned", Ratio(1e11, "tuned_rate", "limit")),
                ("mb", story(linear_relu::MB, versions::TUNED)),
                ("flops", Constant(flops)),
                ("tuned_ms", total(STORY, versions::TUNED)),
                ("per_second", Ratio(1e3, "flops", "tuned_ms")),
                ("peak", Limit(|limits| limits.flops)),
                ("of_peak", Ratio(100.0, "per_second", "peak")),
            ],
            measured: "v1 {naive:.1} %, v2 {tuned:.1} % of the copy's bandwidth, for the {mb:.0} MB needed",
            // Both are shares of the bandwidth, and there is no direction for them to have.
            rule: Rule::Amounts(vec![Close("naive", 5.0), Close("tuned", 67.0)], &[]),
            why: Why::unless_yes("v2's products are {of_peak:.0} % of the multiply-adds' peak"),
        },
    ];
    for (size, claimed) in [("256×256→512", 1.00), (STORY, 1.05), ("8192×4096→4096", 1.18)] {
        let fused = [versions::LIBRARY, versions::TUNED].map(|version| of_linear(size, version));
        let (table, time) = (linear_relu::TABLE.name, linear_relu::TOTAL);
        claims.push(Claim {
            text: format!("A library's GEMM + fused ReLU, {size}"),
            claimed: format!("{claimed:.2}× eager"),
            page: PAGE,
            figures: vec![
                ("eager", total(size, versions::EAGER)),
                ("library_ms", total(size, versions::LIBRARY)),
                ("tuned_ms", total(size, versions::TUNED)),
                ("best_ms", Figure::Cells { table, column: time, time, places: vec![fused.into()] }),
                ("library", Ratio(1.0, "eager", "library_ms")),
                ("tuned", Ratio(1.0, "eager", "tuned_ms")),
                ("best", Ratio(1.0, "eager", "best_ms")),
                ("relu", total(size, versions::LIBRARY_RELU)),
                ("share", Ratio(100.0, "relu", "library_ms")),
            ],
            measured: "cuBLAS, then ReLU {library:.2}×; v2, fused {tuned:.2}×",
            rule: Rule::Ratio("best", claimed),
            why: Why::always("what there is to gain is the second pass: bias and ReLU take {share:.0} % beside cuBLAS"),
        });
    }
    let large = linear_relu::name([8192, 4096, 4096]);
    claims.push(Claim {
        text: "Backward without an extra allocation".to_owned(),
        claimed: "2× eager".to_owned(),
        page: PAGE,
        figures: vec![
            ("fused", total(&large, versions::BACKWARD)),
            ("eager_ms", total(&large, versions::BACKWARD_EAGER)),
            ("separate_ms", total(&large, versions::SEPARATE)),
            ("eager", Ratio(1.0, "eager_ms", "fused")),
            ("separate", Ratio(1.0, "separate_ms", "fused")),
            ("more", More("separate_ms", "fused")),
        ],
        measured: "8192×4096→4096: {eager:.2}× eager, {separate:.2}× with the masked gradient written first",
        rule: Rule::Ratio("eager", 2.0),
        why: Why::unless_yes("with the mask in a kernel of its own the time changes by {more:+.0} %"),
    });
    claims
}

/// Milliseconds of an implementation of ResNet18.
pub(super) fn of_implementation(by: &str) -> Figure {
    Figure::cell(resnet::SINGLE.name, resnet::MS, [(resnet::IMPLEMENTATION, by.into())])
}

/// A column of a batch of ResNet18.
pub(super) fn of_batch(batch: f64, by: &str, column: ColumnSpec) -> Figure {
    Figure::cell(resnet::BATCH.name, column, [(resnet::BATCH_SIZE, batch.into()), (resnet::BY, by.into())])
}

/// A column of a side of all of ResNet18's layers of a kind.
pub(super) fn of_layers(kind: &str, by: &str, column: ColumnSpec) -> Figure {
    Figure::cell(layers::TABLE.name, column, [(layers::LAYER, format!("{ALL}{kind}").into()), (layers::BY, by.into())])
}

/// MiB of an implementation of ResNet18.
fn of_memory(batch: f64, by: &str, column: ColumnSpec) -> Figure {
    Figure::cell(resnet::MEMORY.name, column, [(resnet::IMPLEMENTATION, by.into()), (resnet::BATCH_SIZE, batch.into())])
}

pub(super) fn resnet18() -> Vec<Claim> {
    const PAGE: &str = "phase3/resnet18";
    let mut claims = vec![Claim {
        text: "ResNet18 forward, CPU → GPU".to_owned(),
        claimed: "500–580 ms → 5–10 ms: 72×".to_owned(),
        page: PAGE,
        figures: vec![
            ("plain", of_implementation(by::PLAIN)),
            ("cpu", of_implementation(by::CPU)),
            ("gpu", of_implementation(by::PHASE3)),
            ("faster", Ratio(1.0, "cpu", "gpu")),
            ("than_plain", Ratio(1.0, "plain", "gpu")),
        ],
        measured: "plain loops {plain:.0} ms, a CPU at its best {cpu:.0} ms → {gpu:.2} ms: {faster:.0}×",
        rule: Rule::Ratio("faster", 540.0 / 7.5),
        why: Why::always(
            "the ratio is as much the CPU's code as the GPU's: against plain loops it is {than_plain:.0}×",
        ),
    }];
    let kinds = [
        ("Conv2D", 400.0, 8.0),
        ("BatchNorm", 80.0, 1.0),
        ("ReLU", 20.0, 0.2),
        ("MaxPool", 30.0, 0.3),
        ("Linear", 50.0, 1.0),
    ];
    for (kind, cpu, gpu) in kinds {
        claims.push(Claim {
            text: format!("ResNet18's {kind}, CPU → GPU"),
            claimed: format!("{cpu} ms → {gpu} ms: {:.0}×", cpu / gpu),
            page: "phase3/layers",
            figures: vec![
                ("naive", of_layers(kind, sides::NAIVE_CPU, layers::CPU_MS)),
                ("cpu", of_layers(kind, sides::FAST_CPU, layers::CPU_MS)),
                ("gpu", of_layers(kind, sides::FAST, layers::DEVICE_MS)),
                ("than_naive", Ratio(1.0, "naive", "gpu")),
                ("than_cpu", Ratio(1.0, "cpu", "gpu")),
            ],
            measured: "{naive:.1} ms → {gpu:.4} ms: {than_naive:.0}×",
            rule: Rule::Ratio("than_naive", cpu / gpu),
            why: Why::always("against plain loops on one thread; a CPU at its best takes {cpu:.2} ms: {than_cpu:.0}×"),
        });
    }
    let on_gpu = |kind| of_layers(kind, sides::FAST, layers::DEVICE_MS);
    claims.push(Claim {
        text: "… and their shares".to_owned(),
        claimed: "conv is 70 %, BatchNorm 15 %".to_owned(),
        page: "phase3/layers",
        figures: vec![
            ("all_ms", on_gpu("layers")),
            ("conv_ms", on_gpu("Conv2D")),
            ("norm_ms", on_gpu("BatchNorm")),
            ("relu_ms", on_gpu("ReLU")),
            ("conv", Ratio(100.0, "conv_ms", "all_ms")),
            ("norm", Ratio(100.0, "norm_ms", "all_ms")),
            ("relu", Ratio(100.0, "relu_ms", "all_ms")),
            ("half", Constant(50.0)),
            ("half_of_conv", Ratio(50.0, "conv_ms", "all_ms")),
            ("all_cpu", of_layers("layers", sides::NAIVE_CPU, layers::CPU_MS)),
            ("conv_cpu", of_layers("Conv2D", sides::NAIVE_CPU, layers::CPU_MS)),
            ("conv_of_cpu", Ratio(100.0, "conv_cpu", "all_cpu")),
        ],
        measured: "on the GPU: conv {conv:.0} %, BatchNorm {norm:.0} %, ReLU {relu:.0} %",
        rule: Rule::Amounts(
            vec![Close("conv", 70.0), Close("norm", 15.0)],
            &[["half", "conv"], ["norm", "half_of_conv"]],
        ),
        why: Why::always("in plain loops on the CPU convolutions take {conv_of_cpu:.0} %"),
    });
    let slower = "{ms:.2} ms, the CPU {cpu:.1} ms: {slower:.1}× slower";
    let faster = "{ms:.2} ms, the CPU {cpu:.1} ms: {faster:.1}× faster";
    for (by, phase, claimed, factor, page, measured) in [
        (by::ROUND_TRIP, "1", "10× slower", 0.1, "phase1/transfer-test", slower),
        (by::CONV_ON_DEVICE, "2", "5–10× faster", 7.5, PAGE, faster),
        (by::PHASE3, "3", "20–50× faster", 35.0, PAGE, faster),
        (by::PHASE4[0], "4", "30–100× faster", 65.0, "phase4/resnet18", faster),
    ] {
        claims.push(Claim {
            text: format!("The phases, against the CPU: phase {phase}"),
            claimed: claimed.to_owned(),
            page,
            figures: vec![
                ("plain", of_implementation(by::PLAIN)),
                ("cpu", of_implementation(by::CPU)),
                ("ms", of_implementation(by)),
                ("faster", Ratio(1.0, "cpu", "ms")),
                ("slower", Ratio(1.0, "ms", "cpu")),
                ("than_plain", Ratio(1.0, "plain", "ms")),
            ],
            measured,
            rule: Rule::Ratio("faster", factor),
            why: Why::always("against a CPU at its best; against plain loops {than_plain:.0}×"),
        });
    }
    let rate = |batch, by| of_batch(batch, by, resnet::RATE);
    claims.extend([
        Claim {
            text: "Batching".to_owned(),
            claimed: "CPU 2 images/s, GPU 200–500: 175×".to_owned(),
            page: PAGE,
            figures: vec![
                ("cpu", rate(1.0, by::BATCH_CPU)),
                ("one", rate(1.0, by::BATCH_PHASE3)),
                ("most", rate(64.0, by::BATCH_PHASE3)),
                ("faster", Ratio(1.0, "most", "cpu")),
                ("gain", Ratio(1.0, "most", "one")),
            ],
            measured: "CPU {cpu:.0} images/s, GPU {one:.0} one by one, {most:.0} in batches of 64",
            rule: Rule::Ratio("faster", 350.0 / 2.0),
            why: Why::always("batching gains {gain:.1}×"),
        },
        Claim {
            text: "… and time".to_owned(),
            claimed: "batch 32: 16 s → 200–400 ms: 53×".to_owned(),
            page: PAGE,
            figures: vec![
                ("cpu", of_batch(32.0, by::BATCH_CPU, resnet::MS)),
                ("gpu", of_batch(32.0, by::BATCH_PHASE3, resnet::MS)),
                ("eager", of_batch(32.0, by::EAGER, resnet::MS)),
                ("faster", Ratio(1.0, "cpu", "gpu")),
            ],
            measured: "CPU {cpu:.0} ms, GPU {gpu:.2} ms: {faster:.0}×",
            rule: Rule::Ratio("faster", 16_000.0 / 300.0),
            why: Why::always("PyTorch eager takes {eager:.2} ms"),
        },
        Claim {
            text: "… and use".to_owned(),
            claimed: "batch 1, 4, 32: 10, 40, 90 % of the GPU".to_owned(),
            page: PAGE,
            figures: vec![
                ("rate_1", rate(1.0, by::BATCH_PHASE3)),
                ("rate_4", rate(4.0, by::BATCH_PHASE3)),
                ("rate_32", rate(32.0, by::BATCH_PHASE3)),
                ("rate_64", rate(64.0, by::BATCH_PHASE3)),
                ("one", Ratio(100.0, "rate_1", "rate_64")),
                ("four", Ratio(100.0, "rate_4", "rate_64")),
                ("many", Ratio(100.0, "rate_32", "rate_64")),
            ],
            measured: "{one:.0}, {four:.0} and {many:.0} % of the rate of batch 64",
            // In kind: a larger batch uses more.
            rule: Rule::Amounts(
                vec![Close("one", 10.0), Close("four", 40.0), Close("many", 90.0)],
                &[["one", "four"], ["four", "many"]],
            ),
            why: Why::always("batch 64 reaches {rate_64:.0} images/s"),
        },
        Claim {
            text: "Memory".to_owned(),
            claimed: "phase 1 1 MB, phase 3 10–50 MB".to_owned(),
            page: PAGE,
            figures: vec![
                ("travelling", of_memory(1.0, by::ROUND_TRIP, resnet::PEAK)),
                ("peak", of_memory(1.0, by::PHASE3, resnet::PEAK)),
                ("parameters", of_memory(1.0, by::PHASE3, resnet::PARAMETERS)),
                ("winograd", of_memory(1.0, by::PHASE3, resnet::WINOGRAD)),
                ("activations", of_memory(1.0, by::PHASE3, resnet::ACTIVATIONS)),
            ],
            measured: "phase 1 {travelling:.1} MiB, phase 3 {peak:.0} MiB, of which parameters {parameters:.0}",
            rule: Rule::Amounts(vec![Close("travelling", 1.0), Within("peak", [10.0, 50.0])], &[]),
            why: Why::always("Winograd's weights take {winograd:.0} MiB more, activations {activations:.1}"),
        },
        Claim {
            text: "… of phase 4".to_owned(),
            claimed: "100–500 MB".to_owned(),
            page: "phase4/resnet18",
            figures: vec![
                ("one", of_memory(1.0, by::PHASE4_F32, resnet::PEAK)),
                ("most", of_memory(32.0, by::PHASE4_F32, resnet::PEAK)),
                ("half", of_memory(1.0, by::PHASE4_F16, resnet::PEAK)),
                ("scratch", of_memory(32.0, by::PHASE4_F32, resnet::SCRATCH)),
                ("half_scratch", of_memory(32.0, by::PHASE4_F16, resnet::SCRATCH)),
            ],
            measured: "f32: batch 1 {one:.0} MiB, batch 32 {most:.0} MiB; f16, batch 1: {half:.0} MiB",
            rule: Rule::Amounts(vec![Within("one", [100.0, 500.0]), Within("most", [100.0, 500.0])], &[]),
            why: Why::always("convolutions' scratch memory, batch 32: f32 {scratch:.0} MiB, f16 {half_scratch:.0}"),
        },
    ]);
    claims
}

pub(super) fn accuracy() -> Vec<Claim> {
    use accuracies::names::{CPU, DIGITS, PHASE3, RESNET18};
    let cell = |model: &str, by: &str, column| {
        Figure::cell(accuracies::TABLE.name, column, [(accuracies::MODEL, model.into()), (accuracies::BY, by.into())])
    };
    vec![Claim {
        text: "Accuracy".to_owned(),
        claimed: "GPU equals CPU within 1e-5; 69.76 % on both".to_owned(),
        page: "phase3/resnet18",
        figures: vec![
            ("difference", cell(RESNET18, PHASE3, accuracies::OF_LARGEST)),
            ("cpu", cell(DIGITS, CPU, accuracies::ACCURACY)),
            ("gpu", cell(DIGITS, PHASE3, accuracies::ACCURACY)),
            ("logits", cell(RESNET18, PHASE3, columns::MAX_DIFFERENCE)),
        ],
        measured: "within {difference:.1e} of the largest logit; digits: {cpu:.2} % and {gpu:.2} %",
        rule: Rule::Amounts(vec![Within("difference", [0.0, 1e-5]), Same("cpu", "gpu")], &[]),
        why: Why::always("logits differ by {logits:.1e} at most"),
    }]
}
