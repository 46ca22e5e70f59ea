//! The GEMM ladder: C = relu(α·A·B + β·C + bias), f32, from one thread an element to tiles that keep the arithmetic units busy.
//!
//! Each step is a kernel file and, here, its geometry; what is launched and how is the same for all and written once, in
//! [`Gemm::launch`].
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`step01_uncoalesced`] | `gemm_01_uncoalesced.cu` | one thread an element, lanes down a column |
//! | [`step02_coalesced`] | `gemm_02_coalesced.cu` | lanes along a row |
//! | [`step03_shared_tile`] | `gemm_03_shared_tile.cu` | tiles in shared memory, fetched once a block |
//! | [`step04_register_column`] | `gemm_04_register_column.cu` | a column of C a thread, in registers |
//! | [`step05_register_tile`] | `gemm_05_register_tile.cu` | a square of C a thread |
//! | [`step06_vectors`] | `gemm_06_vectors.cu` | 16 bytes a load, A transposed in shared memory |
//! | [`step07_no_conflicts`] | `gemm_07_no_conflicts.cu` | every lane its own bank |
//! | [`step08_warp_tiles`] | `gemm_08_warp_tiles.cu` | a nearly square part of C a warp |
//! | [`step09_double_buffer`] | `gemm_09_double_buffer.cu` | the next tiles on their way while these are multiplied |
//! | [`step10_tuned`] | `gemm_10_tuned.cu` | the tile that fits the size, three steps ahead |
//! | [`step11_split_k`] | `gemm_11_split_k.cu` | K cut where there are few tiles |
//!
//! [`Tuned`] chooses among them by the size of the problem.

use std::sync::{Arc, Mutex, PoisonError};

use common::prelude::*;

mod tiles;

pub use tiles::TileShape;
use tiles::{LoadedTile, Workspace};

pub mod step01_uncoalesced;
pub mod step02_coalesced;
pub mod step03_shared_tile;
pub mod step04_register_column;
pub mod step05_register_tile;
pub mod step06_vectors;
pub mod step07_no_conflicts;
pub mod step08_warp_tiles;
pub mod step09_double_buffer;
pub mod step10_tuned;
pub mod step11_split_k;

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
    step10_tuned::STEP,
    step11_split_k::STEP,
];

/// M, N and K up to here: the kernels' sums of an index and a tile's size then fit 31 bits.
pub const LARGEST: usize = 1 << 30;

/// How B lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// B is \[K, N\], row-major.
    RowMajor,
    /// B is given as its transpose, \[N, K\] row-major: x·Wᵀ, as a linear layer has it.
    Transposed,
}

impl Layout {
    /// Both.
    pub const ALL: [Layout; 2] = [Layout::RowMajor, Layout::Transposed];

    /// The kernels' suffix for it, as BLAS calls it: the first letter is A's.
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

/// What becomes of the product before it is written: C = relu(alpha·A·B + beta·C + bias).
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Times the product.
    pub alpha: f32,
    /// Times what C held before; with 0 it is not read, and may hold anything, NaN too.
    pub beta: f32,
    /// \[N\], added to each row.
    pub bias: Option<&'a Tensor>,
    /// Whether negative results become 0.
    pub relu: bool,
}

impl Default for Epilogue<'_> {
    /// The product alone.
    fn default() -> Self {
        Epilogue { alpha: 1.0, beta: 0.0, bias: None, relu: false }
    }
}

/// The scalars of an [`Epilogue`], as `epilogue.cuh` has them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Scalars {
    alpha: f32,
    beta: f32,
    /// What is below becomes it.
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
pub struct Tiling {
    /// Rows and columns of C that a block computes.
    tile: [usize; 2],
    threads: u32,
    /// Whether there are kernels with accesses of 16 bytes, for K and N that are multiples of 4, beside those for any.
    vectors: bool,
    /// The tiles it chooses from by the size of the product, largest first; none if it has the one above.
    tiles: &'static [TileShape],
    /// Whether K is cut where there are few tiles.
    splits: bool,
}

