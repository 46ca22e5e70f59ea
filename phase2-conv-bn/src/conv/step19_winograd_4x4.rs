//! Step 19: Winograd's F(4×4, 3×3). Compute capability 8.0 and up, for `cp.async`.
//!
//! Hypothesis: tiles of 4 × 4 outputs need 36 multiplications for 16 outputs where step 17 needs 64 and a plain sum 144. Their 36
//! places are too many for a block that keeps M to itself, so V and M go through memory, and the transforms move 2.25 values in each
//! for every value of the input and of the output. That is cheaper than what it saves, all the more while both stay in the L2 cache.
//! Change: three kernels in place of one, with the product of the places between the transforms, on tiles as a GEMM has them. A model
//! of measured times picks the product's tile and its cuts along the channels, whose sum is left to the output's transform.
//!
//! Two things did not pay on an H200. A tile of 128 × 128, as a GEMM of this size would have, was slower than one of the three in every
//! layer of ResNet18 and of the U-Net: there are few steps, and several small blocks hide one another's beginnings and ends. And to
//! let the tiles of an image go through V and M in parts that fit the cache was slower than all at once, even where V and M are 116
//! MB: each part has its own beginnings and ends, three of them. So parts have only the sense to bound the memory.
//!
//! # Error
//! The points 0, ±5/8, ±3/2 and ∞ are those of oneDNN. With |d| ≤ D for inputs and |g| ≤ G for weights, row j of Bᵀ adds up to βⱼ in
//! absolute value and row j of G to ωⱼ: βⱼ·ωⱼ is at most 5.143, 7.329 (twice), 1.974 (twice) and 4.520. The rows of Aᵀ weigh these by
//! absolute values of which the first's sum is the largest, 5.143 + 2·7.329 + 2·1.974 ≤ 23.75 (with 1 and 2 for points it would be
//! 48, of the last). So over both dimensions and C channels Σ|U·V| ≤ 23.75²·C·D·G ≤ 565·C·D·G, where step 17 has 64·C·D·G and a
//! direct convolution 9·C·D·G. In each dimension a term passes through at most 5 roundings in U, of which one is that of G's entry,
//! 4 in V and 4 in the output's transform; between them C in its sum and one for each further cut, of which there are fewer than C;
//! and one for the bias. So |error| ≤ γ(2·C + 27)·(565·C·D·G + |bias|): [`tolerance`].

use std::sync::{Mutex, PoisonError};

use common::check::Tolerance;
use common::prelude::*;

use super::parts::{Cost, Cuts};
use super::{Algorithm, Call, Conv, Geometry, Load, Step, block_count, processors, step17_winograd, unsupported};

/// The step. It takes what [`step17_winograd`] takes.
pub const STEP: Step = Step {
    number: 19,
    name: "Winograd F4",
    idea: "sixteen outputs of a 3×3 window for 36 multiplications instead of 144",
    source: kernel_source!("conv_19_winograd_4x4"),
    method: Load(|device, source| Ok(Box::new(Winograd4x4::load(device, source)?))),
};

/// The kernels' names, without `winograd_4x4_`: output channels × tiles of 4 × 4 outputs of a block of the product.
pub const TILES: [&str; 3] = ["64x128", "64x64", "128x32"];

/// Loads the step with only one of [`TILES`], with `cuts` cuts or fewer if there are fewer steps, and this many tiles of 4 × 4
/// outputs at a time; for tests and measurements.
///
/// # Errors
/// Same as [`Step::load`], and [`Error::Invalid`] if there is no such tile.
pub fn load_with(device: &Device, source: &KernelSource, tile: &str, cuts: usize, tiles: usize) -> Result<Conv> {
    let mut algorithm = Winograd4x4::load(device, source)?;
    algorithm.tiles.retain(|loaded| loaded.tile.name == tile);
    if algorithm.tiles.is_empty() {
        return Err(Error::Invalid(format!("convolution `{}` has no tile {tile}", STEP.name)));
    }
    algorithm.given = Some((cuts, tiles.max(1)));
    Ok(Conv { name: STEP.name, algorithm: Box::new(algorithm) })
}

