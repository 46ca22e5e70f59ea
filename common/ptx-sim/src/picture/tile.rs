//! Tiles in shared memory as lines of 128 bytes, one word in each of the 32 banks: the position of each chunk of 16
//! bytes.

use super::svg::{Svg, WIDTH};
use super::{code, count};
use crate::trace::{BoxCopy, ProductTile, Site, Space, Trace};

/// Bytes of a line: four for each of 32 banks.
const LINE: u64 = 128;
const CHUNK: u64 = 16;
const CHUNKS: u64 = LINE / CHUNK;
/// Maximum lines drawn; the rest is only counted.
const MAX_LINES: usize = 32;
const LEFT: f64 = 84.0;
const COLUMN: f64 = (WIDTH - LEFT - 12.0) / CHUNKS as f64;
const ROW: f64 = 18.0;

/// A chunk as it is drawn.
struct Cell {
    at: u64,
    role: String,
    label: String,
    title: String,
    marked: bool,
}

/// Draws the positions of a box's chunks.
pub(super) fn draw_box(trace: &Trace, site: &Site, copy: &BoxCopy) -> String {
    let tensor = &copy.tensor;
    let heading = trace.heading(site);
    let size = match tensor.sizes.as_slice() {
        [] => format!("{} bytes of im2col", copy.bytes),
        sizes => format!("a box of {} {}", product(sizes), tensor.element),
    };
    let direction = if copy.loads { "to" } else { "from" };
    let what = format!(
        "{size}, rows of {}, {direction} {}; {}.",
        count(tensor.row_bytes as u32, "byte"),
        trace.locate(Space::Shared, copy.shared),
        swizzle(copy.swizzle)
    );
    // What a matrix instruction reads at a time.
    let column: Vec<u64> = copy.chunks.iter().filter(|chunk| chunk.place == 0).map(|chunk| chunk.at).take(8).collect();
    let found = format!(
        "Read together, as by ldmatrix or wgmma, the first chunks of {} rows: {}.",
        column.len(),
        ways(&column)
    );
    let mut svg = Svg::new(&heading, code(site), &[what.clone(), found.clone()]);
    let cells: Vec<Cell> = copy
        .chunks
        .iter()
        .map(|chunk| {
            let filled = match chunk.inside {
                0 => format!(", outside the tensor: {}", tensor.fill),
                CHUNK => String::new(),
                bytes => format!(", {} bytes outside the tensor: {}", CHUNK - bytes, tensor.fill),
            };
            Cell {
                at: chunk.at,
                role: if chunk.inside == 0 { "wait".into() } else { format!("r{} edge", chunk.place % 8) },
                label: format!("{}, {}", chunk.row, chunk.place),
                title: format!("row {}, chunk {}{filled}", chunk.row, chunk.place),
                marked: chunk.place == 0 && column.contains(&chunk.at),
            }
        })
        .collect();
    let outside = copy.chunks.iter().any(|chunk| chunk.inside == 0);
    let left = copy.bytes.div_ceil(CHUNK).saturating_sub(copy.chunks.len() as u64);
    lines(&mut svg, trace, &cells, left);
    svg.y += 18.0;
    let read = "In a cell: row of the box and chunk of 16 bytes in it. A colour for each chunk of a row; framed: the first of eight rows.";
    svg.text("n dim", 12.0, svg.y, read);
    if outside {
        let filled = format!("outside the tensor: {}", tensor.fill);
        svg.legend(&[("wait", &filled)]);
    }
    svg.finish(&format!("{heading}: a tile in shared memory"), &format!("{what} {found}"))
}

/// Draws the positions of A's or B's chunks for a product.
pub(super) fn draw_product(trace: &Trace, site: &Site, tile: &ProductTile) -> String {
    let heading = trace.heading(site);
    let ProductTile { name, element, extent: [extent, k], .. } = tile;
    let axis = if *name == "A" { "row" } else { "column" };
    let (along, m) = if *name == "A" { ("rows", "M") } else { ("columns", "N") };
    let (major, other) = if tile.mn_major { (format!("{m}-major"), along) } else { ("K-major".to_owned(), "k") };
    let what = format!(
        "{name}: {extent} {axis}s of {k} {element} along k, {major}; {}. Descriptor {:#018x}: start {:#x}, leading {}, stride {}.",
        swizzle(tile.swizzle),
        tile.descriptor,
        tile.start,
        tile.leading,
        tile.stride
    );
    // The first core matrix: eight lines of a chunk, which are read together.
    let core: Vec<u64> = tile.chunks.iter().filter(|(_, place)| in_core(tile, *place)).map(|(at, _)| *at).collect();
    let chunk_elements = (k * extent / tile.chunks.len().max(1)).max(1);
    let lines_of = if tile.mn_major { "steps of k" } else { along };
    let found = format!(
        "A core matrix: 8 {lines_of}, of each 16 bytes ({chunk_elements} {element} along {other}); {}.",
        ways(&core)
    );
    let walk = walk(tile, axis);
    let mut svg = Svg::new(&heading, &site.instruction, &[what.clone(), found.clone(), walk.clone()]);
    let cells: Vec<Cell> = tile
        .chunks
        .iter()
        .map(|&(at, [mn, step])| {
            let (line, chunk) = if tile.mn_major { (step, mn / chunk_elements) } else { (mn, step / chunk_elements) };
            let last = |first: usize| first + chunk_elements - 1;
            let title = if tile.mn_major {
                format!("{axis}s {mn} to {}, k = {step}", last(mn))
            } else {
                format!("{axis} {mn}, k = {step} to {}", last(step))
            };
            let label = if tile.mn_major {
                format!("{mn}–{}, k {step}", last(mn))
            } else {
                format!("{mn}, k {step}–{}", last(step))
            };
            Cell {
                at,
                // Core matrices in different colours.
                role: format!("r{} edge", (line / 8 * 2 + chunk) % 8),
                label,
                title,
                marked: core.contains(&at),
            }
        })
        .collect();
    lines(&mut svg, trace, &cells, 0);
    svg.y += 18.0;
    let read = format!("In a cell: {axis} and k. A colour for each core matrix; framed: the first of them.");
    svg.text("n dim", 12.0, svg.y, &read);
    svg.finish(&format!("{heading}: {name} in shared memory"), &format!("{what} {found} {walk}"))
}

