//! The gradients of y = relu(x·Wᵀ + bias) with the masked gradient written once.
//!
//! Hypothesis: [`super::backward`] is slow for its main loop, not for its fusion. To mask dy on its way, every tile has to pass through
//! registers; and each column of tiles loads y again. A product whose tiles are copied past the registers gains more than the bytes of
//! g cost. Change: one kernel writes g and sums its columns (dbias); dx = g·W is step 18 of the GEMM ladder, and dW = gᵀ·x its main loop
//! with a transposed A. Measured: the rows `∇` of the `linear-relu` table of `cargo run -p phase5-bench`.

use common::limits::fits_i32;
use common::prelude::*;

use super::Size;
use super::backward::{Gradients, Pass};
use crate::gemm::{Epilogue, Layout, TransposedA, Tuned};

/// `kernels/linear_04_mask.cu`.
pub const MASK: KernelSource = kernel_source!("linear_04_mask");

/// `kernels/linear_05_transposed.cu`.
pub const PRODUCT: KernelSource = kernel_source!("linear_05_transposed");

/// The kernels, loaded.
#[derive(Clone, Debug)]
pub struct Written {
    mask: Mask,
    input: Tuned,
    weight: TransposedA,
}

/// The kernels that write g, and transpose.
#[derive(Clone, Debug)]
pub struct Mask {
    mask: Kernel,
    add_parts: Kernel,
    transpose: Kernel,
    /// Rows and columns of g per block.
    tile: [usize; 2],
    threads: u32,
}

/// Memory for g between the kernels.
#[derive(Debug)]
pub struct MaskedGradient {
    /// \[batch, out\].
    pub g: Tensor,
    /// \[out, batch\], if requested.
    pub transposed: Option<Tensor>,
    /// Sums of columns, for each block of rows.
    parts: Tensor,
}

