//! The GEMM ladder, f32, from one thread per element to tiles that keep the arithmetic units busy.
//!
//! Each step is a kernel file and, here, its purpose. [`Gemm::launch`] launches all of them; tile sizes are read from the
//! compiled kernel, so that only the `.cu` states them. Steps 1 to 17 compute C = A·B alone. Those that layers are built on, 18 and
//! 19, compute C = relu(α·A·B + β·C + bias), with either layout of B, for all sizes.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | `step01_uncoalesced` | `gemm_01_uncoalesced.cu` | one thread per element, lanes down a column |
//! | `step02_coalesced` | `gemm_02_coalesced.cu` | lanes along a row |
//! | `step03_shared_tile` | `gemm_03_shared_tile.cu` | tiles in shared memory, fetched once per block |
//! | `step04_register_column` | `gemm_04_register_column.cu` | a column of C per thread, in registers |
//! | `step05_register_tile` | `gemm_05_register_tile.cu` | a square of C per thread |
//! | `step06_vectors` | `gemm_06_vectors.cu` | 16 bytes per load, A transposed in shared memory |
//! | `step07_no_conflicts` | `gemm_07_no_conflicts.cu` | every lane its own bank |
//! | `step08_warp_tiles` | `gemm_08_warp_tiles.cu` | a nearly square part of C per warp |
//! | `step09_double_buffer` | `gemm_09_double_buffer.cu` | the next tiles on their way while these are multiplied |
//! | `step10_whole_tiles` | `gemm_10_whole_tiles.cu` | no tests of the edge where there is none |
//! | `step11_transposing_copies` | `gemm_11_transposing_copies.cu` | A too by cp.async, which transposes it; no register holds it on its way |
//! | `step12_four_stages` | `gemm_12_four_stages.cu` | four steps along K in shared memory |
//! | `step13_read_ahead` | `gemm_13_read_ahead.cu` | the operands of the next i are read before these are multiplied |
//! | `step14_spread_copies` | `gemm_14_spread_copies.cu` | copies among the multiply-adds rather than in a row |
//! | `step15_back_and_forth` | `gemm_15_back_and_forth.cu` | each multiply-add shares an operand with the one before |
//! | `step16_bands` | `gemm_16_bands.cu` | blocks that run together share rows and columns in L2 |
//! | `step17_slices` | `gemm_17_slices.cu` | twice the sums per thread, and the warps twice |
//! | `step18_tuned` | `gemm_18_tuned.cu` | the tile that fits the size |
//! | `step19_split_k` | `gemm_19_split_k.cu` | K is cut where there are few tiles |
//!
//! [`Tuned`] chooses between the last two by the size of the problem. Before compute capability 8.0 it takes `gemm_portable.cu`,
//! which is no step: 8 with layouts and an epilogue.

use std::sync::{Arc, Mutex, PoisonError};

use bench::ladder;
use common::prelude::*;

mod portable;
mod tiles;
mod transposed;

pub use tiles::TileShape;
use tiles::{Geometry, LoadedTile, Workspace};
pub use transposed::TransposedA;

mod step01_uncoalesced;
mod step02_coalesced;
mod step03_shared_tile;
mod step04_register_column;
mod step05_register_tile;
mod step06_vectors;
mod step07_no_conflicts;
mod step08_warp_tiles;
mod step09_double_buffer;
mod step10_whole_tiles;
mod step11_transposing_copies;
mod step12_four_stages;
mod step13_read_ahead;
mod step14_spread_copies;
mod step15_back_and_forth;
mod step16_bands;
mod step17_slices;
mod step18_tuned;
mod step19_split_k;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[
    step01_uncoalesced::STEP,
    step02_coalesced::STEP,
    step03_shared_tile::STEP,
    step04_register_column::STEP,
    step05_register_tile::STEP,
    step06_vectors::STEP,
    step07_no_conflicts::STEP,
    step08_warp_tiles::STEP,
    step09_double_buffer::STEP,
    step10_whole_tiles::STEP,
    step11_transposing_copies::STEP,
    step12_four_stages::STEP,
    step13_read_ahead::STEP,
    step14_spread_copies::STEP,
    step15_back_and_forth::STEP,
    step16_bands::STEP,
    step17_slices::STEP,
    step18_tuned::STEP,
    step19_split_k::STEP,
];