impl Step {
    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Device::kernel`]; [`Error::Unsupported`] if the step needs a newer GPU.
    pub fn load(&self, device: &Device) -> Result<Gemm> {
        // A device that has not its number of multiprocessors to tell is a small one.
        let processors = device.properties().multiprocessors.unwrap_or(1) as usize;
        let Tiling { tile, threads, vectors, tiles, splits } = self.method;
        let kernels = if tiles.is_empty() {
            let kernel = |layout: Layout, aligned: bool| {
                let any = if vectors && !aligned { "_any" } else { "" };
                device.kernel(&self.source, &format!("gemm_{}{any}", layout.suffix()))
            };
            let both = |layout| Ok::<_, Error>(Kernels { aligned: kernel(layout, true)?, any: kernel(layout, false)? });
            Loaded::One { tile, threads, row_major: both(Layout::RowMajor)?, transposed: both(Layout::Transposed)? }
        } else {
            let fits = |shape: &&TileShape| shape.shared_bytes() <= device.properties().shared_per_block_optin;
            let load = |shape: &TileShape| LoadedTile::load(device, &self.source, *shape);
            let workspace = splits.then(|| Workspace::new(tiles, 2 * processors));
            Loaded::Tiles { tiles: tiles.iter().filter(fits).map(load).collect::<Result<_>>()?, workspace }
        };
        Ok(Gemm { name: self.name, processors, kernels })
    }
}

/// The kernels for one layout of B.
#[derive(Clone, Debug)]
struct Kernels {
    /// For K and N that are multiples of 4.
    aligned: Kernel,
    any: Kernel,
}

#[derive(Clone, Debug)]
enum Loaded {
    /// One tile for all products.
    One { tile: [usize; 2], threads: u32, row_major: Kernels, transposed: Kernels },
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
}

/// How a product is launched.
struct Plan<'a> {
    kernel: &'a Kernel,
    blocks: usize,
    threads: u32,
    shared_bytes: u32,
    workspace: Option<&'a Mutex<Workspace>>,
}

impl Gemm {
    /// The same with one of its tiles alone, whatever the size of the product; `None` if it has no choice of that.
    pub fn with_tile(&self, tile: [usize; 2]) -> Option<Gemm> {
        let Loaded::Tiles { tiles, workspace } = &self.kernels else { return None };
        let mut only = tiles.iter().find(|loaded| loaded.shape.tile == tile)?.clone();
        only.shape.tiles_each = 0.0;
        let kernels = Loaded::Tiles { tiles: vec![only], workspace: workspace.clone() };
        Some(Gemm { kernels, ..self.clone() })
    }

    /// Queues C = relu(alpha·A·B + beta·C + bias) with `a` \[M, K\], `b` as `layout` says and `c` \[M, N\], all on the stream's
    /// device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another, [`Error::Unsupported`] if one of M, N, K is beyond [`LARGEST`], or
    /// the one tile of [`Gemm::with_tile`] is for whole tiles; [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`] for the workspace.
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
        let counts = [m, n, k].map(|size| i32::try_from(size).ok().filter(|_| size <= LARGEST));
        let plan = self.plan(size, layout);
        let blocks = plan.as_ref().and_then(|plan| u32::try_from(plan.blocks).ok());
        let ([Some(rows), Some(columns), Some(depth)], Some(plan), Some(blocks)) = (counts, plan, blocks) else {
            return Err(Error::Unsupported {
                what: format!("GEMM `{}` of M = {m}, N = {n}, K = {k}", self.name),
                device: stream.device().short_name(),
                reason: match counts.contains(&None) {
                    true => format!("the kernel counts to {LARGEST} in each of them"),
                    false => "it has no kernel for so many tiles, or for a part of one".to_owned(),
                },
            });
        };
        if blocks == 0 {
            return Ok(());
        }
        let scalars = Scalars::from(epilogue);
        let mut workspace = plan.workspace.map(|workspace| workspace.lock().unwrap_or_else(PoisonError::into_inner));
        let mut launch = stream.launch_builder(plan.kernel);
        launch.arg(a.buffer()?).arg(b.buffer()?).arg(epilogue.bias.map(Tensor::buffer).transpose()?);
        launch.arg(c.buffer_mut()?).arg(&rows).arg(&columns).arg(&depth).arg(&scalars);
        if let Some(workspace) = &mut workspace {
            let (parts, arrived) = workspace.get(stream)?;
            launch.arg(parts).arg(arrived);
        }
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (plan.threads, 1, 1),
            shared_mem_bytes: plan.shared_bytes,
        };
        // SAFETY: the kernel writes C [M, N] and reads A [M, K], B [K, N] and the bias [N] alone, whose shapes were compared;
        // there is one block for each tile of C, or the workspace has two parts for each block and a counter for each tile.
        unsafe { launch.launch(config) }
    }

    /// The kernel for this product and its launch; `None` if there are too many tiles to count.
    fn plan(&self, size: Size, layout: Layout) -> Option<Plan<'_>> {
        match &self.kernels {
            Loaded::One { tile, threads, row_major, transposed } => {
                let kernels = match layout {
                    Layout::RowMajor => row_major,
                    Layout::Transposed => transposed,
                };
                Some(Plan {
                    // Rows of A and B then begin at multiples of 16 bytes, as tensors themselves do.
                    kernel: if size.k.is_multiple_of(4) && size.n.is_multiple_of(4) {
                        &kernels.aligned
                    } else {
                        &kernels.any
                    },
                    blocks: size.m.div_ceil(tile[0]).checked_mul(size.n.div_ceil(tile[1]))?,
                    threads: *threads,
                    shared_bytes: 0,
                    workspace: None,
                })
            }
            Loaded::Tiles { tiles, workspace } => {
                let (tile, kernel) = tiles::choose(tiles, size, layout, self.processors)?;
                let count = tile.shape.count(size);
                // With fewer than four steps a part costs more to hand over than it saves.
                let cuts = (2 * self.processors / count.max(1)).min(size.k.div_ceil(tile.shape.step) / 4).max(1);
                Some(Plan {
                    kernel,
                    blocks: if workspace.is_some() { count * cuts } else { count },
                    threads: tile.shape.threads,
                    shared_bytes: tile.shape.shared_bytes(),
                    workspace: workspace.as_deref(),
                })
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
    /// M, N and K of tensors that fit one another.
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
    /// Where the GPU has `cp.async`.
    split: Option<Gemm>,
}

impl Tuned {
    /// Loads the steps that it chooses from: those with tuned tiles and with cut K, or step 8 on GPUs before compute capability 8.0.
    ///
    /// # Errors
    /// As [`Step::load`].
    pub fn load(device: &Device) -> Result<Tuned> {
        match step10_tuned::STEP.load(device) {
            Ok(tiles) => Ok(Tuned { tiles, split: Some(step11_split_k::STEP.load(device)?) }),
            Err(error) if error.is_unsupported() => {
                Ok(Tuned { tiles: step08_warp_tiles::STEP.load(device)?, split: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Bytes of the workspace, as far as launches have asked for it.
    pub fn workspace_bytes(&self) -> usize {
        match self.split.as_ref().map(|split| &split.kernels) {
            Some(Loaded::Tiles { workspace: Some(workspace), .. }) => {
                workspace.lock().unwrap_or_else(PoisonError::into_inner).bytes()
            }
            _ => 0,
        }
    }

    /// [`Gemm::launch`] of the step for this size.
    ///
    /// # Errors
    /// As [`Gemm::launch`].
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
        // With the smallest tiles there is a block for every second multiprocessor at most, and K is long: cutting it pays.
        let smallest = step10_tuned::STEP.method.tiles.last();
        let few = smallest.is_some_and(|shape| 2 * shape.count(size) <= self.tiles.processors);
        let gemm = match &self.split {
            Some(split) if few && size.k >= CUT_FROM => split,
            _ => &self.tiles,
        };
        gemm.launch(stream, a, b, layout, epilogue, c)
    }
}

/// [`Tuned`] cuts K from here on: on an H200 256×256×K takes 5 µs and 9 ns for each of K whole, 10 µs and 5 ns cut.
const CUT_FROM: usize = 1536;
