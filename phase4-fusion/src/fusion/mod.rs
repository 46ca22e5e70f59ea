//! Fusion: the diffusion step in one pass, the passes that an epilogue saves, and the effect of folding on values.

use bytemuck::{Pod, Zeroable};
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::{DiffusionParams, LayerNorm};
use half::f16;
use phase3_all_layers::layers::DiffusionCall;

use crate::gemm::{Activation, Epilogue};

pub mod backward;
pub mod fold;
pub mod layer_norm;
pub mod upsample;

/// The diffusion step of phase 3 in one pass, to the same bits.
#[derive(Clone, Debug)]
pub struct DiffusionStep {
    kernel: Kernel,
    threads: u32,
    values_each: u32,
}

/// `Step` of the kernel file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Factors {
    noise_scale: f32,
    signal_scale: f32,
    weight: f32,
    previous_weight: f32,
    threshold: f32,
}

impl DiffusionStep {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("fusion_01_diffusion");

    /// Loads the kernel.
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
        let module = device.load(source)?;
        let threads = module.constant("THREADS")? as u32;
        let values_each = 4 * module.constant("VECTORS")? as u32;
        Ok(DiffusionStep { kernel: module.kernel("diffusion_step")?, threads, values_each })
    }

    /// Queues the step for `noisy` x, predicted `noise` ε and the `previous` frame p into `output`, all of one shape, f32 and on the
    /// stream's device.
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
        let DiffusionParams { weight, threshold, .. } = params;
        let factors = Factors { noise_scale, signal_scale, weight, previous_weight, threshold };
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(noisy.buffer()?).arg(noise.buffer()?).arg(previous.buffer()?).arg(output.buffer_mut()?);
        launch.arg_bytes(bytemuck::bytes_of(&factors)).arg(&n);
        // SAFETY: the kernel reads [i] of the three and writes y[i] for i < n, which all hold.
        unsafe { launch.launch(LaunchConfig::linear(n.div_ceil(self.values_each), self.threads)) }
    }
}

/// Separate passes over memory for each part of an epilogue; the product of silu(a + b·c); and LayerNorm.
#[derive(Clone, Debug)]
pub struct Separate {
    scale_shift: Kernel,
    add: Kernel,
    relu: Kernel,
    gelu: Kernel,
    silu: Kernel,
    multiply: Kernel,
    layer_norm: Kernel,
    threads: u32,
    values_each: u32,
}

impl Separate {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("fusion_02_separate");

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Separate> {
        let module = device.load(&Separate::SOURCE)?;
        let kernel = |name| module.kernel(name);
        Ok(Separate {
            scale_shift: kernel("scale_shift")?,
            add: kernel("add")?,
            relu: kernel("relu")?,
            gelu: kernel("gelu")?,
            silu: kernel("silu")?,
            multiply: kernel("multiply")?,
            layer_norm: kernel("layer_norm")?,
            threads: module.constant("THREADS")? as u32,
            values_each: module.constant("VALUES")? as u32,
        })
    }

    /// Number of passes that an epilogue replaces: one for a scale or a shift, one for a residual, one for an activation.
    pub fn passes(epilogue: &Epilogue<'_>) -> usize {
        let scaled = epilogue.scale.is_some() || epilogue.shift.is_some();
        let activated = epilogue.activation != Activation::None;
        usize::from(scaled) + usize::from(epilogue.residual.is_some()) + usize::from(activated)
    }

