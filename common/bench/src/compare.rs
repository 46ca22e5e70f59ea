//! Two runs side by side: changes in speed, told apart from noise.
//!
//! A time or a rate that was measured in several runs ([`crate::repeats`]) has a spread on both sides. The medians have to lie
//! further apart than the larger spread times a factor, which depends on the number of runs and makes one verdict in a thousand
//! wrong if the times are normally distributed; and by [`LEAST_CHANGE`], since runs at different times differ by their clocks.
//! Without a spread there is no verdict, unless the caller gives the noise. The simulator's counts have none: any difference is a
//! change.

use crate::record::Record;
use crate::table::{Cell, Column, ColumnSpec, Table, TableBuilder, number};

const ROW: ColumnSpec = ColumnSpec::text("row", "row");
const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
const NOW: ColumnSpec = ColumnSpec::number("now", "now", 3);
const BEFORE: ColumnSpec = ColumnSpec::number("before", "before", 3);
const RATIO: ColumnSpec = ColumnSpec::number("now / before", "now / before", 3);
const VERDICT: ColumnSpec = ColumnSpec::text("verdict", "verdict");

/// Minimum change of a median that counts, whatever the spread: clocks differ by this from run to run.
pub const LEAST_CHANGE: f64 = 0.02;

/// By number of runs on the side that has fewer, from 3 on: the factor of the larger spread by which the medians of two sides
/// with the same normal distribution are apart in one case of a thousand (60,000 drawn for each).
const SPREADS: [f64; 8] = [3.29, 1.67, 1.24, 0.96, 0.86, 0.71, 0.65, 0.58];
/// The runs of the first of [`SPREADS`].
const LEAST_RUNS: usize = 3;

/// Relative difference below which counts are the same.
const LAST_DIGIT: f64 = 1e-12;

/// Meaning of a number for speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Less is faster.
    Time,
    /// More is faster.
    Rate,
    /// Counted, not measured: instructions, bytes. Less is better.
    Count,
    /// No meaning by itself: a ratio of others, an error, a setting.
    Other,
}

/// Verdict on a change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Beyond noise.
    Faster,
    /// Beyond noise.
    Slower,
    /// The medians are not further apart than runs of one program.
    WithinNoise,
    /// It is in one run only, or its spread is unknown.
    CannotTell,
    /// The count is the same.
    Same,
    /// The count is smaller.
    Fewer,
    /// The count is larger.
    More,
}

/// A number now and before.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Identity of its row.
    pub row: String,
    /// The heading of its column.
    pub what: String,
    /// Value in this run.
    pub now: Cell,
    /// Value in the earlier run.
    pub before: Cell,
    /// Meaning of the change.
    pub verdict: Verdict,
}

impl Quantity {
    /// Meaning of the numbers of a column; `None` if this program does not know such a column.
    pub fn of(column: &Column) -> Option<Quantity> {
        let key = column.key();
        if key == "ms" || key.ends_with("_ms") || key.ends_with(" ms") {
            return Some(Quantity::Time);
        }
        match key {
            "tflops" | "TFLOP/s" | "gbps" | "GB/s" | "images_per_second" | "frames_per_second" | "per_second" => {
                Some(Quantity::Rate)
            }
            "lane_millions"
            | "lane_millions_per_image"
            | "lanes_per_product"
            | "lanes_per_value"
            | "bytes_per_value"
            | "bytes_moved_per_value"
            | "mb_asked"
            | "mb"
            | "sectors_per_request"
            | "sectors_per_store"
            | "atomic_thousands"
            | "collision_thousands"
            | "shared_thousands"
            | "conflict_thousands"
            | "launches"
            | "calls"
            | "kernels"
            | "link_mib"
            | "weights_mib"
            | "planned_mib"
            | "mib"
            | "parameters"
            | "winograd"
            | "scratch"
            | "activations"
            | "sum"
            | "peak" => Some(Quantity::Count),
            "accuracy" | "predicted" | "measured" | "gain" | "speed_up" | "efficiency" | "lanes_at_work"
            | "peak_per_sum" | "deep_percent" | "tiles_percent" | "psnr" | "worst_psnr" | "ssim" | "worst_ssim"
            | "max_difference" | "mean_difference" => Some(Quantity::Other),
            _ if key.starts_with("of_") || key.starts_with("over_") => Some(Quantity::Other),
            _ => None,
        }
    }
}

impl Verdict {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::WithinNoise => "within noise",
            Verdict::CannotTell => "cannot tell",
            Verdict::Same => "same",
            Verdict::Fewer => "fewer",
            Verdict::More => "more",
        }
    }

    /// Whether a command that guards speed has to fail.
    pub fn is_worse(self) -> bool {
        matches!(self, Verdict::Slower | Verdict::More)
    }
}

