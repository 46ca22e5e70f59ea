//! Tiles whose input has not changed keep their results: the first residual block of the U-Net, over a list of changed tiles.
//!
//! **Hypothesis.** Where a clip stands still, the input of the network is what it was in the frame before, and so is all that convolutions
//! make of it, up to the first layer in which every pixel sees every other. So of the first residual block only the tiles have to be made
//! again whose surroundings changed: 3 pixels around them, for the convolution before the block and the two in it.
//!
//! **Look at** the share of tiles that is made again, and how much of the step that block is.
//!
//! With the threshold 0 the results are those of the same kernels over all tiles, bit by bit: a tile is left out only if nothing
//! that it sees has changed. A larger threshold leaves tiles out whose input changed by at most that much since they were
//! computed.

use common::limits::fits_i32;
use common::prelude::*;
use half::f16;
use phase3_all_layers::nn::Operation;

use bytemuck::{Pod, Zeroable};

use crate::models::parameters::{ScaleShift, filled_up, scale_shift, vector};

/// Search for the tiles that have changed.
pub const CHANGED: KernelSource = kernel_source!("temporal_01_changed");

/// Convolution of the tiles that have changed.
pub const TILES: KernelSource = kernel_source!("temporal_02_tiles");

/// Blocks of the convolution for each SM: as many as its shared memory holds.
const BLOCKS_EACH: u32 = 3;
/// Number on the simulator, where each block then takes several pieces.
const BLOCKS_ON_SIM: u32 = 5;

const FORMAT: MemoryFormat = MemoryFormat::Nhwc;

/// `Image` of `temporal_02_tiles.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Image {
    height: i32,
    width: i32,
    in_channels: i32,
    out_channels: i32,
}

/// Compares tiles of an image with their kept values.
#[derive(Clone, Debug)]
pub struct Changed {
    kernel: Kernel,
    threads: u32,
    /// Sides of a tile, and of its receptive field.
    tile: usize,
    window: usize,
}

/// Kept values of an image, and the list of the tiles that have changed since.
#[derive(Debug)]
pub struct Tiles {
    /// \[N, C, H, W\] of the image.
    shape: [usize; 4],
    windows: Buffer<f32>,
    list: Buffer<u32>,
    /// Number of tiles on the list, and in total so far.
    counts: Buffer<u32>,
}

impl Tiles {
    /// Number of tiles of the image.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Total number of tiles on the lists so far.
    ///
    /// # Errors
    /// Errors of the copy.
    pub fn listed_so_far(&self, stream: &Stream) -> Result<u64> {
        Ok(stream.clone_dtoh(&self.counts)?.get(1).copied().map_or(0, u64::from))
    }

    /// The tiles on the list, in order of their numbers.
    ///
    /// # Errors
    /// Errors of the copies.
    pub fn listed(&self, stream: &Stream) -> Result<Vec<u32>> {
        let count = stream.clone_dtoh(&self.counts)?.first().map_or(0, |&count| count as usize);
        let mut tiles = stream.clone_dtoh(&self.list)?;
        tiles.truncate(count);
        tiles.sort_unstable();
        Ok(tiles)
    }
}

impl Changed {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<Changed> {
        Changed::load_from(device, &CHANGED)
    }

    /// The same from another text, such as one with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<Changed> {
        let module = device.load(source)?;
        Ok(Changed {
            kernel: module.kernel("list_changed")?,
            threads: module.constant("THREADS")? as u32,
            tile: module.constant("TILE")?,
            window: module.constant("WINDOW")?,
        })
    }

    /// Memory for images of this shape, \[N, C, H, W\] in planes of f32. Nothing is kept yet: all tiles count as changed the
    /// first time.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn keep(&self, stream: &Stream, shape: [usize; 4]) -> Result<Tiles> {
        let [images, channels, height, width] = shape;
        let tiles = images * height.div_ceil(self.tile) * width.div_ceil(self.tile);
        let windows = vec![f32::NAN; tiles * channels * self.window * self.window];
        Ok(Tiles {
            shape,
            windows: stream.clone_htod(&windows)?,
            list: stream.alloc_zeros(tiles)?,
            counts: stream.alloc_zeros(2)?,
        })
    }

    /// Queues the comparison: lists the tiles of `x` that see a value not within `threshold` of its value when they were last
    /// listed.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not have the kept shape or has too many values, [`Error::Invalid`] if it is on the host,
    /// [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, x: &Tensor, threshold: f32, tiles: &mut Tiles) -> Result<()> {
        const WHAT: &str = "comparing tiles";
        x.expect_shape(WHAT, &tiles.shape)?;
        stream.memset_zeros(&mut tiles.counts.slice_mut(..1))?;
        if tiles.is_empty() {
            return Ok(());
        }
        let [images, sizes @ ..] = tiles.shape;
        fits_i32(WHAT, "the number of values kept", Some(tiles.windows.len()))?;
        let [channels, height, width] = sizes.map(|size| fits_i32(WHAT, "a size", Some(size)));
        let (channels, height, width) = (channels?, height?, width?);
        let (each, images) = ((tiles.len() / images) as u32, images as u32);
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x.buffer()?).arg(&mut tiles.windows).arg(&threshold).arg(&mut tiles.list).arg(&mut tiles.counts);
        launch.arg(&channels).arg(&height).arg(&width);
        let config = LaunchConfig { grid_dim: (each, images, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: block (t, n) reads values inside image n, and its own window of those that are kept; a tile is listed once at most, and
        // the list holds all of them.
        unsafe { launch.launch(config) }
    }
}