/// Kernels of products that are no step.
pub static OTHERS: &[Step] = &[portable::STEP];

/// Maximum of M, N and K: the kernels' sums of an index and a tile's size then fit 31 bits.
pub const LARGEST: usize = 1 << 30;

/// Layout of B in memory. Its number is its index among a tile's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// B is \[K, N\], row-major.
    RowMajor,
    /// B is given as its transpose, \[N, K\] row-major: x·Wᵀ, as in a linear layer.
    Transposed,
}

impl Layout {
    /// Both.
    pub const ALL: [Layout; 2] = [Layout::RowMajor, Layout::Transposed];

    /// The kernels' suffix for it, in BLAS notation: the first letter is A's.
    pub fn suffix(self) -> &'static str {
        match self {
            Layout::RowMajor => "nn",
            Layout::Transposed => "nt",
        }
    }

    /// The shape of B.
    pub fn shape(self, n: usize, k: usize) -> [usize; 2] {
        match self {
            Layout::RowMajor => [k, n],
            Layout::Transposed => [n, k],
        }
    }
}

/// Applied to the product before it is stored: C = relu(alpha·A·B + beta·C + bias). A convolution's output is its C, with a bias per
/// output channel.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the previous value of C; with 0, C is not read and may hold anything, even NaN.
    pub beta: f32,
    /// \[N\], added to each row; of a convolution, \[K\].
    pub bias: Option<&'a Tensor>,
    /// Whether negative results become 0.
    pub relu: bool,
}

impl Epilogue<'_> {
    /// Whether the product is stored as it is.
    fn is_nothing(&self) -> bool {
        self.alpha == 1.0 && self.beta == 0.0 && self.bias.is_none() && !self.relu
    }
}

impl Default for Epilogue<'_> {
    /// Only the product.
    fn default() -> Self {
        Epilogue { alpha: 1.0, beta: 0.0, bias: None, relu: false }
    }
}

/// The scalars of an [`Epilogue`], laid out as in `epilogue.cuh`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Scalars {
    alpha: f32,
    beta: f32,
    /// The least value.
    floor: f32,
}

impl From<&Epilogue<'_>> for Scalars {
    fn from(&Epilogue { alpha, beta, relu, .. }: &Epilogue<'_>) -> Scalars {
        Scalars { alpha, beta, floor: if relu { 0.0 } else { f32::NEG_INFINITY } }
    }
}

// SAFETY: `repr(C)` with f32 only, so there is no padding and every bit pattern is valid.
unsafe impl bytemuck::Zeroable for Scalars {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Scalars {}

/// A step of the ladder.
pub type Step = crate::Step<Tiling>;

/// How a step's kernels share out C.
#[derive(Clone, Copy, Debug)]
pub enum Tiling {
    /// One kernel with one tile, for C = A·B alone: B is row-major, and there is no epilogue. Blocks are numbered in two dimensions.
    Plain(Takes),
    /// One tile, and for each layout of B a kernel for K and N that are multiples of 4 and an `_any` kernel for the others.
    Portable,
    /// The tiles it chooses from by the size of the product, largest first.
    Fitting(&'static [TileShape]),
    /// The same, with K cut where there are few tiles.
    Cut(&'static [TileShape]),
}

impl Tiling {
    /// The tiles that the step chooses from.
    fn tiles(self) -> &'static [TileShape] {
        match self {
            Tiling::Fitting(tiles) | Tiling::Cut(tiles) => tiles,
            Tiling::Plain(_) | Tiling::Portable => &[],
        }
    }
}

/// Sizes that a plain step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All.
    Any,
    /// K and N that are multiples of 4, so that all rows begin at multiples of 16 bytes.
    Vectors,
    /// M and N that are multiples of the tile's, and K of the step along it.
    WholeTiles,
}

impl ladder::Method for Tiling {
    type Loaded = Gemm;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] if the step needs a newer GPU; [`Error::Geometry`] if the tile of the
    /// kernel file differs from the step's, [`Error::NoSuchConstant`] if it does not name its tile's sizes.
    fn load(step: &Step, device: &Device) -> Result<Gemm> {
        // A device that cannot tell its number of SMs is a small one.
        let processors = device.properties().multiprocessors.unwrap_or(1) as usize;
        let module = device.load(&step.source)?;
        let both = |suffix: &str| {
            let kernel = |layout: Layout| module.kernel(&format!("gemm_{}{suffix}", layout.suffix()));
            Ok::<_, Error>([kernel(Layout::RowMajor)?, kernel(Layout::Transposed)?])
        };
        let kernels = match step.method {
            Tiling::Plain(takes) => Loaded::Plain {
                geometry: Geometry::of_file(&module)?,
                takes,
                step: module.find_constant("BK").unwrap_or(1) as usize,
                kernel: module.kernel("gemm")?,
            },
            Tiling::Portable => {
                Loaded::Portable { geometry: Geometry::of_file(&module)?, aligned: both("")?, any: both("_any")? }
            }
            Tiling::Fitting(tiles) | Tiling::Cut(tiles) => {
                let cuts = matches!(step.method, Tiling::Cut(_));
                let layouts = [Layout::RowMajor, Layout::Transposed].map(Layout::suffix);
                let load = |shape: &TileShape| LoadedTile::load(device, &module, *shape, layouts).transpose();
                let workspace = cuts.then(|| Workspace::new(tiles, 2 * processors));
                Loaded::Tiles { tiles: tiles.iter().filter_map(load).collect::<Result<_>>()?, workspace }
            }
        };
        Ok(Gemm { name: step.name, processors, kernels, blocks_each: None })
    }
}

