//! `best-peer`: for each problem of the other tables and each arithmetic, our fastest version compared with the fastest peer of
//! the same run.
//!
//! A peer is anything else that computed the same with the same arithmetic: a library, or PyTorch in any of its modes. A note
//! lists those that a table measured; so a ratio is to the best of those, with no promise that there is no better one.

use bench::ladder::columns;
use bench::record::Record;
use bench::table::{Cell, ColumnSpec, DeviceKind, Row, Table, TableBuilder};
use phase4_fusion::attention::{LADDER, Products};

use crate::spec::{FinishedTable, Make, TableSpec};
use crate::tables::linear_relu::{self, versions};
use crate::tables::peers::{CPU, PYTORCH_COMPILED_GRAPH, TUNED};
use crate::tables::{
    attention, autoencoder, conv, gemm, norm, resnet, tensor_attention, tensor_conv, tensor_cores, video,
};

const TABLE_NAME: ColumnSpec = ColumnSpec::text("table", "table");
const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "problem");
const TYPE: ColumnSpec = ColumnSpec::text("type", "type");
const OURS: ColumnSpec = ColumnSpec::text("ours", "ours");
const OURS_MS: ColumnSpec = ColumnSpec::number("ours_ms", "ms", 4);
const PEER: ColumnSpec = ColumnSpec::text("peer", "best peer");
const GAIN: ColumnSpec = ColumnSpec::number("over_peer", "peer / ours", 2).level_at(1);
const COLUMNS: &[ColumnSpec] = &[TABLE_NAME, PROBLEM, TYPE, OURS, OURS_MS, PEER, GAIN];

/// Source tables of the problems.
const NEEDS: [&str; 12] = [
    "gemm",
    "tensor-cores",
    "conv",
    "tensor-conv",
    "norm",
    "resnet-single",
    "resnet-batch",
    "linear-relu",
    "autoencoder",
    "attention",
    "tensor-attention",
    "video",
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "best-peer",
    shows: "each problem: ours beside the fastest library or mode of PyTorch",
    uses: &[],
    columns: COLUMNS,
    make: Make::Derived { needs: &NEEDS, from },
};

/// Side that computed a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Peer,
}

/// How a table's rows are read.
struct Source {
    table: &'static str,
    /// Computation.
    problem: &'static [ColumnSpec],
    /// Implementation that computed it.
    by: ColumnSpec,
    ms: ColumnSpec,
    /// Side of a row, by its problem and its name, and its arithmetic; `None` for parts, and for rows partly on the CPU. It is
    /// not called for rows of the [`CPU`].
    reads: fn(&str, &str) -> Option<(Side, String)>,
}

const SOURCES: [Source; 12] = [
    Source { table: "gemm", problem: &[gemm::PROBLEM], by: columns::STEP, ms: columns::MS, reads: ladder },
    Source {
        table: "tensor-cores",
        problem: &[tensor_cores::PROBLEM],
        by: columns::STEP,
        ms: columns::MS,
        reads: typed_ladder,
    },
    Source { table: "conv", problem: &[conv::PROBLEM], by: columns::STEP, ms: columns::MS, reads: ladder },
    Source {
        table: "tensor-conv",
        problem: &[tensor_conv::PROBLEM],
        by: columns::STEP,
        ms: columns::MS,
        reads: half_ladder,
    },
    Source { table: "norm", problem: &[norm::OPERATION], by: columns::STEP, ms: columns::MS, reads: norms },
    Source { table: "resnet-single", problem: &[], by: resnet::IMPLEMENTATION, ms: resnet::MS, reads: model },
    Source { table: "resnet-batch", problem: &[resnet::BATCH_SIZE], by: resnet::BY, ms: resnet::MS, reads: model },
    Source {
        table: "linear-relu",
        problem: &[linear_relu::SIZE],
        by: linear_relu::VERSION,
        ms: linear_relu::TOTAL,
        reads: linear,
    },
    Source {
        table: "autoencoder",
        problem: &[autoencoder::CONFIGURATION, autoencoder::BATCH],
        by: autoencoder::BY,
        ms: columns::MS,
        reads: model,
    },
    Source {
        table: "attention",
        problem: &[attention::TOKENS, attention::CHANNELS],
        by: attention::BY,
        ms: columns::MS,
        reads: attends,
    },
    Source {
        table: "tensor-attention",
        problem: &[tensor_attention::PROBLEM],
        by: columns::STEP,
        ms: columns::MS,
        reads: attends_in_half,
    },
    Source { table: "video", problem: &[video::CONFIGURATION], by: video::BY, ms: video::MS, reads: model },
];

/// Our steps begin with their numbers.
fn side_of_step(step: &str) -> Side {
    if step == TUNED || step.starts_with(|first: char| first.is_ascii_digit()) { Side::Ours } else { Side::Peer }
}

