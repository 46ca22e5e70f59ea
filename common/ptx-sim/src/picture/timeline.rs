//! A block's warps side by side. A warp executes one instruction per step; at a barrier all wait for the last. Below a warp
//! stands its work under way: copies and products, from the request up to the wait that completes them.

use super::model::{Flight, FlightKind, Model, Row, model};
use super::svg::{Svg, WIDTH};
use super::{count, runs};
use crate::trace::{Grouped, Phase, Space, Trace};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
/// Maximum warps drawn; the rest is only counted.
const MAX_WARPS: usize = 32;
/// Maximum flights of a warp drawn at the same step; the rest is only counted.
const MAX_TRACKS: usize = 8;
/// Height of one of them.
const TRACK: f64 = 7.0;
/// Minimum height of running lanes, even of one: a single thread that makes all copies has to be visible.
const LEAST: f64 = 3.0;
/// Number of shades of a lane that was active in some of a column's instructions.
const SHADES: u32 = 4;

pub(super) fn draw(trace: &Trace) -> String {
    let Model { mut rows, marks, length } = model(trace);
    let parted: usize = rows.iter().map(|row| row.steps.iter().filter(|span| span.mask != span.live).count()).sum();
    let heading = format!("{}, {}: {}", trace.kernel, trace.block_name(), count(rows.len() as u32, "warp"));
    let mut summary = vec![format!(
        "{}, {parted} of them by a part of the warp's lanes; {}; {length} steps.",
        count(trace.steps.len() as u32, "warp instruction"),
        count(marks.len() as u32, "barrier")
    )];
    if trace.missed != 0 {
        summary.push(format!("Truncated: {} more instructions came after the trace's end.", trace.missed));
    }
    let mut svg = Svg::new(&heading, "", &summary);
    let hidden = rows.len().saturating_sub(MAX_WARPS);
    rows.truncate(MAX_WARPS);

    let wide = WIDTH - LEFT - RIGHT;
    // A column is a step, or several where there are more than there is room for.
    let per_column = length.div_ceil((wide / 2.0) as usize).max(1);
    let columns = length.div_ceil(per_column);
    let column = wide / columns as f64;
    let x_of = |step: usize| LEFT + step as f64 / per_column as f64 * column;
    let height = match rows.len() {
        0..=4 => 48.0,
        5..=8 => 32.0,
        _ => 16.0,
    };
    let lane = height / 32.0;
    let top = svg.y + 16.0;
    let tracks: Vec<Vec<Vec<Flight>>> = rows.iter().map(|row| tracks(&row.flights)).collect();
    let mut tops = Vec::new();
    let mut next = top;
    for tracks in &tracks {
        tops.push(next);
        let shown = tracks.len().min(MAX_TRACKS);
        next += height + 8.0 + shown as f64 * TRACK + if shown > 0 { 3.0 } else { 0.0 };
    }
    let y_of = |row: usize| tops.get(row).copied().unwrap_or(top);

    for (index, row) in rows.iter().enumerate() {
        let y = y_of(index);
        svg.text("dim e", LEFT - 8.0, y + height / 2.0 + 4.0, &format!("warp {}", row.number));
        let end = x_of(row.exits.unwrap_or(row.now));
        svg.rect("empty", [LEFT, y, end - LEFT, height]);
        for wait in row.waits.iter().filter(|wait| wait.to > wait.from) {
            // What waits at an mbarrier is often one lane of a warp that does nothing else.
            let lanes = if wait.phase.is_some() { u32::MAX } else { wait.mask };
            for (first, last) in runs(lanes) {
                let (x, to) = (x_of(wait.from), x_of(wait.to));
                let place = [x, y + f64::from(first) * lane, to - x, f64::from(last - first + 1) * lane];
                let at = wait.phase.map_or(String::new(), |phase| format!(" at {}", mbarrier(trace, phase)));
                let title = format!("waits for {}{at}", count((wait.to - wait.from) as u32, "step"));
                svg.titled_rect(if wait.phase.is_some() { "r1" } else { "wait" }, place, &title);
            }
        }
        draw_steps(&mut svg, row, [y, lane], [per_column, columns], x_of);
        for (track, flights) in tracks[index].iter().take(MAX_TRACKS).enumerate() {
            let y = y + height + 2.0 + track as f64 * TRACK;
            for flight in flights {
                let (x, to) = (x_of(flight.from), x_of(flight.to));
                let width = (to - x).max(1.0).min(WIDTH - RIGHT - x);
                let (role, name, _) = shown(flight.what);
                let of = match flight.what {
                    FlightKind::Load { phase, bytes } => format!(" of {bytes} bytes for {}", mbarrier(trace, phase)),
                    FlightKind::Group(_) => String::new(),
                };
                let title = format!("line {}: {name}{of}, steps {} to {}", flight.line, flight.from, flight.to);
                svg.titled_rect(role, [x, y, width, TRACK - 2.0], &title);
            }
        }
    }
    let bottom = next.max(top + height + 8.0) - 8.0;
    // Barriers: a mark through all that came, a dot at the last to come, and the line where there is room for it.
    let mut label_end = 0.0;
    for mark in &marks {
        let x = x_of(mark.at);
        let shown: Vec<usize> = mark.rows.iter().copied().filter(|row| *row < rows.len()).collect();
        let (Some(first), Some(last)) = (shown.first(), shown.last()) else { continue };
        svg.line("stop", 1.4, &[[x, y_of(*first) - 4.0], [x, y_of(*last) + height + 4.0]]);
        let waited = |row: &Row| row.waits.iter().any(|wait| wait.to == mark.at && wait.from < wait.to);
        if mark.last < rows.len() && rows.iter().any(waited) {
            let y = y_of(mark.last);
            svg.rect("stop-text", [x - 3.0, y + height / 2.0 - 3.0, 6.0, 6.0]);
        }
        let text = format!("line {}", mark.line);
        let half = text.chars().count() as f64 * 2.9;
        let middle = x.clamp(LEFT + half, WIDTH - RIGHT - half);
        if middle - half > label_end {
            svg.text("n stop-text m", middle, top - 7.0, &text);
            label_end = middle + half + 6.0;
        }
    }
    svg.y = bottom;
    axis(&mut svg, length, x_of);
    if hidden != 0 {
        svg.y += 16.0;
        svg.text("dim", LEFT, svg.y, &format!("… and {}", count(hidden as u32, "more warp")));
    }
    let one = if per_column == 1 { String::new() } else { format!(" (a column: {per_column} steps)") };
    let waited = rows.iter().flat_map(|row| &row.waits).any(|wait| wait.from < wait.to && wait.phase.is_none());
    let asked = rows.iter().flat_map(|row| &row.waits).any(|wait| wait.phase.is_some());
    let has =
        |what: FlightKind| rows.iter().flat_map(|row| &row.flights).any(|flight| shown(flight.what).0 == shown(what).0);
    let complete = if waited { "barrier complete; the square: last to come" } else { "barrier complete" };
    let entries = [
        (true, "full", "all live lanes run"),
        (parted > 0, "warn", "some run, lane 0 on top"),
        (parted > 0, "empty", "off"),
        (waited, "wait", "wait at a barrier"),
        (!marks.is_empty(), "stop-text", complete),
    ];
    let entries: Vec<_> = entries.iter().filter(|(used, ..)| *used).map(|(_, role, text)| (*role, *text)).collect();
    svg.legend(&entries);
    let flights = [Grouped::Copies, Grouped::BulkStores, Grouped::Products].map(FlightKind::Group);
    let load = FlightKind::Load { phase: Phase { mbarrier: 0, odd: false }, bytes: 0 };
    let flights = [load].into_iter().chain(flights).filter(|what| has(*what));
    let mut entries: Vec<(&str, &str)> = if asked { vec![("r1", "wait at an mbarrier")] } else { Vec::new() };
    entries.extend(flights.map(|what| (shown(what).0, shown(what).2)));
    if !entries.is_empty() {
        svg.legend(&entries);
    }
    svg.y += 17.0;
    let note = format!(
        "Steps: each warp executes one instruction a step, all warps at once. They are no measure of time.{one}"
    );
    svg.text("n dim", 12.0, svg.y, &note);
    svg.finish(&format!("{heading}: timeline"), &format!("{heading}. {}", summary.join(" ")))
}

