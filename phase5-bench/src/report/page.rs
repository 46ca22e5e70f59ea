//! The report as HTML. Texts of records are escaped by `maud`, and a policy in the page forbids it to load anything.

use bench::record::Record;
use bench::table::{Cell, Column, Standing, Table};
use common::text::printable_lines;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Report, Shown, slug};
use crate::plot::page::{Figure, figures, palette};
use crate::tables::claims;
use crate::{Result, plot};

const STYLE: &str = include_str!("style.css");
const SORT: &str = include_str!("sort.js");

/// Nothing is loaded from any address: the page is self-contained.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The table of claims has a section of its own, at the top.
const CLAIMS: &str = "claims";

/// The whole page.
pub(super) fn html(report: &Report) -> Result<String> {
    let tables = report.tables();
    let (claims, rest): (Vec<&Shown<'_>>, Vec<&Shown<'_>>) = tables.iter().partition(|shown| shown.name == CLAIMS);
    let plots = report.plots();
    let drawn: Vec<(&str, String, Vec<Figure>)> = plots
        .iter()
        .map(|&(run, name)| {
            let (table, _) = plot::subject(name);
            Ok((name, run.provenance_of(table), figures(name, &plot::chart(run, name)?)?))
        })
        .collect::<Result<_>>()?;
    let (comparisons, summary) = (comparisons(report), report.summary()?);
    let devices: Vec<&str> = report.runs.iter().map(|run| run.device_name.as_str()).collect();
    let title = format!("Warp by Warp: report on {}", devices.join(" and "));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (text(&title)) }
                style { (PreEscaped(STYLE)) (PreEscaped(palette())) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    h1 { (text(&title)) }
                    p {
                        "All numbers were measured on the machines below, and each result was compared with an f64 reference before it was timed. "
                        "A dash has its reason in the notes below its table. Headings of tables sort."
                    }
                }
                nav aria-label="Contents" {
                    ul {
                        li { a href="#machines" { "Machines" } }
                        @if summary.is_some() { li { a href="#summary" { "What each phase bought" } } }
                        @if !claims.is_empty() { li { a href="#claims" { "Claims" } } }
                        @if !comparisons.is_empty() { li { a href="#comparison" { "Comparison" } } }
                        @if !drawn.is_empty() { li { a href="#plots" { "Plots" } } }
                        li { a href="#tables" { "Tables" } }
                    }
                }
                main id="main" {
                    section aria-labelledby="machines" {
                        h2 id="machines" { "Machines" }
                        (machines(report))
                    }
                    @if let Some(summary) = &summary {
                        section aria-labelledby="summary" {
                            h2 id="summary" { "What each phase bought" }
                            p { "Microseconds, from the CPU to the fastest version, beside the best peer." }
                            (table(summary, "summary", &|_, _| None, ("", &[])))
                        }
                    }
                    @if !claims.is_empty() {
                        section aria-labelledby="claims" {
                            h2 id="claims" { "Claims" }
                            p { "What the literature claims, and what was measured." }
                            @for shown in claims { (claims_of(shown, report.book.as_deref())) }
                        }
                    }
                    @if !comparisons.is_empty() {
                        section aria-labelledby="comparison" {
                            h2 id="comparison" { "Comparison" }
                            p {
                                @match comparisons.iter().map(|comparison| comparison.worse).sum() {
                                    0usize => "Nothing became slower, or more, beyond noise.",
                                    1 => { strong { "1" } " number became slower, or more, beyond noise." }
                                    worse => { strong { (worse) } " numbers became slower, or more, beyond noise." }
                                }
                            }
                            @for Comparison { markup, .. } in &comparisons { (markup) }
                        }
                    }
                    @if !drawn.is_empty() {
                        section aria-labelledby="plots" {
                            h2 id="plots" { "Plots" }
                            div.plots {
                                @for (name, provenance, figures) in &drawn {
                                    @for (at, part) in figures.iter().enumerate() { (figure(name, at, provenance, part)) }
                                }
                            }
                        }
                    }
                    section aria-labelledby="tables" {
                        h2 id="tables" { "Tables" }
                        nav aria-label="Tables" {
                            ul { @for (at, shown) in rest.iter().enumerate() { li { a href={ "#" (id(shown, at)) } { (link_text(shown, report)) } } } }
                        }
                        @for (at, shown) in rest.iter().enumerate() {
                            h3 id=(id(shown, at)) { (text(&shown.table.title)) }
                            (measured(shown))
                            (table(&shown.table, &id(shown, at), &|_, _| None, ("", &[])))
                        }
                    }
                }
                script { (PreEscaped(SORT)) }
            }
        }
    };
    Ok(page.into_string())
}

