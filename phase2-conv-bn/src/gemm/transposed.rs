//! Products whose A is given as its transpose: dW = gᵀ·x of a linear layer.

use common::limits::fits_i32;
use common::prelude::*;

use super::tiles::{self, LoadedTile, TileShape};
use super::{Epilogue, LARGEST, Layout, Scalars, Size, step18_tuned};

/// C = A·B with `a` \[K, M\] and `b` \[K, N\], row-major: the tiles of step 18, whose copies of A do not transpose. Compute capability
/// 8.0 and up.
#[derive(Clone, Debug)]
pub struct TransposedA {
    tiles: Vec<LoadedTile>,
    processors: usize,
}

impl TransposedA {
    /// Loads the kernels `gemm_tn_…` of a file.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] before compute capability 8.0.
    pub fn load(device: &Device, source: &KernelSource) -> Result<TransposedA> {
        let module = device.load(source)?;
        let load = |shape: &TileShape| LoadedTile::load(device, &module, *shape, ["tn"; 2]).transpose();
        let tiles = step18_tuned::STEP.method.tiles().iter().filter_map(load).collect::<Result<_>>()?;
        Ok(TransposedA { tiles, processors: device.properties().multiprocessors.unwrap_or(1) as usize })
    }

    /// The same with only one of its tiles; `None` if it does not have that tile.
    pub fn with_tile(&self, tile: [usize; 2]) -> Option<TransposedA> {
        let mut only = self.tiles.iter().find(|loaded| loaded.shape.tile == tile)?.clone();
        only.shape.tiles_each = 0.0;
        Some(TransposedA { tiles: vec![only], ..*self })
    }

    /// Queues C = A·B with `a` \[K, M\], `b` \[K, N\] and `c` \[M, N\], all on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match, [`Error::Unsupported`] if one of M, N, K exceeds [`LARGEST`], or the one tile
    /// of [`TransposedA::with_tile`] is for whole tiles; [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, a: &Tensor, b: &Tensor, c: &mut Tensor) -> Result<()> {
        let ([k, m], [_, n]) = (a.dims("gemm's A")?, c.dims("gemm's C")?);
        c.expect_shape("gemm's C", &[m, n])?;
        b.expect_shape("gemm's B", &[k, n])?;
        let size = Size { m, n, k };
        let unsupported = |reason: String| Error::Unsupported {
            what: format!("GEMM with a transposed A of M = {m}, N = {n}, K = {k}"),
            device: stream.device().short_name(),
            reason,
        };
        if m.max(n).max(k) > LARGEST {
            return Err(unsupported(format!("the kernel counts to {LARGEST} in each of them")));
        }
        if c.is_empty() {
            return Ok(());
        }
        let plan = tiles::choose(&self.tiles, size, Layout::RowMajor, self.processors);
        let (tile, kernel) = plan.ok_or_else(|| unsupported("it has no kernel for part of a tile".to_owned()))?;
        let blocks = fits_i32("gemm", "the number of tiles", tile.geometry.count(size))?.unsigned_abs();
        let [rows, columns, depth] = [m, n, k].map(|size| size as i32); // up to LARGEST
        let scalars = Scalars::from(&Epilogue::default());
        let mut launch = stream.launch_builder(kernel);
        launch.arg(a.buffer()?).arg(b.buffer()?).arg(None::<&Buffer<f32>>);
        launch.arg(c.buffer_mut()?).arg(&rows).arg(&columns).arg(&depth).arg(&scalars);
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (tile.geometry.block[0], 1, 1),
            shared_mem_bytes: tile.geometry.shared_bytes,
        };
        // SAFETY: the kernel writes C [M, N] and reads A [K, M] and B [K, N] alone, whose shapes were compared; there is one block for
        // each tile of C.
        unsafe { launch.launch(config) }
    }
}
