//! The first screen: the gain of each phase, by model, compared with the fastest library in the same arithmetic, and what to do next.
//!
//! Every number comes from another table, found there by the names of its rows and columns: of this run on a GPU, of a recorded
//! run on the simulator, which has no times. The simulator checks and counts a small case of some of them instead.

use std::collections::BTreeSet;
use std::time::Instant;

use bench::ladder::columns;
use bench::record::Record;
use bench::table::{Cell, ColumnSpec, DeviceKind, Row, Table, TableBuilder};
use common::compile::KernelSource;

use phase2_conv_bn::{conv as conv_f32, gemm as gemm_f32};
use phase4_fusion::attention::LADDER;
use phase4_fusion::{conv as conv_f16, gemm as gemm_f16};

use crate::Result;
use crate::registry::Runner;
use crate::tables::peers::{
    CPU as CPU_ROW, PYTORCH_AUTOTUNED, PYTORCH_COMPILED, PYTORCH_COMPILED_GRAPH, PYTORCH_EAGER, PYTORCH_GRAPH,
};
use crate::tables::{attention, autoencoder, gemm, linear_relu, peers, resnet, tensor_cores, video};

/// Name of the screen in a run.
pub const SUMMARY: &str = "summary";

const MODEL: ColumnSpec = ColumnSpec::text("model", "model");
const CPU: ColumnSpec = ColumnSpec::number("cpu_us", "CPU", 0);
const NAIVE: ColumnSpec = ColumnSpec::number("naive_us", "naive", 0);
const TUNED: ColumnSpec = ColumnSpec::number("tuned_us", "tuned", 0);
const FUSED: ColumnSpec = ColumnSpec::number("fused_us", "fused", 0);
const PEER_TIME: ColumnSpec = ColumnSpec::number("peer_us", "library", 0);
const AHEAD: ColumnSpec = ColumnSpec::number("peer_over_ours", "gain", 2).level_at(1);
const PEER: ColumnSpec = ColumnSpec::text("peer", "which library");
const COLUMNS: &[ColumnSpec] = &[MODEL, CPU, NAIVE, TUNED, FUSED, PEER_TIME, AHEAD, PEER];

/// The stages of a model, in the order of the phases.
const STAGES: [ColumnSpec; 4] = [CPU, NAIVE, TUNED, FUSED];

/// Length of the day in a record's date.
const DAY: usize = "2026-11-29".len();

/// Implementations whose times are compared. Where several rows stand for one thing, the fastest counts.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// These rows.
    Of(&'static [&'static str]),
    /// See the line above: it is the same in f32.
    Above,
    /// The course has no such version, or does not time it.
    Not,
}

/// A line of the screen, before its numbers are looked up.
#[derive(Clone, Debug)]
struct Line {
    model: &'static str,
    table: &'static str,
    /// Identity of its rows, except for the implementation.
    about: Vec<(ColumnSpec, Cell)>,
    by: ColumnSpec,
    ms: ColumnSpec,
    stages: [Stage; 4],
    peers: &'static [&'static str],
}

