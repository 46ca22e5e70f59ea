//! A product whose sums lie in tensor memory: where A, B and D are, and which warp loads what of D.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Columns of tensor memory.
const COLUMNS: usize = 512;

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let kernel = Constants::of(workspace, "phase4-fusion/kernels/gemm_14_tensor_memory.cu")?;
    let bk = Constants::of(workspace, "phase4-fusion/kernels/swizzled.cuh")?.get("BK")?;
    let [lanes, columns, warps] = [kernel.get("BM")?, kernel.get("BN")?, kernel.get("THREADS")? / 32];
    let each = lanes / warps;

    let mut canvas = Canvas::new("drawing-tensor-memory");
    let memory = Area::new(64.0, 96.0, 240.0, 128.0);
    let sums = Area { width: memory.width * columns as f64 / COLUMNS as f64, ..memory };
    let of_a = Area::new(12.0, memory.y, 28.0, memory.height);
    let of_b = Area::new(sums.x, 44.0, sums.width, 28.0);
    for (area, name) in [(of_a, "A"), (of_b, "B")] {
        canvas.area(area, Look::First);
        canvas.inside(area, name);
    }
    canvas.text((of_b.x, of_b.y - 10.0), Style::START.small(), &format!("shared memory: {bk} × {columns}"));
    canvas.text((of_a.x, of_a.bottom() + 18.0), Style::START.small(), &format!("{lanes} × {bk}"));
    canvas.area(sums, Look::Second);
    canvas.grid(memory, [warps, 2]);
    canvas.text((memory.right(), memory.y - 10.0), Style::END.bold(), "tensor memory");
    canvas.text((sums.middle(), sums.bottom() + 18.0), Style::MIDDLE.small(), &format!("D: {columns} columns"));
    let free = format!("{} free", COLUMNS - columns);
    canvas.text(((sums.right() + memory.right()) / 2.0, memory.bottom() + 18.0), Style::MIDDLE.small(), &free);
    for warp in 0..warps {
        let band = memory.cells([warps, 1], [warp, 0], [1, 1]);
        let to = Area::new(332.0, band.y + 5.0, 60.0, band.height - 10.0);
        canvas.area(to, Look::Outline);
        canvas.inside(to, &format!("warp {warp}"));
        canvas.arrow(&[(band.right() + 2.0, band.centre()), (to.x - 2.0, band.centre())], Stroke::Plain);
    }
    canvas.text((392.0, memory.bottom() + 18.0), Style::END.small(), &format!("{each} lanes each"));

    let alternative = format!(
        "Tensor memory as a grid of {lanes} lanes and {COLUMNS} columns. The sums D take {columns} columns. A stands to their left, one \
         row per lane, and B above them, one column per column: both lie in shared memory. On the right {warps} warps, each beside the \
         {each} lanes that it can load."
    );
    let caption =
        format!("Rows of D are lanes of tensor memory. Warp w can load lanes {each}w to {each}w + {} alone.", each - 1);
    Ok(canvas.finish(254.0, &alternative, caption))
}
