//! What a launch has to know of a tile: read from the compiled kernels, so that the numbers stand in the `.cu` alone.

use common::device::{Module, Properties};
use common::prelude::*;

use super::{Layout, Precision, Size};

/// A shape of tile of the last steps: a struct of the kernel file, for `gemm_hopper.cuh`.
#[derive(Clone, Copy, Debug)]
pub struct TileShape {
    /// The struct that has its sizes.
    pub name: &'static str,
    /// Rows and columns of C: those that `tiles_each` was measured for. The kernel file must have the same.
    pub tile: [usize; 2],
    /// For products with at least this many such tiles per multiprocessor.
    pub tiles_each: f64,
}

/// The kernels of a tile, by precision and layout.
#[derive(Clone, Debug)]
pub(super) struct Kernels(Vec<(Precision, Layout, Kernel)>);

impl Kernels {
    /// `gemm_nt_f16` and so on, with this suffix.
    pub(super) fn load(module: &Module, precisions: &[Precision], suffix: &str) -> Result<Kernels> {
        let mut kernels = Vec::new();
        for &precision in precisions {
            for &layout in precision.layouts() {
                let name = format!("gemm_{}_{}{suffix}", layout.suffix(), precision.suffix());
                kernels.push((precision, layout, module.kernel(&name)?));
            }
        }
        Ok(Kernels(kernels))
    }

    pub(super) fn get(&self, precision: Precision, layout: Layout) -> Option<&Kernel> {
        self.0.iter().find(|(of, with, _)| (*of, *with) == (precision, layout)).map(|(.., kernel)| kernel)
    }
}

impl Kernels {
    /// How many blocks a multiprocessor holds at once, by their shared memory, registers and threads.
    pub(super) fn blocks_each(&self, properties: &Properties, geometry: &Geometry) -> usize {
        let Geometry { threads, shared_bytes, .. } = *geometry;
        let shared = properties.shared_per_block_optin + RESERVED_SHARED;
        let by_shared = shared / (shared_bytes + RESERVED_SHARED);
        let by_threads = properties.max_threads_per_multiprocessor.map_or(u32::MAX, |most| most / threads);
        let by_registers = |kernel: &Kernel| {
            let registers = kernel.attributes().registers.zip(properties.registers_per_multiprocessor);
            registers.map_or(u32::MAX, |(each, all)| all / (each.max(1) * threads))
        };
        let by_registers = self.0.iter().map(|(.., kernel)| by_registers(kernel)).min().unwrap_or(1);
        by_shared.min(by_threads).min(by_registers).max(1) as usize
    }
}

/// Bytes of shared memory that a block takes beside its own.
const RESERVED_SHARED: u32 = 1024;

/// The sizes of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Rows and columns of C that a block computes.
    pub(super) tile: [usize; 2],
    /// Threads of a block.
    pub(super) threads: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
    /// Blocks of a cluster, down and across.
    pub(super) cluster: [usize; 2],
}

impl Geometry {
    /// Of a file with one tile: `BM`, `BN`, `THREADS` and, where shared memory is dynamic, `SHARED`.
    pub(super) fn of_file(module: &Module) -> Result<Geometry> {
        let shared = module.find_constant("SHARED").map(|_| module.constant("SHARED")).transpose()?;
        Ok(Geometry {
            tile: [module.constant("BM")?, module.constant("BN")?],
            threads: module.constant("THREADS")? as u32,
            shared_bytes: shared.unwrap_or(0) as u32,
            cluster: [1, 1],
        })
    }

    /// Of a shape of `gemm_hopper.cuh`, which must have the tile that the host side says.
    pub(super) fn of_shape(module: &Module, shape: &TileShape, precision: Precision) -> Result<Geometry> {
        let name = format!("{}<{}>", shape.name, precision.class());
        let of_shape = |constant: &str| module.constant(&format!("{name}::{constant}"));
        let derived = |constant: &str| module.constant(&format!("Geometry<{name}>::{constant}"));
        module.expect_constant(&format!("{name}::BM"), shape.tile[0])?;
        module.expect_constant(&format!("{name}::BN"), shape.tile[1])?;
        Ok(Geometry {
            tile: shape.tile,
            threads: derived("THREADS")? as u32,
            shared_bytes: derived("SHARED")? as u32,
            cluster: [of_shape("ROWS")?, of_shape("COLUMNS")?],
        })
    }

    /// Tiles of a product; `None` if there are too many to count.
    pub(super) fn count(&self, size: Size) -> Option<usize> {
        self.count_of(size, self.tile)
    }

    /// The same of clusters' tiles.
    pub(super) fn count_clusters(&self, size: Size) -> Option<usize> {
        self.count_of(size, [self.tile[0] * self.cluster[0], self.tile[1] * self.cluster[1]])
    }

    fn count_of(&self, size: Size, [rows, columns]: [usize; 2]) -> Option<usize> {
        size.m.div_ceil(rows).checked_mul(size.n.div_ceil(columns))
    }
}

/// A tile of the last steps on a device.
#[derive(Clone, Debug)]
pub(super) struct LoadedTile {
    pub(super) shape: TileShape,
    pub(super) geometry: Geometry,
    pub(super) kernels: Kernels,
    /// Blocks that a multiprocessor holds at once.
    pub(super) blocks_each: usize,
}

/// The first tile that the product has enough of; the last one otherwise.
pub(super) fn choose(tiles: &[LoadedTile], size: Size, processors: usize) -> Option<&LoadedTile> {
    let enough = |tile: &&LoadedTile| {
        let count = tile.geometry.count(size);
        count.is_some_and(|count| count as f64 >= tile.shape.tiles_each * processors as f64)
    };
    tiles.iter().find(enough).or(tiles.last())
}
