//! `claims`: what the literature claims, and what the other tables measured.
//!
//! Nothing is written down here but the claims: every figure beside them, the verdict and its reason are computed from other
//! tables, measured in this run, or recorded where this machine has no GPU.

use common::record::Record;
use common::table::{Cell, Column, Table, wrap};

use crate::spec::{FinishedTable, Make, TableSpec};
use crate::tables::layers::{ALL, sides};
use crate::tables::linear_relu::{self, versions};
use crate::tables::resnet::by;

/// Characters of a cell's line.
const CELL: usize = 17;

/// Within this factor a figure is confirmed.
const CLOSE: f64 = 1.5;

/// The tables that claims are measured by.
const NEEDS: [&str; 7] = ["linear-relu", "layers", "resnet-single", "resnet-batch", "memory", "accuracy", "video"];

const NOT_YET: [(&str, &str, &str); 4] = [
    ("One fused kernel for the autoencoder: parity", "0.97–1.02× PyTorch, batch 32 to 512", "phase 4"),
    ("… or 25×", "100 ms → 4 ms, max difference 5.722e-6", "phase 4"),
    ("The phases, against the CPU: phase 4", "30–100× faster", "phase 4"),
    ("PTX by hand", "vectorised loads 4×, instruction level +40 %, bandwidth +50 %", "phase 4"),
];

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
    so_far: "those that phases 1 to 3 can answer; others: phase 4",
    make: Make::Derived { needs: &NEEDS, from: run },
};

/// Makes the table from a finished run.
fn run(source: Option<&Record>) -> crate::Result<FinishedTable> {
    let mut table = tabulate(source);
    if source.is_none() {
        table.note("There is no GPU here, and no record of one is in the repository.");
    }
    Ok(FinishedTable { table, wrong: Vec::new() })
}

fn tabulate(source: Option<&Record>) -> Table {
    let columns = ["claim", "claimed", "measured", "on", "holds", "why"].map(Column::text);
    let mut table = Table::new("claims, measured again", columns);
    let device = source.map_or("", |record| record.device_name.strip_prefix("NVIDIA ").unwrap_or(&record.device_name));
    let cell = |text: &str| Cell::from(wrap(text, CELL));
    let mut row = |claim: &str, claimed: &str, finding: Option<Finding>| {
        let found = match finding {
            Some(Finding { measured, holds, why }) => [cell(&measured), device.into(), holds.into(), cell(&why)],
            None => [(); 4].map(|()| Cell::absent("no measurement of it in this run")),
        };
        table.row([cell(claim), cell(claimed)].into_iter().chain(found));
    };
    let of = |name: &str| source.and_then(|record| record.table(name)).map(Rows);
    let (linear, layers) = (of("linear-relu"), of("layers"));
    let (single, batches) = (of("resnet-single"), of("resnet-batch"));

    row(
        "A naive GEMM in a fused Linear+ReLU is a disaster",
        "1024×784→2048: eager 1.10 ms, v1 8.47 ms: 7.67× slower",
        linear.as_ref().and_then(disaster),
    );
    row("… and slow as a product", "50–100 GFLOP/s against 5–10 TFLOP/s: 100×", linear.as_ref().and_then(product));
    row(
        "… because of memory traffic",
        "34 MB at 5 % of 900 GB/s; fixed: 18 MB at 67 %",
        linear.as_ref().and_then(|rows| traffic(rows, source.and_then(bandwidth))),
    );
    for (size, claimed) in [("256×256→512", 1.00), ("1024×784→2048", 1.05), ("8192×4096→4096", 1.18)] {
        row(
            &format!("A library's GEMM + fused ReLU, {size}"),
            &format!("{claimed:.2}× eager"),
            linear.as_ref().and_then(|rows| library(rows, size, claimed)),
        );
    }
    row("Backward without an extra allocation", "2× eager", linear.as_ref().and_then(backward));
    row(
        "ResNet18 forward, CPU → GPU",
        "500–580 ms → 5–10 ms: 72×",
        single.as_ref().and_then(|rows| forward(rows, 540.0 / 7.5)),
    );
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
            layers.as_ref().and_then(|rows| kind(rows, layer, cpu / gpu)),
        );
    }
    row("… and their shares", "conv is 70 %, BatchNorm 15 %", layers.as_ref().and_then(shares));
    for (by, phase, claimed, factor) in [
        (by::ROUND_TRIP, "1", "10× slower", 0.1),
        (by::CONV_ON_DEVICE, "2", "5–10× faster", 7.5),
        (by::PHASE3, "3", "20–50× faster", 35.0),
    ] {
        let found = single.as_ref().and_then(|rows| against_the_cpu(rows, by, factor));
        row(&format!("The phases, against the CPU: phase {phase}"), claimed, found);
    }
    row("Batching", "CPU 2 images/s, GPU 200–500: 175×", batches.as_ref().and_then(batching));
    row("… and time", "batch 32: 16 s → 200–400 ms: 53×", batches.as_ref().and_then(batch_of_32));
    row("Memory", "phase 1 1 MB, phase 3 10–50 MB", of("memory").as_ref().and_then(memory));
    row("The video U-Net, 880 M, batch 2, 64×64", "44.8 ms (22.3 frames/s)", of("video").as_ref().and_then(video));
    row("Accuracy", "GPU equals CPU within 1e-5; 69.76 % on both", of("accuracy").as_ref().and_then(accuracy));
    for (claim, claimed, phase) in NOT_YET {
        let absent = || Cell::absent(format!("it can be measured from {phase} on"));
        table.row([cell(claim), cell(claimed), absent(), absent(), absent(), absent()]);
    }
    table.note(format!(
        "holds: yes within a factor of {CLOSE} of the figure, in kind if only the direction is right. All in f32 without TF32."
    ));
    if let Some(record) = source {
        table.note(format!("measured: {}.", record.provenance()));
    }
    table
}

