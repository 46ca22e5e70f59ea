//! Repeated runs: the median of each number, and the spread of the runs.

use serde::{Deserialize, Serialize};

use crate::table::{Cell, Column, Table};

/// Spread of the numbers of a table in repeated runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of measurements of each number.
    pub runs: usize,
    /// Minimum and maximum for each row and column of the table; `None` if there are no numbers.
    pub rows: Vec<Vec<Option<[f64; 2]>>>,
}

impl Spread {
    /// Whether it has an entry for each cell of the table.
    pub(crate) fn belongs_to(&self, table: &Table) -> bool {
        self.rows.len() == table.rows().len() && self.rows.iter().all(|row| row.len() == table.columns.len())
    }
}

/// The table of the medians of several runs, and their spread; for one run, the table itself. Rows, texts and absent cells are
/// those of the first run, and a number that is not in every run has no spread.
///
/// # Panics
/// If there is no run: that is a bug in the program.
pub fn medians(runs: &[Table]) -> (Table, Option<Spread>) {
    let [first, others @ ..] = runs else { panic!("there are no runs to take medians of") };
    if others.is_empty() {
        return (first.clone(), None);
    }
    let mut spreads = Vec::with_capacity(first.rows().len());
    let mut of_all = first.clone();
    for row in &mut of_all.rows {
        let again: Vec<Option<&Vec<Cell>>> = others.iter().map(|run| run.same_row(first.identity(row))).collect();
        let mut spread = vec![None; row.len()];
        for (at, column) in first.columns.iter().enumerate() {
            if column.identifies {
                continue;
            }
            let of_others = others.iter().zip(&again).map(|(run, row)| value(run, row.as_ref()?, column));
            let values: Option<Vec<f64>> = std::iter::once(value(first, row, column)).chain(of_others).collect();
            if let Some(mut values) = values {
                values.sort_by(f64::total_cmp);
                spread[at] = Some([values[0], values[values.len() - 1]]);
                row[at] = Cell::Number(median(&values));
            }
        }
        spreads.push(spread);
    }
    (of_all, Some(Spread { runs: runs.len(), rows: spreads }))
}

/// The finite number in a column of a row.
fn value(table: &Table, row: &[Cell], column: &Column) -> Option<f64> {
    let at = table.columns.iter().position(|other| other.is_same(column))?;
    if let Cell::Number(value) = row[at] { value.is_finite().then_some(value) } else { None }
}

/// The median of numbers in ascending order; the mean of the middle two.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ms: [Cell; 2]) -> Table {
        let mut table = Table::new("t", [Column::text("step"), Column::identity("n"), Column::number("ms", 2)]);
        for (step, ms) in ["a", "b"].into_iter().zip(ms) {
            table.row([step.into(), 64usize.into(), ms]);
        }
        table
    }

    #[test]
    fn numbers_become_medians_with_the_least_and_the_largest() {
        let (table, spread) = medians(&[
            run([3.0.into(), 5.0.into()]),
            run([1.0.into(), Cell::absent("out of memory")]),
            run([2.0.into(), 7.0.into()]),
        ]);
        assert_eq!(table, run([2.0.into(), 5.0.into()]));
        let spread = spread.unwrap();
        assert_eq!((spread.runs, spread.rows[0][2], spread.rows[1][2]), (3, Some([1.0, 3.0]), None));
        assert_eq!(spread.rows[0][..2], [None, None], "a size is not measured");
        assert!(spread.belongs_to(&table) && !spread.belongs_to(&Table::new("t", [Column::text("step")])));
    }

    #[test]
    fn one_run_stays_as_it_is_and_two_have_their_mean() {
        assert_eq!(medians(&[run([3.0.into(), 5.0.into()])]), (run([3.0.into(), 5.0.into()]), None));
        let (table, _) = medians(&[run([3.0.into(), 5.0.into()]), run([4.0.into(), 5.0.into()])]);
        assert_eq!(table, run([3.5.into(), 5.0.into()]));
    }
}
