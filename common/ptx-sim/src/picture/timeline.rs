//! A block's warps side by side. A warp executes an instruction a step; at a barrier all wait for the last.
//!
//! The steps are a model and no time: every instruction takes one, and all warps run at once. It is what makes visible who
//! waits for whom, whatever the order in which the simulator ran them.

use super::svg::{Svg, WIDTH};
use super::{count, runs};
use crate::trace::{Step, StepEvent, Trace};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
/// Warps that are drawn; what is beyond is only counted.
const MAX_WARPS: usize = 32;
/// Shades of a lane that was active in a part of the instructions that one column stands for.
const SHADES: u32 = 4;

/// What a warp does from one step on.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    mask: u32,
    live: u32,
}

/// Lanes of a warp that wait at a barrier.
#[derive(Clone, Copy, Debug)]
struct Wait {
    from: usize,
    to: usize,
    mask: u32,
}

#[derive(Clone, Debug, Default)]
struct Row {
    number: u32,
    steps: Vec<Span>,
    waits: Vec<Wait>,
    live: u32,
    /// The next step.
    now: usize,
    exits: Option<usize>,
}

/// A barrier that let threads go.
#[derive(Clone, Debug)]
struct Mark {
    at: usize,
    /// Rows of the warps that came.
    rows: Vec<usize>,
    /// The row of the last to come.
    last: usize,
    line: u32,
}

struct Model {
    rows: Vec<Row>,
    marks: Vec<Mark>,
    length: usize,
}

/// The lanes that a step is for: a jump concerns those that do not take it too.
fn ran(step: &Step) -> u32 {
    if step.event == StepEvent::Branch { step.mask } else { step.active }
}

fn model(trace: &Trace) -> Model {
    let threads: u32 = trace.threads.iter().product();
    let mut rows: Vec<Row> = Vec::new();
    let mut numbers: Vec<u32> = trace.steps.iter().map(|step| step.warp).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        let lanes = threads.saturating_sub(number * 32).min(32);
        let live = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        rows.push(Row { number, live, ..Row::default() });
    }
    let row_of = |rows: &[Row], warp: u32| rows.iter().position(|row| row.number == warp);
    // For each barrier: which warps came, when, and whether they wait.
    let mut arrived: Vec<(u32, usize, usize, u32, bool, u32)> = Vec::new();
    let mut marks = Vec::new();
    let mut releases = trace.releases.iter().peekable();
    for at in 0..=trace.steps.len() {
        while let Some(release) = releases.next_if(|release| release.at == at) {
            let here = |(barrier, ..): &(u32, usize, usize, u32, bool, u32)| *barrier == release.barrier;
            let all: Vec<_> = arrived.iter().copied().filter(here).collect();
            arrived.retain(|one| !here(one));
            let Some(last) = all.iter().max_by_key(|(_, _, when, ..)| *when) else { continue };
            let (_, last_row, when, .., line) = *last;
            let mut came: Vec<usize> = all.iter().map(|(_, row, ..)| *row).collect();
            came.sort_unstable();
            came.dedup();
            for (_, row, from, mask, waits, _) in &all {
                if *waits {
                    rows[*row].waits.push(Wait { from: *from, to: when, mask: *mask });
                    rows[*row].now = rows[*row].now.max(when);
                }
            }
            marks.push(Mark { at: when, rows: came, last: last_row, line });
        }
        let Some(step) = trace.steps.get(at) else { break };
        let Some(index) = row_of(&rows, step.warp) else { continue };
        let row = &mut rows[index];
        row.steps.push(Span { start: row.now, mask: ran(step), live: row.live });
        row.now += 1;
        match step.event {
            StepEvent::None | StepEvent::Branch => {}
            StepEvent::Arrive { barrier, waits } => {
                let line = trace.sites[step.site as usize].shown_line();
                arrived.push((barrier, index, row.now, step.active, waits, line));
            }
            StepEvent::Exit => {
                row.live &= !step.active;
                if row.live == 0 {
                    row.exits = Some(row.now);
                }
            }
        }
    }
    let length = rows.iter().map(|row| row.now).max().unwrap_or(1);
    Model { rows, marks, length }
}

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
    let y_of = |row: usize| top + row as f64 * (height + 8.0);

    for (index, row) in rows.iter().enumerate() {
        let y = y_of(index);
        svg.text("dim e", LEFT - 8.0, y + height / 2.0 + 4.0, &format!("warp {}", row.number));
        let end = x_of(row.exits.unwrap_or(row.now));
        svg.rect("empty", [LEFT, y, end - LEFT, height]);
        for wait in row.waits.iter().filter(|wait| wait.to > wait.from) {
            for (first, last) in runs(wait.mask) {
                let (x, to) = (x_of(wait.from), x_of(wait.to));
                let place = [x, y + f64::from(first) * lane, to - x, f64::from(last - first + 1) * lane];
                svg.titled_rect("wait", place, &format!("waits for {}", count((wait.to - wait.from) as u32, "step")));
            }
        }
        draw_steps(&mut svg, row, [y, lane], [per_column, columns], x_of);
    }
    let bottom = y_of(rows.len().max(1) - 1) + height;
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
    let waited = rows.iter().flat_map(|row| &row.waits).any(|wait| wait.from < wait.to);
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
    svg.y += 17.0;
    let note = format!(
        "Steps: each warp executes one instruction a step, all warps at once. They are no measure of time.{one}"
    );
    svg.text("n dim", 12.0, svg.y, &note);
    svg.finish(&format!("{heading}: timeline"), &format!("{heading}. {}", summary.join(" ")))
}

/// The lanes that run, a band a lane: full where all that live do.
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
                let place = [x, y + f64::from(first) * lane, end - x, f64::from(last - first + 1) * lane];
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
