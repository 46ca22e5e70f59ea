//! Step 5: implicit GEMM. im2col's matrix is what the tiles of a GEMM are filled from, but it is never written.
//!
//! Hypothesis: with im2col the product is fast and the matrix is the cost: each input value written once and read again for
//! every tap. A block that computes the place of a value as it fetches it needs none of that memory. Change: the tile of
//! step 3 of the GEMM ladder, whose columns are pixels and whose loads find their tap by division.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`.

use common::prelude::*;

use super::{Algorithm, Call, Load, Step, block_count};

/// The step. It takes every shape.
pub(super) const STEP: Step = Step {
    number: 5,
    name: "implicit",
    idea: "im2col's matrix is computed where a tile asks for it",
    source: kernel_source!("conv_05_implicit"),
    method: Load(|device, source| {
        let module = device.load(source)?;
        Ok(Box::new(Implicit { kernel: module.kernel("conv_implicit")?, tile: module.constant("TILE")? }))
    }),
};

#[derive(Debug)]
struct Implicit {
    kernel: Kernel,
    /// Output channels, and pixels, per block.
    tile: usize,
}

impl Algorithm for Implicit {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let tile = self.tile;
        let tiles = geometry.tiles([tile, tile]);
        let blocks = block_count(call.stream, STEP.name, tiles)?;
        let mut launch = call.launch_builder(&self.kernel);
        let config =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: ((tile * tile) as u32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: there is a block for each tile of each group's channels and pixels; the kernel compares channels, pixels and
        // taps with the geometry, which was derived from the shapes of the tensors given.
        unsafe { launch.launch(config) }
    }
}