/// Tolerance of the step, for `channels` input channels and the largest absolute value of input, weights and bias.
pub fn tolerance(channels: usize, input: f64, weight: f64, bias: f64) -> Tolerance {
    Tolerance::elementwise(2 * channels + 27, 565.0 * channels as f64 * input * weight + bias)
}

/// Sizes that the kernel file must share: input channels per step of a product, the multiple that rows of U and V are padded to,
/// and the threads of a block of a transform, across a row and down.
const CHANNELS: usize = 16;
const ROW: usize = 32;
const LANES: usize = 32;
const WARPS: usize = 8;

/// Values of a transformed window of 3×3, for sixteen outputs.
const PLACES: usize = 36;

/// A shape of tile of the product, and what its blocks cost.
#[derive(Clone, Copy, Debug)]
struct Tile {
    name: &'static str,
    /// The struct of `conv_19_winograd_4x4.cu` that has its sizes.
    shape: &'static str,
    /// Output channels and tiles of 4 × 4 outputs.
    size: [usize; 2],
    cost: Cost,
}

#[rustfmt::skip] // a table
static SHAPES: [Tile; 3] = [
    Tile { name: TILES[0], shape: "Wide", size: [64, 128], cost: cost(0.60) },
    Tile { name: TILES[1], shape: "Square", size: [64, 64], cost: cost(0.325) },
    Tile { name: TILES[2], shape: "Tall", size: [128, 32], cost: cost(0.32) },
];

/// A block takes two steps to begin and to write, and three if its tile is cut.
const fn cost(step: f64) -> Cost {
    Cost { step, few: &[], whole: 2.0, cut: 3.0 }
}

/// Microseconds of the first launch, and of each that follows it.
const LAUNCH: (f64, f64) = (6.0, 2.5);
/// Microseconds per value that a transform reads or writes, and per pair of input and output channels whose weights are
/// transformed.
const VALUE: f64 = 1.0e-6;
const PAIR: f64 = 6.4e-5;
/// Maximum bytes of V and M, if nothing is cut: as many tiles pass through them at a time, in multiples of a product block's
/// largest tile count.
const BYTES: usize = 256 << 20;
const WHOLE: usize = 128;
/// More cuts than these write more of M than they gain.
const MOST_CUTS: usize = 8;

#[derive(Clone, Debug)]
struct LoadedTile {
    tile: &'static Tile,
    threads: u32,
    shared_bytes: u32,
    kernel: Kernel,
}

/// U, V and M, as large as the largest launch so far needed.
#[derive(Debug, Default)]
struct Buffers([Option<Buffer<f32>>; 3]);

#[derive(Debug)]
pub(super) struct Winograd4x4 {
    transforms: Kernel,
    output: Kernel,
    tiles: Vec<LoadedTile>,
    processors: usize,
    /// Cuts and tiles at a time that replace the model's.
    given: Option<(usize, usize)>,
    buffers: Mutex<Buffers>,
}

/// Parameters of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) tile: &'static str,
    pub(super) cuts: Cuts,
    /// Tiles of 4 × 4 outputs that pass through V and M at a time.
    tiles: usize,
    /// Approximate time on an H200.
    pub(super) microseconds: f64,
}

impl Winograd4x4 {
    pub(super) fn load(device: &Device, source: &KernelSource) -> Result<Winograd4x4> {
        let module = device.load(source)?;
        for (name, value) in [("STEP", CHANNELS), ("ROW", ROW), ("LANES", LANES), ("WARPS", WARPS), ("PLACES", PLACES)]
        {
            module.expect_constant(name, value)?;
        }
        let load = |tile: &'static Tile| {
            let Tile { name, shape, size, .. } = tile;
            module.expect_constant(&format!("{shape}::BM"), size[0])?;
            module.expect_constant(&format!("{shape}::BN"), size[1])?;
            Ok::<_, Error>(LoadedTile {
                tile,
                threads: module.constant(&format!("Geometry<{shape}>::THREADS"))? as u32,
                shared_bytes: module.constant(&format!("Geometry<{shape}>::SHARED"))? as u32,
                kernel: module.kernel(&format!("winograd_4x4_{name}"))?,
            })
        };
        Ok(Winograd4x4 {
            transforms: module.kernel("winograd_4x4_transforms")?,
            output: module.kernel("winograd_4x4_output")?,
            tiles: SHAPES.iter().map(load).collect::<Result<_>>()?,
            processors: processors(device),
            given: None,
            buffers: Mutex::default(),
        })
    }

    /// Bytes that launches have allocated.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    fn plan(&self, geometry: &Geometry) -> Option<Plan> {
        let plan = fastest(self.tiles.iter().map(|loaded| loaded.tile), geometry, self.processors)?;
        Some(self.given.map_or(plan, |(cuts, tiles)| Plan { cuts: Cuts::new(steps(geometry), cuts), tiles, ..plan }))
    }
}

