//! Shapes of tile, and the choice for a problem: used by the last steps of the products and of the convolutions.
//!
//! A shape is a struct of the kernel file; its sizes are read from the compiled kernels, so that only the `.cu` states them.

use common::device::{Module, Properties};
use common::prelude::*;

/// A shape of tile.
#[derive(Clone, Copy, Debug)]
pub struct TileShape {
    /// Struct that has its sizes.
    pub name: &'static str,
    /// Suffix of its kernels' names.
    pub suffix: &'static str,
}

impl TileShape {
    /// The struct with this name, with kernels whose names end with `suffix`.
    pub const fn new(name: &'static str, suffix: &'static str) -> TileShape {
        TileShape { name, suffix }
    }
}

/// The chosen tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenTile {
    /// Struct that has its sizes.
    pub name: &'static str,
    /// `64×128` or, with slices, `64×64/8`.
    pub size: String,
}

/// A problem for tiles: the size of C, and the number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Rows of C.
    pub(crate) rows: usize,
    /// Columns of C.
    pub(crate) columns: usize,
    /// Steps along K.
    pub(crate) steps: usize,
    /// Whether rows of A are windows of an image.
    pub(crate) gathered: bool,
}

// ANCHOR: constants
// Microseconds of an H200, fitted to the times and the choices of records/nvidia-h200-sweep.json.
/// Microseconds of a launch.
const START: f64 = 1.841;
/// Microseconds of a step, for each KiB that its copies write to shared memory and its products read there,
const SHARED: f64 = 0.00408;
/// and if the copies gather windows.
const GATHER: f64 = 0.1104;
/// Microseconds of a tile, and for each 1024 of its sums.
const FINISH: f64 = 1.066;
const STORE: f64 = 0.0991;
/// Microseconds of slices that meet.
const MEET: f64 = 1.359;
// ANCHOR_END: constants

/// Bytes of shared memory that a block takes in addition to its own.
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
    /// Bytes of a row of a box of C in shared memory, if any.
    pub(crate) out_row: usize,
}

impl Geometry {
    /// Reads a file with one tile: `BM`, `BN`, `THREADS` and, if present, `BK`, `STAGES`, the dynamic memory `SHARED`, the blocks
    /// of a `CLUSTER`, one below the other, and the bytes of a row of tiles and boxes, `ROW_BYTES`.
    pub(crate) fn of_file(module: &Module) -> Result<Geometry> {
        let find = |name: &str| module.find_constant(name).map(|_| module.constant(name)).transpose();
        Ok(Geometry {
            tile: [module.constant("BM")?, module.constant("BN")?],
            threads: module.constant("THREADS")? as u32,
            shared_bytes: find("SHARED")?.unwrap_or(0) as u32,
            cluster: [find("CLUSTER")?.unwrap_or(1), 1],
            slices: 1,
            stages: find("STAGES")?.unwrap_or(1),
            along_k: find("BK")?,
            out_row: find("ROW_BYTES")?.unwrap_or(0),
        })
    }

