//! Tables as text of a page: with notes, as a list, as bars, as a chart's data.

use std::path::Path;

use bench::table::{Cell, Table};
use phase5_bench::plot::chart::Chart;

use super::{Found, MACHINES, Opened, PHASE5, RecordError, find, selection::Request, text};

/// Content between the markers of `record ARGUMENT`.
///
/// # Errors
/// Same as [`find`], and for unknown columns and rows.
pub fn markdown(workspace: &Path, argument: &str) -> Result<String, RecordError> {
    let request = Request::parse(argument)?;
    let Found { table, caption } = find(workspace, &request.table)?;
    let shown = request.apply(&table)?;
    let (body, notes) = if request.list {
        (list(&shown), shown.notes.clone())
    } else {
        // Title, table and notes have an empty line between them.
        let markdown = shown.to_markdown();
        let mut parts = markdown.split("\n\n").skip(1);
        let body = parts.next().unwrap_or_default().to_owned();
        (body, parts.map(|note| note.trim().to_owned()).collect())
    };
    // Below a terminal's table each note has lines of its own; here they are sentences of one paragraph.
    let sentence = |note: String| if note.ends_with('.') { note } else { note + "." };
    let caption = std::iter::once(caption).chain(notes.into_iter().map(sentence)).collect::<Vec<_>>().join(" ");
    let body = body.trim_end();
    Ok(format!("<figure class=\"record\">\n\n{body}\n\n<figcaption>{}</figcaption>\n</figure>", escape(&caption)))
}

/// Content between the markers of `bars ARGUMENT`: the same argument as that of `record`, with two columns, the name of a row and
/// a number that is not negative. A bar for each row, as text: for the README, which shows no pictures.
///
/// # Errors
/// Same as [`markdown`], and [`RecordError::Syntax`] for other columns.
pub fn bars(workspace: &Path, argument: &str) -> Result<String, RecordError> {
    let request = Request::parse(argument)?;
    let Found { table, caption } = find(workspace, &request.table)?;
    let shown = request.apply(&table)?;
    let [_, number] = shown.columns.as_slice() else {
        return Err(RecordError::Syntax("bars have two columns: a name and a number".to_owned()));
    };
    let (heading, decimals) = (&number.heading, number.decimals.unwrap_or(0));
    let rows = shown.rows().iter().map(|row| match row.as_slice() {
        [Cell::Text(name), Cell::Number(number)] if *number >= 0.0 => Ok((name.as_str(), *number)),
        _ => Err(RecordError::Syntax(format!("a row has no name or no number in `{heading}`"))),
    });
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let name_width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let number_width = format!("{most:.decimals$}").len();
    let mut text = format!("```text\n{:name_width$}  {heading}\n", "");
    for (name, number) in rows {
        let bar = bar(if most > 0.0 { number / most } else { 0.0 });
        text.push_str(format!("{name:name_width$}  {number:number_width$.decimals$} {bar}").trim_end());
        text.push('\n');
    }
    Ok(format!("{text}```\n\n{caption}"))
}

/// A share of the longest bar, in eighths of a letter.
fn bar(share: f64) -> String {
    const LONGEST: f64 = 40.0;
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * LONGEST * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// Data of phase 5's plot of this name, drawn from `table`, and the table's origin.
///
/// # Errors
/// [`RecordError::Common`] if there is no such record, [`RecordError::Phase5`] if there is no plot of the name, or no data for it
/// in the record.
pub fn chart(workspace: &Path, name: &str, table: &str) -> Result<(Chart, String), RecordError> {
    let file = |machine: &str| workspace.join(PHASE5).join("records").join(machine).with_extension("json");
    let records = MACHINES.iter().map(|machine| Opened::open(&file(machine))).collect::<Result<Vec<_>, _>>()?;
    let opened = records.iter().find(|opened| opened.tables.contains_key(table)).unwrap_or(&records[0]);
    opened.clean(table)?;
    let caption = escape(&format!("Recorded: {}.", opened.record.provenance_of(table)));
    Ok((phase5_bench::plot::chart(&opened.record, name)?, caption))
}

fn list(table: &Table) -> String {
    let mut out = String::new();
    for row in table.rows() {
        let mut texts: Vec<String> = row.iter().zip(&table.columns).map(|(cell, column)| text(cell, column)).collect();
        let last = texts.pop().unwrap_or_default();
        let head = texts.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        out += &format!("{}\n\n```text\n{last}\n```\n\n", head.collect::<Vec<_>>().join(" · "));
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
