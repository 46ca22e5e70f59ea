//! The layers that phase 2 does not have.

mod attention;
mod diffusion;
mod elementwise;
mod embedding;
mod image;
mod layer_norm;
mod row_norm;
mod rows;
mod softmax;
mod transpose;

pub use attention::Attention;
pub use diffusion::{AddNoise, DiffusionCall, DiffusionStep};
pub use elementwise::{AddChannel, Gelu, Silu, SiluSum};
pub use embedding::TimestepEmbedding;
pub use image::{Concatenate, Upsample};
pub use layer_norm::{LayerNorm, LayerNormStep};
pub use row_norm::RowNorm;
pub use softmax::{Softmax, SoftmaxStep};
pub use transpose::Transpose;

use bench::peer::Cublas;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::MaxPool2d;
use phase2_conv_bn::gemm::{Epilogue, Layout, Tuned};

/// Kinds of layers in tables and profiles.
pub mod kinds {
    /// Convolutions.
    pub const CONV: &str = "Conv2D";
    /// BatchNorm.
    pub const NORM: &str = "BatchNorm";
    /// ReLU.
    pub const RELU: &str = "ReLU";
    /// Max pooling.
    pub const MAX_POOL: &str = "MaxPool";
    /// Adaptive average pooling.
    pub const AVERAGE_POOL: &str = "AvgPool";
    /// Residual addition.
    pub const ADD: &str = "Add";
    /// Linear layers, and products without a bias.
    pub const LINEAR: &str = "Linear";
    /// LayerNorm.
    pub const LAYER_NORM: &str = "LayerNorm";
    /// GELU.
    pub const GELU: &str = "GELU";
    /// SiLU.
    pub const SILU: &str = "SiLU";
    /// Timestep embedding.
    pub const EMBEDDING: &str = "Embedding";
    /// Nearest upsampling.
    pub const UPSAMPLE: &str = "Upsample";
    /// Concatenation over channels.
    pub const CONCATENATE: &str = "Concat";
    /// Images to tokens and back.
    pub const TRANSPOSE: &str = "Transpose";
    /// Sums over devices.
    pub const ALL_REDUCE: &str = "AllReduce";
    /// Both products of an attention and the softmax between them.
    pub const ATTENTION: &str = "Attention";
    /// The diffusion step, and the noise of the next one.
    pub const DIFFUSION: &str = "Diffusion";
    /// A copy of a value that is still needed where it would be changed.
    pub const COPY: &str = "Copy";
    /// Layers that run on the CPU because the device failed.
    pub const ON_CPU: &str = "on the CPU";
}

/// Max pooling, `max_pool_01.cu`: one thread per output.
#[derive(Clone, Debug)]
pub struct MaxPool {
    kernel: Kernel,
    pool: MaxPool2d,
}

impl MaxPool {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("max_pool_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device, pool: MaxPool2d) -> Result<MaxPool> {
        MaxPool::load_from(device, &MaxPool::SOURCE, pool)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource, pool: MaxPool2d) -> Result<MaxPool> {
        Ok(MaxPool { kernel: device.kernel(source, "max_pool")?, pool })
    }

    /// Queues the pooling of `input` \[N, C, H, W\] into `output` of [`MaxPool2d::output_shape`], both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit or a count does not fit the kernel, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        let shape @ [.., out_height, out_width] = self.pool.output_shape(input)?;
        output.expect_shape("max pooling's output", &shape)?;
        let [.., height, width] = input.dims4()?;
        let MaxPool2d { window, stride, padding } = self.pool;
        let sizes = [height, width, out_height, out_width, window, stride, padding];
        let mut geometry = [0i32; 7];
        for (to, size) in geometry.iter_mut().zip(sizes) {
            *to = fits_i32("max pooling", "a size", Some(size))?;
        }
        let outputs = fits_i32("max pooling", "the number of outputs", Some(output.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(input.buffer()?).arg(output.buffer_mut()?).arg(&outputs);
        launch.arg(&geometry);
        // SAFETY: the kernel writes output[i] for i < outputs and reads those values of its plane that lie in the image.
        unsafe { launch.launch(LaunchConfig::for_threads(outputs)) }
    }
}

/// Adaptive average pooling, `average_pool_01.cu`: one warp per output.
#[derive(Clone, Debug)]
pub struct AdaptiveAvgPool {
    kernel: Kernel,
}

impl AdaptiveAvgPool {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("average_pool_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<AdaptiveAvgPool> {
        AdaptiveAvgPool::load_from(device, &AdaptiveAvgPool::SOURCE)
    }