/// A kernel for each [`Layout`], in its order.
type PerLayout = [Kernel; 2];

#[derive(Clone, Debug)]
enum Loaded {
    /// One tile and one step along K for products A·B.
    Plain { geometry: Geometry, takes: Takes, step: usize, kernel: Kernel },
    /// One tile for all products.
    Portable {
        geometry: Geometry,
        /// For K and N that are multiples of 4: rows of A and B then begin at multiples of 16 bytes, as tensors themselves do.
        aligned: PerLayout,
        any: PerLayout,
    },
    /// A choice of tiles.
    Tiles { tiles: Vec<LoadedTile>, workspace: Option<Arc<Mutex<Workspace>>> },
}

/// A step, loaded on a device. It takes every M, N and K from 0 to [`LARGEST`].
///
/// A step that cuts K has a workspace, which clones share: its launches must follow each other, as they do on one stream. The
/// first of them allocates it.
#[derive(Clone, Debug)]
pub struct Gemm {
    name: &'static str,
    processors: usize,
    kernels: Loaded,
    /// Blocks of equal work per SM, where a product has fewer tiles.
    blocks_each: Option<usize>,
}

/// How a product is launched.
struct Plan<'a> {
    kernel: &'a Kernel,
    grid: [u32; 2],
    block: [u32; 2],
    shared_bytes: u32,
    workspace: Option<&'a Mutex<Workspace>>,
}

impl Gemm {
    /// The same with only one of its tiles, whatever the size of the product; `None` if the step has no choice of tiles.
    pub fn with_tile(&self, tile: [usize; 2]) -> Option<Gemm> {
        let Loaded::Tiles { tiles, workspace } = &self.kernels else { return None };
        let mut only = tiles.iter().find(|loaded| loaded.shape.tile == tile)?.clone();
        only.shape.tiles_each = 0.0;
        let kernels = Loaded::Tiles { tiles: vec![only], workspace: workspace.clone() };
        Some(Gemm { kernels, ..self.clone() })
    }

    /// The same with this many blocks of equal work per SM wherever a product has fewer tiles, instead of whole cuts, and with
    /// its own workspace; `None` if it does not cut K.
    pub fn evenly(&self, blocks_each: usize) -> Option<Gemm> {
        let Loaded::Tiles { tiles, workspace: Some(_) } = &self.kernels else { return None };
        let shapes: Vec<TileShape> = tiles.iter().map(|loaded| loaded.shape).collect();
        let workspace = Some(Workspace::new(&shapes, blocks_each * self.processors));
        let kernels = Loaded::Tiles { tiles: tiles.clone(), workspace };
        Some(Gemm { kernels, blocks_each: Some(blocks_each), ..self.clone() })
    }

