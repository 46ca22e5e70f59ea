//! Relations between recorded numbers that a sentence states: that one is larger, that they are about equal, that they rise.
//!
//! ```text
//! <!-- holds: RELATION -->
//!
//! RELATION = EXPRESSION COMPARE EXPRESSION { COMPARE EXPRESSION }
//!          | each CELLS COMPARE CELLS
//!          | (rising | falling) CELLS
//! COMPARE  = < | <= | > | >= | = | within PERCENT % of
//! ```
//! `EXPRESSION` and `CELLS` are as [`crate::expression`] has them. The marker shows nothing: it stands beside the sentence that relies
//! on the relation, and a false one is a problem of its line. `each` compares the first rows of both, then the second, and so on;
//! there must be equally many. `rising` and `falling` are strict, from each row to the next. Texts can be compared by `=`.
//!
//! ```text
//! <!-- holds: phase5-bench/gemm["4096³" "step=coalesced" : "ms"] < ["4096³" "step=uncoalesced"] -->
//! <!-- holds: falling phase5-bench/gemm["4096³" from "step=uncoalesced" to "step=register tile" : "ms"] -->
//! <!-- holds: most phase5-bench/conv["step=split K" : "loss, %"] <= 5 -->
//! ```

use std::path::Path;

use crate::{
    expression::{Reader, Value},
    record::RecordError,
};

/// Equal except for rounding errors.
const EQUAL: f64 = 1e-9;

/// Judges the relation of a marker.
///
/// # Errors
/// [`RecordError::False`] with both values if it does not hold; others if it cannot be judged: a table, row or column is missing,
/// or it is malformed.
pub fn judge(workspace: &Path, relation: &str) -> Result<(), RecordError> {
    let mut reader = Reader::new(workspace, relation);
    if reader.takes("each") {
        each(&mut reader)?;
    } else if reader.takes("rising") {
        ordered(&mut reader, Comparison::Less)?;
    } else if reader.takes("falling") {
        ordered(&mut reader, Comparison::More)?;
    } else {
        let (mut left, _) = reader.expression()?;
        loop {
            let comparison = Comparison::read(&mut reader)?;
            let (right, _) = reader.expression()?;
            comparison.of_values(&left, &right)?;
            left = right;
            if reader.rest().is_empty() {
                break;
            }
        }
    }
    match reader.rest() {
        "" => Ok(()),
        rest => Err(RecordError::Syntax(format!("`{rest}` is not understood at the end"))),
    }
}

fn each(reader: &mut Reader<'_>) -> Result<(), RecordError> {
    let left = reader.selection()?.numbers()?;
    let comparison = Comparison::read(reader)?;
    let right = reader.selection()?.numbers()?;
    if left.len() != right.len() {
        let unequal = format!("`each` compares {} numbers with {}: equally many must be", left.len(), right.len());
        return Err(RecordError::Syntax(unequal));
    }
    let mut pairs = left.into_iter().zip(right);
    pairs.try_for_each(|((row, left), (_, right))| comparison.of_numbers(left, right, Some(&row)))
}

fn ordered(reader: &mut Reader<'_>, comparison: Comparison) -> Result<(), RecordError> {
    let numbers = reader.selection()?.numbers()?;
    if numbers.len() < 2 {
        return Err(RecordError::Syntax("one number has no order: two rows at least must be chosen".to_owned()));
    }
    let mut pairs = numbers.windows(2);
    pairs.try_for_each(|pair| comparison.of_numbers(pair[0].1, pair[1].1, Some(&pair[1].0)))
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    /// Percent of the right side.
    Within(f64),
}

