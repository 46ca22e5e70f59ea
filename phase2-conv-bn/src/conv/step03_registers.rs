//! Step 3: eight output channels × four pixels a thread, in registers.
//!
//! Hypothesis: what step 2 still loads for each multiply-add, a value and a weight, serves 32 multiply-adds with 4 values and 8
//! weights: three eighths of a load each in place of two. Change: 32 sums a thread; weights in shared memory, 64 taps at a time;
//! the input straight from the caches. Measured: the `conv` table of `cargo run -p phase5-bench`; registers, in the `resources`
//! table.

use common::prelude::*;

use super::{Algorithm, Call, Load, Step};

/// `kernels/conv_03_registers.cu`. It takes every shape.
pub const STEP: Step = Step {
    number: 3,
    name: "registers",
    idea: "8 output channels × 4 pixels of a row a thread",
    source: kernel_source!("conv_03_registers"),
    method: Load(|device, source| Ok(Box::new(Registers { kernel: device.kernel(source, "conv_registers")? }))),
};

/// Output channels and pixels of a thread, threads of a block.
const CHANNELS: u32 = 8;
const PIXELS: u32 = 4;
const THREADS: u32 = 128;

#[derive(Debug)]
struct Registers {
    kernel: Kernel,
}

impl Algorithm for Registers {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let [rows, columns] = geometry.out_size.map(i32::unsigned_abs);
        let threads = geometry.images.unsigned_abs() * rows * columns.div_ceil(PIXELS);
        // No more than outputs, since each block has one at least.
        let blocks = threads.div_ceil(THREADS)
            * geometry.group_outputs.unsigned_abs().div_ceil(CHANNELS)
            * geometry.groups.unsigned_abs();
        let mut launch = call.launch_builder(&self.kernel);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: a thread for every fourth pixel of a row and eight channels of a group; the kernel compares channels, pixels and
        // taps with the geometry, which was derived from the shapes of the tensors given, and reads only inside the image.
        unsafe { launch.launch(config) }
    }
}
