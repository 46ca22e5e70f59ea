//! Matrices as grids: the lane and register of each element.

use super::svg::{Svg, WIDTH};
use super::{code, count};
use crate::trace::{FragmentLayout, MatrixSite, Site, Trace};

const MARGIN: f64 = 12.0;
/// Room for row numbers and operand names.
const LABELS: f64 = 30.0;
const GAP: f64 = 26.0;
/// Width of a cell that has room for lane and register beside each other.
const WIDE: f64 = 40.0;
/// The marked lane, so that the eye can follow it through the operands.
const MARKED: u8 = 0;

pub(super) fn draw(trace: &Trace, site: &Site, warp: u32, matrix: &MatrixSite) -> String {
    match matrix {
        MatrixSite::Multiply(operands) => multiply(trace, site, operands),
        MatrixSite::Move(layout) => one(trace, site, layout),
        MatrixSite::Warpgroup { d, columns, registers, a } => {
            warpgroup(trace, site, warp, (d, [*columns, *registers]), a.as_ref())
        }
        MatrixSite::Rows { matrices, transposed, store } => rows(trace, site, *matrices, *transposed, *store),
    }
}

/// "A 16 × 8 of f16".
fn named(layout: &FragmentLayout) -> String {
    let [rows, columns] = layout.extent;
    let unit = match layout.elements_a_cell {
        1 => String::new(),
        elements => format!(" (a cell: {elements} elements)"),
    };
    format!("{} {rows} × {columns} of {}{unit}", layout.name, layout.element)
}

fn registers(layout: &FragmentLayout) -> u32 {
    layout.cells.iter().map(|(_, register, _)| u32::from(*register) + 1).max().unwrap_or(0)
}

fn held(layout: &FragmentLayout) -> String {
    let again = match layout.copies {
        0 => String::new(),
        copies => format!(" and {copies} that repeat them"),
    };
    format!("{}: {}{again} a lane", layout.name, count(registers(layout), "register"))
}

const READ_IT: &str = "In a cell: lane and register. Colours tell registers apart; lane 0 is framed.";

fn multiply(trace: &Trace, site: &Site, operands: &[FragmentLayout]) -> String {
    let heading = trace.heading(site);
    let (Some(a), Some(b), Some(d)) = (operands.first(), operands.get(1), operands.get(3)) else {
        return Svg::new(&heading, code(site), &[]).finish(&heading, "");
    };
    let same = operands.get(2).is_some_and(|c| c.cells == d.cells);
    let what = format!("D = A · B + C: {}; {}; {}.", named(a), named(b), named(d));
    let registers = [a, b, d].map(held).join("; ");
    let as_d = if same { " C is laid out as D." } else { "" };
    let mut svg = Svg::new(&heading, &site.instruction, &[what.clone(), format!("{READ_IT}{as_d}")]);
    let columns = (a.extent[1] + d.extent[1].max(b.extent[1])) as f64;
    let cell = ((WIDTH - 2.0 * MARGIN - 2.0 * LABELS - GAP) / columns).min(46.0);
    let height = if cell < WIDE { 26.0 } else { 21.0 };
    // B stands above D and A to its left, as in a product on paper.
    let wide = a.extent[1] as f64 * cell;
    let right = MARGIN + LABELS + wide + GAP + LABELS;
    let top = svg.y;
    // A box of B is as many rows high as its register has elements.
    let parts = b.cells.iter().map(|(.., part)| part + 1).max().unwrap_or(1);
    let low = (height / f64::from(parts)).max(12.0);
    let below = top + 22.0 + b.extent[0] as f64 * low + 14.0;
    grid(&mut svg, b, [right, top], [cell, low]);
    grid(&mut svg, d, [right, below], [cell, height]);
    grid(&mut svg, a, [MARGIN + LABELS, below], [cell, height]);
    svg.y = below + 22.0 + a.extent[0].max(d.extent[0]) as f64 * height;
    svg.y += 18.0;
    svg.text("n dim", MARGIN, svg.y, &format!("{registers}."));
    svg.finish(&format!("{heading}: fragments of {}", site.instruction), &format!("{what} {registers}."))
}

