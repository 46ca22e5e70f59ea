//! Two ways of an all-reduce over four GPUs, step by step: the ring, and two shots.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style, WIDTH},
};

/// GPUs, and parts of the values.
const RANKS: usize = 4;
/// The part whose way is drawn.
const PART: usize = 1;
/// Side of a part, and distance from one GPU to the next.
const CELL: f64 = 15.0;
const APART: f64 = 92.0;

/// For each GPU and part, the number of GPUs whose values are in it.
type Counts = [[usize; RANKS]; RANKS];

/// A part that goes from one GPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    from: usize,
    to: usize,
    part: usize,
}

/// Transfers of a step of the ring.
fn ring(step: usize) -> Vec<Transfer> {
    let transfer = |from| Transfer { from, to: (from + 1) % RANKS, part: (from + 2 * RANKS - step) % RANKS };
    (0..RANKS).map(transfer).collect()
}

/// Transfers of the first or the second shot.
fn two_shots(step: usize) -> Vec<Transfer> {
    let others = |part: usize| (0..RANKS).filter(move |&other| other != part);
    let transfer = |part, other| match step {
        0 => Transfer { from: other, to: part, part },
        _ => Transfer { from: part, to: other, part },
    };
    (0..RANKS).flat_map(|part| others(part).map(move |other| transfer(part, other))).collect()
}

/// Counts after these transfers: a complete part replaces the receiver's, any other is added to it.
fn after(counts: &Counts, transfers: &[Transfer]) -> Counts {
    let mut next = *counts;
    for &Transfer { from, to, part } in transfers {
        let count = counts[from][part];
        next[to][part] = if count == RANKS { RANKS } else { next[to][part] + count };
    }
    next
}

/// Cell of a part.
fn cell(rank: usize, part: usize, y: f64) -> Area {
    Area::new(38.0 + APART * rank as f64 + CELL * part as f64, y, CELL, CELL)
}

/// Draws the GPUs after each step, the first row at `y`, and returns the lower edge of the last.
fn steps(canvas: &mut Canvas, mut y: f64, down: f64, all: &[Vec<Transfer>]) -> f64 {
    let mut counts = [[1; RANKS]; RANKS];
    row(canvas, y, "0", &counts);
    for (at, transfers) in all.iter().enumerate() {
        for transfer in transfers {
            let (from, to) = (cell(transfer.from, transfer.part, y), cell(transfer.to, transfer.part, y + down));
            let (begin, end) = ((from.middle(), from.bottom() + 1.0), (to.middle(), to.y - 1.0));
            let own = transfer.part == PART;
            if transfer.from == RANKS - 1 && transfer.to == 0 && all.len() > 2 {
                // Past the right edge, and in again at the left.
                let wide = APART * RANKS as f64;
                segment(canvas, begin, (end.0 + wide, end.1), own);
                segment(canvas, (begin.0 - wide, begin.1), end, own);
            } else {
                segment(canvas, begin, end, own);
            }
        }
        y += down;
        counts = after(&counts, transfers);
        row(canvas, y, &(at + 1).to_string(), &counts);
    }
    y + CELL
}

/// The part of a transfer's line that is inside the picture.
fn segment(canvas: &mut Canvas, from: (f64, f64), to: (f64, f64), own: bool) {
    const EDGES: [f64; 2] = [2.0, WIDTH - 2.0];
    let at = |x: f64| (x, from.1 + (to.1 - from.1) * (x - from.0) / (to.0 - from.0));
    let is_inside = |(x, _): (f64, f64)| (EDGES[0]..EDGES[1]).contains(&x);
    let points = [from, to].map(|point| if is_inside(point) { point } else { at(point.0.clamp(EDGES[0], EDGES[1])) });
    if !own {
        canvas.line(&points, Stroke::Faint);
    } else if is_inside(to) {
        canvas.arrow(&points, Stroke::First);
    } else {
        canvas.line(&points, Stroke::First);
    }
}

/// The GPUs after a step.
fn row(canvas: &mut Canvas, y: f64, name: &str, counts: &Counts) {
    canvas.text((22.0, y + 12.0), Style::END.bold(), name);
    for (rank, counts) in counts.iter().enumerate() {
        for (part, &count) in counts.iter().enumerate() {
            let area = cell(rank, part, y);
            canvas.area(area, if count == RANKS { Look::First } else { Look::Outline });
            canvas.text((area.middle(), y + 12.0), Style::MIDDLE.small(), &count.to_string());
        }
    }
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let rings: Vec<_> = (0..2 * (RANKS - 1)).map(ring).collect();
    let shots: Vec<_> = (0..2).map(two_shots).collect();
    let mut canvas = Canvas::new("drawing-all-reduce-ways");
    for rank in 0..RANKS {
        canvas.text((cell(rank, 2, 0.0).x, 16.0), Style::MIDDLE.small(), &format!("GPU {rank}"));
    }
    canvas.text((4.0, 38.0), Style::START.bold(), &format!("Ring: {} hand-overs", rings.len()));
    let end = steps(&mut canvas, 46.0, 33.0, &rings);
    canvas.text((4.0, end + 30.0), Style::START.bold(), &format!("Two shots: {} hand-overs", shots.len()));
    let end = steps(&mut canvas, end + 38.0, 50.0, &shots);

    let alternative = format!(
        "{RANKS} GPUs with {RANKS} parts each, after each hand-over; a part's number says how many GPUs' values it has. In the ring, each GPU passes a \
         part to its right neighbour in each of {} hand-overs: three add, three copy. With two shots, each GPU first adds up one part from \
         all, and then fetches the others.",
        rings.len()
    );
    let caption = format!(
        "Numbers: how many GPUs' values a part has; filled: complete. Arrows follow part {PART}, faint lines the others."
    );
    Ok(canvas.finish(end + 8.0, &alternative, caption))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_end_with_all_sums_on_all_gpus() {
        let rings: Vec<_> = (0..2 * (RANKS - 1)).map(ring).collect();
        let shots: Vec<_> = (0..2).map(two_shots).collect();
        for all in [rings, shots] {
            let mut counts = [[1; RANKS]; RANKS];
            for transfers in &all {
                assert_ne!(counts, [[RANKS; RANKS]; RANKS], "{all:?}");
                counts = after(&counts, transfers);
            }
            assert_eq!(counts, [[RANKS; RANKS]; RANKS], "{all:?}");
        }
    }
}