    /// Queues the epilogue's passes over `x` in f16, whose last dimension in memory (channels in NHWC, columns of a matrix) has
    /// `channels` values; each pass rounds to f16.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an epilogue with only one of scale and shift or with a factor alpha; [`Error::Shape`] if the
    /// number of values is not a multiple of 8; [`Error::ElementType`], [`Error::WrongDevice`], [`Error::Invalid`] if a tensor is
    /// on the host.
    pub fn launch(&self, stream: &Stream, epilogue: &Epilogue<'_>, channels: usize, x: &mut Tensor) -> Result<()> {
        let format = x.format();
        let n = fits_i32("the separate epilogue", "the number of values", Some(x.len()))?.unsigned_abs();
        if !n.is_multiple_of(self.values_each) {
            let expected = format!("a multiple of {} values", self.values_each);
            return Err(Error::shape("the separate epilogue", ShapeError::mismatch(expected, x.shape())));
        }
        let config = LaunchConfig::linear(n / self.values_each, self.threads);
        match (epilogue.scale, epilogue.shift) {
            (None, None) => {}
            (Some(scale), Some(shift)) if epilogue.alpha == 1.0 => {
                let channels = fits_i32("the separate epilogue", "the channels", Some(channels))?.unsigned_abs();
                scale.expect_shape("the separate epilogue's scale", &[channels as usize])?;
                shift.expect_shape("the separate epilogue's shift", &[channels as usize])?;
                let mut launch = stream.launch_builder(&self.scale_shift);
                launch.arg(x.buffer_of_mut::<f16>(format)?).arg(scale.buffer()?).arg(shift.buffer()?);
                launch.arg(&channels).arg(&n);
                // SAFETY: the kernel changes x[i] for i < n and reads scale and shift below `channels`, which they have.
                unsafe { launch.launch(config) }?;
            }
            _ => {
                return Err(Error::Unsupported {
                    what: "the separate epilogue".to_owned(),
                    device: stream.device().short_name(),
                    reason: "it takes scale and shift together, and no factor".to_owned(),
                });
            }
        }
        if let Some(residual) = epilogue.residual {
            residual.expect_shape("the separate epilogue's residual", x.shape())?;
            let mut launch = stream.launch_builder(&self.add);
            launch.arg(x.buffer_of_mut::<f16>(format)?).arg(residual.buffer_of::<f16>(format)?).arg(&n);
            // SAFETY: the kernel changes x[i] and reads residual[i] for i < n, which both hold.
            unsafe { launch.launch(config) }?;
        }
        let kernel = match epilogue.activation {
            Activation::None => return Ok(()),
            Activation::Relu => &self.relu,
            Activation::Gelu => &self.gelu,
            Activation::Silu => &self.silu,
        };
        let mut launch = stream.launch_builder(kernel);
        launch.arg(x.buffer_of_mut::<f16>(format)?).arg(&n);
        // SAFETY: the kernel changes x[i] for i < n, which it holds.
        unsafe { launch.launch(config) }
    }

    /// Queues `b`·`c` into `y`, value by value: all of one shape, f32 and on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or the number of values is not a multiple of 4; [`Error::WrongDevice`],
    /// [`Error::Invalid`] if a tensor is on the host.
    pub fn multiply(&self, stream: &Stream, b: &Tensor, c: &Tensor, y: &mut Tensor) -> Result<()> {
        c.expect_shape("multiply's c", b.shape())?;
        y.expect_shape("multiply's y", b.shape())?;
        let n = fits_i32("multiply", "the number of values", Some(b.len()))?.unsigned_abs();
        if !n.is_multiple_of(4) {
            return Err(Error::shape("multiply", ShapeError::mismatch("a multiple of 4 values", b.shape())));
        }
        let mut launch = stream.launch_builder(&self.multiply);
        launch.arg(b.buffer()?).arg(c.buffer()?).arg(y.buffer_mut()?).arg(&n);
        // SAFETY: the kernel reads [i] of both and writes y[i] for i < n, which all hold.
        unsafe { launch.launch(LaunchConfig::linear(n / 4, self.threads)) }
    }

    /// Queues the LayerNorm of the rows of `x` \[rows, columns\] into `y`, both f16 and, like the norm, on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit or the number of columns is not a multiple of 8; [`Error::ElementType`],
    /// [`Error::WrongDevice`], [`Error::Invalid`] if a tensor is on the host.
    pub fn layer_norm(&self, stream: &Stream, x: &Tensor, norm: &LayerNorm<'_>, y: &mut Tensor) -> Result<()> {
        let [rows, columns] = x.dims("LayerNorm's x")?;
        y.expect_shape("LayerNorm's y", x.shape())?;
        norm.weight.expect_shape("LayerNorm's weight", &[columns])?;
        norm.bias.expect_shape("LayerNorm's bias", &[columns])?;
        if !columns.is_multiple_of(self.values_each as usize) {
            let expected = format!("a multiple of {} columns", self.values_each);
            return Err(Error::shape("LayerNorm", ShapeError::mismatch(expected, x.shape())));
        }
        let count = |what, of: usize| fits_i32("LayerNorm", what, Some(of)).map(i32::unsigned_abs);
        let (rows, columns) = (count("the rows", rows)?, count("the columns", columns)?);
        let lanes = count("the threads", rows as usize * 32)?;
        const FORMAT: MemoryFormat = MemoryFormat::Nchw;
        let mut launch = stream.launch_builder(&self.layer_norm);
        launch.arg(x.buffer_of::<f16>(FORMAT)?).arg(norm.weight.buffer()?).arg(norm.bias.buffer()?);
        launch.arg(y.buffer_of_mut::<f16>(FORMAT)?).arg(&norm.eps).arg(&rows).arg(&columns);
        // SAFETY: the kernel reads x and writes y, [rows, columns] both, and reads the vectors below `columns`, which they have; there
        // is a warp for each row.
        unsafe { launch.launch(LaunchConfig::linear(lanes, self.threads)) }
    }
}
