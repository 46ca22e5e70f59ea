//! Step 18: a 1×1 window is a matrix product, with the input for its second matrix as it lies in memory.
//!
//! Hypothesis: without a window nothing has to be gathered, so a 1×1 convolution runs at the speed of a product of the same
//! size; what remains to be lost is the sectors that a stride of 2 leaves half unused. Change: a GEMM of tiles of 64 × 64 and 8 × 4
//! sums per thread, whose columns are the pixels of all images, numbered in one row.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`.

use common::prelude::*;

use super::{Algorithm, Call, Load, Step, unsupported};

/// `kernels/conv_18_pointwise.cu`. It takes windows of 1×1 with any stride, one group, no padding.
pub(super) const STEP: Step = Step {
    number: 18,
    name: "pointwise",
    idea: "1×1: a matrix product on the input as it lies",
    source: kernel_source!("conv_18_pointwise"),
    method: Load(|device, source| {
        let module = device.load(source)?;
        Ok(Box::new(Pointwise {
            kernel: module.kernel("conv_pointwise")?,
            tile: [module.constant("BM")?, module.constant("BN")?],
            threads: module.constant("THREADS")? as u32,
        }))
    }),
};

#[derive(Debug)]
struct Pointwise {
    kernel: Kernel,
    /// Output channels and pixels per block.
    tile: [usize; 2],
    threads: u32,
}

impl Algorithm for Pointwise {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let reason = if geometry.window != [1, 1] {
            "the window is not 1×1"
        } else if geometry.padding != [0, 0] {
            "there is padding, whose zeros are in no matrix"
        } else if geometry.groups != 1 {
            "there are groups, each a product of its own"
        } else {
            ""
        };
        if !reason.is_empty() {
            return Err(unsupported(call.stream, STEP.name, reason));
        }
        // No more than outputs, since each tile has one at least.
        let blocks = geometry.tiles(self.tile) as u32;
        let mut launch = call.launch_builder(&self.kernel);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: a block for each tile of [K, N·P·Q], of which the kernel writes what lies inside; without padding every pixel's
        // row and column, times the stride, lies in the image; the geometry was derived from the shapes of the tensors given.
        unsafe { launch.launch(config) }
    }
}
