//! Bounds of a run or a table read from a file: it may be a stranger's, and is drawn, printed and written under its own names.

use crate::record::{Conditions, Named, Record};
use crate::table::{Cell, Table};

/// Maximum bytes of a saved run.
pub(crate) const MAX_FILE: u64 = 64 << 20;

/// Maximum numbers of a run's tables, a table's columns and rows, and its notes.
const MAX_TABLES: usize = 200;
const MAX_COLUMNS: usize = 200;
const MAX_ROWS: usize = 20_000;
const MAX_NOTES: usize = 200;
/// Maximum number of characters of a name, and of any other text.
const MAX_NAME: usize = 64;
const MAX_TEXT: usize = 16 << 10;
/// Maximum number of decimals: an f64 has no more digits.
const MAX_DECIMALS: usize = 17;
/// Maximum length of the lines of a column, in characters.
const MAX_LINE: u16 = 1000;
/// Numbers other than 0 lie between these: no measurement is beyond, and sums and quotients of such numbers stay finite.
const NUMBERS: [f64; 2] = [1e-60, 1e60];

/// Checks a run.
///
/// # Errors
/// The reason why it is refused, in a sentence.
pub(crate) fn check(run: &Record) -> Result<(), String> {
    let facts = [&run.device, &run.device_name, &run.host, &run.date, &run.commit];
    facts.into_iter().try_for_each(|fact| text(fact))?;
    date(&run.date)?;
    at_most(run.tables.len(), MAX_TABLES, "tables")?;
    for (at, Named { name, table, again, conditions, spread }) in run.tables.iter().enumerate() {
        if !is_name(name) {
            return Err("a table's name is not made of small letters, digits and hyphens, or is too long".to_owned());
        }
        let checked = || {
            if run.tables[..at].iter().any(|other| other.name == *name) {
                return Err("there are two of them".to_owned());
            }
            check_table(table)?;
            again.as_ref().map_or(Ok(()), |again| date(&again.date))?;
            conditions.as_ref().map_or(Ok(()), check_conditions)?;
            let Some(spread) = spread else { return Ok(()) };
            if !spread.belongs_to(table) {
                return Err("its spread has other rows or columns".to_owned());
            }
            spread.rows.iter().flatten().flatten().flatten().try_for_each(|value| number(*value))
        };
        checked().map_err(|reason| format!("table `{name}`: {reason}"))?;
    }
    at_most(run.comparisons.len(), MAX_TABLES, "comparisons")?;
    run.comparisons.iter().try_for_each(check_table)
}

/// Checks a table.
///
/// # Errors
/// The reason why it is refused, in a sentence.
pub(crate) fn check_table(table: &Table) -> Result<(), String> {
    at_most(table.columns.len(), MAX_COLUMNS, "columns")?;
    at_most(table.rows().len(), MAX_ROWS, "rows")?;
    at_most(table.notes.len(), MAX_NOTES, "notes")?;
    table.notes.iter().chain([&table.title]).try_for_each(|words| text(words))?;
    for (at, column) in table.columns.iter().enumerate() {
        text(column.key())?;
        text(&column.heading)?;
        if table.columns[..at].iter().any(|other| other.key() == column.key()) {
            return Err(format!("two columns have the key `{}`", column.key()));
        }
        at_most(column.decimals.unwrap_or(0), MAX_DECIMALS, "decimals")?;
        if column.line.is_some_and(|line| !(1..=MAX_LINE).contains(&line)) {
            return Err(format!("the lines of `{}` have no characters, or too many", column.key()));
        }
    }
    if let Some(row) = table.rows().iter().position(|row| row.len() != table.columns.len()) {
        return Err(format!("row {row} has {} cells for {} columns", table.rows()[row].len(), table.columns.len()));
    }
    table.rows().iter().flatten().try_for_each(|cell| match cell {
        Cell::Text(words) | Cell::Absent(words) => text(words),
        Cell::Number(value) => number(*value),
    })
}

fn check_conditions(conditions: &Conditions) -> Result<(), String> {
    at_most(conditions.quantities.len(), MAX_COLUMNS, "quantities")?;
    at_most(conditions.slowed.len(), MAX_COLUMNS, "reasons")?;
    text(&conditions.driver)?;
    for quantity in &conditions.quantities {
        text(&quantity.name)?;
        text(&quantity.unit)?;
        let values = [quantity.before, quantity.least, quantity.median, quantity.most, quantity.after];
        values.into_iter().try_for_each(number)?;
    }
    conditions.slowed.iter().try_for_each(|slowed| text(&slowed.reason).and_then(|()| number(slowed.percent)))
}

