//! Mean and variance of each channel over N, H and W, as BatchNorm needs them in training, in four steps.

use bench::ladder;
use common::check::Tolerance;
use common::limits::fits_i32;
use common::prelude::*;
use common::reference;

use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[NAIVE, SHARED, SHUFFLE, WELFORD];

/// Step 1. Hypothesis: the input is read once, so a pass costs what reading costs. Change: none, this is the first version.
///
/// Measured in `book/pages/phase2/statistics.md`.
pub const NAIVE: Step<Method> = Step {
    number: 1,
    name: "naive",
    idea: "one thread per channel",
    source: kernel_source!("stats_01_naive"),
    method: Method::Naive,
};

/// Step 2. Hypothesis: step 1 uses as many threads as there are channels; 256 times as many, with neighbours reading neighbours, are
/// far faster. Change: a block per channel, a tree in shared memory.
///
/// Measured in `book/pages/phase2/statistics.md`.
pub const SHARED: Step<Method> = Step {
    number: 2,
    name: "shared memory",
    idea: "one block per channel, a tree of sums",
    source: kernel_source!("stats_02_shared"),
    method: Method::Shared,
};

/// Step 3. Hypothesis: 64 blocks leave half an H200 idle; with a channel split over many, and more bytes in flight in each, the
/// pass runs at the memory's speed. Change: blocks share a channel, 16-byte loads, shuffles for the tree, a second kernel for
/// what the blocks found.
///
/// Measured in `book/pages/phase2/statistics.md`.
pub const SHUFFLE: Step<Method> = Step {
    number: 3,
    name: "shuffles",
    idea: "many blocks per channel, vectors, warp shuffles",
    source: kernel_source!("stats_03_shuffle"),
    method: Method::Shuffle,
};

/// Step 4. Hypothesis: (count, mean, m2) merged in place of sums added costs arithmetic that the loads hide, and gives a
/// variance that is right for any mean. Change: what is merged.
///
/// Measured in `book/pages/phase2/statistics.md`. The variance at a large mean is in `tests/it/statistics.rs`.
pub const WELFORD: Step<Method> = Step {
    number: 4,
    name: "Welford",
    idea: "means and squared distances merged, not sums",
    source: kernel_source!("stats_04_welford"),
    method: Method::Welford,
};

/// Host side that a step's kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One thread per channel.
    Naive,
    /// One block per channel.
    Shared,
    /// Several blocks per channel, sums, two stages.
    Shuffle,
    /// Several blocks per channel, moments, two stages.
    Welford,
}

impl Method {
    /// Floats that a block of the first stage leaves for the second.
    fn partial_len(self) -> usize {
        match self {
            Method::Naive | Method::Shared => 0,
            Method::Shuffle => 2,
            Method::Welford => 3,
        }
    }
}

/// The problem's size.
#[derive(Clone, Copy, Debug)]
struct Size {
    images: u32,
    channels: u32,
    /// H·W.
    plane: u32,
}

/// The blocks of the steps with several per channel, as the kernel file has them.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    threads: u32,
    /// Loads that a thread has in flight.
    in_flight: u32,
}

impl Blocks {
    /// Slots that a block's threads take in a round; and the maximum number of blocks per channel, so that the second stage reads
    /// their results in as many rounds as a thread has loads in flight.
    fn round(self) -> u32 {
        self.in_flight * self.threads
    }
}

/// How a channel is divided among the blocks of the first stage. It depends on the shape alone, so every device adds in the
/// same order.
#[derive(Clone, Copy, Debug)]
struct Split {
    /// Vectors that a plane touches, wherever it begins.
    slots: u32,
    /// Slots per block.
    share: u32,
    /// Blocks per channel.
    blocks: u32,
}

impl Split {
    /// Number of blocks of a grid that suffices for any GPU: several times what an H200 holds at once.
    const ENOUGH: u32 = 8192;

    fn new(size: Size, blocks: Blocks) -> Split {
        let Size { images, channels, plane } = size;
        // A plane that begins anywhere may have three values' room before it in its first vector.
        let slots = if plane.is_multiple_of(4) { plane / 4 } else { (plane + 3).div_ceil(4) };
        let slots_of_channel = images * slots;
        let wanted = Split::ENOUGH.div_ceil(channels.max(1)).min(blocks.round());
        let share = slots_of_channel.div_ceil(wanted).max(1).next_multiple_of(blocks.round());
        Split { slots, share, blocks: slots_of_channel.div_ceil(share) }
    }
}

impl ladder::Method for Method {
    type Loaded = Statistics;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Statistics> {
        let module = device.load(&step.source)?;
        let kernel = |name| module.kernel(name);
        let constant = |name| Ok::<_, Error>(module.constant(name)? as u32);
        let kernels = match step.method {
            Method::Naive => Kernels::Naive(kernel("stats_naive")?),
            Method::Shared => Kernels::Shared { kernel: kernel("stats_shared")?, threads: constant("THREADS")? },
            Method::Shuffle | Method::Welford => Kernels::Staged {
                first: kernel("stats_partial")?,
                second: kernel("stats_finish")?,
                blocks: Blocks { threads: constant("THREADS")?, in_flight: constant("IN_FLIGHT")? },
            },
        };
        Ok(Statistics { method: step.method, kernels, partial: None })
    }
}

impl Size {
    fn of(input: &Tensor) -> Result<Size> {
        let [images, channels, height, width] = input.dims4()?;
        // What indices are made of fits as well, unless a dimension is 0.
        fits_i32("statistics", "the number of values", Some(input.len()))?;
        let fits = |what, value| Ok::<_, Error>(fits_i32("statistics", what, value)?.unsigned_abs());
        Ok(Size {
            images: fits("the number of images", Some(images))?,
            channels: fits("the number of channels", Some(channels))?,
            plane: fits("the size of a plane", height.checked_mul(width))?,
        })
    }
}