fn ladder(_: &str, step: &str) -> Option<(Side, String)> {
    Some((side_of_step(step), "f32".to_owned()))
}

/// The problem begins with its type: `bf16 4096³`.
fn typed_ladder(problem: &str, step: &str) -> Option<(Side, String)> {
    Some((side_of_step(step), problem.split(' ').next()?.to_owned()))
}

/// In f16, or in the type that the problem names. The fastest of several peers also has its own row.
fn attends_in_half(problem: &str, step: &str) -> Option<(Side, String)> {
    let element = problem.rsplit(", ").next().filter(|last| ["bf16", "e4m3"].contains(last)).unwrap_or("f16");
    (step != tensor_attention::BEST).then(|| (side_of_step(step), element.to_owned()))
}

/// In f16; including the operations after the product, if the name states them.
fn half_ladder(_: &str, step: &str) -> Option<(Side, String)> {
    match step.strip_suffix(", fused") {
        Some(step) => Some((side_of_step(step), "f16, fused".to_owned())),
        None => Some((side_of_step(step), "f16".to_owned())),
    }
}

/// `· in place` belongs to the operation above it, which has no peer in place.
fn norms(operation: &str, step: &str) -> Option<(Side, String)> {
    if operation.starts_with('·') { None } else { ladder(operation, step) }
}

/// `PyTorch tuned, tf32`, `phase 4, f16`, `planned f16`: the arithmetic comes last, and is f32 if not stated.
fn model(_: &str, by: &str) -> Option<(Side, String)> {
    let last = by.rsplit([' ', ',']).next().filter(|word| ["tf32", "f16", "bf16", "int8"].contains(word));
    let side = match by {
        // What runs on the CPU, all or in part, is another comparison; stages of a model are none.
        _ if by.contains("CPU") || by.ends_with("phase 1") || by.ends_with("phase 2") => return None,
        _ if by.starts_with("PyTorch") || by.starts_with(PYTORCH_COMPILED_GRAPH) => Side::Peer,
        _ => Side::Ours,
    };
    Some((side, last.unwrap_or("f32").to_owned()))
}

/// `tf32 ∇ eager`, `f16 v3`: arithmetic and direction come first.
fn linear(_: &str, version: &str) -> Option<(Side, String)> {
    let (arithmetic, rest) =
        version.split_once(' ').filter(|(first, _)| ["tf32", "f16"].contains(first)).unwrap_or(("f32", version));
    let (direction, rest) = match rest.strip_prefix("∇ ") {
        Some(rest) => (" ∇", rest),
        None => ("", rest),
    };
    let side = match rest {
        _ if rest.starts_with('·') => return None,
        _ if [versions::LIBRARY, versions::LIBRARY_LT, "eager", "compiled", "tuned"].contains(&rest) => Side::Peer,
        _ => Side::Ours,
    };
    Some((side, format!("{arithmetic}{direction}")))
}

fn attends(_: &str, by: &str) -> Option<(Side, String)> {
    let step = LADDER.iter().find(|step| step.title() == by);
    let side = if step.is_some() || by == attention::NAIVE { Side::Ours } else { Side::Peer };
    let rounds = step.is_some_and(|step| step.method.products().contains(&Products::Tf32));
    let arithmetic = if by.ends_with(", tf32") || rounds {
        "tf32"
    } else if attention::is_half(by) {
        "f16"
    } else {
        "f32"
    };
    Some((side, arithmetic.to_owned()))
}

/// A problem in one arithmetic, and the fastest on each side.
struct Pair {
    problem: String,
    arithmetic: String,
    ours: Option<(String, f64)>,
    peer: Option<(String, f64)>,
}

impl Source {
    /// The columns of the problem, in one line.
    fn problem_of(&self, row: Row<'_>) -> crate::Result<String> {
        let mut words = Vec::new();
        for column in self.problem {
            words.push(match row.cell(column)? {
                Cell::Text(text) => text.clone(),
                Cell::Number(number) => format!("{} {number}", column.heading),
                Cell::Absent(_) => continue,
            });
        }
        Ok(if words.is_empty() { "one photo".to_owned() } else { words.join(", ") })
    }

