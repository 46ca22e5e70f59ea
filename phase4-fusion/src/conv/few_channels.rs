//! Convolutions of few channels: the kernels of `conv_04_few_channels.cu`, by their number of steps along K.

use bytemuck::{Pod, Zeroable};
use common::device::{Module, Swizzle, TensorMapConfig};
use common::prelude::*;
use common::tensor::Element;

use super::{Operands, PRECISIONS, Size};
use crate::gemm::{Precision, ROW_BYTES, in_maps};
use crate::tile::blocks_each;

/// Bytes of a word of a window, and words of a step along K.
const WORD: usize = 4;
const STEP_WORDS: usize = 8;

/// Values in a row of a box.
const BOX_LIMIT: usize = 256;

/// The TMA starts at a multiple of this many bytes of a row; elsewhere it stops the kernel.
const COPY_START: usize = 16;

/// The kernels.
#[derive(Clone, Debug)]
pub(super) struct FewChannels {
    kernels: Vec<OfDepth>,
    /// Pixels of the output per block, across and down.
    tile: [usize; 2],
    /// Channels of the output per block.
    channels: usize,
    /// Rows of 16 of those pixels per warpgroup.
    rows_of_group: usize,
    stages: usize,
    threads: u32,
}

/// A kernel for windows up to a number of words.
#[derive(Clone, Debug)]
struct OfDepth {
    precision: Precision,
    steps: usize,
    /// Bytes of shared memory besides the stages.
    shared: usize,
    kernel: Kernel,
}

/// `Layer` of the kernel file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Sizes {
    images: i32,
    outputs: [i32; 2],
    out_channels: i32,
    stride: i32,
    padding: i32,
    filter_y: i32,
    row_values: i32,
    channels: i32,
    first_value: i32,
    lead: i32,
    pitch: i32,
    stage_bytes: i32,
}

impl FewChannels {
    pub(super) fn load(module: &Module) -> Result<FewChannels> {
        let of_depth = |(precision, steps): (Precision, usize)| -> Result<OfDepth> {
            let name = format!("conv_{precision}_{steps}");
            module.expect_constant(&format!("{name}_steps"), steps)?;
            let shared = module.constant(&format!("{name}_shared"))?;
            Ok(OfDepth { precision, steps, shared, kernel: module.kernel(&name)? })
        };
        let [f16, tf32] = PRECISIONS;
        let depths = [(f16, 5), (f16, 10), (tf32, 9), (tf32, 19)];
        Ok(FewChannels {
            kernels: depths.into_iter().map(of_depth).collect::<Result<_>>()?,
            tile: [module.constant("TILE_X")?, module.constant("TILE_Y")?],
            channels: module.constant("CHANNELS")?,
            rows_of_group: module.constant("TILE_Y")? / module.constant("CONSUMERS")?,
            stages: module.constant("STAGES")?,
            threads: module.constant("THREADS")? as u32,
        })
    }

    /// Values of an image's row that a tile needs, from one multiple of 16 bytes to another.
    fn row_of_tile(&self, layer: &Size, precision: Precision) -> usize {
        let Size { filter: [_, c, _, s], stride, .. } = *layer;
        let values = lead(layer, precision) + (self.tile[0] - 1) * stride * c + s * c;
        values.next_multiple_of(COPY_START / precision.input().size())
    }

    /// Rows of an image that a tile needs.
    fn rows_of_tile(&self, layer: &Size) -> usize {
        (self.tile[1] - 1) * layer.stride + layer.filter[2]
    }

    /// The kernel with the fewest steps that covers all words of a window.
    fn of(&self, layer: &Size, precision: Precision) -> Option<&OfDepth> {
        let Size { filter: [_, c, r, s], .. } = *layer;
        let size = precision.input().size();
        let words = r * (lead(layer, precision) * size % WORD + s * c * size).div_ceil(WORD);
        let able = |of: &&OfDepth| of.precision == precision && of.steps * STEP_WORDS >= words;
        self.kernels.iter().filter(able).min_by_key(|of| of.steps)
    }

    /// Why the kernels do not support a layer, if they do not.
    pub(super) fn refusal(&self, layer: &Size, precision: Precision) -> Option<String> {
        let Size { input: [_, c, _, w], filter: [_, _, r, s], stride, .. } = *layer;
        let size = precision.input().size();
        let most = self.kernels.iter().filter(|of| of.precision == precision).map(|of| of.steps * STEP_WORDS).max();
        if c * r * s == 0 || self.of(layer, precision).is_none() {
            let most = most.unwrap_or(0);
            return Some(format!("a window has up to {most} words of 4 bytes, and its rows are whole words"));
        }
        if !(stride * c * size).is_multiple_of(WORD) {
            return Some("the windows of neighbouring pixels must lie whole words apart".to_owned());
        }
        if !(w * c * size).is_multiple_of(COPY_START) {
            return Some("a row of x must be a multiple of 16 bytes".to_owned());
        }
        if self.row_of_tile(layer, precision) > BOX_LIMIT || self.rows_of_tile(layer) > BOX_LIMIT {
            return Some(format!("a tile needs more than {BOX_LIMIT} values or rows of an image at once"));
        }
        None
    }

