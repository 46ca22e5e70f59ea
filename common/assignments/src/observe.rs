//! Observations on wrong values, in the terms of the exercise: where they lie, and how they relate to the expected ones. Each is a
//! fact about all of them, not a guess at the cause.

use std::cmp::Ordering;

use common::check::Tolerance;
use common::tensor::ElementType;

use crate::tasks::{Axes, Output};

/// Minimum number of wrong values that a relation must hold for: any two values fit some relation.
const LEAST: usize = 3;

/// Minimum extent of an axis along which a period is looked for.
const LEAST_PERIODIC: usize = 8;

/// Remark on an index that is the last of several.
const LAST: &str = " (the last)";

/// A comparison's wrong values.
struct Wrong<'a> {
    axes: &'a Axes,
    expected: &'a [f64],
    actual: &'a [f64],
    tolerance: Tolerance,
    /// Places of the wrong values in memory, in order.
    places: Vec<usize>,
}

/// Describes the wrong values of an output, in one line that says how many there are and shows the first, and one for each
/// observation; `None` if all are right. `name` is the kernel's own for the output.
pub(crate) fn describe(name: &str, output: &Output, actual: &[f64]) -> Option<String> {
    let Output { axes, expected, tolerance, .. } = output;
    let places: Vec<usize> = (0..expected.len()).filter(|&at| !tolerance.allows(actual[at], expected[at])).collect();
    let first = *places.first()?;
    let is_unwritten = |at: usize| output.before.is_none() && is_poison(actual[at], output.element);
    let got = if is_unwritten(first) {
        "nothing was written there".to_owned()
    } else {
        format!("got {}", shown(actual[first]))
    };
    let wanted = shown(expected[first]);
    let place = axes.place(first);
    let mut lines = vec![match (places.len(), expected.len()) {
        (1, 1) => format!("{name} is wrong: expected {wanted}, {got}"),
        (1, all) => {
            let last = if first + 1 == all { LAST } else { "" };
            format!("1 of {all} values of {name} is wrong, at {place}{last}: expected {wanted}, {got}")
        }
        (some, all) => {
            format!("{some} of {all} values of {name} are wrong, the first at {place}: expected {wanted}, {got}")
        }
    }];
    let unwritten = places.iter().filter(|&&at| is_unwritten(at)).count();
    let wrong = Wrong { axes, expected, actual, tolerance: *tolerance, places };
    if wrong.places.len() > 1 {
        lines.extend(wrong.region());
        lines.extend(match unwritten {
            0 => wrong.relation(),
            some if some == wrong.places.len() => Some("nothing was written to any of them".to_owned()),
            // An integer may have the value that stands for nothing.
            _ if matches!(output.element, ElementType::I8 | ElementType::I32) => None,
            some => Some(format!("nothing was written to {some} of them")),
        });
    }
    Some(lines.join("\n"))
}

/// Whether a value is what an output holds before the launch.
fn is_poison(value: f64, element: ElementType) -> bool {
    match element {
        ElementType::I8 | ElementType::I32 => value == -1.0,
        // A NaN that was computed is positive.
        _ => value.is_nan() && value.is_sign_negative(),
    }
}