/// All lines: the models of SPEC.md, in f32 and where that makes a difference in f16.
fn lines() -> Vec<Line> {
    use Stage::{Above, Not, Of};
    use resnet::by;
    let single = |model, stages, peers| Line {
        model,
        table: resnet::SINGLE.name,
        about: Vec::new(),
        by: resnet::IMPLEMENTATION,
        ms: resnet::MS,
        stages,
        peers,
    };
    let batch = |model, stages, peers| Line {
        model,
        table: resnet::BATCH.name,
        about: vec![(resnet::BATCH_SIZE, 32usize.into())],
        by: resnet::BY,
        ms: resnet::MS,
        stages,
        peers,
    };
    let unet = |model, stages, peers| Line {
        model,
        table: video::TABLE.name,
        about: vec![(video::CONFIGURATION, video::PRODUCTION.into())],
        by: video::BY,
        ms: video::MS,
        stages,
        peers,
    };
    let linear = |model, stages, peers| Line {
        model,
        table: linear_relu::TABLE.name,
        about: vec![(linear_relu::SIZE, linear_relu::IN_SUMMARY.gpu.into())],
        by: linear_relu::VERSION,
        ms: linear_relu::TOTAL,
        stages,
        peers,
    };
    let attention = |model, stages, peers| Line {
        model,
        table: attention::TABLE.name,
        about: vec![(attention::TOKENS, 4096usize.into()), (attention::CHANNELS, 64usize.into())],
        by: attention::BY,
        ms: columns::MS,
        stages,
        peers,
    };
    vec![
        single(
            "ResNet18 ×1, f32",
            [Of(&[by::CPU]), Of(&[by::CONV_ON_DEVICE]), Of(&[by::PHASE3]), Of(&[by::PHASE4_F32])],
            &[by::EAGER, by::COMPILED, by::GRAPH],
        ),
        single("ResNet18 ×1, f16", [Above, Above, Above, Of(&[by::PHASE4_F16])], &[by::GRAPH_F16, by::TUNED_F16]),
        batch(
            "ResNet18 ×32, f32",
            [Of(&[by::BATCH_CPU]), Not, Of(&[by::BATCH_PHASE3, by::BATCH_PHASE3_GRAPH]), Of(&[by::BATCH_PHASE4_F32])],
            &[by::EAGER, by::COMPILED, by::GRAPH],
        ),
        batch("ResNet18 ×32, f16", [Above, Not, Above, Of(&[by::BATCH_PHASE4_F16])], &[by::GRAPH_F16, by::TUNED_F16]),
        Line {
            model: "autoencoder, f32",
            table: autoencoder::TABLE.name,
            about: vec![
                (autoencoder::CONFIGURATION, autoencoder::ORIGINAL.into()),
                (autoencoder::BATCH, 64usize.into()),
            ],
            by: autoencoder::BY,
            ms: columns::MS,
            stages: [
                Of(&[CPU_ROW]),
                Of(&[autoencoder::versions::UNFUSED]),
                Of(&[autoencoder::versions::UNFUSED_GRAPH]),
                Of(&[autoencoder::versions::ONE_KERNEL, autoencoder::versions::PLANNED_F32]),
            ],
            peers: &[PYTORCH_EAGER, PYTORCH_COMPILED, PYTORCH_GRAPH, PYTORCH_AUTOTUNED],
        },
        unet(
            "U-Net 879 M, f32",
            [
                Of(&[CPU_ROW]),
                Of(&[video::versions::UNFUSED]),
                Of(&[video::versions::UNFUSED_GRAPH]),
                Of(&[video::versions::FUSED_F32]),
            ],
            &[PYTORCH_EAGER, PYTORCH_GRAPH, video::versions::GRAPH_NHWC, PYTORCH_COMPILED_GRAPH],
        ),
        unet(
            "U-Net 879 M, f16",
            [Above, Above, Above, Of(&[video::versions::FUSED_F16])],
            &[video::versions::GRAPH_F16, video::versions::COMPILED_GRAPH_F16],
        ),
        Line {
            model: "product 4096³, f32",
            table: gemm::TABLE.name,
            about: vec![(gemm::PROBLEM, "4096³".into())],
            by: columns::STEP,
            ms: columns::MS,
            stages: [Of(&[CPU_ROW]), Of(&[gemm::NAIVE]), Of(&[peers::TUNED]), Not],
            peers: &[gemm::LIBRARY, peers::CUBLASLT, PYTORCH_EAGER],
        },
        Line {
            model: "product 4096³, f16",
            table: tensor_cores::TABLE.name,
            about: vec![(tensor_cores::PROBLEM, "f16 4096³".into())],
            by: columns::STEP,
            ms: columns::MS,
            stages: [Above, Of(&[tensor_cores::NAIVE]), Of(&[peers::TUNED]), Not],
            peers: &[tensor_cores::LIBRARY],
        },
        linear(
            "Linear+ReLU, f32",
            [Of(&[CPU_ROW]), Of(&[linear_relu::versions::NAIVE]), Not, Of(&[linear_relu::versions::TUNED])],
            &[
                linear_relu::versions::LIBRARY,
                linear_relu::versions::LIBRARY_LT,
                linear_relu::versions::EAGER,
                linear_relu::versions::COMPILED,
            ],
        ),
        linear(
            "Linear+ReLU, f16",
            [Above, Above, Not, Of(&[linear_relu::versions::HALF])],
            &[linear_relu::versions::HALF_LT, linear_relu::versions::HALF_EAGER, linear_relu::versions::HALF_COMPILED],
        ),
        attention(
            "attention, f32",
            [Of(&[CPU_ROW]), Of(&[attention::NAIVE]), Not, Of(&["1 online", "7 parts"])],
            &[attention::SDPA],
        ),
        attention(
            "attention, f16",
            [Above, Above, Not, Of(&["2 mma", "3 wgmma", "4 roles", "5 split keys"])],
            &["flash, f16", "cuDNN, f16", "xFormers, f16"],
        ),
    ]
}

/// The source tables of the lines, each once.
pub fn tables() -> Vec<&'static str> {
    let mut names = Vec::new();
    for Line { table, .. } in lines() {
        if !names.contains(&table) {
            names.push(table);
        }
    }
    names
}

