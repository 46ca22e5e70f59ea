//! Scales of the rows of a block-scaled product: in which columns of tensor memory they lie, and that every quarter of its lanes has all.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Quarters of the lanes, and columns of the scales of 128 rows.
const PARTS: usize = 4;
/// Lanes of a quarter.
const LANES: usize = 32;
const LOOKS: [Look; PARTS] = [Look::First, Look::Second, Look::Third, Look::Faint];

pub(super) fn draw(_workspace: &Path) -> Result<Picture, DrawingError> {
    let mut canvas = Canvas::new("drawing-block-scales");
    let rows = Area::new(8.0, 54.0, 60.0, 144.0);
    let memory = Area::new(104.0, 54.0, 200.0, 144.0);
    let span = |part: usize| format!("{}–{}", part * LANES, part * LANES + LANES - 1);
    for (part, look) in LOOKS.into_iter().enumerate() {
        let own = rows.cells([PARTS, 1], [part, 0], [1, 1]);
        canvas.area(own, look);
        canvas.inside(own, &span(part));
        for quarter in 0..PARTS {
            let copy = memory.cells([PARTS; 2], [quarter, part], [1, 1]);
            canvas.area(copy, look);
            canvas.inside(copy, &span(part));
        }
        let column = memory.cells([1, PARTS], [0, part], [1, 1]);
        canvas.text((column.middle(), memory.bottom() + 18.0), Style::MIDDLE.small(), &format!("column {part}"));
        let quarter = memory.cells([PARTS, 1], [part, 0], [1, 1]);
        canvas.text(
            (memory.right() + 6.0, quarter.centre() + 4.0),
            Style::START.small(),
            &format!("lanes {}", span(part)),
        );
    }
    canvas.text((rows.x, 24.0), Style::START.bold(), "scales of A");
    canvas.text((rows.x, 42.0), Style::START.small(), "by row");
    canvas.text((memory.x, 24.0), Style::START.bold(), "tensor memory");
    canvas.text((memory.x, 42.0), Style::START.small(), "a word per row, four times");
    canvas.arrow(&[(rows.right() + 4.0, rows.centre()), (memory.x - 4.0, rows.centre())], Stroke::Plain);

    let alternative = "On the left the scales of 128 rows of A, in four parts of 32 rows. On the right four columns of tensor memory with its 128 \
                       lanes in quarters: column 0 has rows 0 to 31, column 1 rows 32 to 63, and so on, in every quarter alike.";
    Ok(canvas.finish(
        232.0,
        alternative,
        "Row r has its word of scales in column r / 32, in lane r mod 32 of every quarter.",
    ))
}
