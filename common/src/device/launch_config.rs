//! The geometry of a launch.

/// The geometry of a launch: blocks in the grid, threads in a block, bytes of dynamic shared memory per block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid_dim: (u32, u32, u32),
    /// Threads of a block in x, y, z.
    pub block_dim: (u32, u32, u32),
    /// Bytes of dynamic shared memory per block.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// At least `n` threads, in blocks of 256. (cudarc's `for_num_elems` takes blocks of 1024.)
    pub fn for_threads(n: u32) -> LaunchConfig {
        LaunchConfig::linear(n, 256)
    }

    /// At least `n` threads, in blocks of `block`. The last block may have threads to spare, so the kernel compares its index
    /// with n. For n = 0 there is still one block: CUDA has no empty grids.
    pub fn linear(n: u32, block: u32) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (n.div_ceil(block.max(1)).max(1), 1, 1),
            block_dim: (block, 1, 1),
            shared_mem_bytes: 0,
        }
    }
}
