//! Comparison of results: NaN never passes, and tolerances are derived rather than guessed.

use std::fmt;

/// Unit round-off of f32: half the distance from 1 to the next value.
pub const F32_ROUND_OFF: f64 = 1.0 / (1u64 << 24) as f64;

/// Allowed distance between a value and the expected one: `absolute + relative · |expected|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In the values' own unit.
    pub absolute: f64,
    /// Fraction of the expected value.
    pub relative: f64,
}

impl Tolerance {
    /// `absolute + relative · |expected|`.
    pub fn new(absolute: f64, relative: f64) -> Tolerance {
        Tolerance { absolute, relative }
    }

    /// No difference at all (−0 equals 0).
    pub fn exact() -> Tolerance {
        Tolerance::new(0.0, 0.0)
    }

    /// A fixed distance.
    pub fn absolute(absolute: f64) -> Tolerance {
        Tolerance::new(absolute, 0.0)
    }

    /// A fraction of the expected value.
    pub fn relative(relative: f64) -> Tolerance {
        Tolerance::new(0.0, relative)
    }

    /// A fraction of the [`scale`] of the expected values: for the outputs of a network's last layer.
    pub fn of_scale(part: f64, expected: &[f32]) -> Tolerance {
        Tolerance::absolute(part * scale(expected))
    }

    /// For an f32 sum of `terms` products in any order, fused or not, whose absolute values add up to at most `magnitude`:
    /// |error| ≤ γ(terms) · Σ|aᵢ·bᵢ| with γ(n) = n·u / (1 − n·u) and u = 2⁻²⁴ (Higham, "Accuracy and Stability of Numerical
    /// Algorithms", 2nd ed., section 3.1).
    pub fn dot(terms: usize, magnitude: f64) -> Tolerance {
        Tolerance::absolute(gamma(terms) * magnitude)
    }

    /// For `operations` successive f32 operations on values of at most `magnitude`.
    pub fn elementwise(operations: usize, magnitude: f64) -> Tolerance {
        Tolerance::absolute(gamma(operations) * magnitude)
    }

    /// The distance allowed from `expected`; 0 from an infinity.
    pub fn at(&self, expected: f64) -> f64 {
        if expected.is_infinite() { 0.0 } else { self.absolute + self.relative * expected.abs() }
    }

    /// True if `actual` is near enough to `expected`. Equal values are, including infinities of the same sign; NaN never is.
    pub fn allows(&self, actual: f64, expected: f64) -> bool {
        // The difference of two infinities would be NaN.
        actual == expected || (actual - expected).abs() <= self.at(expected)
    }
}

/// The largest |x|, or 1 if all are smaller: the scale for errors.
pub fn scale(values: &[f32]) -> f64 {
    values.iter().fold(1.0, |most, &value| f64::max(most, f64::from(value.abs())))
}

fn gamma(n: usize) -> f64 {
    let nu = n as f64 * F32_ROUND_OFF;
    nu / (1.0 - nu)
}

/// Differences between two lists of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Values compared.
    pub count: usize,
    /// Largest absolute difference; NaN if either value is NaN or only one is infinite.
    pub max_abs: f64,
    /// Its index.
    pub max_abs_index: usize,
    /// Largest |difference| / |expected|, where expected is not zero.
    pub max_rel: f64,
    /// Its index.
    pub max_rel_index: usize,
    /// Mean absolute difference.
    pub mean_abs: f64,
    /// The distance allowed at `max_abs_index`.
    pub allowed: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "max |Δ| {:.3e} at {} (allowed {:.3e}), max relative {:.3e} at {}, mean {:.3e}, {} values",
            self.max_abs, self.max_abs_index, self.allowed, self.max_rel, self.max_rel_index, self.mean_abs, self.count
        )
    }
}

/// Reason why a comparison failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// The lists are not of the same length.
    #[error("{actual} values, expected {expected}")]
    Length {
        /// Values found.
        actual: usize,
        /// Values expected.
        expected: usize,
    },
    /// Infinite or NaN values where none are possible: poison that was never overwritten, for instance.
    #[error("{wrong} of {count} values are not finite, the first at {first}: {actual}")]
    NotFinite {
        /// Number of wrong values.
        wrong: usize,
        /// Number of values compared.
        count: usize,
        /// Index of the first.
        first: usize,
        /// The value found there.
        actual: f64,
    },
    /// Values out of tolerance.
    #[error("{wrong} of {} values are wrong, the first at {first}: {actual} instead of {expected} (allowed ±{allowed:.3e}); {report}", .report.count)]
    Values {
        /// Number of wrong values.
        wrong: usize,
        /// Index of the first.
        first: usize,
        /// The value found there.
        actual: f64,
        /// The value expected there.
        expected: f64,
        /// The distance allowed there.
        allowed: f64,
        /// The whole comparison.
        report: Report,
    },
}

