//! Shapes of tile, and which of them fits a problem: what the last steps of the products and of the convolutions choose from.
//!
//! A shape is a struct of the kernel file; its sizes are read from the compiled kernels, so that they stand in the `.cu` alone.

use common::device::{Module, Properties};
use common::prelude::*;

/// A shape of tile, and the problems that it was measured to be best for.
#[derive(Clone, Copy, Debug)]
pub struct TileShape {
    /// The struct that has its sizes.
    pub name: &'static str,
    /// What its kernels' names end with.
    pub suffix: &'static str,
    /// For problems that give a multiprocessor at least this many blocks,
    pub least: f64,
    /// at most this many,
    pub most: f64,
    /// with at least this many steps along K
    pub steps: usize,
    /// and at most this many columns of C.
    pub columns: usize,
}

impl TileShape {
    /// A shape that takes every problem.
    pub const fn any(name: &'static str, suffix: &'static str) -> TileShape {
        TileShape { name, suffix, least: 0.0, most: f64::INFINITY, steps: 1, columns: usize::MAX }
    }
}

/// A problem as tiles see it: C, and how often they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Rows of C.
    pub(crate) rows: usize,
    /// Columns of C.
    pub(crate) columns: usize,
    /// Steps along K.
    pub(crate) steps: usize,
}

/// Bytes of shared memory that a block takes beside its own.
const RESERVED_SHARED: u32 = 1024;

/// The sizes of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Rows and columns of C that a block computes.
    pub(crate) tile: [usize; 2],
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Dynamic shared memory of a block.
    pub(crate) shared_bytes: u32,
    /// Blocks of a cluster that have neighbouring tiles, down and across.
    pub(crate) cluster: [usize; 2],
    /// Blocks of a cluster that share one tile, each for a part of K.
    pub(crate) slices: usize,
    /// Tiles of A and of B that shared memory holds at once,
    pub(crate) stages: usize,
    /// and their values along K, if the file names them.
    pub(crate) along_k: Option<usize>,
}

impl Geometry {
    /// Of a file with one tile: `BM`, `BN`, `THREADS` and, where there are such, `BK`, `STAGES` and the dynamic memory `SHARED`.
    pub(crate) fn of_file(module: &Module) -> Result<Geometry> {
        let find = |name: &str| module.find_constant(name).map(|_| module.constant(name)).transpose();
        Ok(Geometry {
            tile: [module.constant("BM")?, module.constant("BN")?],
            threads: module.constant("THREADS")? as u32,
            shared_bytes: find("SHARED")?.unwrap_or(0) as u32,
            cluster: [1, 1],
            slices: 1,
            stages: find("STAGES")?.unwrap_or(1),
            along_k: find("BK")?,
        })
    }

    /// Of a shape of `gemm_hopper.cuh` for this type of values.
    pub(crate) fn of_shape(module: &Module, shape: &TileShape, class: &str) -> Result<Geometry> {
        let name = format!("{}<{class}>", shape.name);
        let of_shape = |constant: &str| module.constant(&format!("{name}::{constant}"));
        let derived = |constant: &str| module.constant(&format!("Geometry<{name}>::{constant}"));
        Ok(Geometry {
            tile: [of_shape("BM")?, of_shape("BN")?],
            threads: derived("THREADS")? as u32,
            shared_bytes: derived("SHARED")? as u32,
            cluster: [of_shape("ROWS")?, of_shape("COLUMNS")?],
            slices: of_shape("SLICES")?,
            stages: of_shape("STAGES")?,
            along_k: Some(derived("BK")?),
        })
    }

    /// Tiles of C; `None` if there are too many to count.
    pub(crate) fn tiles(&self, rows: usize, columns: usize) -> Option<usize> {
        rows.div_ceil(self.tile[0]).checked_mul(columns.div_ceil(self.tile[1]))
    }

    /// The grid for C on a device with room for this many blocks: a cluster for each tile if slices share one; else blocks that stay
    /// and share out the tiles. `None` if there are too many to count.
    pub(crate) fn grid(&self, work: &Work, room: usize) -> Option<usize> {
        if self.slices > 1 {
            return self.tiles(work.rows, work.columns)?.checked_mul(self.slices);
        }
        let [down, across] = self.cluster;
        let tiles = Geometry { tile: [self.tile[0] * down, self.tile[1] * across], ..*self };
        let clusters = tiles.tiles(work.rows, work.columns)?.min((room / (down * across)).max(1));
        Some(clusters * down * across)
    }

    /// How many blocks of these kernels a multiprocessor holds at once.
    pub(crate) fn blocks_each<'k>(
        &self,
        properties: &Properties,
        kernels: impl IntoIterator<Item = &'k Kernel>,
    ) -> usize {
        kernels
            .into_iter()
            .map(|kernel| blocks_each(properties, kernel, self.threads, self.shared_bytes))
            .min()
            .unwrap_or(1)
    }

    /// `64×128` or, with slices, `64×64/8`.
    pub(crate) fn name(&self) -> String {
        let [rows, columns] = self.tile;
        let slices = if self.slices > 1 { format!("/{}", self.slices) } else { String::new() };
        format!("{rows}×{columns}{slices}")
    }
}

/// How many blocks of a kernel a multiprocessor holds at once, by their shared memory, registers and threads: at least one.
pub(crate) fn blocks_each(properties: &Properties, kernel: &Kernel, threads: u32, shared_bytes: u32) -> usize {
    let by_shared = (properties.shared_per_block_optin + RESERVED_SHARED) / (shared_bytes + RESERVED_SHARED);
    let by_threads = properties.max_threads_per_multiprocessor.map_or(u32::MAX, |most| most / threads);
    let registers = kernel.attributes().registers.zip(properties.registers_per_multiprocessor);
    let by_registers = registers.map_or(u32::MAX, |(each, all)| all / (each.max(1) * threads));
    by_shared.min(by_threads).min(by_registers).max(1) as usize
}