/// The fastest of these rows of a line: its name, and its time in µs.
fn fastest<'r>(rows: &[(&'r str, f64)], names: &[&str]) -> Option<(&'r str, f64)> {
    let named = rows.iter().filter(|(name, _)| names.contains(name));
    named.copied().min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// A peer's name without the number format, where the model's name has it: a line has 80 characters on most terminals.
fn short_name<'n>(peer: &'n str, model: &str) -> &'n str {
    match (peer.rsplit_once(", "), model.rsplit_once(", ")) {
        (Some((name, format)), Some((_, of_model))) if format == of_model => name,
        _ => peer,
    }
}

impl Line {
    /// Implementations and times in µs that a run measured for it. Empty if the run has no such rows.
    fn rows<'r>(&self, run: &'r Record) -> Result<Vec<(&'r str, f64)>> {
        let Some(table) = run.table(self.table) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for row in table.iter() {
            if self.is_about(row)?
                && let Some(ms) = row.number(self.ms)?
            {
                found.push((row.text(self.by)?, 1e3 * ms));
            }
        }
        Ok(found)
    }

    fn is_about(&self, row: Row<'_>) -> Result<bool> {
        for (column, cell) in &self.about {
            if row.cell(column)? != cell {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Names of all our rows.
    fn ours(&self) -> Vec<&'static str> {
        let names = self.stages.iter().map(|stage| if let Stage::Of(names) = stage { *names } else { &[] });
        names.flatten().copied().collect()
    }
}

/// The screen's table. `runs` returns those that have a table, nearest first: a line is from the first that has its rows.
/// `measured` means that they are of this run.
///
/// # Errors
/// If a table lacks a column that the course's have.
pub fn tabulate<'r>(runs: impl Fn(&str) -> Vec<&'r Record>, measured: bool) -> Result<Table> {
    let mut table = TableBuilder::new("", DeviceKind::Gpu, COLUMNS);
    let mut days = BTreeSet::new();
    let mut devices: Vec<&str> = Vec::new();
    for line in lines() {
        let mut found = None;
        for run in runs(line.table) {
            let rows = line.rows(run)?;
            if !rows.is_empty() {
                found = Some((run, rows));
                break;
            }
        }
        let (run, rows) = found.unzip();
        let rows = rows.unwrap_or_default();
        let mut row = table.row().set(MODEL, line.model);
        for (stage, column) in line.stages.iter().zip(STAGES) {
            row = row.set(
                column,
                match stage {
                    Stage::Of(names) => Cell::or_absent(fastest(&rows, names).map(|(_, us)| us), NOT_IN_RUN),
                    Stage::Above => Cell::from(""),
                    Stage::Not => Cell::absent(NOT_IN_RUN),
                },
            );
        }
        let (ours, peer) = (fastest(&rows, &line.ours()), fastest(&rows, line.peers));
        row.set(PEER_TIME, Cell::or_absent(peer.map(|(_, us)| us), NO_PEER))
            .set(AHEAD, Cell::or_absent(ours.zip(peer).map(|((_, ours), (_, peer))| peer / ours), NO_PEER))
            .set(PEER, peer.map_or("", |(name, _)| short_name(name, line.model)))
            .finish(NOT_IN_RUN);
        if let Some(run) = run {
            if !devices.contains(&run.device_name.as_str()) {
                devices.push(&run.device_name);
            }
            days.extend(run.date_of(line.table).get(..DAY));
        }
    }
    table.note(
        "naive, tuned, fused: ResNet18 by phases 2, 3 and 4; otherwise the first version, the best unfused one, phase 4's. Empty: as in \
         f32. library: the fastest of PyTorch, cuBLAS and cuDNN; gain above 1: ours is faster. autoencoder: 64 spectrograms; \
         U-Net: 2 latents of 64 × 64; Linear+ReLU: 1024×784→2048; attention: 8 heads, 4096 tokens of 64.",
    );
    if measured {
        table.note("PyTorch: eager and as a graph; `all` tries what takes it minutes to compile, too.");
    }
    if let (Some(first), Some(last)) = (days.first(), days.last()) {
        let until = if first == last { String::new() } else { format!(" to {last}") };
        table.note(format!("{} {first}{until}.", if measured { "Measured" } else { "Recorded" }));
    }
    let mut table = table.finish();
    let devices = devices.join(" and ");
    table.title = match (measured, devices.is_empty()) {
        (_, true) => "what each phase bought: there is no GPU here, and no record of one".to_owned(),
        (true, _) => format!("what each phase bought, in µs: measured here, on {devices}"),
        (false, _) => format!("what each phase bought, in µs: recorded on {devices}, not measured here"),
    };
    Ok(table)
}