/// A text of a record, with visible forms of the characters that a terminal or a browser would obey.
fn text(text: &str) -> String {
    printable_lines(text).into_owned()
}

/// The element of a table; two runs may have the same one.
fn id(shown: &Shown<'_>, at: usize) -> String {
    format!("table-{at}-{}", slug(shown.name))
}

fn link_text(shown: &Shown<'_>, report: &Report) -> String {
    let runs = report.runs.iter().filter(|run| run.table(shown.name).is_some()).count();
    if runs > 1 { text(&format!("{} ({})", shown.name, shown.run.device_name)) } else { text(shown.name) }
}

/// Contents of a table, where and when it was measured, and the device's conditions meanwhile.
fn measured(shown: &Shown<'_>) -> Markup {
    html! {
        p.faint.about {
            @if !shown.shows.is_empty() { (shown.shows) ". " }
            @if shown.is_derived {
                "Made from the other tables of the run on " (text(&shown.run.device_name)) "."
            } @else {
                "Measured: " (text(&shown.run.provenance_of(shown.name)))
                "; host: " (text(shown.run.host_of(shown.name))) "."
            }
            @if let Some(conditions) = shown.run.conditions_of(shown.name) {
                " Meanwhile: " (text(&conditions.says())) "."
            }
        }
    }
}

fn machines(report: &Report) -> Markup {
    let row = |name: &str, value: &dyn Fn(&Record) -> String| {
        html! { tr { th scope="row" { (name) } @for run in &report.runs { td { (text(&value(run))) } } } }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Machines" {
            table.wide {
                tbody {
                    (row("device", &|run| run.device.clone()))
                    (row("host", &|run| run.host.clone()))
                    (row("date", &|run| run.date.clone()))
                    (row("commit", &|run| run.commit.clone()))
                    (row("driver", &|run| {
                        let mut conditions = run.tables.iter().filter_map(|named| named.conditions.as_ref());
                        conditions.next().map_or("not recorded".to_owned(), |conditions| conditions.driver.clone())
                    }))
                    (row("tables", &|run| run.tables.len().to_string()))
                }
            }
        }
    }
}

fn figure(name: &str, at: usize, provenance: &str, figure: &Figure) -> Markup {
    let (_, what) = plot::subject(name);
    // Where its table was measured, the caption says; marks of code are for texts.
    let title = figure.title.replace(&format!(": {provenance}"), "").replace('`', "");
    html! {
        figure id={ "plot-" (name) @if at > 0 { "-" (at + 1) } } {
            h3 { (text(&title)) }
            div.chart role="img" aria-label=(text(&format!("{what}. {}", figure.says))) { (PreEscaped(&figure.svg)) }
            @if !figure.key.is_empty() {
                ul.key {
                    @for entry in &figure.key {
                        li { span.chart aria-hidden="true" { (PreEscaped(&entry.svg)) } (text(&entry.name)) }
                    }
                }
            }
            figcaption.faint { (what) ". Measured: " (text(provenance)) "." }
        }
    }
}

/// The claims, with a page of the book each, which is a link if the book's address is known.
fn claims_of(shown: &Shown<'_>, book: Option<&str>) -> Markup {
    let verdict = |column: &Column, cell: &Cell| match (column.key(), cell) {
        (claims::HOLDS_KEY, Cell::Text(holds)) => match holds.as_str() {
            "yes" => Some("good"),
            "no" => Some("bad"),
            _ => Some("mixed"),
        },
        _ => None,
    };
    let page = |page: &'static str| match book {
        Some(book) => html! { a href={ (book.trim_end_matches('/')) "/" (page) ".html" } { (page) } },
        None => html! { (page) },
    };
    let pages: Vec<Markup> = claims::pages().into_iter().map(page).collect();
    // A run that lacks what claims are made from may have those of an earlier version of the course, in other rows.
    let pages = if pages.len() == shown.table.rows().len() { pages } else { Vec::new() };
    html! {
        (measured(shown))
        (table(&shown.table, "claims", &verdict, ("page of the book", &pages)))
    }
}

/// A table of a run compared with that of the earlier one.
struct Comparison {
    /// Number of values that became slower, or larger.
    worse: usize,
    markup: Markup,
}