/// Whether a measured ratio is what was claimed.
fn holds(measured: f64, claimed: f64) -> &'static str {
    let same_direction = (measured - 1.0) * (claimed - 1.0) > 0.0;
    match measured / claimed {
        ratio if (1.0 / CLOSE..=CLOSE).contains(&ratio) && (same_direction || (claimed - 1.0).abs() < 0.1) => "yes",
        _ if same_direction => "in kind",
        _ => "no",
    }
}

/// A table's rows by their two names.
struct Rows<'a>(&'a Table);

impl Rows<'_> {
    /// The number in a column of the row that begins with these cells.
    fn at<const N: usize>(&self, begin: [Cell; N], column: &str) -> Option<f64> {
        let at = self.0.columns.iter().position(|other| other.heading == column)?;
        match self.0.rows.iter().find(|row| row.get(..N) == Some(&begin))?.get(at)? {
            Cell::Number(value) => Some(*value),
            _ => None,
        }
    }

    fn number(&self, first: &str, second: &str, column: &str) -> Option<f64> {
        self.at([first.into(), second.into()], column)
    }

    /// Milliseconds of a version of the linear layer.
    fn total(&self, size: &str, version: &str) -> Option<f64> {
        self.number(size, version, "total ms")
    }
}

/// The size that the story is about.
const STORY: &str = "1024×784→2048";

fn disaster(rows: &Rows<'_>) -> Option<Finding> {
    let (eager, naive) = (rows.total(STORY, versions::EAGER)?, rows.total(STORY, versions::NAIVE)?);
    let tuned = rows.total(STORY, versions::TUNED)?;
    let slower = naive / eager;
    Some(Finding {
        measured: format!("eager {eager:.3} ms, v1 {naive:.3} ms: {slower:.2}× slower"),
        holds: holds(slower, 7.67),
        why: format!("the product, not the fusion: v2, fused too, takes {tuned:.3} ms, 1/{:.0} of v1", naive / tuned),
    })
}

fn product(rows: &Rows<'_>) -> Option<Finding> {
    let (naive, tuned) = (rows.total(STORY, versions::NAIVE)?, rows.total(STORY, versions::TUNED)?);
    let rate = |ms: f64| Some(linear_relu::flops(linear_relu::from_name(STORY)?) / (ms * 1e-3));
    let (slow, fast) = (rate(naive)?, rate(tuned)?);
    Some(Finding {
        measured: format!("{:.0} GFLOP/s against {:.1} TFLOP/s: {:.0}×", slow / 1e9, fast / 1e12, fast / slow),
        holds: holds(fast / slow, 100.0),
        why: "v2 loads a value once for a tile of outputs, v1 once for each".to_owned(),
    })
}

