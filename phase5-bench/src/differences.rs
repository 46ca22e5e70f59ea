//! What tables of whole models say of two results.

use common::check::{Tolerance, compare};

use crate::tables::verdict;

/// The most that a value of a last layer may differ from the CPU's, as a part of [`common::check::scale`].
pub(crate) const CLOSE: f64 = 1e-5;

/// The largest difference from what the CPU computed, and the word of the check.
pub(crate) fn close(what: &str, values: &[f32], cpu: &[f32], wrong: &mut Vec<String>) -> (f64, &'static str) {
    verdict(what, compare(values, cpu, Tolerance::of_scale(CLOSE, cpu)), wrong)
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
}
