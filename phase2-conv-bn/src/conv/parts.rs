//! Cutting a convolution's taps among blocks: how many cuts, and where the blocks hand over their parts.

use common::device::LaunchArgs;
use common::prelude::*;

/// Cost of a block of a kernel, measured on an H200 (`conv` benchmark, all cuts of ResNet18's and a U-Net's shapes).
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Microseconds of an SM per step of a block, with enough blocks at the same time to hide its latency.
    pub(super) step: f64,
    /// Factors on `step` for one block on an SM, two, …; 1 for more.
    pub(super) few: &'static [f64],
    /// Cost of a block apart from its steps, in steps: to begin and to write its outputs; if its tile is cut, to hand over.
    pub(super) whole: f64,
    pub(super) cut: f64,
}

/// More cuts were slower at every shape measured.
const MOST_CUTS: usize = 24;
/// Microseconds of a launch apart from its blocks.
const LAUNCH: f64 = 6.0;

impl Cost {
    /// A tile of 64 × 64 outputs in steps of 16 taps, whose values pass through registers.
    pub(super) const SQUARE: Cost = Cost::of_steps(0.485, &[1.6, 1.17, 1.06]);
    /// A tile of 64 × 128.
    pub(super) const WIDE: Cost = Cost::of_steps(0.85, &[1.35, 1.1]);
    /// The same with `cp.async`.
    pub(super) const WIDE_ASYNC: Cost = Cost::of_steps(0.9, &[1.3, 1.06, 1.05]);

    /// A block that takes one step to begin and to write, and 3.7 if its tile is cut, as measured for all tiles of implicit GEMM.
    pub(super) const fn of_steps(step: f64, few: &'static [f64]) -> Cost {
        Cost { step, few, whole: 1.0, cut: 3.7 }
    }

    /// Microseconds for this number of tiles, each cut into `cuts`, with `steps_each` steps each.
    fn time(&self, tiles: usize, cuts: usize, steps_each: usize, processors: usize) -> f64 {
        LAUNCH + self.blocks_time(tiles, cuts, steps_each, processors)
    }

    /// The same without the launch.
    pub(super) fn blocks_time(&self, tiles: usize, cuts: usize, steps_each: usize, processors: usize) -> f64 {
        let blocks = tiles.saturating_mul(cuts).div_ceil(processors.max(1));
        let factor = self.few.get(blocks.wrapping_sub(1)).copied().unwrap_or(1.0);
        let more = if cuts > 1 { self.cut } else { self.whole };
        blocks as f64 * factor * (steps_each as f64 + more) * self.step
    }

    /// The fastest cut of `steps` steps, and its microseconds.
    pub(super) fn best(&self, tiles: usize, steps: usize, processors: usize) -> (Cuts, f64) {
        // With more than eight blocks per SM nothing is left to fill, and handing over more parts costs more than it saves.
        let most = (8 * processors / tiles.max(1)).min(steps / 2).clamp(1, MOST_CUTS);
        let all = (1..=most).map(|cuts| {
            let cuts = Cuts::new(steps, cuts);
            (cuts, self.time(tiles, cuts.count, cuts.steps_each, processors))
        });
        all.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((Cuts::new(steps, 1), f64::INFINITY))
    }
}

/// The taps of a tile, cut among blocks that have at least one step each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cuts {
    pub(super) count: usize,
    pub(super) steps_each: usize,
}

impl Cuts {
    /// At most `count` cuts of `steps` steps.
    pub(super) fn new(steps: usize, count: usize) -> Cuts {
        let steps_each = steps.div_ceil(count.max(1)).max(1);
        Cuts { count: steps.div_ceil(steps_each).max(1), steps_each }
    }
}

/// Memory where blocks store and count the parts of tiles that several blocks share. It belongs to one launch at a time.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    parts: Option<Buffer<f32>>,
    /// Number of parts that have arrived for each tile; zero between launches.
    arrived: Option<Buffer<u32>>,
}

impl Workspace {
    /// The two arguments for `tiles` tiles of `outputs` each, in `cuts` cuts; grows if necessary. `None` if nothing is cut.
    pub(super) fn get(
        &mut self,
        stream: &Stream,
        tiles: usize,
        cuts: usize,
        outputs: usize,
    ) -> Result<Option<(&mut Buffer<f32>, &mut Buffer<u32>)>> {
        if cuts == 1 {
            return Ok(None);
        }
        let parts = tiles * cuts * outputs;
        if self.parts.as_ref().is_none_or(|buffer| buffer.len() < parts) {
            // The smaller one goes first: the two are never there together.
            self.parts = None;
            self.parts = Some(stream.alloc_uninit(parts)?);
        }
        if self.arrived.as_ref().is_none_or(|buffer| buffer.len() < tiles) {
            self.arrived = Some(stream.alloc_zeros(tiles)?);
        }
        Ok(self.parts.as_mut().zip(self.arrived.as_mut()))
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        let (parts, arrived) = (self.parts.as_ref(), self.arrived.as_ref());
        parts.map_or(0, Buffer::num_bytes) + arrived.map_or(0, Buffer::num_bytes)
    }
}

/// Pushes the result of [`Workspace::get`] as two arguments of a kernel: addresses, or null.
pub(super) fn push_parts<'a>(launch: &mut LaunchArgs<'a>, parts: Option<(&'a mut Buffer<f32>, &'a mut Buffer<u32>)>) {
    let (parts, arrived) = parts.unzip();
    launch.arg(parts).arg(arrived);
}
