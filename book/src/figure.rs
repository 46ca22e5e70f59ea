//! A number of a recorded table, or one computed from several, for a sentence.
//!
//! ```text
//! EXPRESSION  = TERM { (+ | - | * | /) TERM } [ to DECIMALS | as speed ]      from left to right, without precedence
//! TERM        = NUMBER | TABLE[ "CELL" … : "COLUMN" ]
//! ```
//! `TABLE` is as [`crate::record`] has it. The row is the one whose cells read so; each text is compared with every cell,
//! or as `COLUMN=CELL` with the one of that column. A column is named by its key or its heading.
//! A single term is shown as its table shows it; a computed number needs its decimals. A time before divided by a time now may be
//! said `as speed`: `a gain: 1.47 times the speed`, `a loss: …` or, within 1 %, `no change: …`. So the word is from the record too.

use std::path::Path;

use common::table::{Cell, Column};

use crate::record::{self, RecordError, Word, words};

/// What stands between the markers of `figure: EXPRESSION`.
///
/// # Errors
/// As [`record::find`], and for malformed expressions and cells without a number.
pub fn text(workspace: &Path, expression: &str) -> Result<String, RecordError> {
    let (mut value, mut rest) = term(workspace, expression)?;
    let mut computed = false;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        if let Some(decimals) = rest.strip_prefix("to ") {
            let wrong = |_| RecordError::Syntax(format!("`to {decimals}`: a number of decimals must follow `to`"));
            let decimals: usize = decimals.trim().parse().map_err(wrong)?;
            return Ok(format!("{:.decimals$}", value.number()?));
        }
        if rest == "as speed" {
            return Ok(speed(value.number()?));
        }
        let operator = rest.chars().next().unwrap_or_default();
        let (other, after) = term(workspace, &rest[operator.len_utf8()..])?;
        let (a, b) = (value.number()?, other.number()?);
        value = Value { cell: Cell::Number(apply(operator, a, b)?), column: Column::number("", 0) };
        rest = after;
        computed = true;
    }
    match (computed, &value.cell) {
        (true, _) => {
            Err(RecordError::Syntax("a computed number needs `to DECIMALS` or `as speed` at its end".to_owned()))
        }
        (false, Cell::Absent(reason)) => Err(RecordError::Syntax(format!("there is no value: {reason}"))),
        (false, cell) => Ok(record::text(cell, &value.column)),
    }
}

/// What a step gained or lost, whose times before and now have this ratio.
fn speed(ratio: f64) -> String {
    let what = match ratio {
        ratio if ratio >= 1.01 => "a gain",
        ratio if ratio <= 0.99 => "a loss",
        _ => "no change",
    };
    format!("{what}: {ratio:.2} times the speed")
}

fn apply(operator: char, a: f64, b: f64) -> Result<f64, RecordError> {
    match operator {
        '+' => Ok(a + b),
        '-' => Ok(a - b),
        '*' => Ok(a * b),
        '/' if b == 0.0 => Err(RecordError::Syntax("a division by 0".to_owned())),
        '/' => Ok(a / b),
        other => Err(RecordError::Syntax(format!(
            "`{other}` is not understood: + - * /, `to` or `as speed` may follow a term"
        ))),
    }
}

struct Value {
    cell: Cell,
    column: Column,
}

impl Value {
    fn number(&self) -> Result<f64, RecordError> {
        match &self.cell {
            Cell::Number(value) => Ok(*value),
            Cell::Text(text) => {
                text.parse().map_err(|_| RecordError::Syntax(format!("`{text}` is no number to compute with")))
            }
            Cell::Absent(reason) => Err(RecordError::Syntax(format!("there is no value: {reason}"))),
        }
    }
}

/// The first term of `text`, and what follows it.
fn term<'a>(workspace: &Path, text: &'a str) -> Result<(Value, &'a str), RecordError> {
    let text = text.trim_start();
    let word = text.split(' ').next().unwrap_or_default();
    if let Ok(number) = word.parse() {
        return Ok((Value { cell: Cell::Number(number), column: Column::number("", 0) }, &text[word.len()..]));
    }
    let malformed = || RecordError::Syntax(format!("`{text}` does not begin with TABLE[\"CELL\" : \"COLUMN\"]"));
    let (name, after) = text.split_once('[').ok_or_else(malformed)?;
    let (place, rest) = after.split_once("\"]").ok_or_else(malformed)?;
    let place = format!("{place}\"");
    let place = words(&place)?;
    let [cells @ .., Word::Bare(":"), Word::Quoted(column)] = place.as_slice() else { return Err(malformed()) };
    let table = record::find(workspace, name.trim())?.table;
    let at = record::column(&table, column)?;
    let cells: Vec<String> = cells
        .iter()
        .map(|word| match word {
            Word::Quoted(text) => Ok((*text).to_owned()),
            Word::Bare(_) => Err(malformed()),
        })
        .collect::<Result<_, _>>()?;
    let mut rows = table.rows().iter().filter(|row| cells.iter().all(|cell| record::has(&table, row, cell)));
    match (rows.next(), rows.count()) {
        (Some(row), 0) => Ok((Value { cell: row[at].clone(), column: table.columns[at].clone() }, rest)),
        (first, others) => Err(RecordError::Rows { found: usize::from(first.is_some()) + others, cells }),
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
        for (ratio, said) in [
            ("3 / 2", "a gain: 1.50 times the speed"),
            ("101 / 100", "a gain: 1.01 times the speed"),
            ("1009 / 1000", "no change: 1.01 times the speed"),
            ("995 / 1000", "no change: 0.99 times the speed"),
            ("98 / 100", "a loss: 0.98 times the speed"),
        ] {
            assert_eq!(shown(&format!("{ratio} as speed")), said);
        }
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