impl Buffers {
    /// Returns all three with at least these lengths.
    fn get(&mut self, stream: &Stream, lens: [usize; 3]) -> Result<Option<[&mut Buffer<f32>; 3]>> {
        for (buffer, len) in self.0.iter_mut().zip(lens) {
            if buffer.as_ref().is_none_or(|buffer| buffer.len() < len) {
                // The smaller one goes first: the two are never there together.
                *buffer = None;
                *buffer = Some(stream.alloc_uninit(len)?);
            }
        }
        let [u, v, m] = &mut self.0;
        Ok(u.as_mut().zip(v.as_mut()).zip(m.as_mut()).map(|((u, v), m)| [u, v, m]))
    }

    fn bytes(&self) -> usize {
        self.0.iter().flatten().map(Buffer::num_bytes).sum()
    }
}

/// The model's plan for the fastest tile; `None` if the step does not take the geometry.
pub(super) fn estimate(geometry: &Geometry, processors: usize) -> Option<Plan> {
    fastest(SHAPES.iter(), geometry, processors)
}

fn fastest(tiles: impl Iterator<Item = &'static Tile>, geometry: &Geometry, processors: usize) -> Option<Plan> {
    if !step17_winograd::fits(geometry) {
        return None;
    }
    let steps = steps(geometry);
    let each = tiles_each(geometry);
    let most = (steps / 2).clamp(1, MOST_CUTS);
    let plans =
        tiles.flat_map(|tile| (1..=most).map(move |cuts| (tile, Cuts::new(steps, cuts)))).map(|(tile, cuts)| {
            let microseconds = time(geometry, tile, cuts, each, processors);
            Plan { tile: tile.name, cuts, tiles: each, microseconds }
        });
    plans.min_by(|a, b| a.microseconds.total_cmp(&b.microseconds))
}

/// Approximate microseconds on an H200 of a launch with the weights' transform and `each` tiles at a time.
fn time(geometry: &Geometry, tile: &Tile, cuts: Cuts, each: usize, processors: usize) -> f64 {
    let all = all_tiles(geometry);
    let pass = |tiles: usize| {
        let [_, v, m] = lens(geometry, tiles, cuts);
        let blocks = product_blocks(geometry, tile, tiles);
        let product = tile.cost.blocks_time(blocks, cuts.count, cuts.steps_each, processors);
        3.0 * LAUNCH.1 + VALUE * (v + m) as f64 + product
    };
    let (whole, rest) = (all / each, all % each);
    let passes = whole as f64 * pass(each) + if rest > 0 { pass(rest) } else { 0.0 };
    let input = [geometry.images, geometry.channels, geometry.height, geometry.width];
    let values = input.map(f64::from).iter().product::<f64>() + f64::from(geometry.outputs);
    let pairs = f64::from(geometry.channels) * f64::from(geometry.out_channels);
    LAUNCH.0 - LAUNCH.1 + PAIR * pairs + VALUE * values + passes
}

fn count(value: i32) -> usize {
    value.unsigned_abs() as usize
}

/// Number of steps along the channels.
fn steps(geometry: &Geometry) -> usize {
    count(geometry.channels).div_ceil(CHANNELS)
}

/// Number of tiles of 4 × 4 outputs of all images.
fn all_tiles(geometry: &Geometry) -> usize {
    let [height, width] = geometry.out_size;
    count(geometry.images) * count(height).div_ceil(4) * count(width).div_ceil(4)
}

