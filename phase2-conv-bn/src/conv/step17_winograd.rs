//! Step 17: Winograd's F(2×2, 3×3), fused. Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: step 16 is limited by multiply-adds, so the way on is to need fewer: 16 for four outputs instead of 36, 2.25 times
//! less. The transforms cost additions, and would cost memory if U, V and M went there. Change: weights are transformed by a small
//! kernel (16 values for 9), at each launch or once by [`Winograd::prepare`]; the input on its way into shared memory, and the
//! output in there.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`.
//!
//! # Error
//! With |d| ≤ D for inputs and |g| ≤ G for weights: rows of Bᵀ have two entries of 1, so |V| ≤ 4·D; rows of G add up to 1, 1½,
//! 1½, 1 in absolute value. An output takes 3 of the 4 rows in each dimension, whose sum is at most 1 + 1½ + 1½ = 4, so over
//! both dimensions and C channels Σ|U·V| ≤ 4·4·4·C·D·G = 64·C·D·G, where a direct convolution has 9·C·D·G. A term passes through
//! 4 roundings in U, 2 in V, C in its sum and one for each further cut, of which there are fewer than C, 4 in the
//! output's transform and one for the bias. So |error| ≤ γ(2·C + 11)·(64·C·D·G + |bias|): [`tolerance`].

use std::sync::{Mutex, PoisonError};

use common::check::Tolerance;
use common::prelude::*;
use common::reference::Conv2dParams;

use super::parts::{Cost, Cuts, Workspace, push_parts};
use super::{Algorithm, Call, Conv, Geometry, Load, Step, block_count, processors, unsupported, with_bias};

/// The step. It takes windows of 3×3 with stride 1, dilation 1 and one group.
pub const STEP: Step = Step {
    number: 17,
    name: "Winograd",
    idea: "four outputs of a 3×3 window for 16 multiplications instead of 36",
    source: kernel_source!("conv_17_winograd"),
    method: Load(|device, source| Ok(Box::new(Winograd::load(device, source)?))),
};

/// Loads the step with this many cuts, or fewer if there are fewer channels; for tests and measurements.
///
/// # Errors
/// Same as [`Step::load`].
pub fn load_with(device: &Device, source: &KernelSource, cuts: usize) -> Result<Conv> {
    let algorithm = Winograd { cuts: Some(cuts), ..Winograd::load(device, source)? };
    Ok(Conv { name: STEP.name, algorithm: Box::new(algorithm) })
}

/// Tolerance of the step, for `channels` input channels and the largest absolute value of input, weights and bias.
pub fn tolerance(channels: usize, input: f64, weight: f64, bias: f64) -> Tolerance {
    Tolerance::elementwise(2 * channels + 11, 64.0 * channels as f64 * input * weight + bias)
}

/// Sizes that the costs were measured with; the kernel file must have the same: input channels per step, output channels and
/// tiles of the image per block.
const CHANNELS: usize = 8;
const OUTPUTS: usize = 64;
const TILES: usize = 32;

/// Values of a transformed window of 3×3, for four outputs.
const PLACES: usize = 16;

const COST: Cost = Cost { step: 2.05, few: &[], whole: 4.0, cut: 3.5 };
/// Cost of the weights' transform in microseconds: to launch it, and per pair of input and output channel (100 bytes at 2.4
/// TB/s).
const PREPARE: (f64, f64) = (3.3, 4.2e-5);

/// The step, with its weights' transform apart from the convolution.
#[derive(Debug)]
pub struct Winograd {
    weights: Kernel,
    kernel: Kernel,
    /// Threads of a block of both kernels, and dynamic shared memory of the second's.
    threads: usize,
    shared_bytes: u32,
    processors: usize,
    /// Replaces the model's choice.
    cuts: Option<usize>,
    workspace: Mutex<Workspace>,
    /// Memory for weights that are transformed at each launch.
    transformed: Mutex<Option<Buffer<f32>>>,
}

/// Transformed weights: 16 values for each pair of output channel, up to a multiple of 64, and input channel, of 8.
#[derive(Debug)]
pub struct Prepared {
    values: Buffer<f32>,
    shape: [usize; 4],
}

impl Prepared {
    /// Bytes on the device.
    pub fn num_bytes(&self) -> usize {
        self.values.num_bytes()
    }
}

