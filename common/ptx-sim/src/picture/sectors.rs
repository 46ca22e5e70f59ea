//! Lanes above, global memory below: a row for each line of 128 bytes, four sectors per row.

use std::collections::BTreeSet;

use super::svg::{Svg, WIDTH, shortened};
use super::{code, count, lanes_in_words};
use crate::hardware::{LINE, SECTOR};
use crate::trace::{AccessKind, MemoryAccess, Space, Touch, Trace};

/// Maximum lines drawn; the rest is only counted.
const MAX_LINES: usize = 32;
const LEFT: f64 = 104.0;
/// Width of a byte.
const BYTE: f64 = (WIDTH - LEFT - 12.0) / LINE as f64;
const ROW: f64 = 18.0;
/// Height of a row where there are many.
const LOW: f64 = 14.0;

pub(super) fn draw(trace: &Trace, access: &MemoryAccess) -> String {
    let site = trace.site(access);
    let (sectors, bytes, ideal) = (access.sectors(), access.bytes(), access.ideal_sectors());
    let each: Vec<u32> = access.touches.iter().map(|touch| touch.bytes).collect();
    let size = match (each.iter().min(), each.iter().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most} bytes"),
        (_, most) => count(most.copied().unwrap_or(0), "byte"),
    };
    let kind = if access.kind == AccessKind::Bulk { "bulk copy".to_owned() } else { access.kind.to_string() };
    let (warp, lanes) = (access.warp, lanes_in_words(access.lanes()));
    let what = format!("Warp {warp}, {lanes}: {kind} of {size} each.");
    let moved = sectors * SECTOR as u32;
    let found = format!(
        "{} ({moved} bytes) for {}; ideal: {}.",
        count(sectors, "sector"),
        count(bytes, "byte"),
        count(ideal, "sector")
    );
    let heading = trace.heading(site);
    let mut svg = Svg::new(&heading, code(site), &[format!("{what} {found}")]);

    let x_of = |byte: u64| LEFT + (byte % LINE) as f64 * BYTE;
    let lane_box = |lane: u8| [LEFT + f64::from(lane) * 4.0 * BYTE, 4.0 * BYTE];
    let lanes_y = svg.y + 4.0;
    svg.text("dim e", LEFT - 8.0, lanes_y + 13.0, "lane");
    for lane in 0..32 {
        let [x, width] = lane_box(lane);
        let takes_part = access.lanes() >> lane & 1 == 1;
        svg.rect(if takes_part { "full" } else { "empty" }, [x + 0.5, lanes_y, width - 1.0, ROW]);
        svg.text(
            if takes_part { "n on-full m" } else { "n dim m" },
            x + width / 2.0,
            lanes_y + 13.0,
            &lane.to_string(),
        );
    }

    // Where the rows will stand; wires are drawn first, so that they pass behind them.
    let lines: Vec<u64> = access.units(LINE).collect::<BTreeSet<_>>().into_iter().collect();
    let shown = &lines[..lines.len().min(MAX_LINES)];
    let owner = |line: u64| {
        let touch = access.touches.iter().find(|touch| touch.end().saturating_sub(1) / LINE >= line);
        touch.and_then(|touch| trace.variable(Space::Global, touch.address.max(line * LINE)))
    };
    let high = if shown.len() > 8 { LOW } else { ROW };
    let mut rows = Vec::new();
    let mut y = lanes_y + ROW + if shown.len() > 1 { 52.0 } else { 34.0 };
    for (at, line) in shown.iter().enumerate() {
        let variable = owner(*line);
        let is_new = at == 0 || variable != owner(shown[at - 1]);
        if is_new {
            y += 14.0;
        } else if *line != shown[at - 1] + 1 {
            y += 5.0; // memory between them is left out
        }
        rows.push((*line, y, variable, is_new));
        y += high + 2.0;
    }
    for (line, y, ..) in &rows {
        for touch in parts(access, *line) {
            let [x, width] = lane_box(touch.lane);
            let to = x_of(touch.address) + f64::from(touch.bytes) * BYTE / 2.0;
            svg.line("wire", 0.7, &[[x + width / 2.0, lanes_y + ROW], [to, *y]]);
        }
    }
    let moved_sectors: BTreeSet<u64> = access.units(SECTOR).collect();
    for (line, y, variable, is_new) in rows {
        let start = line * LINE;
        if let Some(variable) = variable.filter(|_| is_new) {
            svg.text("n dim", 12.0, y - 4.0, &shortened(&variable.name, 15));
        }
        let label = match variable {
            Some(variable) => format!("+{}", start.saturating_sub(variable.start)),
            None => format!("{start:#x}"),
        };
        svg.text("n ink e", LEFT - 8.0, y + high / 2.0 + 3.5, &label);
        for sector in start / SECTOR..start / SECTOR + LINE / SECTOR {
            let place = [x_of(sector * SECTOR) + 0.5, y, SECTOR as f64 * BYTE - 1.0, high];
            if moved_sectors.contains(&sector) {
                svg.titled_rect("pale", place, &format!("sector at {}", trace.locate(Space::Global, sector * SECTOR)));
            } else {
                svg.rect("edge l", place);
            }
        }
        draw_touches(&mut svg, &parts(access, line), [y, high], x_of);
    }
    svg.y = y;
    if lines.len() > shown.len() {
        svg.y += 12.0;
        let rest = lines.len() - shown.len();
        svg.text("dim", LEFT, svg.y, &format!("… and {} more of 128 bytes", count(rest as u32, "line")));
    }
    let shared = access.touches.iter().map(|touch| u64::from(touch.bytes)).sum::<u64>() > u64::from(bytes);
    let stays = lines.len() * (LINE / SECTOR) as usize > sectors as usize;
    let entries = [
        (true, "full", "asked for, with the lane"),
        (shared, "good", "asked for by several lanes"),
        (moved > bytes, "pale", "moved, not asked for"),
        (stays, "edge l", "sector that stays"),
    ];
    let entries: Vec<_> = entries.iter().filter(|(used, ..)| *used).map(|(_, role, text)| (*role, *text)).collect();
    svg.legend(&entries);
    svg.finish(&format!("{heading}: {kind} of global memory"), &format!("{what} {found}"))
}