impl Comparison {
    fn read(reader: &mut Reader<'_>) -> Result<Comparison, RecordError> {
        // `<=` before `<`.
        let signs = [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::More),
            ("=", Comparison::Equal),
        ];
        if let Some((_, comparison)) = signs.into_iter().find(|(sign, _)| reader.takes(sign)) {
            return Ok(comparison);
        }
        let rest = reader.rest();
        let malformed = || {
            let expected = "< <= > >= = or `within PERCENT % of` must follow";
            RecordError::Syntax(format!("`{rest}` is no comparison: {expected}"))
        };
        if !reader.takes("within") {
            return Err(malformed());
        }
        let percent = reader.expression()?.0.number()?;
        if !(reader.takes("%") && reader.takes("of")) {
            return Err(malformed());
        }
        Ok(Comparison::Within(percent))
    }

    fn of_values(self, left: &Value, right: &Value) -> Result<(), RecordError> {
        match (self, left.text(), right.text()) {
            (Comparison::Equal, Some(left), Some(right)) => {
                let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                if spaced(left) == spaced(right) {
                    Ok(())
                } else {
                    Err(RecordError::False(format!("\"{}\" = \"{}\"", spaced(left), spaced(right))))
                }
            }
            _ => self.of_numbers(left.number()?, right.number()?, None),
        }
    }

    fn of_numbers(self, left: f64, right: f64, row: Option<&str>) -> Result<(), RecordError> {
        let difference = (left - right).abs();
        let holds = match self {
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::More => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::Equal => difference <= EQUAL * left.abs().max(right.abs()),
            Comparison::Within(percent) => difference <= percent / 100.0 * right.abs(),
        };
        if holds {
            return Ok(());
        }
        let sign = match self {
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::More => ">",
            Comparison::AtLeast => ">=",
            Comparison::Equal => "=",
            Comparison::Within(percent) => &format!("within {percent} % of"),
        };
        let at = row.map(|row| format!(" (row `{row}`)")).unwrap_or_default();
        Err(RecordError::False(format!("{} {sign} {}{at}", short(left), short(right))))
    }
}

/// A value with as many digits as distinguish it from others.
fn short(value: f64) -> String {
    let whole = value.abs().log10().floor();
    let decimals = if value == 0.0 { 0 } else { (5.0 - whole).clamp(0.0, 12.0) as usize };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(relation: &str) -> String {
        judge(Path::new("."), relation).map_or_else(|error| error.to_string(), |()| "holds".to_owned())
    }

    #[test]
    fn what_is_compared_holds_or_is_false_with_both_values() {
        for (relation, expected) in [
            ("1 < 2", "holds"),
            ("2 < 2", "false: 2 < 2"),
            ("2 <= 2 <= 3", "holds"),
            ("3 <= 2", "false: 3 <= 2"),
            ("2.5 > 2", "holds"),
            ("2 > 2.5", "false: 2 > 2.5"),
            ("1 < 2 > 3", "false: 2 > 3"),
            ("2 >= 2", "holds"),
            ("1 >= 2", "false: 1 >= 2"),
            ("1 / 3 = 2 / 6", "holds"),
            ("1 / 3 = 0.3333", "false: 0.333333 = 0.3333"),
            ("103 within 3 % of 100", "holds"),
            ("104 within 3 % of 100", "false: 104 within 3 % of 100"),
            ("96 within 3 % of 100", "false: 96 within 3 % of 100"),
            ("\"a  b\" = \"a b\"", "holds"),
            ("\"a\" = \"b\"", "false: \"a\" = \"b\""),
        ] {
            assert_eq!(judged(relation), expected, "{relation}");
        }
    }

    #[test]
    fn rows_have_an_order_and_are_compared_in_pairs() {
        let table = "phase1-infra/vector-add@sim";
        let rows = r#"[to "n=257" : "n"]"#;
        assert_eq!(judged(&format!("rising {table}{rows}")), "holds");
        assert_eq!(judged(&format!("falling {table}{rows}")), "false: 1 > 255 (row `255`)");
        assert_eq!(judged(&format!(r#"each {table}{rows} >= [to "n=257" : "blocks"]"#)), "holds");
        let other = format!(r#"each {table}{rows} = [to "n=257" : "blocks"]"#);
        assert_eq!(judged(&other), "false: 255 = 1 (row `255`)");
        let unequal = format!(r#"each {table}{rows} = ["n=257" : "blocks"]"#);
        assert!(judged(&unequal).starts_with("`each` compares "), "{}", judged(&unequal));
        assert!(judged(&format!(r#"rising {table}["n=1" : "n"]"#)).starts_with("one number has no order"));
    }

    #[test]
    fn what_is_malformed_or_absent_is_an_error_and_not_false() {
        for (relation, expected) in [
            ("", "`` does not begin with"),
            ("1", "`` is no comparison"),
            ("1 < ", "`` does not begin with"),
            ("1 ~ 2", "`~ 2` is no comparison"),
            ("1 within 2 of 3", "`within 2 of 3` is no comparison"),
            ("1 < 2 3", "`3` is no comparison"),
            ("\"a\" < \"b\"", "`a` is no number"),
            ("phase1-infra/none@sim[\"a\" : \"b\"] < 1", "no table `none`"),
            ("rising phase1-infra/vector-add@sim[: \"n\"] 3", "`3` is not understood at the end"),
        ] {
            let said = judged(relation);
            assert!(said.starts_with(expected), "{relation}: {said}");
        }
    }
}
