//! A block's tiles of A and B, which move along K, and its tile of C, which stays.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Tiles along K.
const STEPS: usize = 5;
/// Tiles down and across C.
const TILES: usize = 4;
/// The block's tile of C: its row and column.
const BLOCK: [usize; 2] = [1, 2];

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let kernel = Constants::of(workspace, "phase2-conv-bn/kernels/gemm_03_shared_tile.cu")?;
    let [bm, bn, bk] = ["BM", "BN", "BK"].map(|name| kernel.get(name));
    let (bm, bn, bk) = (bm?, bn?, bk?);

    let mut canvas = Canvas::new("drawing-tile-along-k");
    let a = Area::new(12.0, 206.0, 160.0, 160.0);
    let b = Area::new(212.0, 26.0, 160.0, 160.0);
    let c = Area::new(212.0, 206.0, 160.0, 160.0);
    for (area, grid) in [(a, [TILES, STEPS]), (b, [STEPS, TILES]), (c, [TILES; 2])] {
        canvas.grid(area, grid);
    }
    let [row, column] = BLOCK;
    let of_a = |step| a.cells([TILES, STEPS], [row, step], [1, 1]);
    let of_b = |step| b.cells([STEPS, TILES], [step, column], [1, 1]);
    let looks = [(0, Look::Faint), (1, Look::First), (2, Look::Dashed)];
    for (step, look) in looks {
        canvas.area(of_a(step), look);
        canvas.area(of_b(step), look);
    }
    canvas.inside(of_a(1), "now");
    canvas.inside(of_b(1), "now");
    canvas.text((of_a(2).middle(), of_a(2).centre() + 4.0), Style::MIDDLE.small(), "next");
    canvas.text((of_b(2).middle(), of_b(2).centre() + 4.0), Style::MIDDLE.small(), "next");
    canvas.arrow(&[(of_a(3).x + 4.0, of_a(3).centre()), (a.right() - 4.0, of_a(3).centre())], Stroke::First);
    canvas.arrow(&[(of_b(3).middle(), of_b(3).y + 4.0), (of_b(3).middle(), b.bottom() - 4.0)], Stroke::First);
    let own = c.cells([TILES; 2], BLOCK, [1, 1]);
    canvas.area(own, Look::Second);

    canvas.text((a.middle(), a.bottom() + 18.0), Style::MIDDLE.bold(), "A [M, K]");
    canvas.text((c.middle(), c.bottom() + 18.0), Style::MIDDLE.bold(), "C [M, N]");
    canvas.text((b.middle(), 16.0), Style::MIDDLE.bold(), "B [K, N]");
    canvas.text((of_a(0).middle(), of_a(0).y - 5.0), Style::MIDDLE.small(), "BK");
    canvas.text((c.right() + 6.0, own.centre() + 4.0), Style::START.small(), "BM");
    canvas.text((own.middle(), c.y - 6.0), Style::MIDDLE.small(), "BN");
    let lines = [
        "Each step: fetch both",
        "tiles, wait, multiply,",
        "wait. The sums of the",
        "tile of C stay with",
        "their threads.",
    ];
    for (at, line) in (0..).zip(lines) {
        canvas.text((12.0, 56.0 + 18.0 * f64::from(at)), Style::START, line);
    }

    let alternative = "The matrices A, B and C of a product. A block's tile of A moves to the right along K and its tile of B moves down, one \
         step at a time; the block's tile of C, in the same rows as A's and the same columns as B's, stays.";
    let caption =
        format!("A block's tiles move along K; its tile of C stays. In step 3, BM = {bm}, BN = {bn} and BK = {bk}.");
    Ok(canvas.finish(390.0, alternative, caption))
}
