//! A thread's part of a block's tile, and its loads for each i.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let kernel = Constants::of(workspace, "phase2-conv-bn/kernels/gemm_05_register_tile.cu")?;
    let [bm, bn, tm, tn] = ["BM", "BN", "TM", "TN"].map(|name| kernel.get(name));
    let (bm, bn, tm, tn) = (bm?, bn?, tm?, tn?);
    let threads = [bm / tm, bn / tn];

    let mut canvas = Canvas::new("drawing-register-tile");
    let block = Area::new(8.0, 60.0, 144.0, 144.0);
    canvas.grid(block, threads);
    let thread = block.cells(threads, [3, 10], [1, 1]);
    canvas.area(thread, Look::Second);
    canvas.text((block.middle(), block.y - 24.0), Style::MIDDLE.bold(), "the block's tile of C");
    canvas.text(
        (block.middle(), block.y - 8.0),
        Style::MIDDLE.small(),
        &format!("{bm} × {bn}, {} threads", threads[0] * threads[1]),
    );

    let sums = Area::new(232.0, 60.0, 144.0, 144.0);
    canvas.line(&[(thread.right(), thread.y), (sums.x - 30.0, sums.y)], Stroke::Dashed);
    canvas.line(&[(thread.right(), thread.bottom()), (sums.x - 30.0, sums.bottom())], Stroke::Dashed);
    canvas.area(sums, Look::Second);
    canvas.grid(sums, [tm, tn]);
    let of_a = Area::new(sums.x - 26.0, sums.y, 18.0, sums.height);
    let of_b = Area::new(sums.x, sums.y - 26.0, sums.width, 18.0);
    for (area, cells) in [(of_a, [tm, 1]), (of_b, [1, tn])] {
        canvas.area(area, Look::First);
        canvas.grid(area, cells);
    }
    let multiply_adds = tm * tn;
    canvas.text((of_b.middle(), of_b.y - 8.0), Style::MIDDLE.small(), &format!("{tn} values of B, for one i"));
    canvas.text((of_a.right(), of_a.bottom() + 18.0), Style::MIDDLE.small(), &format!("{tm} values of A"));
    canvas.text((sums.right(), sums.bottom() + 18.0), Style::END.bold(), &format!("{multiply_adds} sums"));
    let loads = tm + tn;
    let line = format!("{loads} loads from shared memory, {multiply_adds} multiply-adds in registers");
    canvas.text((200.0, 250.0), Style::MIDDLE, &line);

    let alternative = format!(
        "A block's tile of {bm} × {bn} elements of C is divided among {} × {} threads. A thread's square of {tm} × {tn} sums is enlarged: \
         {tm} values of A beside its rows and {tn} values of B above its columns give {multiply_adds} multiply-adds.",
        threads[0], threads[1]
    );
    let caption = format!("Step 5: each thread keeps {tm} × {tn} sums, and reuses each loaded value {tm} times.");
    Ok(canvas.finish(260.0, &alternative, caption))
}
