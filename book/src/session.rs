//! Output of an NVIDIA profiler, kept unchanged, as a table for the pages.
//!
//! A session is a file `PHASE/records/MACHINE-NAME.csv`: lines that begin with `#` state its origin, the rest is the tool's own
//! CSV, such as that of `ncu --csv --page raw` or `nsys stats --format csv`.
//!
//! ```text
//! # device: NVIDIA H200
//! # date: 2026-11-25
//! # commit: 0123456789ab
//! # tool: Nsight Compute 2025.3.1
//! # command: ncu --csv --page raw --metrics … phase1-infra vector-add --device cuda
//! "ID","Kernel Name","gpu__time_duration.sum"
//! "","","ns"
//! "0","vector_add","6,048"
//! ```
//! A second line without an ID has the units, which join the headings; columns keep the tool's names as keys.

use bench::table::Table;
use serde_json::{Value, json};

/// A parsed session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Output of the tool.
    pub table: Table,
    /// `Recorded: NVIDIA H200, 2026-11-25, commit …, by Nsight Compute ….`
    pub caption: String,
    /// Commit that was profiled.
    pub commit: String,
}

/// Facts that a session's head must state.
const FACTS: [&str; 5] = ["device", "date", "commit", "tool", "command"];

/// Digits after the point that a column of numbers keeps.
const DECIMALS: usize = 2;

/// Reads a session called `name`.
///
/// # Errors
/// The missing fact, in a sentence.
pub fn read(name: &str, text: &str) -> Result<Session, String> {
    let fact = |wanted: &str| {
        let mut facts = text.lines().filter_map(|line| line.strip_prefix('#')?.trim().split_once(':'));
        facts.find(|(fact, _)| fact.trim() == wanted).map(|(_, value)| value.trim().to_owned())
    };
    let absent = |wanted: &&str| fact(wanted).is_none();
    if let Some(absent) = FACTS.iter().find(|wanted| absent(wanted)) {
        return Err(format!("the session has no line `# {absent}: …`"));
    }
    let of = |wanted: &str| fact(wanted).unwrap_or_default();
    // Nsight Compute's own lines among the rest.
    let is_data = |line: &&str| !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with("==");
    let mut rows = text.lines().filter(is_data).map(fields);
    let head = rows.next().ok_or("the session has no table")?;
    let mut rows: Vec<Vec<String>> = rows.collect();
    let units = rows.first().filter(|row| row.first().is_some_and(String::is_empty)).cloned();
    if units.is_some() {
        rows.remove(0);
    }
    if let Some(at) = rows.iter().position(|row| row.len() != head.len()) {
        return Err(format!("row {} of the session has {} fields, its head {}", at + 1, rows[at].len(), head.len()));
    }
    let columns: Vec<Value> = (0..head.len())
        .map(|at| {
            let numbers: Option<Vec<usize>> = rows.iter().map(|row| decimals(&row[at])).collect();
            let decimals = numbers.and_then(|all| all.into_iter().max()).map(|most| most.min(DECIMALS));
            let unit = units.as_ref().and_then(|units| units.get(at)).filter(|unit| !unit.is_empty());
            let heading = unit.map_or_else(|| head[at].clone(), |unit| format!("{} ({unit})", head[at]));
            json!({ "key": head[at], "name": heading, "decimals": decimals })
        })
        .collect();
    let cell = |at: usize, text: &str| {
        if columns[at]["decimals"].is_null() { json!({ "text": text }) } else { json!({ "number": number(text) }) }
    };
    let cells = |row: &Vec<String>| row.iter().enumerate().map(|(at, text)| cell(at, text)).collect::<Vec<_>>();
    let rows: Vec<Vec<Value>> = rows.iter().map(cells).collect();
    let table = json!({ "title": name, "columns": columns, "rows": rows, "notes": [] });
    let table = serde_json::from_value(table).map_err(|error| error.to_string())?;
    let caption = format!(
        "Recorded: {}, {}, commit {}, by {}: {}.",
        of("device"),
        of("date"),
        of("commit"),
        of("tool"),
        of("command")
    );
    Ok(Session { table, caption, commit: of("commit") })
}

/// The number that a field holds, with commas between thousands or without.
fn number(field: &str) -> Option<f64> {
    field.replace(',', "").parse().ok().filter(|number: &f64| number.is_finite())
}

/// Number of digits after the point.
fn decimals(field: &str) -> Option<usize> {
    number(field).map(|_| field.split_once('.').map_or(0, |(_, digits)| digits.len()))
}

/// The fields of a line: in quotation marks where they hold commas, with two marks for one.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim_end().chars().peekable();
    while let Some(c) = chars.next() {
        let at = fields.len() - 1;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                fields[at].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields[at].push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const NCU: &str = "# device: NVIDIA H200\n# date: 2026-11-25\n# commit: abc\n# tool: Nsight Compute 2025.3\n# command: ncu x\n\
                       ==PROF== Connected\n\"ID\",\"Kernel Name\",\"time\",\"l1.pct\"\n\"\",\"\",\"ns\",\"%\"\n\
                       \"0\",\"f(int, \"\"a\"\")\",\"6,048\",\"12.345\"\n\"1\",\"g\",\"1,234,567\",\"7\"\n";

    #[test]
    fn a_session_is_a_table_with_units_and_numbers() {
        let session = read("ncu", NCU).unwrap();
        let markdown = session.table.to_markdown();
        assert!(markdown.contains("| ID | Kernel Name | time (ns) | l1.pct (%) |"), "{markdown}");
        assert!(markdown.contains("| 0 | f(int, \"a\") | 6048 | 12.35 |"), "{markdown}");
        assert!(markdown.contains("| 1 | g | 1234567 | 7.00 |"), "{markdown}");
        assert_eq!(session.caption, "Recorded: NVIDIA H200, 2026-11-25, commit abc, by Nsight Compute 2025.3: ncu x.");
    }

    #[test]
    fn a_session_without_its_facts_or_with_ragged_rows_is_refused() {
        assert_eq!(read("x", &NCU.replace("# commit: abc\n", "")), Err("the session has no line `# commit: …`".into()));
        assert_eq!(
            read("x", &format!("{NCU}\"2\",\"h\"\n")),
            Err("row 3 of the session has 2 fields, its head 4".into())
        );
    }
}
