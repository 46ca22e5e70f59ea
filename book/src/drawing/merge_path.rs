//! The path through a small sparse matrix's non-zeros and row ends, cut into equal shares.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Stroke, Style},
};

/// Where each row of the page's matrix starts among its non-zeros.
const STARTS: [usize; 4] = [0, 3, 4, 9];
const VALUES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
/// Sign of a row's end on the page.
const ROW_END: &str = "▌";
/// Looks of the threads' shares.
const THREADS: [(Stroke, &str); 3] = [(Stroke::First, "first"), (Stroke::Second, "second"), (Stroke::Third, "third")];

/// Rows that have ended and products that have been added, before each step and after the last.
fn path() -> Vec<[usize; 2]> {
    let mut points = vec![[0, 0]];
    let [mut row, mut value] = [0, 0];
    while row < STARTS.len() - 1 {
        if value < STARTS[row + 1] {
            value += 1;
        } else {
            row += 1;
        }
        points.push([row, value]);
    }
    points
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let (rows, values) = (STARTS.len() - 1, VALUES.len());
    let points = path();
    let share = (points.len() - 1).div_ceil(THREADS.len());
    let grid = Area::new(76.0, 52.0, 34.0 * values as f64, 34.0 * rows as f64);
    let place = |[row, value]: [usize; 2]| {
        let cell = grid.cells([rows, values], [row, value], [1, 1]);
        (cell.x, cell.y)
    };

    let mut canvas = Canvas::new("drawing-merge-path");
    canvas.grid(grid, [rows, values]);
    canvas.text((200.0, 16.0), Style::MIDDLE.small(), "right: add a product; down: a row ends, store its sum");
    for (at, name) in VALUES.iter().enumerate() {
        canvas.text((grid.cells([1, values], [0, at], [1, 1]).middle(), 38.0), Style::MIDDLE.bold(), name);
    }
    for row in 0..rows {
        let y = grid.cells([rows, 1], [row, 0], [1, 1]).centre() + 4.0;
        canvas.text((grid.x - 8.0, y), Style::END.small(), &format!("row {row} {ROW_END}"));
    }
    for cut in (share..points.len() - 1).step_by(share) {
        // All points after `cut` steps lie on it.
        let (above, below) = (place([0, cut]), place([rows, cut - rows]));
        canvas.line(&[above, (below.0 - 12.0, below.1 + 12.0)], Stroke::Dashed);
        let label = format!("step {cut}");
        canvas.text((below.0 - 14.0, below.1 + 26.0), Style::MIDDLE.small(), &label);
    }
    let mut said = Vec::new();
    for (thread, (stroke, hue)) in THREADS.into_iter().enumerate() {
        let own = &points[thread * share..=((thread + 1) * share).min(points.len() - 1)];
        let line: Vec<_> = own.iter().map(|&point| place(point)).collect();
        canvas.line(&line, stroke);
        let step = |pair: &[[usize; 2]]| if pair[0][0] < pair[1][0] { ROW_END } else { VALUES[pair[0][1]] };
        let steps = own.windows(2).map(step).collect::<Vec<_>>().join(" ");
        let text = format!("thread {thread}: {steps}");
        let x = 66.0 + 134.0 * thread as f64;
        canvas.text((x, grid.bottom() + 54.0), Style::MIDDLE.of(hue), &text);
        said.push(text.replace(ROW_END, "row end"));
    }
    for &point in points.iter().step_by(share) {
        canvas.mark(place(point), 0, "");
    }

    let alternative = format!(
        "A grid with {values} non-zeros across and {rows} row ends down. The path goes right for each product and down where a row ends. Two \
         diagonals cut its {} steps into equal shares: {}.",
        points.len() - 1,
        said.join("; ")
    );
    let caption = format!(
        "All points of a diagonal are equally many steps from the start. Each thread walks {share} steps of the path."
    );
    Ok(canvas.finish(grid.bottom() + 62.0, &alternative, caption))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_takes_every_value_and_every_row_end() {
        let points = path();
        assert_eq!(points.last(), Some(&[STARTS.len() - 1, VALUES.len()]));
        assert!(points.iter().enumerate().all(|(step, [row, value])| row + value == step), "{points:?}");
    }
}
