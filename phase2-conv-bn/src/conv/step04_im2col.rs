//! Step 4: im2col and a matrix product.
//!
//! Hypothesis: the GEMM ladder's tiles are far ahead of step 3, and a convolution is a product once its windows are the columns
//! of a matrix. The price is memory: C·R·S × N·P·Q values, for 3×3 nine times the input, written and read back. At 64 channels
//! of 56 × 56 and batch 32 that is 231 MB, 0.1 ms at 4.8 TB/s, beside 0.11 ms for the arithmetic at its peak. Change: a kernel
//! that writes the matrix, then the tiles of step 10 of the GEMM ladder.
//!
//! Measured in `book/pages/phase2/conv-gemm.md`. The bytes: [`super::Conv::workspace_bytes`].

use std::sync::{Mutex, PoisonError};

use common::device::Module;
use common::prelude::*;

use super::{Algorithm, Call, Geometry, Load, Step, unsupported};
use crate::gemm::LARGEST;

/// `kernels/conv_04_im2col.cu`. It takes every shape with up to [`LARGEST`] pixels and 65535 groups; compute capability 8.0 and up, for
/// `cp.async`.
pub(crate) const STEP: Step = Step {
    number: 4,
    name: "im2col",
    idea: "windows written out as columns, then a matrix product",
    source: kernel_source!("conv_04_im2col"),
    method: Load(|device, source| {
        let module = device.load(source)?;
        Ok(Box::new(Im2col {
            gather: module.kernel("im2col")?,
            whole: Product::load(&module, "im2col_multiply_whole", "Whole")?,
            any: Product::load(&module, "im2col_multiply_any", "Any")?,
            columns: Mutex::new(None),
        }))
    }),
};

/// A kernel that multiplies, and the tile that its launch needs.
#[derive(Debug)]
struct Product {
    kernel: Kernel,
    /// Output channels, pixels and taps.
    tile: [usize; 3],
    threads: u32,
    shared_bytes: u32,
}

impl Product {
    /// The kernel `name`, whose tile is the struct `shape` of the kernel file.
    fn load(module: &Module, name: &str, shape: &str) -> Result<Product> {
        let of_shape = |constant: &str| module.constant(&format!("{shape}::{constant}"));
        Ok(Product {
            kernel: module.kernel(name)?,
            tile: [of_shape("BM")?, of_shape("BN")?, of_shape("BK")?],
            threads: module.constant(&format!("Geometry<{shape}>::THREADS"))? as u32,
            shared_bytes: module.constant(&format!("Geometry<{shape}>::SHARED"))? as u32,
        })
    }
}

/// Maximum number of blocks of a grid in y.
const HIGHEST: u32 = 65_535;

/// Rows of the matrix that each thread of `im2col` writes, where the grid is high enough.
const ROWS_EACH: usize = 8;

#[derive(Debug)]
struct Im2col {
    gather: Kernel,
    /// For products made of whole tiles.
    whole: Product,
    any: Product,
    /// The matrix of the largest call so far. It belongs to one call at a time, since calls follow each other on a stream.
    columns: Mutex<Option<Buffer<f32>>>,
}

fn size(value: i32) -> usize {
    value.unsigned_abs() as usize
}

/// Rows of the matrix of all groups: C·R·S.
fn rows(geometry: &Geometry) -> usize {
    size(geometry.groups) * size(geometry.taps)
}

impl Algorithm for Im2col {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        let (pixels, channels) = (size(geometry.pixels), size(geometry.group_outputs));
        let groups = geometry.groups.unsigned_abs();
        let reason = if pixels > LARGEST {
            format!("the kernel counts to {LARGEST} pixels, and there are {pixels}")
        } else if groups > HIGHEST {
            format!("a grid is {HIGHEST} blocks high, and there are {groups} groups")
        } else {
            String::new()
        };
        if !reason.is_empty() {
            return Err(unsupported(call.stream, STEP.name, reason));
        }
        let values = rows(&geometry) * pixels;
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        if columns.as_ref().is_none_or(|columns| columns.len() < values) {
            // The old one goes first: both may not fit.
            *columns = None;
            *columns = Some(call.stream.alloc_uninit(values)?);
        }
        let Some(columns) = columns.as_mut() else { return Ok(()) };

        if values > 0 {
            let high = rows(&geometry).div_ceil(ROWS_EACH).min(HIGHEST as usize) as u32;
            let across = LaunchConfig::for_threads(geometry.pixels.unsigned_abs());
            let mut launch = call.stream.launch_builder(&self.gather);
            launch.arg(call.input).arg(&mut *columns).arg(&geometry);
            // SAFETY: the kernel writes [C·R·S, N·P·Q], which `columns` holds, and reads only inside the image.
            unsafe { launch.launch(LaunchConfig { grid_dim: (across.grid_dim.0, high, 1), ..across })? };
        }

        let sizes = [channels, pixels, size(geometry.taps)];
        let is_whole = sizes[2] > 0 && sizes.iter().zip(self.whole.tile).all(|(size, tile)| size.is_multiple_of(tile));
        let product = if is_whole { &self.whole } else { &self.any };
        // No more than outputs, since each tile has one at least.
        let tiles = (channels.div_ceil(product.tile[0]) * pixels.div_ceil(product.tile[1])) as u32;
        let mut launch = call.stream.launch_builder(&product.kernel);
        launch.arg(call.weight).arg(&*columns).arg(call.bias).arg(call.output).arg(&geometry);
        let config = LaunchConfig {
            grid_dim: (tiles, groups, 1),
            block_dim: (product.threads, 1, 1),
            shared_mem_bytes: product.shared_bytes,
        };
        // SAFETY: a block for each tile of each group's product, of which the kernel reads and writes what lies inside, or which
        // lie inside entirely; `columns` was written by the launch before, or has no rows.
        unsafe { launch.launch(config) }
    }

    /// The matrix: 4·C·R·S·N·P·Q.
    fn workspace_bytes(&self, geometry: &Geometry) -> usize {
        rows(geometry) * size(geometry.pixels) * size_of::<f32>()
    }
}
