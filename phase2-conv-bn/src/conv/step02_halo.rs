//! Step 2: the input that a block of outputs covers, fetched once per channel into shared memory.
//!
//! Hypothesis: with a 3×3 window each input value is under nine windows of the same channel, so fetching it once per block cuts
//! the global loads of the input to about a seventh (324 values for 256 outputs, in place of 2304). Change: a halo tile in shared
//! memory, two barriers per channel.
//!
//! Measured in `book/pages/phase2/conv-direct.md`.

use common::prelude::*;

use super::{Algorithm, Call, Geometry, Load, Step, unsupported};

/// `kernels/conv_02_halo.cu`. It takes every shape whose halo fits a block's shared memory.
pub(super) const STEP: Step = Step {
    number: 2,
    name: "halo tile",
    idea: "the input of a block of outputs in shared memory, a channel at a time",
    source: kernel_source!("conv_02_halo"),
    method: Load(|device, source| {
        let module = device.load(source)?;
        Ok(Box::new(Halo { kernel: module.kernel("conv_halo")?, tile: module.constant("TILE")? }))
    }),
};

#[derive(Debug)]
struct Halo {
    kernel: Kernel,
    /// Rows and columns of the output per block.
    tile: usize,
}

impl Halo {
    /// Rows and columns of the input that a block's outputs cover.
    fn size(&self, geometry: &Geometry) -> [usize; 2] {
        let size = |value: i32| value.unsigned_abs() as usize;
        [0, 1].map(|of| {
            let window = size(geometry.window[of]).saturating_sub(1) * size(geometry.dilation[of]) + 1;
            (self.tile - 1) * size(geometry.stride[of]) + window
        })
    }
}

impl Algorithm for Halo {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let (tile, [height, width]) = (self.tile, self.size(&geometry));
        let bytes = height.saturating_mul(width).saturating_mul(size_of::<f32>());
        let most = call.stream.device().properties().shared_per_block_optin;
        let fits = u32::try_from(bytes).ok().filter(|&bytes| bytes <= most);
        let Some(shared_mem_bytes) = fits else {
            let reason = format!(
                "{tile}×{tile} outputs cover {height}×{width} input values, {bytes} bytes, and a block has {most} bytes of \
                 shared memory"
            );
            return Err(unsupported(call.stream, STEP.name, reason));
        };
        let tiles = |size: i32| size.unsigned_abs().div_ceil(tile as u32);
        // No more than outputs, since each tile has one at least.
        let [planes_down, planes_across] = geometry.out_size.map(tiles);
        let blocks =
            planes_down * planes_across * geometry.out_channels.unsigned_abs() * geometry.images.unsigned_abs();
        // They fit shared memory, so an i32 too.
        let [height, width] = [height as i32, width as i32];
        let mut launch = call.launch_builder(&self.kernel);
        launch.arg(&height).arg(&width);
        let config =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: ((tile * tile) as u32, 1, 1), shared_mem_bytes };
        // SAFETY: a block for each tile of each plane of the output, of which the kernel writes what lies inside; shared memory
        // holds the halo, in which every tap of the tile's windows lies; rows and columns outside the image are not read.
        unsafe { launch.launch(config) }
    }
}