/// A value in the fewest digits that tell the values of its type apart.
fn shown(value: f64) -> String {
    // −0 is shown as 0.
    let value = value as f32 + 0.0;
    let is_plain = value == 0.0 || !value.is_finite() || (1e-5..1e10).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

impl Wrong<'_> {
    /// The region that the wrong values fill or lie in: `wrong exactly where column >= 32`. `None` if it is the whole output, or
    /// has no simple description.
    fn region(&self) -> Option<String> {
        if self.places.len() == self.expected.len() {
            return None;
        }
        let along = |axis: usize, extent: usize| {
            let mut is_hit = vec![false; extent];
            self.places.iter().for_each(|&at| is_hit[self.axes.indices(at)[axis]] = true);
            is_hit
        };
        let hit: Vec<(&str, Vec<bool>)> =
            self.axes.iter().enumerate().map(|(axis, (name, extent))| (name, along(axis, extent))).collect();
        // Whether it is a product of a set along each axis. If not, an index that is not hit may be one by accident.
        let filled: usize = hit.iter().map(|(_, is_hit)| is_hit.iter().filter(|&&hit| hit).count()).product();
        let is_filled = filled == self.places.len();
        let conditions = hit.iter().filter_map(|(name, is_hit)| condition(name, is_hit, is_filled));
        let conditions = Some(conditions.collect::<Vec<_>>().join(" and ")).filter(|conditions| !conditions.is_empty());
        let exactly = conditions
            .clone()
            .filter(|_| is_filled)
            .or_else(|| self.triangle())
            .or_else(|| condition("index in memory", &self.mask(), false).filter(|_| hit.len() > 1));
        let only = || Some(format!("wrong only where {}", conditions?));
        exactly.map(|exactly| format!("wrong exactly where {exactly}")).or_else(only)
    }

    /// The part of each matrix that is wrong, if the diagonal bounds it.
    fn triangle(&self) -> Option<String> {
        let [.., (row, rows), (column, columns)] = self.axes.iter().collect::<Vec<_>>()[..] else { return None };
        // How the column is related to the row.
        let relation = |at: usize| (at % columns).cmp(&(at / columns % rows));
        let is_wrong = self.mask();
        let is_all_of = |part: &[Ordering]| (0..is_wrong.len()).all(|at| part.contains(&relation(at)) == is_wrong[at]);
        let parts = [
            ("==", &[Ordering::Equal][..]),
            ("!=", &[Ordering::Less, Ordering::Greater]),
            ("<", &[Ordering::Less]),
            ("<=", &[Ordering::Less, Ordering::Equal]),
            (">", &[Ordering::Greater]),
            (">=", &[Ordering::Greater, Ordering::Equal]),
        ];
        let (sign, _) = parts.into_iter().find(|(_, part)| is_all_of(part))?;
        Some(format!("{column} {sign} {row}"))
    }

    /// Whether the value at each place is wrong.
    fn mask(&self) -> Vec<bool> {
        let mut is_wrong = vec![false; self.expected.len()];
        self.places.iter().for_each(|&at| is_wrong[at] = true);
        is_wrong
    }

    /// A relation between each wrong value and the expected ones.
    fn relation(&self) -> Option<String> {
        let first = self.actual[self.places[0]];
        if self.pairs().all(|(actual, _)| actual == first || (actual.is_nan() && first.is_nan())) {
            return Some(format!("each of them is {}", shown(first)));
        }
        if self.places.len() < LEAST {
            return None;
        }
        let error = |(actual, expected): (f64, f64)| (actual - expected).abs() / expected.abs();
        if self.pairs().all(|pair| error(pair) < 1e-5) {
            let most = self.pairs().map(error).fold(0.0, f64::max);
            return Some(format!(
                "each of them is nearly right: the largest error is {most:.0e} of the expected value"
            ));
        }
        self.factor().or_else(|| self.offset()).or_else(|| self.elsewhere())
    }

    /// Each wrong value with the expected one.
    fn pairs(&self) -> impl Iterator<Item = (f64, f64)> {
        self.places.iter().map(|&at| (self.actual[at], self.expected[at]))
    }

    /// The one factor between the wrong values and the expected ones.
    fn factor(&self) -> Option<String> {
        let (actual, expected) = self.pairs().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let factor = actual / expected;
        let allowed = |expected: f64| (self.tolerance.at(expected) + 1e-6 * expected.abs()) * factor.abs().max(1.0);
        let holds = self.pairs().all(|(actual, expected)| (actual - factor * expected).abs() <= allowed(expected));
        // With a tolerance near the values themselves, any factor would do.
        let is_known = self.tolerance.at(expected) < 1e-3 * expected.abs() && factor.abs() > 1e-3;
        if !(holds && is_known) {
            return None;
        }
        let near = |x: f64| Some(x.round()).filter(|whole| *whole != 1.0 && (x - whole).abs() < 1e-4 * x.abs());
        Some(match (near(factor), near(1.0 / factor)) {
            (Some(-1.0), _) => "each of them has the opposite sign".to_owned(),
            (Some(times), _) => format!("each of them is {times} times the expected value"),
            (_, Some(part)) => format!("each of them is 1/{part} of the expected value"),
            _ => format!("each of them is {} times the expected value", shown((factor * 1e6).round() / 1e6)),
        })
    }

    /// The one difference between the wrong values and the expected ones.
    fn offset(&self) -> Option<String> {
        let (actual, expected) = self.pairs().next()?;
        let offset = actual - expected;
        let allowed = |expected: f64| 2.0 * self.tolerance.at(expected) + 1e-6 * (expected.abs() + offset.abs());
        let holds = self.pairs().all(|(actual, expected)| (actual - expected - offset).abs() <= allowed(expected));
        let direction = if offset > 0.0 { "large" } else { "small" };
        (holds && offset.abs() > 10.0 * allowed(expected))
            .then(|| format!("each of them is too {direction} by {}", shown((offset.abs() * 1e4).round() / 1e4)))
    }

    /// Other places at which the wrong values are expected.
    fn elsewhere(&self) -> Option<String> {
        let is_expected = |actual: f64, at: usize| self.tolerance.allows(actual, self.expected[at]);
        // `source` is the place that the value of a place may come from, if there is such.
        let from = |place: &str, source: &dyn Fn(usize) -> Option<usize>| {
            let fits = |&at: &usize| source(at).is_none_or(|source| is_expected(self.actual[at], source));
            if !self.places.iter().all(fits) {
                return None;
            }
            let known = self.places.iter().filter(|&&at| source(at).is_some()).count();
            let some = if known < self.places.len() { ", where there is one" } else { "" };
            // Fewer may be so by accident.
            let is_sure = known >= 2 * LEAST && 2 * known > self.places.len();
            is_sure.then(|| format!("each of them is the value expected {place}{some}"))
        };
        // At an edge, a clamped index hides what the others have in common.
        let sample = self.places[self.places.len() / 2];
        let mut stride = self.expected.len();
        for (axis, (name, extent)) in self.axes.iter().enumerate() {
            stride /= extent;
            let own = |at: usize| self.axes.indices(at)[axis];
            let moved = |at: usize, to: usize| at + to * stride - own(at) * stride;
            let candidates = (0..extent).filter(|&to| is_expected(self.actual[sample], moved(sample, to)));
            for to in candidates {
                let shift = to as isize - own(sample) as isize;
                let shifted = |at| own(at).checked_add_signed(shift).filter(|&to| to < extent).map(|to| moved(at, to));
                let (sign, steps) = (if shift > 0 { '+' } else { '-' }, shift.abs());
                let found = from(&format!("at {name} {to}"), &|at| Some(moved(at, to)))
                    .or_else(|| from(&format!("at {name} {sign} {steps}"), &shifted))
                    .or_else(|| {
                        from(&format!("at {} - {name}", extent - 1), &|at| Some(moved(at, extent - 1 - own(at))))
                    });
                if found.is_some() {
                    return found;
                }
            }
        }
        if let [.., rows, columns] = self.axes.shape()[..] {
            let matrix = rows * columns;
            let transposed = |at: usize| at / matrix * matrix + at % matrix % rows * columns + at % matrix / rows;
            if let Some(found) = from("there in the transposed matrix", &|at| Some(transposed(at))) {
                return Some(found);
            }
        }
        let sorted = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f32> = values.map(|value| value as f32).collect();
            values.sort_by(f32::total_cmp);
            values
        };
        let actual = sorted(&mut self.pairs().map(|(actual, _)| actual));
        if actual == sorted(&mut self.pairs().map(|(_, expected)| expected)) {
            return Some("they are the expected values, in other places".to_owned());
        }
        None
    }
}