/// A small case that the simulator checks and counts.
struct Counted {
    model: &'static str,
    table: &'static str,
    by: ColumnSpec,
    /// Instructions by lane, in any unit.
    lanes: ColumnSpec,
    naive: &'static str,
    ours: &'static [&'static str],
}

const COUNTED: [Counted; 4] = [
    Counted {
        model: "product, f32",
        table: gemm::TABLE.name,
        by: columns::STEP,
        lanes: columns::LANES_PER_PRODUCT,
        naive: gemm::NAIVE,
        ours: &[peers::TUNED],
    },
    Counted {
        model: "product, bf16",
        table: tensor_cores::TABLE.name,
        by: columns::STEP,
        lanes: columns::LANES_PER_PRODUCT,
        naive: tensor_cores::NAIVE,
        ours: &[peers::TUNED],
    },
    Counted {
        model: "attention, f32",
        table: attention::TABLE.name,
        by: attention::BY,
        lanes: columns::LANES_PER_PRODUCT,
        naive: attention::NAIVE,
        ours: &["1 online", "7 parts"],
    },
    Counted {
        model: "autoencoder, f32",
        table: autoencoder::TABLE.name,
        by: autoencoder::BY,
        lanes: columns::LANE_MILLIONS,
        naive: autoencoder::versions::UNFUSED,
        ours: &[autoencoder::versions::ONE_KERNEL],
    },
];

const CASE: ColumnSpec = ColumnSpec::text("case", "case");
const STEPS: ColumnSpec = ColumnSpec::text("steps", "the best");
const NAIVE_LANES: ColumnSpec = ColumnSpec::number("naive_lanes", "naive", 2);
const OUR_LANES: ColumnSpec = ColumnSpec::number("our_lanes", "best", 2);
const FEWER: ColumnSpec = ColumnSpec::number("fewer", "× fewer", 2);
const RIGHT: ColumnSpec = ColumnSpec::number("right", "checked", 0);
const COUNTED_COLUMNS: &[ColumnSpec] = &[MODEL, CASE, NAIVE_LANES, OUR_LANES, FEWER, RIGHT, STEPS];

/// Results of the simulator for [`COUNTED`].
fn counted(run: &Record, seconds: f64) -> Result<Table> {
    let title = format!(
        "run and checked here, on the simulator, in {seconds:.1} s: instructions per multiply-add, over all threads"
    );
    let mut table = TableBuilder::new(title, DeviceKind::Simulator, COUNTED_COLUMNS);
    for Counted { model, table: name, by, lanes, naive, ours } in COUNTED {
        let row = table.row().set(MODEL, model);
        let Some(source) = run.table(name) else {
            row.finish(NOT_IN_RUN);
            continue;
        };
        let (mut rows, mut right, mut case) = (Vec::new(), 0usize, String::new());
        for of_run in source.iter() {
            if let Some(count) = of_run.number(lanes)? {
                rows.push((of_run.text(by)?, count));
            }
            right += usize::from(of_run.text(columns::CHECK)? == OK);
            if case.is_empty() {
                case = source.about(of_run, by);
            }
        }
        let (slow, fast) = (fastest(&rows, &[naive]), fastest(&rows, ours));
        let lanes = |found: Option<(&str, f64)>| Cell::or_absent(found.map(|(_, count)| count), NOT_IN_RUN);
        row.set(CASE, case)
            .set(NAIVE_LANES, lanes(slow))
            .set(OUR_LANES, lanes(fast))
            .set(FEWER, Cell::or_absent(slow.zip(fast).map(|((_, slow), (_, fast))| slow / fast), NOT_IN_RUN))
            .set(RIGHT, right)
            .set(STEPS, fast.map_or("", |(name, _)| name))
            .finish(NOT_IN_RUN);
    }
    table.note("The autoencoder: millions in all. checked: versions that agree with a reference in f64.");
    Ok(table.finish())
}

/// Contents of a screen.
pub struct Screen {
    /// One below the other.
    pub tables: Vec<Table>,
    /// One sentence for each failure or error.
    pub wrong: Vec<String>,
    /// The tables that were measured for it.
    pub run: Record,
}

