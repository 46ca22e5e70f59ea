//! Step 6: implicit GEMM with the tricks of the GEMM ladder. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: step 5 spends its time on indices and on shared memory. What a tap's place depends on is the same for all pixels, so a
//! table of 8 bytes a tap, made once for a geometry, replaces the divisions; register tiles, 16-byte loads and double
//! buffering do the rest; and the taps are cut where a small image has fewer tiles than the chip has places for blocks. Change:
//! all of that, in five tiles, of which a model of measured times picks one and its cuts. Measured: the `conv` table of
//! `cargo run -p phase5-bench`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use common::prelude::*;

use super::parts::{Cost, Cuts, Workspace, push_parts};
use super::{Algorithm, Call, Conv, Geometry, Load, Step, block_count, processors, unsupported};

/// The step. It takes windows of up to 16 × 15 taps.
pub const STEP: Step = Step {
    number: 6,
    name: "offset table",
    idea: "register tiles, a table of offsets, taps cut for small images",
    source: kernel_source!("conv_06_implicit_tiled"),
    method: Load(|device, source| Ok(Box::new(ImplicitTiled::load(device, source)?))),
};

/// The kernels' names, without `conv_`.
pub const TILES: [&str; 5] = ["64x128", "64x64", "64x128_async", "64x64_async", "32x64_async"];

/// The step with one of [`TILES`] alone, and so many cuts, as far as there are steps for them; for tests and measurements.
///
/// # Errors
/// As [`Step::load`], and [`Error::Invalid`] if there is no such tile.
pub fn load_with(device: &Device, source: &KernelSource, tile: &str, cuts: usize) -> Result<Conv> {
    let mut algorithm = ImplicitTiled::load(device, source)?;
    algorithm.tiles.retain(|loaded| loaded.tile.name == tile);
    if algorithm.tiles.is_empty() {
        return Err(Error::Invalid(format!("convolution `{}` has no tile {tile}", STEP.name)));
    }
    algorithm.cuts = Some(cuts);
    Ok(Conv { name: STEP.name, algorithm: Box::new(algorithm) })
}

/// Taps a step: `STEP` of `conv_tile.cuh`.
const TAPS: usize = 16;
/// Steps that a block reads the table ahead of its last.
const AHEAD: usize = 3;

/// A shape of tile, as `conv_06_implicit_tiled.cu` has it.
#[derive(Clone, Copy, Debug)]
struct Tile {
    name: &'static str,
    /// Output channels and pixels.
    shape: [usize; 2],
    threads: u32,
    stages: usize,
    /// Whether weights go by 16 bytes, with a kernel beside it for rows that do not begin at multiples of that.
    vectors: bool,
    cost: Cost,
}

const fn cost(step: f64, few: &'static [f64]) -> Cost {
    Cost { step, few, whole: 1.0, cut: 3.7 }
}

#[rustfmt::skip] // a table
static SHAPES: [Tile; 5] = [
    Tile { name: TILES[0], shape: [64, 128], threads: 128, stages: 2, vectors: true, cost: cost(0.85, &[1.35, 1.1]) },
    Tile { name: TILES[1], shape: [64, 64], threads: 128, stages: 2, vectors: true, cost: cost(0.485, &[1.6, 1.17, 1.06]) },
    Tile { name: TILES[2], shape: [64, 128], threads: 256, stages: 3, vectors: false, cost: cost(0.9, &[1.3, 1.06, 1.05]) },
    Tile { name: TILES[3], shape: [64, 64], threads: 256, stages: 4, vectors: false, cost: cost(0.575, &[1.44, 1.06, 1.06]) },
    Tile { name: TILES[4], shape: [32, 64], threads: 128, stages: 4, vectors: false, cost: cost(0.31, &[1.87, 1.29, 1.04]) },
];

impl Tile {
    /// Rows of weights have 4 floats behind them.
    fn shared_bytes(&self) -> u32 {
        (self.stages * TAPS * (self.shape[0] + 4 + self.shape[1]) * size_of::<f32>()) as u32
    }
}

#[derive(Clone, Debug)]
struct LoadedTile {
    tile: &'static Tile,
    kernel: Kernel,
    any: Kernel,
}

/// What the table of offsets depends on: channels of a group, the image's size, window and dilation.
type TableKey = (i32, [i32; 2], [i32; 2], [i32; 2]);

#[derive(Debug)]
pub(super) struct ImplicitTiled {
    tiles: Vec<LoadedTile>,
    processors: usize,
    /// In place of the model's.
    cuts: Option<usize>,
    tables: Mutex<HashMap<TableKey, Arc<Buffer<[i32; 2]>>>>,
    workspace: Mutex<Workspace>,
}

