//! Layers that move values of images: upsampling and concatenation.

use common::limits::fits_i32;
use common::prelude::*;

/// Nearest upsampling by a whole factor, `upsample_01.cu`: one thread per output.
#[derive(Clone, Debug)]
pub struct Upsample {
    kernel: Kernel,
    factor: usize,
}

impl Upsample {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("upsample_01");

    /// Loads the kernel, for sides `factor` times as long.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device, factor: usize) -> Result<Upsample> {
        Upsample::load_from(device, &Upsample::SOURCE, factor)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource, factor: usize) -> Result<Upsample> {
        Ok(Upsample { kernel: device.kernel(source, "upsample_nearest")?, factor })
    }

    /// \[N, C, H·factor, W·factor\] for an input \[N, C, H, W\].
    ///
    /// # Errors
    /// [`Error::Shape`] if the input does not have 4 dimensions, the factor is 0 or a side is too large to count.
    pub fn output_shape(&self, input: &Tensor) -> Result<[usize; 4]> {
        let [n, c, height, width] = input.dims4()?;
        match [height, width].map(|side| side.checked_mul(self.factor)) {
            [Some(height), Some(width)] if self.factor > 0 => Ok([n, c, height, width]),
            _ => {
                let detail = format!("input {:?} by a factor of {}", input.shape(), self.factor);
                Err(Error::shape("upsampling", detail))
            }
        }
    }

    /// Queues the upsampling of `input` \[N, C, H, W\] into `output` of [`Upsample::output_shape`], both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit or has too many values, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        const WHAT: &str = "upsampling";
        output.expect_shape("upsampling's output", &self.output_shape(input)?)?;
        let [.., height, width] = input.dims4()?;
        let outputs = fits_i32(WHAT, "the number of outputs", Some(output.len()))?.unsigned_abs();
        let sizes = [height, width, self.factor].map(|size| fits_i32(WHAT, "a size", Some(size)));
        let [height, width, factor] = sizes;
        let (height, width, factor) = (height?, width?, factor?);
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(input.buffer()?).arg(output.buffer_mut()?).arg(&outputs).arg(&height).arg(&width).arg(&factor);
        // SAFETY: the kernel writes output[i] for i < outputs and reads the pixel that it lies in.
        unsafe { launch.launch(LaunchConfig::for_threads(outputs)) }
    }
}

/// Concatenation over channels, `concatenate_01.cu`: one thread per value.
#[derive(Clone, Debug)]
pub struct Concatenate {
    kernel: Kernel,
}

impl Concatenate {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("concatenate_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Concatenate> {
        Concatenate::load_from(device, &Concatenate::SOURCE)
    }

    /// Same as [`Upsample::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Concatenate> {
        Ok(Concatenate { kernel: device.kernel(source, "concatenate")? })
    }

    /// Queues `a` \[N, Ca, H, W\] and `b` \[N, Cb, H, W\] into `output` \[N, Ca + Cb, H, W\], all on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if images or sides differ or there are too many values, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, a: &Tensor, b: &Tensor, output: &mut Tensor) -> Result<()> {
        const WHAT: &str = "concatenation";
        let ([n, first, height, width], [.., second, _, _]) = (a.dims4()?, b.dims4()?);
        b.expect_shape("what is joined to channels", &[n, second, height, width])?;
        output.expect_shape("concatenation's output", &[n, first + second, height, width])?;
        let outputs = fits_i32(WHAT, "the number of values", Some(output.len()))?.unsigned_abs();
        if outputs == 0 {
            return Ok(());
        }
        // None is above the number of outputs.
        let [first, second] = [first, second].map(|channels| (channels * height * width) as u32);
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(a.buffer()?).arg(b.buffer()?).arg(output.buffer_mut()?).arg(&first).arg(&second).arg(&outputs);
        // SAFETY: the kernel writes output[i] for i < outputs and reads the one value of a or b that stands there.
        unsafe { launch.launch(LaunchConfig::for_threads(outputs)) }
    }
}
