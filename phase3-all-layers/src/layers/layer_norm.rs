//! LayerNorm, in two steps.

use common::prelude::*;
use common::reference;

use super::rows::{RowKernels, Rows};

/// Thread, warp or block that works on a LayerNorm's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerNormStep {
    /// `layer_norm_01_two_pass.cu`: one thread per row, which it reads three times.
    TwoPass,
    /// `layer_norm_02_shuffle.cu`: one warp or block per row, which it holds in registers.
    Shuffle,
}

impl LayerNormStep {
    /// In reading order.
    pub const ALL: [LayerNormStep; 2] = [LayerNormStep::TwoPass, LayerNormStep::Shuffle];

    /// The kernel file.
    pub fn source(self) -> KernelSource {
        match self {
            LayerNormStep::TwoPass => kernel_source!("layer_norm_01_two_pass"),
            LayerNormStep::Shuffle => LayerNorm::SOURCE,
        }
    }
}

/// LayerNorm over the last dimension, with weight and bias.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    kernels: RowKernels,
}

impl LayerNorm {
    /// The kernel file of the last step.
    pub const SOURCE: KernelSource = kernel_source!("layer_norm_02_shuffle");

    /// Loads the last step.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<LayerNorm> {
        LayerNorm::load_from(device, LayerNormStep::Shuffle, &LayerNorm::SOURCE)
    }

    /// Loads a step, from `source`: [`LayerNormStep::source`], or a text with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, step: LayerNormStep, source: &KernelSource) -> Result<LayerNorm> {
        let kernels = match step {
            LayerNormStep::TwoPass => RowKernels::thread(device, source, "layer_norm")?,
            LayerNormStep::Shuffle => RowKernels::groups(device, source, "layer_norm")?,
        };
        Ok(LayerNorm { kernels })
    }

    /// Queues the normalisation of the rows of `x` \[…, D\] into `y` of the same shape, as in [`reference::layer_norm`]. All
    /// tensors, including those of `norm`, are on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit or a count does not fit the kernel, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, norm: &reference::LayerNorm<'_>, y: &mut Tensor) -> Result<()> {
        norm.columns(x)?;
        y.expect_shape("LayerNorm's output", x.shape())?;
        let rows = Rows::of("LayerNorm", x)?;
        let (x, weight, bias, y) = (x.buffer()?, norm.weight.buffer()?, norm.bias.buffer()?, y.buffer_mut()?);
        if rows.is_empty() {
            return Ok(());
        }
        let (kernel, config) = self.kernels.plan(rows);
        let mut launch = stream.launch_builder(kernel);
        launch.arg(x).arg(weight).arg(bias).arg(y).arg(&rows.rows).arg(&rows.columns).arg(&norm.eps);
        // SAFETY: the kernel reads and writes rows · columns values, which x and y hold, and reads `columns` values of weight and
        // bias, whose shapes were compared; tensors begin at multiples of 16 bytes, and so do rows where it loads by 16.
        unsafe { launch.launch(config) }
    }
}
