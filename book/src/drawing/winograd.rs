//! Winograd's F(2×2, 3×3): the three transforms, and the product by place between them.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Twice Bᵀ, twice G and twice Aᵀ, so that they are whole.
const INPUT: [[i32; 4]; 4] = [[2, 0, -2, 0], [0, 2, 2, 0], [0, -2, 2, 0], [0, 2, 0, -2]];
const WEIGHT: [[i32; 3]; 4] = [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]];
const OUTPUT: [[i32; 4]; 2] = [[2, 2, 2, 0], [0, 2, -2, -2]];

/// Half of `twice`, as text.
fn half(twice: i32) -> &'static str {
    match twice {
        -2 => "−1",
        -1 => "−½",
        1 => "½",
        2 => "1",
        _ => "0",
    }
}

/// A square of cells with its name above it.
fn square(canvas: &mut Canvas, [x, y]: [f64; 2], cells: usize, look: Look, name: &str) -> Area {
    const CELL: f64 = 17.0;
    let side = CELL * cells as f64;
    let area = Area::new(x, y, side, side);
    canvas.area(area, look);
    canvas.grid(area, [cells; 2]);
    canvas.text((area.middle(), y - 6.0), Style::MIDDLE.bold(), name);
    area
}

fn arrow(canvas: &mut Canvas, from: Area, to: Area, name: &str) {
    let (start, end) = ((from.right() + 4.0, from.centre()), (to.x - 4.0, to.centre()));
    canvas.arrow(&[start, end], Stroke::Plain);
    canvas.text(((start.0 + end.0) / 2.0, (start.1 + end.1) / 2.0 - 7.0), Style::MIDDLE.small(), name);
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let mut canvas = Canvas::new("drawing-winograd");
    let d = square(&mut canvas, [6.0, 26.0], 4, Look::First, "d: input");
    let v = square(&mut canvas, [134.0, 26.0], 4, Look::First, "V");
    let g = square(&mut canvas, [14.0, 142.0], 3, Look::Second, "g: weights");
    let u = square(&mut canvas, [134.0, 133.0], 4, Look::Second, "U");
    let m = square(&mut canvas, [236.0, 80.0], 4, Look::Third, "M");
    let y = square(&mut canvas, [358.0, 97.0], 2, Look::Outline, "out");
    arrow(&mut canvas, d, v, "Bᵀ d B");
    arrow(&mut canvas, g, u, "G g Gᵀ");
    arrow(&mut canvas, m, y, "Aᵀ M A");
    canvas.arrow(&[(v.right() + 4.0, v.centre() + 10.0), (m.x - 4.0, m.centre() - 16.0)], Stroke::Plain);
    canvas.arrow(&[(u.right() + 4.0, u.centre() - 10.0), (m.x - 4.0, m.centre() + 16.0)], Stroke::Plain);
    canvas.text((m.middle() + 14.0, m.bottom() + 18.0), Style::MIDDLE.small(), "M += U ∘ V,");
    canvas.text((m.middle() + 14.0, m.bottom() + 33.0), Style::MIDDLE.small(), "once per input channel");

    let top = 236.0;
    matrix(&mut canvas, [6.0, top], "Bᵀ =", &INPUT.map(|row| row.map(half).to_vec()));
    matrix(&mut canvas, [142.0, top], "G =", &WEIGHT.map(|row| row.map(half).to_vec()));
    matrix(&mut canvas, [262.0, top], "Aᵀ =", &OUTPUT.map(|row| row.map(half).to_vec()));

    let alternative = "An input tile d of 4 × 4 values becomes V, 4 × 4. The weights g, 3 × 3, become U, 4 × 4. U and V are multiplied place \
         by place and added up over the input channels into M, 4 × 4, from which come 2 × 2 outputs. Below are the matrices of the three \
         transforms.";
    let caption =
        "F(2×2, 3×3): between the transforms are 16 multiplications for 4 outputs, where a plain convolution has 36.";
    Ok(canvas.finish(312.0, alternative, caption))
}

/// A matrix of numbers between brackets.
fn matrix(canvas: &mut Canvas, [x, y]: [f64; 2], name: &str, rows: &[Vec<&str>]) {
    const ACROSS: f64 = 21.0;
    const DOWN: f64 = 18.0;
    let (left, height) = (x + 34.0, DOWN * rows.len() as f64);
    let right = left + ACROSS * rows.first().map_or(0, Vec::len) as f64;
    canvas.text((x, y + height / 2.0 + 4.0), Style::START, name);
    for (edge, inward) in [(left, 4.0), (right, -4.0)] {
        let (top, bottom) = (y - 2.0, y + height + 2.0);
        canvas.line(&[(edge + inward, top), (edge, top), (edge, bottom), (edge + inward, bottom)], Stroke::Plain);
    }
    for (at, row) in rows.iter().enumerate() {
        for (column, number) in row.iter().enumerate() {
            let place = (left + ACROSS * (column as f64 + 0.5), y + DOWN * (at as f64 + 0.5) + 4.0);
            canvas.text(place, Style::MIDDLE.small(), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `left` · `middle` · `left`ᵀ, for a `middle` of N × N.
    fn both_sides<const R: usize, const N: usize>(left: [[i32; N]; R], middle: [[i32; N]; N]) -> [[i32; R]; R] {
        let sum = |r: usize, s: usize| {
            (0..N).flat_map(|i| (0..N).map(move |j| (i, j))).map(|(i, j)| left[r][i] * middle[i][j] * left[s][j]).sum()
        };
        std::array::from_fn(|r| std::array::from_fn(|s| sum(r, s)))
    }

    #[test]
    fn the_matrices_that_are_shown_make_a_convolution() {
        let d: [[i32; 4]; 4] = std::array::from_fn(|y| std::array::from_fn(|x| (7 * y * y + 3 * x + x * y) as i32 - 9));
        let g = [[3, -1, 4], [1, 5, -9], [2, 6, -5]];
        let (v, u) = (both_sides(INPUT, d), both_sides(WEIGHT, g));
        let m: [[i32; 4]; 4] = std::array::from_fn(|y| std::array::from_fn(|x| u[y][x] * v[y][x]));
        let outputs = both_sides(OUTPUT, m);
        let plain =
            |y: usize, x: usize| -> i32 { (0..9).map(|tap| d[y + tap / 3][x + tap % 3] * g[tap / 3][tap % 3]).sum() };
        // Each of the three pairs of matrices has a factor of 2 · 2.
        assert_eq!(outputs, [0, 1].map(|y| [0, 1].map(|x| 64 * plain(y, x))));
    }
}