    /// Why it does not compute this product; `None` if it does. A [`Tiling::Plain`] step takes only A·B with B row-major, and only the
    /// sizes that it [`Takes`].
    pub fn refusal(&self, size: [usize; 3], layout: Layout, epilogue: &Epilogue<'_>) -> Option<String> {
        if size.iter().any(|&size| size > LARGEST) {
            return Some(format!("the kernel counts to {LARGEST} in each of them"));
        }
        let Loaded::Plain { geometry, takes, step, .. } = &self.kernels else { return None };
        if layout == Layout::Transposed || !epilogue.is_nothing() {
            return Some("this step computes A·B alone, with B row-major".to_owned());
        }
        let [m, n, k] = size;
        match takes {
            Takes::Vectors if n % 4 != 0 || k % 4 != 0 => {
                Some("this step takes N and K that are multiples of 4".to_owned())
            }
            Takes::WholeTiles if !geometry.is_whole(Size { m, n, k }, *step) => {
                let [rows, columns] = geometry.tile;
                Some(format!(
                    "this step takes whole tiles: M, N and K that are multiples of {rows}, {columns} and {step}"
                ))
            }
            _ => None,
        }
    }

    /// Queues C = relu(alpha·A·B + beta·C + bias) with `a` \[M, K\], `b` in `layout` and `c` \[M, N\], all on the stream's
    /// device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match, [`Error::Unsupported`] if the kernels do not take this product (see
    /// [`Gemm::refusal`]), [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`], [`Error::OutOfMemory`] for the
    /// workspace.
    pub fn launch(
        &self,
        stream: &Stream,
        a: &Tensor,
        b: &Tensor,
        layout: Layout,
        epilogue: &Epilogue<'_>,
        c: &mut Tensor,
    ) -> Result<()> {
        let size = Size::of(a, b, layout, epilogue, c)?;
        let Size { m, n, k } = size;
        let unsupported = |reason: String| Error::Unsupported {
            what: format!("GEMM `{}` of M = {m}, N = {n}, K = {k}", self.name),
            device: stream.device().short_name(),
            reason,
        };
        if let Some(reason) = self.refusal([m, n, k], layout, epilogue) {
            return Err(unsupported(reason));
        }
        let plan = self.plan(size, layout);
        let plan =
            plan.ok_or_else(|| unsupported("it has no kernel for that many tiles, or for part of one".to_owned()))?;
        let is_plain = matches!(self.kernels, Loaded::Plain { .. });
        let [rows, columns, depth] = [m, n, k].map(|size| size as i32);
        if plan.grid.contains(&0) {
            return Ok(());
        }
        let scalars = Scalars::from(epilogue);
        let mut workspace = plan.workspace.map(|workspace| workspace.lock().unwrap_or_else(PoisonError::into_inner));
        let mut launch = stream.launch_builder(plan.kernel);
        launch.arg(a.buffer()?).arg(b.buffer()?);
        if !is_plain {
            launch.arg(epilogue.bias.map(Tensor::buffer).transpose()?);
        }
        launch.arg(c.buffer_mut()?).arg(&rows).arg(&columns).arg(&depth);
        if !is_plain {
            launch.arg(&scalars);
        }
        if let Some(workspace) = &mut workspace {
            let (parts, arrived) = workspace.get(stream)?;
            launch.arg(parts).arg(arrived);
        }
        let config = LaunchConfig {
            grid_dim: (plan.grid[0], plan.grid[1], 1),
            block_dim: (plan.block[0], plan.block[1], 1),
            shared_mem_bytes: plan.shared_bytes,
        };
        // SAFETY: the kernel writes C [M, N] and reads A [M, K], B [K, N] and the bias [N] alone, whose shapes were compared;
        // there is one block for each tile of C, or the workspace has two parts for each block and a counter for each tile.
        unsafe { launch.launch(config) }
    }