    /// The problems in the order of the table, and the names of all measured peers.
    fn pairs(&self, table: &Table) -> crate::Result<(Vec<Pair>, Vec<String>)> {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut peers: Vec<String> = Vec::new();
        for row in table.iter() {
            let (problem, by) = (self.problem_of(row)?, row.text(self.by)?);
            if by == CPU {
                continue;
            }
            let Some((side, arithmetic)) = (self.reads)(&problem, by) else { continue };
            let Some(ms) = row.number(self.ms)? else { continue };
            let place = pairs.iter().position(|pair| pair.problem == problem && pair.arithmetic == arithmetic);
            let at = place.unwrap_or_else(|| {
                pairs.push(Pair { problem, arithmetic, ours: None, peer: None });
                pairs.len() - 1
            });
            let Pair { ours, peer, .. } = &mut pairs[at];
            if side == Side::Peer && !peers.iter().any(|known| known == by) {
                peers.push(by.to_owned());
            }
            let best = if side == Side::Ours { ours } else { peer };
            if best.as_ref().is_none_or(|(_, least)| ms < *least) {
                *best = Some((by.to_owned(), ms));
            }
        }
        pairs.retain(|pair| pair.ours.is_some());
        Ok((pairs, peers))
    }
}

/// Makes the table from a finished run.
fn from(source: Option<&Record>) -> crate::Result<FinishedTable> {
    let mut table = TableBuilder::new("best-peer: ours beside the best peer of the run", DeviceKind::Gpu, COLUMNS);
    let mut notes = Vec::new();
    for source_of in &SOURCES {
        let Some(measured) = source.and_then(|run| run.table(source_of.table)) else { continue };
        let (pairs, peers) = source_of.pairs(measured)?;
        let mut ratios: Vec<(String, Vec<f64>)> = Vec::new();
        for Pair { problem, arithmetic, ours, peer } in pairs {
            let row = table.row().set(TABLE_NAME, source_of.table).set(PROBLEM, problem).set(TYPE, arithmetic.as_str());
            let Some((ours, ours_ms)) = ours else { continue };
            let row = row.set(OURS, ours).set(OURS_MS, ours_ms);
            let Some((peer, peer_ms)) = peer else {
                row.finish("no peer computes it in this arithmetic");
                continue;
            };
            let ratio = peer_ms / ours_ms;
            row.set(PEER, peer).set(GAIN, ratio).complete();
            match ratios.iter_mut().find(|(other, _)| *other == arithmetic) {
                Some((_, ratios)) => ratios.push(ratio),
                None => ratios.push((arithmetic, vec![ratio])),
            }
        }
        let means: Vec<String> = ratios
            .iter()
            .map(|(arithmetic, ratios)| {
                let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
                let ahead = ratios.iter().filter(|ratio| **ratio > 1.0).count();
                format!("{arithmetic} ahead in {ahead} of {}, geometric mean {mean:.2}", ratios.len())
            })
            .collect();
        notes.push(format!("{}: {}. Peers: {}.", source_of.table, means.join("; "), peers.join("; ")));
    }
    table.note("peer / ours: how many times as long as ours the fastest peer takes; above 1 ours is faster. Each from one run.");
    notes.into_iter().for_each(|note| table.note(note));
    match source {
        Some(record) => table.note(format!("measured: {}.", record.provenance_of_all(&NEEDS))),
        None => table.note("There is no GPU here, and no record of one is in the repository."),
    }
    Ok(FinishedTable { table: table.finish(), wrong: Vec::new() })
}

#[cfg(test)]
mod tests {
    use common::Device;

    use super::*;
    use crate::tables::peers::CUBLASLT;

    #[test]
    fn names_say_whose_a_row_is_and_in_what_arithmetic() {
        let says = |read: fn(&str, &str) -> Option<(Side, String)>, problem: &str, by: &str| {
            read(problem, by).map(|(side, arithmetic)| format!("{side:?} {arithmetic}")).unwrap_or_default()
        };
        for (by, expected) in [
            ("phase 4, f16", "Ours f16"),
            ("5 phase 4, tf32", "Ours tf32"),
            ("planned f16", "Ours f16"),
            ("fused, f32", "Ours f32"),
            ("phase 3, graph", "Ours f32"),
            ("unfused", "Ours f32"),
            ("one kernel", "Ours f32"),
            ("PyTorch tuned, tf32", "Peer tf32"),
            ("PyTorch graph", "Peer f32"),
            ("PyTorch graph, NHWC", "Peer f32"),
            ("compiled graph, f16", "Peer f16"),
            ("CPU", ""),
            ("1 CPU, plain loops", ""),
            ("PyTorch, CPU", ""),
            ("2 phase 1", ""),
            ("3 phase 2", ""),
        ] {
            assert_eq!(says(model, "", by), expected, "{by}");
        }
        for (by, expected) in [
            (versions::NAIVE, "Ours f32"),
            (versions::LIBRARY, "Peer f32"),
            (versions::LIBRARY_LT, "Peer f32"),
            (versions::TENSOR_CORES_LT, "Peer tf32"),
            (versions::LIBRARY_GEMM, ""),
            (versions::TENSOR_CORES, "Ours tf32"),
            (versions::TENSOR_CORES_COMPILED, "Peer tf32"),
            (versions::HALF, "Ours f16"),
            (versions::HALF_LT, "Peer f16"),
            (versions::HALF_COMPILED, "Peer f16"),
            (versions::BACKWARD, "Ours f32 ∇"),
            (versions::TENSOR_CORES_BACKWARD_EAGER, "Peer tf32 ∇"),
        ] {
            assert_eq!(says(linear, "", by), expected, "{by}");
        }
        for (by, expected) in [
            ("naive", "Ours f32"),
            ("1 online", "Ours f32"),
            ("3 wgmma", "Ours f16"),
            ("6 tf32", "Ours tf32"),
            ("7 parts", "Ours f32"),
            ("PyTorch SDPA", "Peer f32"),
            ("SDPA, tf32", "Peer tf32"),
            ("cuDNN, f16", "Peer f16"),
        ] {
            assert_eq!(says(attends, "", by), expected, "{by}");
        }
        assert_eq!(says(typed_ladder, "bf16 4096³", "11 clusters"), "Ours bf16");
        assert_eq!(says(half_ladder, "", "PyTorch graph, fused"), "Peer f16, fused");
        assert_eq!(says(attends_in_half, "", tensor_attention::BEST), "");
        assert_eq!(says(norms, "· in place", "1 naive"), "");
    }

