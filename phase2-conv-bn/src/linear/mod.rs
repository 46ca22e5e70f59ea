//! A linear layer with ReLU, y = relu(x·Wᵀ + bias): the naive fused kernel, the GEMM ladder's best with the same epilogue, and a
//! library's product followed by a kernel of its own for bias and ReLU.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`NAIVE`] | `linear_01_naive.cu` | one thread per output; everything fused, and slow |
//! | [`TUNED`] | those of [`crate::gemm`] | bias and ReLU as the epilogue of a good product |
//! | [`LIBRARY`] | cuBLAS, `linear_02_bias_relu.cu` | a very good product, and a second pass over y |
//!
//! [`backward`] has the gradients, `linear_03_backward.cu`, and [`written`] those with better products, `linear_04_mask.cu` and
//! `linear_05_transposed.cu`; [`traffic`] counts the bytes that each version moves.

pub mod backward;
pub mod traffic;
pub mod written;

use bench::peer::Cublas;
use common::limits::fits_i32;
use common::prelude::*;

use crate::gemm::{Epilogue, Layout, Tuned};
use crate::norm::VectorKernel;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[NAIVE, TUNED, LIBRARY];

/// Step 1. Hypothesis: one launch in place of two, no intermediate tensor, so fusing must pay. Change: none, this is the first
/// version.
///
/// Measured in `book/pages/phase2/linear-relu.md`.
pub const NAIVE: Step = Step {
    number: 1,
    name: "naive",
    idea: "one thread per output, fused",
    source: Some(kernel_source!("linear_01_naive")),
};

/// Step 2. Hypothesis: step 1 is slow as a product, not as a fusion; the ladder's product takes the same epilogue for nothing.
/// Change: the product.
///
/// Measured in `book/pages/phase2/linear-relu.md`.
pub const TUNED: Step =
    Step { number: 2, name: "tuned", idea: "the GEMM ladder's best with its epilogue", source: None };

/// The yardstick: cuBLAS's product, then bias and ReLU in place.
///
/// Measured in `book/pages/phase2/linear-relu.md`.
pub const LIBRARY: Step = Step {
    number: 3,
    name: "cuBLAS + ReLU",
    idea: "a library's product, a second kernel for bias and ReLU",
    source: Some(kernel_source!("linear_02_bias_relu")),
};

/// A version of the layer.
#[derive(Clone, Debug)]
pub struct Step {
    number: u32,
    name: &'static str,
    idea: &'static str,
    /// The step's own kernel file, if any.
    source: Option<KernelSource>,
}

impl Step {
    /// Position in the ladder, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Name in tables.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// New idea of the step, in a few words.
    pub fn idea(&self) -> &'static str {
        self.idea
    }

    /// The step's own kernel file, if any.
    pub fn source(&self) -> Option<&KernelSource> {
        self.source.as_ref()
    }

    /// The same step with another text, such as a kernel with a mistake that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step {
        Step { source: Some(source), ..self.clone() }
    }

    /// Loads the kernels of the step. [`LIBRARY`] queues its product on the device's default stream.
    ///
    /// # Errors
    /// Same as [`Device::kernel`] and [`Tuned::load`]; [`Error::Unsupported`] from [`LIBRARY`] where the library is absent.
    pub fn load(&self, device: &Device) -> Result<LinearRelu> {
        let method = match &self.source {
            Some(source) if self.number == LIBRARY.number => {
                Method::Library(Box::new(Cublas::open(&device.stream())?), load_bias_and_clip(device, source)?)
            }
            Some(source) => Method::Naive(device.kernel(source, "linear_relu_naive")?),
            None => Method::Tuned(Tuned::load(device)?),
        };
        Ok(LinearRelu { method })
    }
}

/// A step, loaded on a device. Batch, inputs and outputs may be anything from 0, as long as there are no more than 2³¹ − 1 values
/// in y, and 2³⁰ in a dimension.
pub struct LinearRelu {
    method: Method,
}