    /// The kernel for this product and its launch; `None` if there are too many tiles to count.
    fn plan(&self, size: Size, layout: Layout) -> Option<Plan<'_>> {
        let plan = |kernel, geometry: &Geometry, grid| {
            let Geometry { block, shared_bytes, .. } = *geometry;
            Plan { kernel, grid, block, shared_bytes, workspace: None }
        };
        let in_a_row =
            |kernel, geometry: &Geometry| Some(plan(kernel, geometry, [u32::try_from(geometry.count(size)?).ok()?, 1]));
        match &self.kernels {
            Loaded::Plain { geometry, kernel, .. } => Some(plan(kernel, geometry, geometry.grid(size)?)),
            Loaded::Portable { geometry, aligned, any } => {
                let kernels = if size.k.is_multiple_of(4) && size.n.is_multiple_of(4) { aligned } else { any };
                in_a_row(&kernels[layout as usize], geometry)
            }
            Loaded::Tiles { tiles, workspace } => {
                let (tile, kernel) = tiles::choose(tiles, size, layout, self.processors)?;
                let plan = in_a_row(kernel, &tile.geometry)?;
                let Some(workspace) = workspace else { return Some(plan) };
                let tiles = plan.grid[0] as usize;
                // With fewer than four steps a part costs more to hand over than it saves.
                let most = (size.k.div_ceil(tile.step) / 4).max(1);
                let blocks = match self.blocks_each {
                    None => tiles * (2 * self.processors / tiles.max(1)).min(most).max(1),
                    Some(each) => tiles.max((each * self.processors).min(tiles * most)),
                };
                Some(Plan { grid: [u32::try_from(blocks).ok()?, 1], workspace: Some(workspace), ..plan })
            }
        }
    }
}

/// The size of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

impl Size {
    /// M, N and K of tensors whose shapes match.
    fn of(a: &Tensor, b: &Tensor, layout: Layout, epilogue: &Epilogue<'_>, c: &Tensor) -> Result<Size> {
        let ([m, k], [_, n]) = (a.dims("gemm's A")?, c.dims("gemm's C")?);
        c.expect_shape("gemm's C", &[m, n])?;
        b.expect_shape("gemm's B", &layout.shape(n, k))?;
        if let Some(bias) = epilogue.bias {
            bias.expect_shape("gemm's bias", &[n])?;
        }
        Ok(Size { m, n, k })
    }
}

/// The best step for each size of product.
#[derive(Clone, Debug)]
pub struct Tuned {
    tiles: Gemm,
    /// Present where the GPU has `cp.async`.
    split: Option<Box<Split>>,
}

/// Step 19, with whole cuts and with equal work.
#[derive(Clone, Debug)]
struct Split {
    cut: Gemm,
    even: Gemm,
}

impl Tuned {
    /// The kernel files of the steps that it chooses from, for [`Device::load_ahead`].
    pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
        static STEPS: &[Step] = &[step18_tuned::STEP, step19_split_k::STEP];
        STEPS.iter().map(|step| &step.source)
    }

    /// Loads the steps that it chooses from: those with tuned tiles and with cut K, or the portable kernel before compute capability 8.0.
    ///
    /// # Errors
    /// Same as [`Step::load`].
    pub fn load(device: &Device) -> Result<Tuned> {
        device.load_ahead(Tuned::sources());
        match step18_tuned::STEP.load(device) {
            Ok(tiles) => {
                let cut = step19_split_k::STEP.load(device)?;
                let split = cut.evenly(EVEN_BLOCKS).map(|even| Box::new(Split { cut, even }));
                Ok(Tuned { tiles, split })
            }
            Err(error) if error.is_unsupported() => Ok(Tuned { tiles: portable::STEP.load(device)?, split: None }),
            Err(error) => Err(error),
        }
    }

    /// Bytes of the workspaces that launches have needed so far.
    pub fn workspace_bytes(&self) -> usize {
        let bytes = |gemm: &Gemm| match &gemm.kernels {
            Loaded::Tiles { workspace: Some(workspace), .. } => {
                workspace.lock().unwrap_or_else(PoisonError::into_inner).bytes()
            }
            _ => 0,
        };
        self.split.as_ref().map_or(0, |split| bytes(&split.cut) + bytes(&split.even))
    }

    /// [`Gemm::launch`] of the step for this size.
    ///
    /// # Errors
    /// Same as [`Gemm::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        a: &Tensor,
        b: &Tensor,
        layout: Layout,
        epilogue: &Epilogue<'_>,
        c: &mut Tensor,
    ) -> Result<()> {
        let size = Size::of(a, b, layout, epilogue, c)?;
        self.chosen(size, layout).0.launch(stream, a, b, layout, epilogue, c)
    }

    /// Launch of a product \[M, N, K\], such as `tiles of 128×128`.
    pub fn explain(&self, [m, n, k]: [usize; 3], layout: Layout) -> String {
        let size = Size { m, n, k };
        let (gemm, how) = self.chosen(size, layout);
        let tile = match &gemm.kernels {
            Loaded::Tiles { tiles, .. } => tiles::choose(tiles, size, layout, gemm.processors),
            _ => None,
        };
        tile.map_or_else(String::new, |(tile, _)| {
            let [rows, columns] = tile.shape.tile;
            format!("tiles of {rows}×{columns}{how}")
        })
    }

    /// The step for a size, and the suffix that explains the choice.
    fn chosen(&self, size: Size, layout: Layout) -> (&Gemm, &'static str) {
        let Some(Split { cut, even }) = self.split.as_deref() else { return (&self.tiles, "") };
        let processors = self.tiles.processors;
        // With the smallest tiles there is a block for every second SM at most, and K is long: cutting it pays.
        let smallest = step18_tuned::STEP.method.tiles().last();
        if smallest.is_some_and(|shape| 2 * shape.count(size) <= processors) && size.k >= CUT_FROM {
            return (cut, ", K cut");
        }
        let rates = [&self.tiles, even].map(|gemm| gemm.rate(size, layout));
        let Size { m, n, k } = size;
        let large = m.saturating_mul(n).saturating_mul(k) > EVEN_FROM;
        match rates {
            [Some(whole), Some(evenly)] if large && evenly > GAIN * whole => (even, ", equal work"),
            _ => (&self.tiles, ""),
        }
    }
}

