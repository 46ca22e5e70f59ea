//! The product before the ladder: C = A · B, row-major, one thread per element. [`super::LADDER`] begins with the same loop for
//! two layouts of B and an epilogue.

use common::prelude::*;

use super::LARGEST;

/// `kernels/gemm_00_plain.cu`.
pub const SOURCE: KernelSource = kernel_source!("gemm_00_plain");

/// Threads of a block along a row and down a column of C.
const BLOCK: u32 = 16;

/// C = A · B with `kernel` from [`SOURCE`]: `a` \[M, K\], `b` \[K, N\] and `c` \[M, N\], all on the stream's device.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not match, [`Error::Unsupported`] if a size exceeds [`LARGEST`], or errors of the launch: a
/// grid is at most 65,535 blocks high, so M may be 1,048,560.
// ANCHOR: launch
pub fn gemm_plain(stream: &Stream, kernel: &Kernel, a: &Tensor, b: &Tensor, c: &mut Tensor) -> Result<()> {
    let ([m, k], [_, n]) = (a.dims("gemm's A")?, c.dims("gemm's C")?);
    b.expect_shape("gemm's B", &[k, n])?;
    c.expect_shape("gemm's C", &[m, n])?;
    let (rows, columns, depth) = (count(stream, m)?, count(stream, n)?, count(stream, k)?);
    // Blocks of 16 × 16 threads, enough of them to cover C; x goes along a row.
    let grid_dim = (columns.div_ceil(BLOCK), rows.div_ceil(BLOCK), 1);
    if grid_dim.0 == 0 || grid_dim.1 == 0 {
        return Ok(()); // C is empty, and a grid must not be
    }
    let config = LaunchConfig { grid_dim, block_dim: (BLOCK, BLOCK, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(kernel);
    launch.arg(a.buffer()?).arg(b.buffer()?).arg(c.buffer_mut()?).arg(&rows).arg(&columns).arg(&depth);
    // SAFETY: the kernel compares row and column with M and N, and the shapes of the three tensors were compared.
    unsafe { launch.launch(config) }
}
// ANCHOR_END: launch

/// A size as the kernel's `int`.
fn count(stream: &Stream, size: usize) -> Result<u32> {
    u32::try_from(size).ok().filter(|_| size <= LARGEST).ok_or_else(|| Error::Unsupported {
        what: format!("the plain GEMM of a size of {size}"),
        device: stream.device().short_name(),
        reason: format!("the kernel counts to {LARGEST} in each of M, N and K"),
    })
}
