//! Whether a prediction came true, by one rule for the whole book.
//!
//! ```text
//! <!-- verdict: predicted EXPRESSION [to EXPRESSION], measured EXPRESSION -->as predicted<!-- /verdict -->
//! <!-- verdict: rule -->1.2<!-- /verdict -->
//! ```
//! `EXPRESSION` is as [`crate::expression`] has it, in the same unit on both sides. A value came true within [`FACTOR`], above or below;
//! a range, within its ends. Otherwise the verdict says how far off it was: `2.4 times the prediction`, `0.6 times the lower end of the
//! prediction`. The rule stands in the book at [`RULE`], to which each verdict links; the second form is the factor, for that place.

use std::path::Path;

use crate::{expression::Reader, record::RecordError};

/// Within this factor of the prediction, above or below, a measurement is as predicted.
pub const FACTOR: f64 = 1.2;

/// Link to the rule, from the pages' folder.
pub const RULE: &str = "introduction.md#as-predicted";

/// Verdict on a prediction that came true.
pub(crate) const CAME_TRUE: &str = "as predicted";

/// Argument for showing the rule.
pub(crate) const ASKS_RULE: &str = "rule";

/// Whether a line states that something came true; `twice as long as predicted` does not.
pub(crate) fn says_it_came_true(line: &str) -> bool {
    let line = line.to_lowercase();
    line.match_indices(CAME_TRUE)
        .any(|(at, _)| line[..at].split_whitespace().rev().nth(1).is_none_or(|word| word != "as"))
}

/// Content between the markers of `verdict: ARGUMENT`, without the link.
///
/// # Errors
/// Same as [`Reader::expression`], and if the argument is malformed or a number is not above 0.
pub fn text(workspace: &Path, argument: &str) -> Result<String, RecordError> {
    if argument == ASKS_RULE {
        return Ok(FACTOR.to_string());
    }
    let mut reader = Reader::new(workspace, argument);
    let malformed = |rest: &str| {
        let expected = "write `predicted EXPRESSION [to EXPRESSION], measured EXPRESSION` or `rule`";
        RecordError::Syntax(format!("`{rest}` is not understood: {expected}"))
    };
    if !reader.takes("predicted") {
        return Err(malformed(reader.rest()));
    }
    let least = positive(&mut reader)?;
    let most = if reader.takes("to") { Some(positive(&mut reader)?) } else { None };
    if !(reader.takes(",") && reader.takes("measured")) {
        return Err(malformed(reader.rest()));
    }
    let measured = positive(&mut reader)?;
    match (reader.rest(), most) {
        ("", Some(most)) if most < least => {
            Err(RecordError::Syntax(format!("a prediction from {least} to {most} has its ends the wrong way round")))
        }
        ("", most) => Ok(verdict(least, most, measured)),
        (rest, _) => Err(malformed(rest)),
    }
}

fn positive(reader: &mut Reader<'_>) -> Result<f64, RecordError> {
    let number = reader.expression()?.0.number()?;
    if number > 0.0 {
        Ok(number)
    } else {
        Err(RecordError::Syntax(format!("{number} has no ratio to a prediction: it must be above 0")))
    }
}

/// The verdict on a value, or on a range if there is a `most`.
fn verdict(least: f64, most: Option<f64>, measured: f64) -> String {
    let (came_true, end, of) = match most {
        Some(most) if measured > most => (false, most, "the upper end of the prediction"),
        Some(most) => (measured >= least && measured <= most, least, "the lower end of the prediction"),
        None => ((1.0 / FACTOR..=FACTOR).contains(&(measured / least)), least, "the prediction"),
    };
    if came_true {
        return CAME_TRUE.to_owned();
    }
    let ratio = measured / end;
    let decimals = match ratio {
        ratio if ratio >= 9.95 => 0,
        ratio if ratio >= 1.95 => 1,
        ratio if ratio >= 0.1 => 2,
        _ => 4,
    };
    format!("{ratio:.decimals$} times {of}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(argument: &str) -> String {
        text(Path::new("."), argument).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn a_prediction_comes_true_within_the_factor_or_the_range_and_fails_outside() {
        for (argument, expected) in [
            ("predicted 100, measured 120", "as predicted"),
            ("predicted 100, measured 84", "as predicted"),
            ("predicted 100, measured 125", "1.25 times the prediction"),
            ("predicted 100, measured 80", "0.80 times the prediction"),
            ("predicted 100, measured 240", "2.4 times the prediction"),
            ("predicted 100, measured 4800", "48 times the prediction"),
            ("predicted 3.5 to 6.5, measured 3.5", "as predicted"),
            ("predicted 3.5 to 6.5, measured 7", "1.08 times the upper end of the prediction"),
            ("predicted 3.5 to 6.5, measured 3.4", "0.97 times the lower end of the prediction"),
            ("predicted 10 * 2, measured 60 / 3", "as predicted"),
            ("rule", "1.2"),
        ] {
            assert_eq!(said(argument), expected, "{argument}");
        }
    }

    #[test]
    fn a_comparison_with_a_prediction_is_no_verdict() {
        assert!(says_it_came_true("As predicted, it is"));
        assert!(says_it_came_true("twice as long, and in this as predicted"));
        assert!(!says_it_came_true("twice as long as predicted"));
        assert!(!says_it_came_true("as was predicted"));
    }

    #[test]
    fn a_malformed_verdict_is_an_error() {
        for (argument, expected) in [
            ("", "`` is not understood: write `predicted"),
            ("predicted 5", "`` is not understood"),
            ("predicted 5, 6", "`6` is not understood"),
            ("predicted 5, measured 6 ms", "`ms` is not understood"),
            ("predicted 6 to 5, measured 5", "a prediction from 6 to 5 has its ends"),
            ("predicted 0, measured 5", "0 has no ratio"),
            ("predicted x, measured 5", "`x, measured 5` does not begin with"),
        ] {
            assert!(said(argument).starts_with(expected), "{argument}: {}", said(argument));
        }
    }
}