/// The rows of D, and of an A in registers, that belong to one of four warps.
fn warpgroup(
    trace: &Trace,
    site: &Site,
    warp: u32,
    (d, [columns, registers]): (&FragmentLayout, [usize; 2]),
    a: Option<&FragmentLayout>,
) -> String {
    let shown = d.extent[1];
    let what = format!(
        "D 64 × {columns} of {}; warp w of the four has rows 16w to 16w + 15: {} a lane.",
        d.element,
        count(registers as u32, "register")
    );
    let more =
        if shown < columns { format!(" The first {shown} columns; the others go on alike.") } else { String::new() };
    let of_a = a.map(|a| format!("{} of each warp, from registers; {}.", named(a), held(a)));
    let lines: Vec<String> = [Some(what), of_a, Some(format!("{READ_IT}{more}"))].into_iter().flatten().collect();
    let heading = trace.heading(site);
    let mut svg = Svg::new(&heading, &site.instruction, &lines);
    let first_row = (warp % 4) as usize * 16;
    for layout in a.into_iter().chain([d]) {
        let cell = ((WIDTH - 2.0 * MARGIN - LABELS) / layout.extent[1] as f64).min(46.0);
        let top = svg.y;
        numbered_grid(&mut svg, layout, first_row, [MARGIN + LABELS, top], [cell, 23.0]);
        svg.y = top + 22.0 + layout.extent[0] as f64 * 23.0 + 14.0;
    }
    svg.y -= 14.0;
    let description = lines[..lines.len() - 1].join(" ");
    svg.finish(&format!("{heading}: fragment of {}", site.instruction), &description)
}

fn one(trace: &Trace, site: &Site, layout: &FragmentLayout) -> String {
    let what = format!("{}; {}.", named(layout), held(layout));
    let heading = trace.heading(site);
    let mut svg = Svg::new(&heading, &site.instruction, &[what.clone(), READ_IT.to_owned()]);
    let cell = ((WIDTH - 2.0 * MARGIN - LABELS) / layout.extent[1] as f64).min(46.0);
    let top = svg.y;
    grid(&mut svg, layout, [MARGIN + LABELS, top], [cell, 23.0]);
    svg.y = top + 22.0 + layout.extent[0] as f64 * 23.0;
    svg.finish(&format!("{heading}: fragment of {}", site.instruction), &what)
}

/// A matrix with its top left corner at `origin`, below its name and column numbers.
fn grid(svg: &mut Svg, layout: &FragmentLayout, origin: [f64; 2], size: [f64; 2]) {
    numbered_grid(svg, layout, 0, origin, size);
}