/// Whether a chunk belongs to the core matrix at the tile's start.
fn in_core(tile: &ProductTile, [mn, k]: [usize; 2]) -> bool {
    if tile.mn_major { mn == 0 && k < 8 } else { mn < 8 && k == 0 }
}

/// Effect of the two offsets of a descriptor.
fn walk(tile: &ProductTile, axis: &str) -> String {
    let ProductTile { leading, stride, swizzle, mn_major, .. } = *tile;
    match (mn_major, swizzle) {
        (false, 16) => {
            format!("8 {axis}s on: + {stride} bytes (stride); the next chunk along k: + {leading} (leading).")
        }
        (false, _) => format!(
            "8 {axis}s on: + {stride} bytes (stride); the next chunk along k: + 16, then swizzled; the leading offset is not used."
        ),
        (true, 16) => {
            format!("8 steps of k on: + {leading} bytes (leading); the next chunk of {axis}s: + {stride} (stride).")
        }
        (true, _) => format!(
            "8 steps of k on: + {stride} bytes (stride); the next chunk of {axis}s: + 16, then swizzled; after {swizzle} bytes of them + {leading} (leading)."
        ),
    }
}

fn swizzle(bytes: u64) -> String {
    match bytes {
        16 => "no swizzle".to_owned(),
        bytes => format!("swizzle of {bytes} bytes"),
    }
}

fn product(sizes: &[u32]) -> String {
    sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(" × ")
}

/// Bank conflicts of reading those chunks together: a chunk takes four banks.
fn ways(chunks: &[u64]) -> String {
    let mut banks = [0u32; CHUNKS as usize];
    chunks.iter().for_each(|at| banks[(at % LINE / CHUNK) as usize] += 1);
    match banks.into_iter().max().unwrap_or(0) {
        0 | 1 => "no two are in the same banks".to_owned(),
        ways => format!("a {ways}-way bank conflict"),
    }
}

/// The lines of shared memory that have chunks; `left` more chunks are not among them.
fn lines(svg: &mut Svg, trace: &Trace, cells: &[Cell], left: u64) {
    let mut numbers: Vec<u64> = cells.iter().map(|cell| cell.at / LINE).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let top = svg.y + 14.0;
    svg.text("dim e", LEFT - 8.0, top, "banks");
    for chunk in 0..CHUNKS {
        let x = LEFT + (chunk as f64 + 0.5) * COLUMN;
        svg.text("n dim m", x, top, &format!("{}–{}", chunk * 4, chunk * 4 + 3));
    }
    let mut y = top + 7.0;
    let mut marked = Vec::new();
    for (index, line) in numbers.iter().take(MAX_LINES).enumerate() {
        if index > 0 && *line != numbers[index - 1] + 1 {
            y += 6.0; // memory between them is left out
        }
        svg.text("n dim e", LEFT - 8.0, y + 12.5, &label(trace, *line));
        svg.rect("empty", [LEFT + 0.5, y, CHUNKS as f64 * COLUMN - 1.0, ROW - 1.0]);
        for cell in cells.iter().filter(|cell| cell.at / LINE == *line) {
            let x = LEFT + (cell.at % LINE / CHUNK) as f64 * COLUMN;
            let place = [x + 0.5, y, COLUMN - 1.0, ROW - 1.0];
            svg.titled_rect(&cell.role, place, &cell.title);
            svg.text("n ink m", x + COLUMN / 2.0, y + 12.5, &cell.label);
            if cell.marked {
                let [x, y, wide, high] = place;
                marked.push([x + 1.0, y + 1.0, wide - 2.0, high - 2.0]);
            }
        }
        y += ROW;
    }
    for [x, y, wide, high] in marked {
        svg.line("pick", 1.6, &[[x, y], [x + wide, y], [x + wide, y + high], [x, y + high], [x, y - 0.8]]);
    }
    svg.y = y;
    let hidden = numbers.len().saturating_sub(MAX_LINES) as u64;
    if hidden + left != 0 {
        svg.y += 12.0;
        let more = hidden + left.div_ceil(CHUNKS);
        svg.text("dim", LEFT, svg.y, &format!("… and {} of 128 bytes", count(more as u32, "more line")));
    }
}

/// The variable and the offset at the start of a line.
fn label(trace: &Trace, line: u64) -> String {
    match trace.variable(Space::Shared, line * LINE) {
        Some(variable) => format!("+{}", line * LINE - variable.start),
        None => format!("{:#x}", line * LINE),
    }
}
