//! Queries, keys, values and scores of one head of attention, to scale, and the three launches between them.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// The page's main case.
const TOKENS: usize = 4096;
const HEADS: usize = 8;
const CHANNELS: usize = 64;

/// MiB of a matrix of floats for each head, with one row per token.
fn mebibytes(columns: usize) -> usize {
    HEADS * TOKENS * columns * size_of::<f32>() / (1 << 20)
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let (small, large) = (mebibytes(CHANNELS), mebibytes(TOKENS));
    let mut canvas = Canvas::new("drawing-attention-scores");
    let scores = Area::new(64.0, 48.0, 192.0, 192.0);
    let thin = scores.width * CHANNELS as f64 / TOKENS as f64;
    let tall = |x| Area::new(x, scores.y, thin, scores.height);
    let (q, v, out) = (tall(44.0), tall(300.0), tall(362.0));
    let k = Area::new(scores.x, 34.0, scores.width, thin);
    canvas.area(scores, Look::First);
    for area in [q, k, v, out] {
        canvas.bar(area, "second");
    }

    let row = Area::new(scores.x, scores.centre() - 5.0, scores.width, 10.0);
    canvas.area(row, Look::Second);
    canvas.arrow(&[(row.x + 4.0, row.centre()), (row.right() - 2.0, row.centre())], Stroke::Plain);
    let middle = scores.middle();
    canvas.text((middle, scores.y + 28.0), Style::MIDDLE.bold(), "1: Q · Kᵀ / √d");
    canvas.text((middle, scores.y + 46.0), Style::MIDDLE.small(), &format!("[{TOKENS}, {TOKENS}]"));
    canvas.text((middle, row.y - 9.0), Style::MIDDLE.bold(), "2: softmax of each row");
    canvas.text((middle, row.bottom() + 46.0), Style::MIDDLE.bold(), &format!("{large} MiB"));
    canvas.text((middle, row.bottom() + 62.0), Style::MIDDLE.small(), &format!("for {HEADS} heads"));
    canvas.text((k.middle(), k.y - 8.0), Style::MIDDLE, &format!("Kᵀ, {small} MiB"));

    for (from, to) in [(scores, v), (v, out)] {
        canvas.arrow(&[(from.right() + 6.0, scores.centre()), (to.x - 6.0, scores.centre())], Stroke::Plain);
    }
    canvas.text(((scores.right() + out.right()) / 2.0, k.y), Style::MIDDLE.bold(), "3: weights · V");
    for (area, name) in [(q, "Q"), (v, "V"), (out, "out")] {
        canvas.text((area.middle(), scores.bottom() + 18.0), Style::MIDDLE.bold(), name);
        canvas.text((area.middle(), scores.bottom() + 34.0), Style::MIDDLE.small(), &format!("{small} MiB"));
    }
    canvas.text((middle, scores.bottom() + 18.0), Style::MIDDLE.bold(), "scores");

    let times = large / small;
    let alternative = format!(
        "The matrices of one head to scale, at {TOKENS} tokens and {CHANNELS} channels. Q, K, V and the result are slivers of {small} MiB; the \
         square of scores between them has {large} MiB. The first launch multiplies Q by K transposed, the second applies softmax along \
         each row of the scores, the third multiplies them by V."
    );
    let caption = format!("To scale: the scores are {times} times as large as Q, K, V or the result.");
    Ok(canvas.finish(scores.bottom() + 42.0, &alternative, caption))
}