    /// Reads a shape of `gemm_hopper.cuh` for this type of values.
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
            out_row: derived("OUT_ROW")?,
        })
    }

    /// Tiles of C; `None` if there are too many to count.
    pub(crate) fn tiles(&self, rows: usize, columns: usize) -> Option<usize> {
        rows.div_ceil(self.tile[0]).checked_mul(columns.div_ceil(self.tile[1]))
    }

    /// The grid for C on a device that fits this many blocks: a cluster for each tile if slices share one; otherwise persistent
    /// blocks that share out the tiles. `None` if there are too many to count.
    pub(crate) fn grid(&self, work: &Work, room: usize) -> Option<usize> {
        if self.slices > 1 {
            return self.tiles(work.rows, work.columns)?.checked_mul(self.slices);
        }
        let [down, across] = self.cluster;
        let tiles = Geometry { tile: [self.tile[0] * down, self.tile[1] * across], ..*self };
        let clusters = tiles.tiles(work.rows, work.columns)?.min((room / (down * across)).max(1));
        Some(clusters * down * across)
    }

    // ANCHOR: cost
    /// Approximate microseconds of a launch on an H200 that fits this many blocks: the start, and for each wave of tiles its
    /// steps, the end of a tile, and the meeting of slices.
    ///
    /// A step takes shared memory's time: copies write a row of A or B, 128 bytes, once, and an instruction for 64 rows of A reads
    /// those and all of B. A cluster lies in one of the chip's parts, of 16 or 18 SMs, so some of these have none.
    fn microseconds(&self, work: &Work, room: usize) -> f64 {
        let [rows, columns] = self.tile;
        let (cluster, slices) = (self.cluster[0] * self.cluster[1] * self.slices, self.slices);
        let together = (room - room * (cluster - 1) / 33) / cluster;
        let units = self.tiles(work.rows, work.columns).unwrap_or(usize::MAX).saturating_mul(slices).div_ceil(cluster);
        let waves = units.div_ceil(together.max(1)) as f64;
        let area = (rows * columns) as f64 / 1024.0;
        let gather = if work.gathered { GATHER } else { 0.0 };
        let step = SHARED * (2 * rows + columns + rows / 64 * columns) as f64 / 8.0 + gather;
        let meeting = if slices > 1 { MEET } else { 0.0 };
        START + waves * (work.steps.div_ceil(slices) as f64 * step + FINISH + STORE * area + meeting)
    }
    // ANCHOR_END: cost

    /// Number of blocks of these kernels that an SM holds at once.
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

/// Number of blocks of a kernel that an SM holds at once, by shared memory, registers and threads: at least one.
pub(crate) fn blocks_each(properties: &Properties, kernel: &Kernel, threads: u32, shared_bytes: u32) -> usize {
    let by_shared = (properties.shared_per_block_optin + RESERVED_SHARED) / (shared_bytes + RESERVED_SHARED);
    let by_threads = properties.max_threads_per_multiprocessor.map_or(u32::MAX, |most| most / threads);
    let registers = kernel.attributes().registers.zip(properties.registers_per_multiprocessor);
    let by_registers = registers.map_or(u32::MAX, |(each, all)| all / (each.max(1) * threads));
    by_shared.min(by_threads).min(by_registers).max(1) as usize
}

/// Multiprocessors assumed for a device that does not report them: the simulator, whose blocks then have several tiles each.
const PROCESSORS: usize = 4;

/// Multiprocessors to share out tiles among.
pub(crate) fn processors(device: &Device) -> usize {
    device.properties().multiprocessors.map_or(PROCESSORS, |count| count as usize)
}

/// The kernels of a tile, by kind: the precision, or the precision and the layout.
#[derive(Clone, Debug)]
pub(crate) struct Kernels<Kind>(Vec<(Kind, Kernel)>);

impl<Kind: Copy + PartialEq> Kernels<Kind> {
    /// Loads the kernel named `name` of each kind, if the file has it.
    pub(crate) fn load(
        module: &Module,
        kinds: impl IntoIterator<Item = Kind>,
        name: impl Fn(Kind) -> String,
    ) -> Result<Kernels<Kind>> {
        let here = |kind: &Kind| module.kernel_names().any(|here| here == name(*kind));
        let kernel = |kind| Ok((kind, module.kernel(&name(kind))?));
        Ok(Kernels(kinds.into_iter().filter(here).map(kernel).collect::<Result<_>>()?))
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
    /// Blocks that an SM holds at once.
    blocks_each: usize,
}

impl<Kind: Copy + PartialEq> LoadedTile<Kind> {
    /// The kernels of a tile with these sizes.
    fn load(
        device: &Device,
        module: &Module,
        shape: TileShape,
        geometry: Geometry,
        kinds: &[Kind],
        name: impl Fn(Kind) -> String,
    ) -> Result<LoadedTile<Kind>> {
        let kernels = Kernels::load(module, kinds.iter().copied(), |kind| name(kind) + shape.suffix)?;
        let all = kernels.0.iter().map(|(_, kernel)| kernel);
        let blocks_each = geometry.blocks_each(device.properties(), all);
        Ok(LoadedTile { shape, geometry, kernels, blocks_each })
    }

