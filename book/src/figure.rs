//! A number of a recorded table, or one computed from several, for a sentence.
//!
//! ```text
//! FIGURE = EXPRESSION [ to DECIMALS ]
//! ```
//! `EXPRESSION` is as [`crate::expression`] has it.
//! A single term is shown as its table shows it; a computed number needs its decimals.

use std::path::Path;

use crate::{expression::Reader, record::RecordError};

/// Content between the markers of `figure: EXPRESSION`.
///
/// # Errors
/// Same as [`crate::record::find`], and for malformed expressions and cells without a number.
pub fn text(workspace: &Path, expression: &str) -> Result<String, RecordError> {
    let mut reader = Reader::new(workspace, expression);
    let (value, computed) = reader.expression()?;
    match reader.rest() {
        "" if computed => Err(RecordError::Syntax("a computed number needs `to DECIMALS` at its end".to_owned())),
        "" => value.shown(),
        rest => {
            let unknown = || {
                let operator = rest.chars().next().unwrap_or_default();
                RecordError::Syntax(format!("`{operator}` is not understood: + - * / or `to` may follow a term"))
            };
            let decimals = rest.strip_prefix("to ").ok_or_else(unknown)?;
            let wrong = |_| RecordError::Syntax(format!("`to {decimals}`: a number of decimals must follow `to`"));
            let decimals: usize = decimals.trim().parse().map_err(wrong)?;
            Ok(format!("{:.decimals$}", value.number()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: &str = r#"phase1-infra/vector-add@sim["257" : "idle threads"]"#;

    fn shown(expression: &str) -> String {
        text(Path::new("."), expression).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn a_number_is_found_by_its_row_and_column_and_computed_with() {
        assert_eq!(shown(IDLE), "255");
        assert_eq!(shown(&format!("{IDLE} * 4 / 8 to 1")), "127.5");
        assert_eq!(shown(&format!("1 + {IDLE} - {IDLE} to 0")), "1");
        assert_eq!(shown(r#"phase1-infra/vector-add@sim["n=1" : "idle threads"]"#), "255");
        assert_eq!(shown(r#"phase1-infra/device-query@sim["warp" : "value"]"#), "32 lanes");
    }

    #[test]
    fn what_cannot_be_shown_is_an_error() {
        for (expression, error) in [
            (r#"phase1-infra/vector-add@sim["258" : "idle threads"]"#, "0 rows have the cells [\"258\"]"),
            (r#"phase1-infra/vector-add@sim["1" : "idle threads"]"#, "3 rows have the cells [\"1\"]"),
            (r#"phase1-infra/vector-add@sim["257" : "ms"]"#, "there is no value: the simulator counts"),
            (r#"phase1-infra/vector-add@sim["257" : "idle"]"#, "no column `idle`"),
            (r#"phase1-infra/vector-add@sim["257"]"#, "`phase1-infra/vector-add@sim[\"257\"]` does not begin with"),
            (r#"phase1-infra/device-query@sim["warp" : "value"] / 2 to 1"#, "`32 lanes` is no number"),
            ("1 / 0 to 1", "a division by 0"),
            ("1 + 1", "a computed number needs"),
            ("1 % 1", "`%` is not understood"),
            ("1 to one", "`to one`"),
            ("", "`` does not begin with"),
        ] {
            assert!(shown(expression).starts_with(error), "{expression}: {}", shown(expression));
        }
    }
}