/// Number of tiles that pass through V and M at a time: as many as fit, in passes of about the same size.
fn tiles_each(geometry: &Geometry) -> usize {
    let bytes = (count(geometry.channels) + count(geometry.out_channels)) * PLACES * size_of::<f32>();
    let most = (BYTES / bytes.max(1)).max(WHOLE);
    let all = all_tiles(geometry).max(1);
    all.div_ceil(all.div_ceil(most)).next_multiple_of(WHOLE).min(all)
}

/// Number of values of U, of V and of M for this number of tiles.
fn lens(geometry: &Geometry, tiles: usize, cuts: Cuts) -> [usize; 3] {
    let channels = count(geometry.channels).next_multiple_of(CHANNELS);
    let (row, out_channels) = (tiles.next_multiple_of(ROW), count(geometry.out_channels));
    [
        PLACES * channels * out_channels.next_multiple_of(ROW),
        PLACES * channels * row,
        PLACES * out_channels * row * cuts.count,
    ]
}

/// Blocks of a product for this number of tiles, without cuts.
fn product_blocks(geometry: &Geometry, tile: &Tile, tiles: usize) -> usize {
    let rows = count(geometry.out_channels).next_multiple_of(ROW).div_ceil(tile.size[0]);
    PLACES * rows * tiles.next_multiple_of(ROW).div_ceil(tile.size[1])
}

impl Algorithm for Winograd4x4 {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let Call { stream, input, weight, bias, scalars, geometry, output } = call;
        let (Some(plan), true) = (self.plan(&geometry), step17_winograd::fits(&geometry)) else {
            return Err(unsupported(stream, STEP.name, step17_winograd::FOR));
        };
        let Some(LoadedTile { tile, threads, shared_bytes, kernel }) =
            self.tiles.iter().find(|loaded| loaded.tile.name == plan.tile)
        else {
            return Err(Error::Invalid(format!("convolution `{}` has no tile {}", STEP.name, plan.tile)));
        };
        let all = all_tiles(&geometry);
        let each = plan.tiles.min(all);
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some([u, v, m]) = buffers.get(stream, lens(&geometry, each, plan.cuts))? else { return Ok(()) };
        let (channels, out_channels) = (count(geometry.channels), count(geometry.out_channels));
        let transform = |blocks: usize| {
            let grid_dim = (block_count(stream, STEP.name, blocks)?, 1, 1);
            Ok::<_, Error>(LaunchConfig { grid_dim, block_dim: ((LANES * WARPS) as u32, 1, 1), shared_mem_bytes: 0 })
        };
        let channel_blocks = channels.next_multiple_of(CHANNELS) / WARPS;

