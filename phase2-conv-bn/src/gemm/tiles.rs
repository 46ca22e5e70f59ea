//! The tiles that the last steps choose from, and where blocks hand over parts of a product.

use std::sync::{Arc, Mutex};

use common::prelude::*;

use super::{Layout, Size};

/// A shape of tile, compiled into a kernel of its own for each layout of B.
#[derive(Clone, Copy, Debug)]
pub struct TileShape {
    /// Rows and columns of C.
    pub tile: [usize; 2],
    /// Values of i, along K, that a block has in shared memory at a time.
    pub step: usize,
    /// Steps in shared memory at the same time.
    pub stages: usize,
    /// Threads of a block.
    pub threads: u32,
    /// For products of at least so many such tiles a multiprocessor.
    pub tiles_each: f64,
    /// Whether there is a kernel for products that are no multiples of tile and step.
    pub any: bool,
}

impl TileShape {
    /// What kernels and tables call it: `128x256`.
    pub fn name(&self) -> String {
        format!("{}x{}", self.tile[0], self.tile[1])
    }

    /// Bytes of dynamic shared memory: rows of A and B with 4 floats behind each.
    pub(super) fn shared_bytes(&self) -> u32 {
        (self.stages * self.step * (self.tile[0] + self.tile[1] + 8) * size_of::<f32>()) as u32
    }

    /// Tiles of a product.
    pub(super) fn count(&self, size: Size) -> usize {
        size.m.div_ceil(self.tile[0]).saturating_mul(size.n.div_ceil(self.tile[1]))
    }

    /// Whether a product is made of whole tiles and steps.
    fn is_full(&self, Size { m, n, k }: Size) -> bool {
        m % self.tile[0] == 0 && n % self.tile[1] == 0 && k % self.step == 0 && k != 0
    }
}

/// The kernels of one shape.
#[derive(Clone, Debug)]
pub(super) struct LoadedTile {
    pub(super) shape: TileShape,
    /// For whole tiles, and for any product; by [`Layout`].
    full: [Kernel; 2],
    any: Option<[Kernel; 2]>,
}

impl LoadedTile {
    pub(super) fn load(device: &Device, source: &KernelSource, shape: TileShape) -> Result<LoadedTile> {
        let kernels = |suffix: &str| -> Result<[Kernel; 2]> {
            let kernel =
                |layout: Layout| device.kernel(source, &format!("gemm_{}_{}{suffix}", layout.suffix(), shape.name()));
            Ok([kernel(Layout::RowMajor)?, kernel(Layout::Transposed)?])
        };
        Ok(LoadedTile { shape, full: kernels("")?, any: shape.any.then(|| kernels("_any")).transpose()? })
    }

    /// The kernel for this product, if the shape has one.
    fn kernel(&self, size: Size, layout: Layout) -> Option<&Kernel> {
        let kernels = if self.shape.is_full(size) { Some(&self.full) } else { self.any.as_ref() };
        Some(match (layout, kernels?) {
            (Layout::RowMajor, [kernel, _]) | (Layout::Transposed, [_, kernel]) => kernel,
        })
    }
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

/// Where blocks put the parts of tiles that several have worked on, and count them. It belongs to one launch at a time, and takes
/// its memory for the first.
#[derive(Debug)]
pub(super) struct Workspace {
    blocks: usize,
    /// Values of the largest tile.
    largest: usize,
    /// The parts; and for each tile how many of them are there, zero between launches.
    memory: Option<(Buffer<f32>, Buffer<u32>)>,
}

impl Workspace {
    /// For up to `blocks` blocks of the largest of `tiles`.
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

    /// Bytes that it has taken.
    pub(super) fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, |(parts, arrived)| parts.num_bytes() + arrived.num_bytes())
    }
}
