//! Values that the lanes of a warp read from A and B for one i, in steps 1 and 2 of the GEMM ladder, and the sectors that hold them.

use std::{ops::Range, path::Path};

use crate::content::Picture;

use super::{
    Constants, DrawingError,
    canvas::{Area, Canvas, Look, Style},
};

/// Lanes of a warp.
const LANES: usize = 32;
/// Floats of a sector.
const SECTOR: usize = 8;
/// Values along K that are drawn, and the i that the lanes have reached.
const ALONG_K: usize = 10;
const I: usize = 5;
/// Row or column of the tile that the warp computes.
const OWN: usize = 11;
/// Side of an element of C in the picture, and width of a step along K.
const CELL: f64 = 4.0;
const STEP: f64 = 5.0;
/// Upper edge of C.
const TOP: f64 = 84.0;

/// Rows and columns of a matrix that the lanes read together.
struct Read {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Read {
    /// Columns of the sectors that hold the values.
    fn fetched(&self) -> Range<usize> {
        self.columns.start / SECTOR * SECTOR..self.columns.end.next_multiple_of(SECTOR)
    }

    fn sectors(&self) -> usize {
        self.rows.len() * self.fetched().len() / SECTOR
    }

    /// Draws a matrix of this many rows and columns, the sectors and the values in them.
    fn draw(&self, canvas: &mut Canvas, matrix: Area, grid: [usize; 2]) {
        canvas.area(matrix, Look::Outline);
        for column in self.fetched().step_by(SECTOR) {
            let sectors = matrix.cells(grid, [self.rows.start, column], [self.rows.len(), SECTOR]);
            canvas.area(sectors, Look::First);
            canvas.grid(sectors, [self.rows.len(), 1]);
        }
        let first = [self.rows.start, self.columns.start];
        let mut used = matrix.cells(grid, first, [self.rows.len(), self.columns.len()]);
        if self.rows.len() == 1 {
            // The sectors' edges stay visible.
            (used.y, used.height) = (used.y + 1.0, used.height - 2.0);
        }
        canvas.bar(used, "second");
    }
}

pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let kernel = Constants::of(workspace, "phase2-conv-bn/kernels/gemm_02_coalesced.cu")?;
    let tile = [kernel.get("BM")?, kernel.get("BN")?];
    let (one, own, all) = (I..I + 1, OWN..OWN + 1, 0..LANES);
    let steps = [("step 1: lanes down a column", all.clone(), own.clone()), ("step 2: lanes along a row", own, all)];

    let mut canvas = Canvas::new("drawing-warp-lanes");
    let mut said = Vec::new();
    for (x, (title, rows, columns)) in [5.0, 208.0].into_iter().zip(steps) {
        let along_k = STEP * ALONG_K as f64;
        let c = Area::new(x + along_k + 8.0, TOP, CELL * tile[1] as f64, CELL * tile[0] as f64);
        let a = Area::new(x, c.y, along_k, c.height);
        let b = Area::new(c.x, c.y - 8.0 - along_k, c.width, along_k);
        let of_a = Read { rows: rows.clone(), columns: one.clone() };
        let of_b = Read { rows: one.clone(), columns: columns.clone() };
        of_a.draw(&mut canvas, a, [tile[0], ALONG_K]);
        of_b.draw(&mut canvas, b, [ALONG_K, tile[1]]);
        canvas.area(c, Look::Outline);
        let warp = c.cells(tile, [rows.start, columns.start], [rows.len(), columns.len()]);
        canvas.area(warp, Look::Second);

        canvas.text((x + 93.0, 14.0), Style::MIDDLE.bold(), title);
        canvas.text((a.middle(), a.y - 8.0), Style::MIDDLE.bold(), "A");
        canvas.text((b.x - 8.0, b.centre() + 4.0), Style::END.bold(), "B");
        canvas.text((c.middle() + 24.0, c.centre() + 28.0), Style::MIDDLE.bold(), "C");
        let ends = if rows.len() > 1 {
            [(warp.right() + 4.0, c.y + 14.0), (warp.right() + 4.0, c.bottom() - 6.0)]
        } else {
            [(c.x + 4.0, warp.bottom() + 14.0), (c.right() - 46.0, warp.bottom() + 14.0)]
        };
        for (place, lane) in ends.into_iter().zip([0, LANES - 1]) {
            canvas.text(place, Style::START.small(), &format!("lane {lane}"));
        }
        let (in_a, in_b) = (of_a.sectors(), of_b.sectors());
        let both = in_a + in_b;
        canvas.text((x + 93.0, c.bottom() + 20.0), Style::MIDDLE, &format!("sectors: A {in_a}, B {in_b}"));
        let mean = format!("{both} / 2 = {} per load", both as f64 / 2.0);
        canvas.text((x + 93.0, c.bottom() + 38.0), Style::MIDDLE.bold(), &mean);
        said.push(format!("{title}, {in_a} sectors of A and {in_b} of B"));
    }
    let legend = TOP + CELL * tile[0] as f64 + 66.0;
    canvas.key((60.0, legend), Look::First, "fetched: whole sectors");
    canvas.bar(Area::new(250.0, legend - 11.0, 20.0, 14.0), "second");
    canvas.text((276.0, legend), Style::START, "used");

    let alternative = format!(
        "A, B and a tile of C, twice, with the {LANES} lanes of one warp and the values that they read for one i. {}. Down a column, each lane \
         reads a row of A of its own, and uses one value in {SECTOR} of what is fetched.",
        said.join("; ")
    );
    let caption = "What one warp reads for one i. In step 1 each lane's value of A lies in a sector of its own.";
    Ok(canvas.finish(legend + 12.0, &alternative, caption))
}