/// A number, the spread of the runs that it is the median of, and their number.
#[derive(Clone, Copy)]
struct Measured {
    value: f64,
    spread: Option<(f64, usize)>,
}

/// The verdict on a time or a rate. `noise`, a fraction of 1, is the caller's estimate where there is no spread.
fn judge(quantity: Quantity, now: Measured, before: Measured, noise: Option<f64>) -> Verdict {
    let (less, more) = match quantity {
        Quantity::Time => (Verdict::Faster, Verdict::Slower),
        Quantity::Rate => (Verdict::Slower, Verdict::Faster),
        Quantity::Count => (Verdict::Fewer, Verdict::More),
        Quantity::Other => return Verdict::CannotTell,
    };
    let difference = now.value - before.value;
    let verdict = if difference < 0.0 { less } else { more };
    if quantity == Quantity::Count {
        // Reading a record may round the last digit.
        let same = difference.abs() <= LAST_DIGIT * before.value.abs();
        return if same { Verdict::Same } else { verdict };
    }
    if before.value <= 0.0 || now.value <= 0.0 {
        return Verdict::CannotTell;
    }
    let part = difference.abs() / before.value;
    let changed = match (now.spread, before.spread) {
        (Some((a, runs)), Some((b, others))) if runs.min(others) >= LEAST_RUNS => {
            let at = (runs.min(others) - LEAST_RUNS).min(SPREADS.len() - 1);
            part > LEAST_CHANGE && difference.abs() > SPREADS[at] * a.max(b)
        }
        _ => match noise {
            Some(noise) => part > noise,
            None => return Verdict::CannotTell,
        },
    };
    if changed { verdict } else { Verdict::WithinNoise }
}

impl Record {
    /// The numbers of the table `name` that concern speed, in this run and in an earlier one; for a row with times its rates are left
    /// out, since they say the same. `None` if one of the runs has no such table.
    pub fn changes(&self, earlier: &Record, name: &str, noise: Option<f64>) -> Option<Vec<Change>> {
        let (now, before) = (self.named(name)?, earlier.named(name)?);
        let mut changes = Vec::new();
        for (at, row) in now.table.rows().iter().enumerate() {
            let then_at =
                before.table.rows().iter().position(|other| before.table.identity(other) == now.table.identity(row));
            let timed =
                now.table.columns.iter().zip(row).any(|(column, cell)| {
                    Quantity::of(column) == Some(Quantity::Time) && matches!(cell, Cell::Number(_))
                });
            for (of_row, column) in now.table.columns.iter().enumerate() {
                let quantity = Quantity::of(column).unwrap_or(Quantity::Other);
                if column.decimals.is_none()
                    || column.identifies
                    || quantity == Quantity::Other
                    || (timed && quantity == Quantity::Rate)
                {
                    continue;
                }
                let then_of = before.table.columns.iter().position(|other| other.is_same(column));
                let place = then_at.zip(then_of);
                let then = place.map_or_else(
                    || Cell::absent("not in the earlier run"),
                    |(row, column)| before.table.rows()[row][column].clone(),
                );
                let verdict = match (&row[of_row], &then, place) {
                    (Cell::Number(value), Cell::Number(earlier), Some((row, column))) => judge(
                        quantity,
                        Measured { value: *value, spread: now.spread_of(at, of_row) },
                        Measured { value: *earlier, spread: before.spread_of(row, column) },
                        noise,
                    ),
                    (Cell::Absent(_), Cell::Absent(_), _) => continue,
                    _ => Verdict::CannotTell,
                };
                let (row, what) = (about(&now.table, row), column.heading.clone());
                changes.push(Change { row, what, now: now.table.rows()[at][of_row].clone(), before: then, verdict });
            }
        }
        Some(changes)
    }

    /// [`Record::changes`] as a table, with no given noise.
    pub fn compare(&self, earlier: &Record, name: &str) -> Option<Table> {
        Some(self.table_of_changes(earlier, name, &self.changes(earlier, name, None)?))
    }

