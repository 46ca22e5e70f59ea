//! The convolution ladder: NCHW, f32, any stride, padding, dilation and number of groups, with or without a bias.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`step01_direct`] | `conv_01_direct.cu` | one thread computes one output element |
//! | `step02_halo` | `conv_02_halo.cu` | the input of a block of outputs in shared memory |
//! | `step03_registers` | `conv_03_registers.cu` | 8 output channels × 4 pixels per thread |
//! | `step04_im2col` | `conv_04_im2col.cu` | windows written out as columns, then a matrix product |
//! | `step05_implicit` | `conv_05_implicit.cu` | im2col's matrix is computed where a tile asks for it |
//! | `step06_offset_table` | `conv_06_offset_table.cu` | a table of taps in place of divisions |
//! | `step07_register_tile` | `conv_07_register_tile.cu` | 8 output channels × 4 pixels per thread, 16 bytes per load |
//! | `step08_double_buffer` | `conv_08_double_buffer.cu` | the next step on its way while this one is multiplied |
//! | `step09_cut_taps` | `conv_09_cut_taps.cu` | several blocks share the taps of a tile where there are few tiles |
//! | `step10_vectors` | `conv_10_vectors.cu` | weights four at a time, table entries two at a time |
//! | `step11_warp_tiles` | `conv_11_warp_tiles.cu` | 32 × 32 outputs per warp, not 16 × 64 |
//! | `step12_read_ahead` | `conv_12_read_ahead.cu` | the operands of the next tap are read before these are multiplied |
//! | `step13_wide_tile` | `conv_13_wide_tile.cu` | 64 × 128 outputs per block, 8 × 8 per thread |
//! | `step14_async_copies` | `conv_14_async_copies.cu` | `cp.async` straight to shared memory, 4 bytes each |
//! | `step15_three_stages` | `conv_15_three_stages.cu` | the copies for two steps are on their way while one is multiplied |
//! | [`step16_tuned`] | `conv_16_tuned.cu` | the tile that fits, by a model of measured times |
//! | [`step17_winograd`] | `conv_17_winograd.cu` | four outputs of a 3×3 window for 16 multiplications instead of 36 |
//! | `step18_pointwise` | `conv_18_pointwise.cu` | 1×1: a matrix product on the input as it lies |
//! | [`step19_winograd_4x4`] | `conv_19_winograd_4x4.cu` | sixteen outputs of a 3×3 window for 36 multiplications instead of 144 |
//!
//! [`Tuned`] chooses among them by shape; [`shapes`] has the shapes that it is measured with.
//!
//! [`Conv::launch`] checks every call; a step adds its kernels, their geometry, and the shapes that it does not take.

use std::fmt;

use bench::ladder;
use common::device::LaunchArgs;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference::Conv2dParams;

use crate::gemm::{Epilogue, Scalars};

mod parts;
mod table;
mod tabled;
mod tuned;

use tabled::{Cutting, Tabled};

pub use step17_winograd::Prepared;
pub use tuned::{Choice, ChosenKernel, Tuned};

pub mod shapes;
pub mod step01_direct;
mod step02_halo;
mod step03_registers;
pub(crate) mod step04_im2col;
mod step05_implicit;
mod step06_offset_table;
mod step07_register_tile;
mod step08_double_buffer;
mod step09_cut_taps;
mod step10_vectors;
mod step11_warp_tiles;
mod step12_read_ahead;
mod step13_wide_tile;
mod step14_async_copies;
mod step15_three_stages;
pub mod step16_tuned;
pub mod step17_winograd;
mod step18_pointwise;
pub mod step19_winograd_4x4;

/// All steps, in the order in which they are read.
#[rustfmt::skip] // one line per step
pub static LADDER: &[Step] = &[
    step01_direct::STEP,
    step02_halo::STEP,
    step03_registers::STEP,
    step04_im2col::STEP,
    step05_implicit::STEP,
    step06_offset_table::STEP,
    step07_register_tile::STEP,
    step08_double_buffer::STEP,
    step09_cut_taps::STEP,
    step10_vectors::STEP,
    step11_warp_tiles::STEP,
    step12_read_ahead::STEP,
    step13_wide_tile::STEP,
    step14_async_copies::STEP,
    step15_three_stages::STEP,
    step16_tuned::STEP,
    step17_winograd::STEP,
    step18_pointwise::STEP,
    step19_winograd_4x4::STEP,
];

/// The steps with one tile whose taps are cut among blocks.
#[rustfmt::skip] // one line per step
pub static CUT: &[Step] = &[
    step09_cut_taps::STEP,
    step10_vectors::STEP,
    step11_warp_tiles::STEP,
    step12_read_ahead::STEP,
    step13_wide_tile::STEP,
    step14_async_copies::STEP,
    step15_three_stages::STEP,
];

