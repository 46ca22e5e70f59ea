//! Step 3: eight output channels × four pixels per thread, in registers.
//!
//! Hypothesis: what step 2 still loads for each multiply-add, a value and a weight, serves 32 multiply-adds with 4 values and 8
//! weights: three eighths of a load each in place of two. Change: 32 sums per thread; weights in shared memory, 64 taps at a time;
//! the input straight from the caches.
//!
//! Measured in `book/pages/phase2/conv-direct.md`. Registers: the `resources` table.

use common::prelude::*;

use super::{Algorithm, Call, Load, Step};

/// `kernels/conv_03_registers.cu`. It takes every shape.
pub(super) const STEP: Step = Step {
    number: 3,
    name: "registers",
    idea: "8 output channels × 4 pixels of a row per thread",
    source: kernel_source!("conv_03_registers"),
    method: Load(|device, source| {
        let module = device.load(source)?;
        Ok(Box::new(Registers {
            kernel: module.kernel("conv_registers")?,
            channels: module.constant("CHANNELS")? as u32,
            pixels: module.constant("PIXELS")? as u32,
            threads: module.constant("THREADS")? as u32,
        }))
    }),
};

#[derive(Debug)]
struct Registers {
    kernel: Kernel,
    /// Output channels and pixels per thread.
    channels: u32,
    pixels: u32,
    /// Threads per block.
    threads: u32,
}

impl Algorithm for Registers {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let [rows, columns] = geometry.out_size.map(i32::unsigned_abs);
        let threads = geometry.images.unsigned_abs() * rows * columns.div_ceil(self.pixels);
        // No more than outputs, since each block has one at least.
        let blocks = threads.div_ceil(self.threads)
            * geometry.group_outputs.unsigned_abs().div_ceil(self.channels)
            * geometry.groups.unsigned_abs();
        let mut launch = call.launch_builder(&self.kernel);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (self.threads, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: a thread for each group of pixels of a row and of channels; the kernel compares channels, pixels and
        // taps with the geometry, which was derived from the shapes of the tensors given, and reads only inside the image.
        unsafe { launch.launch(config) }
    }
}