        for first in (0..all).step_by(each) {
            let tiles = each.min(all - first);
            let across = tiles.div_ceil(LANES);
            let blocks = block_count(stream, STEP.name, product_blocks(&geometry, tile, tiles))?;
            // No more than outputs.
            let (first, tiles, cuts) = (first as i32, tiles as i32, plan.cuts.count as i32);

            // Weights are transformed in the first pass.
            let of_weights = if first == 0 { out_channels.div_ceil(ROW) * channel_blocks } else { 0 };
            let config = transform(of_weights + across * channel_blocks)?;
            let of_weights = of_weights as i32;
            let mut launch = stream.launch_builder(&self.transforms);
            launch.arg(weight).arg(&mut *u).arg(&of_weights).arg(input).arg(&mut *v);
            launch.arg(&geometry).arg(&first).arg(&tiles);
            // SAFETY: a thread writes 36 values for a pair of channels, or for a tile and a channel, up to whole rows and steps,
            // which U and V hold; it reads weights of channels that there are, and compares tiles, channels, rows and columns
            // with the geometry, which was derived from the shapes of the tensors given.
            unsafe { launch.launch(config)? };

            let steps_each = plan.cuts.steps_each as i32;
            let mut launch = stream.launch_builder(kernel);
            launch.arg(&*u).arg(&*v).arg(&mut *m).arg(&geometry).arg(&tiles).arg(&steps_each);
            let config = LaunchConfig {
                grid_dim: (blocks, plan.cuts.count as u32, 1),
                block_dim: (*threads, 1, 1),
                shared_mem_bytes: *shared_bytes,
            };
            // SAFETY: there is a block for each cut of each tile of each place, which compares rows and columns with those of U, V
            // and M, and takes the steps that there are.
            unsafe { launch.launch(config)? };

            let config = transform(across * out_channels.div_ceil(WARPS))?;
            let mut launch = stream.launch_builder(&self.output);
            launch.arg(&*m).arg(bias).arg(&mut *output).arg(&geometry).arg(&first).arg(&tiles).arg(&cuts).arg(&scalars);
            // SAFETY: a thread reads the 36 values of a tile and a channel that there are, of each cut, and writes those of its
            // outputs that lie in the image.
            unsafe { launch.launch(config)? };
        }
        Ok(())
    }

    fn has_epilogue(&self) -> bool {
        true
    }

    fn workspace_bytes(&self, geometry: &Geometry) -> usize {
        let plan = self.plan(geometry);
        let lens = plan.map(|plan| lens(geometry, plan.tiles.min(all_tiles(geometry)), plan.cuts));
        lens.map_or(0, |lens| lens.iter().sum::<usize>() * size_of::<f32>())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::shapes::Shape;
    use super::*;

    fn geometry(shape: Shape) -> Geometry {
        let (x, w) = (Tensor::shape_only(&shape.input()), Tensor::shape_only(&shape.weight()));
        Geometry::new(&x, &w, shape.params(), shape.output()).unwrap()
    }

    /// The tile and cuts that were fastest on an H200's 132 processors; where it was within 2 %, another.
    #[test]
    fn the_model_picks_what_was_measured_fastest() {
        for (name, tile, cuts) in [
            ("64→64 3 @56 ×32", "64x128", 1),
            ("128→128 3 @28 ×32", "128x32", 1),
            ("256→256 3 @14 ×32", "128x32", 1),
            ("640→640 3 @32 ×2", "64x128", 1),
            ("1280→1280 3 @16 ×2", "128x32", 1),
            ("128→128 3 @28 ×1", "128x32", 1),
            ("512→512 3 @7 ×1", "128x32", 2),
        ] {
            let plan = estimate(&geometry(Shape::from_name(name).unwrap()), 132).unwrap();
            assert_eq!((plan.tile, plan.cuts.count), (tile, cuts), "{name}");
        }
    }

    #[test]
    fn a_large_batch_goes_through_v_and_m_in_parts() {
        let shape = Shape::from_name("64→64 3 @56 ×32").unwrap();
        for (images, parts) in [(32, 1), (320, 5)] {
            let geometry = geometry(shape.images(images));
            let each = tiles_each(&geometry);
            assert_eq!(all_tiles(&geometry).div_ceil(each), parts);
            let [_, v, m] = lens(&geometry, each, Cuts::new(4, 1));
            assert!((v + m) * size_of::<f32>() <= BYTES);
        }
    }

    /// The derivation in the module's doc, in numbers.
    #[test]
    fn the_bound_follows_from_the_matrices() {
        let (a, b): (f64, f64) = (0.625, 1.5);
        let (a2, b2) = (a * a, b * b);
        let (p, q) = (2.0 * a2 * (a2 - b2), 2.0 * b2 * (b2 - a2));
        let ends = a2 * b2 + (a2 + b2) + 1.0;
        // |G| · |Bᵀ|, row by row.
        let [at_0, at_a, at_b, at_infinity] = [
            ends / (a2 * b2),
            (1.0 + a + a2) / p.abs() * (1.0 + a) * (1.0 + b2),
            (1.0 + b + b2) / q.abs() * (1.0 + b) * (1.0 + a2),
            ends,
        ];
        for (value, most) in [(at_0, 5.143), (at_a, 7.329), (at_b, 1.974), (at_infinity, 4.520)] {
            assert!(value <= most && value > most - 0.001, "{value}");
        }
        let row = |power: i32| 2.0 * (a.powi(power) * at_a + b.powi(power) * at_b);
        let most = [at_0 + row(0), row(1), row(2), row(3) + at_infinity].into_iter().fold(0.0, f64::max);
        assert!(most <= 23.75 && most * most <= 565.0, "{most}");
    }
}