/// Loads one of [`CUT`] with `cuts` cuts, or fewer if there are fewer steps; for tests and measurements.
///
/// # Errors
/// Same as [`Step::load`], and [`Error::Invalid`] for another step.
pub fn load_cut(device: &Device, step: &Step, cuts: usize) -> Result<Conv> {
    if CUT.iter().all(|cut| cut.name != step.name) {
        return Err(Error::Invalid(format!("convolution `{}` does not cut its taps", step.name)));
    }
    Ok(Conv { name: step.name, algorithm: Tabled::load(device, &step.source, step.name, Cutting::Fixed(cuts))? })
}

/// Makes an algorithm from its kernel file.
#[derive(Clone, Copy, Debug)]
pub struct Load(fn(&Device, &KernelSource) -> Result<Box<dyn Algorithm>>);

/// A step of the ladder.
pub type Step = crate::Step<Load>;

impl ladder::Method for Load {
    type Loaded = Conv;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step, device: &Device) -> Result<Conv> {
        Ok(Conv { name: step.name, algorithm: (step.method.0)(device, &step.source)? })
    }
}

/// A step, loaded on a device.
///
/// A step that needs a workspace (partial sums, transformed weights, tables of offsets) owns it, grows it to its largest call so
/// far, and keeps it until it is dropped; see [`Conv::workspace_bytes`].
#[derive(Debug)]
pub struct Conv {
    name: &'static str,
    algorithm: Box<dyn Algorithm>,
}

/// The part of a step that differs between steps.
trait Algorithm: fmt::Debug + Send + Sync {
    /// Queues a convolution.
    fn queue(&self, call: Call<'_>) -> Result<()>;

    /// Whether it has the whole epilogue; otherwise its calls have only a bias.
    fn has_epilogue(&self) -> bool {
        false
    }

    /// Bytes of device memory that a call needs in addition to its tensors.
    fn workspace_bytes(&self, _: &Geometry) -> usize {
        0
    }
}

/// A convolution whose shapes fit one another, with at least one output.
struct Call<'a> {
    stream: &'a Stream,
    input: &'a Buffer<f32>,
    weight: &'a Buffer<f32>,
    bias: Option<&'a Buffer<f32>>,
    /// The rest of the epilogue.
    scalars: Scalars,
    geometry: Geometry,
    output: &'a mut Buffer<f32>,
}

/// An epilogue with only a bias, or nothing.
fn with_bias(bias: Option<&Tensor>) -> Epilogue<'_> {
    Epilogue { bias, ..Epilogue::default() }
}

impl<'a> Call<'a> {
    /// Checks the arguments of [`Conv::launch_with`]; returns `None` if there is no output, so nothing to launch and nothing to
    /// refuse.
    fn new(
        stream: &'a Stream,
        input: &'a Tensor,
        weight: &'a Tensor,
        epilogue: &Epilogue<'a>,
        params: Conv2dParams,
        output: &'a mut Tensor,
    ) -> Result<Option<Call<'a>>> {
        let out = params.output_shape(input, weight)?;
        output.expect_shape("the convolution's output", &out)?;
        if let Some(bias) = epilogue.bias {
            bias.expect_shape("the convolution's bias", &out[1..2])?;
        }
        let call = Call {
            stream,
            geometry: Geometry::new(input, weight, params, out)?,
            input: input.buffer()?,
            weight: weight.buffer()?,
            bias: epilogue.bias.map(Tensor::buffer).transpose()?,
            scalars: Scalars::from(epilogue),
            output: output.buffer_mut()?,
        };
        Ok(Some(call).filter(|call| call.geometry.outputs > 0))
    }

    /// A launch with what most of the kernels take: input, weight, bias, output and geometry.
    fn launch_builder(self, kernel: &'a Kernel) -> LaunchArgs<'a> {
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(self.input).arg(self.weight);
        launch.arg(self.bias).arg(self.output).arg(&self.geometry);
        launch
    }
}

/// Shapes as the kernels take them: `Conv2d` of `conv.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
struct Geometry {
    outputs: u32,
    images: i32,
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
    group_channels: i32,
    group_outputs: i32,
    plane: i32,
    pixels: i32,
    taps: i32,
}

