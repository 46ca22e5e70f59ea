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

/// A figure, or a series of them. Others of the same claim are mentioned by terms of their names.
pub(super) enum Figure {
    /// One figure per place: the column of the row there, or of several rows that one which took the least time.
    Cells { table: &'static str, column: ColumnSpec, time: ColumnSpec, places: Vec<Vec<Key>> },
    /// A limit of the device, as the run measured it.
    Limit(fn(&Limits) -> f64),
    /// A number that nobody measured.
    Constant(f64),
    /// `factor · a / b`, place by place.
    Ratio(f64, &'static str, &'static str),
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

/// Operator of a term on two figures.
type Operator = fn(f64, f64) -> f64;

/// The figures of a claim, in a run.
#[derive(Clone, Copy)]
pub(super) struct Figures<'a> {
    pub(super) run: &'a Record,
    pub(super) named: &'a [(&'static str, Figure)],
}

impl Figures<'_> {
    /// The figure that a term names; of a series the first.
    pub(super) fn one(self, term: &str) -> Found<f64> {
        self.series(term)?.first().copied().ok_or(Missing::Measurement)
    }

    /// The figures that a term names: a name; two names, place by place, as `a / b` or in percent as `a % of b`, `a % above b` or
    /// `a % below b`; or one figure of such a series as `least …`, `most …`, `median …` or the geometric `mean …`.
    fn series(self, term: &str) -> Found<Vec<f64>> {
        if let Some((_, figure)) = self.named.iter().find(|(known, _)| *known == term) {
            return self.measured(figure);
        }
        if let Some((word, rest)) = term.split_once(' ')
            && ["least", "most", "median", "mean"].contains(&word)
        {
            let mut values = self.series(rest)?;
            values.sort_by(f64::total_cmp);
            return Ok(vec![match word {
                "least" => *values.first().ok_or(Missing::Measurement)?,
                "most" => *values.last().ok_or(Missing::Measurement)?,
                "median" => *values.get(values.len() / 2).ok_or(Missing::Measurement)?,
                _ => (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp(),
            }]);
        }
        const OPERATORS: [(&str, Operator); 4] = [
            (" / ", |a, b| a / b),
            (" % of ", |a, b| 100.0 * (a / b)),
            (" % above ", |a, b| 100.0 * (a / b - 1.0)),
            (" % below ", |a, b| 100.0 * (1.0 - a / b)),
        ];
        let split = |(sign, of)| term.split_once(sign).map(|(a, b)| (a, b, of));
        let (a, b, of) = OPERATORS.into_iter().find_map(split).ok_or(Missing::Measurement)?;
        self.by_place(a, b, of)
    }

    fn by_place(self, a: &str, b: &str, of: impl Fn(f64, f64) -> f64) -> Found<Vec<f64>> {
        Ok(self.series(a)?.into_iter().zip(self.series(b)?).map(|(a, b)| of(a, b)).collect())
    }

    fn measured(self, figure: &Figure) -> Found<Vec<f64>> {
        Ok(match figure {
            Figure::Cells { table, column, time, places } => {
                places.iter().map(|keys| self.fastest(table, *column, *time, keys)).collect::<Found<_>>()?
            }
            Figure::Limit(limit) => vec![limit(&Limits::of_run(self.run)?.ok_or(Missing::Measurement)?)],
            Figure::Constant(value) => vec![*value],
            Figure::Ratio(factor, a, b) => self.by_place(a, b, |a, b| factor * (a / b))?,
            Figure::Above(bound, term) => vec![self.series(term)?.iter().filter(|value| *value > bound).count() as f64],
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