fn traffic(rows: &Rows<'_>, limit: Option<f64>) -> Option<Finding> {
    let share = |version| Some(100.0 * rows.number(STORY, version, "GB/s")? * 1e9 / limit?);
    let (naive, tuned) = (share(versions::NAIVE)?, share(versions::TUNED)?);
    let mb = rows.number(STORY, versions::TUNED, "MB")?;
    let bound = if tuned < 50.0 { "arithmetic bounds it then, not memory" } else { "memory bounds it then" };
    Some(Finding {
        measured: format!("v1 {naive:.1} %, v2 {tuned:.1} % of the copy's bandwidth, for the {mb:.0} MB needed"),
        holds: match (holds(naive, 5.0), tuned > 67.0 / CLOSE) {
            ("yes", true) => "yes",
            ("no", _) | (_, false) => "no",
            _ => "in kind",
        },
        why: format!("memory is slow for neither: v1 waits for its caches; v2 needs {mb:.0} MB and no more; {bound}"),
    })
}

/// Bytes a second, from the table of the device's limits.
fn bandwidth(record: &Record) -> Option<f64> {
    crate::limits::Limits::from_table(record.table("limits")?).map(|limits| limits.bandwidth)
}

fn library(rows: &Rows<'_>, size: &str, claimed: f64) -> Option<Finding> {
    let eager = rows.total(size, versions::EAGER)?;
    let gain = |version| Some(eager / rows.total(size, version)?);
    let (library, tuned) = (gain(versions::LIBRARY)?, gain(versions::TUNED)?);
    let relu = rows.total(size, versions::LIBRARY_RELU)?;
    let share = 100.0 * relu / rows.total(size, versions::LIBRARY)?;
    Some(Finding {
        measured: format!("cuBLAS, then ReLU {library:.2}×; v2, fused {tuned:.2}×"),
        holds: holds(library.max(tuned), claimed),
        why: format!("what there is to gain is the second pass: bias and ReLU take {share:.0} % beside cuBLAS"),
    })
}

fn backward(rows: &Rows<'_>) -> Option<Finding> {
    let size = linear_relu::name([8192, 4096, 4096]);
    let fused = rows.total(&size, versions::BACKWARD)?;
    let eager = rows.total(&size, versions::BACKWARD_EAGER)? / fused;
    let separate = rows.total(&size, versions::SEPARATE)? / fused;
    let difference = 100.0 * (separate - 1.0).abs();
    let than = if separate < 1.0 { "less" } else { "more" };
    Some(Finding {
        measured: format!("{size}: {eager:.2}× eager, {separate:.2}× with the masked gradient written first"),
        holds: holds(eager, 2.0),
        why: format!(
            "with the mask in a kernel of its own it takes {difference:.0} % {than}; the products are the rest"
        ),
    })
}

fn forward(rows: &Rows<'_>, claimed: f64) -> Option<Finding> {
    let ms = |by: &str| rows.at([by.into()], "ms");
    let (plain, cpu, gpu) = (ms(by::PLAIN)?, ms(by::CPU)?, ms(by::PHASE3)?);
    Some(Finding {
        measured: format!("plain loops {plain:.0} ms, a CPU at its best {cpu:.0} ms → {gpu:.2} ms: {:.0}×", cpu / gpu),
        holds: holds(cpu / gpu, claimed),
        why: format!("the ratio is as much the CPU's code as the GPU's: against plain loops it is {:.0}×", plain / gpu),
    })
}

fn kind(rows: &Rows<'_>, layer: &str, claimed: f64) -> Option<Finding> {
    let name = format!("{ALL}{layer}");
    let (naive, fast_cpu) =
        (rows.number(&name, sides::NAIVE_CPU, "CPU ms")?, rows.number(&name, sides::FAST_CPU, "CPU ms")?);
    let ms = rows.number(&name, sides::FAST, "device ms")?;
    Some(Finding {
        measured: format!("{naive:.1} ms → {ms:.4} ms: {:.0}×", naive / ms),
        holds: holds(naive / ms, claimed),
        why: format!(
            "against plain loops on one thread; a CPU at its best takes {fast_cpu:.2} ms: {:.0}×",
            fast_cpu / ms
        ),
    })
}

