//! SMs at work over time for small products, with different tiles and slices of K, by the host's estimate of a step.

use std::path::Path;

use crate::content::Picture;

use super::{
    Constants, DrawingError, Recorded,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Values along K of a step, in f16.
const BK: usize = 64;
/// Height of all SMs in the picture.
const HEIGHT: f64 = 54.0;
/// Width of a microsecond, and the left edge.
const MICROSECOND: f64 = 28.0;
const LEFT: f64 = 10.0;

/// A way to compute a product.
struct Choice {
    /// M, N and K.
    product: [usize; 3],
    tile: [usize; 2],
    slices: usize,
}

impl Choice {
    fn blocks(&self) -> usize {
        self.product[0] / self.tile[0] * (self.product[1] / self.tile[1]) * self.slices
    }

    /// Microseconds of a wave's steps, as `Geometry::microseconds` of phase 4 estimates them.
    fn wave(&self, source: &Constants) -> Result<f64, DrawingError> {
        let [rows, columns] = self.tile;
        let step = source.rate("SHARED")? * (2 * rows + columns + rows / 64 * columns) as f64 / 8.0;
        let steps = self.product[2] / BK / self.slices;
        Ok(steps as f64 * step)
    }
}

/// Draws ways to compute one product, each at its position.
fn rectangles(workspace: &Path, name: &str, choices: &[((f64, f64), Choice)]) -> Result<Picture, DrawingError> {
    let source = Constants::of(workspace, "phase4-fusion/src/tile.rs")?;
    let device = Recorded::open(workspace, "phase1-infra/device-query")?;
    let sms = device.leading("multiprocessors (SM)", "value")? as usize;
    let mut canvas = Canvas::new(name);
    let mut said = Vec::new();
    for &((x, y), ref choice) in choices {
        let (blocks, wave) = (choice.blocks(), choice.wave(&source)?);
        let waves = blocks.div_ceil(sms);
        let [rows, columns] = choice.tile;
        let cut = if choice.slices > 1 { format!(" in {} slices", choice.slices) } else { String::new() };
        let total = wave * waves as f64;
        let title = format!("{rows} × {columns}{cut}: {blocks} blocks, {total:.1} µs");
        canvas.text((x, y - 6.0), Style::START.small(), &title);
        let all = Area::new(x, y, MICROSECOND * total, HEIGHT);
        for number in 0..waves {
            let busy = (blocks - number * sms).min(sms);
            let mut part = all.cells([sms, waves], [0, number], [busy, 1]);
            canvas.area(part, Look::Second);
            if busy < sms / 2 {
                (part.y, part.height) = (part.bottom(), all.bottom() - part.bottom());
                canvas.inside(part, &format!("{} SMs idle", sms - busy));
            }
        }
        canvas.area(all, Look::Dashed);
        said.push(format!("{title}, in {waves} waves"));
    }
    if let Some(((x, y), choice)) = choices.first() {
        let x = x + MICROSECOND * choice.wave(&source)? + 10.0;
        canvas.both_ways((x, *y), (x, y + HEIGHT));
        canvas.text((x + 6.0, y + HEIGHT / 2.0 + 4.0), Style::START.small(), &format!("{sms} SMs"));
    }
    canvas.arrow(&[(LEFT, 166.0), (390.0, 166.0)], Stroke::Plain);
    canvas.text((390.0, 182.0), Style::END.small(), "time, the same scale for all");

    let product = choices.first().map_or([0; 3], |(_, choice)| choice.product);
    let alternative = format!(
        "Rectangles with {sms} SMs downwards and time to the right, for a product of {} × {} × {}; the SMs that have a block are hatched. {}.",
        product[0],
        product[1],
        product[2],
        said.join("; ")
    );
    let caption = format!(
        "All {sms} SMs (height) over the time of the steps, by the host's estimate. Hatched: an SM has a block."
    );
    Ok(canvas.finish(190.0, &alternative, caption))
}

/// Three tiles for 1024³.
pub(super) fn draw(workspace: &Path) -> Result<Picture, DrawingError> {
    let cube = |tile| Choice { product: [1024; 3], tile, slices: 1 };
    let choices = [((LEFT, 18.0), cube([128, 256])), ((LEFT, 98.0), cube([64, 128])), ((210.0, 98.0), cube([64, 64]))];
    rectangles(workspace, "drawing-waves", &choices)
}

/// 256 × 256 × 4096, uncut and in slices of K.
pub(super) fn draw_slices(workspace: &Path) -> Result<Picture, DrawingError> {
    let long = |slices| Choice { product: [256, 256, 4096], tile: [64, 64], slices };
    let choices = [((LEFT, 18.0), long(1)), ((LEFT, 98.0), long(4))];
    rectangles(workspace, "drawing-waves-slices", &choices)
}
