//! Layers for latents after a forward pass of the U-Net: the diffusion step, and the way back to a noisier one.

use common::limits::fits_i32;
use common::prelude::*;
use common::reference::{DiffusionParams, noise_factors};

/// Parameters of every version of the diffusion step, made after its tensors' shapes are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffusionCall {
    /// √(1 − ᾱ).
    pub noise_scale: f32,
    /// √ᾱ.
    pub signal_scale: f32,
    /// 1 − weight.
    pub previous_weight: f32,
    /// Number of values of each tensor.
    pub values: u32,
}

impl DiffusionCall {
    /// Compares the shapes of `noisy` x, predicted `noise` ε, the `previous` frame p and the output.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or have too many values, [`Error::Invalid`] if a parameter is outside its range.
    pub fn new(
        [noisy, noise, previous]: [&Tensor; 3],
        params: DiffusionParams,
        output: &Tensor,
    ) -> Result<DiffusionCall> {
        noise.expect_shape("diffusion step's noise", noisy.shape())?;
        previous.expect_shape("diffusion step's previous frame", noisy.shape())?;
        output.expect_shape("diffusion step's output", noisy.shape())?;
        let [noise_scale, signal_scale, previous_weight] = params.factors()?;
        let values = fits_i32("diffusion step", "the number of values", Some(noisy.len()))?.unsigned_abs();
        Ok(DiffusionCall { noise_scale, signal_scale, previous_weight, values })
    }
}

/// The step of [`common::reference::diffusion_step`], `diffusion_01.cu`: one kernel per line of its formula. It uses only IEEE
/// operations: the bits are the CPU's.
#[derive(Clone, Debug)]
pub struct DiffusionStep {
    denoise: Kernel,
    blend: Kernel,
    clamp: Kernel,
}

impl DiffusionStep {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("diffusion_01");

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<DiffusionStep> {
        DiffusionStep::load_from(device, &DiffusionStep::SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<DiffusionStep> {
        let kernel = |name| device.kernel(source, name);
        Ok(DiffusionStep { denoise: kernel("denoise")?, blend: kernel("blend")?, clamp: kernel("clamp")? })
    }

    /// Queues the three kernels for `noisy` x, predicted `noise` ε and the `previous` frame p into `output`, all of one shape and
    /// on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or have too many values, [`Error::Invalid`] if a parameter is outside its range or a
    /// tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        [noisy, noise, previous]: [&Tensor; 3],
        params: DiffusionParams,
        output: &mut Tensor,
    ) -> Result<()> {
        let call = DiffusionCall::new([noisy, noise, previous], params, output)?;
        let DiffusionCall { noise_scale, signal_scale, previous_weight, values: n } = call;
        let config = LaunchConfig::for_threads(n);
        let mut launch = stream.launch_builder(&self.denoise);
        launch.arg(noisy.buffer()?).arg(noise.buffer()?).arg(output.buffer_mut()?);
        launch.arg(&noise_scale).arg(&signal_scale).arg(&n);
        // SAFETY: the kernel reads [i] of both inputs and writes y[i] for i < n, which all hold.
        unsafe { launch.launch(config) }?;
        let mut launch = stream.launch_builder(&self.blend);
        launch.arg(output.buffer_mut()?).arg(previous.buffer()?);
        launch.arg(&params.weight).arg(&previous_weight).arg(&params.threshold).arg(&n);
        // SAFETY: the kernel reads previous[i] and changes y[i] for i < n, which both hold.
        unsafe { launch.launch(config) }?;
        let mut launch = stream.launch_builder(&self.clamp);
        launch.arg(output.buffer_mut()?).arg(&n);
        // SAFETY: the kernel changes y[i] for i < n, which it holds.
        unsafe { launch.launch(config) }
    }
}

/// The noise of a schedule's step added to a clean image, as in [`common::reference::add_noise`], `add_noise_01.cu`: one thread
/// per value. The bits are the CPU's.
#[derive(Clone, Debug)]
pub struct AddNoise {
    kernel: Kernel,
}

impl AddNoise {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("add_noise_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<AddNoise> {
        AddNoise::load_from(device, &AddNoise::SOURCE)
    }

    /// Same as [`DiffusionStep::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<AddNoise> {
        Ok(AddNoise { kernel: device.kernel(source, "add_noise")? })
    }

    /// Queues √ᾱ·`clean` + √(1−ᾱ)·`noise` into `output`, all of one shape and on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or have too many values, [`Error::Invalid`] if `alpha_bar` is outside \[0, 1\] or a
    /// tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        clean: &Tensor,
        noise: &Tensor,
        alpha_bar: f32,
        output: &mut Tensor,
    ) -> Result<()> {
        noise.expect_shape("the noise that is added", clean.shape())?;
        output.expect_shape("adding noise's output", clean.shape())?;
        let [signal_scale, noise_scale] = noise_factors(alpha_bar)?;
        let n = fits_i32("adding noise", "the number of values", Some(clean.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(clean.buffer()?).arg(noise.buffer()?).arg(output.buffer_mut()?);
        launch.arg(&signal_scale).arg(&noise_scale).arg(&n);
        // SAFETY: the kernel reads [i] of both inputs and writes y[i] for i < n, which all hold.
        unsafe { launch.launch(LaunchConfig::for_threads(n)) }
    }
}
