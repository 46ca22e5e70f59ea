//! ReLU in two steps.

use bench::ladder;
use common::limits::fits_i32;
use common::prelude::*;

use super::VectorKernel;
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[NAIVE, VECTORISED];

/// Step 1, in place alone. Hypothesis: the arithmetic is nothing, so it costs what reading and writing the tensor costs. Change:
/// none, this is the first version.
///
/// Measured in `book/pages/phase2/index.md`.
pub const NAIVE: Step<Method> = Step {
    number: 1,
    name: "naive",
    idea: "one thread per element",
    source: kernel_source!("relu_01_naive"),
    method: Method::Naive,
};

/// Step 2. Hypothesis: as for BatchNorm, more bytes in flight come nearer to the memory's speed. Change: 16-byte vectors, four loads
/// before the first use.
///
/// Measured in `book/pages/phase2/batch-norm.md`.
pub const VECTORISED: Step<Method> = Step {
    number: 2,
    name: "vectorised",
    idea: "16-byte vectors, four in flight a thread",
    source: kernel_source!("relu_02_vectorised"),
    method: Method::Vectorised,
};

/// Host side that a step's kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One pointer, one thread per element.
    Naive,
    /// Two pointers, vectors.
    Vectorised,
}

impl ladder::Method for Method {
    type Loaded = Relu;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Relu> {
        Ok(Relu(match step.method {
            Method::Naive => Loaded::Naive(device.kernel(&step.source, "relu")?),
            Method::Vectorised => Loaded::Vectorised(VectorKernel::load(device, &step.source, "relu_vectors")?),
        }))
    }
}

/// A step, loaded on a device: max(x, 0), where NaN stays NaN. It takes every shape of up to 2³¹ − 1 values.
#[derive(Clone, Debug)]
pub struct Relu(Loaded);

#[derive(Clone, Debug)]
enum Loaded {
    Naive(Kernel),
    Vectorised(VectorKernel),
}

impl Relu {
    /// Queues max(`input`, 0) into `output` of the same shape, both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or have too many values, [`Error::Unsupported`] from step 1, [`Error::Invalid`] if a
    /// tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        let Loaded::Vectorised(kernel) = &self.0 else {
            return Err(Error::Unsupported {
                what: "ReLU into another tensor".to_owned(),
                device: stream.device().short_name(),
                reason: "this kernel works in place".to_owned(),
            });
        };
        // SAFETY: this kernel takes x, y and n, and a thread writes only what it has read itself.
        unsafe { kernel.launch("relu", stream, input, output) }
    }

    /// Queues max(x, 0) over the values of `x`, which is on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many, [`Error::Invalid`] if `x` is on the host, [`Error::WrongDevice`].
    pub fn launch_in_place(&self, stream: &Stream, x: &mut Tensor) -> Result<()> {
        let kernel = match &self.0 {
            Loaded::Naive(kernel) => kernel,
            // SAFETY: this kernel takes x, y and n, and a thread writes only what it has read itself.
            Loaded::Vectorised(kernel) => return unsafe { kernel.launch_in_place("relu", stream, x) },
        };
        let n = fits_i32("relu", "the number of values", Some(x.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(kernel);
        launch.arg(x.buffer_mut()?).arg(&n);
        // SAFETY: the kernel reads and writes x[i] for i < n, which `x` holds, each thread its own.
        unsafe { launch.launch(LaunchConfig::for_threads(n)) }
    }
}
