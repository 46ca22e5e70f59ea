//! A block's queries, and the keys and values that it goes through.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Number of blocks of queries and pieces of keys that are drawn.
const BLOCKS: usize = 4;
const PIECES: usize = 6;
/// The block, and the piece that it works on.
const BLOCK: usize = 1;
const NOW: usize = 2;

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let kernel = Constants::of(workspace, "phase4-fusion/kernels/attention_01_online.cu")?;
    let (queries, keys) = (kernel.get("BM")?, kernel.get("BN")?);

    let mut canvas = Canvas::new("drawing-attention-blocks");
    let scores = Area::new(76.0, 104.0, 228.0, 168.0);
    let of_k = Area::new(scores.x, 28.0, scores.width, 24.0);
    let of_v = Area::new(scores.x, 64.0, scores.width, 24.0);
    let of_q = Area::new(34.0, scores.y, 28.0, scores.height);
    let out = Area::new(318.0, scores.y, 28.0, scores.height);
    let piece = |area: Area, at| area.cells([1, PIECES], [0, at], [1, 1]);
    let block = |area: Area| area.cells([BLOCKS, 1], [BLOCK, 0], [1, 1]);
    let tile = |at| scores.cells([BLOCKS, PIECES], [BLOCK, at], [1, 1]);

    for at in 0..NOW {
        canvas.area(tile(at), Look::Faint);
        canvas.text((tile(at).middle(), tile(at).centre() + 4.0), Style::MIDDLE.small(), "gone");
    }
    canvas.area(tile(NOW), Look::First);
    canvas.inside(tile(NOW), "now");
    canvas.area(piece(of_k, NOW), Look::First);
    canvas.area(piece(of_v, NOW), Look::First);
    canvas.area(block(of_q), Look::Second);
    canvas.area(block(out), Look::Second);
    for (area, grid) in [(of_k, [1, PIECES]), (of_v, [1, PIECES]), (of_q, [BLOCKS, 1]), (out, [BLOCKS, 1])] {
        canvas.grid(area, grid);
    }
    canvas.area(scores, Look::Dashed);
    let next = tile(NOW + 1);
    canvas.arrow(&[(next.x + 4.0, next.centre()), (scores.right() - 4.0, next.centre())], Stroke::First);

    canvas.text((of_k.x - 8.0, of_k.centre() + 4.0), Style::END.bold(), "Kᵀ");
    canvas.text((of_v.x - 8.0, of_v.centre() + 4.0), Style::END.bold(), "V");
    canvas.text((of_q.middle(), scores.bottom() + 17.0), Style::MIDDLE.bold(), "Q");
    canvas.text((out.middle(), scores.bottom() + 17.0), Style::MIDDLE.bold(), "out");
    canvas.text((of_k.middle(), 16.0), Style::MIDDLE.small(), &format!("keys, {keys} at a time"));
    canvas.text((scores.middle(), scores.bottom() + 17.0), Style::MIDDLE.small(), "scores: only the tile exists");
    canvas.text((of_q.x - 6.0, block(of_q).centre() + 4.0), Style::END.small(), &queries.to_string());
    let own = block(out);
    canvas.line(&[(own.right(), own.centre()), (352.0, own.centre())], Stroke::Plain);
    for (at, text) in (0..).zip(["O", "max", "sum"]) {
        canvas.text((355.0, own.centre() - 10.0 + 16.0 * f64::from(at)), Style::START.small(), text);
    }

    let alternative = format!(
        "The matrix of scores, queries down and keys across, drawn as an empty outline. A block keeps {queries} queries, a band of the \
         matrix, and goes along the keys, {keys} at a time. Only the scores of the present piece exist; those before are gone. Beside the \
         band are the block's output, its largest score and its sum."
    );
    let caption = format!(
        "Step 1: a block keeps {queries} queries, their outputs, maxima and sums; {keys} keys and values at a time pass it by."
    );
    Ok(canvas.finish(298.0, &alternative, caption))
}