/// Compares value by value. Equal values pass, including infinities of the same sign; NaN never passes, not even where NaN is
/// expected.
///
/// # Errors
/// [`Mismatch`] with the first wrong value and the whole [`Report`].
pub fn compare<A, E>(actual: &[A], expected: &[E], tolerance: Tolerance) -> Result<Report, Mismatch>
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    if actual.len() != expected.len() {
        return Err(Mismatch::Length { actual: actual.len(), expected: expected.len() });
    }
    let mut report = Report {
        count: actual.len(),
        max_abs: 0.0,
        max_abs_index: 0,
        max_rel: 0.0,
        max_rel_index: 0,
        mean_abs: 0.0,
        allowed: 0.0,
    };
    let mut first = None;
    let (mut wrong, mut sum) = (0, 0.0);
    for (i, (&a, &e)) in actual.iter().zip(expected).enumerate() {
        let (a, e): (f64, f64) = (a.into(), e.into());
        // The difference of two infinities would be NaN.
        let difference = if a == e { 0.0 } else { (a - e).abs() };
        let allowed = tolerance.at(e);
        if !tolerance.allows(a, e) {
            wrong += 1;
            first.get_or_insert((i, a, e, allowed));
        }
        sum += difference;
        if i == 0 || difference > report.max_abs || difference.is_nan() && !report.max_abs.is_nan() {
            (report.max_abs, report.max_abs_index) = (difference, i);
            report.allowed = allowed;
        }
        let relative = difference / e.abs();
        if e != 0.0 && (relative > report.max_rel || relative.is_nan() && !report.max_rel.is_nan()) {
            (report.max_rel, report.max_rel_index) = (relative, i);
        }
    }
    report.mean_abs = if report.count == 0 { 0.0 } else { sum / report.count as f64 };
    match first {
        None => Ok(report),
        Some((first, actual, expected, allowed)) => {
            Err(Mismatch::Values { wrong, first, actual, expected, allowed, report })
        }
    }
}

/// [`compare`] for tests.
///
/// # Panics
/// With the mismatch, if there is one.
#[track_caller]
pub fn assert_close<A, E>(actual: &[A], expected: &[E], tolerance: Tolerance)
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    if let Err(mismatch) = compare(actual, expected, tolerance) {
        panic!("{mismatch}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_passes_nowhere() {
        let nan = f32::NAN;
        let loose = Tolerance::absolute(f64::INFINITY);
        for (actual, expected) in [(nan, 1.0), (1.0, nan), (nan, nan)] {
            let result = compare(&[0.0, actual], &[0.0, expected], loose);
            assert!(matches!(result, Err(Mismatch::Values { wrong: 1, first: 1, .. })));
        }
        let Err(Mismatch::Values { report, .. }) = compare(&[5.0, nan, 9.0], &[0.0f32; 3], loose) else {
            panic!("NaN passed")
        };
        assert!(report.max_abs.is_nan());
        assert_eq!(report.max_abs_index, 1);
        assert!(report.mean_abs.is_nan());
    }

    #[test]
    fn a_scale_is_the_largest_magnitude_or_one() {
        assert_eq!((scale(&[0.5, -0.1]), scale(&[0.5, -3.0])), (1.0, 3.0));
        assert_eq!(Tolerance::of_scale(0.25, &[0.5, -3.0]), Tolerance::absolute(0.75));
    }

    #[test]
    fn the_report_names_the_worst_and_the_first() {
        let result = compare(&[1.0f32, 2.5, 3.0, 0.0], &[1.0f64, 2.0, 4.0, 0.0], Tolerance::absolute(0.25));
        let Err(Mismatch::Values { wrong, first, report, .. }) = result else { panic!("passed") };
        assert_eq!((wrong, first), (2, 1));
        assert_eq!((report.max_abs, report.max_abs_index), (1.0, 2));
        assert_eq!((report.max_rel, report.max_rel_index), (0.25, 1));
        assert_eq!(report.mean_abs, 1.5 / 4.0);
    }

    #[test]
    fn infinities_lengths_and_empty_lists() {
        let inf = f32::INFINITY;
        assert!(compare(&[inf], &[inf], Tolerance::exact()).is_ok());
        assert!(compare(&[inf], &[-inf], Tolerance::absolute(1e30)).is_err());
        assert!(compare(&[1.0f32], &[inf], Tolerance::relative(0.1)).is_err());
        assert!(compare(&[0.0f32], &[-0.0f32], Tolerance::exact()).is_ok());
        assert!(compare::<f32, f32>(&[], &[], Tolerance::exact()).is_ok());
        assert_eq!(
            compare(&[1.0f32], &[1.0f32, 2.0], Tolerance::exact()).unwrap_err().to_string(),
            "1 values, expected 2"
        );
    }

    #[test]
    fn the_bound_of_a_sum_holds_and_is_not_generous() {
        // 4096 products of 0.1 · 0.1, summed in f32 one after another: the worst order.
        let n = 4096;
        let (mut sum, mut exact) = (0.0f32, 0.0f64);
        for _ in 0..n {
            sum += 0.1 * 0.1;
            exact += f64::from(0.1f32) * f64::from(0.1f32);
        }
        let tolerance = Tolerance::dot(n, exact);
        assert!(compare(&[sum], &[exact], tolerance).is_ok());
        // One term more or less is detected.
        assert!(compare(&[sum + 0.01], &[exact], Tolerance::dot(16, exact)).is_err());
        assert!(tolerance.absolute < 0.011 * 1.0);
    }
}
