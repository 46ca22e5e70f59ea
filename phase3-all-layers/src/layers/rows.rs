//! Code shared by the layers that work on one row after another.

use common::limits::fits_i32;
use common::prelude::*;

/// Threads of a block.
const BLOCK: u32 = 256;

/// Maximum length of a row that a single warp handles; longer rows get a block. It is the number of values that a warp holds in
/// registers.
const FOR_A_WARP: u32 = 512;

/// A tensor as rows of its last dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) rows: u32,
    pub(super) columns: u32,
}

impl Rows {
    /// Rows and columns of `x`, as the kernels count them.
    pub(super) fn of(operation: &str, x: &Tensor) -> Result<Rows> {
        let Some((&columns, rows)) = x.shape().split_last() else {
            let detail = "the input has no dimension".to_owned();
            return Err(Error::shape(operation, detail));
        };
        let rows = rows.iter().try_fold(1usize, |rows, &dim| rows.checked_mul(dim));
        Ok(Rows {
            rows: fits_i32(operation, "the number of rows", rows)?.unsigned_abs(),
            columns: fits_i32(operation, "the length of a row", Some(columns))?.unsigned_abs(),
        })
    }

    /// True if there is no value.
    pub(super) fn is_empty(self) -> bool {
        self.rows == 0 || self.columns == 0
    }

    /// Launch with one block per row.
    pub(super) fn block_each(self) -> LaunchConfig {
        LaunchConfig { grid_dim: (self.rows, 1, 1), block_dim: (BLOCK, 1, 1), shared_mem_bytes: 0 }
    }
}

/// The kernels of a step that gives a row to a thread, or to the warp or block that fits its length.
#[derive(Clone, Debug)]
pub(super) enum RowKernels {
    Thread(Kernel),
    /// For rows that begin at multiples of 16 bytes, and for any.
    Groups {
        warp: [Kernel; 2],
        block: [Kernel; 2],
    },
}

impl RowKernels {
    /// `name`: one thread per row.
    pub(super) fn thread(device: &Device, source: &KernelSource, name: &str) -> Result<RowKernels> {
        Ok(RowKernels::Thread(device.kernel(source, name)?))
    }

    /// `name_warp`, `name_warp_any`, `name_block` and `name_block_any`.
    pub(super) fn groups(device: &Device, source: &KernelSource, name: &str) -> Result<RowKernels> {
        let kernel = |suffix: &str| device.kernel(source, &format!("{name}_{suffix}"));
        Ok(RowKernels::Groups {
            warp: [kernel("warp")?, kernel("warp_any")?],
            block: [kernel("block")?, kernel("block_any")?],
        })
    }

    /// The kernel for these rows and its launch.
    pub(super) fn plan(&self, rows: Rows) -> (&Kernel, LaunchConfig) {
        match self {
            RowKernels::Thread(kernel) => (kernel, LaunchConfig::linear(rows.rows, BLOCK)),
            RowKernels::Groups { warp, block } => {
                let [by_16, any] = if rows.columns <= FOR_A_WARP { warp } else { block };
                let kernel = if rows.columns.is_multiple_of(4) { by_16 } else { any };
                let config = if rows.columns <= FOR_A_WARP {
                    LaunchConfig { grid_dim: (rows.rows.div_ceil(BLOCK / 32), 1, 1), ..rows.block_each() }
                } else {
                    rows.block_each()
                };
                (kernel, config)
            }
        }
    }
}