    /// Same as [`MaxPool::load_from`].
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<AdaptiveAvgPool> {
        Ok(AdaptiveAvgPool { kernel: device.kernel(source, "adaptive_average_pool")? })
    }

    /// Queues the means of `input` \[N, C, H, W\] over as many cells as `output` \[N, C, out_height, out_width\] has, both on the
    /// stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if images or channels differ, a side is 0 or a count does not fit the kernel, [`Error::Invalid`] if a
    /// tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, input: &Tensor, output: &mut Tensor) -> Result<()> {
        const WHAT: &str = "adaptive average pooling";
        let ([n, c, height, width], [.., out_height, out_width]) = (input.dims4()?, output.dims4()?);
        output.expect_shape("adaptive average pooling's output", &[n, c, out_height, out_width])?;
        let sides = [height, width, out_height, out_width];
        if sides.contains(&0) {
            let detail = format!("input {:?} into {:?}: no side may be 0", input.shape(), output.shape());
            return Err(Error::shape(WHAT, detail));
        }
        // A cell's values are counted in 31 bits too.
        fits_i32(WHAT, "the number of values of a plane", height.checked_mul(width))?;
        let outputs = fits_i32(WHAT, "the number of outputs", Some(output.len()))?.unsigned_abs();
        let threads = fits_i32(WHAT, "the number of threads", output.len().checked_mul(32))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(input.buffer()?).arg(output.buffer_mut()?).arg(&outputs);
        let [height, width, out_height, out_width] = sides.map(|side| fits_i32(WHAT, "a side", Some(side)));
        let (height, width, out_height, out_width) = (height?, width?, out_height?, out_width?);
        launch.arg(&height).arg(&width).arg(&out_height).arg(&out_width);
        // SAFETY: the kernel writes output[i] for i < outputs and reads its cell, which lies in the plane.
        unsafe { launch.launch(LaunchConfig::for_threads(threads)) }
    }
}

/// Residual addition in place, `add_01.cu`: one thread per element.
#[derive(Clone, Debug)]
pub struct Add {
    kernel: Kernel,
}

impl Add {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("add_01");

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Add> {
        Ok(Add { kernel: device.kernel(&Add::SOURCE, "add")? })
    }

    /// Queues `y` += `x` for tensors of one shape, both on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ or have too many values, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, y: &mut Tensor, x: &Tensor) -> Result<()> {
        x.expect_shape("what is added", y.shape())?;
        let n = fits_i32("residual addition", "the number of values", Some(y.len()))?.unsigned_abs();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(y.buffer_mut()?).arg(x.buffer()?).arg(&n);
        // SAFETY: the kernel reads x[i] and y[i] and writes y[i] for i < n, which both hold.
        unsafe { launch.launch(LaunchConfig::for_threads(n)) }
    }
}

/// A linear layer, y = x·Wᵀ + bias, by the GEMM ladder's choice or by cuBLAS.
#[derive(Debug)]
pub struct Linear {
    product: Product,
    weight: Tensor,
    bias: Tensor,
}

/// Implementation of a linear layer's product.
#[derive(Debug)]
enum Product {
    Own(Tuned),
    /// cuBLAS adds to the previous contents, but only a matrix: `rows` fills y with the bias first.
    Library {
        cublas: Cublas,
        rows: Kernel,
    },
}

impl Linear {
    /// The kernel file of the library's bias.
    pub const SOURCE: KernelSource = kernel_source!("bias_rows_01");

