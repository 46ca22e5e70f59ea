//! Step 2: BatchNorm with running statistics, one thread an element.
//!
//! Hypothesis: it only streams its input, so it should run at the memory's speed whatever the arithmetic. Change: none, this
//! is the first version. Measured: the `layers` table of `cargo run -p phase5-bench`.

use common::prelude::*;
use common::reference::BatchNorm;

use crate::limits::fits_i32;

/// `kernels/02_batch_norm.cu`.
pub const SOURCE: KernelSource = kernel_source!("02_batch_norm");

/// The kernel, loaded. It takes every \[N, C, H, W\] of up to 2³¹ − 1 values.
#[derive(Clone, Debug)]
pub struct BatchNormNaive {
    kernel: Kernel,
}

impl BatchNormNaive {
    /// Loads the kernel.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device) -> Result<BatchNormNaive> {
        Ok(BatchNormNaive { kernel: device.kernel(&SOURCE, "batch_norm")? })
    }

    /// Queues the normalisation of `input` \[N, C, H, W\] into `output` of the same shape; the four parameters are \[C\]. All
    /// are on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit, [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, norm: &BatchNorm<'_>, output: &mut Tensor) -> Result<()> {
        let [_, channels, height, width] = input.dims4()?;
        let n = fits_i32("batch_norm", "the number of values", Some(input.len()))?.unsigned_abs();
        for (name, part) in [
            ("batch_norm's weight", norm.weight),
            ("batch_norm's bias", norm.bias),
            ("batch_norm's mean", norm.mean),
            ("batch_norm's variance", norm.variance),
        ] {
            part.expect_shape(name, &[channels])?;
        }
        output.expect_shape("batch_norm's output", input.shape())?;
        // With n = 0 no thread divides by them, whatever they are; otherwise they are at most n.
        let (channels, plane) = (channels as u32, (height * width) as u32);
        let mut launch = stream.launch_builder(&self.kernel);
        launch
            .arg(input.buffer()?)
            .arg(norm.weight.buffer()?)
            .arg(norm.bias.buffer()?)
            .arg(norm.mean.buffer()?)
            .arg(norm.variance.buffer()?)
            .arg(output.buffer_mut()?)
            .arg(&norm.eps)
            .arg(&channels)
            .arg(&plane)
            .arg(&n);
        // SAFETY: the kernel reads x[i] and writes y[i] for i < n, which both hold, and parameters at c < channels.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }
    }

    /// [`BatchNormNaive::launch`] into a new tensor.
    ///
    /// # Errors
    /// As [`BatchNormNaive::launch`], and [`Error::OutOfMemory`].
    pub fn forward(&self, stream: &Stream, input: &Tensor, norm: &BatchNorm<'_>) -> Result<Tensor> {
        let mut output = Tensor::empty_on(stream.device(), input.shape())?;
        self.launch(stream, input, norm, &mut output)?;
        Ok(output)
    }
}