impl ImplicitTiled {
    pub(super) fn load(device: &Device, source: &KernelSource) -> Result<ImplicitTiled> {
        let load = |tile: &'static Tile| {
            let kernel = device.kernel(source, &format!("conv_{}", tile.name))?;
            let any = match tile.vectors {
                true => device.kernel(source, &format!("conv_{}_any", tile.name))?,
                false => kernel.clone(),
            };
            Ok::<_, Error>(LoadedTile { tile, kernel, any })
        };
        Ok(ImplicitTiled {
            tiles: SHAPES.iter().map(load).collect::<Result<_>>()?,
            processors: processors(device),
            cuts: None,
            tables: Mutex::default(),
            workspace: Mutex::default(),
        })
    }

    /// Bytes that launches have made it take: the tables of offsets, and the parts of cut outputs.
    pub(super) fn held_bytes(&self) -> usize {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = self.workspace.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        tables.values().map(|table| table.num_bytes()).sum::<usize>() + parts
    }

    /// The tile and its cuts for a geometry; `None` if the step does not take it.
    fn choose(&self, geometry: &Geometry) -> Option<(&LoadedTile, Cuts)> {
        let tiles = self.tiles.iter().map(|loaded| loaded.tile);
        let Estimate { tile, cuts, .. } = fastest(tiles, geometry, self.processors)?;
        let loaded = self.tiles.iter().find(|loaded| loaded.tile.name == tile)?;
        Some((loaded, self.cuts.map_or(cuts, |count| Cuts::new(steps(geometry), count))))
    }

    /// The table for this geometry: 8 bytes a tap, kept until the step is dropped.
    fn table(&self, stream: &Stream, geometry: &Geometry) -> Result<Arc<Buffer<[i32; 2]>>> {
        let Geometry { group_channels, height, width, window, dilation, .. } = *geometry;
        let key = (group_channels, [height, width], window, dilation);
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(&key) {
            return Ok(table.clone());
        }
        let far = || unsupported(stream, STEP.name, "a tap lies more than 2³¹ values behind the corner of its window");
        let mut entries = Vec::with_capacity(table_len(geometry));
        for c in 0..i64::from(group_channels) {
            for r in 0..window[0] {
                for s in 0..window[1] {
                    let row = c * i64::from(height) + i64::from(r) * i64::from(dilation[0]);
                    let column = i64::from(s) * i64::from(dilation[1]);
                    let offset = row.checked_mul(i64::from(width)).and_then(|row| row.checked_add(column));
                    let offset = offset.and_then(|offset| i32::try_from(offset).ok()).ok_or_else(far)?;
                    entries.push([offset, 1 << r | 1 << (16 + s)]);
                }
            }
        }
        // Taps that do not exist need a bit that no pixel has.
        entries.resize(table_len(geometry), [0, i32::MIN]);
        let table = Arc::new(stream.clone_htod(&entries)?);
        tables.insert(key, table.clone());
        Ok(table)
    }
}

/// What the model expects of the fastest tile.
pub(super) struct Estimate {
    pub(super) tile: &'static str,
    pub(super) cuts: Cuts,
    /// On an H200, about.
    pub(super) microseconds: f64,
}

/// The fastest tile by the model, on so many processors; `None` if the step does not take the geometry.
pub(super) fn estimate(geometry: &Geometry, processors: usize) -> Option<Estimate> {
    fastest(SHAPES.iter(), geometry, processors)
}

fn fastest(tiles: impl Iterator<Item = &'static Tile>, geometry: &Geometry, processors: usize) -> Option<Estimate> {
    // The bits of a table's entry for rows and columns of the window must suffice.
    if geometry.window[0] > 16 || geometry.window[1] > 15 {
        return None;
    }
    let estimates = tiles.map(|tile| {
        let (cuts, microseconds) = tile.cost.best(geometry.tiles(tile.shape), steps(geometry), processors);
        Estimate { tile: tile.name, cuts, microseconds }
    });
    estimates.min_by(|a, b| a.microseconds.total_cmp(&b.microseconds))
}

/// Steps along the taps.
fn steps(geometry: &Geometry) -> usize {
    (geometry.taps.unsigned_abs() as usize).div_ceil(TAPS)
}

/// Entries of the table: whole steps, and those that are read ahead.
fn table_len(geometry: &Geometry) -> usize {
    (geometry.taps.unsigned_abs() as usize).next_multiple_of(TAPS) + AHEAD * TAPS
}

impl Algorithm for ImplicitTiled {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let Some((LoadedTile { tile, kernel, any }, cuts)) = self.choose(&geometry) else {
            return Err(unsupported(call.stream, STEP.name, "its table has bits for windows of up to 16 × 15"));
        };
        let table = self.table(call.stream, &geometry)?;
        let tiles = geometry.tiles(tile.shape);
        let blocks = block_count(call.stream, STEP.name, tiles)?;
        let steps_each = cuts.steps_each as i32;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = workspace.get(call.stream, tiles, cuts.count, tile.shape[0] * tile.shape[1])?;
        let mut launch = call.stream.launch_builder(if geometry.taps % 4 == 0 { kernel } else { any });
        launch.arg(call.input).arg(call.weight).arg(call.bias).arg(call.output).arg(&*table);
        push_parts(&mut launch, parts);
        launch.arg(&geometry).arg(&steps_each);
        let config = LaunchConfig {
            grid_dim: (blocks, cuts.count as u32, 1),
            block_dim: (tile.threads, 1, 1),
            shared_mem_bytes: tile.shared_bytes(),
        };
        // SAFETY: there is a block for each cut of each tile; the kernel compares channels, pixels and taps with the geometry,
        // which was derived from the shapes of the tensors given; the table has an entry for each tap that a step reads, and
        // the workspace a part for each block and a counter for each tile.
        unsafe { launch.launch(config) }
    }

    fn workspace_bytes(&self, geometry: &Geometry) -> usize {
        let parts = self.choose(geometry).filter(|(_, cuts)| cuts.count > 1).map_or(0, |(loaded, cuts)| {
            let tiles = geometry.tiles(loaded.tile.shape);
            tiles * (cuts.count * loaded.tile.shape.iter().product::<usize>() + 1) * size_of::<f32>()
        });
        parts + table_len(geometry) * size_of::<[i32; 2]>()
    }
}
