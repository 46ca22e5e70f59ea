//! The running maximum and sum of a row that arrives in pieces.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// A row of scores, in pieces.
const PIECES: [[f64; 4]; 3] = [[1.0, 3.0, 2.0, 0.0], [2.0, 5.0, 1.0, 4.0], [3.0, 0.0, 2.0, 1.0]];

/// State of the row after some pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    maximum: f64,
    sum: f64,
}

/// Effect of a piece on the state: the factor of the old sum, and the piece's contribution.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    factor: f64,
    added: f64,
    after: State,
}

impl State {
    const NONE: State = State { maximum: f64::NEG_INFINITY, sum: 0.0 };

    fn with(self, piece: &[f64]) -> Step {
        let maximum = piece.iter().copied().fold(self.maximum, f64::max);
        let factor = (self.maximum - maximum).exp();
        let added = piece.iter().map(|score| (score - maximum).exp()).sum();
        Step { factor, added, after: State { maximum, sum: self.sum * factor + added } }
    }
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let mut canvas = Canvas::new("drawing-online-softmax");
    let mut state = State::NONE;
    let mut before: Option<Area> = None;
    let mut said = String::new();
    for (at, piece) in (0..).zip(&PIECES) {
        let x = 4.0 + 134.0 * f64::from(at);
        let scores = Area::new(x, 28.0, 124.0, 28.0);
        let largest = piece.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (column, score) in piece.iter().enumerate() {
            let cell = scores.cells([1, piece.len()], [0, column], [1, 1]);
            canvas.area(cell, if *score == largest { Look::First } else { Look::Outline });
            canvas.inside(cell, &score.to_string());
        }
        canvas.text((scores.middle(), 18.0), Style::MIDDLE.bold(), &format!("piece {}", at + 1));

        let step = state.with(piece);
        let own = Area::new(x, 92.0, 124.0, 116.0);
        canvas.arrow(&[(own.middle(), scores.bottom() + 4.0), (own.middle(), own.y - 3.0)], Stroke::Plain);
        canvas.area(own, Look::Faint);
        let maximum = step.after.maximum;
        let lines = if state.maximum.is_finite() {
            [
                format!("max = {maximum}"),
                format!("sum = {:.3}", state.sum),
                format!("· e^({} − {maximum})", state.maximum),
                format!("+ {:.3}", step.added),
            ]
        } else {
            [format!("max = {maximum}"), format!("Σ e^(x − {maximum})"), String::new(), String::new()]
        };
        for (line, text) in (0..).zip(&lines).filter(|(_, text)| !text.is_empty()) {
            let style = if line == 0 { Style::MIDDLE.bold() } else { Style::MIDDLE };
            canvas.text((own.middle(), own.y + 20.0 + 19.0 * f64::from(line)), style, text);
        }
        canvas.text((own.middle(), own.bottom() - 12.0), Style::MIDDLE.bold(), &format!("= {:.3}", step.after.sum));
        if let Some(before) = before {
            canvas.arrow(&[(before.right(), own.centre()), (own.x, own.centre())], Stroke::First);
        }
        said += &format!(" After piece {} the maximum is {maximum} and the sum {:.3}.", at + 1, step.after.sum);
        (state, before) = (step.after, Some(own));
    }
    let whole = format!(
        "all twelve at once: max = {}, sum = {:.3}",
        state.maximum,
        State::NONE.with(PIECES.as_flattened()).after.sum
    );
    canvas.text((200.0, 232.0), Style::MIDDLE, &whole);

    let alternative =
        format!("A row of twelve scores in three pieces.{said} All scores at once have the same maximum and sum.");
    let caption = "A larger maximum scales the old sum down; an equal or smaller one changes nothing. Each sum adds up e^(score − max).";
    Ok(canvas.finish(242.0, &alternative, caption))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_give_what_the_row_gives() {
        let pieces = PIECES.iter().fold(State::NONE, |state, piece| state.with(piece).after);
        let whole = State::NONE.with(PIECES.as_flattened()).after;
        assert_eq!(pieces.maximum, whole.maximum);
        assert!((pieces.sum - whole.sum).abs() < 1e-12);
    }
}
