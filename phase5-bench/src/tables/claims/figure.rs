//! Evidence for claims: figures from columns of recorded tables, and sentences that cite them.

use bench::record::Record;
use bench::table::{Cell, ColumnSpec, Row};

use crate::limits::Limits;

/// Why there is no finding.
#[derive(Debug)]
pub(super) enum Missing {
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

pub(super) type Found<T> = std::result::Result<T, Missing>;

/// Cells that identify a row.
pub(super) type Key = Vec<(ColumnSpec, Cell)>;

/// A figure, or a series of them. Others are mentioned by their names among the figures of the same claim.
pub(super) enum Figure {
    /// One figure per place: the column of the row there, or of several rows that one which took the least time.
    Cells { table: &'static str, column: ColumnSpec, time: ColumnSpec, places: Vec<Vec<Key>> },
    /// A limit of the device, as the run measured it.
    Limit(fn(&Limits) -> f64),
    /// A number that nobody measured.
    Constant(f64),
    /// `factor · a / b`, place by place.
    Ratio(f64, &'static str, &'static str),
    /// By how many percent the second is less than the first, place by place.
    Less(&'static str, &'static str),
    /// By how many percent the first is more than the second.
    More(&'static str, &'static str),
    /// The least of a series.
    Least(&'static str),
    /// The most of a series.
    Most(&'static str),
    /// The median of a series.
    Median(&'static str),
    /// The geometric mean of a series.
    Mean(&'static str),
    /// The number of those in a series that are above a bound.
    Above(f64, &'static str),
}

impl Figure {
    /// The column of the row with these cells.
    pub(super) fn cell(table: &'static str, column: ColumnSpec, key: impl Into<Key>) -> Figure {
        Figure::series(table, column, [key.into()])
    }

    /// The column of each of these rows.
    pub(super) fn series(table: &'static str, column: ColumnSpec, keys: impl IntoIterator<Item = Key>) -> Figure {
        Figure::Cells { table, column, time: column, places: keys.into_iter().map(|key| vec![key]).collect() }
    }
}

/// The figures of a claim, in a run.
#[derive(Clone, Copy)]
pub(super) struct Figures<'a> {
    pub(super) run: &'a Record,
    pub(super) named: &'a [(&'static str, Figure)],
}

impl Figures<'_> {
    /// The figure of this name; of a series the first.
    pub(super) fn one(self, name: &str) -> Found<f64> {
        self.series(name)?.first().copied().ok_or(Missing::Measurement)
    }

    fn series(self, name: &str) -> Found<Vec<f64>> {
        let (_, figure) = self.named.iter().find(|(known, _)| *known == name).ok_or(Missing::Measurement)?;
        let by_place = |a, b, of: fn(f64, f64) -> f64| -> Found<Vec<f64>> {
            Ok(self.series(a)?.into_iter().zip(self.series(b)?).map(|(a, b)| of(a, b)).collect())
        };
        Ok(match figure {
            Figure::Cells { table, column, time, places } => {
                places.iter().map(|keys| self.fastest(table, *column, *time, keys)).collect::<Found<_>>()?
            }
            Figure::Limit(limit) => vec![limit(&Limits::of_run(self.run)?.ok_or(Missing::Measurement)?)],
            Figure::Constant(value) => vec![*value],
            Figure::Ratio(factor, a, b) => by_place(a, b, |a, b| a / b)?.iter().map(|ratio| factor * ratio).collect(),
            Figure::Less(before, now) => by_place(before, now, |before, now| 100.0 * (1.0 - now / before))?,
            Figure::More(a, b) => by_place(a, b, |a, b| 100.0 * (a / b - 1.0))?,
            Figure::Least(name) => vec![self.series(name)?.into_iter().fold(f64::INFINITY, f64::min)],
            Figure::Most(name) => vec![self.series(name)?.into_iter().fold(f64::NEG_INFINITY, f64::max)],
            Figure::Median(name) => {
                let mut values = self.series(name)?;
                values.sort_by(f64::total_cmp);
                vec![*values.get(values.len() / 2).ok_or(Missing::Measurement)?]
            }
            Figure::Mean(name) => {
                let values = self.series(name)?;
                vec![(values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()]
            }
            Figure::Above(bound, name) => vec![self.series(name)?.iter().filter(|value| *value > bound).count() as f64],
        })
    }

    /// A column of the fastest row among those with these keys that were measured.
    fn fastest(self, table: &str, column: ColumnSpec, time: ColumnSpec, keys: &[Key]) -> Found<f64> {
        let table = self.run.table(table).ok_or(Missing::Measurement)?;
        // Whether or not there is a row, the column has to be there.
        table.column(column)?;
        let mut fastest: Option<(f64, Row<'_>)> = None;
        for key in keys {
            let Some(row) = table.find(key)? else { continue };
            let taken = if keys.len() > 1 { row.number(time)? } else { Some(0.0) };
            if let Some(taken) = taken.filter(|taken| fastest.is_none_or(|(least, _)| *taken < least)) {
                fastest = Some((taken, row));
            }
        }
        let (_, row) = fastest.ok_or(Missing::Measurement)?;
        match row.cell(column)? {
            Cell::Number(value) => Ok(*value),
            // A count that is never more than a word: `3`.
            Cell::Text(text) => text.parse().map_err(|_| Missing::Measurement),
            Cell::Absent(_) => Err(Missing::Measurement),
        }
    }

    /// A sentence with its figures: `{name:.2}`, with a sign `{name:+.0}`, as a power of ten `{name:.1e}`.
    pub(super) fn cite(self, sentence: &str) -> Found<String> {
        let mut cited = String::new();
        // Text and figures take turns.
        for (at, part) in sentence.split(['{', '}']).enumerate() {
            if at % 2 == 0 {
                cited.push_str(part);
                continue;
            }
            let (name, format) = part.split_once(':').unwrap_or((part, ".0"));
            let value = self.one(name)?;
            let decimals = format.trim_matches(|digit: char| !digit.is_ascii_digit()).parse().unwrap_or(0);
            cited.push_str(&if format.starts_with('+') {
                format!("{value:+.decimals$}")
            } else if format.ends_with('e') {
                format!("{value:.decimals$e}")
            } else {
                format!("{value:.decimals$}")
            });
        }
        Ok(cited)
    }
}