    /// Number of tiles of pixels, and of channels.
    fn tiles(&self, layer: &Size) -> Option<[usize; 2]> {
        let [n, k, p, q] = layer.output;
        let across = n.checked_mul(p.div_ceil(self.tile[1]))?.checked_mul(q.div_ceil(self.tile[0]))?;
        Some([across, k.div_ceil(self.channels)])
    }

    /// The number of blocks for a layer: no more than can run at once, a whole number for each tile of channels.
    fn grid(&self, layer: &Size, room: usize) -> Option<u32> {
        let [across, channels] = self.tiles(layer)?;
        u32::try_from(across.min((room / channels).max(1)).checked_mul(channels)?).ok()
    }

    pub(super) fn launch<T: Element>(
        &self,
        operands: &Operands<'_>,
        precision: Precision,
        processors: usize,
        y: &mut Tensor,
    ) -> Result<()> {
        const FORMAT: MemoryFormat = MemoryFormat::Nhwc;
        let Operands { stream, epilogue, ref layer, .. } = *operands;
        let Size { input: [n, c, h, w], filter: [_, _, r, s], output: [_, k, p, q], stride, padding } = *layer;
        let of = self.of(layer, precision).ok_or_else(|| Error::Invalid("no kernel for this window".to_owned()))?;
        let size = T::TYPE.size();
        let (row, rows) = (self.row_of_tile(layer, precision), self.rows_of_tile(layer));
        let lead = lead(layer, precision);
        let stage_bytes = (rows * row * size).next_multiple_of(128);
        let shared = (of.shared + self.stages * stage_bytes) as u32;
        let blocks_each = blocks_each(stream.device().properties(), &of.kernel, self.threads, shared);
        let grid = self.grid(layer, processors * blocks_each);
        let grid = grid.ok_or_else(|| Error::Invalid(format!("{} has too many tiles to count", layer.name())))?;
        let bytes = |values: usize| (values * size) as u64;
        let (x, w_buffer) = (operands.x.buffer_of::<T>(FORMAT)?, operands.w.buffer_of::<T>(FORMAT)?);
        let y = y.buffer_of_mut::<T>(FORMAT)?;
        let images = TensorMapConfig {
            strides: vec![bytes(w * c), bytes(h * w * c)],
            ..TensorMapConfig::tiled(
                in_maps(T::TYPE),
                &[(w * c) as u64, h as u64, n as u64],
                &[row as u32, rows as u32, 1],
            )
        };
        let images = stream.tensor_map(x, &images)?;
        let of_box = ROW_BYTES / size;
        let pixels = TensorMapConfig {
            strides: vec![bytes(k), bytes(q * k), bytes(p * q * k)],
            swizzle: Swizzle::Bytes128,
            ..TensorMapConfig::tiled(
                in_maps(T::TYPE),
                &[k, q, p, n].map(|extent| extent as u64),
                &[of_box as u32, self.tile[0] as u32, self.rows_of_group as u32, 1],
            )
        };
        let mut pixels = stream.tensor_map_mut(y, &pixels)?;
        let count = |value: usize| value as i32; // up to LARGEST
        let sizes = Sizes {
            images: count(n),
            outputs: [count(p), count(q)],
            out_channels: count(k),
            stride: count(stride),
            padding: count(padding),
            filter_y: count(r),
            row_values: count(s * c),
            channels: count(c),
            first_value: -count(padding * c + lead),
            lead: count(lead * size),
            pitch: count(row * size),
            stage_bytes: count(stage_bytes),
        };
        let scale = epilogue.scale.map(Tensor::buffer).transpose()?;
        let shift = epilogue.shift.map(Tensor::buffer).transpose()?;
        let residual = epilogue.residual.map(|tensor| tensor.buffer_of::<T>(FORMAT)).transpose()?;
        let activation = epilogue.activation_number();
        let config = LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: shared };
        let mut launch = stream.launch_builder(&of.kernel);
        launch.arg(&images).arg(w_buffer).arg(&mut pixels).arg(scale).arg(shift).arg(residual);
        launch.arg(&epilogue.alpha).arg(&activation).arg_bytes(bytemuck::bytes_of(&sizes)).dependent();
        // SAFETY: the kernel waits for earlier launches before it touches memory; it writes y [N, P, Q, K] and reads x, w, scale and
        // shift [K] and the residual [N, P, Q, K] alone, whose shapes and types were compared, for a layer that it takes; the grid
        // has as many blocks for each tile of channels.
        unsafe { launch.launch(config) }
    }
}

/// Values between the start of a copy and the first window of its tile, which begins at the padding.
fn lead(layer: &Size, precision: Precision) -> usize {
    let of_start = COPY_START / precision.input().size();
    let padding = layer.padding * layer.filter[1];
    padding.next_multiple_of(of_start) - padding
}
