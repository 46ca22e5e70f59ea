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
//!
//! [`Tuned`] chooses among them by the size of the problem.

use common::prelude::*;

pub mod step01_uncoalesced;
pub mod step02_coalesced;
pub mod step03_shared_tile;
pub mod step04_register_column;
pub mod step05_register_tile;
pub mod step06_vectors;
pub mod step07_no_conflicts;
pub mod step08_warp_tiles;
pub mod step09_double_buffer;

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

/// A step of the ladder: a kernel file and its geometry.
#[derive(Clone, Debug)]
pub struct Step {
    number: u32,
    name: &'static str,
    idea: &'static str,
    source: KernelSource,
    /// Rows and columns of C that a block computes.
    tile: [usize; 2],
    threads: u32,
    /// Whether there are kernels with accesses of 16 bytes, for K and N that are multiples of 4, beside those for any.
    vectors: bool,
}

impl Step {
    /// Its place in the ladder, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What tables call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `07 no conflicts`.
    pub fn title(&self) -> String {
        format!("{:02} {}", self.number, self.name)
    }

    /// What is new in it, in a few words.
    pub fn idea(&self) -> &'static str {
        self.idea
    }

    /// The kernel file.
    pub fn source(&self) -> &KernelSource {
        &self.source
    }

    /// The same geometry for another text, such as a kernel with a mistake that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step {
        Step { source, ..self.clone() }
    }

    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Device::kernel`]; [`Error::Unsupported`] if the step needs a newer GPU.
    pub fn load(&self, device: &Device) -> Result<Gemm> {
        let kernel = |layout: Layout, aligned: bool| {
            let any = if self.vectors && !aligned { "_any" } else { "" };
            device.kernel(&self.source, &format!("gemm_{}{any}", layout.suffix()))
        };
        let both = |layout| Ok::<_, Error>(Kernels { aligned: kernel(layout, true)?, any: kernel(layout, false)? });
        Ok(Gemm {
            name: self.name,
            tile: self.tile,
            threads: self.threads,
            row_major: both(Layout::RowMajor)?,
            transposed: both(Layout::Transposed)?,
        })
    }
}

/// The kernels for one layout of B.
#[derive(Clone, Debug)]
struct Kernels {
    /// For K and N that are multiples of 4.
    aligned: Kernel,
    any: Kernel,
}

/// A step, loaded on a device. It takes every M, N and K from 0 to [`LARGEST`].
#[derive(Clone, Debug)]
pub struct Gemm {
    name: &'static str,
    tile: [usize; 2],
    threads: u32,
    row_major: Kernels,
    transposed: Kernels,
}

impl Gemm {
    /// Queues C = relu(alpha·A·B + beta·C + bias) with `a` \[M, K\], `b` as `layout` says and `c` \[M, N\], all on the stream's
    /// device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another, [`Error::Unsupported`] if one of M, N, K is beyond [`LARGEST`],
    /// [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        a: &Tensor,
        b: &Tensor,
        layout: Layout,
        epilogue: &Epilogue<'_>,
        c: &mut Tensor,
    ) -> Result<()> {
        let Size { m, n, k } = Size::of(a, b, layout, epilogue, c)?;
        let counts = [m, n, k].map(|size| i32::try_from(size).ok().filter(|_| size <= LARGEST));
        let blocks = u32::try_from(m.div_ceil(self.tile[0]) * n.div_ceil(self.tile[1])).ok();
        let ([Some(rows), Some(columns), Some(depth)], Some(blocks)) = (counts, blocks) else {
            return Err(Error::Unsupported {
                what: format!("GEMM `{}` of M = {m}, N = {n}, K = {k}", self.name),
                device: stream.device().short_name(),
                reason: format!("the kernel counts to {LARGEST} in each of them"),
            });
        };
        if blocks == 0 {
            return Ok(());
        }
        let kernels = match layout {
            Layout::RowMajor => &self.row_major,
            Layout::Transposed => &self.transposed,
        };
        // Rows of A and B then begin at multiples of 16 bytes, as tensors themselves do.
        let kernel = if k % 4 == 0 && n % 4 == 0 { &kernels.aligned } else { &kernels.any };
        let scalars = Scalars::from(epilogue);
        let mut launch = stream.launch_builder(kernel);
        launch.arg(a.buffer()?).arg(b.buffer()?);
        match epilogue.bias {
            Some(bias) => launch.arg(bias.buffer()?),
            // A null pointer.
            None => launch.arg(&0u64),
        };
        launch.arg(c.buffer_mut()?).arg(&rows).arg(&columns).arg(&depth).arg(&scalars);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel writes C [M, N] and reads A [M, K], B [K, N] and the bias [N] alone, whose shapes were compared;
        // there is one block for each tile of C.
        unsafe { launch.launch(config) }
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
        let (&[m, k], &[_, n]) = (a.shape(), c.shape()) else {
            return Err(Error::Shape {
                operation: "gemm".to_owned(),
                detail: format!("A {:?} and C {:?} must have two dimensions each", a.shape(), c.shape()),
            });
        };
        c.expect_shape("gemm's C", &[m, n])?;
        b.expect_shape("gemm's B", &layout.shape(n, k))?;
        if let Some(bias) = epilogue.bias {
            bias.expect_shape("gemm's bias", &[n])?;
        }
        Ok(Size { m, n, k })
    }
}

/// The best step for each size of problem.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// Tiles of 64×64, so that a small C has several blocks.
    small: Gemm,
    large: Gemm,
}

impl Tuned {
    /// Up to so many elements of C there are too few tiles of 128×128 to go round.
    const SMALL: usize = 512 * 512;

    /// Loads the steps that it chooses from.
    ///
    /// # Errors
    /// As [`Step::load`].
    pub fn load(device: &Device) -> Result<Tuned> {
        let large = match step09_double_buffer::STEP.load(device) {
            // Before compute capability 8.0.
            Err(error) if error.is_unsupported() => step08_warp_tiles::STEP.load(device)?,
            loaded => loaded?,
        };
        Ok(Tuned { small: step04_register_column::STEP.load(device)?, large })
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
        let gemm = if c.len() <= Tuned::SMALL { &self.small } else { &self.large };
        gemm.launch(stream, a, b, layout, epilogue, c)
    }
}