/// Role, name and meaning of work under way.
fn shown(what: FlightKind) -> (&'static str, &'static str, &'static str) {
    match what {
        FlightKind::Load { .. } => ("good", "bulk copy", "bulk copy to shared memory under way"),
        FlightKind::Group(Grouped::Copies) => ("copy", "group of cp.async", "cp.async group under way"),
        FlightKind::Group(Grouped::BulkStores) => ("store", "group of bulk stores", "bulk stores under way"),
        FlightKind::Group(Grouped::Products) => ("product", "group of wgmma", "wgmma group under way"),
    }
}

/// "phase 0 of full + 8".
fn mbarrier(trace: &Trace, phase: Phase) -> String {
    format!("phase {} of {}", u32::from(phase.odd), trace.locate(Space::Shared, phase.mbarrier))
}

/// Flights one below the other where they overlap.
fn tracks(flights: &[Flight]) -> Vec<Vec<Flight>> {
    let mut flights = flights.to_vec();
    flights.sort_by_key(|flight| flight.from);
    let mut tracks: Vec<Vec<Flight>> = Vec::new();
    for flight in flights {
        let free = |track: &&mut Vec<Flight>| track.last().is_none_or(|last| last.to <= flight.from);
        match tracks.iter_mut().find(free) {
            Some(track) => track.push(flight),
            None => tracks.push(vec![flight]),
        }
    }
    tracks
}

