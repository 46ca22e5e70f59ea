//! Tiles of the output, and which of them fits a layer.

use common::device::Module;
use common::prelude::*;

use super::{Layer, PRECISIONS};
use crate::gemm::{Precision, ROW_BYTES};

/// A shape of tile: a struct of the kernel file, and the layers that it was measured to be best for.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The struct that has its sizes.
    pub name: &'static str,
    /// What its kernels' names end with.
    pub suffix: &'static str,
    /// For layers that give a multiprocessor at least this many blocks,
    pub least: f64,
    /// at most this many,
    pub most: f64,
    /// with at least this many steps along K
    pub steps: usize,
    /// and at most this many output channels.
    pub channels: usize,
}

/// Takes every layer.
pub(super) const ANY: Tile =
    Tile { name: "", suffix: "", least: 0.0, most: f64::INFINITY, steps: 1, channels: usize::MAX };

/// Blocks per multiprocessor from which a tile is worth it, on an H200.
const BUSY: f64 = 0.7;

pub(super) const NARROW: Tile = Tile { name: "Narrow", suffix: "_256x64", least: BUSY, channels: 64, ..ANY };
pub(super) const LARGE: Tile = Tile { name: "Large", suffix: "_256x128", least: BUSY, steps: 8, ..ANY };
pub(super) const SQUARE: Tile = Tile { name: "Square", suffix: "_128x128", least: BUSY, ..ANY };
pub(super) const HALVES: Tile = Tile { name: "Halves", suffix: "_128x128_2", least: BUSY, steps: 32, ..ANY };
pub(super) const WIDE: Tile = Tile { name: "Wide", suffix: "_64x128", least: BUSY, ..ANY };
pub(super) const EIGHTHS: Tile = Tile { name: "Eighths", suffix: "_64x64_8", most: 0.75, steps: 24, ..ANY };
pub(super) const QUARTERS: Tile = Tile { name: "Quarters", suffix: "_64x64_4", most: 1.0, steps: 8, ..ANY };
pub(super) const SMALL: Tile = Tile { name: "Small", suffix: "_64x64", ..ANY };

/// All tiles of the steps that have a choice, in the order in which they are asked whether they fit.
pub(super) const ORDER: [Tile; 8] = [NARROW, LARGE, SQUARE, HALVES, WIDE, EIGHTHS, QUARTERS, SMALL];

/// A layer as a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Rows: pixels of the output.
    pub(super) pixels: usize,
    /// Columns: its channels.
    pub(super) channels: usize,
    /// What is summed up: R · S · C values.
    pub(super) depth: usize,
    /// Steps along K.
    pub(super) steps: usize,
}

impl Work {
    pub(super) fn of(layer: &Layer, precision: Precision) -> Work {
        let depth = layer.depth();
        let steps = depth / (ROW_BYTES / precision.input().size());
        Work { pixels: layer.pixels(), channels: layer.filter[0], depth, steps }
    }
}

/// The sizes of a tile, read from the compiled kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Pixels and channels of the output.
    pub(super) tile: [usize; 2],
    /// Blocks that share a tile.
    pub(super) slices: usize,
    pub(super) threads: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
}

impl Geometry {
    fn of(module: &Module, tile: &Tile) -> Result<Geometry> {
        // The same for all types: they differ in the values per row alone.
        let name = format!("{}<F16>", tile.name);
        let of_shape = |constant: &str| module.constant(&format!("{name}::{constant}"));
        let derived = |constant: &str| module.constant(&format!("Geometry<{name}>::{constant}"));
        Ok(Geometry {
            tile: [of_shape("BM")?, of_shape("BN")?],
            slices: of_shape("SLICES")?,
            threads: derived("THREADS")? as u32,
            shared_bytes: derived("SHARED")? as u32,
        })
    }

    /// Tiles of the output.
    pub(super) fn count(&self, work: &Work) -> usize {
        work.pixels.div_ceil(self.tile[0]) * work.channels.div_ceil(self.tile[1])
    }

    pub(super) fn name(&self) -> String {
        let [pixels, channels] = self.tile;
        let slices = if self.slices > 1 { format!("/{}", self.slices) } else { String::new() };
        format!("{pixels}×{channels}{slices}")
    }
}

/// A tile with its kernels.
#[derive(Clone, Debug)]
pub(super) struct LoadedTile {
    pub(super) tile: Tile,
    pub(super) geometry: Geometry,
    kernels: Vec<(Precision, Kernel)>,
}

impl LoadedTile {
    pub(super) fn load(module: &Module, tile: Tile) -> Result<LoadedTile> {
        let kernel =
            |precision: Precision| Ok((precision, module.kernel(&format!("conv_{precision}{}", tile.suffix))?));
        let kernels = PRECISIONS.into_iter().map(kernel).collect::<Result<_>>()?;
        Ok(LoadedTile { tile, geometry: Geometry::of(module, &tile)?, kernels })
    }

    pub(super) fn kernel(&self, precision: Precision) -> Result<&Kernel> {
        let kernel = self.kernels.iter().find(|(of, _)| *of == precision);
        kernel
            .map(|(_, kernel)| kernel)
            .ok_or_else(|| Error::Invalid(format!("no convolution has kernels for {precision}")))
    }

    /// Whether it can compute this at all: each slice needs a step.
    fn takes(&self, work: &Work) -> bool {
        work.steps >= self.geometry.slices
    }

    fn fits(&self, work: &Work, processors: usize) -> bool {
        let Tile { least, most, steps, channels, .. } = self.tile;
        let blocks = (self.geometry.count(work) * self.geometry.slices) as f64 / processors as f64;
        (least..=most).contains(&blocks) && work.steps >= steps && work.channels <= channels
    }
}

/// The first tile that fits; the last that can compute it otherwise.
pub(super) fn choose<'t>(tiles: &'t [LoadedTile], work: &Work, processors: usize) -> Option<&'t LoadedTile> {
    let mut able = tiles.iter().filter(|tile| tile.takes(work));
    able.clone().find(|tile| tile.fits(work, processors)).or(able.next_back())
}
