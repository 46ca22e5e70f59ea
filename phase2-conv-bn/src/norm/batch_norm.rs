//! BatchNorm as inference uses it, with running statistics, in three steps.
//!
//! The parameters of a layer do not change between images. So a loaded step makes a [`Layer`] of them once, with any values that
//! it computes beforehand, and the layer is launched for each image.

use bench::ladder;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::BatchNorm;

use super::VectorKernel;
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[NAIVE, SCALE_SHIFT, VECTORISED];

/// Step 1. Hypothesis: it only streams its input, so it should run at the memory's speed whatever the arithmetic. Change: none,
/// this is the first version.
///
/// Measured in `book/pages/phase2/index.md`.
pub const NAIVE: Step<Method> = Step {
    number: 1,
    name: "naive",
    idea: "one thread per element, the whole formula",
    source: kernel_source!("norm_01_batch_norm"),
    method: Method::Naive,
};

/// Step 2. Hypothesis: two divisions for the index, a root and a division for the value are most of step 1's instructions; without
/// them the kernel waits for nothing but memory. Change: a small kernel computes scale and shift of each channel once, and a grid
/// over the planes makes the channel the block's, not the thread's.
///
/// Measured in `book/pages/phase2/batch-norm.md`. Instructions per element fall by a fifth as the simulator counts them, where a
/// division is one.
pub const SCALE_SHIFT: Step<Method> = Step {
    number: 2,
    name: "folded",
    idea: "the formula folded beforehand, blocks over planes",
    source: kernel_source!("norm_02_scale_shift"),
    method: Method::ScaleShift,
};

/// Step 3. Hypothesis: with 4 bytes in flight a thread, a full device has too few to cover the memory's latency, and small planes
/// leave lanes idle. Change: 16-byte vectors over the whole tensor, four loads before the first use.
///
/// Measured in `book/pages/phase2/batch-norm.md`.
pub const VECTORISED: Step<Method> = Step {
    number: 3,
    name: "vectorised",
    idea: "16-byte vectors, four in flight a thread",
    source: kernel_source!("norm_03_vectorised"),
    method: Method::Vectorised,
};

/// Host side that a step's kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All parameters, one thread per element.
    Naive,
    /// Scale and shift, a grid over the planes.
    ScaleShift,
    /// Scale and shift, vectors.
    Vectorised,
}

impl ladder::Method for Method {
    type Loaded = Normaliser;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Normaliser> {
        let kernel = |name| device.kernel(&step.source, name);
        let (kernel, fold) = match step.method {
            Method::Naive => (Loaded::Naive(kernel("batch_norm")?), None),
            Method::ScaleShift => (Loaded::ScaleShift(kernel("scale_shift")?), Some(&step.source)),
            Method::Vectorised => {
                let kernel = VectorKernel::load(device, &step.source, "scale_shift_vectors")?;
                (Loaded::Vectorised(kernel), Some(&SCALE_SHIFT.source))
            }
        };
        let fold = fold.map(|source| device.kernel(source, "fold")).transpose()?;
        Ok(Normaliser { kernel, fold })
    }
}

/// A step, loaded on a device.
#[derive(Clone, Debug)]
pub struct Normaliser {
    kernel: Loaded,
    /// Computes scale and shift, where the step has them.
    fold: Option<Kernel>,
}

/// Kernel that normalises.
#[derive(Clone, Debug)]
enum Loaded {
    Naive(Kernel),
    ScaleShift(Kernel),
    Vectorised(VectorKernel),
}

impl Loaded {
    fn kernel(&self) -> &Kernel {
        match self {
            Loaded::Naive(kernel) | Loaded::ScaleShift(kernel) => kernel,
            Loaded::Vectorised(vectors) => vectors.kernel(),
        }
    }
}

/// A step with the parameters of one layer, on a device. It takes every \[N, C, H, W\] of up to 2³¹ − 1 values.
#[derive(Debug)]
pub struct Layer {
    kernel: Loaded,
    channels: usize,
    /// Weight, bias, mean and variance, or one buffer of \[C\] pairs of scale and shift.
    parameters: Vec<Buffer<f32>>,
    eps: f32,
}