/// Operation after a convolution's SiLU.
#[derive(Clone, Copy, Debug)]
pub enum Then<'a> {
    /// A value per image and channel, \[N, K\] in f32.
    Channels(&'a Tensor),
    /// Another image, in the layout of y.
    Image(&'a Tensor),
}

/// The convolution of 3 × 3 with its epilogue over listed tiles: y = SiLU(scale · (x * w) + shift) + a later addition.
#[derive(Clone, Debug)]
pub struct ConvTiles {
    kernel: Kernel,
    threads: u32,
    shared: u32,
    /// Channels of x and y are multiples of these.
    multiples: [usize; 2],
    blocks: u32,
}

/// A convolution's parameters on the device.
#[derive(Debug)]
pub struct Weights {
    /// \[K, C, 3, 3\] in f16, channels last.
    pub weight: Tensor,
    /// Factor of each channel's sum, \[K\].
    pub scale: Tensor,
    /// Added to it, \[K\].
    pub shift: Tensor,
}

impl Weights {
    /// Weights of a convolution of 3 × 3 and its BatchNorm, padded with zeros to this many channels of y and x.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other operations, or ones not on the host; [`Error::Shape`] if the channels are fewer than there
    /// are.
    pub fn of(device: &Device, conv: &Operation, norm: &Operation, [outputs, inputs]: [usize; 2]) -> Result<Weights> {
        let other = || Error::Invalid("tiles are for convolutions of 3 × 3 with a BatchNorm".to_owned());
        let Operation::Conv2d { weight, bias, params } = conv else { return Err(other()) };
        let [_, _, rows, columns] = weight.dims4()?;
        if [rows, columns, params.stride[0], params.stride[1], params.padding[0], params.padding[1]]
            != [3, 3, 1, 1, 1, 1]
        {
            return Err(other());
        }
        let ScaleShift { scale, shift } = scale_shift(norm, bias.as_deref())?.ok_or_else(other)?;
        let weight = filled_up(weight, outputs, inputs)?.to_type(ElementType::F16)?;
        Ok(Weights {
            weight: weight.to_format(FORMAT)?.to_device(device)?,
            scale: vector(&scale, outputs)?.to_device(device)?,
            shift: vector(&shift, outputs)?.to_device(device)?,
        })
    }
}

impl ConvTiles {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<ConvTiles> {
        ConvTiles::load_from(device, &TILES)
    }

    /// The same from another text, such as one with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<ConvTiles> {
        let module = device.load(source)?;
        let multiprocessors = device.properties().multiprocessors;
        Ok(ConvTiles {
            kernel: module.kernel("conv_tiles")?,
            threads: module.constant("THREADS")? as u32,
            shared: module.constant("SHARED_BYTES")? as u32,
            multiples: [module.constant("BK")?, module.constant("BN")?],
            blocks: multiprocessors.map_or(BLOCKS_ON_SIM, |count| BLOCKS_EACH * count),
        })
    }

    /// Queues the convolution of `x` \[N, C, H, W\] into the listed tiles of `y` \[N, K, H, W\], both in f16 channels last. The
    /// rest of `y` stays unchanged.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match, or channels are not multiples of a piece's; [`Error::ElementType`],
    /// [`Error::MemoryFormat`], [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        x: &Tensor,
        weights: &Weights,
        then: Then<'_>,
        tiles: &Tiles,
        y: &mut Tensor,
    ) -> Result<()> {
        const WHAT: &str = "a convolution over tiles";
        let ([images, inputs, height, width], [_, outputs, ..]) = (x.dims4()?, y.dims4()?);
        y.expect_shape(WHAT, &[images, outputs, height, width])?;
        weights.weight.expect_shape(WHAT, &[outputs, inputs, 3, 3])?;
        if tiles.shape[0] != images || tiles.shape[2..] != [height, width] {
            return Err(Error::shape(WHAT, ShapeError::mismatch(format!("{:?}", tiles.shape), x.shape())));
        }
        if !inputs.is_multiple_of(self.multiples[0]) || !outputs.is_multiple_of(self.multiples[1]) {
            let detail = format!("{inputs} → {outputs} channels are no multiples of {:?}", self.multiples);
            return Err(Error::shape(WHAT, detail));
        }
        if y.is_empty() {
            return Ok(());
        }
        fits_i32(WHAT, "the number of values", Some(x.len().max(y.len())))?;
        let size = |size| fits_i32(WHAT, "a size", Some(size));
        let image = Image {
            height: size(height)?,
            width: size(width)?,
            in_channels: size(inputs)?,
            out_channels: size(outputs)?,
        };
        let (added, channels) = match then {
            Then::Image(added) => {
                added.expect_shape(WHAT, y.shape())?;
                (Some(added.buffer_of::<f16>(FORMAT)?), None)
            }
            Then::Channels(values) => {
                let [_, columns] = values.dims(WHAT)?;
                values.expect_shape(WHAT, &[images, columns.min(outputs)])?;
                (None, Some(values))
            }
        };
        let of_e = channels.map_or(Ok(0), |values| size(values.shape()[1]))?;
        let images = size(images)?;
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x.buffer_of::<f16>(FORMAT)?).arg(weights.weight.buffer_of::<f16>(FORMAT)?);
        launch.arg(y.buffer_of_mut::<f16>(FORMAT)?).arg(&tiles.list).arg(&tiles.counts);
        launch.arg(weights.scale.buffer()?).arg(weights.shift.buffer()?);
        launch.arg(added).arg(channels.map(Tensor::buffer).transpose()?).arg(&of_e).arg(&images);
        launch.arg_bytes(bytemuck::bytes_of(&image));
        let config = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: self.shared,
        };
        // SAFETY: the list holds numbers of tiles of these images; the kernel reads x inside them, writes y inside listed tiles, and reads
        // channels of the weights, scale, shift and what is added as far as the shapes go, which were compared.
        unsafe { launch.launch(config) }
    }
}