/// The running lanes, one band per lane: full if all live lanes run.
fn draw_steps(
    svg: &mut Svg,
    row: &Row,
    [y, lane]: [f64; 2],
    [per_column, columns]: [usize; 2],
    x_of: impl Fn(usize) -> f64,
) {
    // By column: how many of its instructions each lane took part in, how many there were, and whether lanes were off.
    let mut shades: Vec<([u32; 32], u32, bool)> = vec![([0; 32], 0, false); columns];
    for span in &row.steps {
        let Some((lanes, total, parted)) = shades.get_mut(span.start / per_column) else { continue };
        *total += 1;
        *parted |= span.mask != span.live;
        for (at, active) in lanes.iter_mut().enumerate() {
            *active += span.mask >> at & 1;
        }
    }
    // The same picture as one number for each band, so that equal columns are drawn once.
    let bands: Vec<([u32; 32], bool)> = shades
        .iter()
        .map(|(lanes, total, parted)| {
            let share = |active: u32| if *total == 0 { 0 } else { (active * SHADES).div_ceil(*total) };
            (lanes.map(share), *parted)
        })
        .collect();
    let mut at = 0;
    while at < columns {
        let same = bands[at..].iter().take_while(|band| **band == bands[at]).count();
        let (shares, parted) = bands[at];
        let (x, end) = (x_of(at * per_column), x_of((at + same) * per_column));
        for shade in 1..=SHADES {
            let mask = (0..32).filter(|lane| shares[*lane] == shade).fold(0u32, |mask, lane| mask | 1 << lane);
            for (first, last) in runs(mask) {
                let high = (f64::from(last - first + 1) * lane).max(LEAST);
                let place = [x, (y + f64::from(first) * lane).min(y + 32.0 * lane - high), end - x, high];
                let role = if parted { "warn" } else { "full" };
                svg.shaded_rect(role, place, f64::from(shade) / f64::from(SHADES));
            }
        }
        at += same;
    }
}

/// Step numbers below the rows, at round distances.
fn axis(svg: &mut Svg, length: usize, x_of: impl Fn(usize) -> f64) {
    let distances = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10usize.pow(power)));
    let distance = distances.take(40).find(|distance| length / distance <= 12).unwrap_or(length.max(1));
    svg.y += 8.0;
    let y = svg.y;
    svg.text("n dim e", LEFT - 8.0, y + 13.0, "step");
    for step in (0..=length).step_by(distance) {
        let x = x_of(step);
        svg.line("edge", 1.0, &[[x, y - 2.0], [x, y + 3.0]]);
        svg.text("n dim m", x, y + 13.0, &step.to_string());
    }
    svg.y += 14.0;
}