/// A step, loaded on a device. It takes every \[N, C, H, W\] of up to 2³¹ − 1 values, but not channels without values, whose mean
/// does not exist.
#[derive(Debug)]
pub struct Statistics {
    method: Method,
    kernels: Kernels,
    /// Results of the blocks of the first stage; grows to the largest input so far.
    partial: Option<Buffer<f32>>,
}

/// The kernels, by how they share out a channel.
#[derive(Debug)]
enum Kernels {
    /// One thread per channel.
    Naive(Kernel),
    /// One block per channel.
    Shared { kernel: Kernel, threads: u32 },
    /// Several blocks per channel, and a second stage that combines their results.
    Staged { first: Kernel, second: Kernel, blocks: Blocks },
}

impl Statistics {
    /// Tolerances of means and variances against `expected` for an input \[N, C, H, W\], given this step's order of additions.
    ///
    /// # Errors
    /// [`Error::Shape`] if the input does not have 4 dimensions, or has too many values.
    pub fn tolerances(&self, expected: &reference::Statistics, input: &Tensor) -> Result<[Tolerance; 2]> {
        let size = Size::of(input)?;
        let depth = self.depth(size) as usize;
        let variance = match self.method {
            Method::Welford => expected.variance_tolerance_merged(depth),
            Method::Naive | Method::Shared | Method::Shuffle => expected.variance_tolerance_of_squares(depth),
        };
        Ok([expected.mean_tolerance(depth), variance])
    }

    /// Maximum number of additions or merges that a value takes part in.
    fn depth(&self, size: Size) -> u32 {
        let count = size.images * size.plane;
        match self.kernels {
            Kernels::Naive(_) => count,
            // Then the tree.
            Kernels::Shared { threads, .. } => count.div_ceil(threads) + threads.ilog2(),
            // Up to four per slot, then the warp and the block in each stage.
            Kernels::Staged { blocks: of @ Blocks { threads, .. }, .. } => {
                let Split { share, blocks, .. } = Split::new(size, of);
                4 * (share / threads) + 10 + blocks.div_ceil(threads) + 10
            }
        }
    }

    /// Queues the mean and the biased variance (divided by N·H·W, as normalisation in training uses it) of each channel of
    /// `input` \[N, C, H, W\] into `mean` and `variance`, \[C\] each. All are on the stream's device.
    ///
    /// Steps 3 and 4 keep a workspace of at most 200 KB, or 12 bytes per channel for more than 8192 of them; the first launch
    /// allocates it, and any launch that needs more grows it.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit or N·H·W is 0 and C is not, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`].
    pub fn launch(&mut self, stream: &Stream, input: &Tensor, mean: &mut Tensor, variance: &mut Tensor) -> Result<()> {
        let size = Size::of(input)?;
        let Size { images, channels, plane } = size;
        mean.expect_shape("the mean", &[channels as usize])?;
        variance.expect_shape("the variance", &[channels as usize])?;
        if channels == 0 {
            return Ok(());
        }
        if input.is_empty() {
            let detail = format!("{:?} has channels without values, whose mean does not exist", input.shape());
            return Err(Error::shape("statistics", detail));
        }
        let of_blocks = |count, threads| LaunchConfig { grid_dim: (count, 1, 1), ..LaunchConfig::linear(0, threads) };
        let (first, second, blocks) = match &self.kernels {
            Kernels::Staged { first, second, blocks } => (first, second, *blocks),
            Kernels::Naive(kernel) | Kernels::Shared { kernel, .. } => {
                let mut launch = stream.launch_builder(kernel);
                launch.arg(input.buffer()?).arg(mean.buffer_mut()?).arg(variance.buffer_mut()?);
                launch.arg(&images).arg(&channels).arg(&plane);
                let config = match self.kernels {
                    Kernels::Shared { threads, .. } => of_blocks(channels, threads),
                    _ => LaunchConfig::for_threads(channels),
                };
                // SAFETY: the kernels read the input's values alone and write [c] of both results for c < channels.
                return unsafe { launch.launch(config) };
            }
        };
        let split = Split::new(size, blocks);
        let grid =
            fits_i32("statistics", "the number of blocks", (channels as usize).checked_mul(split.blocks as usize))?;
        let needed = grid as usize * self.method.partial_len();
        let partial = match self
            .partial
            .take()
            .filter(|partial| partial.len() >= needed && partial.device() == stream.device())
        {
            Some(partial) => self.partial.insert(partial),
            None => self.partial.insert(stream.alloc_uninit(needed)?),
        };
        let mut launch = stream.launch_builder(first);
        launch.arg(input.buffer()?).arg(&mut *partial);
        launch.arg(&images).arg(&channels).arg(&plane).arg(&split.slots).arg(&split.share);
        let config = of_blocks(grid.unsigned_abs(), blocks.threads);
        // SAFETY: the kernel reads values inside the planes alone, and each block writes its own partial result.
        unsafe { launch.launch(config) }?;

        let count = images as f32 * plane as f32;
        let mut launch = stream.launch_builder(second);
        launch.arg(&*partial).arg(mean.buffer_mut()?).arg(variance.buffer_mut()?).arg(&split.blocks);
        if self.method == Method::Shuffle {
            launch.arg(&count);
        }
        let config = of_blocks(channels, blocks.threads);
        // SAFETY: the kernel reads the partial results that the first one wrote and writes [c] of both results for c < channels.
        unsafe { launch.launch(config) }
    }
}
