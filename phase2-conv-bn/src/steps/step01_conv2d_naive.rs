//! Step 1: direct convolution, one thread an output element.
//!
//! Hypothesis: the device has tens of thousands of lanes, so giving each output its own thread and writing the loops down is
//! already far faster than a CPU core. Change: none, this is where the ladder begins. Measured: the `layers` table of
//! `cargo run -p phase5-bench`.

use common::prelude::*;
use common::reference::Conv2dParams;

use super::fits_i32;

/// `kernels/01_conv2d_naive.cu`.
pub const SOURCE: KernelSource = kernel_source!("01_conv2d_naive");

const OPERATION: &str = "conv2d_naive";

/// The kernel, loaded. It takes every shape, stride, padding, dilation and number of groups whose element counts fit
/// 31 bits.
#[derive(Clone, Debug)]
pub struct Conv2dNaive {
    kernel: Kernel,
}

/// As the kernel has it: what it has to know of the shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Geometry {
    outputs: u32,
    channels: i32,
    height: i32,
    width: i32,
    out_channels: i32,
    window: [i32; 2],
    out_size: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
    dilation: [i32; 2],
    groups: i32,
}

// SAFETY: `repr(C)` with 32-bit integers only, so there is no padding and every bit pattern is valid.
unsafe impl bytemuck::Zeroable for Geometry {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Geometry {}

impl Geometry {
    fn new(input: &Tensor, weight: &Tensor, params: Conv2dParams, out: [usize; 4]) -> Result<Geometry> {
        let [_, channels, height, width] = input.dims4()?;
        let [out_channels, _, r, s] = weight.dims4()?;
        let count = |shape: &[usize]| shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim));
        // The kernel's offsets into the tensors, and its rows and columns, padding included, are ints.
        fits_i32(OPERATION, "the number of input values", count(input.shape()))?;
        fits_i32(OPERATION, "the number of weights", count(weight.shape()))?;
        let outputs = fits_i32(OPERATION, "the number of outputs", count(&out))?;
        for (size, padding) in [(height, params.padding[0]), (width, params.padding[1])] {
            let padded = padding.checked_mul(2).and_then(|both| both.checked_add(size));
            fits_i32(OPERATION, "the padded size", padded)?;
        }
        let pair = |what: &str, [y, x]: [usize; 2]| -> Result<[i32; 2]> {
            Ok([fits_i32(OPERATION, what, Some(y))?, fits_i32(OPERATION, what, Some(x))?])
        };
        Ok(Geometry {
            outputs: outputs.unsigned_abs(),
            channels: fits_i32(OPERATION, "the number of channels", Some(channels))?,
            height: fits_i32(OPERATION, "the height", Some(height))?,
            width: fits_i32(OPERATION, "the width", Some(width))?,
            out_channels: fits_i32(OPERATION, "the number of output channels", Some(out_channels))?,
            window: pair("the window", [r, s])?,
            out_size: pair("the output's size", [out[2], out[3]])?,
            stride: pair("the stride", params.stride)?,
            padding: pair("the padding", params.padding)?,
            dilation: pair("the dilation", params.dilation)?,
            groups: fits_i32(OPERATION, "the number of groups", Some(params.groups))?,
        })
    }
}

impl Conv2dNaive {
    /// Loads the kernel.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Conv2dNaive> {
        Ok(Conv2dNaive { kernel: device.kernel(&SOURCE, "conv2d_naive")? })
    }

    /// Queues the convolution of `input` \[N, C, H, W\] with `weight` \[K, C / groups, R, S\] and `bias` \[K\] into `output`, all
    /// on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another or `output` has not
    /// [`Conv2dParams::output_shape`]; [`Error::Invalid`] if a tensor is on the host; [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        let out = params.output_shape(input, weight)?;
        output.expect_shape("conv2d_naive's output", &out)?;
        if let Some(bias) = bias {
            bias.expect_shape("conv2d_naive's bias", &out[1..2])?;
        }
        let geometry = Geometry::new(input, weight, params, out)?;
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(input.buffer()?).arg(weight.buffer()?);
        match bias {
            Some(bias) => launch.arg(bias.buffer()?),
            // A null pointer.
            None => launch.arg(&0u64),
        };
        launch.arg(output.buffer_mut()?).arg(&geometry);
        // SAFETY: the kernel writes output[i] for i < outputs, which `output` holds; the geometry was derived from the shapes
        // of the tensors given, and rows and columns outside the image are skipped.
        unsafe { launch.launch(LaunchConfig::for_num_elems(geometry.outputs)) }
    }

    /// [`Conv2dNaive::launch`] into a new tensor.
    ///
    /// # Errors
    /// As [`Conv2dNaive::launch`], and [`Error::OutOfMemory`].
    pub fn forward(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
    ) -> Result<Tensor> {
        let shape = params.output_shape(input, weight)?;
        // Before a tensor of that size is asked for.
        Geometry::new(input, weight, params, shape)?;
        let mut output = Tensor::empty_on(stream.device(), &shape)?;
        self.launch(stream, input, weight, bias, params, &mut output)?;
        Ok(output)
    }
}
