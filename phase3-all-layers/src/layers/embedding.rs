//! Timestep embedding.

use common::limits::fits_i32;
use common::prelude::*;
use common::reference::embedding_frequencies;

/// \[cos, sin\] of step·10000^(−j/(c/2)), `timestep_01.cu`: one thread per pair, in double precision and rounded once.
#[derive(Clone, Debug)]
pub struct TimestepEmbedding {
    kernel: Kernel,
    /// c/2.
    frequencies: usize,
}

impl TimestepEmbedding {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("timestep_01");

    /// Loads the kernel, for embeddings of `channels` values.
    ///
    /// # Errors
    /// [`Error::Shape`] if `channels` is odd; same as [`Device::kernel`].
    pub fn load(device: &Device, channels: usize) -> Result<TimestepEmbedding> {
        TimestepEmbedding::load_from(device, &TimestepEmbedding::SOURCE, channels)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`TimestepEmbedding::load`].
    pub fn load_from(device: &Device, source: &KernelSource, channels: usize) -> Result<TimestepEmbedding> {
        let frequencies = embedding_frequencies(channels)?;
        Ok(TimestepEmbedding { kernel: device.kernel(source, "timestep_embedding")?, frequencies })
    }

    /// Queues the embeddings of `steps` \[batch\] into `output` \[batch, channels\], both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit or has too many values, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, steps: &Tensor, output: &mut Tensor) -> Result<()> {
        const WHAT: &str = "timestep embedding";
        let (batch, half) = (steps.len(), self.frequencies);
        steps.expect_shape("timestep embedding's steps", &[batch])?;
        output.expect_shape("timestep embedding's output", &[batch, 2 * half])?;
        let pairs = fits_i32(WHAT, "the number of pairs", batch.checked_mul(half))?.unsigned_abs();
        let half = fits_i32(WHAT, "the number of frequencies", Some(half))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(steps.buffer()?).arg(output.buffer_mut()?).arg(&half).arg(&pairs);
        // SAFETY: the kernel reads steps[i / half] and writes two values of that row for i < pairs = batch · half, which both hold.
        unsafe { launch.launch(LaunchConfig::for_threads(pairs)) }
    }
}