/// The same, with the number of its first row.
fn numbered_grid(
    svg: &mut Svg,
    layout: &FragmentLayout,
    first_row: usize,
    [left, top]: [f64; 2],
    [width, height]: [f64; 2],
) {
    let [rows, columns] = layout.extent;
    let cell = |row: usize, column: usize| layout.cells[row * columns + column];
    let letter = layout.name.to_lowercase();
    let top = top + 22.0;
    if letter != "r" {
        svg.text("s ink e", left - 6.0, top - 6.0, layout.name);
    }
    for column in 0..columns {
        svg.text("t dim m", left + (column as f64 + 0.5) * width, top - 4.0, &column.to_string());
    }
    let mut marked = Vec::new();
    for row in 0..rows {
        svg.text("t dim e", left - 5.0, top + (row as f64 + 0.5) * height + 3.0, &(first_row + row).to_string());
        for column in 0..columns {
            let (lane, register, _) = cell(row, column);
            let same = |(other_lane, other, _): (u8, u8, u8)| (other_lane, other) == (lane, register);
            // Neighbours in one register are one box.
            if column > 0 && same(cell(row, column - 1)) || row > 0 && same(cell(row - 1, column)) {
                continue;
            }
            let across = (column..columns).take_while(|column| same(cell(row, *column))).count() as f64;
            let down = (row..rows).take_while(|row| same(cell(*row, column))).count() as f64;
            let place = [left + column as f64 * width, top + row as f64 * height, across * width, down * height];
            let [x, y, wide, high] = place;
            svg.titled_rect(
                &format!("r{} edge", register % 8),
                place,
                &format!("row {}, column {column}: lane {lane}, register {letter}{register}", first_row + row),
            );
            if lane == MARKED {
                marked.push([x + 1.0, y + 1.0, wide - 2.0, high - 2.0]);
            }
            let middle = x + wide / 2.0;
            if wide >= WIDE {
                svg.text("n ink e", middle - 1.0, y + high / 2.0 + 3.5, &lane.to_string());
                svg.text("t dim", middle + 4.0, y + high / 2.0 + 3.5, &format!("{letter}{register}"));
            } else {
                svg.text("n ink m", middle, y + high / 2.0 - 1.0, &lane.to_string());
                svg.text("t dim m", middle, y + high / 2.0 + 8.5, &format!("{letter}{register}"));
            }
        }
    }
    for [x, y, wide, high] in marked {
        svg.line("pick", 1.6, &[[x, y], [x + wide, y], [x + wide, y + high], [x, y + high], [x, y - 0.8]]);
    }
}

/// `ldmatrix` and `stmatrix`: the lane that gives a row's address stands left of it, the lanes that hold it are in its
/// cells.
fn rows(trace: &Trace, site: &Site, matrices: usize, transposed: bool, store: bool) -> String {
    let heading = trace.heading(site);
    let layout = |register: usize| FragmentLayout {
        name: "r",
        extent: [8, 8],
        element: "b16",
        elements_a_cell: 1,
        cells: (0..64)
            .map(|at| {
                let (row, column) = if transposed { (at % 8, at / 8) } else { (at / 8, at % 8) };
                ((row * 4 + column / 2) as u8, register as u8, (column % 2) as u8)
            })
            .collect(),
        copies: 0,
    };
    let direction = if store { "lanes to rows in memory" } else { "rows in memory to lanes" };
    let turned = if transposed { ", transposed: neighbours in a register come from one column" } else { "" };
    let what = format!(
        "{} of 8 × 8 elements of 16 bits, {direction}{turned}.",
        match matrices {
            1 => "1 matrix".to_owned(),
            several => format!("{several} matrices"),
        }
    );
    let read = "Left of a row: the lane that gives its address. In a cell: the lane and register that hold it.";
    let mut svg = Svg::new(&heading, &site.instruction, &[what.clone(), read.to_owned()]);
    let (cell, height, left) = (38.0, 23.0, 104.0);
    let first = svg.y;
    for register in 0..matrices {
        let layout = layout(register);
        let x = left + (register % 2) as f64 * (8.0 * cell + 116.0);
        let y = first + (register / 2) as f64 * (8.0 * height + 40.0);
        for row in 0..8 {
            let lane = register * 8 + row;
            svg.text("n ink e", x - 18.0, y + 22.0 + (row as f64 + 0.5) * height + 3.5, &format!("lane {lane} →"));
        }
        matrix_cells(&mut svg, &layout, [x, y], [cell, height], register);
        svg.y = y + 22.0 + 8.0 * height;
    }
    svg.finish(&format!("{heading}: {}", site.instruction), &what)
}

fn matrix_cells(svg: &mut Svg, layout: &FragmentLayout, origin: [f64; 2], size: [f64; 2], register: usize) {
    grid(svg, layout, origin, size);
    let title = format!("matrix {register}: register r{register}");
    svg.text("n dim m", origin[0] + 4.0 * size[0], origin[1] + 6.0, &title);
}
