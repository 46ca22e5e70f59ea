//! How a layer is cut into tasks: the tiles of a product, the queries of an attention, and the rows that a tile reads.

use common::prelude::*;
use common::reference::AttentionSize;

/// Threads that compute.
const WORKERS: usize = 256;
/// Floats of x, and of the weights, that a stage of a product has: K of a stage is this over the tile's side.
const PER_STAGE: usize = 2048;

pub(super) fn unsupported(what: impl Into<String>, reason: &str) -> Error {
    Error::Unsupported { what: what.into(), device: "the executor".to_owned(), reason: reason.to_owned() }
}

/// How a product is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    /// Side of its tiles.
    pub tile: usize,
    /// Parts of K.
    pub parts: usize,
    /// K of a part.
    pub part_depth: usize,
}

// ANCHOR: cut
impl Cut {
    /// The one that takes the fewest cycles on this number of SMs, each of which multiplies 128 pairs per cycle at best and
    /// three fifths of that in practice. A task has a start that does not depend on its size, and parts have to be added up.
    pub(super) fn choose(rows: usize, columns: usize, depth: usize, processors: usize) -> Cut {
        const PER_CYCLE: f64 = 0.6 * 128.0;
        const START: f64 = 1500.0;
        const MERGE: f64 = 2500.0;
        const MOST_PARTS: usize = 16;
        let cuts = [16, 32, 64].into_iter().flat_map(|tile| {
            let stage = PER_STAGE / tile;
            (1..=MOST_PARTS.min(depth.div_ceil(stage)).max(1)).map(move |parts| {
                let part_depth = depth.div_ceil(parts).next_multiple_of(stage).max(1);
                Cut { tile, parts: depth.div_ceil(part_depth).max(1), part_depth }
            })
        });
        let cycles = |cut: &Cut| {
            let tasks = rows.div_ceil(cut.tile) * columns.div_ceil(cut.tile) * cut.parts;
            let task = START + (cut.part_depth * cut.tile * cut.tile) as f64 / PER_CYCLE;
            tasks.div_ceil(processors.max(1)) as f64 * task + if cut.parts > 1 { MERGE } else { 0.0 }
        };
        let cheapest = cuts.min_by(|a, b| cycles(a).total_cmp(&cycles(b)));
        cheapest.unwrap_or(Cut { tile: 16, parts: 1, part_depth: depth })
    }
}
// ANCHOR_END: cut

/// How the threads of a block share out an attention's queries and keys.
pub(super) struct Heads {
    /// Lanes of a query, and values of each.
    pub lanes: usize,
    pub each: usize,
    /// Threads that share out its keys.
    pub key_parts: usize,
}

impl Heads {
    pub(super) fn choose(size: &AttentionSize, processors: usize) -> Result<Heads> {
        const EACH: [usize; 4] = [2, 4, 8, 10];
        const FEWEST_KEYS: usize = 16;
        let head = size.of_head();
        let lanes = head.div_ceil(EACH[3]).next_power_of_two();
        let each = EACH.into_iter().find(|each| each * lanes >= head);
        let (Some(each), true) = (each, lanes <= 32) else {
            return Err(unsupported(format!("attention with heads of {head} values"), "a warp has up to 320"));
        };
        let mut key_parts = 1;
        let queries = |parts: usize| WORKERS / (lanes * parts);
        let tasks = |parts: usize| size.batch * size.heads * size.tokens.div_ceil(queries(parts));
        while size.tokens / (2 * key_parts) >= FEWEST_KEYS
            && (queries(key_parts) >= 2 * size.tokens || tasks(key_parts) < processors)
            && queries(key_parts) >= 16
        {
            key_parts *= 2;
        }
        Ok(Heads { lanes, each, key_parts })
    }

    pub(super) fn queries(&self) -> usize {
        WORKERS / (self.lanes * self.key_parts)
    }
}

/// Rows of an image's pixels that a tile of a convolution's result reads.
pub(super) struct Window {
    pub pixels: [usize; 2],
    pub out: [usize; 2],
    pub window: usize,
    pub stride: usize,
    pub padding: usize,
    pub up: usize,
}

impl Window {
    /// All lines of pixels from the first that the tile's first row needs to the last of its last row.
    pub(super) fn rows(&self, rows: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let ([height, width], [out_height, out_width]) = (self.pixels, self.out);
        let line = |row: usize, tap: usize| {
            let (image, y) = (row / (out_height * out_width), row % (out_height * out_width) / out_width);
            let y = (y * self.stride + tap).saturating_sub(self.padding).min((height << self.up) - 1) >> self.up;
            image * height + y
        };
        line(rows.start, 0) * width..(line(rows.end - 1, self.window - 1) + 1) * width
    }
}