/// The condition that tells the indices that are in a set from all others: `column % 32 == 31`. `None` if all are in it, or no simple
/// condition does.
fn condition(name: &str, is_in: &[bool], may_lack_one: bool) -> Option<String> {
    let last = is_in.len().checked_sub(1)?;
    let range = |name: &str, is_in: &[bool]| {
        let count = is_in.iter().filter(|&&is_in| is_in).count();
        let (begin, end) = (is_in.iter().position(|&is_in| is_in)?, is_in.iter().rposition(|&is_in| is_in)?);
        let hole = is_in.iter().position(|&is_in| !is_in)?;
        Some(match (begin, end) {
            _ if count + 1 == is_in.len() && begin < hole && hole < end && may_lack_one => format!("{name} != {hole}"),
            _ if count < end + 1 - begin => return None,
            _ if begin == end => format!("{name} == {begin}"),
            (0, _) => format!("{name} <= {end}"),
            _ if end + 1 == is_in.len() => format!("{name} >= {begin}"),
            _ => format!("{begin} <= {name} <= {end}"),
        })
    };
    if let Some(range) = range(name, is_in) {
        return Some(if is_in[..last].contains(&true) { range } else { range + LAST });
    }
    let is_periodic = |&period: &usize| (period..=last).all(|at| is_in[at] == is_in[at - period]);
    // Of a few indices, any set has some period.
    let period = (2..=is_in.len() / 2).filter(|_| is_in.len() >= LEAST_PERIODIC).find(is_periodic)?;
    range(&format!("{name} % {period}"), &is_in[..period])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shape of the output `y` in these tests.
    const ROWS: usize = 6;
    const COLUMNS: usize = 70;

    /// Distinct values without a relation between neighbours.
    fn right(row: usize, column: usize) -> f64 {
        let at = row * COLUMNS + column;
        f64::from(((at * at + 7 * at + 3) % 1009) as f32 / 500.0 - 1.0)
    }

    /// The verdict's lines on an output of these rows and columns.
    fn lines(columns: usize, actual: impl Fn(usize, usize) -> f64) -> Vec<String> {
        lines_of(
            [("row", ROWS), ("column", columns)].into(),
            |at| right(at / columns, at % columns),
            |at| actual(at / columns, at % columns),
        )
    }

    fn lines_of(axes: Axes, expected: impl Fn(usize) -> f64, actual: impl Fn(usize) -> f64) -> Vec<String> {
        let count = axes.count();
        let [expected, actual] = [&expected as &dyn Fn(usize) -> f64, &actual].map(|of| (0..count).map(of).collect());
        let tolerance = Tolerance::absolute(1e-9);
        let output = Output { before: None, element: ElementType::F32, axes, expected, tolerance };
        let said: Option<String> = describe("y", &output, Vec::as_slice(&actual));
        said.map(|said| said.lines().map(str::to_owned).collect()).unwrap_or_default()
    }

    #[test]
    fn the_first_line_counts_and_shows_the_first_in_the_exercises_terms() {
        assert_eq!(lines(COLUMNS, right), [""; 0]);
        let said = lines(COLUMNS, |row, column| if (row, column) == (2, 69) { 0.5 } else { right(row, column) });
        assert_eq!(said, ["1 of 420 values of y is wrong, at row 2, column 69: expected 0.502, got 0.5"]);
        let poison = f64::from(-f32::NAN);
        let said = lines(COLUMNS, |row, column| if row > 3 { poison } else { right(row, column) });
        assert_eq!(
            said[0],
            "140 of 420 values of y are wrong, the first at row 4, column 0: expected 0.30400002, nothing was written there"
        );
        assert_eq!(said[1..], ["wrong exactly where row >= 4", "nothing was written to any of them"]);
        assert_eq!(lines_of(Axes::default(), |_| 7.0, |_| 3e-7), ["y is wrong: expected 7, got 3e-7"]);
    }

    /// Each region of wrong values, with the sentence.
    #[test]
    fn a_region_of_simple_shape_has_a_condition() {
        type Region = fn(usize, usize) -> bool;
        let table: [(Region, &str); 20] = [
            (|_, _| true, ""),
            (|_, column| column == 0, "exactly where column == 0"),
            (|_, column| column == 69, "exactly where column == 69 (the last)"),
            (|row, _| row >= 4, "exactly where row >= 4"),
            (|row, _| row < 4, "exactly where row <= 3"),
            (|_, column| (32..64).contains(&column), "exactly where 32 <= column <= 63"),
            (|_, column| column != 0, "exactly where column >= 1"),
            (|_, column| column != 7, "exactly where column != 7"),
            (|_, column| column % 2 == 1, "exactly where column % 2 == 1"),
            (|_, column| column % 32 == 31, "exactly where column % 32 == 31"),
            (|_, column| column % 32 >= 16, "exactly where column % 32 >= 16"),
            (|_, column| column % 4 != 0, "exactly where column % 4 >= 1"),
            (|row, column| row == 1 && column >= 64, "exactly where row == 1 and column >= 64"),
            (|row, column| column == row, "exactly where column == row"),
            (|row, column| column > row, "exactly where column > row"),
            (|row, column| column < row, "exactly where column < row"),
            (|row, column| row * COLUMNS + column >= 257, "exactly where index in memory >= 257"),
            (|row, column| (row * COLUMNS + column) % 128 == 5, "exactly where index in memory % 128 == 5"),
            // Not all there, and in no simple set of rows.
            (|row, column| column >= 32 && (row * row + column) % 7 < 5, "only where column >= 32"),
            (|row, column| (row * row * row + column * column * 3 + row * column) % 7 == 5, ""),
        ];
        for (is_wrong, sentence) in table {
            let said = lines(COLUMNS, |row, column| {
                right(row, column) + if is_wrong(row, column) { 0.25 + right(column, row) / 9.0 } else { 0.0 }
            });
            let region = said.iter().find_map(|line| line.strip_prefix("wrong "));
            assert_eq!(region.unwrap_or_default(), sentence, "{said:?}");
        }
    }

    /// Each relation to the expected values, with the sentence.
    #[test]
    fn a_relation_that_holds_for_all_wrong_values_has_a_sentence() {
        type Actual = fn(usize, usize) -> f64;
        let table: [(Actual, &str); 18] = [
            (|_, _| 0.0, "each of them is 0"),
            (|_, _| f64::NAN, "each of them is NaN"),
            (|row, column| 4.0 * right(row, column), "each of them is 4 times the expected value"),
            (|row, column| right(row, column) / 32.0, "each of them is 1/32 of the expected value"),
            (|row, column| right(row, column) * 0.7, "each of them is 0.7 times the expected value"),
            (|row, column| right(row, column) * 1.00003, "each of them is 1.00003 times the expected value"),
            (|row, column| -right(row, column), "each of them has the opposite sign"),
            (|row, column| right(row, column) + 7.0, "each of them is too large by 7"),
            (|row, column| right(row, column) - 0.25, "each of them is too small by 0.25"),
            (
                |row, column| right(row, column) * (1.0 + 1e-7 * right(column, row)),
                "each of them is nearly right: the largest error is 1e-7 of the expected value",
            ),
            (
                |row, column| right(row, (column + 1) % 70),
                "each of them is the value expected at column + 1, where there is one",
            ),
            (
                |row, column| right(row.saturating_sub(2), column),
                "each of them is the value expected at row - 2, where there is one",
            ),
            (|row, _| right(row, 31), "each of them is the value expected at column 31"),
            (|row, column| right(row, 69 - column), "each of them is the value expected at 69 - column"),
            (
                |row, column| right((row * 70 + column) % 6, (row * 70 + column) / 6),
                "each of them is the value expected there in the transposed matrix",
            ),
            (|row, column| right(row, column * 3 % 70), "they are the expected values, in other places"),
            (|row, column| if column == 5 { 0.125 } else { right(row, (column + 1) % 70) }, ""),
            (|row, column| if column == 5 { 0.125 } else { 4.0 * right(row, column) }, ""),
        ];
        for (actual, sentence) in table {
            let said = lines(COLUMNS, actual);
            let relation = said[1..].iter().find(|line| !line.starts_with("wrong "));
            assert_eq!(relation.map_or("", String::as_str), sentence, "{said:?}");
        }
        // Two values have some relation in any case.
        let said = lines(1, |row, _| right(row, 0) * if row < 2 { 4.0 } else { 1.0 });
        assert_eq!(said[1..], ["wrong exactly where row <= 1"]);
        let poison = f64::from(-f32::NAN);
        let said = lines(COLUMNS, |row, _| if row == 0 { poison } else { 0.0 });
        assert_eq!(said[1..], ["nothing was written to 70 of them"]);
    }
}
