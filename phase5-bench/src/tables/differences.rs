//! Comparisons of two results in tables of whole models.

use bench::ladder::verdict;
use common::check::{Tolerance, compare};

/// Maximum difference of a last layer's value from the CPU's, relative to [`common::check::scale`].
pub(crate) const CLOSE: f64 = 1e-5;

/// The largest difference from the CPU's values, and the word of the check.
pub(crate) fn close(what: &str, values: &[f32], cpu: &[f32], wrong: &mut Vec<String>) -> (f64, &'static str) {
    within(CLOSE, what, values, cpu, wrong)
}

/// [`close`], with another tolerance relative to [`common::check::scale`].
pub(crate) fn within(
    part: f64,
    what: &str,
    values: &[f32],
    cpu: &[f32],
    wrong: &mut Vec<String>,
) -> (f64, &'static str) {
    verdict(what, compare(values, cpu, Tolerance::of_scale(part, cpu)), wrong)
}

/// The mean of |a − b|; NaN if one of them is.
pub(crate) fn mean_difference(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs()).sum();
    sum / a.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_by_hand() {
        assert_eq!(mean_difference(&[1.0, -2.0], &[2.0, 1.0]), 2.0);
        assert!(mean_difference(&[1.0, f32::NAN], &[1.0, 1.0]).is_nan());
    }

    #[test]
    fn a_planted_wrong_value_fails_the_check_and_so_does_nan() {
        let expected = [1.0f64, 2.0, 3.0];
        let tolerance = Tolerance::dot(147, 2.0);
        let mut wrong = Vec::new();
        let right = compare(&[1.0f32, 2.0, 3.0], &expected, tolerance);
        assert_eq!(verdict("Conv2D", right, &mut wrong), (0.0, "ok"));
        assert!(wrong.is_empty());
        let planted = compare(&[1.0f32, 2.001, 3.0], &expected, tolerance);
        let (max_abs, word) = verdict("Conv2D", planted, &mut wrong);
        assert_eq!(word, "WRONG");
        assert!((max_abs - 0.001).abs() < 1e-6);
        let (max_abs, word) = verdict("ReLU", compare(&[1.0f32, f32::NAN, 3.0], &expected, tolerance), &mut wrong);
        assert!(max_abs.is_nan() && word == "WRONG");
        assert!(wrong[0].starts_with("Conv2D: 1 of 3 values are wrong, the first at 1"), "{wrong:?}");
        assert!(wrong[1].starts_with("ReLU: 1 of 3 values are wrong"), "{wrong:?}");
    }
}