// SAFETY: `repr(C)` with 32-bit integers only, so there is no padding and every bit pattern is valid.
unsafe impl bytemuck::Zeroable for Geometry {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Geometry {}

impl Geometry {
    fn new(input: &Tensor, weight: &Tensor, params: Conv2dParams, out: [usize; 4]) -> Result<Geometry> {
        const OPERATION: &str = "convolution";
        let [images, channels, height, width] = input.dims4()?;
        let [out_channels, group_channels, r, s] = weight.dims4()?;
        let number = |what: &str, value: usize| fits_i32(OPERATION, what, Some(value));
        let product = |what: &str, factors: &[usize]| {
            fits_i32(OPERATION, what, factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor)))
        };
        let pair = |what: &str, [y, x]: [usize; 2]| Ok::<_, Error>([number(what, y)?, number(what, x)?]);
        // The kernels' offsets into the tensors, and their rows and columns, padding included, are ints.
        product("the number of input values", input.shape())?;
        product("the number of weights", weight.shape())?;
        let outputs = product("the number of outputs", &out)?;
        for (size, padding) in [(height, params.padding[0]), (width, params.padding[1])] {
            let padded = padding.checked_mul(2).and_then(|both| both.checked_add(size));
            fits_i32(OPERATION, "the padded size", padded)?;
        }
        Ok(Geometry {
            outputs: outputs.unsigned_abs(),
            images: number("the number of images", images)?,
            channels: number("the number of channels", channels)?,
            height: number("the height", height)?,
            width: number("the width", width)?,
            out_channels: number("the number of output channels", out_channels)?,
            window: pair("the window", [r, s])?,
            out_size: pair("the output's size", [out[2], out[3]])?,
            stride: pair("the stride", params.stride)?,
            padding: pair("the padding", params.padding)?,
            dilation: pair("the dilation", params.dilation)?,
            groups: number("the number of groups", params.groups)?,
            group_channels: number("the channels of a group", group_channels)?,
            group_outputs: number("the output channels of a group", out_channels / params.groups)?,
            plane: product("the outputs of a channel", &out[2..])?,
            pixels: product("the outputs of a channel in all images", &[out[0], out[2], out[3]])?,
            taps: product("the window in all channels", &[group_channels, r, s])?,
        })
    }
}

impl Geometry {
    /// Number of tiles with this many output channels and pixels that cover the output, group by group.
    fn tiles(&self, [channels, pixels]: [usize; 2]) -> usize {
        let count = |value: i32, tile: usize| (value.unsigned_abs() as usize).div_ceil(tile);
        count(self.groups, 1) * count(self.group_outputs, channels) * count(self.pixels, pixels)
    }
}

/// `blocks` in one dimension of a grid, where CUDA allows 2³¹ − 1.
fn block_count(stream: &Stream, step: &'static str, blocks: usize) -> Result<u32> {
    i32::try_from(blocks)
        .map(i32::unsigned_abs)
        .map_err(|_| unsupported(stream, step, format!("{blocks} blocks are more than a grid can have ({})", i32::MAX)))
}

/// Number of multiprocessors; a device that does not report one counts as small.
fn processors(device: &Device) -> usize {
    device.properties().multiprocessors.unwrap_or(1) as usize
}

/// Why a step does not accept an epilogue.
const BIAS_ALONE: &str = "its epilogue is a bias alone";

/// Why a step does not accept a shape.
fn unsupported(stream: &Stream, step: &'static str, reason: impl Into<String>) -> Error {
    Error::Unsupported {
        what: format!("convolution `{step}`"),
        device: stream.device().short_name(),
        reason: reason.into(),
    }
}

impl Conv {
    /// Name of the step in tables.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Queues the convolution of `input` \[N, C, H, W\] with `weight` \[K, C / groups, R, S\] and `bias` \[K\] into `output`, all
    /// on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match, `output` does not have [`Conv2dParams::output_shape`], or a count exceeds 31
    /// bits; [`Error::Unsupported`] if the step does not take the shape; [`Error::Invalid`] if a tensor is on the host;
    /// [`Error::WrongDevice`]; [`Error::OutOfMemory`] for the workspace.
    pub fn launch(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        self.launch_with(stream, input, weight, &with_bias(bias), params, output)
    }

    /// [`Conv::launch`] with an epilogue; where that reads the output, `output` holds what a sum is added to.
    ///
    /// # Errors
    /// Same as [`Conv::launch`]; [`Error::Unsupported`] for more than a bias if the step does no more.
    pub fn launch_with(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        epilogue: &Epilogue<'_>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        let Some(call) = Call::new(stream, input, weight, epilogue, params, output)? else { return Ok(()) };
        if call.scalars != Scalars::from(&Epilogue::default()) && !self.algorithm.has_epilogue() {
            return Err(unsupported(stream, self.name, BIAS_ALONE));
        }
        self.algorithm.queue(call)
    }

    /// [`Conv::launch`] into a new tensor.
    ///
    /// # Errors
    /// Same as [`Conv::launch`], and [`Error::OutOfMemory`].
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

    /// Bytes of device memory that [`Conv::launch`] needs in addition to its tensors.
    ///
    /// # Errors
    /// [`Error::Shape`], as [`Conv::launch`].
    pub fn workspace_bytes(&self, input: &Tensor, weight: &Tensor, params: Conv2dParams) -> Result<usize> {
        let out = params.output_shape(input, weight)?;
        Ok(self.algorithm.workspace_bytes(&Geometry::new(input, weight, params, out)?))
    }
}
