//! Transposition of the matrices of a batch.

use common::limits::fits_i32;
use common::prelude::*;

/// \[B, R, C\] → \[B, C, R\], such as from images to tokens and back, `transpose_01.cu`: one block per tile of 32 × 32.
#[derive(Clone, Debug)]
pub struct Transpose {
    transpose: Kernel,
    add: Kernel,
}

impl Transpose {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("transpose_01");

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Transpose> {
        Transpose::load_from(device, &Transpose::SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Transpose> {
        Ok(Transpose { transpose: device.kernel(source, "transpose")?, add: device.kernel(source, "add_transposed")? })
    }

    /// Queues `y` = the transpose of each matrix of `x`. The last two dimensions may be given as several that follow each other in
    /// `y` or `x`: with x \[B, R, C\], y is \[B, C, R\] or an image \[B, C, H, W\] of R = H·W pixels; with an image x
    /// \[B, R, H, W\], y is \[B, C, R\]. Both are on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match or have 2³¹ values or more, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        queue(stream, &self.transpose, x, y)
    }

    /// Queues `y` += the transpose of each matrix of `x`, for the shapes of [`Transpose::launch`].
    ///
    /// # Errors
    /// Same as [`Transpose::launch`].
    pub fn launch_add(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        queue(stream, &self.add, x, y)
    }
}

/// Batch, rows and columns of `x`.
fn size(x: &Tensor, y: &Tensor) -> Result<[usize; 3]> {
    let size = match (x.shape(), y.shape()) {
        (&[batch, rows, columns], &[b, c, r]) if [b, r, c] == [batch, rows, columns] => Some([batch, rows, columns]),
        (&[batch, rows, columns], &[b, c, height, width])
            if [b, c] == [batch, columns] && height.checked_mul(width) == Some(rows) =>
        {
            Some([batch, rows, columns])
        }
        (&[batch, rows, height, width], &[b, c, r])
            if [b, r] == [batch, rows] && height.checked_mul(width) == Some(c) =>
        {
            Some([batch, rows, c])
        }
        _ => None,
    };
    size.ok_or_else(|| {
        let detail = format!("{:?} is not the transpose of {:?}: [B, R, C] becomes [B, C, R]", y.shape(), x.shape());
        Error::shape("transposition", detail)
    })
}

fn queue(stream: &Stream, kernel: &Kernel, x: &Tensor, y: &mut Tensor) -> Result<()> {
    const WHAT: &str = "transposition";
    /// Sides of a tile, and threads of a block.
    const TILE: usize = 32;
    const THREADS: u32 = 256;
    let [batch, rows, columns] = size(x, y)?;
    fits_i32(WHAT, "the number of values", Some(x.len()))?;
    let (from, to) = (x.buffer()?, y.buffer_mut()?);
    if x.is_empty() {
        return Ok(());
    }
    // No more than there are values.
    let blocks = fits_i32(WHAT, "the number of tiles", Some(batch * rows.div_ceil(TILE) * columns.div_ceil(TILE)))?;
    let (rows, columns) = (fits_i32(WHAT, "rows", Some(rows))?, fits_i32(WHAT, "columns", Some(columns))?);
    let mut launch = stream.launch_builder(kernel);
    launch.arg(from).arg(to).arg(&rows).arg(&columns);
    let config =
        LaunchConfig { grid_dim: (blocks.unsigned_abs(), 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: each block reads a tile of a matrix of x and writes it to y, inside both, which have as many values.
    unsafe { launch.launch(config) }
}
