//! Pixels that a copy in im2col mode gathers: those of each image, with their rows of the box.

use super::svg::{Svg, WIDTH};
use super::{code, count};
use crate::trace::{BoxCopy, Site, Space, Trace};

const MARGIN: f64 = 12.0;
const GAP: f64 = 26.0;
/// Maximum images next to each other; the rest is only counted.
const MAX_PANELS: usize = 3;
const MAX_CELL: f64 = 26.0;
/// Minimum width of a cell with a number.
const LABELLED: f64 = 15.0;
const HIGH: f64 = 320.0;

/// An image, or a plane of one with three dimensions: its coordinates beyond the second pixel's, and its pixels.
struct Panel<'t> {
    outer: &'t [i64],
    /// Row of the box, column and row of the image.
    pixels: Vec<(usize, [i64; 2])>,
}

pub(super) fn draw(trace: &Trace, site: &Site, copy: &BoxCopy) -> String {
    let tensor = &copy.tensor;
    // One pixel's dimension: an image is one row.
    let flat = tensor.extents.len() == 3;
    let extent = [tensor.extents[1] as i64, if flat { 1 } else { tensor.extents[2] as i64 }];
    let outer = if flat { 2 } else { 3 };
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for (row, at) in tensor.pixels.iter().enumerate() {
        let pixel = (row, [at[1], if flat { 0 } else { at[2] }]);
        match panels.last_mut() {
            Some(panel) if panel.outer == &at[outer..] => panel.pixels.push(pixel),
            _ => panels.push(Panel { outer: &at[outer..], pixels: vec![pixel] }),
        }
    }
    let inside_outer = |panel: &Panel<'_>| {
        panel.outer.iter().zip(&tensor.extents[outer..]).all(|(at, extent)| within(*at, *extent as i64))
    };
    let is_inside =
        |panel: &Panel<'_>, [x, y]: [i64; 2]| inside_outer(panel) && within(x, extent[0]) && within(y, extent[1]);
    let inside: usize =
        panels.iter().map(|panel| panel.pixels.iter().filter(|(_, at)| is_inside(panel, *at)).count()).sum();

    let list = |values: &mut dyn Iterator<Item = String>, between: &str| values.collect::<Vec<_>>().join(between);
    let channels = tensor.row_bytes / tensor.element_bytes.max(1);
    let heading = trace.heading(site);
    let what = format!(
        "{} of {channels} channels from {} on, in {}, a tensor of {} {}, fastest first; moved by ({}).",
        count(tensor.pixels.len() as u32, "pixel"),
        tensor.start[0],
        tensor.name,
        list(&mut tensor.extents.iter().map(u64::to_string), " × "),
        tensor.element,
        list(&mut tensor.offsets.iter().map(i64::to_string), ", "),
    );
    let outside = match tensor.pixels.len() - inside {
        0 => "All of them are inside.".to_owned(),
        left if copy.loads => format!("{left} of them are outside and arrive as {}.", tensor.fill),
        left => format!("{left} of them are outside and are not stored."),
    };
    let (bytes, to) = (count(copy.bytes as u32, "byte"), if copy.loads { "to" } else { "from" });
    let found = format!("{outside} {bytes} {to} {}.", trace.locate(Space::Shared, copy.shared));
    let mut svg = Svg::new(&heading, code(site), &[what.clone(), found.clone()]);

    // Every panel shows the same part of the plane: the image, and how far pixels reach beyond it.
    let all = || panels.iter().flat_map(|panel| &panel.pixels).map(|(_, at)| at);
    let first: [i64; 2] = std::array::from_fn(|axis| all().map(|at| at[axis]).min().unwrap_or(0).min(0));
    let end: [i64; 2] = std::array::from_fn(|axis| all().map(|at| at[axis] + 1).max().unwrap_or(0).max(extent[axis]));
    let size: [f64; 2] = std::array::from_fn(|axis| (end[axis] - first[axis]) as f64);
    let shown = panels.len().min(MAX_PANELS);
    let room = (WIDTH - 2.0 * MARGIN - GAP * (shown as f64 - 1.0)) / shown.max(1) as f64;
    let cell = (room / size[0]).min(HIGH / size[1]).min(MAX_CELL);
    let top = svg.y + 26.0;
    for (index, panel) in panels.iter().take(shown).enumerate() {
        let left = MARGIN + index as f64 * (cell * size[0] + GAP);
        let place = |[x, y]: [i64; 2], [wide, high]: [i64; 2]| {
            let at = [left + (x - first[0]) as f64 * cell, top + (y - first[1]) as f64 * cell];
            [at[0], at[1], wide as f64 * cell, high as f64 * cell]
        };
        let name = format!("image {}", list(&mut panel.outer.iter().rev().map(i64::to_string), ", plane "));
        svg.text("s ink", left, top - 10.0, &name);
        let [x, y, wide, high] = place([0, 0], extent);
        svg.titled_rect("empty", [x, y, wide, high], &format!("{} × {} pixels", extent[0], extent[1]));
        for &(row, at) in &panel.pixels {
            let [x, y, wide, high] = place(at, [1, 1]);
            let (role, where_it_is) = if is_inside(panel, at) { ("full", "inside") } else { ("warn", "outside") };
            let title = format!("row {row} of the box: x = {}, y = {}, {where_it_is} the image", at[0], at[1]);
            svg.titled_rect(role, [x + 0.5, y + 0.5, wide - 1.0, high - 1.0], &title);
            if cell >= LABELLED {
                let class = if role == "full" { "n on-full m" } else { "n ink m" };
                svg.text(class, x + cell / 2.0, y + cell / 2.0 + 3.5, &row.to_string());
            }
        }
        svg.line("mark", 1.0, &[[x, y], [x + wide, y], [x + wide, y + high], [x, y + high], [x, y]]);
    }
    svg.y = top + size[1] * cell;
    if panels.len() > shown {
        svg.y += 16.0;
        let more = format!("… and {}", count((panels.len() - shown) as u32, "more image"));
        svg.text("dim", MARGIN, svg.y, &more);
    }
    if cell >= LABELLED {
        svg.y += 18.0;
        svg.text("n dim", MARGIN, svg.y, "In a cell: the row of the box that the pixel becomes.");
    }
    let beyond = if copy.loads { format!("outside: {}", tensor.fill) } else { "outside: not stored".to_owned() };
    let entries = [
        (inside > 0, "full", "gathered"),
        (inside < tensor.pixels.len(), "warn", &*beyond),
        (true, "empty", "the image"),
    ];
    let entries: Vec<_> = entries.iter().filter(|(used, ..)| *used).map(|(_, role, text)| (*role, *text)).collect();
    svg.legend(&entries);
    svg.finish(&format!("{heading}: the pixels of a copy"), &format!("{what} {found}"))
}

fn within(at: i64, extent: i64) -> bool {
    (0..extent).contains(&at)
}