    /// The table of these changes of the table `name`.
    pub fn table_of_changes(&self, earlier: &Record, name: &str, changes: &[Change]) -> Table {
        let columns = [ROW, WHAT, NOW, BEFORE, RATIO, VERDICT];
        let mut table = TableBuilder::of(format!("{name}, compared with an earlier run"), columns);
        for Change { row, what, now, before, verdict } in changes {
            let ratio = match (now, before) {
                (Cell::Number(now), Cell::Number(then)) if *then != 0.0 => Cell::Number(now / then),
                (Cell::Number(_), Cell::Number(_)) => Cell::absent("it was 0"),
                _ => Cell::absent("not in both runs"),
            };
            let row = table.row().set(ROW, row.as_str()).set(WHAT, what.as_str());
            let row = row.set(NOW, now.clone()).set(BEFORE, before.clone()).set(RATIO, ratio);
            row.set(VERDICT, verdict.name()).complete();
        }
        let all = [
            Verdict::Faster,
            Verdict::Slower,
            Verdict::WithinNoise,
            Verdict::Same,
            Verdict::Fewer,
            Verdict::More,
            Verdict::CannotTell,
        ];
        let count = |verdict: Verdict| changes.iter().filter(|change| change.verdict == verdict).count();
        let counts = all.map(|verdict| (count(verdict), verdict)).into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, verdict)| format!("{count} {}", verdict.name())).collect();
        if !counts.is_empty() {
            table.note(format!("{}.", counts.join(", ")));
        }
        if count(Verdict::CannotTell) > 0 {
            table.note(format!(
                "cannot tell: the number is in one run only, or not both runs were repeated: `--runs {LEAST_RUNS}` or more says \
                 how far they lie apart, `--noise` what is noise."
            ));
        }
        table.note(format!("now: {}; host: {}", self.provenance_of(name), self.host_of(name)));
        table.note(format!("before: {}; host: {}", earlier.provenance_of(name), earlier.host_of(name)));
        table.finish()
    }
}

