//! A grid's blocks, a block's warps and a warp's lanes.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Blocks down and across the drawn grid, and the enlarged one.
const BLOCKS: usize = 3;
const BLOCK: [usize; 2] = [1, 2];
/// Lanes of a warp.
const LANES: usize = 32;

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let mut canvas = Canvas::new("drawing-threads");
    let grid = Area::new(6.0, 28.0, 126.0, 126.0);
    canvas.area(grid, Look::Faint);
    let at = |[row, column]: [usize; 2]| {
        let cell = grid.cells([BLOCKS; 2], [row, column], [1, 1]);
        Area::new(cell.x + 6.0, cell.y + 6.0, cell.width - 12.0, cell.height - 12.0)
    };
    for place in (0..BLOCKS * BLOCKS).map(|place| [place / BLOCKS, place % BLOCKS]) {
        canvas.area(at(place), if place == BLOCK { Look::First } else { Look::Outline });
    }
    let block = Area::new(176.0, 28.0, 126.0, 126.0);
    canvas.area(block, Look::First);
    let warp = |row: usize| {
        let cell = block.cells([4, 1], [row, 0], [1, 1]);
        Area::new(cell.x + 8.0, cell.y + 4.0, cell.width - 16.0, cell.height - 8.0)
    };
    for (row, name) in ["warp 0", "warp 1", "warp 2", "…"].into_iter().enumerate() {
        canvas.area(warp(row), if row == 1 { Look::Second } else { Look::Outline });
        let style = if row == 1 { Style::MIDDLE.of("on-area") } else { Style::MIDDLE };
        canvas.text((warp(row).middle(), warp(row).centre() + 4.5), style, name);
    }
    let lanes = Area::new(8.0, 202.0, 384.0, 26.0);
    canvas.area(lanes, Look::Second);
    canvas.grid(lanes, [1, LANES]);
    for (name, lane) in [("0", 0), ("31", LANES - 1)] {
        let cell = lanes.cells([1, LANES], [0, lane], [1, 1]);
        canvas.text((cell.middle(), lanes.bottom() + 14.0), Style::MIDDLE.small(), name);
    }

    let own = at(BLOCK);
    canvas.line(&[(own.right(), own.y), (block.x, block.y)], Stroke::Dashed);
    canvas.line(&[(own.right(), own.bottom()), (block.x, block.bottom())], Stroke::Dashed);
    let own = warp(1);
    for (from, beside, to) in [(own.x, 164.0, lanes.x), (own.right(), 314.0, lanes.right())] {
        let corner = block.bottom() + 10.0;
        canvas.line(&[(from, own.centre()), (beside, own.centre()), (beside, corner), (to, lanes.y)], Stroke::Dashed);
    }
    canvas.text((grid.middle(), 16.0), Style::MIDDLE.bold(), "grid: blocks");
    canvas.text((block.middle(), 16.0), Style::MIDDLE.bold(), "block: warps");
    canvas.text((200.0, 192.0), Style::MIDDLE.bold(), &format!("warp: {LANES} lanes"));
    canvas.text((200.0, 250.0), Style::MIDDLE, "one instruction at a time, for all lanes");

    let alternative = format!(
        "A grid holds blocks; one of them, enlarged, holds warps; one of these, enlarged again, is {LANES} lanes in a row."
    );
    let caption = "A launch is a grid of blocks, a block is warps, and a warp is lanes.";
    Ok(canvas.finish(262.0, &alternative, caption))
}