impl Gemm {
    /// Estimated TFLOP/s on an H200 of a product of many steps.
    fn rate(&self, size: Size, layout: Layout) -> Option<f64> {
        let Loaded::Tiles { tiles, .. } = &self.kernels else { return None };
        let (tile, _) = tiles::choose(tiles, size, layout, self.processors)?;
        let each = self.blocks_each.unwrap_or(0);
        Some(tiles::expected(tile.rate(size), &tile.shape, size, each, self.processors))
    }
}

/// [`Tuned`] cuts K from here on: on an H200 256×256×K takes 5 µs and 9 ns for each of K whole, 10 µs and 5 ns cut.
const CUT_FROM: usize = 1536;
/// Blocks of step 19 that an SM runs at a time.
const EVEN_BLOCKS: usize = 3;
/// Used for products with more multiply-adds than this: smaller ones finish before parts are handed over.
const EVEN_FROM: usize = 1 << 27;
/// Equal work must be estimated as faster by this factor.
const GAIN: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether equal work pays, as [`Tuned::chosen`] decides on an H200, for the tiles that step 18 would use.
    fn gains(size: [usize; 3], tile: [usize; 2], whole: bool) -> bool {
        let [m, n, k] = size;
        let size = Size { m, n, k };
        let of = |step: &Step| {
            step.method.tiles().iter().find(|shape| step.number == 19 || shape.tile == tile).copied().unwrap()
        };
        let [fitting, even] = [of(&step18_tuned::STEP), of(&step19_split_k::STEP)];
        let rate = |shape: TileShape, each: usize, whole: bool| {
            tiles::expected(shape.rate * if whole { 1.0 } else { tiles::ANY }, &shape, size, each, 132)
        };
        rate(even, EVEN_BLOCKS, true) > GAIN * rate(fitting, 0, whole)
    }

    /// Linear layers of the U-Net, and the products of the table.
    #[test]
    fn equal_work_is_for_ragged_tiles_and_for_part_of_a_round() {
        assert!(gains([8192, 960, 320], [64, 128], false));
        assert!(gains([2048, 640, 2560], [64, 128], true));
        assert!(gains([512, 5120, 1280], [128, 128], true));
        assert!(gains([512, 1280, 5120], [32, 32], true));
        assert!(!gains([512, 3840, 1280], [128, 128], true));
        assert!(!gains([1024, 1024, 1024], [64, 128], true));
        assert!(!gains([2048, 2048, 2048], [128, 128], true));
        assert!(!gains([8192, 8192, 8192], [128, 256], true));
    }
}