enum Method {
    Naive(Kernel),
    Tuned(Tuned),
    Library(Box<Cublas>, VectorKernel),
}

impl LinearRelu {
    /// Queues y = relu(x·Wᵀ + bias) with `x` \[batch, in\], `weight` \[out, in\], `bias` \[out\] and `y` \[batch, out\], all on the
    /// stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match or a count does not fit the kernel, [`Error::Unsupported`] if a dimension does
    /// not, [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, weight: &Tensor, bias: &Tensor, y: &mut Tensor) -> Result<()> {
        let Size { outputs, inputs, columns, .. } = Size::of(x, weight, y)?;
        bias.expect_shape("linear's bias", &[columns as usize])?;
        match &self.method {
            Method::Naive(kernel) => {
                let mut launch = stream.launch_builder(kernel);
                launch.arg(x.buffer()?).arg(weight.buffer()?).arg(bias.buffer()?).arg(y.buffer_mut()?);
                launch.arg(&outputs).arg(&inputs).arg(&columns);
                // SAFETY: the kernel writes y[i] for i < outputs and reads the rows of x and W that i belongs to.
                unsafe { launch.launch(LaunchConfig::for_threads(outputs)) }
            }
            // ANCHOR: fused
            Method::Tuned(gemm) => {
                let epilogue = Epilogue { bias: Some(bias), relu: true, ..Epilogue::default() };
                gemm.launch(stream, x, weight, Layout::Transposed, &epilogue, y)
            }
            // ANCHOR_END: fused
            Method::Library(blas, kernel) => {
                blas.gemm(x, weight, true, 1.0, 0.0, y)?;
                add_bias_and_clip(stream, kernel, bias, y)
            }
        }
    }
}

/// The kernel of [`LIBRARY`]'s source that [`add_bias_and_clip`] takes.
///
/// # Errors
/// Same as [`VectorKernel::load`].
pub fn load_bias_and_clip(device: &Device, source: &KernelSource) -> Result<VectorKernel> {
    VectorKernel::load(device, source, "bias_relu")
}

/// Queues y = relu(y + bias) in place, with `kernel` from [`LIBRARY`]'s source, `y` \[batch, out\] and `bias` \[out\].
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit or there are too many values, [`Error::Invalid`] if a tensor is on the host,
/// [`Error::WrongDevice`].
pub fn add_bias_and_clip(stream: &Stream, kernel: &VectorKernel, bias: &Tensor, y: &mut Tensor) -> Result<()> {
    let [_, out] = y.dims("bias and ReLU")?;
    bias.expect_shape("the bias", &[out])?;
    let n = fits_i32("bias and ReLU", "the number of values", Some(y.len()))?.unsigned_abs();
    if n == 0 {
        return Ok(());
    }
    // At most n.
    let out = out as u32;
    let mut launch = stream.launch_builder(kernel.kernel());
    launch.arg(y.buffer_mut()?).arg(bias.buffer()?).arg(&out).arg(&n);
    // SAFETY: the kernel reads and writes y[i] for i < n and reads bias[i % out].
    unsafe { launch.launch(kernel.config(n)) }
}

/// The problem's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    batch: u32,
    inputs: u32,
    columns: u32,
    /// Batch times columns.
    outputs: u32,
}

impl Size {
    /// The size of tensors whose shapes match.
    fn of(x: &Tensor, weight: &Tensor, y: &Tensor) -> Result<Size> {
        let ([batch, inputs], [_, columns]) = (x.dims("linear's x")?, y.dims("linear's y")?);
        y.expect_shape("linear's y", &[batch, columns])?;
        weight.expect_shape("linear's weight", &[columns, inputs])?;
        let count = |what, value| Ok::<_, Error>(fits_i32("linear", what, Some(value))?.unsigned_abs());
        Ok(Size {
            batch: count("the batch", batch)?,
            inputs: count("the number of inputs", inputs)?,
            columns: count("the number of outputs", columns)?,
            outputs: count("the number of values of y", y.len())?,
        })
    }
}