/// Identity of a row, in words: `pinned → device KiB 64`.
fn about(table: &Table, row: &[Cell]) -> String {
    let parts = table.identity(row).iter().zip(&table.columns).filter_map(|(cell, column)| match cell {
        Cell::Text(text) => Some(text.clone()),
        Cell::Number(value) => Some(format!("{} {}", column.heading, number(*value, column.decimals))),
        Cell::Absent(_) => None,
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repeats::medians;
    use common::device::Device;

    const STEPS: usize = 300;

    /// Noisy numbers like those of a measurement: a normal distribution of this relative width, from a seed.
    fn noisy(seed: u64, width: f64) -> impl FnMut(f64) -> f64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut uniform = move || {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
        };
        move |value| {
            let (u, v) = (uniform().max(1e-12), uniform());
            value * (1.0 + width * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos())
        }
    }

    /// Runs of many steps with this column, each the median of `runs`, and step `at` slower or faster by a factor.
    fn record(column: Column, runs: usize, seed: u64, width: f64, (at, factor): (usize, f64)) -> Record {
        let mut noise = noisy(seed, width);
        let mut once = || {
            let mut table = Table::new("steps", [Column::text("step"), column.clone()]);
            for step in 0..STEPS {
                let value = (1.0 + step as f64) * if step == at { factor } else { 1.0 };
                table.row([format!("{step}").into(), noise(value).into()]);
            }
            table
        };
        let tables: Vec<Table> = (0..runs).map(|_| once()).collect();
        let (table, spread) = medians(&tables);
        let mut record = Record::begin(&Device::sim());
        record.push("steps", table);
        record.set_spread("steps", spread);
        record
    }

    fn verdicts(now: &Record, before: &Record, noise: Option<f64>) -> Vec<Verdict> {
        now.changes(before, "steps", noise).unwrap().iter().map(|change| change.verdict).collect()
    }

    fn times() -> Column {
        Column::number("ms", 3)
    }

    const NONE: (usize, f64) = (0, 1.0);

    #[test]
    fn noise_is_no_change_whatever_its_width() {
        for runs in [3, 5, 8, 20] {
            for (seed, width) in [(1, 0.0), (2, 0.01), (3, 0.1), (4, 0.3)] {
                let [now, before] = [seed, seed + 100].map(|seed| record(times(), runs, seed, width, NONE));
                let found = verdicts(&now, &before, None);
                let wrong = found.iter().filter(|verdict| **verdict != Verdict::WithinNoise).count();
                // One in a thousand is expected: four of 300 would be one case in 4000.
                assert!(found.len() == STEPS && wrong <= 3, "{runs} runs, {width}: {wrong} are changes");
            }
        }
    }

    #[test]
    fn a_planted_change_is_found_in_its_direction_and_alone() {
        for (factor, of_times, of_rates) in
            [(1.3, Verdict::Slower, Verdict::Faster), (0.7, Verdict::Faster, Verdict::Slower)]
        {
            for (column, expected) in [(times(), of_times), (Column::number("TFLOP/s", 2), of_rates)] {
                let before = record(column.clone(), 5, 7, 0.02, NONE);
                let found = verdicts(&record(column, 5, 8, 0.02, (42, factor)), &before, None);
                assert_eq!(found[42], expected);
                assert!(found.iter().filter(|verdict| **verdict == expected).count() <= 2, "{found:?}");
            }
        }
        // Of the same size as the noise, it is none that can be told.
        let before = record(times(), 5, 9, 0.3, NONE);
        assert_eq!(verdicts(&record(times(), 5, 10, 0.3, (42, 1.05)), &before, None)[42], Verdict::WithinNoise);
        // Steady clocks that differ by less than clocks do from day to day.
        let before = record(times(), 5, 9, 0.0, NONE);
        assert_eq!(verdicts(&record(times(), 5, 10, 0.0, (42, 1.015)), &before, None)[42], Verdict::WithinNoise);
        assert_eq!(verdicts(&record(times(), 5, 10, 0.0, (42, 1.025)), &before, None)[42], Verdict::Slower);
    }

    #[test]
    fn nothing_is_told_of_single_runs_unless_the_reader_says_what_is_noise() {
        for (runs, earlier) in [(1, 1), (5, 1), (1, 5), (2, 2)] {
            let [now, before] =
                [(runs, (42, 1.2)), (earlier, NONE)].map(|(runs, change)| record(times(), runs, 3, 0.0, change));
            assert!(verdicts(&now, &before, None).iter().all(|verdict| *verdict == Verdict::CannotTell));
            let told = verdicts(&now, &before, Some(0.05));
            assert_eq!((told[42], told[41]), (Verdict::Slower, Verdict::WithinNoise));
            assert_eq!(verdicts(&now, &before, Some(0.25))[42], Verdict::WithinNoise);
        }
    }

    #[test]
    fn counts_have_no_noise() {
        let counts = || Column::number("lane_millions", 2);
        let before = record(counts(), 1, 1, 0.0, NONE);
        let read = record(counts(), 1, 1, 0.0, (42, 1.0 + f64::EPSILON));
        assert!(verdicts(&read, &before, None).iter().all(|verdict| *verdict == Verdict::Same), "it was read again");
        for (factor, expected) in [(1.001, Verdict::More), (0.999, Verdict::Fewer)] {
            let found = verdicts(&record(counts(), 1, 1, 0.0, (42, factor)), &before, None);
            assert_eq!((found[42], found[41], expected.is_worse()), (expected, Verdict::Same, factor > 1.0));
        }
    }

    fn sample() -> Record {
        let columns =
            [Column::text("layer"), Column::number("ms", 2), Column::number("TFLOP/s", 1), Column::text("check")];
        let mut table = Table::new("layers", columns);
        table.row(["Conv2D".into(), 2.0.into(), 4.0.into(), "ok".into()]);
        table.row(["ReLU".into(), Cell::absent("no clock"), Cell::absent("no clock"), "ok".into()]);
        table.row(["total".into(), 4.0.into(), 2.0.into(), "ok".into()]);
        let mut record = Record::begin(&Device::sim());
        record.push("layers", table);
        record
    }

    #[test]
    fn rows_are_found_by_name_though_their_check_has_changed() {
        let (mut now, earlier) = (sample(), sample());
        let rows = &mut now.tables[0].table.rows;
        rows[0][1] = 3.0.into();
        rows[0][3] = "WRONG".into();
        rows.swap(0, 2);
        rows.push(vec!["Linear".into(), 1.0.into(), 8.0.into(), "ok".into()]);
        let table = now.compare(&earlier, "layers").unwrap();
        // ReLU has no number in either run, and a rate says what the time does.
        let rows: Vec<_> = table.rows.iter().map(|row| (row[0].clone(), row[2..].to_vec())).collect();
        assert_eq!(rows.len(), 3);
        let cannot_tell = || Cell::from("cannot tell");
        assert_eq!(rows[0], ("total".into(), vec![4.0.into(), 4.0.into(), 1.0.into(), cannot_tell()]));
        assert_eq!(rows[1], ("Conv2D".into(), vec![3.0.into(), 2.0.into(), 1.5.into(), cannot_tell()]));
        assert_eq!(rows[2].0, "Linear".into());
        assert!(matches!(rows[2].1[1..3], [Cell::Absent(_), Cell::Absent(_)]));
        assert_eq!(table.notes[0], "3 cannot tell.");
        assert!(table.notes[1].contains("`--runs 3`"), "{:?}", table.notes);
        assert!(now.compare(&earlier, "gemm").is_none());
    }

    #[test]
    fn a_row_is_named_by_all_that_identifies_it() {
        let mut table = Table::new("copies", [Column::text("path"), Column::identity("KiB"), Column::number("ms", 1)]);
        table.row(["up".into(), 64usize.into(), 1.0.into()]);
        table.row(["up".into(), 1024usize.into(), 2.0.into()]);
        let mut record = Record::begin(&Device::sim());
        record.push("copies", table);
        let compared = record.compare(&record, "copies").unwrap();
        assert_eq!(compared.rows[1][..2], ["up KiB 1024".into(), "ms".into()]);
    }
}
