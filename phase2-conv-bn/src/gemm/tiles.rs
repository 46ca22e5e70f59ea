//! The tiles that the last steps choose from, and the memory through which blocks hand over parts of a product.

use std::sync::{Arc, Mutex};

use common::device::Module;
use common::prelude::*;

use super::{Layout, PerLayout, Size};

/// A shape of tile, compiled into a kernel of its own for each layout of B.
#[derive(Clone, Copy, Debug)]
pub struct TileShape {
    /// The struct of the kernel file that has its sizes.
    pub name: &'static str,
    /// Rows and columns of C, for which `tiles_each` was measured. The kernel file must have the same.
    pub tile: [usize; 2],
    /// Minimum number of such tiles per SM that a product must have.
    pub tiles_each: f64,
    /// TFLOP/s on an H200, where every SM has whole tiles.
    pub rate: f64,
    /// Whether there is also a kernel for products that are not multiples of tile and step.
    pub any: bool,
}

impl TileShape {
    /// Number of such tiles of a product.
    pub(super) fn count(&self, size: Size) -> usize {
        size.m.div_ceil(self.tile[0]).saturating_mul(size.n.div_ceil(self.tile[1]))
    }
}

/// Sizes of a tile for its launch, read from the compiled kernel: only the `.cu` states the numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Rows and columns of C that a block computes.
    pub(super) tile: [usize; 2],
    /// Threads of a block along x and y.
    pub(super) block: [u32; 2],
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
}

impl Geometry {
    /// Reads a file with one tile: `BM`, `BN`, where shared memory is dynamic, `SHARED`, and `THREADS` of a block; without them a block has
    /// BN × BM, one per element.
    pub(super) fn of_file(module: &Module) -> Result<Geometry> {
        let find = |name: &str| module.find_constant(name).map(|_| module.constant(name)).transpose();
        const LARGEST_BLOCK: usize = 1024;
        let tile @ [rows, columns] = [module.constant("BM")?, module.constant("BN")?];
        let block = match find("THREADS")? {
            None if rows * columns <= LARGEST_BLOCK => [columns as u32, rows as u32],
            None => [module.constant("THREADS")? as u32, 1],
            Some(threads) => [threads as u32, 1],
        };
        Ok(Geometry { tile, block, shared_bytes: find("SHARED")?.unwrap_or(0) as u32 })
    }

    /// Reads a shape of `gemm_tile.cuh`.
    fn of_shape(module: &Module, shape: &str) -> Result<Geometry> {
        Ok(Geometry {
            tile: [module.constant(&format!("{shape}::BM"))?, module.constant(&format!("{shape}::BN"))?],
            block: [module.constant(&format!("Geometry<{shape}>::THREADS"))? as u32, 1],
            shared_bytes: module.constant(&format!("Geometry<{shape}>::SHARED"))? as u32,
        })
    }

    /// Tiles of a product along N and M; `None` if there are more than a grid may have along x and y.
    pub(super) fn grid(&self, size: Size) -> Option<[u32; 2]> {
        let [rows, columns] = self.tile;
        let across = u32::try_from(size.n.div_ceil(columns)).ok()?;
        Some([across, u16::try_from(size.m.div_ceil(rows)).ok()?.into()])
    }

    /// Number of tiles of a product; `None` if there are too many to count.
    pub(super) fn count(&self, size: Size) -> Option<usize> {
        size.m.div_ceil(self.tile[0]).checked_mul(size.n.div_ceil(self.tile[1]))
    }

    /// Whether a product is made of whole tiles and whole steps along K.
    pub(super) fn is_whole(&self, Size { m, n, k }: Size, step: usize) -> bool {
        m % self.tile[0] == 0 && n % self.tile[1] == 0 && k % step == 0 && k != 0
    }
}

/// The kernels of one shape.
#[derive(Clone, Debug)]
pub(super) struct LoadedTile {
    pub(super) shape: TileShape,
    pub(super) geometry: Geometry,
    /// Values of i per step along K.
    pub(super) step: usize,
    /// For whole tiles, and for any product.
    full: PerLayout,
    any: Option<PerLayout>,
}