impl Winograd {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Geometry`] if the kernel file's tile differs from the one that the costs were
    /// measured with, [`Error::NoSuchConstant`] if it does not name its sizes.
    pub fn load(device: &Device, source: &KernelSource) -> Result<Winograd> {
        let module = device.load(source)?;
        for (name, value) in [("CHANNELS", CHANNELS), ("OUTPUTS", OUTPUTS), ("TILES", TILES), ("PLACES", PLACES)] {
            module.expect_constant(name, value)?;
        }
        Ok(Winograd {
            weights: module.kernel("winograd_weights")?,
            kernel: module.kernel("conv_winograd")?,
            threads: module.constant("THREADS")?,
            shared_bytes: module.constant("SHARED")? as u32,
            processors: processors(device),
            cuts: None,
            workspace: Mutex::default(),
            transformed: Mutex::default(),
        })
    }

    /// Bytes that launches have allocated: weights that it transforms itself, and the parts of cut outputs.
    pub(super) fn held_bytes(&self) -> usize {
        let transformed = self.transformed.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = self.workspace.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        transformed.as_ref().map_or(0, Buffer::num_bytes) + parts
    }

    /// Transforms `weight` \[K, C, 3, 3\] once for many launches with it and `params`, as in inference.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the step does not take such a convolution; [`Error::Shape`], [`Error::Invalid`] and
    /// [`Error::WrongDevice`] as for [`Conv::launch`]; [`Error::OutOfMemory`].
    pub fn prepare(&self, stream: &Stream, weight: &Tensor, params: Conv2dParams) -> Result<Prepared> {
        let shape @ [_, channels, r, s] = weight.dims4()?;
        // Any input that goes with these weights.
        let [down, across] = params.dilation;
        let input = Tensor::shape_only(&[0, channels * params.groups, down * r, across * s]);
        let geometry = Geometry::new(&input, weight, params, params.output_shape(&input, weight)?)?;
        takes(stream, &geometry)?;
        let mut values = stream.alloc_uninit(transformed_len(&geometry))?;
        self.transform(stream, weight.buffer()?, &geometry, &mut values)?;
        Ok(Prepared { values, shape })
    }

    /// [`Conv::launch`] with weights of [`Winograd::prepare`].
    ///
    /// # Errors
    /// Same as [`Conv::launch`]; [`Error::Shape`] if `weight` does not have the shape of the prepared one.
    #[expect(clippy::too_many_arguments, reason = "those of `Conv::launch`, and what was prepared")]
    pub fn launch_prepared(
        &self,
        stream: &Stream,
        input: &Tensor,
        weight: &Tensor,
        prepared: &Prepared,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<()> {
        prepared.expect_made_of(weight)?;
        match Call::new(stream, input, weight, &with_bias(bias), params, output)? {
            Some(call) => self.queue_prepared(call, prepared),
            None => Ok(()),
        }
    }

    /// Queues the convolution with prepared weights.
    pub(super) fn queue_prepared(&self, call: Call<'_>, prepared: &Prepared) -> Result<()> {
        takes(call.stream, &call.geometry)?;
        self.multiply(call, &prepared.values)
    }

    /// Queues the weights' transform.
    fn transform(
        &self,
        stream: &Stream,
        weight: &Buffer<f32>,
        geometry: &Geometry,
        to: &mut Buffer<f32>,
    ) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let blocks = block_count(stream, STEP.name, (transformed_len(geometry) / PLACES).div_ceil(self.threads))?;
        let mut launch = stream.launch_builder(&self.weights);
        launch.arg(weight).arg(to).arg(geometry);
        let block_dim = (self.threads as u32, 1, 1);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim, shared_mem_bytes: 0 };
        // SAFETY: a thread writes 16 values for a pair of channels, up to whole tiles and steps, which `to` holds; it reads the
        // weights of channels that there are.
        unsafe { launch.launch(config) }
    }

    /// Queues the convolution with transformed weights.
    fn multiply(&self, call: Call<'_>, weights: &Buffer<f32>) -> Result<()> {
        let geometry = call.geometry;
        let (tiles, cuts) = (tiles(&geometry), self.cuts(&geometry));
        let blocks = block_count(call.stream, STEP.name, tiles)?;
        let steps_each = cuts.steps_each as i32;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = workspace.get(call.stream, tiles, cuts.count, OUTPUTS * TILES * 4)?;
        let mut launch = call.stream.launch_builder(&self.kernel);
        launch.arg(call.input).arg(weights).arg(call.bias).arg(call.output);
        push_parts(&mut launch, parts);
        launch.arg(&geometry).arg(&steps_each).arg(&call.scalars);
        let config = LaunchConfig {
            grid_dim: (blocks, cuts.count as u32, 1),
            block_dim: (self.threads as u32, 1, 1),
            shared_mem_bytes: self.shared_bytes,
        };
        // SAFETY: there is a block for each cut of each tile; the kernel compares images, channels, rows and columns with the
        // geometry, which was derived from the shapes of the tensors given; the weights have whole tiles and steps, and the
        // workspace a part for each block and a counter for each tile.
        unsafe { launch.launch(config) }
    }

    fn cuts(&self, geometry: &Geometry) -> Cuts {
        match self.cuts {
            Some(count) => Cuts::new(steps(geometry), count),
            None => COST.best(tiles(geometry), steps(geometry), self.processors).0,
        }
    }
}

impl Prepared {
    /// Compares only shapes: different values of the weights go unnoticed.
    pub(super) fn expect_made_of(&self, weight: &Tensor) -> Result<()> {
        weight.expect_shape("the prepared weights", &self.shape)
    }
}

/// Cuts, and approximate microseconds on an H200, with this many processors; includes the weights' transform, unless they are
/// prepared. `None` if the step does not take the geometry.
pub(super) fn estimate(geometry: &Geometry, prepared: bool, processors: usize) -> Option<(Cuts, f64)> {
    if !fits(geometry) {
        return None;
    }
    let pairs = f64::from(geometry.channels) * f64::from(geometry.out_channels);
    let prepare = if prepared { 0.0 } else { PREPARE.0 + PREPARE.1 * pairs };
    let (cuts, time) = COST.best(tiles(geometry), steps(geometry), processors);
    Some((cuts, prepare + time))
}

/// Shapes that the step takes.
pub(super) const FOR: &str = "it is for windows of 3×3 with stride 1, dilation 1, one group, and a channel at least";

/// Whether the step takes this geometry.
pub(super) fn fits(geometry: &Geometry) -> bool {
    let Geometry { window, stride, dilation, groups, channels, .. } = *geometry;
    window == [3, 3] && stride == [1, 1] && dilation == [1, 1] && groups == 1 && channels > 0
}

fn takes(stream: &Stream, geometry: &Geometry) -> Result<()> {
    if fits(geometry) { Ok(()) } else { Err(unsupported(stream, STEP.name, FOR)) }
}

/// Number of steps along the channels.
fn steps(geometry: &Geometry) -> usize {
    (geometry.channels.unsigned_abs() as usize).div_ceil(CHANNELS)
}

/// Number of tiles of output channels and of the image's 2×2 outputs.
fn tiles(geometry: &Geometry) -> usize {
    let count = |value: i32, tile: usize| (value.unsigned_abs() as usize).div_ceil(tile);
    let [height, width] = geometry.out_size;
    let quads = count(geometry.images, 1) * count(height, 2) * count(width, 2);
    count(geometry.out_channels, OUTPUTS) * quads.div_ceil(TILES)
}

/// Number of values of the transformed weights.
fn transformed_len(geometry: &Geometry) -> usize {
    let rows = (geometry.out_channels.unsigned_abs() as usize).next_multiple_of(OUTPUTS);
    rows * steps(geometry) * CHANNELS * PLACES
}

impl Algorithm for Winograd {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        takes(call.stream, &call.geometry)?;
        let mut transformed = self.transformed.lock().unwrap_or_else(PoisonError::into_inner);
        let len = transformed_len(&call.geometry);
        let buffer = match transformed.take().filter(|buffer| buffer.len() >= len) {
            Some(buffer) => transformed.insert(buffer),
            None => transformed.insert(call.stream.alloc_uninit(len)?),
        };
        self.transform(call.stream, call.weight, &call.geometry, buffer)?;
        self.multiply(call, buffer)
    }

    fn has_epilogue(&self) -> bool {
        true
    }

    fn workspace_bytes(&self, geometry: &Geometry) -> usize {
        if !fits(geometry) {
            return 0;
        }
        let cuts = self.cuts(geometry).count;
        let parts = if cuts > 1 { tiles(geometry) * (cuts * OUTPUTS * TILES * 4 + 1) } else { 0 };
        (parts + transformed_len(geometry)) * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles and steps of ResNet18's and a U-Net's convolutions, and the cuts that were fastest on an H200's 132 processors.
    #[test]
    fn the_model_picks_the_cuts_that_were_measured_fastest() {
        for (tiles, steps, cuts) in
            [(784, 8, 1), (392, 16, 1), (196, 32, 2), (128, 64, 1), (320, 40, 2), (80, 160, 3), (25, 8, 4)]
        {
            assert_eq!(COST.best(tiles, steps, 132).0.count, cuts, "{tiles} tiles of {steps} steps");
        }
    }
}