/// Makes the screen: on a GPU by measuring only what it shows; on the simulator from the runner's recorded runs, with small cases
/// that are run here.
///
/// # Errors
/// Same as [`tabulate`].
pub fn screen(runner: &mut Runner) -> Result<Screen> {
    let (mut tables, run, wrong) = if runner.device().is_sim() {
        let summary = tabulate(|table| runner.shelf().with_table(table), false)?;
        let begin = Instant::now();
        let (run, wrong) = runner.run_of(&COUNTED.map(|counted| counted.table))?;
        (vec![summary, counted(&run, begin.elapsed().as_secs_f64())?], run, wrong)
    } else {
        runner.start_pytorch();
        runner.device().load_ahead(sources());
        let (run, wrong) = runner.run_of(&tables())?;
        (vec![tabulate(|_| vec![&run], true)?], run, wrong)
    };
    if let Some(last) = tables.last_mut() {
        last.note(NEXT);
    }
    Ok(Screen { tables, wrong, run })
}

/// The largest kernel files that the lines run on a GPU: compiled one after the other, they would take most of the screen's time.
/// Attention's come first, since one of them takes longest.
fn sources() -> impl Iterator<Item = &'static KernelSource> {
    let products = gemm_f32::Tuned::sources().chain(gemm_f16::Tuned::sources());
    let convolutions = conv_f32::Tuned::sources().chain(conv_f16::Tuned::sources());
    LADDER.iter().map(|step| &step.source).chain(products).chain(convolutions)
}

/// Next steps: to learn, then to measure.
const NEXT: &str = "\
Next:
cargo run -p book -- --open           read the course, edit and run its kernels in the browser
cargo run -p phase1-infra -- broken   twelve kernels with a bug: which of its lines is wrong?
cargo run -p assignments -- next      the first kernel that you write yourself
cargo run -p phase5-bench -- --list   what can be measured: `-- gemm` makes one table";

/// Word in tables for a result that agrees with its reference.
const OK: &str = "ok";
const NOT_IN_RUN: &str = "no such version, or not timed";
const NO_PEER: &str = "no peer was measured";

#[cfg(test)]
mod tests {
    use bench::terminal::Terminal;

    use super::*;

    /// A name that is misspelt, or that a table no longer has, would be a dash for ever.
    #[test]
    fn every_line_finds_all_of_its_rows_in_the_record() {
        let records = crate::records().unwrap();
        for line in lines() {
            let rows = records.iter().map(|run| line.rows(run).unwrap()).find(|rows| !rows.is_empty());
            let rows = rows.unwrap_or_else(|| panic!("no record has rows of {}", line.model));
            for name in line.ours().into_iter().chain(line.peers.iter().copied()) {
                assert_eq!(rows.iter().filter(|(by, _)| *by == name).count(), 1, "{}: {name} in {rows:?}", line.model);
            }
        }
    }

    #[test]
    fn the_fastest_of_a_run_is_compared_with_the_fastest_peer() {
        let records = crate::records().unwrap();
        let table = tabulate(|_| records.iter().collect(), false).unwrap();
        assert_eq!(table.rows().len(), lines().len());
        for row in table.iter() {
            let model = row.text(MODEL).unwrap();
            let number = |column| row.number(column).unwrap();
            let ours = STAGES.into_iter().skip(1).filter_map(number).fold(f64::INFINITY, f64::min);
            let peer = number(PEER_TIME).unwrap();
            assert_eq!(number(AHEAD), Some(peer / ours), "{model}");
            assert!(!row.text(PEER).unwrap().is_empty(), "{model}");
        }
        assert!(table.title.contains("recorded on NVIDIA H200, not measured here"), "{}", table.title);
        assert!(table.notes.iter().any(|note| note.starts_with("Recorded 2026-")), "{:?}", table.notes);
    }

    #[test]
    fn the_screen_is_a_table_on_a_terminal_of_80_columns() {
        let records = crate::records().unwrap();
        let table = tabulate(|_| records.iter().collect(), false).unwrap();
        let text = table.to_terminal(Terminal { width: 80, colors: false });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for line in lines() {
            let row = text.lines().find(|text| text.starts_with(line.model)).unwrap();
            assert!(row.chars().count() > 60, "{text}");
        }
    }

    #[test]
    fn a_format_that_the_model_has_is_not_said_of_the_peer_again() {
        assert_eq!(short_name("flash, f16", "attention, f16"), "flash");
        assert_eq!(short_name("flash, f16", "attention, f32"), "flash, f16");
        assert_eq!(short_name("eager", "attention, f16"), "eager");
    }

    #[test]
    fn without_a_record_the_lines_stay_and_say_so() {
        let table = tabulate(|_| Vec::new(), false).unwrap();
        assert_eq!(table.rows().len(), lines().len());
        assert!(table.title.contains("no record"), "{}", table.title);
        assert!(table.iter().all(|row| row.number(AHEAD).unwrap().is_none()));
    }
}