impl LoadedTile {
    /// Loads the kernels `gemm_`, followed by one of `layouts`, then rows and columns. `None` if the device's blocks have too
    /// little shared memory for it.
    pub(super) fn load(
        device: &Device,
        module: &Module,
        shape: TileShape,
        layouts: [&str; 2],
    ) -> Result<Option<LoadedTile>> {
        let TileShape { name, tile: [rows, columns], .. } = shape;
        module.expect_constant(&format!("{name}::BM"), rows)?;
        module.expect_constant(&format!("{name}::BN"), columns)?;
        let geometry = Geometry::of_shape(module, name)?;
        if geometry.shared_bytes > device.properties().shared_per_block_optin {
            return Ok(None);
        }
        let kernels = |suffix: &str| -> Result<PerLayout> {
            let kernel = |layout: &str| module.kernel(&format!("gemm_{layout}_{rows}x{columns}{suffix}"));
            Ok([kernel(layouts[0])?, kernel(layouts[1])?])
        };
        Ok(Some(LoadedTile {
            shape,
            geometry,
            step: module.constant(&format!("{name}::BK"))?,
            full: kernels("")?,
            any: shape.any.then(|| kernels("_any")).transpose()?,
        }))
    }

    /// TFLOP/s of the kernel for this product where every SM has tiles.
    pub(super) fn rate(&self, size: Size) -> f64 {
        self.shape.rate * if self.geometry.is_whole(size, self.step) { 1.0 } else { ANY }
    }

    /// The kernel for this product, if the shape has one.
    fn kernel(&self, size: Size, layout: Layout) -> Option<&Kernel> {
        let kernels = if self.geometry.is_whole(size, self.step) { Some(&self.full) } else { self.any.as_ref() };
        kernels.map(|kernels| &kernels[layout as usize])
    }
}

/// Fraction of a tile's TFLOP/s that its kernel for any product reaches: its copies have four bytes, each with a test.
pub(super) const ANY: f64 = 0.75;

/// Part of a tile's `rate` that a product reaches: less for the SMs that have no tile in the last round, unless there are fewer
/// tiles than `blocks_each` blocks of equal work per SM, and for the parts of tiles beyond the edges.
pub(super) fn expected(rate: f64, shape: &TileShape, size: Size, blocks_each: usize, processors: usize) -> f64 {
    let [rows, columns] = shape.tile;
    let count = shape.count(size).max(1);
    let inside = (size.m * size.n) as f64 / (count * rows * columns) as f64;
    let in_rounds = count as f64 / (count.div_ceil(processors) * processors) as f64;
    let rounds = if count < blocks_each * processors { 1.0 } else { in_rounds };
    rate * inside * rounds
}

/// The first tile that the product has enough of; the last has a kernel for every product.
pub(super) fn choose(
    tiles: &[LoadedTile],
    size: Size,
    layout: Layout,
    processors: usize,
) -> Option<(&LoadedTile, &Kernel)> {
    let enough = |tile: &LoadedTile| tile.shape.count(size) as f64 >= tile.shape.tiles_each * processors as f64;
    let with_kernel = |tile| Some((tile, LoadedTile::kernel(tile, size, layout)?));
    tiles.iter().filter(|tile| enough(tile)).find_map(with_kernel)
}

/// Memory where blocks store and count the parts of tiles that several blocks share. It belongs to one launch at a time; the
/// first allocates it.
#[derive(Debug)]
pub(super) struct Workspace {
    blocks: usize,
    /// Values of the largest tile.
    largest: usize,
    /// The parts; and for each tile the number that have arrived, zero between launches.
    memory: Option<(Buffer<f32>, Buffer<u32>)>,
}

impl Workspace {
    /// A workspace for up to `blocks` blocks of the largest of `tiles`.
    pub(super) fn new(tiles: &[TileShape], blocks: usize) -> Arc<Mutex<Workspace>> {
        let largest = tiles.iter().map(|shape| shape.tile[0] * shape.tile[1]).max().unwrap_or(0);
        Arc::new(Mutex::new(Workspace { blocks, largest, memory: None }))
    }

    /// Two parts for each block, and the counters.
    pub(super) fn get(&mut self, stream: &Stream) -> Result<&mut (Buffer<f32>, Buffer<u32>)> {
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => (stream.alloc_uninit(2 * self.blocks * self.largest)?, stream.alloc_zeros(self.blocks)?),
        };
        Ok(self.memory.insert(memory))
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, |(parts, arrived)| parts.num_bytes() + arrived.num_bytes())
    }
}
