//! `claims`: what the literature claims, and what the other tables measured.
//!
//! A claim is a row of data (`rows`): the columns that it rests on, a rule, and for each verdict a reason that cites a column. Every
//! figure, the verdict and its reason are from other tables, measured in this run, or recorded where this machine has no GPU.

mod figure;
mod rows;
mod rule;

use bench::record::Record;
use bench::table::{ColumnSpec, DeviceKind, TableBuilder};

use crate::spec::{FinishedTable, Make, TableSpec};
use figure::{Figures, Found, Missing};
use rows::{Claim, claims};
use rule::{CLOSE, NOISE, PARITY};

/// Characters of a sentence's line.
const LINE: u16 = 17;

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

/// The page of each row, in their order.
pub(crate) fn pages() -> Vec<&'static str> {
    claims().into_iter().map(|claim| claim.page).collect()
}

/// Result for a claim.
struct Finding {
    measured: String,
    holds: &'static str,
    why: String,
}

/// Holds a claim against a run.
fn find(claim: &Claim, run: Option<&Record>) -> Found<Finding> {
    let figures = Figures { run: run.ok_or(Missing::Measurement)?, named: &claim.figures };
    let verdict = claim.rule.verdict(figures)?;
    let why = match figures.cite(claim.why.of(verdict)) {
        // The claim is measured all the same.
        Err(Missing::Measurement) => String::new(),
        cited => cited?,
    };
    Ok(Finding { measured: figures.cite(claim.measured)?, holds: verdict.name(), why })
}

fn tabulate(source: Option<&Record>) -> crate::Result<TableBuilder> {
    let mut table = TableBuilder::new("claims, measured again", DeviceKind::Gpu, COLUMNS);
    let device = source.map_or("", |record| record.device_name.strip_prefix("NVIDIA ").unwrap_or(&record.device_name));
    let mut pages: Vec<&str> = Vec::new();
    for claim in claims() {
        let found = find(&claim, source);
        if !pages.contains(&claim.page) {
            pages.push(claim.page);
        }
        let row = table.row().set(CLAIM, claim.text).set(CLAIMED, claim.claimed);
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

#[cfg(test)]
mod tests {
    use bench::ladder::columns;
    use bench::table::{Cell, Table};
    use common::Device;
    use phase4_fusion::ptx::PAIRS;
    use phase4_fusion::report::ptx::PAIR;

    use super::figure::Figure;
    use super::rows::fused::{BATCHES, MEMORY_ACCESS};
    use super::rows::layers::STORY;
    use super::rule::Verdict;
    use super::*;
    use crate::limits::Limits;
    use crate::tables::linear_relu::{self, versions};
    use crate::tables::peers::{PYTORCH_EAGER, PYTORCH_GRAPH};
    use crate::tables::{autoencoder as autoencoders, fusion as fusions, video as videos};

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
        let mut table =
            TableBuilder::new("ptx", DeviceKind::Gpu, &[PAIR, columns::STEP, columns::MS, columns::OF_COPY]);
        for pair in PAIRS {
            for size in pair.measured {
                for step in pair.versions {
                    let by_hand = step.number as usize == pair.versions.len();
                    let ms = if by_hand && pair.name == "markov" { 0.1 } else { 0.2 };
                    let row = table.row().set(PAIR, format!("{} {}", pair.name, size.label()));
                    row.set(columns::STEP, step.title()).set(columns::MS, ms).set(columns::OF_COPY, 90.0).complete();
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
        let shown = [fusions::WORK, columns::STEP, columns::MS, fusions::LAUNCHES, fusions::MB];
        let mut table = TableBuilder::new("fusion", DeviceKind::Gpu, &shown);
        for (work, gain) in MEMORY_ACCESS.into_iter().zip([1.2, 1.2, 1.5, 1.5]) {
            for (step, ms, mb) in [(fusions::SEPARATE, gain, "4.00"), (fusions::FUSED, 1.0, "3.00")] {
                let row = table.row().set(fusions::WORK, work).set(columns::STEP, step).set(columns::MS, ms);
                row.set(fusions::LAUNCHES, "1").set(fusions::MB, mb).complete();
            }
        }
        run.push("fusion", table.finish());
        let table = made(Some(&run));
        let found = |claim: &str| [2, 4].map(|at| text(&row(&table, claim)[at]));
        let [measured, holds] = found("… and its bandwidth");
        assert!(measured.contains("take 1 % of the copy's bandwidth; its products are 24 % of"), "{measured}");
        assert_eq!(holds, "no");
        assert_eq!(found("… by memory access"), ["norm and up, 4 of them: 1.20–1.50×, mean 1.34×", "yes"]);
        assert_eq!(text(&row(&table, "… by memory access")[5]), "they read and write 25–25 % fewer MB");
    }

    /// A name that is misspelt would be a dash, or no reason, for ever.
    #[test]
    fn every_claim_is_measured_by_the_record_and_every_reason_cites_a_figure_of_it() {
        let records = crate::records().unwrap();
        let run = records.iter().find(|run| NEEDS.iter().all(|need| run.table(need).is_some())).unwrap();
        for claim in claims() {
            let figures = Figures { run, named: &claim.figures };
            assert!(find(&claim, Some(run)).is_ok(), "{}", claim.text);
            for (name, _) in &claim.figures {
                assert!(figures.one(name).is_ok_and(f64::is_finite), "{}: {name}", claim.text);
            }
            for verdict in [Verdict::No, Verdict::InKind, Verdict::Yes] {
                let reason = claim.why.of(verdict);
                assert!(reason.is_empty() || reason.contains('{'), "{}: {reason}", claim.text);
                assert!(figures.cite(reason).is_ok(), "{}: {reason}", claim.text);
            }
        }
    }

    #[test]
    fn the_tables_that_claims_rest_on_are_those_that_are_made_before() {
        let mut used: Vec<&str> = Vec::new();
        for (_, figure) in claims().iter().flat_map(|claim| &claim.figures) {
            if let Figure::Cells { table, .. } = figure
                && !used.contains(table)
            {
                used.push(table);
            }
        }
        let sorted = |mut names: Vec<&'static str>| {
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(used), sorted(NEEDS.to_vec()));
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
