//! The block's tensor memory, a lane below the other and its columns side by side, with the cells that an instruction uses.

use super::runs;
use super::svg::{Svg, WIDTH};
use crate::trace::{Site, Step, TensorPart, TensorStep, Trace};

const LANES: u32 = 128;
/// Lanes that a warp reaches by loads and stores.
const QUARTER: u32 = LANES / 4;
/// Columns of the narrowest allocation.
const LEAST: u32 = 32;
const LEFT: f64 = 96.0;
const WIDE: f64 = WIDTH - LEFT - 12.0;
/// Height of a lane.
const LANE: f64 = 2.0;
/// Colours of an instruction's parts, by the order of their names.
const ROLES: [&str; 4] = ["full", "good", "copy", "store"];

pub(super) fn draw(trace: &Trace, site: &Site, step: &Step, tensor: &TensorStep) -> String {
    let heading = trace.heading(site);
    let mut names: Vec<&str> = Vec::new();
    for part in &tensor.parts {
        if !names.contains(&part.name) {
            names.push(part.name);
        }
    }
    let role = |name: &str| ROLES[names.iter().position(|known| *known == name).unwrap_or(0) % ROLES.len()];
    let lines: Vec<String> = tensor.parts.iter().map(|part| format!("{}.", in_words(part))).collect();
    let what = format!("By warp {}. {}", step.warp, lines.join(" "));
    let mut svg = Svg::new(&heading, &site.instruction, std::slice::from_ref(&what));

    let ends = tensor.held.iter().chain(tensor.parts.iter().map(|part| &part.columns)).map(|columns| columns.end);
    let columns = ends.max().unwrap_or(0).max(LEAST).next_power_of_two();
    let (top, column) = (svg.y + 6.0, WIDE / f64::from(columns));
    let area = |[first, end]: [u32; 2], [top_lane, below]: [u32; 2]| {
        let height = f64::from(below - top_lane) * LANE;
        [LEFT + f64::from(first) * column, top + f64::from(top_lane) * LANE, f64::from(end - first) * column, height]
    };
    svg.rect("wait", area([0, columns], [0, LANES]));
    for held in &tensor.held {
        svg.titled_rect("empty", area([held.start, held.end], [0, LANES]), "allocated");
    }
    for part in &tensor.parts {
        for (first, last) in runs(part.lanes) {
            let place = area([part.columns.start, part.columns.end], [first, last + 1]);
            svg.titled_rect(role(part.name), place, &in_words(part));
        }
    }
    for quarter in 0..LANES / QUARTER {
        let lane = quarter * QUARTER;
        let y = top + f64::from(lane) * LANE;
        let middle = y + f64::from(QUARTER) * LANE / 2.0;
        svg.text("n dim e", LEFT - 8.0, middle - 3.0, &format!("lanes {lane}–{}", lane + QUARTER - 1));
        svg.text("n dim e", LEFT - 8.0, middle + 10.0, &format!("warp {quarter}"));
        if quarter > 0 {
            svg.line("edge", 1.0, &[[LEFT, y], [LEFT + WIDE, y]]);
        }
    }
    let below = top + f64::from(LANES) * LANE;
    for at in (0..=columns).step_by((columns / 8) as usize) {
        svg.text("n dim m", LEFT + f64::from(at) * column, below + 14.0, &at.to_string());
    }
    svg.text("n dim e", LEFT - 8.0, below + 14.0, "column");
    svg.y = below + 14.0;
    let mut entries: Vec<(&str, &str)> = names.iter().map(|name| (role(name), *name)).collect();
    entries.push(("empty", "allocated"));
    if tensor.held.iter().map(ExactSizeIterator::len).sum::<usize>() < columns as usize {
        entries.push(("wait", "not allocated"));
    }
    svg.legend(&entries);
    svg.finish(&format!("{heading}: tensor memory"), &what)
}

/// "D: lanes 0–127, columns 0–63".
fn in_words(TensorPart { name, lanes, columns }: &TensorPart) -> String {
    let runs = runs(*lanes);
    let shown: Vec<String> = runs.iter().map(|(first, last)| span(*first, *last)).collect();
    let lanes = if runs.len() > 1 || runs[0].0 < runs[0].1 { "lanes" } else { "lane" };
    let (first, last) = (columns.start, columns.end - 1);
    let word = if first < last { "columns" } else { "column" };
    format!("{name}: {lanes} {}, {word} {}", shown.join(", "), span(first, last))
}

fn span(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}–{last}") }
}