fn at_most(count: usize, most: usize, things: &str) -> Result<(), String> {
    if count > most { Err(format!("{count} {things}; {most} are the most")) } else { Ok(()) }
}

/// Whether it can be the name of a file and of an element of a page, on every system.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(plain)
}

fn text(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT { Err(format!("a text of {} bytes; {MAX_TEXT} are the most", text.len())) } else { Ok(()) }
}

fn number(value: f64) -> Result<(), String> {
    let [least, most] = NUMBERS;
    if value == 0.0 || (least..=most).contains(&value.abs()) {
        Ok(())
    } else {
        Err(format!("{value:e} is no measurement: numbers are 0, or between {least:e} and {most:e}"))
    }
}

fn date(text: &str) -> Result<(), String> {
    match humantime::parse_rfc3339(text) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(format!("`{}` is no date, such as 2026-03-01T12:00:00Z", text.chars().take(40).collect::<String>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run() -> Value {
        json!({
            "format": "warp-by-warp 1", "device": "cuda:0 X (sm_90)", "device_name": "X", "simulated": false, "host": "h",
            "date": "2026-03-01T12:00:00Z", "commit": "c",
            "tables": [{ "name": "gemm", "table": {
                "title": "t", "notes": [],
                "columns": [{ "name": "step", "decimals": null }, { "name": "ms", "decimals": 2 }],
                "rows": [[{ "text": "a" }, { "number": 1.5 }], [{ "text": "b" }, { "absent": "none" }]],
            }}],
        })
    }

    /// The reason for which the run is refused once the value at `place` is replaced.
    fn refused(place: &str, value: Value) -> Option<String> {
        let mut run = run();
        *run.pointer_mut(place).unwrap() = value;
        Record::from_json("f", &run.to_string()).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_no_run_of_ours_is_refused_where_it_is_read() {
        assert_eq!(refused("/commit", json!("d")), None);
        let column = |decimals: u64| json!({ "name": "ms", "decimals": decimals });
        for (place, value, reason) in [
            ("/date", json!("yesterday"), "is no date"),
            ("/date", json!("1e999"), "is no date"),
            ("/commit", json!("c".repeat(20_000)), "a text of 20000 bytes"),
            ("/tables/0/name", json!("../gemm"), "name is not made of"),
            ("/tables/0/name", json!("GEMM"), "name is not made of"),
            ("/tables/0/name", json!(""), "name is not made of"),
            ("/tables/0/name", json!("a".repeat(65)), "name is not made of"),
            ("/tables/0/table/columns/1", column(70_000), "70000 decimals"),
            ("/tables/0/table/columns/1", json!({ "name": "step", "decimals": 2 }), "two columns have the key `step`"),
            ("/tables/0/table/columns/1", json!({ "name": "ms", "decimals": 2, "line": 0 }), "the lines of `ms`"),
            ("/tables/0/table/rows/0/1", json!({ "number": 5e-324 }), "is no measurement"),
            ("/tables/0/table/rows/0/1", json!({ "number": -1e308 }), "is no measurement"),
            ("/tables/0/table/rows/0", json!([{ "text": "a" }]), "row 0 has 1 cells for 2 columns"),
            ("/tables/0/table/rows", json!(vec![[0; 0]; 20_001]), "20001 rows"),
            ("/tables/0/table/notes", json!(vec!["n"; 201]), "201 notes"),
        ] {
            let found = refused(place, value);
            assert!(found.as_ref().is_some_and(|found| found.contains(reason)), "{place}: {reason}: {found:?}");
        }
        let twice = run()["tables"][0].clone();
        assert!(refused("/tables", json!([twice, twice])).unwrap().contains("there are two of them"));
        let again = json!({ "date": "never", "commit": "c", "host": "h" });
        let table = |key: &str, value: Value| {
            let mut table = run()["tables"][0].clone();
            table[key] = value;
            table
        };
        assert!(refused("/tables/0", table("again", again)).unwrap().contains("is no date"));
        let spread = json!({ "runs": 3, "rows": [[null, [1.0, 1e300]], [null, null]] });
        assert!(refused("/tables/0", table("spread", spread)).unwrap().contains("is no measurement"));
        let readings =
            json!({ "name": "n", "unit": "u", "before": 1e300, "least": 0, "median": 0, "most": 0, "after": 0 });
        let conditions = json!({ "driver": "d", "readings": 1, "quantities": [readings], "slowed": [] });
        assert!(refused("/tables/0", table("conditions", conditions)).unwrap().contains("is no measurement"));
    }
}