/// The first residual block over listed tiles: two convolutions, the embedding's values between them, and the sum with the
/// block's input.
#[derive(Debug)]
pub struct TiledResidual {
    changed: Changed,
    conv: ConvTiles,
    weights: [Weights; 2],
}

/// Memory that a [`TiledResidual`] keeps from frame to frame.
#[derive(Debug)]
pub struct Kept {
    tiles: Tiles,
    middle: Tensor,
    output: Tensor,
}

impl Kept {
    /// The block's result, in the layout of its input.
    pub fn output(&self) -> &Tensor {
        &self.output
    }

    /// The tiles.
    pub fn tiles(&self) -> &Tiles {
        &self.tiles
    }
}

impl TiledResidual {
    /// A block for the operations of [`first_residual`](phase3_all_layers::models::unet::first_residual), over an image of this
    /// many channels in memory.
    ///
    /// # Errors
    /// Same as [`Weights::of`] and [`Device::kernel`].
    pub fn new(device: &Device, operations: &[&Operation], channels: usize) -> Result<TiledResidual> {
        let &[conv1, norm1, _, _, _, conv2, norm2, ..] = operations else {
            return Err(Error::Invalid("a residual block has nine operations".to_owned()));
        };
        let weights = |conv, norm| Weights::of(device, conv, norm, [channels; 2]);
        Ok(TiledResidual {
            changed: Changed::load(device)?,
            conv: ConvTiles::load(device)?,
            weights: [weights(conv1, norm1)?, weights(conv2, norm2)?],
        })
    }

    /// Kept memory for `seen` \[N, C, H, W\], the input of the network, and for the block's input, with the shape and layout of
    /// `like`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or errors of the driver.
    pub fn keep(&self, stream: &Stream, seen: [usize; 4], like: &Tensor) -> Result<Kept> {
        let empty = || Tensor::empty_of(stream.device(), like.shape(), like.element_type(), like.format());
        Ok(Kept { tiles: self.changed.keep(stream, seen)?, middle: empty()?, output: empty()? })
    }

    /// Queues the block on its input `x` and the embedding's values, `channels` \[N, C\], over the tiles in which `seen` has
    /// changed by more than the threshold.
    ///
    /// # Errors
    /// Same as [`Changed::launch`] and [`ConvTiles::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        (seen, threshold): (&Tensor, f32),
        x: &Tensor,
        channels: &Tensor,
        kept: &mut Kept,
    ) -> Result<()> {
        let Kept { tiles, middle, output } = kept;
        self.changed.launch(stream, seen, threshold, tiles)?;
        self.conv.launch(stream, x, &self.weights[0], Then::Channels(channels), tiles, middle)?;
        self.conv.launch(stream, middle, &self.weights[1], Then::Image(x), tiles, output)
    }
}