    /// The kernel of this kind.
    pub(crate) fn kernel(&self, kind: Kind) -> Result<&Kernel> {
        let kernel = self.kernels.get(kind);
        kernel.ok_or_else(|| Error::Invalid(format!("the tile {} has no kernel for these types", self.shape.name)))
    }

    /// Names of the tile.
    pub(crate) fn chosen(&self) -> ChosenTile {
        ChosenTile { name: self.shape.name, size: self.geometry.name() }
    }

    /// Whether it can compute this at all: each slice needs a step.
    fn takes(&self, work: &Work, kind: Kind) -> bool {
        work.steps >= self.geometry.slices && self.kernels.get(kind).is_some()
    }
}

/// The available tiles for a problem, on a device.
#[derive(Clone, Debug)]
pub(crate) struct Tiles<Kind> {
    tiles: Vec<LoadedTile<Kind>>,
    /// Multiprocessors that share them out.
    pub(crate) processors: usize,
}

impl<Kind: Copy + PartialEq> Tiles<Kind> {
    /// For each of `shapes` the kernels in the file whose names end with its suffix. The sizes are those for values of `class`:
    /// types differ only in the values per row.
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
            LoadedTile::load(device, module, shape, geometry, kinds, &name)
        };
        Ok(Tiles { tiles: shapes.iter().map(load).collect::<Result<_>>()?, processors: processors(device) })
    }

    /// The only tile of a file.
    pub(crate) fn of_file(
        device: &Device,
        module: &Module,
        kinds: &[Kind],
        name: impl Fn(Kind) -> String,
    ) -> Result<Tiles<Kind>> {
        let tile = LoadedTile::load(device, module, TileShape::new("", ""), Geometry::of_file(module)?, kinds, name)?;
        Ok(Tiles { tiles: vec![tile], processors: processors(device) })
    }

    /// The tiles of both.
    #[must_use]
    pub(crate) fn join(mut self, others: &Tiles<Kind>) -> Tiles<Kind> {
        self.tiles.extend_from_slice(&others.tiles);
        self
    }

    /// The same with only one of them; `None` if it does not have that tile.
    pub(crate) fn only(&self, name: &str) -> Option<Tiles<Kind>> {
        let only = self.tiles.iter().find(|loaded| loaded.shape.name == name)?.clone();
        Some(Tiles { tiles: vec![only], ..*self })
    }

    /// Their names in the kernel file.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tiles.iter().map(|loaded| loaded.shape.name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tiles.is_empty()
    }

    /// The tile that is expected to be the fastest; `None` if none can compute this.
    pub(crate) fn choose(&self, work: &Work, kind: Kind) -> Option<&LoadedTile<Kind>> {
        self.choose_for(work, kind, self.processors)
    }

    /// The same on a GPU with this many SMs.
    pub(crate) fn choose_for(&self, work: &Work, kind: Kind, processors: usize) -> Option<&LoadedTile<Kind>> {
        let able = self.tiles.iter().filter(|tile| tile.takes(work, kind));
        let microseconds = |tile: &LoadedTile<Kind>| tile.geometry.microseconds(work, processors * tile.blocks_each);
        able.min_by(|a, b| microseconds(a).total_cmp(&microseconds(b)))
    }

    /// The grid of one of them; `None` if there are too many tiles to count.
    pub(crate) fn grid(&self, tile: &LoadedTile<Kind>, work: &Work) -> Option<usize> {
        tile.geometry.grid(work, self.processors * tile.blocks_each)
    }
}
