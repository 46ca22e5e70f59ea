//! Rows scaled to length one.

use common::prelude::*;

use super::rows::Rows;

/// Rows divided by their Euclidean norm, or by 1e-12 where that is larger, `row_norm_01.cu`: one block per row.
#[derive(Clone, Debug)]
pub struct RowNorm {
    kernel: Kernel,
}

impl RowNorm {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("row_norm_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<RowNorm> {
        RowNorm::load_from(device, &RowNorm::SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<RowNorm> {
        Ok(RowNorm { kernel: device.kernel(source, "row_norm")? })
    }

    /// Queues the rows of `x` \[…, C\], divided by their norms, into `y` of the same shape, both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ, have no dimension or a count does not fit the kernel, [`Error::Invalid`] if a tensor is
    /// on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        y.expect_shape("row normalisation's output", x.shape())?;
        let rows = Rows::of("row normalisation", x)?;
        let (x, y) = (x.buffer()?, y.buffer_mut()?);
        if rows.is_empty() {
            return Ok(());
        }
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x).arg(y).arg(&rows.columns);
        // SAFETY: block r reads and writes the `columns` values of row r, which x and y hold.
        unsafe { launch.launch(rows.block_each()) }
    }
}