/// The tables of the runs compared with those of the earlier one. Those with something worse are unfolded.
fn comparisons(report: &Report) -> Vec<Comparison> {
    let Some((earlier, noise)) = &report.earlier else { return Vec::new() };
    let tables = report.tables();
    // Runs of the device that the earlier run was on; if there is none, all: to compare devices is a wish, too.
    let is_same = |shown: &&Shown<'_>| shown.run.device_name == earlier.device_name;
    let any_is = tables.iter().any(|shown| is_same(&shown));
    let meant = tables.iter().filter(|shown| !any_is || is_same(shown));
    let compared = meant.filter_map(|shown| Some((shown, shown.run.changes(earlier, shown.name, *noise)?)));
    let verdict = |column: &Column, cell: &Cell| match (column.key(), cell) {
        ("verdict", Cell::Text(verdict)) => match verdict.as_str() {
            "slower" | "more" => Some("bad"),
            "faster" | "fewer" => Some("good"),
            _ => None,
        },
        _ => None,
    };
    compared
        .filter(|(_, changes)| !changes.is_empty())
        .enumerate()
        .map(|(at, (shown, changes))| {
            let id = format!("compared-{at}-{}", slug(shown.name));
            let worse = changes.iter().filter(|change| change.verdict.is_worse()).count();
            let compared = shown.run.table_of_changes(earlier, shown.name, &changes);
            let markup = html! {
                details open[worse > 0] {
                    summary {
                        h3 id=(id) { (text(&compared.title)) }
                        " " @if worse > 0 { strong.bad { (worse) " of " (changes.len()) " worse" } }
                            @else { span.faint { "none of " (changes.len()) " worse" } }
                    }
                    (table(&compared, &id, &verdict, ("", &[])))
                }
            };
            Comparison { worse, markup }
        })
        .collect()
}

/// A table with its notes. `class` marks cells; headings are buttons, which sort. `last` is an additional column, unless it is
/// empty.
fn table(
    table: &Table,
    label: &str,
    class: &dyn Fn(&Column, &Cell) -> Option<&'static str>,
    (last, cells_of_last): (&str, &[Markup]),
) -> Markup {
    let mut reasons: Vec<&str> = Vec::new();
    for cell in table.rows().iter().flatten() {
        if let Cell::Absent(reason) = cell
            && !reasons.contains(&reason.as_str())
        {
            reasons.push(reason);
        }
    }
    let number_of = |reason: &str| reasons.iter().position(|other| *other == reason).map_or(0, |at| at + 1);
    // Sentences in cells, as claims have them, need room.
    let sentences = table.rows().iter().flatten().any(|cell| matches!(cell, Cell::Text(text) if text.contains('\n')));
    let cell = |column: &Column, cell: &Cell| {
        let standing = column.standing(cell).map(|standing| match standing {
            Standing::Ahead => "ahead",
            Standing::Behind => "behind",
        });
        let mark = class(column, cell).or(standing);
        match cell {
            Cell::Number(value) => html! {
                td class={ "number" @if let Some(mark) = mark { " " (mark) } } data-value=(value) { (cell.shown(column)) }
            },
            Cell::Text(words) => html! {
                // Lines are broken for a terminal; a page breaks them itself.
                td class=[mark] { (text(&words.replace('\n', " "))) }
            },
            Cell::Absent(reason) => html! {
                td.absent.number[column.decimals.is_some()] title=(text(reason)) {
                    "–" @if reasons.len() > 1 { sup { (number_of(reason)) } }
                }
            },
        }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby=(label) {
            table.sortable.wide[sentences] aria-labelledby=(label) {
                thead {
                    tr {
                        @for column in &table.columns {
                            th.number[column.decimals.is_some()] scope="col" aria-sort="none" {
                                button type="button" { (text(&column.heading)) }
                            }
                        }
                        @if !cells_of_last.is_empty() {
                            th scope="col" aria-sort="none" { button type="button" { (last) } }
                        }
                    }
                }
                tbody {
                    @for (at, row) in table.rows().iter().enumerate() {
                        tr {
                            @for (column, value) in table.columns.iter().zip(row) { (cell(column, value)) }
                            @if let Some(last) = cells_of_last.get(at) { td { (last) } }
                        }
                    }
                }
            }
        }
        @if !reasons.is_empty() || !table.notes.is_empty() {
            ul.notes {
                @for (at, reason) in reasons.iter().enumerate() {
                    li { "–" @if reasons.len() > 1 { sup { (at + 1) } } " " (text(reason)) }
                }
                @for note in &table.notes { li { (text(note)) } }
            }
        }
    }
}