impl Mask {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Mask> {
        Mask::load_from(device, &MASK)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Mask::load`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Mask> {
        let module = device.load(source)?;
        let tile = [module.constant("ROWS")?, module.constant("COLUMNS")?];
        Ok(Mask {
            mask: module.kernel("mask_and_sum")?,
            add_parts: module.kernel("add_parts")?,
            transpose: module.kernel("transpose")?,
            tile,
            threads: (tile[1] * module.constant("LANES_DOWN")?) as u32,
        })
    }

    /// Memory for g of y \[batch, out\], and for its transpose too if `transposed`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn place(&self, device: &Device, [batch, outputs]: [usize; 2], transposed: bool) -> Result<MaskedGradient> {
        Ok(MaskedGradient {
            g: Tensor::empty_on(device, &[batch, outputs])?,
            transposed: transposed.then(|| Tensor::empty_on(device, &[outputs, batch])).transpose()?,
            parts: Tensor::empty_on(device, &[batch.div_ceil(self.tile[0]), outputs])?,
        })
    }

    /// Queues g, its transpose if there is memory for it, and dbias \[out\], the sums of g's columns; nothing is allocated.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match or a count does not fit the kernel, [`Error::Invalid`] if a tensor is on the
    /// host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        dy: &Tensor,
        y: &Tensor,
        masked: &mut MaskedGradient,
        dbias: &mut Tensor,
    ) -> Result<()> {
        let [batch, outputs] = y.dims("linear's y")?;
        dy.expect_shape("linear's dy", y.shape())?;
        masked.g.expect_shape("linear's masked gradient", y.shape())?;
        dbias.expect_shape("linear's dbias", &[outputs])?;
        let count = |what, of| fits_i32("linear's mask", what, of);
        let (rows, columns) = (count("the batch", Some(batch))?, count("the outputs", Some(outputs))?);
        let blocks = batch.div_ceil(self.tile[0]).checked_mul(outputs.div_ceil(self.tile[1]));
        let blocks = count("the number of blocks", blocks)?.unsigned_abs();
        if blocks > 0 {
            let mut launch = stream.launch_builder(&self.mask);
            launch.arg(dy.buffer()?).arg(y.buffer()?).arg(masked.g.buffer_mut()?);
            launch.arg(masked.transposed.as_mut().map(Tensor::buffer_mut).transpose()?);
            launch.arg(masked.parts.buffer_mut()?).arg(&rows).arg(&columns);
            let config =
                LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: the kernel reads dy and y [batch, out] and writes g, its transpose, and a row of the parts for each ROWS rows;
            // all have these sizes. There is a block for each ROWS rows of COLUMNS columns.
            unsafe { launch.launch(config) }?;
        }
        if outputs == 0 {
            return Ok(());
        }
        let parts = count("the parts", Some(batch.div_ceil(self.tile[0])))?;
        let mut launch = stream.launch_builder(&self.add_parts);
        launch.arg(masked.parts.buffer()?).arg(dbias.buffer_mut()?).arg(&parts).arg(&columns);
        // SAFETY: the kernel reads the parts [parts, out] and writes dbias [out].
        unsafe { launch.launch(LaunchConfig::linear(columns.unsigned_abs(), 256)) }
    }

    /// Queues `y` \[C, R\] = the transpose of `x` \[R, C\].
    ///
    /// # Errors
    /// Same as [`Mask::launch`].
    pub fn transpose(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        let [rows, columns] = x.dims("transposition")?;
        y.expect_shape("transposition's y", &[columns, rows])?;
        let blocks = rows.div_ceil(32).checked_mul(columns.div_ceil(self.tile[1]));
        let blocks = fits_i32("transposition", "the number of blocks", blocks)?.unsigned_abs();
        let count = |of: usize| fits_i32("transposition", "a dimension", Some(of));
        let (rows, columns) = (count(rows)?, count(columns)?);
        if blocks == 0 {
            return Ok(());
        }
        let mut launch = stream.launch_builder(&self.transpose);
        launch.arg(x.buffer()?).arg(y.buffer_mut()?).arg(&rows).arg(&columns);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel reads x [R, C] and writes y [C, R], whose shapes were compared; there is a block for each 32 × 32.
        unsafe { launch.launch(config) }
    }
}

impl Written {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] before compute capability 8.0.
    pub fn load(device: &Device) -> Result<Written> {
        Written::load_from(device, &MASK, &PRODUCT)
    }

    /// The same from other texts, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Written::load`].
    pub fn load_from(device: &Device, mask: &KernelSource, product: &KernelSource) -> Result<Written> {
        Ok(Written {
            mask: Mask::load_from(device, mask)?,
            input: Tuned::load(device)?,
            weight: TransposedA::load(device, product)?,
        })
    }

    /// The kernels that write g.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The same with one tile for dW, whatever its size; `None` if there is no such tile.
    pub fn with_tile(&self, tile: [usize; 2]) -> Option<Written> {
        Some(Written { weight: self.weight.with_tile(tile)?, ..self.clone() })
    }

    /// Queues all three gradients, in four launches; g is stored in `masked`. Allocates nothing except, once, the workspace of
    /// products whose K is cut.
    ///
    /// # Errors
    /// Same as [`Mask::launch`] and [`crate::gemm::Gemm::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        pass: Pass<'_>,
        masked: &mut MaskedGradient,
        gradients: Gradients<'_>,
    ) -> Result<()> {
        let Pass { dy, y, x, weight } = pass;
        let Gradients { dx, dweight, dbias } = gradients;
        Size::of(x, weight, y)?;
        dx.expect_shape("linear's dx", x.shape())?;
        dweight.expect_shape("linear's dW", weight.shape())?;
        self.mask.launch(stream, dy, y, masked, dbias)?;
        self.input.launch(stream, &masked.g, weight, Layout::RowMajor, &Epilogue::default(), dx)?;
        self.weight.launch(stream, &masked.g, x, dweight)
    }
}
