//! A block's outputs of a 3×3 convolution, and the values around them that it needs too.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Side of the window.
const WINDOW: usize = 3;

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let tile = Constants::of(workspace, "phase2-conv-bn/kernels/conv_02_halo.cu")?.get("TILE")?;
    let side = tile + WINDOW - 1;

    let mut canvas = Canvas::new("drawing-halo");
    let values = Area::new(14.0, 10.0, 252.0, 252.0);
    let cells = |place, size| values.cells([side; 2], place, size);
    let margin = WINDOW / 2;
    for (place, size) in [
        ([0, 0], [margin, side]),
        ([side - margin, 0], [margin, side]),
        ([margin, 0], [tile, margin]),
        ([margin, side - margin], [tile, margin]),
    ] {
        canvas.area(cells(place, size), Look::Second);
    }
    let window = cells([0, tile - 1], [WINDOW; 2]);
    canvas.area(window, Look::First);
    canvas.grid(values, [side; 2]);
    let outputs = cells([margin; 2], [tile; 2]);
    canvas.area(outputs, Look::Thick);
    let output = cells([margin, tile], [1, 1]);
    canvas.area(output, Look::Thick);

    let note = 282.0;
    for (y, bold, text) in [
        (26.0, true, "a window"),
        (42.0, false, "nine values for"),
        (57.0, false, "one output"),
        (112.0, true, "the tile"),
        (128.0, false, &*format!("{tile} × {tile} outputs")),
        (190.0, true, "the halo"),
        (206.0, false, "values of other"),
        (221.0, false, "blocks' outputs"),
    ] {
        let style = if bold { Style::START.bold() } else { Style::START.small() };
        canvas.text((note, y), style, text);
    }
    canvas.line(&[(window.right(), window.centre()), (note - 4.0, 24.0)], Stroke::Plain);
    canvas.line(&[(outputs.right() - 30.0, 122.0), (note - 4.0, 110.0)], Stroke::Plain);
    canvas.line(&[(values.right() - 7.0, 196.0), (note - 4.0, 188.0)], Stroke::Plain);
    let (fetched, reads) = (side * side, tile * tile * WINDOW * WINDOW);
    let line = format!("fetched once: {side} × {side} = {fetched} values");
    canvas.text((14.0, 282.0), Style::START, &line);
    canvas.text((14.0, 299.0), Style::START, &format!("used: {tile} × {tile} × 9 = {reads} times"));

    let alternative = format!(
        "A square of {side} × {side} input values. The inner {tile} × {tile} are where the block's outputs are; the ring around them, one \
         value wide, is the halo. A window of 3 × 3 at the corner reaches into it."
    );
    let caption = format!(
        "A tile of {tile} × {tile} outputs of a 3×3 window, and its halo. Each value is used {:.1} times on average.",
        reads as f64 / fetched as f64
    );
    Ok(canvas.finish(308.0, &alternative, caption))
}
