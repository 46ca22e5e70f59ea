//! A box in its tensor: to the left the tensor with the box in it, to the right the box, including any part outside.

use super::svg::{Svg, WIDTH};
use super::{code, count};
use crate::trace::{BoxCopy, Site, Space, Trace};

const MARGIN: f64 = 12.0;
/// Room for the drawings, each on its half of the picture.
const WIDE: f64 = WIDTH / 2.0 - 90.0;
const HIGH: f64 = 260.0;

/// The part of a box along one dimension: its first coordinate, its extent, and the range inside.
#[derive(Clone, Copy, Debug)]
struct Reach {
    first: i64,
    end: i64,
    inside: [i64; 2],
    extent: i64,
}

pub(super) fn draw(trace: &Trace, site: &Site, copy: &BoxCopy) -> String {
    let tensor = &copy.tensor;
    let rank = tensor.extents.len();
    let reach = |at: usize| {
        let (first, extent) = (tensor.start[at], tensor.extents[at] as i64);
        let end = first + i64::from(tensor.sizes[at]);
        let inside = [first.clamp(0, extent), end.clamp(0, extent)];
        Reach { first, end, inside, extent }
    };
    let all: Vec<Reach> = (0..rank).map(reach).collect();
    let list = |of: &dyn Fn(usize) -> String| (0..rank).map(of).collect::<Vec<_>>().join(" × ");
    let heading = trace.heading(site);
    let what = format!(
        "Box of {} {} at ({}) in {}, a tensor of {}, fastest first.",
        list(&|at| tensor.sizes[at].to_string()),
        tensor.element,
        tensor.start.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
        tensor.name,
        list(&|at| tensor.extents[at].to_string())
    );
    let outer_inside = all.iter().skip(2).all(|reach| reach.inside[0] < reach.inside[1]);
    let steps = if tensor.steps.iter().skip(1).any(|step| *step != 1) {
        let steps: Vec<String> = tensor.steps.iter().map(u32::to_string).collect();
        format!(" Every {} of them is copied (element strides).", steps.join(", "))
    } else {
        String::new()
    };
    let inside: i64 = all.iter().map(|reach| reach.inside[1] - reach.inside[0]).product();
    let whole: i64 = all.iter().map(|reach| reach.end - reach.first).product();
    let outside = match (inside == whole, copy.loads) {
        (true, _) => "All of it is inside.".to_owned(),
        (false, true) => format!("{inside} of {whole} elements are inside; the others arrive as {}.", tensor.fill),
        (false, false) => format!("{inside} of {whole} elements are inside; the others are not stored."),
    };
    let to = if copy.loads { "to" } else { "from" };
    let place = trace.locate(Space::Shared, copy.shared);
    let bytes = count(copy.bytes as u32, "byte");
    let found = format!("{outside}{steps} {bytes} {to} {place}.");
    let mut svg = Svg::new(&heading, code(site), &[what.clone(), found.clone()]);

    // A tensor of one dimension is one row.
    let flat = Reach { first: 0, end: 1, inside: [0, 1], extent: 1 };
    let (x, y) = (all[0], all.get(1).copied().unwrap_or(flat));
    let top = svg.y + 26.0;
    // What is drawn of the whole: the tensor and the box, wherever it is.
    let from = [x.first.min(0), y.first.min(0)];
    let size = [x.end.max(x.extent) - from[0], y.end.max(y.extent) - from[1]];
    let drawn = fitted(size);
    let left = MARGIN + 60.0;
    let scale = [drawn[0] / size[0] as f64, drawn[1] / size[1] as f64];
    let at = |axis: usize, coordinate: i64| (coordinate - from[axis]) as f64 * scale[axis];
    let area = |columns: [i64; 2], rows: [i64; 2]| {
        let wide = (at(0, columns[1]) - at(0, columns[0])).max(1.5);
        let high = (at(1, rows[1]) - at(1, rows[0])).max(1.5);
        [left + at(0, columns[0]), top + at(1, rows[0]), wide, high]
    };
    svg.text("s ink", left, top - 10.0, "the tensor");
    let tensor_area = area([0, x.extent], [0, y.extent]);
    svg.titled_rect("empty", tensor_area, &format!("{} × {} elements", x.extent, y.extent));
    svg.titled_rect("warn", area([x.first, x.end], [y.first, y.end]), "outside the tensor");
    let seen = outer_inside && x.inside[0] < x.inside[1] && y.inside[0] < y.inside[1];
    if seen {
        svg.titled_rect("full", area(x.inside, y.inside), "the box");
    }
    outline(&mut svg, "mark", tensor_area);
    let below = top + drawn[1];

    // The box by itself.
    let size = [x.end - x.first, y.end - y.first];
    let drawn = fitted(size);
    let left = WIDTH / 2.0 + 60.0;
    let scale = [drawn[0] / size[0] as f64, drawn[1] / size[1] as f64];
    let at = |axis: usize, coordinate: i64| (coordinate - [x.first, y.first][axis]) as f64 * scale[axis];
    svg.text("s ink", left, top - 10.0, "the box");
    svg.titled_rect("warn", [left, top, drawn[0], drawn[1]], "outside the tensor");
    if seen {
        let wide = at(0, x.inside[1]) - at(0, x.inside[0]);
        let high = at(1, y.inside[1]) - at(1, y.inside[0]);
        let place = [left + at(0, x.inside[0]), top + at(1, y.inside[0]), wide, high];
        svg.titled_rect("full", place, "inside the tensor");
        if wide > 90.0 && high > 30.0 {
            let elements = (x.inside[1] - x.inside[0]) * (y.inside[1] - y.inside[0]);
            let text = count(elements as u32, "element");
            svg.text("n on-full m", place[0] + wide / 2.0, place[1] + high / 2.0 + 3.5, &text);
        }
    }
    // Coordinates at its edges and where it leaves the tensor, unless they stand too close.
    for (axis, reach) in [x, y].into_iter().enumerate() {
        let mut last = f64::NEG_INFINITY;
        for coordinate in [reach.first, reach.inside[0], reach.inside[1], reach.end] {
            let place = at(axis, coordinate);
            if coordinate < reach.first || coordinate > reach.end || place - last < [26.0, 12.0][axis] {
                continue;
            }
            last = place;
            match axis {
                0 => svg.text("n dim m", left + place, top + drawn[1] + 14.0, &coordinate.to_string()),
                _ => svg.text("n dim e", left - 6.0, top + place + 3.5, &coordinate.to_string()),
            }
        }
    }
    svg.y = below.max(top + drawn[1] + 14.0);
    for (at, reach) in all.iter().enumerate().skip(2) {
        svg.y += 16.0;
        let text = format!(
            "dimension {at}: coordinates {} to {}, of which {} are inside the tensor's {}",
            reach.first,
            reach.end - 1,
            reach.inside[1] - reach.inside[0],
            reach.extent
        );
        svg.text("n dim", MARGIN, svg.y, &text);
    }
    let outside = if copy.loads { format!("outside: {}", tensor.fill) } else { "outside: not stored".to_owned() };
    let entries =
        [(seen, "full", "box inside the tensor"), (inside != whole, "warn", &*outside), (true, "empty", "tensor")];
    let entries: Vec<_> = entries.iter().filter(|(used, ..)| *used).map(|(_, role, text)| (*role, *text)).collect();
    svg.legend(&entries);
    svg.finish(&format!("{heading}: a box in its tensor"), &format!("{what} {found}"))
}

/// The size of a drawing by its columns and rows, to scale unless it is very long.
fn fitted(size: [i64; 2]) -> [f64; 2] {
    let [columns, rows] = size.map(|size| size.max(1) as f64);
    let scale = (WIDE / columns).min(HIGH / rows);
    [(columns * scale).clamp(40.0, WIDE), (rows * scale).clamp(14.0, HIGH)]
}

fn outline(svg: &mut Svg, class: &str, [x, y, wide, high]: [f64; 4]) {
    svg.line(class, 1.0, &[[x, y], [x + wide, y], [x + wide, y + high], [x, y + high], [x, y]]);
}