impl Normaliser {
    /// A layer with copies of `norm`'s four parameters, \[C\] each, or with the values computed from them. All are on the
    /// stream's device; the computation is queued on the stream.
    ///
    /// # Errors
    /// [`Error::Shape`] if they differ in length or have more than one dimension, [`Error::Invalid`] if one is on the host,
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`].
    pub fn layer(&self, stream: &Stream, norm: &BatchNorm<'_>) -> Result<Layer> {
        let channels = norm.weight.len();
        let parts = [
            ("batch_norm's weight", norm.weight),
            ("batch_norm's bias", norm.bias),
            ("batch_norm's mean", norm.mean),
            ("batch_norm's variance", norm.variance),
        ];
        for (name, part) in parts {
            part.expect_shape(name, &[channels])?;
        }
        let parts = parts.map(|(_, part)| part.buffer());
        let [weight, bias, mean, variance] = parts;
        let (weight, bias, mean, variance) = (weight?, bias?, mean?, variance?);
        let parameters = match &self.fold {
            None => {
                let copy = |buffer| stream.clone_dtod(buffer);
                vec![copy(weight)?, copy(bias)?, copy(mean)?, copy(variance)?]
            }
            Some(fold) => {
                let count = fits_i32("batch_norm", "the number of channels", Some(channels))?.unsigned_abs();
                let mut folded = stream.alloc_uninit::<f32>(2 * channels)?;
                let mut launch = stream.launch_builder(fold);
                launch.arg(weight).arg(bias).arg(mean).arg(variance).arg(&mut folded).arg(&norm.eps).arg(&count);
                // SAFETY: the kernel reads [c] of the four and writes pair c for c < count, which all hold.
                unsafe { launch.launch(LaunchConfig::for_threads(count)) }?;
                vec![folded]
            }
        };
        Ok(Layer { kernel: self.kernel.clone(), channels, parameters, eps: norm.eps })
    }
}

impl Layer {
    /// Queues the normalisation of `input` \[N, C, H, W\] into `output` of the same shape, both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit, [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        output.expect_shape("batch_norm's output", input.shape())?;
        self.queue(stream, Some(input), output)
    }

    /// [`Layer::launch`] with the output in place of the input.
    ///
    /// # Errors
    /// Same as [`Layer::launch`].
    pub fn launch_in_place(&self, stream: &Stream, x: &mut Tensor) -> Result<()> {
        self.queue(stream, None, x)
    }

    /// [`Layer::launch`] into a new tensor.
    ///
    /// # Errors
    /// Same as [`Layer::launch`], and [`Error::OutOfMemory`].
    pub fn forward(&self, stream: &Stream, input: &Tensor) -> Result<Tensor> {
        let mut output = Tensor::empty_on(stream.device(), input.shape())?;
        self.launch(stream, input, &mut output)?;
        Ok(output)
    }

    /// Without an input, `output` is the input as well.
    fn queue(&self, stream: &Stream, input: Option<&Tensor>, output: &mut Tensor) -> Result<()> {
        let [images, channels, height, width] = output.dims4()?;
        if channels != self.channels {
            let detail = format!("{channels} channels of {:?} met parameters of {}", output.shape(), self.channels);
            return Err(Error::shape("batch_norm", detail));
        }
        let n = fits_i32("batch_norm", "the number of values", Some(output.len()))?.unsigned_abs();
        if n == 0 {
            return Ok(());
        }
        // None is above n.
        let (planes, count, plane) = ((images * channels) as u32, channels as u32, (height * width) as u32);
        let y = output.buffer_mut()?;
        let mut launch = stream.launch_builder(self.kernel.kernel());
        let y = match input {
            Some(x) => {
                launch.arg(x.buffer()?);
                Some(y)
            }
            None => {
                launch.arg(y);
                None
            }
        };
        for parameter in &self.parameters {
            launch.arg(parameter);
        }
        match y {
            Some(y) => launch.arg(y),
            None => launch.arg_again(0),
        };
        if let Loaded::Naive(_) = self.kernel {
            launch.arg(&self.eps);
        }
        launch.arg(&count).arg(&plane);
        let config = match &self.kernel {
            Loaded::Naive(_) => {
                launch.arg(&n);
                LaunchConfig::for_threads(n)
            }
            Loaded::ScaleShift(_) => {
                launch.arg(&planes);
                // Whole warps, and no more than the plane can use.
                let block = plane.next_multiple_of(32).min(256);
                let rows = planes.min(stream.device().properties().max_grid[1]);
                LaunchConfig { grid_dim: (plane.div_ceil(block), rows, 1), ..LaunchConfig::linear(0, block) }
            }
            Loaded::Vectorised(vectors) => {
                launch.arg(&n);
                vectors.config(n)
            }
        };
        // SAFETY: each kernel reads x[i] and writes y[i] for i < n = planes · plane, which both hold, and parameters at
        // c < channels; a thread writes only what it has read itself, so that x may be y.
        unsafe { launch.launch(config) }
    }
}