fn shares(rows: &Rows<'_>) -> Option<Finding> {
    let ms = |kind: &str| rows.number(&format!("{ALL}{kind}"), sides::FAST, "device ms");
    let (conv, norm, relu, all) = (ms("Conv2D")?, ms("BatchNorm")?, ms("ReLU")?, ms("layers")?);
    let [conv, norm, relu] = [conv, norm, relu].map(|part| 100.0 * part / all);
    let verdicts = [holds(conv, 70.0), holds(norm, 15.0)];
    Some(Finding {
        measured: format!("on the GPU: conv {conv:.0} %, BatchNorm {norm:.0} %, ReLU {relu:.0} %"),
        holds: if verdicts == ["yes", "yes"] { "yes" } else { "in kind" },
        why: "one image: each launch takes microseconds, however little there is to do".to_owned(),
    })
}

fn against_the_cpu(rows: &Rows<'_>, by: &str, claimed: f64) -> Option<Finding> {
    let ms = |by: &str| rows.at([by.into()], "ms");
    let (cpu, plain, ms) = (ms(by::CPU)?, ms(by::PLAIN)?, ms(by)?);
    let factor = cpu / ms;
    let in_words = if factor < 1.0 { format!("{:.1}× slower", 1.0 / factor) } else { format!("{factor:.1}× faster") };
    Some(Finding {
        measured: format!("{ms:.2} ms, the CPU {cpu:.1} ms: {in_words}"),
        holds: holds(factor, claimed),
        why: match factor < 1.0 {
            true => "the copies alone: the CPU computes as before".to_owned(),
            false => format!("against a CPU at its best; against plain loops {:.0}×", plain / ms),
        },
    })
}

/// Images a second of a batch.
fn rate(rows: &Rows<'_>, batch: f64, by: &str) -> Option<f64> {
    rows.at([batch.into(), by.into()], "images/s")
}

fn batching(rows: &Rows<'_>) -> Option<Finding> {
    let (cpu, one, most) = (rate(rows, 1.0, "CPU")?, rate(rows, 1.0, "phase 3")?, rate(rows, 64.0, "phase 3")?);
    Some(Finding {
        measured: format!("CPU {cpu:.0} images/s, GPU {one:.0} one by one, {most:.0} in batches of 64"),
        holds: holds(most / cpu, 350.0 / 2.0),
        why: format!("batching gains {:.1}×: a single image fills the GPU a good part of the time", most / one),
    })
}

fn batch_of_32(rows: &Rows<'_>) -> Option<Finding> {
    let ms = |by: &str| rows.at([32.0.into(), by.into()], "ms");
    let (cpu, gpu) = (ms("CPU")?, ms("phase 3")?);
    Some(Finding {
        measured: format!("CPU {cpu:.0} ms, GPU {gpu:.2} ms: {:.0}×", cpu / gpu),
        holds: holds(cpu / gpu, 16_000.0 / 300.0),
        why: format!("both are faster by far; PyTorch's takes {:.2} ms", ms(by::EAGER)?),
    })
}

fn memory(rows: &Rows<'_>) -> Option<Finding> {
    let at = |by: &str, column| rows.at([by.into(), 1.0.into()], column);
    let (travelling, peak) = (at(by::ROUND_TRIP, "peak")?, at(by::PHASE3, "peak")?);
    let (parameters, activations) = (at(by::PHASE3, "parameters")?, at(by::PHASE3, "activations")?);
    Some(Finding {
        measured: format!("phase 1 {travelling:.1} MiB, phase 3 {peak:.0} MiB, of which parameters {parameters:.0}"),
        holds: if holds(travelling, 1.0) == "yes" && peak < 50.0 { "yes" } else { "no" },
        why: format!("activations take {activations:.1} MiB; Winograd's weights are kept in two forms, for speed"),
    })
}

fn video(rows: &Rows<'_>) -> Option<Finding> {
    use crate::tables::video::versions;
    let ms = |by| rows.number("production", by, "ms");
    let (unfused, eager) = (ms(versions::UNFUSED)?, ms(versions::EAGER)?);
    Some(Finding {
        measured: format!("unfused, f32: {unfused:.1} ms ({:.1} frames/s)", 1e3 / unfused),
        holds: holds(44.8 / unfused, 1.0),
        why: format!("before any fusion; PyTorch eager takes {eager:.1} ms"),
    })
}