    /// A layer with `weight` \[out, in\] and `bias` \[out\], which are copied to the device. `gemm` is shared with other layers,
    /// as is its workspace.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; same as [`Tensor::to_device`].
    pub fn load(device: &Device, gemm: &Tuned, weight: &Tensor, bias: &Tensor) -> Result<Linear> {
        Linear::with(device, Product::Own(gemm.clone()), weight, bias)
    }

    /// The same by cuBLAS, for work on `stream`.
    ///
    /// # Errors
    /// Same as [`Linear::load`] and [`Device::kernel`]; [`Error::Unsupported`] where there is no cuBLAS.
    pub fn by_library(stream: &Stream, weight: &Tensor, bias: &Tensor) -> Result<Linear> {
        let rows = stream.device().kernel(&Linear::SOURCE, "bias_rows")?;
        Linear::with(stream.device(), Product::Library { cublas: Cublas::open(stream)?, rows }, weight, bias)
    }

    fn with(device: &Device, product: Product, weight: &Tensor, bias: &Tensor) -> Result<Linear> {
        let [out, _] = weight.dims("linear's weight")?;
        bias.expect_shape("linear's bias", &[out])?;
        Ok(Linear { product, weight: weight.to_device(device)?, bias: bias.to_device(device)? })
    }

    /// Bytes of the shared workspace that launches have needed so far; cuBLAS's own is not counted.
    pub fn workspace_bytes(&self) -> usize {
        match &self.product {
            Product::Own(gemm) => gemm.workspace_bytes(),
            Product::Library { .. } => 0,
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Queues the layer for `x` \[batch, in\] and `y` \[batch, out\], both on the stream's device.
    ///
    /// # Errors
    /// Same as [`Tuned::launch`] or [`Cublas::gemm`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        match &self.product {
            Product::Own(gemm) => {
                let epilogue = Epilogue { bias: Some(&self.bias), ..Epilogue::default() };
                gemm.launch(stream, x, &self.weight, Layout::Transposed, &epilogue, y)
            }
            Product::Library { cublas, rows } => {
                fill_rows(stream, rows, &self.bias, y)?;
                cublas.gemm(x, &self.weight, true, 1.0, 1.0, y)
            }
        }
    }
}

/// Queues `y` \[rows, out\] = `bias` \[out\] in each row.
fn fill_rows(stream: &Stream, rows: &Kernel, bias: &Tensor, y: &mut Tensor) -> Result<()> {
    match *y.shape() {
        [_, out] if out == bias.len() => {}
        _ => {
            let detail = ShapeError::mismatch(format!("[rows, {}]", bias.len()), y.shape());
            return Err(Error::shape("linear's y", detail));
        }
    }
    let n = fits_i32("linear", "the number of values", Some(y.len()))?.unsigned_abs();
    if n == 0 {
        return Ok(());
    }
    let out = fits_i32("linear", "the number of outputs", Some(bias.len()))?.unsigned_abs();
    let mut launch = stream.launch_builder(rows);
    launch.arg(bias.buffer()?).arg(y.buffer_mut()?).arg(&out).arg(&n);
    // SAFETY: the kernel reads bias[i % out] and writes y[i] for i < n, which both hold.
    unsafe { launch.launch(LaunchConfig::for_threads(n)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::device_test;

    device_test! {
        fn every_row_is_the_bias(device) {
            let (stream, kernel) = (device.stream(), device.kernel(&Linear::SOURCE, "bias_rows")?);
            for [rows, out] in [[1, 1], [3, 5], [7, 300], [0, 4], [4, 0]] {
                let bias = Tensor::random(&[out], 1);
                let mut y = Tensor::empty_on(&device, &[rows, out])?;
                fill_rows(&stream, &kernel, &bias.to_device(&device)?, &mut y)?;
                assert_eq!(y.into_vec()?, bias.as_slice()?.repeat(rows));
            }
            let mut wrong = Tensor::empty_on(&device, &[3, 4])?;
            assert!(fill_rows(&stream, &kernel, &Tensor::random(&[5], 1).to_device(&device)?, &mut wrong).is_err());
            Ok(())
        }
    }
}
