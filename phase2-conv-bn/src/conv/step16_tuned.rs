//! Step 16: the tile that fits. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: a tile of 64 × 128 is right for large batches and too large for single images; where an SM has few blocks,
//! eight warps and more stages hide the latency that four do not. Change: the tile becomes a template (`conv_tile.cuh`) with five
//! shapes, two of them as in steps 12 and 13, three with `cp.async` as in steps 14 and 15; a model of measured times picks a shape and
//! its cuts.
//!
//! Measured in `book/pages/research/convolution-steps.md`.

use std::sync::{Mutex, PoisonError};

use common::prelude::*;

use super::parts::{Cost, Cuts, Workspace, push_parts};
use super::table::{self, NO_BITS, TapTables};
use super::{Algorithm, Call, Conv, Geometry, Load, Step, block_count, processors, unsupported};

/// The step. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 16,
    name: "tuned tiles",
    idea: "the tile that fits, by a model of measured times",
    source: kernel_source!("conv_16_tuned"),
    method: Load(|device, source| Ok(Box::new(ImplicitTiled::load(device, source)?))),
};

/// The kernels' names, without `conv_`.
pub const TILES: [&str; 5] = ["64x128", "64x64", "64x128_async", "64x64_async", "32x64_async"];

/// Loads the step with only one of [`TILES`] and `cuts` cuts, or fewer if there are fewer steps; for tests and measurements.
///
/// # Errors
/// Same as [`Step::load`], and [`Error::Invalid`] if there is no such tile.
pub fn load_with(device: &Device, source: &KernelSource, tile: &str, cuts: usize) -> Result<Conv> {
    let mut algorithm = ImplicitTiled::load(device, source)?;
    algorithm.tiles.retain(|loaded| loaded.tile.name == tile);
    if algorithm.tiles.is_empty() {
        return Err(Error::Invalid(format!("convolution `{}` has no tile {tile}", STEP.name)));
    }
    algorithm.cuts = Some(cuts);
    Ok(Conv { name: STEP.name, algorithm: Box::new(algorithm) })
}

/// Taps per step, which the costs were measured with: `STEP` of `conv_tile.cuh`.
const TAPS: usize = 16;

/// A shape of tile. Its values are those that the model of times was fitted to, and the kernel file must have the same; the rest
/// of a launch's geometry is read from the kernel file.
#[derive(Clone, Copy, Debug)]
struct Tile {
    name: &'static str,
    /// The struct of `conv_16_tuned.cu` that has its sizes.
    shape: &'static str,
    /// Output channels and pixels.
    size: [usize; 2],
    /// Whether weights are loaded 16 bytes at a time, with a second kernel for rows that do not begin at multiples of 16 bytes.
    vectors: bool,
    cost: Cost,
}

#[rustfmt::skip] // a table
static SHAPES: [Tile; 5] = [
    Tile { name: TILES[0], shape: "Wide", size: [64, 128], vectors: true, cost: Cost::WIDE },
    Tile { name: TILES[1], shape: "Square", size: [64, 64], vectors: true, cost: Cost::SQUARE },
    Tile { name: TILES[2], shape: "WideAsync", size: [64, 128], vectors: false, cost: Cost::WIDE_ASYNC },
    Tile { name: TILES[3], shape: "SquareAsync", size: [64, 64], vectors: false, cost: Cost::of_steps(0.575, &[1.44, 1.06, 1.06]) },
    Tile { name: TILES[4], shape: "SmallAsync", size: [32, 64], vectors: false, cost: Cost::of_steps(0.31, &[1.87, 1.29, 1.04]) },
];

#[derive(Clone, Debug)]
struct LoadedTile {
    tile: &'static Tile,
    threads: u32,
    shared_bytes: u32,
    kernel: Kernel,
    any: Kernel,
}

#[derive(Debug)]
pub(super) struct ImplicitTiled {
    tiles: Vec<LoadedTile>,
    processors: usize,
    /// Replaces the model's choice.
    cuts: Option<usize>,
    tables: TapTables,
    workspace: Mutex<Workspace>,
}

