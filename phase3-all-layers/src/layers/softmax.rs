//! Softmax, in two steps.

use common::prelude::*;

use super::rows::{RowKernels, Rows};

/// How a softmax finds maximum and sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftmaxStep {
    /// `softmax_01_naive.cu`: one thread per row, one pass after the other.
    Naive,
    /// `softmax_02_online.cu`: one warp or block per row, both in one pass.
    Online,
}

impl SoftmaxStep {
    /// In reading order.
    pub const ALL: [SoftmaxStep; 2] = [SoftmaxStep::Naive, SoftmaxStep::Online];

    /// The kernel file.
    pub fn source(self) -> KernelSource {
        match self {
            SoftmaxStep::Naive => kernel_source!("softmax_01_naive"),
            SoftmaxStep::Online => Softmax::SOURCE,
        }
    }
}

/// Softmax over the last dimension. Rows with NaN, with +∞ or of −∞ only become NaN, as in PyTorch.
#[derive(Clone, Debug)]
pub struct Softmax {
    kernels: RowKernels,
}

impl Softmax {
    /// The kernel file of the last step.
    pub const SOURCE: KernelSource = kernel_source!("softmax_02_online");

    /// Loads the last step.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Softmax> {
        Softmax::load_from(device, SoftmaxStep::Online, &Softmax::SOURCE)
    }

    /// Loads a step, from `source`: [`SoftmaxStep::source`], or a text with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, step: SoftmaxStep, source: &KernelSource) -> Result<Softmax> {
        let kernels = match step {
            SoftmaxStep::Naive => RowKernels::thread(device, source, "softmax")?,
            SoftmaxStep::Online => RowKernels::groups(device, source, "softmax")?,
        };
        Ok(Softmax { kernels })
    }

    /// Queues the softmax of the rows of `x` \[…, C\] into `y` of the same shape, both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ, have no dimension or a count does not fit the kernel, [`Error::Invalid`] if a tensor is
    /// on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        y.expect_shape("softmax's output", x.shape())?;
        self.queue(stream, Some(x), y)
    }

    /// Queues the softmax of the rows of `x` \[…, C\] in their place, on the stream's device.
    ///
    /// # Errors
    /// Same as [`Softmax::launch`].
    pub fn launch_in_place(&self, stream: &Stream, x: &mut Tensor) -> Result<()> {
        self.queue(stream, None, x)
    }

    /// From `x`, or from `y` itself.
    fn queue(&self, stream: &Stream, x: Option<&Tensor>, y: &mut Tensor) -> Result<()> {
        let rows = Rows::of("softmax", y)?;
        let (x, y) = (x.map(Tensor::buffer).transpose()?, y.buffer_mut()?);
        if rows.is_empty() {
            return Ok(());
        }
        let (kernel, config) = self.kernels.plan(rows);
        let mut launch = stream.launch_builder(kernel);
        match x {
            Some(x) => launch.arg(x).arg(y),
            None => launch.arg(y).arg_again(0),
        };
        launch.arg(&rows.rows).arg(&rows.columns);
        // SAFETY: the kernel reads and writes rows · columns values, which both hold, and each value's last read comes before its
        // write, in the same thread; tensors begin at multiples of 16 bytes, and so do rows where it loads by 16.
        unsafe { launch.launch(config) }
    }
}