/// Multiprocessors of a device that cannot tell: the simulator, whose blocks then have several tiles each.
const PROCESSORS: usize = 4;

/// Multiprocessors to share out tiles among.
pub(crate) fn processors(device: &Device) -> usize {
    device.properties().multiprocessors.map_or(PROCESSORS, |count| count as usize)
}

/// The kernels of a tile, by what they differ in: the precision, or the precision and the layout.
#[derive(Clone, Debug)]
pub(crate) struct Kernels<Kind>(Vec<(Kind, Kernel)>);

impl<Kind: Copy + PartialEq> Kernels<Kind> {
    /// Of each kind, the kernel with the `name` of it.
    pub(crate) fn load(
        module: &Module,
        kinds: impl IntoIterator<Item = Kind>,
        name: impl Fn(Kind) -> String,
    ) -> Result<Kernels<Kind>> {
        let kernel = |kind| Ok((kind, module.kernel(&name(kind))?));
        Ok(Kernels(kinds.into_iter().map(kernel).collect::<Result<_>>()?))
    }

    pub(crate) fn get(&self, kind: Kind) -> Option<&Kernel> {
        self.0.iter().find(|(of, _)| *of == kind).map(|(_, kernel)| kernel)
    }
}

/// A tile on a device, with its kernels.
#[derive(Clone, Debug)]
pub(crate) struct LoadedTile<Kind> {
    pub(crate) shape: TileShape,
    pub(crate) geometry: Geometry,
    pub(crate) kernels: Kernels<Kind>,
    /// Blocks that a multiprocessor holds at once.
    blocks_each: usize,
}

impl<Kind: Copy + PartialEq> LoadedTile<Kind> {
    /// The kernel of this kind.
    pub(crate) fn kernel(&self, kind: Kind) -> Result<&Kernel> {
        let kernel = self.kernels.get(kind);
        kernel.ok_or_else(|| Error::Invalid(format!("the tile {} has no kernel for these types", self.shape.name)))
    }

    /// Whether it can compute this at all: each slice needs a step.
    fn takes(&self, work: &Work) -> bool {
        work.steps >= self.geometry.slices
    }

    fn fits(&self, work: &Work, processors: usize) -> bool {
        let TileShape { least, most, steps, columns, .. } = self.shape;
        let tiles = self.geometry.tiles(work.rows, work.columns).unwrap_or(usize::MAX);
        let blocks = tiles.saturating_mul(self.geometry.slices) as f64 / processors as f64;
        (least..=most).contains(&blocks) && work.steps >= steps && work.columns <= columns
    }
}

/// The tiles that a problem's is chosen from, on a device.
#[derive(Clone, Debug)]
pub(crate) struct Tiles<Kind> {
    tiles: Vec<LoadedTile<Kind>>,
    /// Multiprocessors that share them out.
    pub(crate) processors: usize,
}

impl<Kind: Copy + PartialEq> Tiles<Kind> {
    /// For each of `shapes`, in the order in which they are asked whether they fit, the kernels whose names end with its suffix. The
    /// sizes are those for values of `class`: types differ in the values per row alone.
    pub(crate) fn load(
        device: &Device,
        module: &Module,
        shapes: &[TileShape],
        class: &str,
        kinds: &[Kind],
        name: impl Fn(Kind) -> String,
    ) -> Result<Tiles<Kind>> {
        let load = |&shape: &TileShape| {
            let geometry = Geometry::of_shape(module, &shape, class)?;
            let kernels = Kernels::load(module, kinds.iter().copied(), |kind| name(kind) + shape.suffix)?;
            let all = kernels.0.iter().map(|(_, kernel)| kernel);
            let blocks_each = geometry.blocks_each(device.properties(), all);
            Ok(LoadedTile { shape, geometry, kernels, blocks_each })
        };
        Ok(Tiles { tiles: shapes.iter().map(load).collect::<Result<_>>()?, processors: processors(device) })
    }

    /// The tiles of both, in the order in which `order` has their shapes.
    #[must_use]
    pub(crate) fn join(mut self, others: &Tiles<Kind>, order: &[TileShape]) -> Tiles<Kind> {
        self.tiles.extend_from_slice(&others.tiles);
        self.tiles.sort_by_key(|loaded| order.iter().position(|shape| shape.name == loaded.shape.name));
        self
    }

    /// The same with one of them alone; `None` if it does not have that.
    pub(crate) fn only(&self, name: &str) -> Option<Tiles<Kind>> {
        let only = self.tiles.iter().find(|loaded| loaded.shape.name == name)?.clone();
        Some(Tiles { tiles: vec![only], ..*self })
    }

    /// Their names, as the kernel file has them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tiles.iter().map(|loaded| loaded.shape.name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tiles.is_empty()
    }

    /// The first tile that fits the problem; the last that can compute it otherwise.
    pub(crate) fn choose(&self, work: &Work) -> Option<&LoadedTile<Kind>> {
        self.choose_for(work, self.processors)
    }

    /// The same on a GPU with this many multiprocessors.
    pub(crate) fn choose_for(&self, work: &Work, processors: usize) -> Option<&LoadedTile<Kind>> {
        let mut able = self.tiles.iter().filter(|tile| tile.takes(work));
        able.clone().find(|tile| tile.fits(work, processors)).or(able.next_back())
    }

    /// The grid of one of them; `None` if there are too many tiles to count.
    pub(crate) fn grid(&self, tile: &LoadedTile<Kind>, work: &Work) -> Option<usize> {
        tile.geometry.grid(work, self.processors * tile.blocks_each)
    }
}