    #[test]
    fn the_fastest_of_each_side_are_compared_and_what_has_no_peer_says_so() {
        let shown = [resnet::BATCH_SIZE, resnet::BY, resnet::MS];
        let mut table = TableBuilder::new("resnet-batch", DeviceKind::Gpu, &shown);
        for (batch, by, ms) in [
            (1.0, "CPU", 0.01),
            (1.0, "phase 3", 4.0),
            (1.0, "phase 4, f32", 2.0),
            (1.0, "PyTorch eager", 9.0),
            (1.0, "PyTorch graph", 3.0),
            (8.0, "phase 4, int8", 1.0),
            (8.0, "PyTorch graph, f16", 1.0),
        ] {
            table.row().set(resnet::BATCH_SIZE, batch).set(resnet::BY, by).set(resnet::MS, ms).complete();
        }
        let mut run = Record::begin(&Device::sim());
        run.push("resnet-batch", table.finish());
        let made = from(Some(&run)).unwrap().table;
        // Batch 8 in f16 has a peer alone, so there is nothing to compare.
        assert_eq!(made.rows().len(), 2);
        let row = made.iter().next().unwrap();
        assert_eq!((row.text(OURS).unwrap(), row.text(PEER).unwrap()), ("phase 4, f32", "PyTorch graph"));
        assert_eq!((row.number(GAIN).unwrap(), row.text(PROBLEM).unwrap()), (Some(1.5), "batch 1"));
        assert!(matches!(made.iter().nth(1).unwrap().cell(GAIN).unwrap(), Cell::Absent(_)));
        let mut products = TableBuilder::new("gemm", DeviceKind::Gpu, &[gemm::PROBLEM, columns::STEP, columns::MS]);
        for (by, ms) in [(CPU, 0.01), ("1 uncoalesced", 4.0), (gemm::LIBRARY, 3.0), (CUBLASLT, 2.0)] {
            products.row().set(gemm::PROBLEM, "64³").set(columns::STEP, by).set(columns::MS, ms).complete();
        }
        run.push("gemm", products.finish());
        let products = from(Some(&run)).unwrap().table;
        let note = "gemm: f32 ahead in 0 of 1, geometric mean 0.50. Peers: cuBLAS; cuBLASLt.";
        assert!(products.notes.iter().any(|other| other == note), "the CPU is no peer: {:?}", products.notes);
        let note = "resnet-batch: f32 ahead in 1 of 1, geometric mean 1.50. Peers: PyTorch eager; PyTorch graph; PyTorch graph, f16.";
        assert!(made.notes.iter().any(|other| other == note), "{:?}", made.notes);
    }

    #[test]
    fn every_problem_of_a_record_is_there_and_the_table_fits_a_terminal() {
        let record =
            crate::records().unwrap().into_iter().find(|run| NEEDS.iter().all(|need| run.table(need).is_some()));
        let made = from(record.as_ref()).unwrap().table;
        let text = made.to_text();
        assert!(text.lines().all(|line| line.chars().count() <= bench::table::WIDTH), "{text}");
        for need in NEEDS {
            let of_table = made.iter().filter(|row| row.text(TABLE_NAME).unwrap() == need);
            let compared = of_table.filter(|row| row.number(GAIN).unwrap().is_some()).count();
            assert!(compared > 0, "{need}: nothing is compared");
        }
        assert!(from(None).unwrap().table.rows().is_empty());
    }
}