fn accuracy(rows: &Rows<'_>) -> Option<Finding> {
    let off = rows.number("ResNet18", "phase 3", "of the largest")?;
    let percent = |by| rows.number("digits", by, "accuracy, %");
    let (cpu, gpu) = (percent("CPU")?, percent("phase 3")?);
    Some(Finding {
        measured: format!("within {off:.1e} of the largest logit; digits: {cpu:.2} % and {gpu:.2} %"),
        holds: if off <= 1e-5 && cpu == gpu { "yes" } else { "no" },
        why: "69.76 % is ImageNet's, which cannot be shipped: `evaluate` measures it where it is".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Device;

    /// A run as it would be saved, with these times of the layer of the story.
    fn record(eager: f64, naive: f64, tuned: f64) -> Record {
        let mut table = Table::new(
            "linear-relu",
            [
                Column::text("batch×in→out"),
                Column::text("version"),
                Column::number("total ms", 4),
                Column::number("GB/s", 0),
                Column::number("MB", 1),
            ],
        );
        for (version, ms) in [
            (versions::EAGER, eager),
            (versions::NAIVE, naive),
            (versions::TUNED, tuned),
            (versions::LIBRARY, 2.0 * tuned),
            (versions::LIBRARY_RELU, tuned),
        ] {
            let rate = 18e6 / (ms * 1e-3) / 1e9;
            table.row([STORY.into(), version.into(), ms.into(), rate.into(), 18.0.into()]);
        }
        let mut record = Record::begin(&Device::sim());
        record.device_name = "NVIDIA H200".to_owned();
        record.push("linear-relu", table);
        record
    }

    fn row<'a>(table: &'a Table, claim: &str) -> &'a [Cell] {
        let text = |cell: &Cell| if let Cell::Text(text) = cell { text.replace('\n', " ") } else { String::new() };
        table.rows.iter().find(|row| text(&row[0]).starts_with(claim)).unwrap()
    }

    #[test]
    fn verdicts_follow_from_what_was_measured() {
        let held = |eager, naive| {
            let table = tabulate(Some(&record(eager, naive, 0.05)));
            let [.., on, holds, _] = row(&table, "A naive GEMM") else { panic!() };
            assert_eq!(on, &"H200".into());
            holds.clone()
        };
        assert_eq!(held(0.08, 0.60), "yes".into());
        assert_eq!(held(0.08, 0.20), "in kind".into());
        assert_eq!(held(0.08, 0.06), "no".into());
        let table = tabulate(Some(&record(0.08, 0.60, 0.05)));
        let [_, _, measured, _, holds, why] = row(&table, "A library's GEMM + fused ReLU, 1024") else { panic!() };
        let text = |cell: &Cell| if let Cell::Text(text) = cell { text.replace('\n', " ") } else { String::new() };
        assert_eq!(text(measured), "cuBLAS, then ReLU 0.80×; v2, fused 1.60×");
        assert_eq!(holds, &"in kind".into());
        assert!(text(why).contains("take 50 %"), "{}", text(why));
    }

    #[test]
    fn a_figure_close_to_one_is_confirmed_on_either_side() {
        assert_eq!(holds(0.98, 1.05), "yes");
        assert_eq!(holds(1.04, 1.00), "yes");
        assert_eq!(holds(0.50, 1.00), "no");
        assert_eq!(holds(1.30, 1.18), "yes");
        assert_eq!(holds(0.90, 2.0), "no");
    }

    #[test]
    fn without_measurements_every_claim_has_a_dash() {
        let table = tabulate(None);
        assert!(table.rows.iter().all(|row| matches!(row[2], Cell::Absent(_))));
        // A record without the tables is none.
        let empty = Record::begin(&Device::sim());
        assert!(tabulate(Some(&empty)).rows.iter().all(|row| matches!(row[2], Cell::Absent(_))));
        assert!(
            table.to_text().lines().all(|line| line.chars().count() <= common::table::WIDTH),
            "{}",
            table.to_text()
        );
    }
}