/// The parts of the touches that lie in a line.
fn parts(access: &MemoryAccess, line: u64) -> Vec<Touch> {
    let within = |touch: &Touch| {
        let (start, end) = (line * LINE, (line * LINE).saturating_add(LINE));
        let (first, last) = (touch.address.max(start), touch.end().min(end));
        (first < last).then(|| Touch { lane: touch.lane, address: first, bytes: (last - first) as u32 })
    };
    access.touches.iter().filter_map(within).collect()
}

/// The bytes of a line that lanes ask for, each range once, with the lane's number where it fits.
fn draw_touches(svg: &mut Svg, touches: &[Touch], [y, high]: [f64; 2], x_of: impl Fn(u64) -> f64) {
    let mut ranges: Vec<((u64, u32), u32)> = Vec::new();
    for touch in touches {
        let key = (touch.address, touch.bytes);
        match ranges.iter_mut().find(|(known, _)| *known == key) {
            Some((_, lanes)) => *lanes |= 1 << touch.lane,
            None => ranges.push((key, 1 << touch.lane)),
        }
    }
    for ((address, bytes), lanes) in ranges {
        let (x, width) = (x_of(address), f64::from(bytes) * BYTE);
        let one = lanes.count_ones() == 1;
        let gap = if width > 6.0 { 1.0 } else { 0.4 };
        let place = [x + gap / 2.0, y + 1.5, width - gap, high - 3.0];
        svg.titled_rect(if one { "full" } else { "good" }, place, &lanes_in_words(lanes));
        let text = if one { lanes.trailing_zeros().to_string() } else { format!("×{}", lanes.count_ones()) };
        if text.chars().count() as f64 * 5.6 < width {
            svg.text(if one { "t on-full m" } else { "t on-good m" }, x + width / 2.0, y + high / 2.0 + 3.3, &text);
        }
    }
}