impl ImplicitTiled {
    pub(super) fn load(device: &Device, source: &KernelSource) -> Result<ImplicitTiled> {
        let module = device.load(source)?;
        module.expect_constant("STEP", TAPS)?;
        let load = |tile: &'static Tile| {
            let Tile { name, shape, size, .. } = tile;
            module.expect_constant(&format!("{shape}::BM"), size[0])?;
            module.expect_constant(&format!("{shape}::BN"), size[1])?;
            let kernel = module.kernel(&format!("conv_{name}"))?;
            let any = if tile.vectors { module.kernel(&format!("conv_{name}_any"))? } else { kernel.clone() };
            let threads = module.constant(&format!("Geometry<{shape}>::THREADS"))? as u32;
            let shared_bytes = module.constant(&format!("Geometry<{shape}>::SHARED"))? as u32;
            Ok::<_, Error>(LoadedTile { tile, threads, shared_bytes, kernel, any })
        };
        Ok(ImplicitTiled {
            tiles: SHAPES.iter().map(load).collect::<Result<_>>()?,
            processors: processors(device),
            cuts: None,
            tables: TapTables::default(),
            workspace: Mutex::default(),
        })
    }

    /// Bytes that launches have allocated: the tables of taps, and the parts of cut outputs.
    pub(super) fn held_bytes(&self) -> usize {
        self.tables.bytes() + self.workspace.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    /// The tile and its cuts for a geometry; `None` if the step does not take it.
    fn choose(&self, geometry: &Geometry) -> Option<(&LoadedTile, Cuts)> {
        let tiles = self.tiles.iter().map(|loaded| loaded.tile);
        let Estimate { tile, cuts, .. } = fastest(tiles, geometry, self.processors)?;
        let loaded = self.tiles.iter().find(|loaded| loaded.tile.name == tile)?;
        Some((loaded, self.cuts.map_or(cuts, |count| Cuts::new(steps(geometry), count))))
    }
}

/// The model's estimate for the fastest tile.
pub(super) struct Estimate {
    pub(super) tile: &'static str,
    pub(super) cuts: Cuts,
    /// Approximate time on an H200.
    pub(super) microseconds: f64,
}

/// The fastest tile by the model on this number of SMs; `None` if the step does not take the geometry.
pub(super) fn estimate(geometry: &Geometry, processors: usize) -> Option<Estimate> {
    fastest(SHAPES.iter(), geometry, processors)
}

fn fastest(tiles: impl Iterator<Item = &'static Tile>, geometry: &Geometry, processors: usize) -> Option<Estimate> {
    if !table::has_bits(geometry) {
        return None;
    }
    let estimates = tiles.map(|tile| {
        let (cuts, microseconds) = tile.cost.best(geometry.tiles(tile.size), steps(geometry), processors);
        Estimate { tile: tile.name, cuts, microseconds }
    });
    estimates.min_by(|a, b| a.microseconds.total_cmp(&b.microseconds))
}

/// Number of steps along the taps.
fn steps(geometry: &Geometry) -> usize {
    (geometry.taps.unsigned_abs() as usize).div_ceil(TAPS)
}

impl Algorithm for ImplicitTiled {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let Some((LoadedTile { tile, threads, shared_bytes, kernel, any }, cuts)) = self.choose(&geometry) else {
            return Err(unsupported(call.stream, STEP.name, NO_BITS));
        };
        let table = self.tables.get(call.stream, STEP.name, &geometry)?;
        let tiles = geometry.tiles(tile.size);
        let blocks = block_count(call.stream, STEP.name, tiles)?;
        let steps_each = cuts.steps_each as i32;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = workspace.get(call.stream, tiles, cuts.count, tile.size[0] * tile.size[1])?;
        let mut launch = call.stream.launch_builder(if geometry.taps % 4 == 0 { kernel } else { any });
        launch.arg(call.input).arg(call.weight).arg(call.bias).arg(call.output).arg(&*table);
        push_parts(&mut launch, parts);
        launch.arg(&geometry).arg(&steps_each).arg(&call.scalars);
        let config = LaunchConfig {
            grid_dim: (blocks, cuts.count as u32, 1),
            block_dim: (*threads, 1, 1),
            shared_mem_bytes: *shared_bytes,
        };
        // SAFETY: there is a block for each cut of each tile; the kernel compares channels, pixels and taps with the geometry,
        // which was derived from the shapes of the tensors given; the table has an entry for each tap that a step reads, and
        // the workspace a part for each block and a counter for each tile.
        unsafe { launch.launch(config) }
    }

    fn has_epilogue(&self) -> bool {
        true
    }

    fn workspace_bytes(&self, geometry: &Geometry) -> usize {
        let parts = self.choose(geometry).filter(|(_, cuts)| cuts.count > 1).map_or(0, |(loaded, cuts)| {
            let tiles = geometry.tiles(loaded.tile.size);
            tiles * (cuts.count * loaded.tile.size.iter().product::<usize>() + 1) * size_of::<f32>()
        });
        parts + table::len(geometry) * size_of::<[i32; 2]>()
    }
}
