//! The part of a block's tile that a warp takes, in step 7 and in step 8 of the GEMM ladder, and the values that it needs for each i.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Style},
};

/// Lanes of a warp.
const LANES: usize = 32;
/// The warp that is drawn.
const WARP: usize = 2;

/// Rows and columns of C that a warp takes.
type Shape = [usize; 2];

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let before = Constants::of(workspace, "phase2-conv-bn/kernels/gemm_07_no_conflicts.cu")?;
    let after = Constants::of(workspace, "phase2-conv-bn/kernels/gemm_08_warp_tiles.cu")?;
    // Threads of step 7 are numbered along the rows of the tile.
    let across = before.get("BN")? / before.get("TN")?;
    let rows = LANES / across * before.get("TM")?;
    let block = [after.get("BM")?, after.get("BN")?];
    let shapes: [Shape; 2] = [[rows, before.get("BN")?], [after.get("WM")?, after.get("WN")?]];

    let mut canvas = Canvas::new("drawing-warp-tiles");
    for ((x, step), shape) in [(38.0, 7), (240.0, 8)].into_iter().zip(shapes) {
        let tile = Area::new(x, 62.0, 150.0, 150.0);
        let [down, across] = [block[0] / shape[0], block[1] / shape[1]];
        canvas.grid(tile, [down, across]);
        let place = [WARP / across, WARP % across];
        let own = tile.cells([down, across], place, [1, 1]);
        canvas.area(own, Look::Second);
        let of_a = Area::new(tile.x - 18.0, own.y, 12.0, own.height);
        let of_b = Area::new(own.x, tile.y - 18.0, own.width, 12.0);
        canvas.area(of_a, Look::First);
        canvas.area(of_b, Look::First);
        canvas.text((of_a.x - 4.0, own.centre() + 4.0), Style::END.small(), &shape[0].to_string());
        canvas.text((of_b.middle(), of_b.y - 5.0), Style::MIDDLE.small(), &shape[1].to_string());
        canvas.text((tile.middle(), 16.0), Style::MIDDLE.bold(), &format!("step {step}: {} × {}", shape[0], shape[1]));
        let values = shape[0] + shape[1];
        canvas.text(
            (tile.middle(), tile.bottom() + 18.0),
            Style::MIDDLE,
            &format!("{} + {} = {values} values", shape[0], shape[1]),
        );
        let multiply_adds = shape[0] * shape[1];
        canvas.text(
            (tile.middle(), tile.bottom() + 35.0),
            Style::MIDDLE.small(),
            &format!("for {multiply_adds} multiply-adds"),
        );
    }
    let alternative = format!(
        "A block's tile of {} × {} twice, with the part of one warp. In step 7 it is {} rows of {} columns, in step 8 {} rows of {}. \
         Strips beside and above the part show the values of A and B that it needs: fewer in step 8.",
        block[0], block[1], shapes[0][0], shapes[0][1], shapes[1][0], shapes[1][1]
    );
    let caption = "One warp's part of the block's tile (hatched), and the values of A (left) and B (above) that it reads for each i.";
    Ok(canvas.finish(256.0, &alternative, caption))
}
