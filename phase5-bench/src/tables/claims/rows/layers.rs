//! Claims on layers and ResNet18, of phases 1 to 3, and of phase 4 beside them.

use bench::ladder::columns;
use bench::table::ColumnSpec;

use super::super::figure::{Figure, Key};
use super::super::rule::{Amount, Rule};
use super::{Claim, Why, each};
use crate::tables::accuracy as accuracies;
use crate::tables::layers::{self, ALL, sides};
use crate::tables::linear_relu::{self, versions};
use crate::tables::resnet::{self, by};

use Amount::{Close, Same, Within};
use Figure::{Constant, Limit, Ratio};

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
        Claim::new(
            "A naive GEMM in a fused Linear+ReLU is a disaster",
            "1024×784→2048: eager 1.10 ms, v1 8.47 ms: 7.67× slower",
            PAGE,
            "eager {eager:.3} ms, v1 {naive:.3} ms: {naive / eager:.2}× slower",
            Rule::Ratio("naive / eager", 7.67),
        )
        .figures(each(
            |by| total(STORY, by),
            [("eager", versions::EAGER), ("naive", versions::NAIVE), ("tuned", versions::TUNED)],
        ))
        .why(Why::Always("v2, fused too, takes {tuned:.3} ms, 1/{naive / tuned:.0} of v1")),
        Claim::new(
            "… and slow as a product",
            "50–100 GFLOP/s against 5–10 TFLOP/s: 100×",
            PAGE,
            "{slow:.0} GFLOP/s against {fast:.1} TFLOP/s: {naive / tuned:.0}×",
            Rule::Ratio("naive / tuned", 100.0),
        )
        .figures(vec![
            ("naive", total(STORY, versions::NAIVE)),
            ("tuned", total(STORY, versions::TUNED)),
            ("flops", Constant(flops)),
            // Per millisecond, in units of 10⁹ and 10¹² per second.
            ("slow", Ratio(1e-6, "flops", "naive")),
            ("fast", Ratio(1e-9, "flops", "tuned")),
            ("peak", Limit(|limits| limits.flops)),
            ("of_peak", Ratio(1e14, "fast", "peak")),
        ])
        .why(Why::UnlessYes("v2 reaches {of_peak:.0} % of the multiply-adds' peak")),
        // Both are shares of the bandwidth, and there is no direction for them to have.
        Claim::new(
            "… because of memory traffic",
            "34 MB at 5 % of 900 GB/s; fixed: 18 MB at 67 %",
            PAGE,
            "v1 {naive:.1} %, v2 {tuned:.1} % of the copy's bandwidth, for the {mb:.0} MB needed",
            Rule::Amounts(vec![Close("naive", 5.0), Close("tuned", 67.0)], &[]),
        )
        .figures(vec![
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
        ])
        .why(Why::UnlessYes("v2's products are {per_second % of peak:.0} % of the multiply-adds' peak")),
    ];
    for (size, claimed) in [("256×256→512", 1.00), (STORY, 1.05), ("8192×4096→4096", 1.18)] {
        let fused = [versions::LIBRARY, versions::TUNED].map(|version| of_linear(size, version));
        let (table, time) = (linear_relu::TABLE.name, linear_relu::TOTAL);
        claims.push(
            Claim::new(
                format!("A library's GEMM + fused ReLU, {size}"),
                format!("{claimed:.2}× eager"),
                PAGE,
                "cuBLAS, then ReLU {eager / library_ms:.2}×; v2, fused {eager / tuned_ms:.2}×",
                Rule::Ratio("eager / best_ms", claimed),
            )
            .figures(vec![
                ("eager", total(size, versions::EAGER)),
                ("library_ms", total(size, versions::LIBRARY)),
                ("tuned_ms", total(size, versions::TUNED)),
                ("best_ms", Figure::Cells { table, column: time, time, places: vec![fused.into()] }),
                ("relu", total(size, versions::LIBRARY_RELU)),
            ])
            .why(Why::Always(
                "what there is to gain is the second pass: bias and ReLU take \
                 {relu % of library_ms:.0} % beside cuBLAS",
            )),
        );
    }
    let large = linear_relu::name([8192, 4096, 4096]);
    claims.push(
        Claim::new(
            "Backward without an extra allocation",
            "2× eager",
            PAGE,
            "8192×4096→4096: {eager_ms / fused:.2}× eager, {separate_ms / fused:.2}× with the masked gradient \
                 written first",
            Rule::Ratio("eager_ms / fused", 2.0),
        )
        .figures(each(
            |by| total(&large, by),
            [
                ("fused", versions::BACKWARD),
                ("eager_ms", versions::BACKWARD_EAGER),
                ("separate_ms", versions::SEPARATE),
            ],
        ))
        .why(Why::UnlessYes(
            "with the mask in a kernel of its own the time changes by \
                 {separate_ms % above fused:+.0} %",
        )),
    );
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
    const PAGE: &str = "phase4/resnet18";
    let mut claims = vec![
        Claim::new(
            "ResNet18 forward, CPU → GPU",
            "500–580 ms → 5–10 ms: 72×",
            PAGE,
            "plain loops {plain:.0} ms, a CPU at its best {cpu:.0} ms → {gpu:.2} ms: {cpu / gpu:.0}×",
            Rule::Ratio("cpu / gpu", 540.0 / 7.5),
        )
        .figures(each(of_implementation, [("plain", by::PLAIN), ("cpu", by::CPU), ("gpu", by::PHASE3)]))
        .why(Why::Always(
            "the ratio is as much the CPU's code as the GPU's: against plain loops it is {plain / gpu:.0}×",
        )),
    ];
    let kinds = [
        ("Conv2D", 400.0, 8.0),
        ("BatchNorm", 80.0, 1.0),
        ("ReLU", 20.0, 0.2),
        ("MaxPool", 30.0, 0.3),
        ("Linear", 50.0, 1.0),
    ];
    for (kind, cpu, gpu) in kinds {
        claims.push(
            Claim::new(
                format!("ResNet18's {kind}, CPU → GPU"),
                format!("{cpu} ms → {gpu} ms: {:.0}×", cpu / gpu),
                "phase3/layers",
                "{naive:.1} ms → {gpu:.4} ms: {naive / gpu:.0}×",
                Rule::Ratio("naive / gpu", cpu / gpu),
            )
            .figures(vec![
                ("naive", of_layers(kind, sides::NAIVE_CPU, layers::CPU_MS)),
                ("cpu", of_layers(kind, sides::FAST_CPU, layers::CPU_MS)),
                ("gpu", of_layers(kind, sides::FAST, layers::DEVICE_MS)),
            ])
            .why(Why::Always(
                "against plain loops on one thread; a CPU at its best takes {cpu:.2} ms: \
                 {cpu / gpu:.0}×",
            )),
        );
    }
    let on_gpu = |kind| of_layers(kind, sides::FAST, layers::DEVICE_MS);
    claims.push(
        Claim::new(
            "… and their shares",
            "conv is 70 %, BatchNorm 15 %",
            "phase3/layers",
            "on the GPU: conv {conv_ms % of all_ms:.0} %, BatchNorm {norm_ms % of all_ms:.0} %, ReLU \
                 {relu_ms % of all_ms:.0} %",
            Rule::Amounts(
                vec![Close("conv_ms % of all_ms", 70.0), Close("norm_ms % of all_ms", 15.0)],
                &[["half", "conv_ms % of all_ms"], ["norm_ms % of all_ms", "half_of_conv"]],
            ),
        )
        .figures(vec![
            ("all_ms", on_gpu("layers")),
            ("conv_ms", on_gpu("Conv2D")),
            ("norm_ms", on_gpu("BatchNorm")),
            ("relu_ms", on_gpu("ReLU")),
            ("half", Constant(50.0)),
            ("half_of_conv", Ratio(50.0, "conv_ms", "all_ms")),
            ("all_cpu", of_layers("layers", sides::NAIVE_CPU, layers::CPU_MS)),
            ("conv_cpu", of_layers("Conv2D", sides::NAIVE_CPU, layers::CPU_MS)),
        ])
        .why(Why::Always("in plain loops on the CPU convolutions take {conv_cpu % of all_cpu:.0} %")),
    );
    let slower = "{ms:.2} ms, the CPU {cpu:.1} ms: {ms / cpu:.1}× slower";
    let faster = "{ms:.2} ms, the CPU {cpu:.1} ms: {cpu / ms:.1}× faster";
    for (by, phase, claimed, factor, page, measured) in [
        (by::ROUND_TRIP, "1", "10× slower", 0.1, "phase1/transfers", slower),
        (by::CONV_ON_DEVICE, "2", "5–10× faster", 7.5, PAGE, faster),
        (by::PHASE3, "3", "20–50× faster", 35.0, PAGE, faster),
        (by::PHASE4[0], "4", "30–100× faster", 65.0, "phase4/resnet18", faster),
    ] {
        claims.push(
            Claim::new(
                format!("The phases, against the CPU: phase {phase}"),
                claimed,
                page,
                measured,
                Rule::Ratio("cpu / ms", factor),
            )
            .figures(each(of_implementation, [("plain", by::PLAIN), ("cpu", by::CPU), ("ms", by)]))
            .why(Why::Always("against a CPU at its best; against plain loops {plain / ms:.0}×")),
        );
    }
    let rate = |batch, by| of_batch(batch, by, resnet::RATE);
    claims.extend([
        Claim::new(
            "Batching",
            "CPU 2 images/s, GPU 200–500: 175×",
            PAGE,
            "CPU {cpu:.0} images/s, GPU {one:.0} one by one, {many:.0} in batches of 64",
            Rule::Ratio("many / cpu", 350.0 / 2.0),
        )
        .figures(vec![
            ("cpu", rate(1.0, by::BATCH_CPU)),
            ("one", rate(1.0, by::BATCH_PHASE3)),
            ("many", rate(64.0, by::BATCH_PHASE3)),
        ])
        .why(Why::Always("batching gains {many / one:.1}×")),
        Claim::new(
            "… and time",
            "batch 32: 16 s → 200–400 ms: 53×",
            PAGE,
            "CPU {cpu:.0} ms, GPU {gpu:.2} ms: {cpu / gpu:.0}×",
            Rule::Ratio("cpu / gpu", 16_000.0 / 300.0),
        )
        .figures(each(
            |by| of_batch(32.0, by, resnet::MS),
            [("cpu", by::BATCH_CPU), ("gpu", by::BATCH_PHASE3), ("eager", by::EAGER)],
        ))
        .why(Why::Always("PyTorch eager takes {eager:.2} ms")),
        // In kind: a larger batch uses more.
        Claim::new(
            "… and use",
            "batch 1, 4, 32: 10, 40, 90 % of the GPU",
            PAGE,
            "{rate_1 % of rate_64:.0}, {rate_4 % of rate_64:.0} and {rate_32 % of rate_64:.0} % of the \
                 rate of batch 64",
            Rule::Amounts(
                vec![
                    Close("rate_1 % of rate_64", 10.0),
                    Close("rate_4 % of rate_64", 40.0),
                    Close("rate_32 % of rate_64", 90.0),
                ],
                &[["rate_1 % of rate_64", "rate_4 % of rate_64"], ["rate_4 % of rate_64", "rate_32 % of rate_64"]],
            ),
        )
        .figures(each(
            |batch| rate(batch, by::BATCH_PHASE3),
            [("rate_1", 1.0), ("rate_4", 4.0), ("rate_32", 32.0), ("rate_64", 64.0)],
        ))
        .why(Why::Always("batch 64 reaches {rate_64:.0} images/s")),
        Claim::new(
            "Memory",
            "phase 1 1 MB, phase 3 10–50 MB",
            PAGE,
            "phase 1 {travelling:.1} MiB, phase 3 {peak:.0} MiB, of which parameters {parameters:.0}",
            Rule::Amounts(vec![Close("travelling", 1.0), Within("peak", [10.0, 50.0])], &[]),
        )
        .figures(vec![
            ("travelling", of_memory(1.0, by::ROUND_TRIP, resnet::PEAK)),
            ("peak", of_memory(1.0, by::PHASE3, resnet::PEAK)),
            ("parameters", of_memory(1.0, by::PHASE3, resnet::PARAMETERS)),
            ("winograd", of_memory(1.0, by::PHASE3, resnet::WINOGRAD)),
            ("activations", of_memory(1.0, by::PHASE3, resnet::ACTIVATIONS)),
        ])
        .why(Why::Always("Winograd's weights take {winograd:.0} MiB more, activations {activations:.1}")),
        Claim::new(
            "… of phase 4",
            "100–500 MB",
            "phase4/resnet18",
            "f32: batch 1 {one:.0} MiB, batch 32 {most:.0} MiB; f16, batch 1: {half:.0} MiB",
            Rule::Amounts(vec![Within("one", [100.0, 500.0]), Within("most", [100.0, 500.0])], &[]),
        )
        .figures(vec![
            ("one", of_memory(1.0, by::PHASE4_F32, resnet::PEAK)),
            ("most", of_memory(32.0, by::PHASE4_F32, resnet::PEAK)),
            ("half", of_memory(1.0, by::PHASE4_F16, resnet::PEAK)),
            ("scratch", of_memory(32.0, by::PHASE4_F32, resnet::SCRATCH)),
            ("half_scratch", of_memory(32.0, by::PHASE4_F16, resnet::SCRATCH)),
        ])
        .why(Why::Always("convolutions' scratch memory, batch 32: f32 {scratch:.0} MiB, f16 {half_scratch:.0}")),
    ]);
    claims
}

pub(super) fn accuracy() -> Vec<Claim> {
    use accuracies::names::{CPU, DIGITS, PHASE3, RESNET18};
    let cell = |model: &str, by: &str, column| {
        Figure::cell(accuracies::TABLE.name, column, [(accuracies::MODEL, model.into()), (accuracies::BY, by.into())])
    };
    vec![
        Claim::new(
            "Accuracy",
            "GPU equals CPU within 1e-5; 69.76 % on both",
            "phase4/resnet18",
            "within {difference:.1e} of the largest logit; digits: {cpu:.2} % and {gpu:.2} %",
            Rule::Amounts(vec![Within("difference", [0.0, 1e-5]), Same("cpu", "gpu")], &[]),
        )
        .figures(vec![
            ("difference", cell(RESNET18, PHASE3, accuracies::OF_LARGEST)),
            ("cpu", cell(DIGITS, CPU, accuracies::ACCURACY)),
            ("gpu", cell(DIGITS, PHASE3, accuracies::ACCURACY)),
            ("logits", cell(RESNET18, PHASE3, columns::MAX_DIFFERENCE)),
        ])
        .why(Why::Always("logits differ by {logits:.1e} at most")),
    ]
}
